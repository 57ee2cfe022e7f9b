//! Standard output and standard error. Everything that iowhy prints goes through here.

use crate::failure::Failure;
use iowhy_views::escape::escape;
use iowhy_views::style::Style;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// The style that fits standard output: its width, whether it shows colour and which characters.
pub fn style() -> Style {
    let variable = |name: &str| std::env::var(name).ok();
    let terminal = io::stdout().is_terminal();
    let asked = variable("COLUMNS").and_then(|text| text.parse().ok());
    let width = if terminal { terminal_width().or(asked) } else { asked };
    let colour =
        Style::wants_colour(terminal, variable("NO_COLOR").as_deref(), variable("TERM").as_deref());
    let unicode = Style::wants_unicode(
        variable("LC_ALL").as_deref(),
        variable("LC_CTYPE").as_deref(),
        variable("LANG").as_deref(),
    );
    Style { colour, unicode, ..Style::plain(width.unwrap_or(Style::DEFAULT_WIDTH)) }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Prints a whole screen or document. A reader that closes the pipe early (`| head`) is content,
/// not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("failed to write the answer: {error}"), None))
        }
        _ => Ok(()),
    }
}

/// Standard output, for answers that are written piece by piece.
pub fn answer() -> impl Write {
    io::stdout().lock()
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Says something beside the answer. What a message quotes may hold anything, so it is escaped.
pub fn note(text: &str) {
    // Nobody is left to be told when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{}", escape(text, &style()));
}

/// Says why the command failed, and what to do.
pub fn failure(failure: &Failure) {
    for line in failure.message.lines() {
        note(&format!("iowhy: {line}"));
    }
    if let Some(hint) = &failure.hint {
        note(&format!("hint: {hint}"));
    }
}
