//! Events in blkparse's format strings.
//!
//! What does not belong here: reading such a string (see [`crate::trace::line_format`]).

use super::line::{EventLine, hexadecimal};
use super::put;
use super::steps::HostTime;
use crate::trace::line_format::{EventFormat, Piece};

impl EventFormat {
    /// Returns whether it shows the time of a request's last step.
    pub fn wants_elapsed(&self) -> bool {
        self.pieces().iter().any(|piece| matches!(piece, Piece::Field { letter: b'u', .. }))
    }

    /// Appends `event` in this format.
    pub fn write(&self, event: &EventLine<'_>, letters: &str, out: &mut Vec<u8>) {
        for piece in self.pieces() {
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
