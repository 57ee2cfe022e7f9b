//! blkparse's format strings: `%` field specifiers with a width, and a few escapes.

use super::line::{EventLine, hexadecimal};
use super::put;
use super::steps::HostTime;

/// The reason why a format string is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// A backslash before something else than `b`, `n`, `r`, `t`.
    #[error("failed to read the format: \\{0} is no escape\nhint: use \\b \\n \\r \\t")]
    Escape(char),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(Vec<u8>),
    Field { letter: u8, width: usize, has_width: bool, left: bool },
}

/// A format string that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFormat(Vec<Piece>);

impl EventFormat {
    /// The widest column that a width makes.
    const MAX_WIDTH: usize = 4096;

    /// Reads `text`.
    ///
    /// # Errors
    /// Fails if the text has an escape that does not exist.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let (mut pieces, mut literal) = (Vec::new(), Vec::new());
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'%' => match after.split_first() {
                    None => literal.push(b'%'),
                    Some((b'%', after)) => {
                        literal.push(b'%');
                        rest = after;
                    }
                    Some(_) => {
                        let (piece, after) = field(after);
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        pieces.extend(piece);
                        rest = after;
                    }
                },
                b'\\' => {
                    literal.push(escape(after.first().copied())?);
                    rest = after.get(1..).unwrap_or(&[]);
                }
                other => literal.push(*other),
            }
        }
        pieces.push(Piece::Text(literal));
        Ok(EventFormat(pieces))
    }

    /// Returns whether it shows the time of a request's last step.
    pub fn wants_elapsed(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Field { letter: b'u', .. }))
    }

    /// Appends `event` in this format.
    pub fn write(&self, event: &EventLine<'_>, letters: &str, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Field { letter, width, has_width, left } => {
                    let before = out.len();
                    write_field(event, letters, *letter, has_width.then_some(*width), out);
                    if !matches!(letter, b'D' | b'P' | b't') {
                        align(out, before, *width, *left);
                    }
                }
            }
        }
    }
}

fn escape(letter: Option<u8>) -> Result<u8, FormatError> {
    match letter {
        Some(b'b') => Ok(8),
        Some(b'n') => Ok(b'\n'),
        Some(b'r') => Ok(b'\r'),
        Some(b't') => Ok(b'\t'),
        other => Err(FormatError::Escape(other.map_or(' ', char::from))),
    }
}

/// Parses the field after a `%`.
fn field(text: &[u8]) -> (Option<Piece>, &[u8]) {
    let left = text.first() == Some(&b'-');
    let text = if left { text.get(1..).unwrap_or(&[]) } else { text };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    let width = number.iter().fold(0usize, |sum, digit| {
        sum.saturating_mul(10).saturating_add(usize::from(digit - b'0')).min(EventFormat::MAX_WIDTH)
    });
    match rest.split_first() {
        Some((letter, rest)) => {
            let (letter, has_width) = (*letter, digits > 0);
            (Some(Piece::Field { letter, width, has_width, left }), rest)
        }
        None => (None, rest),
    }
}

fn align(out: &mut Vec<u8>, from: usize, width: usize, left: bool) {
    let pad = width.saturating_sub(out.len() - from);
    out.resize(out.len() + pad, b' ');
    if !left && pad > 0 {
        out.get_mut(from..).unwrap_or(&mut []).rotate_right(pad);
    }
}

fn write_field(
    event: &EventLine<'_>,
    letters: &str,
    letter: u8,
    width: Option<usize>,
    out: &mut Vec<u8>,
) {
    let record = event.record;
    match letter {
        b'a' => out.extend_from_slice(letters.as_bytes()),
        b'c' => put::number(out, record.cpu.into()),
        b'C' => out.extend_from_slice(event.name()),
        b'd' => out.extend_from_slice(record.rwbs().as_str().as_bytes()),
        b'D' => put::device(out, record.device),
        b'e' => put::number(out, record.error.into()),
        b'M' => put::number(out, record.major().into()),
        b'm' => put::number(out, record.minor().into()),
        b'n' => put::number(out, record.sectors()),
        b'N' => put::number(out, record.bytes.into()),
        b'p' => put::number(out, record.pid.into()),
        b'P' => hexadecimal(event.command(), out),
        b's' => put::number(out, record.sequence.into()),
        b'S' => put::number(out, record.sector),
        b't' => put::zeroed(out, record.time % 1_000_000_000, width.unwrap_or(9)),
        b'T' => put::number(out, record.time / 1_000_000_000),
        b'u' => match event.elapsed {
            Some(elapsed) => put::number(out, elapsed / 1000),
            None => out.push(b'-'),
        },
        b'U' => put::number(out, event.number()),
        b'z' => wall_clock(event, out),
        other => out.push(other),
    }
}

/// Appends the time of day to the microsecond; in UTC with blkparse's quirks: blkparse prints the
/// same with `TZ=UTC`.
fn wall_clock(event: &EventLine<'_>, out: &mut Vec<u8>) {
    let Some(wall) = event.wall else { return out.push(b'-') };
    let zone = event.local.unwrap_or(HostTime::at(None));
    put::time_of_day(out, zone.of_day(wall), 6);
}
