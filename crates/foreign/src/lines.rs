//! Lines of a text, of which the beginnings are kept: no line of a tool is longer.
//!
//! What does not belong here: the content of lines (see [`crate::text`]).

use iowhy_model::figures::counted;
use std::borrow::Cow;
use std::io::{self, BufRead, Read};

/// Bytes of a line that are read; the rest of a longer one is skipped.
const MOST_LINE: u64 = 8 << 10;
/// Bytes of long lines that are skipped in all before reading ends: a text with more of them is no
/// output of a tool, but takes as long to unpack as its author likes.
const MOST_SKIPPED: u64 = 64 << 20;

/// Reads lines of one or more texts, and counts what it skips of long ones.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    skipped: u64,
}

impl LineCutter {
    /// Reads a line, of which [`MOST_LINE`] bytes are kept; false at the end, and where too much
    /// was skipped.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    pub fn next_line(&mut self, input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        if self.has_given_up() {
            return Ok(false);
        }
        let read = input.by_ref().take(MOST_LINE).read_until(b'\n', line)?;
        if read as u64 == MOST_LINE && line.last() != Some(&b'\n') {
            let left = MOST_SKIPPED - self.skipped;
            self.skipped += input.by_ref().take(left).skip_until(b'\n')? as u64;
        }
        if let Cow::Owned(plain) = without_escapes(line) {
            *line = plain;
        }
        Ok(read > 0)
    }

    /// Whether more was skipped than a text of a tool has.
    pub fn has_given_up(&self) -> bool {
        self.skipped >= MOST_SKIPPED
    }

    /// Returns a sentence on the data that is missing because lines are long.
    pub fn limit(&self) -> Option<String> {
        let skipped = counted(self.skipped, "bytes of lines longer than 8 KiB were skipped");
        let end = if self.has_given_up() { ", and what follows them" } else { "" };
        (self.skipped > 0).then(|| skipped + end)
    }
}

/// The byte that begins an escape sequence of a terminal.
const ESCAPE: u8 = 0x1b;

/// Returns text without the escape sequences of terminals: colours (`ESC[34;1m`), titles
/// (`ESC]0;…BEL`) and character sets (`ESC(B`).
pub(crate) fn without_escapes(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&ESCAPE) {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut left = bytes;
    while let Some(at) = left.iter().position(|byte| *byte == ESCAPE) {
        plain.extend_from_slice(&left[..at]);
        left = behind_sequence(&left[at + 1..]);
    }
    plain.extend_from_slice(left);
    Cow::Owned(plain)
}

/// What follows the escape sequence whose first byte was read.
fn behind_sequence(bytes: &[u8]) -> &[u8] {
    let is_end: fn(&u8) -> bool = match bytes.first() {
        Some(b'[') => |byte| (0x40..=0x7e).contains(byte),
        Some(b']') => |byte| *byte == 0x07,
        Some(b'(' | b')') => return bytes.get(2..).unwrap_or(&[]),
        _ => return bytes.get(1..).unwrap_or(&[]),
    };
    let rest = &bytes[1..];
    let end = rest.iter().position(|byte| *byte == b'\n' || is_end(byte)).unwrap_or(rest.len());
    let is_ended = rest.get(end).is_some_and(|byte| *byte != b'\n');
    &rest[end + usize::from(is_ended)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// Lines that are read of `count` long ones of `length` bytes and a short one, and the limit.
    fn read(count: u64, length: u64) -> (u64, Option<String>) {
        let long = (0..count).fold(Box::new(io::empty()) as Box<dyn Read>, |text, _| {
            Box::new(text.chain(io::repeat(b'a').take(length)).chain(&b"\n"[..]))
        });
        let mut input = BufReader::new(long.chain(&b"short\n"[..]));
        let (mut cutter, mut line, mut lines) = (LineCutter::default(), Vec::new(), 0);
        while cutter.next_line(&mut input, &mut line).unwrap() {
            assert!(line.len() as u64 <= MOST_LINE);
            lines += 1;
        }
        (lines, cutter.limit())
    }

    #[test]
    fn escapes_of_terminals_are_no_text() {
        for (bytes, plain) in [
            ("plain", "plain"),
            ("\x1b[34;1m 1.00\x1b[0m\x1b[m 2", " 1.00 2"),
            ("\x1b]0;title\x07a\x1b(Bb\x1b=c", "abc"),
            ("a\x1b[34", "a"),
            ("a\x1b[\nb", "a\nb"),
            ("a\x1b", "a"),
            ("a\x1b(", "a"),
        ] {
            assert_eq!(without_escapes(bytes.as_bytes()), plain.as_bytes(), "{plain}");
        }
    }

    #[test]
    fn long_lines_are_cut_and_a_sum_of_them_is_the_end() {
        assert_eq!(read(3, MOST_LINE - 1), (4, None));
        let (lines, limit) = read(5, 10 << 20);
        assert_eq!(lines, 6);
        assert!(limit.unwrap().ends_with("were skipped"));
        let (lines, limit) = read(7, 10 << 20);
        assert_eq!(lines, 7, "the short one behind them is not read");
        assert!(limit.unwrap().ends_with("and what follows them"));
        assert_eq!(read(1, u64::MAX >> 1).0, 1);
    }
}
