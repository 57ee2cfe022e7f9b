//! Names made safe for a terminal. Anyone can choose process names, paths and cgroups, so
//! characters that move the cursor, reverse the direction of text or are invisible are escaped.

use crate::style::Style;
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// `text` with everything that is not visible escaped: `\n`, `\x1b`, `\u{202e}`. A backslash stays
/// as it is, so that paths and unit names can be copied; JSON has every name exactly.
pub fn escape<'a>(text: &'a str, style: &Style) -> Cow<'a, str> {
    if text.chars().all(|char| is_visible(char, style)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            visible if is_visible(visible, style) => escaped.push(visible),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            control if (control as u32) < 0x100 => {
                // Writing to a String cannot fail.
                write!(escaped, "\\x{:02x}", control as u32).unwrap_or(());
            }
            other => write!(escaped, "\\u{{{:x}}}", other as u32).unwrap_or(()),
        }
    }
    Cow::Owned(escaped)
}

fn is_visible(char: char, style: &Style) -> bool {
    match char {
        ' '..='~' => true,
        _ if !style.unicode => false,
        _ => !is_deceptive(char),
    }
}

/// Whether a character moves, hides or reverses text, is invisible, or replaces bytes that were not
/// text. Combining marks are not among these.
pub(crate) fn is_deceptive(char: char) -> bool {
    match char {
        ' ' => false,
        // Direction: marks, embeddings, overrides, isolates.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        // Invisible: hyphens, joiners, fillers, variation selectors, tags.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' => true,
        '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Interlinear annotations, the replacement character and noncharacters.
        '\u{fff0}'..='\u{ffff}' => true,
        // Private use: their shape depends on the font.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        _ => char.is_control() || char.is_whitespace(),
    }
}

/// The number of columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `columns`: a longer one loses its middle, since paths share their beginning
/// and differ at their end.
pub fn fit(text: &str, columns: usize, style: &Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = style.either("…", "...");
    let Some(room) = columns.checked_sub(width(mark)) else {
        return prefix(text, columns).to_owned();
    };
    let head = prefix(text, room / 3);
    format!("{head}{mark}{}", suffix(text, room - width(head)))
}

/// `text` in at most `columns`: a longer one loses its end.
pub fn cut(text: &str, columns: usize, style: &Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = style.either("…", "...");
    match columns.checked_sub(width(mark)) {
        Some(room) => format!("{}{mark}", prefix(text, room)),
        None => prefix(text, columns).to_owned(),
    }
}

/// As many items of a list as fit in `columns`, with a mark for the others. A first item that does
/// not fit loses its end.
pub fn items_within(text: &str, separator: &str, columns: usize, style: &Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = style.either("…", "...");
    let ends = text.match_indices(separator).map(|(at, found)| at + found.len());
    let shorter = ends.map(|end| format!("{}{mark}", &text[..end]));
    let fitting = shorter.take_while(|text| width(text) <= columns).last();
    fitting.unwrap_or_else(|| cut(text, columns, style))
}

fn prefix(text: &str, columns: usize) -> &str {
    let fits = |end: &usize| width(&text[..*end]) <= columns;
    let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
    ends.take_while(fits).last().map_or("", |end| &text[..end])
}

fn suffix(text: &str, columns: usize) -> &str {
    let fits = |start: &usize| width(&text[*start..]) <= columns;
    let starts = text.char_indices().rev().map(|(at, _)| at);
    starts.take_while(fits).last().map_or("", |start| &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        escape(text, &Style::plain(80)).into_owned()
    }

    #[test]
    fn what_could_deceive_is_shown() {
        assert_eq!(escaped("\x1b[2J\x07evil\r\n\t"), "\\x1b[2J\\x07evil\\r\\n\\t");
        assert_eq!(escaped("a\u{9b}31mb\u{7f}"), "a\\x9b31mb\\x7f");
        assert_eq!(escaped("gpj.\u{202e}exe\u{2066}"), "gpj.\\u{202e}exe\\u{2066}");
        assert_eq!(escaped("a\u{200b}b\u{feff}c\u{ad}d"), "a\\u{200b}b\\u{feff}c\\xadd");
        assert_eq!(escaped("x\u{2028}y\u{a0}z\u{3164}"), "x\\u{2028}y\\xa0z\\u{3164}");
        assert_eq!(escaped("bad \u{fffd} bytes \u{e0041}"), "bad \\u{fffd} bytes \\u{e0041}");
    }

    #[test]
    fn ordinary_names_stay() {
        let names = ["/srv/münchen/文件 (1)", "/home/e\u{301}", "/ก็", r"dev-disk-by\x2duuid", "🙂"];
        for name in names {
            assert_eq!(escaped(name), name);
        }
        let ascii = Style { unicode: false, ..Style::plain(80) };
        assert_eq!(escape("münchen", &ascii), "m\\xfcnchen");
    }

    #[test]
    fn lists_lose_their_last_items() {
        let style = Style::plain(80);
        let within =
            |columns| items_within("dd 7.84 s, rustc 1.58 s, sh 3 ms", ", ", columns, &style);
        assert_eq!(within(32), "dd 7.84 s, rustc 1.58 s, sh 3 ms");
        assert_eq!(within(31), "dd 7.84 s, rustc 1.58 s, …");
        assert_eq!(within(20), "dd 7.84 s, …");
        assert_eq!(within(5), "dd 7…");
    }

    #[test]
    fn the_middle_is_left_out() {
        let style = Style::plain(80);
        assert_eq!(fit("/var/lib/mysql/db/table.ibd", 27, &style), "/var/lib/mysql/db/table.ibd");
        assert_eq!(fit("/var/lib/mysql/db/table.ibd", 16, &style), "/var/…/table.ibd");
        assert_eq!(width(&fit("文件文件文件文件文件", 9, &style)), 9);
        assert_eq!(fit("abcdef", 1, &style), "…");
        assert_eq!(fit("abcdef", 2, &Style { unicode: false, ..style }), "ab");
        assert_eq!(fit("abcdef", 0, &style), "");
        assert_eq!(
            (cut("abcdef", 4, &style).as_str(), cut("abc", 3, &style).as_str()),
            ("abc…", "abc")
        );
    }
}
