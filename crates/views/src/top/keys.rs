//! The keys, defined once: what they do, and the page of `?`.

/// A key as the screen knows it; where it came from, the terminal knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopKey {
    /// A character.
    Char(char),
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
    /// Tabulator.
    Tab,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

/// A line of the page of keys.
#[derive(Debug)]
pub struct KeyHelp {
    /// The keys.
    pub keys: &'static str,
    /// The action of these keys.
    pub does: &'static str,
}

const fn key(keys: &'static str, does: &'static str) -> KeyHelp {
    KeyHelp { keys, does }
}

/// All keys.
pub const KEYS: &[KeyHelp] = &[
    key("1 to 6", "devices, processes, files, waits, stages, units; Tab goes on to the next"),
    key("0", "findings in full: evidence, fix and check"),
    key("Up Down", "select a line; also k and j, Page Up, Page Down, Home, End"),
    key("Enter", "what is behind the line: device > process > file > code path"),
    key("Esc", "back; Backspace does the same"),
    key("/", "show only lines with a text; Enter keeps it, Esc removes it"),
    key("< >", "order by the column before or after; r reverses the order of this table"),
    key("o", "hide rows that did nothing; again: show them"),
    key("a", "add up 1 second, 10 seconds, a minute, all since the start"),
    key("[ ]", "a second earlier or later; also Left and Right; { and } are 10 seconds"),
    key("Space", "pause; again: back to now (of a recording: to all of it)"),
    key("s", "save the last minutes as a recording, which every iowhy command reads"),
    key("?", "this page"),
    key("q", "quit; also Ctrl-C"),
];
