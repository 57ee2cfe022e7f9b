//! Adds up rows of `files` in bounded memory.

use crate::summary::{ActivityReport, ActivityRow, OtherFiles};
use crate::sums::row_consumers::Pass;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::file::Counts;
use iowhy_model::path_patterns;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, FileActivity, FileKind, Name, Names};
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of pairs of process and pattern from which patterns are widened.
const MOST_KEPT: usize = 8192;
/// Maximum number of rows of the summary.
const MOST_LISTED: usize = 50;
/// Number of rows differing in one component only from which they become one pattern.
const MANY: usize = 8;
/// Maximum number of files that are distinguished in a pattern; beyond it, the count is a lower
/// bound.
const MOST_FILES: usize = 1 << 18;
/// The longest path of which a pattern is made, bytes: the kernel has none that is longer.
const LONGEST_PATH: usize = 4096;
/// Number of files whose patterns are remembered: each has many rows.
const MOST_PATTERNS: usize = 1024;

/// Sums file activity.
#[derive(Clone, Debug, Default)]
pub struct ActivityTally {
    rows: FxHashMap<FileTallyKey, FoldedFiles>,
    files: FxHashSet<(u32, Name)>,
    patterns: FxHashMap<Name, Box<str>>,
    total: Counts,
    others: OtherFiles,
    begun: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FileTallyKey {
    pid: u32,
    process: Option<Name>,
    /// Empty if the file is not known.
    pattern: Box<str>,
}

/// The activity of one process on the files of one pattern.
#[derive(Clone, Debug)]
struct FoldedFiles {
    /// The file's path, as long as it is a single one.
    only: Option<Name>,
    /// Their common type; `None` if it is not known, or not the same.
    kind: Option<FileKind>,
    /// Files distinguished.
    files: u64,
    /// The maximum number of files of one row.
    most: u64,
    /// Whether some are known by directory only, so that their number is not known.
    unknown: bool,
    counts: Counts,
    lives: Lives,
    container: Option<Name>,
}

/// Files that were created and removed.
#[derive(Clone, Copy, Debug, Default)]
struct Lives {
    count: u64,
    sum_ns: u64,
    longest_ns: u64,
}

impl Lives {
    fn add(&mut self, other: Lives) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

impl FoldedFiles {
    fn add(&mut self, other: &FoldedFiles) {
        // Some rows of a file lack it: those of its removal.
        let is_one = self.only.is_some() && self.only == other.only;
        if is_one && (self.kind.is_none() || other.kind.is_none()) {
            self.kind = self.kind.or(other.kind);
        } else if self.kind != other.kind {
            self.kind = None;
        }
        if self.only != other.only {
            self.only = None;
        }
        self.files += other.files;
        self.most += other.most;
        self.unknown |= other.unknown;
        self.counts.add(&other.counts);
        self.lives.add(other.lives);
        if self.container != other.container {
            self.container = None;
        }
    }

    fn files(&self) -> Option<u64> {
        let files = self.files.max(self.most).max(self.counts.creates);
        (files > 0 || !self.unknown).then_some(files)
    }
}

impl ActivityTally {
    /// Returns the pattern of a file.
    fn pattern(&mut self, file: Name, names: &Names) -> Box<str> {
        if self.patterns.len() >= MOST_PATTERNS && !self.patterns.contains_key(&file) {
            self.patterns.clear();
        }
        let known = self.patterns.entry(file).or_insert_with(|| {
            let path = names.get(file);
            let end =
                (0..=path.len().min(LONGEST_PATH)).rev().find(|end| path.is_char_boundary(*end));
            let path = end.and_then(|end| path.get(..end)).unwrap_or(path);
            path_patterns::without_numbers(path).into_boxed_str()
        });
        known.clone()
    }

    /// Adds a row.
    pub fn add(&mut self, row: &FileActivity, names: &Names) {
        self.begun = true;
        let counts = row.counts();
        self.total.add(&counts);
        let pattern = row.file.map(|file| self.pattern(file, names)).unwrap_or_default();
        let key = FileTallyKey { pid: row.pid, process: row.process, pattern };
        let one = row.files == Some(1);
        let is_new = one
            && row.file.is_some_and(|file| {
                self.files.len() < MOST_FILES && self.files.insert((row.pid, file))
            });
        let lives = match row.lifetime_ns {
            Some(ns) => Lives { count: row.unlinks.max(1), sum_ns: ns, longest_ns: ns },
            None => Lives::default(),
        };
        let folded = FoldedFiles {
            only: row.file,
            kind: row.file_type,
            files: u64::from(is_new),
            most: row.files.filter(|files| *files > 1).unwrap_or(0),
            unknown: row.files.is_none(),
            counts,
            lives: Lives { sum_ns: lives.sum_ns.saturating_mul(lives.count), ..lives },
            container: row.container,
        };
        match self.rows.get_mut(&key) {
            // Within one pattern the maximum, not the sum: they may be the same files.
            Some(known) => {
                let most = known.most.max(folded.most);
                known.add(&FoldedFiles { most: 0, ..folded });
                known.most = most;
            }
            None => {
                if self.rows.len() >= MOST_KEPT {
                    self.make_room();
                }
                self.rows.insert(key, folded);
            }
        }
    }

    fn make_room(&mut self) {
        let mut kept = self.widened();
        let left = kept.split_off(kept.len().min(MOST_KEPT / 2));
        self.others.rows += left.len() as u64;
        left.iter().for_each(|(_, row)| self.others.counts.add(&row.counts));
        self.rows = kept.into_iter().collect();
    }

    /// The rows, largest first; those that differ in one component only are merged.
    fn widened(&self) -> Vec<(FileTallyKey, FoldedFiles)> {
        let mut rows: Vec<(FileTallyKey, FoldedFiles)> =
            self.rows.iter().map(|(key, row)| (key.clone(), row.clone())).collect();
        for wider in
            [path_patterns::any_name, path_patterns::any_directory, path_patterns::any_depth]
        {
            rows = widen(rows, wider);
        }
        rows.compact_sort_by(|a, b| weight(&b.1).cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
        rows
    }

    /// The result; `None` without rows, since file activity may not have been collected.
    pub fn activity(&self, names: &Names) -> Option<ActivityReport> {
        if !self.begun {
            return None;
        }
        let rows = self.widened();
        let (listed, rest) = rows.split_at(rows.len().min(MOST_LISTED));
        let mut others = self.others;
        others.rows += rest.len() as u64;
        rest.iter().for_each(|(_, row)| others.counts.add(&row.counts));
        let rows = listed.iter().map(|(key, row)| shown(key, row, names)).collect();
        Some(ActivityReport { total: self.total, rows, others })
    }
}

impl Pass for ActivityTally {
    type Figures = Option<ActivityReport>;

    fn begin(&self, _environment: &Environment) -> ActivityTally {
        ActivityTally::default()
    }

    fn add(&mut self, batch: &Batch, names: &Names) {
        batch.files.iter().for_each(|row| ActivityTally::add(self, row, names));
    }

    fn finish(self, _environment: &Environment, names: &Names) -> Option<ActivityReport> {
        self.activity(names)
    }
}

/// Merges many rows of one process that have the same pattern.
fn widen(
    rows: Vec<(FileTallyKey, FoldedFiles)>,
    wider: fn(&str) -> Option<String>,
) -> Vec<(FileTallyKey, FoldedFiles)> {
    let mut groups: FxHashMap<FileTallyKey, usize> = FxHashMap::default();
    let keys: Vec<Option<FileTallyKey>> = rows
        .iter()
        .map(|(key, _)| {
            let key =
                FileTallyKey { pattern: wider(&key.pattern)?.into_boxed_str(), ..key.clone() };
            *groups.entry(key.clone()).or_default() += 1;
            Some(key)
        })
        .collect();
    let mut merged: FxHashMap<FileTallyKey, FoldedFiles> = FxHashMap::default();
    for ((own, row), wide) in rows.into_iter().zip(keys) {
        let many = wide.filter(|key| groups.get(key).is_some_and(|count| *count >= MANY));
        match merged.entry(many.unwrap_or(own)) {
            std::collections::hash_map::Entry::Occupied(mut known) => known.get_mut().add(&row),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(row);
            }
        }
    }
    merged.into_iter().collect()
}

/// The weight of a row: its time if it is known, else a microsecond per call.
fn weight(row: &FoldedFiles) -> u64 {
    row.counts.time_ns().unwrap_or(0).max(row.counts.calls().saturating_mul(1000))
}

fn shown(key: &FileTallyKey, row: &FoldedFiles, names: &Names) -> ActivityRow {
    let text = |name: Name| names.get(name).to_owned();
    let pattern = || Some(key.pattern.to_string()).filter(|pattern| !pattern.is_empty());
    ActivityRow {
        pid: key.pid,
        process: key.process.map(text),
        container: row.container.map(text),
        file: row.only.map(text).or_else(pattern),
        files: row.files(),
        file_type: row.kind.map(FileKind::word),
        counts: row.counts,
        time_ns: row.counts.time_ns(),
        lives: row.lives.count,
        lifetime_ns: (row.lives.count > 0).then(|| row.lives.sum_ns / row.lives.count),
        longest_lifetime_ns: (row.lives.count > 0).then_some(row.lives.longest_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, file: Name, counts: Counts) -> FileActivity {
        FileActivity { file: Some(file), files: Some(1), ..FileActivity::of(1, pid, &counts) }
    }

    fn total_of(activity: &ActivityReport) -> Counts {
        let mut all = activity.others.counts;
        activity.rows.iter().for_each(|row| all.add(&row.counts));
        all
    }

    #[test]
    fn files_that_differ_by_a_number_are_one_row() {
        let (mut names, mut tally) = (Names::new(), ActivityTally::default());
        for index in 0..1000 {
            let directory = char::from(b'a' + (index % 20) as u8);
            let file = names.intern(&format!("/tmp/{directory}x/{index}.txt"));
            let counts = Counts { opens: 1, creates: 1, unlinks: 1, ..Counts::default() };
            let lived = FileActivity { lifetime_ns: Some(500), ..row(7, file, counts) };
            tally.add(&lived, &names);
        }
        let activity = tally.activity(&names).expect("there are rows");
        assert_eq!(activity.rows.len(), 1, "{activity:?}");
        let folded = &activity.rows[0];
        assert_eq!(folded.file.as_deref(), Some("/tmp/*/N.txt"));
        assert_eq!((folded.files, folded.counts.opens), (Some(1000), 1000));
        assert_eq!((folded.lives, folded.lifetime_ns), (1000, Some(500)));
    }

    #[test]
    fn one_file_keeps_its_path() {
        let (mut names, mut tally) = (Names::new(), ActivityTally::default());
        let file = names.intern("/var/lib/15/base/2619");
        let file_type = Some(FileKind::File);
        for _ in 0..10 {
            let read = row(7, file, Counts { reads: 3, ..Counts::default() });
            tally.add(&FileActivity { file_type, ..read }, &names);
        }
        tally.add(&row(7, file, Counts { unlinks: 1, ..Counts::default() }), &names);
        let activity = tally.activity(&names).expect("there are rows");
        assert_eq!(activity.rows[0].file.as_deref(), Some("/var/lib/15/base/2619"));
        assert_eq!((activity.rows[0].files, activity.total.reads), (Some(1), 30));
        assert_eq!(activity.rows[0].file_type, Some("file"), "its removal tells none");
    }

    #[test]
    fn files_and_directories_are_neither() {
        let (mut names, mut tally) = (Names::new(), ActivityTally::default());
        let kinds = [FileKind::File, FileKind::File, FileKind::Directory];
        for (index, kind) in kinds.into_iter().enumerate() {
            let file = names.intern(&format!("/srv/{index}"));
            let file_type = Some(kind);
            let read = row(7, file, Counts { opens: 1, ..Counts::default() });
            tally.add(&FileActivity { file_type, ..read }, &names);
            let activity = tally.activity(&names).expect("there are rows");
            let is_mixed = activity.rows[0].file_type.is_none();
            assert_eq!(is_mixed, kind == FileKind::Directory, "{activity:?}");
        }
    }

    #[test]
    fn memory_is_bounded_and_every_sum_stays() {
        let (mut names, mut tally) = (Names::new(), ActivityTally::default());
        for index in 0..40_000_u32 {
            // Letters, so that no number folds them.
            let letter = |place: u32| char::from(b'a' + (index / 26_u32.pow(place) % 26) as u8);
            let path = format!("/{}/{}/{}{}", letter(0), letter(1), letter(2), letter(3));
            let file = names.intern(&path);
            tally.add(&row(index % 3, file, Counts { reads: 1, ..Counts::default() }), &names);
            assert!(tally.rows.len() <= MOST_KEPT);
        }
        let activity = tally.activity(&names).expect("there are rows");
        assert_eq!(total_of(&activity), activity.total);
        assert_eq!(activity.total.reads, 40_000);
        assert!(activity.rows.len() <= MOST_LISTED);
    }

    #[test]
    fn a_source_without_files_says_so() {
        assert_eq!(ActivityTally::default().activity(&Names::new()), None);
    }
}
