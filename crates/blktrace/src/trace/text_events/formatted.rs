//! Lines that `blkparse -f FORMAT` printed, read back by the same format.
//!
//! What does not belong here: the format string (see [`crate::trace::line_format`]).

use super::{TextEvent, TextTool, blkparse, device};
use crate::trace::line_format::{EventFormat, FormatError, Piece};
use crate::trace::{Action, TraceRecord, action};
use std::str;

/// Fields without which a line tells no event: one of each group.
const NEEDED: [(&[u8], &str); 6] = [
    (b"a", "action (%a)"),
    (b"T", "seconds (%T)"),
    (b"t", "nanoseconds (%t)"),
    (b"S", "sector (%S)"),
    (b"nN", "size (%n or %N)"),
    (b"d", "direction (%d)"),
];

/// A format that lines are read by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineLayout(EventFormat);

impl LineLayout {
    /// Reads a format string of blkparse.
    ///
    /// # Errors
    /// Fails if it has an escape that does not exist, or lacks a field without which a line tells
    /// no event.
    pub fn parse(text: &str) -> Result<LineLayout, FormatError> {
        let format = EventFormat::parse(text)?;
        let has = |letters: &[u8]| {
            let is_one = |piece: &Piece| match piece {
                Piece::Text(_) => false,
                Piece::Field { letter, .. } => letters.contains(letter),
            };
            format.pieces().iter().any(is_one)
        };
        match NEEDED.iter().find(|(letters, _)| !has(letters)) {
            Some((_, missing)) => Err(FormatError::Missing(missing)),
            None => Ok(LineLayout(format)),
        }
    }

    /// Reads a line; `None` if it is not of this format, or of an action that is not known.
    pub(super) fn event(&self, line: &str) -> Option<TextEvent> {
        let mut seen = SeenFields::default();
        let mut rest = line;
        let mut pieces = self.0.pieces().iter().peekable();
        while let Some(piece) = pieces.next() {
            rest = match piece {
                Piece::Text(text) => behind(rest, text)?,
                Piece::Field { letter, width, .. } => {
                    let (value, after) = match pieces.peek() {
                        _ if *letter == b'D' => device_at(rest)?,
                        Some(Piece::Text(text)) if text.first() == Some(&b'\n') => {
                            (rest.trim(), "")
                        }
                        Some(Piece::Text(text)) if !text.is_empty() => before(rest, text),
                        Some(_) => adjacent(rest, *width),
                        None => (rest.trim(), ""),
                    };
                    seen.take(*letter, value)?;
                    after
                }
            };
        }
        seen.event()
    }
}

/// What is behind the text of a format; any number of spaces stands for those in it.
fn behind<'a>(line: &'a str, text: &[u8]) -> Option<&'a str> {
    let mut rest = line;
    for part in str::from_utf8(text).ok()?.split_inclusive(char::is_whitespace) {
        let word = part.trim_end();
        rest = rest.strip_prefix(word).or_else(|| rest.trim_start().strip_prefix(word))?;
        if word.len() < part.len() {
            rest = rest.trim_start();
        }
    }
    Some(rest)
}

/// A value and the rest, before the text that follows it.
fn before<'a>(line: &'a str, text: &[u8]) -> (&'a str, &'a str) {
    let line = line.trim_start();
    let first = text.first().map_or(' ', |byte| char::from(*byte));
    let end = if first.is_whitespace() { line.find(char::is_whitespace) } else { line.find(first) };
    let (value, rest) = line.split_at(end.unwrap_or(line.len()));
    (value.trim_end(), rest)
}

/// A value that another one follows directly: as wide as the format says.
fn adjacent(line: &str, width: usize) -> (&str, &str) {
    let end = line.char_indices().nth(width.max(1)).map_or(line.len(), |(at, _)| at);
    let (value, rest) = line.split_at(end);
    (value.trim(), rest)
}

/// `8,16` and the rest, with the spaces that blkparse puts around both numbers.
fn device_at(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let comma = line.find(',')?;
    let minor = line.get(comma + 1..)?;
    let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
    let (value, rest) = line.split_at_checked(comma + 1 + digits)?;
    Some((value, rest.trim_start_matches(' ')))
}

/// The fields of one line.
#[derive(Default)]
struct SeenFields {
    record: TraceRecord,
    action: Option<Action>,
    rwbs: u32,
    seconds: u64,
    nanoseconds: u64,
    device: (u32, u32),
    unplugged: Option<u64>,
    process: Option<String>,
}

impl SeenFields {
    /// Takes a field; `None` if its value is none.
    fn take(&mut self, letter: u8, value: &str) -> Option<()> {
        match letter {
            b'a' => {
                self.action =
                    Some(Action::ALL.iter().copied().find(|action| action.text() == value)?);
            }
            b'c' => self.record.cpu = value.parse().ok()?,
            b'C' => self.process = (!value.is_empty()).then(|| value.to_owned()),
            b'd' => self.rwbs = action::categories_of(value),
            b'D' => {
                let number = device(value)?;
                self.device = (number >> 20, number & 0xf_ffff);
            }
            b'e' => self.record.error = value.parse::<i32>().ok()? as u16,
            b'M' => self.device.0 = value.parse().ok().filter(|major| *major < 1 << 12)?,
            b'm' => self.device.1 = value.parse().ok().filter(|minor| *minor < 1 << 20)?,
            b'n' => self.record.bytes = value.parse::<u32>().ok()?.checked_mul(512)?,
            b'N' => self.record.bytes = value.parse().ok()?,
            b'p' => self.record.pid = value.parse().ok()?,
            b's' => self.record.sequence = value.parse::<i32>().ok()? as u32,
            b'S' => self.record.sector = value.parse().ok()?,
            b't' => self.nanoseconds = value.parse().ok().filter(|ns| *ns < 1_000_000_000)?,
            b'T' => self.seconds = value.parse().ok()?,
            b'U' => self.unplugged = value.parse().ok(),
            _ => {}
        }
        Some(())
    }

    fn event(self) -> Option<TextEvent> {
        let action = self.action?;
        let mut record = self.record;
        let seconds_ns = self.seconds.checked_mul(1_000_000_000)?;
        record.time = seconds_ns.checked_add(self.nanoseconds)?;
        record.device = (self.device.0 << 20) | self.device.1;
        record.action = action as u16;
        record.categories = self.rwbs | action::category::FS | blkparse::phase(action);
        let is_unplug = matches!(action, Action::Unplug | Action::UnplugTimer);
        let unplugged = self.unplugged.filter(|_| is_unplug);
        let payload = unplugged.map_or_else(Vec::new, |count| count.to_be_bytes().to_vec());
        let tool = TextTool::Blkparse;
        let process = self.process;
        Some(TextEvent { record, payload, process, tool, is_error_event: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &str, line: &str) -> Option<TextEvent> {
        LineLayout::parse(format).unwrap().event(line)
    }

    #[test]
    fn columns_and_commas_are_read() {
        let columns = "%D %2c %8s %5T.%9t %5p %2a %3d %S + %n [%C]\\n";
        let line = "  8,16   1       25     3.000000700  6215  Q  WS 2048 + 8 [my job]";
        let event = read(columns, line).unwrap();
        let commas = "%2c,%T.%t,%M,%m,%a,%d,%S,%N,%p,%C\\n";
        let same = read(commas, " 1,3.000000700,8,16,Q,WS,2048,4096,6215,my job").unwrap();
        for event in [&event, &same] {
            let record = event.record;
            assert_eq!((record.time, record.sector, record.bytes), (3_000_000_700, 2048, 4096));
            assert_eq!((record.major(), record.minor(), record.cpu), (8, 16, 1));
            assert_eq!((record.pid, record.action), (6215, Action::Queue as u16));
            assert_eq!(event.process.as_deref(), Some("my job"));
        }
        assert_eq!(event.record.sequence, 25);
        let device_first = read("%D,%a,%d,%T,%t,%S,%n\\n", "  8,16 ,C,R,1,5,7,1").unwrap();
        assert_eq!((device_first.record.minor(), device_first.record.bytes), (16, 512));
        let adjacent = read("%T.%t %3d%2a %S %n", "1.5  WS D 7 1").unwrap();
        assert_eq!(adjacent.record.action, Action::Issue as u16);
    }

    #[test]
    fn other_lines_are_no_events() {
        let format = "%T.%t %a %d %S %n\\n";
        for line in ["", "CPU0 (sda):", "1.5 ZZ W 1 1", "1.9999999999 Q W 1 1", "x Q W 1 1"] {
            assert_eq!(read(format, line), None, "{line}");
        }
        assert!(read(format, "1.5 Q W 1 1").is_some());
    }

    #[test]
    fn a_format_needs_what_makes_an_event() {
        for format in ["%a %T %S %n", "%T.%t %a %d %S", "%a", "%T %d %S %n", "%a %d %S %n"] {
            assert!(matches!(LineLayout::parse(format), Err(FormatError::Missing(_))), "{format}");
        }
        assert!(matches!(LineLayout::parse("\\x"), Err(FormatError::Escape('x'))));
    }
}
