//! The writers of a host: programs, containers, files and devices, with their figures, as the
//! recorder counts them, in bounded number. Rows that do not fit are added to rows that stand for
//! others, so that the rows of a device always add up.
//!
//! What does not belong here: reading the recorder's files (`spool`), and comparing hosts
//! (`questions`).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of a row that is of one program.
pub const PROGRAM: &str = "program";
/// The kind of a row that stands for those that have none.
pub const OTHERS: &str = "others";
/// Every kind: `unknown` is data that was dirty before the watch, `unseen` the bytes that the
/// kernel counted and no record shows.
pub const KINDS: [&str; 4] = [PROGRAM, "unknown", OTHERS, "unseen"];
/// Rows of files in a window, and as many of programs.
const MOST_ROWS: usize = 24;
/// Rows of a window, of any kind.
const MOST_DEVICE_ROWS: usize = 200;

/// The identity of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterId {
    /// One of [`KINDS`].
    pub kind: String,
    /// The program's name.
    pub program: String,
    /// Its container or unit; empty if it has none.
    pub container: String,
    /// The file, with N for numbers; names in parentheses are no files; empty if not known.
    pub file: String,
    /// The device.
    pub device: String,
    /// Whether its requests serve those of a device above, which also count them.
    pub below: bool,
}

impl Default for WriterId {
    fn default() -> WriterId {
        WriterId {
            kind: PROGRAM.to_owned(),
            program: String::new(),
            container: String::new(),
            file: String::new(),
            device: String::new(),
            below: false,
        }
    }
}

impl WriterId {
    /// Its names.
    pub fn names(&self) -> [&String; 5] {
        [&self.kind, &self.program, &self.container, &self.file, &self.device]
    }

    fn program_alone(&self) -> WriterId {
        WriterId { file: String::new(), ..self.clone() }
    }

    fn rest(&self) -> WriterId {
        let kind = if self.kind == PROGRAM { OTHERS } else { &self.kind };
        let (device, below) = (self.device.clone(), self.below);
        WriterId { kind: kind.to_owned(), device, below, ..WriterId::default() }
    }
}

/// The figures of a row: bytes and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterSums {
    /// Bytes that write calls wrote.
    pub asked_bytes: u64,
    /// Write calls.
    pub asked_calls: u64,
    /// Calls that make data durable.
    pub syncs: u64,
    /// Bytes of the file that the device wrote.
    pub data_bytes: u64,
    /// Bytes of the file system's journal that it caused.
    pub journal_bytes: u64,
    /// Bytes of the file system's own blocks that it caused.
    pub metadata_bytes: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// Bytes that the device read.
    pub read_bytes: u64,
    /// Requests of the device.
    pub requests: u64,
    /// The number of times it woke the device after a minute without a request.
    pub wakes: u64,
}

impl WriterSums {
    /// Each figure, to check or change it.
    pub fn figures_mut(&mut self) -> [&mut u64; 10] {
        [
            &mut self.asked_bytes,
            &mut self.asked_calls,
            &mut self.syncs,
            &mut self.data_bytes,
            &mut self.journal_bytes,
            &mut self.metadata_bytes,
            &mut self.discarded_bytes,
            &mut self.read_bytes,
            &mut self.requests,
            &mut self.wakes,
        ]
    }

    /// Each figure.
    pub fn figures(mut self) -> [u64; 10] {
        self.figures_mut().map(|figure| *figure)
    }

    /// Adds other figures.
    pub fn add(&mut self, more: &WriterSums) {
        for (own, other) in self.figures_mut().into_iter().zip(more.figures()) {
            *own = own.saturating_add(other);
        }
    }

    /// Returns the bytes that the device wrote.
    pub fn written_bytes(&self) -> u64 {
        self.data_bytes.saturating_add(self.journal_bytes).saturating_add(self.metadata_bytes)
    }

    fn weight(&self) -> u64 {
        self.written_bytes().max(self.asked_bytes)
    }
}

/// Rows of one window, by identity.
pub type WriterRows = BTreeMap<WriterId, WriterSums>;

/// Limits rows to those of an upload. The files with most come first, and those that woke a disk;
/// the others are added up by program, then by device, then all together.
pub fn bounded(rows: WriterRows) -> WriterRows {
    let rows = fold(rows, MOST_ROWS, WriterId::program_alone);
    // Files that were kept stay, even if programs wrote more.
    let rows = fold(rows, MOST_ROWS, |id| match id.file.is_empty() {
        true => id.rest(),
        false => id.clone(),
    });
    fold(rows, MOST_DEVICE_ROWS, |id| WriterId { device: String::new(), ..id.rest() })
}

/// Keeps `most` rows by bytes written and a quarter as many by wakes, and adds each other one to
/// the row that `into` names; rows that it names are kept, too.
fn fold(rows: WriterRows, most: usize, into: impl Fn(&WriterId) -> WriterId) -> WriterRows {
    let first = |most: usize, value: &dyn Fn(&WriterSums) -> u64| {
        let ranked = rows.iter().filter(|(id, sums)| into(id) != **id && value(sums) > 0);
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by(|a, b| value(b.1).cmp(&value(a.1)).then_with(|| a.0.cmp(b.0)));
        ranked.into_iter().take(most).map(|(id, _)| id.clone()).collect::<BTreeSet<WriterId>>()
    };
    let mut kept = first(most, &WriterSums::weight);
    kept.extend(first(most / 4, &|sums| sums.wakes));
    let mut folded = WriterRows::new();
    for (id, sums) in rows {
        let id = if kept.contains(&id) { id } else { into(&id) };
        folded.entry(id).or_default().add(&sums);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(program: usize, file: usize, data_bytes: u64) -> (WriterId, WriterSums) {
        let (program, file) = (format!("p{program}"), format!("/f{file}"));
        let device = "sda".to_owned();
        let id = WriterId { program, file, device, ..WriterId::default() };
        (id, WriterSums { data_bytes, ..WriterSums::default() })
    }

    fn sum(rows: &WriterRows) -> u64 {
        rows.values().map(WriterSums::written_bytes).sum()
    }

    #[test]
    fn rows_beyond_the_limit_add_up() {
        let all: WriterRows = (0..5000).map(|at| row(at % 700, at, 1 + at as u64)).collect();
        let kept = bounded(all.clone());
        assert!(kept.len() <= 3 * MOST_ROWS + 1, "{}", kept.len());
        assert_eq!(sum(&kept), sum(&all));
        assert!(kept.contains_key(&row(4999 % 700, 4999, 0).0), "the largest file");
        assert!(kept.keys().any(|id| id.kind == OTHERS && id.device == "sda"));
    }

    #[test]
    fn who_wakes_a_disk_is_kept_however_little_it_writes() {
        let mut all: WriterRows = (0..500).map(|at| row(at, at, 1 << 30)).collect();
        let (id, mut sums) = row(999, 999, 1);
        sums.wakes = 40;
        all.insert(id.clone(), sums);
        assert_eq!(bounded(all)[&id].wakes, 40);
    }

    #[test]
    fn thousands_of_devices_are_bounded() {
        let rows = (0..4000).map(|at| {
            let device = format!("loop{at}");
            let id = WriterId { kind: "unseen".to_owned(), device, ..WriterId::default() };
            (id, WriterSums { data_bytes: 5, ..WriterSums::default() })
        });
        let kept = bounded(rows.collect());
        assert!(kept.len() <= MOST_DEVICE_ROWS + 1, "{}", kept.len());
        assert_eq!(sum(&kept), 20_000);
    }
}
