//! Filters that select nothing: what there is instead.
//!
//! What does not belong here: devices, which are checked before anything is read (see
//! [`crate::sources`]).

use crate::failure::Failure;
use crate::near::near;
use iowhy_analysis::Summary;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::source::Batch;
use iowhy_model::{Filter, Name, Names};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Names in a hint.
const MOST_LISTED: usize = 8;
/// Names that are counted.
const MOST_COUNTED: usize = 1 << 14;

/// Counts the rows of a source, and those that a filter keeps.
pub struct SelectionCount {
    filter: Filter,
    kept: u64,
    processes: HashMap<Name, u64>,
}

impl SelectionCount {
    /// For rows of which `filter` keeps some.
    pub fn new(filter: &Filter) -> SelectionCount {
        SelectionCount { filter: filter.clone(), kept: 0, processes: HashMap::new() }
    }

    fn is_needed(&self) -> bool {
        self.filter.of_devices() != self.filter && self.kept == 0
    }

    /// Counts rows before the filter.
    pub fn there_are(&mut self, batch: &Batch) {
        if !self.is_needed() {
            return;
        }
        let requests = batch.requests.iter().filter_map(|row| row.process);
        let waits = batch.waits.iter().filter_map(|row| row.process);
        let files = batch.files.iter().filter_map(|row| row.process);
        for process in requests.chain(waits).chain(files) {
            if self.processes.len() < MOST_COUNTED || self.processes.contains_key(&process) {
                *self.processes.entry(process).or_default() += 1;
            }
        }
    }

    /// Counts the rows that it kept.
    pub fn are_kept(&mut self, batch: &Batch) {
        self.kept += (batch.requests.len() + batch.waits.len() + batch.files.len()) as u64;
        self.kept += batch.opens.len() as u64;
    }

    /// Fails if nothing was kept, and lists the names that there are.
    pub fn check(&self, names: &Names) -> Result<(), Failure> {
        if !self.is_needed() {
            return Ok(());
        }
        let count = |(name, count): (&Name, &u64)| (names.get(*name).to_owned(), *count);
        Err(nothing(&self.filter, self.processes.iter().map(count).collect()))
    }
}

/// Fails if `shown`, the part of the watch `judged` that `filter` keeps, is empty.
pub fn check(filter: &Filter, shown: &Summary, judged: &Summary) -> Result<(), Failure> {
    let waits = shown.ledger.as_ref().map_or(0, |ledger| ledger.blocked_ns);
    let is_empty = shown.watch.requests == 0 && waits == 0 && shown.files.rows.is_empty();
    if filter.of_devices() == *filter || !is_empty {
        return Ok(());
    }
    let submitted = judged.processes.rows.iter();
    let submitted = submitted.map(|row| (row.subject.process.clone(), row.usage.requests));
    let waited = judged.ledger.iter().flat_map(|ledger| &ledger.processes);
    let waited = waited.map(|row| (row.process.clone(), row.waits));
    Err(nothing(filter, submitted.chain(waited).collect()))
}

/// What a file's name after -p was meant for.
const BTT_FILE: &str = "-p takes the name or the number of a process; what btt's `-p FILE` wrote \
                        is `iowhy stages --per-io-dump FILE`";

/// Whether a word that is no process's name looks like that of a file.
fn is_file_name(word: &str) -> bool {
    Path::new(word).extension().is_some() || word.contains('/')
}

/// The hint for a filter by process that names a file, as btt's `-p FILE` does.
pub fn hint_of_btt(filter: &Filter) -> Option<&'static str> {
    filter.processes.iter().any(|word| is_file_name(word)).then_some(BTT_FILE)
}

fn nothing(filter: &Filter, processes: Vec<(String, u64)>) -> Failure {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in processes.into_iter().filter(|(name, _)| !name.is_empty()) {
        *counts.entry(name).or_default() += count;
    }
    let mut names: Vec<(&str, u64)> =
        counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    names.compact_sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let wanted =
        filter.processes.iter().flat_map(|word| near(word, names.iter().map(|name| name.0)));
    let wanted: Vec<&str> = wanted.collect();
    let more = names.len().saturating_sub(MOST_LISTED);
    let listed: Vec<&str> = names.iter().take(MOST_LISTED).map(|name| name.0).collect();
    let hint = match (wanted.first(), listed.is_empty(), more) {
        _ if hint_of_btt(filter).is_some() => BTT_FILE.to_owned(),
        (Some(name), _, _) => format!("did you mean -p {name}?"),
        (None, true, _) => "there was no I/O and no wait at all".to_owned(),
        (None, false, 0) => format!("there are I/O and waits of {}", listed.join(", ")),
        (None, false, more) => {
            format!("there are I/O and waits of {} and {more} more", listed.join(", "))
        }
    };
    Failure::new(format!("nothing was selected by {filter}"), Some(hint))
}
