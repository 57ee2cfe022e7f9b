//! Reduces rows without changing sums, for a second in which very many files were used.

use crate::file::Counts;
use crate::path_patterns;
use crate::{FileActivity, Name, Names};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The steps that widen a path, applied in turn until there are few enough rows; the last one
/// removes it.
const STEPS: &[fn(&str) -> Option<String>] = &[
    |path| Some(path_patterns::without_numbers(path)),
    path_patterns::any_name,
    path_patterns::any_directory,
    path_patterns::any_depth,
    |_| Some(String::new()),
];

/// At most about `most` rows, plus one for each process: the busiest files individually, the others
/// as patterns.
pub fn fold(mut rows: Vec<FileActivity>, most: usize, names: &mut Names) -> Vec<FileActivity> {
    if rows.len() <= most {
        return rows;
    }
    rows.sort_by_cached_key(|row| (Reverse(row.counts().calls()), row.pid, row.file));
    let mut small = rows.split_off(most / 2);
    for step in STEPS {
        small = merge(small, *step, names);
        if small.len() <= most / 2 {
            break;
        }
    }
    rows.append(&mut small);
    rows
}

/// Merges rows of one process whose paths are equal after `step`, in order of first occurrence.
fn merge(
    rows: Vec<FileActivity>,
    step: fn(&str) -> Option<String>,
    names: &mut Names,
) -> Vec<FileActivity> {
    let mut rows_of: FxHashMap<(u32, Option<Name>), usize> = FxHashMap::default();
    let mut merged: Vec<FileActivity> = Vec::new();
    for row in rows {
        let wide = row.file.and_then(|file| step(names.get(file)));
        let file = match wide {
            Some(pattern) if pattern.is_empty() => None,
            Some(pattern) => Some(names.intern(&pattern)),
            None => row.file,
        };
        let index = *rows_of.entry((row.pid, file)).or_insert(merged.len());
        match merged.get_mut(index) {
            Some(known) => join(known, &row),
            None => merged.push(FileActivity { file, ..row }),
        }
    }
    merged
}

fn join(known: &mut FileActivity, other: &FileActivity) {
    let lives = |row: &FileActivity| row.lifetime_ns.map_or(0, |_| row.unlinks.max(1));
    let (own, theirs) = (lives(known), lives(other));
    let sum = u128::from(own) * u128::from(known.lifetime_ns.unwrap_or(0))
        + u128::from(theirs) * u128::from(other.lifetime_ns.unwrap_or(0));
    let mut counts: Counts = known.counts();
    counts.add(&other.counts());
    *known = FileActivity {
        process: known.process,
        cgroup: known.cgroup,
        container: known.container,
        pod: known.pod,
        namespace: known.namespace,
        container_name: known.container_name,
        unit: known.unit,
        volume: known.volume.filter(|volume| Some(*volume) == other.volume),
        file: known.file,
        files: known.files.zip(other.files).map(|(own, theirs)| own + theirs),
        file_type: known.file_type.filter(|kind| Some(*kind) == other.file_type),
        device: known.device.filter(|device| Some(*device) == other.device),
        inode_device: known.inode_device.filter(|device| Some(*device) == other.inode_device),
        lifetime_ns: sum.checked_div(u128::from(own + theirs)).map(|mean| mean as u64),
        ..FileActivity::of(known.start_ns.min(other.start_ns), known.pid, &counts)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_few_and_sums_stay() {
        let mut names = Names::new();
        let mut rows = Vec::new();
        for index in 0..10_000_u32 {
            let file = names.intern(&format!("/srv/{}/{index}.dat", index % 3));
            let counts = Counts { reads: 1, read_bytes: 10, unlinks: 1, ..Counts::default() };
            let row = FileActivity::of(u64::from(index) + 1, 7, &counts);
            let lifetime_ns = Some(u64::from(index % 2) * 1_000_000);
            rows.push(FileActivity { file: Some(file), files: Some(1), lifetime_ns, ..row });
        }
        let folded = fold(rows, 100, &mut names);
        assert!(folded.len() <= 100, "{}", folded.len());
        assert_eq!(folded.iter().map(|row| row.read_bytes).sum::<u64>(), 100_000);
        assert_eq!(folded.iter().filter_map(|row| row.files).sum::<u64>(), 10_000);
        let wide = folded.last().expect("there are rows");
        assert_eq!(names.get(wide.file.expect("a pattern")), "/srv/N/N.dat");
        assert_eq!(wide.lifetime_ns.map(|ns| ns.abs_diff(500_000) < 20_000), Some(true));
    }

    #[test]
    fn few_rows_stay_as_they_are() {
        let mut names = Names::new();
        let rows = vec![FileActivity::of(1, 7, &Counts::default())];
        assert_eq!(fold(rows.clone(), 1, &mut names), rows);
    }
}
