//! Wraps text. A command in backquotes is meant to be copied: it is never broken, and loses the
//! quotes on a line of its own.
//!
//! What does not belong here: what a text says, and tables (see [`crate::table`]).

use crate::escape::width;

/// Units that follow a number and a space.
const UNITS: &[&str] =
    &["%", "ns", "µs", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB"];
/// Indentation of a message's continuation lines, columns.
const INDENT: usize = 2;
/// The most characters in a column of a broken word: marks take none, and a name may be nothing
/// else.
const IN_COLUMN: usize = 8;

/// Wraps `text` to `columns`, at spaces if there are any: for cells of a table.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    lines(text.split(' ').map(|word| (word, false)), columns, usize::MAX).unwrap_or_default()
}

/// Wraps sentences without breaking commands: one that is longer than a line exceeds it.
pub fn prose(text: &str, columns: usize) -> Vec<String> {
    prose_within(text, columns, usize::MAX).unwrap_or_default()
}

/// Wraps sentences to at most `most` lines; `None` if they take more. Text behind them is not
/// folded.
pub fn prose_within(text: &str, columns: usize, most: usize) -> Option<Vec<String>> {
    let pieces = pieces(text, &[]);
    let pieces = pieces.into_iter().map(|piece| (piece, piece.contains('`')));
    let lines = lines(pieces, columns, most)?;
    Some(lines.into_iter().map(|line| bare(line, columns)).collect())
}

/// Wraps a message for a terminal of `columns`; continuation lines are indented. Words are not
/// broken, since they may be paths, nor is anything in `whole`.
pub fn message(text: &str, columns: usize, whole: &[String]) -> Vec<String> {
    let pieces = pieces(text, whole).into_iter().map(|piece| (piece, true));
    let mut lines = lines(pieces, columns.saturating_sub(INDENT), usize::MAX).unwrap_or_default();
    for line in lines.iter_mut().skip(1) {
        *line =
            format!("{:INDENT$}{}", "", bare(std::mem::take(line), columns.saturating_sub(INDENT)));
    }
    lines
}

/// Splits text into pieces that must not be broken: words, commands in backquotes, and texts in
/// `whole`.
fn pieces<'a>(text: &'a str, whole: &[String]) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (piece, next) = rest.split_at(end_of_piece(rest, whole));
        pieces.push(piece);
        match next.strip_prefix(' ') {
            Some(next) => rest = next,
            None => return pieces,
        }
    }
}

/// The end of the first piece of `text`: at a space, or at the end of the text.
fn end_of_piece(text: &str, whole: &[String]) -> usize {
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let kept = whole.iter().find(|text| !text.is_empty() && rest.starts_with(text.as_bytes()));
        at += match (kept, rest[0]) {
            (Some(kept), _) => kept.len(),
            (None, b' ') if !is_before_unit(text, at) => return at,
            (None, b'`') => {
                let closing = rest[1..].iter().position(|byte| *byte == b'`');
                closing.map_or(1, |length| length + 2)
            }
            _ => 1,
        };
    }
    text.len()
}

/// Whether the space at `at` stands between a number and its unit, which belong together.
fn is_before_unit(text: &str, at: usize) -> bool {
    let (before, after) = (&text.as_bytes()[..at], &text[at + 1..]);
    let is_number = before.last().is_some_and(u8::is_ascii_digit);
    let word = after.split(' ').next().unwrap_or_default();
    is_number && UNITS.contains(&word.trim_end_matches([',', ';', '.', ':', ')']))
}

/// Fills lines of at most `columns` with pieces; each has a flag that forbids breaking it. `None`
/// as soon as there are more than `most` lines.
fn lines<'a>(
    pieces: impl IntoIterator<Item = (&'a str, bool)>,
    columns: usize,
    most: usize,
) -> Option<Vec<String>> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    let is_over = |lines: &[String]| {
        lines.len() > most && lines.iter().filter(|line| !line.is_empty()).count() > most
    };
    for (mut piece, whole) in pieces {
        if let Some(line) = lines.last_mut() {
            let gap = usize::from(!line.is_empty());
            if width(line) + gap + width(piece) <= columns {
                line.push_str(&" "[..gap]);
                line.push_str(piece);
                continue;
            }
        }
        // A word may be as long as a file, so its rest is not measured.
        let end = |piece| if whole { usize::MAX } else { break_at(piece, columns) };
        while let Some((line, rest)) =
            piece.split_at_checked(end(piece)).filter(|parts| !parts.1.is_empty())
        {
            lines.push(line.to_owned());
            piece = rest;
            if is_over(&lines) {
                return None;
            }
        }
        lines.push(piece.to_owned());
        if is_over(&lines) {
            return None;
        }
    }
    lines.retain(|line| !line.is_empty());
    Some(if lines.is_empty() { vec![String::new()] } else { lines })
}

/// The end of the first `columns` columns of `word`; at least one character.
fn break_at(word: &str, columns: usize) -> usize {
    let ends = word.char_indices().map(|(at, char)| at + char.len_utf8());
    let near = ends.clone().take(columns.saturating_mul(IN_COLUMN));
    let fitting = near.take_while(|end| width(&word[..*end]) <= columns).last();
    fitting.or(ends.clone().next()).unwrap_or(word.len())
}

/// A line that consists of a command only, without the punctuation around it. A parenthesis that
/// an earlier line opened, or a later one closes, belongs to the sentence: it stays where it fits.
fn bare(line: String, columns: usize) -> String {
    let count = |mark: char| line.matches(mark).count();
    if count('(') != count(')') && width(&line) <= columns {
        return line;
    }
    let inner = line.trim_start_matches('(').trim_end_matches([')', '.', ',', ';', ':']);
    let command = inner.strip_prefix('`').and_then(|inner| inner.strip_suffix('`'));
    match command {
        Some(command) if !command.contains('`') => command.to_owned(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_goes_on_in_the_next_line() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("文件文件", 1), ["文", "件", "文", "件"]);
        assert_eq!(prose("abcdefgh  ij", 9), ["abcdefgh ", "ij"]);
    }

    #[test]
    fn a_word_of_megabytes_is_broken_in_time_that_grows_with_it() {
        assert_eq!(wrap(&"文".repeat(1 << 20), 80).len(), (1 << 20) / 40 + 1);
        // Marks take no column.
        let marks = "\u{301}".repeat(1 << 16);
        assert_eq!(wrap(&marks, 80).concat(), marks);
    }

    #[test]
    fn what_takes_too_many_lines_is_not_folded_further() {
        let text = "one two three four";
        assert_eq!(prose_within(text, 10, 2), Some(prose(text, 10)));
        assert_eq!(prose_within(text, 10, 1), None);
        assert_eq!(prose_within("abcdefghij", 4, 3), Some(prose("abcdefghij", 4)));
        assert_eq!(prose_within("abcdefghij", 4, 2), None);
        assert_eq!(prose_within("", 4, 1), Some(vec![String::new()]));
    }

    #[test]
    fn a_number_stays_beside_its_unit() {
        assert_eq!(prose("it takes 332 ms, on average", 12), ["it takes", "332 ms, on", "average"]);
        assert_eq!(prose("at 22 requests", 6), ["at 22", "reques", "ts"]);
    }

    #[test]
    fn a_command_is_never_broken() {
        let text = "stop it (`kill -STOP 7`) for a while";
        assert_eq!(prose(text, 20), ["stop it", "(`kill -STOP 7`) for", "a while"]);
        assert_eq!(prose(text, 14), ["stop it", "kill -STOP 7", "for a while"]);
        assert_eq!(prose("more: `iowhy explain rec`.", 12), ["more:", "iowhy explain rec"]);
        // The other parenthesis stands on another line.
        assert_eq!(
            prose("a map (Java: use `jcmd PID x`)", 14),
            ["a map (Java:", "use", "`jcmd PID x`)"]
        );
        assert_eq!(prose("slow (`kill 7` stops it)", 11), ["slow", "(`kill 7`", "stops it)"]);
        assert_eq!(prose("a ` that ends nowhere", 10), ["a ` that", "ends", "nowhere"]);
        // A table's cell never exceeds its width.
        assert_eq!(wrap("`ab cd` e", 4), ["`ab", "cd`", "e"]);
    }

    #[test]
    fn a_message_keeps_paths_and_what_the_user_named() {
        let text = "hint: grant it: `sudo setcap cap_bpf+ep \"$(command -v iowhy)\"`; or not";
        let command = "  sudo setcap cap_bpf+ep \"$(command -v iowhy)\"";
        assert_eq!(message(text, 20, &[]), ["hint: grant it:", command, "  or not"]);
        assert_eq!(message(text, 200, &[]), [text]);
        let text = "failed to read /srv/my rec/recording.json: no such file";
        let whole = ["/srv/my rec".to_owned()];
        assert_eq!(
            message(text, 24, &whole),
            ["failed to read", "  /srv/my rec/recording.json:", "  no such file"]
        );
        assert_eq!(message("", 20, &[]), [""]);
    }
}
