//! The account of who writes all day: bytes and requests by program, container, file and device,
//! for every minute of a day and every hour of a month.
//!
//! | where | what |
//! |---|---|
//! | here | a row and a line of the files: what is kept of whom |
//! | [`account`] | from ten seconds to minutes and hours |
//! | [`causes`] | which program a journal's and a file system's own requests are due to |
//! | [`exact`] | the kernel's counters of each device, which the rows add up to |
//! | [`wakes`] | which request woke an idle disk |
//! | [`files`] | the files of minutes and hours |
//! | [`question`] | rows put together: by program, file, device |
//! | [`over_days`] | findings over hours and days |
//! | [`text`], [`page`] | all of it as text, as a page |
//!
//! What does not belong here: which process a request is charged to (`iowhy_analysis`).

pub mod account;
pub mod causes;
pub mod exact;
pub mod files;
pub mod over_days;
pub mod page;
pub mod question;
pub mod text;
pub mod wakes;

use crate::history::HistoryLine;
use iowhy_model::compact_sort::CompactSort;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The name in place of a file for requests of swap.
pub const SWAP: &str = "(swap)";
/// The name for the file system's own blocks, read or written by the program itself.
pub const METADATA: &str = "(metadata)";
/// The name for a file system's journal that no program is known to have caused.
pub const JOURNAL: &str = "(journal)";

/// Bytes of pages that a call makes dirty beyond its own: at most two pages.
const MORE_PAGES_BYTES: u64 = 2 * 4096;
/// Rows of a line, and devices in it.
const MOST_LINE_ROWS: usize = 256;
/// Devices of which the first rows are always kept.
const DEVICES_WITH_ROWS: usize = 8;

/// The kind of a row.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum WriterKind {
    /// One program, on one file or pattern of files.
    #[default]
    Program,
    /// Requests whose program is not known, because their data was dirty before the watch.
    Unknown,
    /// The sum of rows beyond those that are kept.
    Others,
    /// Bytes that the kernel counted and no record shows.
    Unseen,
}

impl WriterKind {
    fn is_program(&self) -> bool {
        *self == WriterKind::Program
    }
}

/// The identity of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterId {
    /// The kind of the row.
    #[serde(rename = "k", skip_serializing_if = "WriterKind::is_program")]
    pub kind: WriterKind,
    /// The program's name.
    #[serde(rename = "p", skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// Its container or systemd unit; empty if it has none.
    #[serde(rename = "c", skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The file, with N for numbers; names in parentheses are no files; empty if not known.
    #[serde(rename = "f", skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The device.
    #[serde(rename = "d", skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Whether its requests serve those of a device above, which also count them.
    #[serde(rename = "b", skip_serializing_if = "is_false")]
    pub is_below: bool,
}

impl WriterId {
    /// Makes the id of the remainder of a device.
    pub fn for_rest(kind: WriterKind, device: &str, is_below: bool) -> WriterId {
        WriterId { kind, device: device.to_owned(), is_below, ..WriterId::default() }
    }

    /// Returns whether it is the id of the remainder of a device.
    pub fn is_rest(&self) -> bool {
        self.kind != WriterKind::Program && self.file.is_empty()
    }

    /// Returns the id of all files of its program that have no row.
    pub fn program_alone(&self) -> WriterId {
        WriterId { file: String::new(), ..self.clone() }
    }

    /// Returns the id that it is added to if it has no row: the remainder of its device.
    pub fn rest(&self) -> WriterId {
        let kind = match self.kind {
            WriterKind::Program => WriterKind::Others,
            other => other,
        };
        WriterId::for_rest(kind, &self.device, self.is_below)
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Defines the figures of a row once: name, name in the files, meaning.
macro_rules! sums {
    ($( $field:ident = $word:literal $sentence:literal; )+) => {
        /// The figures of a row: bytes and numbers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct WriterSums {
            $(
                #[doc = $sentence]
                #[serde(rename = $word, skip_serializing_if = "is_zero")]
                pub $field: u64,
            )+
        }

        impl WriterSums {
            /// Adds other figures.
            pub fn add(&mut self, other: &WriterSums) {
                $( self.$field = self.$field.saturating_add(other.$field); )+
            }

            /// Returns each figure with its name, in the order of their definition.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$( (stringify!($field), self.$field) ),+]
            }
        }
    };
}

sums! {
    asked_bytes = "asked" "Bytes that write calls wrote.";
    asked_calls = "calls" "Write calls.";
    syncs = "syncs" "Calls that make data durable.";
    data_bytes = "data" "Bytes of the file that the device wrote.";
    journal_bytes = "journal" "Bytes of the file system's journal that it caused.";
    metadata_bytes = "metadata" "Bytes of the file system's own blocks that it caused.";
    discarded_bytes = "discard" "Bytes discarded.";
    read_bytes = "read" "Bytes that the device read.";
    requests = "reqs" "Requests of the device.";
    wakes = "wakes" "How often it woke the device after a minute without a request.";
}

impl WriterSums {
    /// Returns the bytes that the device wrote.
    pub fn written_bytes(&self) -> u64 {
        self.data_bytes.saturating_add(self.journal_bytes).saturating_add(self.metadata_bytes)
    }

    /// Returns the bytes written for each byte of the calls; `None` if there are none, or if more
    /// pages were written than calls can have made dirty: the program writes through a mapping.
    pub fn amplification(&self) -> Option<f64> {
        let asked = self.asked_bytes;
        let most = asked.saturating_add(self.asked_calls.saturating_mul(MORE_PAGES_BYTES));
        let is_mapped = self.asked_calls > 0 && self.data_bytes > most;
        (asked > 0 && !is_mapped).then(|| self.written_bytes() as f64 / asked as f64)
    }

    /// Returns the bytes that rows are ranked by: those of the device or of the calls, the larger.
    pub fn weight(&self) -> u64 {
        self.written_bytes().max(self.asked_bytes)
    }

    /// Returns whether all figures are zero.
    pub fn is_empty(&self) -> bool {
        *self == WriterSums::default()
    }
}

/// A row of a minute or an hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterRow {
    /// The program and file.
    #[serde(flatten)]
    pub id: WriterId,
    /// The figures.
    #[serde(flatten)]
    pub sums: WriterSums,
}

/// The kernel's counters of a device, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes discarded.
    pub discarded: u64,
}

impl DeviceBytes {
    /// Adds other counters.
    pub fn add(&mut self, other: &DeviceBytes) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.discarded = self.discarded.saturating_add(other.discarded);
    }
}

/// The wear that a drive reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveWear {
    /// The used part of its life, by its vendor's estimate, percent.
    pub used_percent: f64,
    /// Bytes that hosts have written to it since it was made; `None` if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

/// A line of the files: a minute or an hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterRecord {
    /// The time at which it began, seconds since 1970.
    pub time_s: i64,
    /// The time at which it ended.
    pub until_s: i64,
    /// The part of it that was watched, seconds.
    pub watched_s: u64,
    /// The kernel's counters of each device of the rows.
    pub devices: BTreeMap<String, DeviceBytes>,
    /// The wear of drives, at its end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub drives: BTreeMap<String, DriveWear>,
    /// The rows; those of a device add up to the kernel's counters.
    pub rows: Vec<WriterRow>,
}

impl HistoryLine for WriterRecord {
    // Names have up to 160 characters.
    const MOST_BYTES: usize = 256 << 10;
    // More than all of them may take.
    const MOST_READ_BYTES: u64 = 16 << 20;

    fn bounded(mut self) -> WriterRecord {
        self.rows.truncate(MOST_LINE_ROWS);
        self.rows.shrink_to_fit();
        while self.devices.len() > MOST_LINE_ROWS {
            self.devices.pop_last();
        }
        while self.drives.len() > MOST_LINE_ROWS {
            self.drives.pop_last();
        }
        self
    }

    fn rows(&self) -> usize {
        1 + self.rows.len() + self.devices.len() + self.drives.len()
    }
}

/// Rows by whose they are, in bounded memory: what does not fit is added to the device's others.
#[derive(Clone, Debug)]
pub struct WriterTotals {
    rows: HashMap<WriterId, WriterSums>,
    most: usize,
}

impl WriterTotals {
    /// Holds at most `most` rows of files, then as many of programs alone, then one for each
    /// device's others.
    pub fn new(most: usize) -> WriterTotals {
        WriterTotals { rows: HashMap::new(), most }
    }

    /// Adds a row.
    pub fn add(&mut self, id: &WriterId, sums: &WriterSums) {
        if sums.is_empty() {
            return;
        }
        let program = id.program_alone();
        let has_room = |most: usize| self.rows.len() < most;
        let fitting = if self.rows.contains_key(id) || has_room(self.most) || id.is_rest() {
            id.clone()
        } else if self.rows.contains_key(&program) || has_room(self.most.saturating_mul(2)) {
            program
        } else {
            id.rest()
        };
        self.rows.entry(fitting).or_default().add(sums);
    }

    /// Returns each row, to change its figures.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = (&WriterId, &mut WriterSums)> {
        self.rows.iter_mut()
    }

    /// Returns each row.
    pub fn rows(&self) -> impl Iterator<Item = (&WriterId, &WriterSums)> {
        self.rows.iter()
    }

    /// Returns the rows that matter most: `most` files by bytes written to them, the first two of
    /// each device, and half as many by wakes of a disk; then as many programs, by bytes written to
    /// their other files and by bytes read; and the sums of the others by device.
    pub fn top(&self, most: usize) -> Vec<WriterRow> {
        let mut kept = WriterTotals::new(usize::MAX);
        let mut programs = WriterTotals::new(usize::MAX);
        let wanted = [
            self.largest(most, |_, sums| sums.weight()),
            self.largest(most / 2, |_, sums| sums.wakes),
            self.first_of_devices(),
        ];
        for (id, sums) in &self.rows {
            match id.is_rest() || wanted.iter().flatten().any(|one| *one == id) {
                true => kept.add(id, sums),
                false => programs.add(&id.program_alone(), sums),
            }
        }
        let wanted = [
            programs.largest(most, |_, sums| sums.weight()),
            programs.largest(most / 4, |_, sums| sums.read_bytes),
        ];
        for (id, sums) in &programs.rows {
            match wanted.iter().flatten().any(|one| *one == id) {
                true => kept.add(id, sums),
                false => kept.add(&id.rest(), sums),
            }
        }
        let mut rows: Vec<WriterRow> =
            kept.rows.into_iter().map(|(id, sums)| WriterRow { id, sums }).collect();
        let rank = |row: &WriterRow| std::cmp::Reverse((row.sums.weight(), row.sums.wakes));
        rows.compact_sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id)));
        sum_up(&mut rows);
        rows
    }

    /// Returns the largest rows of each of the largest devices, so that a quiet device is not lost
    /// behind a busy one.
    fn first_of_devices(&self) -> Vec<&WriterId> {
        let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, sums) in &self.rows {
            let sum = devices.entry(&id.device).or_default();
            *sum = sum.saturating_add(sums.weight());
        }
        let mut devices: Vec<(&str, u64)> = devices.into_iter().collect();
        devices.compact_sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let first = devices.into_iter().take(DEVICES_WITH_ROWS).map(|(device, _)| {
            let own = |id: &WriterId, sums: &WriterSums| {
                let is_of_it = id.device == device && !id.is_rest();
                if is_of_it { sums.weight() } else { 0 }
            };
            self.largest(2, own)
        });
        first.flatten().collect()
    }

    /// Returns the rows with the largest `value`.
    fn largest(
        &self,
        most: usize,
        value: impl Fn(&WriterId, &WriterSums) -> u64,
    ) -> Vec<&WriterId> {
        let rows = self.rows.iter().map(|(id, sums)| (value(id, sums), id));
        let mut all: Vec<(u64, &WriterId)> = rows.filter(|(value, _)| *value > 0).collect();
        all.compact_sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        all.into_iter().take(most).map(|(_, id)| id).collect()
    }
}
/// Puts the last rows together where there are more than a line has: a host on which thousands of
/// devices come and go.
fn sum_up(rows: &mut Vec<WriterRow>) {
    if rows.len() <= MOST_LINE_ROWS {
        return;
    }
    let mut sums = [WriterSums::default(); 2];
    for row in rows.drain(MOST_LINE_ROWS - sums.len()..) {
        sums[usize::from(row.id.is_below)].add(&row.sums);
    }
    let id = |is_below| WriterId::for_rest(WriterKind::Others, "", is_below);
    let summed = sums.into_iter().zip([false, true]);
    rows.extend(summed.map(|(sums, is_below)| WriterRow { id: id(is_below), sums }));
    rows.retain(|row| !row.sums.is_empty());
}
