//! Defects and losses of a capture: each kind once per file, with the first offset and a count.

use iowhy_model::figures::grouped;
use std::fmt;
use std::sync::Arc;

/// The kind of a defect or loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum WarningKind {
    /// The file holds no byte: that CPU had no event, or its buffer was never written.
    Empty,
    /// The file does not begin with a record in either byte order.
    NotBlktrace,
    /// A CPU's file is missing among its siblings; one for each file, but one with the count for
    /// many.
    MissingCpu,
    /// The last record is cut off; the count is the bytes that were left over.
    TruncatedTail,
    /// Bytes that are no record were skipped; the count is bytes.
    BadBytes,
    /// Records of a protocol that is neither 7 nor 8 were skipped.
    UnsupportedVersion,
    /// Records of 64 bytes that say protocol 7: a dump by a blkparse that mixed both up.
    MislabelledVersion,
    /// Records of another CPU than the file's name says.
    ForeignCpu,
    /// Sequence numbers were left out; the count is numbers.
    SequenceGap,
    /// Events came before an earlier one of the same stream.
    OutOfOrder,
    /// Actions that this iowhy does not know.
    UnknownAction,
    /// Lines of text that are no event.
    UnknownLine,
    /// Lines that begin as blkparse's and go on in another format.
    UnknownFormat,
    /// Events that a tracer says it lost.
    TracerLost,
    /// Events that later ones overwrote in the tracer's buffer.
    Overwritten,
    /// The file could not be read to its end.
    ReadFailed,
}

impl WarningKind {
    /// Returns the kind in a sentence, with the count.
    pub fn sentence(self, count: u64) -> String {
        let n = |one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{} {many}", grouped(count)),
        };
        match self {
            WarningKind::Empty => {
                "is empty: that CPU saw no event, or its events were lost".to_owned()
            }
            WarningKind::NotBlktrace => "is no blktrace file".to_owned(),
            WarningKind::MissingCpu => {
                let missing = n("CPU's file is", "CPUs' files are");
                format!("{missing} missing: what completed there has no completion")
            }
            WarningKind::TruncatedTail => {
                format!("the last record is cut off: {} left over", n("byte", "bytes"))
            }
            WarningKind::BadBytes => {
                n("byte that is no record was skipped", "bytes that are no record were skipped")
            }
            WarningKind::UnsupportedVersion => {
                format!("{} of an unknown protocol skipped", n("record", "records"))
            }
            WarningKind::MislabelledVersion => {
                "64-byte records that say protocol 7 were read as protocol 8".to_owned()
            }
            WarningKind::ForeignCpu => {
                let records = n("record is", "records are");
                format!("{records} of another CPU than the file's name says; kept")
            }
            WarningKind::SequenceGap => {
                let numbers = n("sequence number is", "sequence numbers are");
                format!("{numbers} missing: events were lost")
            }
            WarningKind::OutOfOrder => n(
                "event is earlier than the one before it",
                "events are earlier than the one before",
            ),
            WarningKind::UnknownAction => {
                n("event has an unknown action", "events have an unknown action")
            }
            WarningKind::UnknownLine => {
                n("line is no event and was skipped", "lines are no event and were skipped")
            }
            WarningKind::UnknownFormat => n(
                "line is in another format than blkparse's default one and was skipped",
                "lines are in another format than blkparse's default one and were skipped",
            ),
            WarningKind::TracerLost => {
                n("event was lost by the tracer", "events were lost by the tracer")
            }
            WarningKind::Overwritten => n(
                "event was overwritten in the tracer's buffer",
                "events were overwritten in the tracer's buffer",
            ),
            WarningKind::ReadFailed => "could not be read to its end".to_owned(),
        }
    }
}

/// One kind of loss in one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The file, or `standard input`.
    pub file: Arc<str>,
    /// The offset at which it was first seen, in bytes.
    pub offset: u64,
    /// The kind of the defect or loss.
    pub kind: WarningKind,
    /// The count, in the unit of its [`WarningKind`].
    pub count: u64,
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.file, self.kind.sentence(self.count))?;
        if self.offset > 0 {
            write!(out, " (first at byte {})", self.offset)?;
        }
        Ok(())
    }
}

/// All warnings, bounded in number.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    items: Vec<Warning>,
    suppressed: u64,
}

impl Warnings {
    /// Warnings that are kept.
    pub const MAX: usize = 512;

    /// Counts `count` more of `kind` in `file`.
    pub fn add(&mut self, file: &Arc<str>, offset: u64, kind: WarningKind, count: u64) {
        if count == 0 {
            return;
        }
        let room = self.items.len() < Self::MAX;
        match self.items.iter_mut().rev().find(|w| w.kind == kind && w.file == *file) {
            Some(warning) => warning.count = warning.count.saturating_add(count),
            None if room => self.items.push(Warning { file: file.clone(), offset, kind, count }),
            None => self.suppressed += 1,
        }
    }

    /// Returns the warnings that are kept.
    pub fn items(&self) -> &[Warning] {
        &self.items
    }

    /// Returns the number of warnings that were not kept.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// The sum of one kind's counts.
    pub fn total(&self, kind: WarningKind) -> u64 {
        self.items.iter().filter(|w| w.kind == kind).map(|w| w.count).sum()
    }

    /// Moves the warnings of `other` here.
    pub fn append(&mut self, other: &mut Warnings) {
        for warning in other.items.drain(..) {
            self.add(&warning.file, warning.offset, warning.kind, warning.count);
        }
        self.suppressed += std::mem::take(&mut other.suppressed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_well() {
        let message = |count| WarningKind::SequenceGap.sentence(count);
        assert_eq!(message(1), "1 sequence number is missing: events were lost");
        assert_eq!(message(94_880), "94,880 sequence numbers are missing: events were lost");
    }
}
