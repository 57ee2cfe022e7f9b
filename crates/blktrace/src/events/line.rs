//! The default line of each action, byte for byte as blkparse prints it.

use super::steps::HostTime;
use super::{ProcessNames, put};
use crate::trace::action::{Action, category};
use crate::trace::{RecordBatch, TraceRecord};

/// An event that is being formatted as a line.
#[derive(Clone, Copy, Debug)]
pub struct EventLine<'a> {
    /// The batch that holds the payload.
    pub batch: &'a RecordBatch,
    /// The event; its time counts from the first event.
    pub record: &'a TraceRecord,
    /// Process names.
    pub names: &'a ProcessNames,
    /// Whether blkparse's quirks are repeated.
    pub compatible: bool,
    /// The time of the request's last step, ns, if it is wanted and known.
    pub elapsed: Option<u64>,
    /// The wall clock, ns since 1970, where it is known.
    pub wall: Option<u64>,
    /// The host's local time, where the line has the time of day.
    pub local: Option<HostTime>,
}

/// The column in which the time begins, and its width.
const TIME: (usize, usize) = (20, 15);
/// Columns before the rwbs column.
const HEADER: usize = 44;

/// `N` columns of a header.
#[inline]
fn columns<const N: usize>(header: &mut [u8; HEADER], at: usize) -> Option<&mut [u8; N]> {
    header.get_mut(at..)?.first_chunk_mut::<N>()
}

impl EventLine<'_> {
    /// Returns the action's letters; `None` for actions for which blkparse prints no line.
    pub fn letters(&self) -> Option<&'static str> {
        let Some(action) = self.record.kind() else {
            return if self.compatible { None } else { Some("?") };
        };
        let shown = if self.is_command() {
            use Action::{Complete, GetRequest, Insert, Issue, Queue, Requeue, SleepRequest};
            matches!(
                action,
                Queue | GetRequest | SleepRequest | Requeue | Issue | Complete | Insert
            )
        } else {
            (action as u16) < Action::Abort as u16
        };
        (shown || !self.compatible).then(|| action.text())
    }

    fn is_command(&self) -> bool {
        self.record.categories & category::PC != 0
    }

    /// The name of the process.
    #[inline]
    pub fn name(&self) -> &[u8] {
        self.names.get(self.record.pid)
    }

    /// The number in the payload: blkparse takes the lower 32 bits of a split's sector.
    pub fn number(&self) -> u64 {
        let number = self.batch.number(self.record).unwrap_or(0);
        if self.compatible { number & 0xffff_ffff } else { number }
    }

    /// Returns the payload that is printed in hexadecimal: the command of a pass-through request.
    pub fn command(&self) -> &[u8] {
        let with_command =
            matches!(self.record.kind(), Some(Action::Issue | Action::Complete | Action::Insert));
        if self.is_command() && with_command || !self.compatible && self.is_command() {
            self.batch.payload(self.record)
        } else {
            &[]
        }
    }

    /// Appends a message's line.
    pub fn message(&self, out: &mut Vec<u8>) {
        let text = self.batch.payload(self.record);
        if text.is_empty() && self.compatible {
            return;
        }
        match self.batch.cgroup(self.record) {
            Some(id) if !self.compatible => {
                // Its inode and generation stand before the action, as blkparse 1.3.0 has them.
                self.header(self.record.device, 0, self.record.pid, "", out);
                out.truncate(out.trim_ascii_end().len());
                let text = format!(" {:x},{:x}  m", id & 0xffff_ffff, id >> 32);
                out.extend_from_slice(text.as_bytes());
            }
            _ => self.header(self.record.device, 0, 0, "m", out),
        }
        out.extend_from_slice(b"   N ");
        out.extend_from_slice(text.split(|byte| *byte == 0).next().unwrap_or(&[]));
        out.push(b'\n');
    }

    /// Appends the part before the rwbs column.
    #[inline]
    fn header(&self, device: u32, sequence: i32, pid: u32, letters: &str, out: &mut Vec<u8>) {
        let local = self.local.zip(self.wall);
        match (self.usual_header(device, sequence, pid, letters), local) {
            (Some(header), None) => out.extend_from_slice(&header),
            (Some(header), Some((zone, wall))) => {
                let (before, rest) = header.split_at(TIME.0);
                let (_, behind) = rest.split_at(TIME.1);
                out.extend_from_slice(before);
                zone.put(wall, out);
                out.extend_from_slice(behind);
            }
            (None, _) => self.wide_header(device, sequence, pid, letters, out),
        }
    }

    /// Returns the header if every value fits its column, which nearly all do: one copy.
    #[inline]
    fn usual_header(
        &self,
        device: u32,
        sequence: i32,
        pid: u32,
        letters: &str,
    ) -> Option<[u8; HEADER]> {
        let mut header = *b"   ,                     .000000000         ";
        let time = self.record.time;
        let minor = u64::from(device & 0xf_ffff);
        let mut small = [b' '; 3];
        let fits = put::right_aligned(columns::<3>(&mut header, 0)?, u64::from(device >> 20))
            && put::right_aligned(&mut small, minor)
            && put::right_aligned(columns::<2>(&mut header, 8)?, self.record.cpu.into())
            && put::right_aligned(columns::<8>(&mut header, 11)?, u64::try_from(sequence).ok()?)
            && put::right_aligned(columns::<5>(&mut header, 20)?, time / 1_000_000_000)
            && put::right_aligned(columns::<9>(&mut header, 26)?, time % 1_000_000_000)
            && put::right_aligned(columns::<5>(&mut header, 36)?, pid.into());
        // The minor number is aligned to the left.
        let blanks = usize::from(minor < 10) + usize::from(minor < 100);
        small.rotate_left(blanks);
        *columns::<3>(&mut header, 4)? = small;
        let action = columns::<2>(&mut header, 42)?;
        match letters.as_bytes() {
            [one] => action[1] = *one,
            [one, two] => *action = [*one, *two],
            _ => return None,
        }
        fits.then_some(header)
    }

    #[cold]
    fn wide_header(&self, device: u32, sequence: i32, pid: u32, letters: &str, out: &mut Vec<u8>) {
        let record = self.record;
        put::device(out, device);
        out.push(b' ');
        put::padded(out, record.cpu.into(), 2);
        out.push(b' ');
        put::signed(out, sequence.into(), 8);
        out.push(b' ');
        match self.local.zip(self.wall) {
            Some((zone, wall)) => zone.put(wall, out),
            None => {
                put::padded(out, record.time / 1_000_000_000, 5);
                out.push(b'.');
                put::zeroed(out, record.time % 1_000_000_000, 9);
            }
        }
        out.push(b' ');
        put::padded(out, pid.into(), 5);
        out.push(b' ');
        put::text(out, letters.as_bytes(), 2, false);
    }

    /// Appends the default line.
    #[inline]
    pub fn default(&self, letters: &str, out: &mut Vec<u8>) {
        let record = self.record;
        let remap = match record.kind() {
            Some(Action::Remap) => self.batch.remap(record),
            _ => None,
        };
        let device = remap.map_or(record.device, |remap| remap.to_device);
        self.header(device, record.sequence as i32, record.pid, letters, out);
        out.push(b' ');
        let rwbs = record.rwbs();
        let (letters, len) = rwbs.letters();
        for _ in len..3 {
            out.push(b' ');
        }
        put::short(out, letters, len);
        out.push(b' ');
        match record.kind() {
            Some(Action::Complete | Action::Requeue) => self.end(out),
            Some(Action::Plug) => self.bracket(out),
            Some(Action::Unplug | Action::UnplugTimer) => {
                self.bracket(out);
                out.push(b' ');
                put::number(out, self.number());
            }
            Some(Action::Split) => {
                put::number(out, record.sector);
                out.extend_from_slice(b" / ");
                put::number(out, self.number());
                out.push(b' ');
                self.bracket(out);
            }
            Some(Action::Remap) => {
                self.range(out);
                out.extend_from_slice(b" <- (");
                let (from, sector) =
                    remap.map_or((0, 0), |remap| (remap.from_device, remap.from_sector));
                put::number(out, u64::from(from >> 20));
                out.push(b',');
                put::number(out, u64::from(from & 0xf_ffff));
                out.extend_from_slice(b") ");
                put::number(out, sector);
            }
            _ => self.middle(out),
        }
        out.push(b'\n');
    }

    fn range(&self, out: &mut Vec<u8>) {
        put::number(out, self.record.sector);
        out.extend_from_slice(b" + ");
        put::number(out, self.record.sectors());
    }

    fn bracket(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        self.names.put(self.record.pid, out);
        out.push(b']');
    }

    /// Completions and requeues: the error is in the bracket.
    fn end(&self, out: &mut Vec<u8>) {
        if self.is_command() {
            self.parenthesis(out);
        } else if self.record.sectors() > 0 {
            self.range(out);
            out.push(b' ');
        } else {
            put::number(out, self.record.sector);
            out.push(b' ');
        }
        out.push(b'[');
        put::number(out, self.record.error.into());
        out.push(b']');
    }

    /// Appends the rest of a line of an event on the path to the device: the process is in the
    /// bracket.
    fn middle(&self, out: &mut Vec<u8>) {
        let with_bytes = matches!(
            self.record.kind(),
            Some(Action::Issue | Action::Insert | Action::Queue | Action::Bounce)
        );
        if self.is_command() && with_bytes {
            put::number(out, self.record.bytes.into());
            out.push(b' ');
            self.parenthesis(out);
        } else if self.record.sectors() > 0 {
            self.range(out);
            out.push(b' ');
        }
        self.bracket(out);
    }

    fn parenthesis(&self, out: &mut Vec<u8>) {
        if !self.command().is_empty() {
            out.push(b'(');
            hexadecimal(self.command(), out);
            out.extend_from_slice(b") ");
        }
    }
}

/// Appends `bytes` in hexadecimal, up to where only zeroes follow.
pub fn hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
        if bytes.get(index..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) {
            out.extend_from_slice(b" ..");
            break;
        }
    }
}
