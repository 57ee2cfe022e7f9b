//! Reports of the targets of a device-mapper device: how full a thin pool or snapshot is, which
//! paths of a multipath device work. The texts are those of the kernel's `status` functions
//! (drivers/md/dm-thin.c, dm-snap.c, dm-cache-target.c, dm-mpath.c, dm-raid.c).
//!
//! What does not belong here: how they are fetched (`passthrough`).

use super::passthrough::{ReportsTargets, TargetStatus};
use iowhy_model::health::{MappedTarget, MultipathPath};
use std::path::Path;

/// Targets of one device that are kept. A volume of many segments has as many linear targets,
/// which report nothing.
const MOST_TARGETS: usize = 16;
/// Paths of one device that are kept.
const MOST_PATHS: usize = 64;
/// Characters of a status that are kept.
const MOST_OF_STATUS: usize = 1024;

/// Reads the reports of a device's targets; `names` is the directory in sysfs that has block
/// devices by number.
///
/// # Errors
///
/// Fails if the device mapper does not answer, with the reason in half a sentence.
pub(super) fn read(
    mapper: &dyn ReportsTargets,
    device: u64,
    names: &Path,
) -> Result<Vec<MappedTarget>, String> {
    let reported =
        mapper.targets(device)?.into_iter().filter(|target| !target.status.trim().is_empty());
    let targets = reported.map(|reported| parse(&reported, names));
    // Targets such as linear and crypt report nothing at all, and are left out above.
    Ok(targets.take(MOST_TARGETS).collect())
}

fn parse(reported: &TargetStatus, names: &Path) -> MappedTarget {
    let status: String = reported.status.chars().take(MOST_OF_STATUS).collect();
    let mut target = MappedTarget {
        target: reported.target.clone(),
        status: status.trim().to_owned(),
        ..MappedTarget::default()
    };
    let words: Vec<&str> = reported.status.split_whitespace().collect();
    match reported.target.as_str() {
        "thin-pool" => thin_pool(&words, &mut target),
        "thin" => target.trouble = gave_up(&words),
        "snapshot" | "snapshot-merge" => snapshot(&words, &mut target),
        "cache" => cache(&words, &mut target),
        "multipath" => target.paths = paths(&words, names).unwrap_or_default(),
        "raid" => target.failed_members = failed_members(&words),
        _ => {}
    }
    target
}

/// The only word of a target that gave up.
fn gave_up(words: &[&str]) -> Option<String> {
    match words {
        [word @ ("Fail" | "Error")] => Some((*word).to_owned()),
        _ => None,
    }
}

/// `1 23/4096 105/1600 - rw discard_passdown queue_if_no_space - 1024`.
fn thin_pool(words: &[&str], target: &mut MappedTarget) {
    target.trouble = gave_up(words);
    if target.trouble.is_some() {
        return;
    }
    let pair = |at: usize| words.get(at).copied().and_then(fraction);
    (target.metadata_used, target.metadata_total) = halves(pair(1));
    (target.used, target.total) = halves(pair(2));
    // The root that user space holds is between the numbers and the words.
    let said = |word: &str| words.iter().skip(4).any(|other| *other == word);
    let troubles = ["out_of_data_space", "ro", "needs_check"];
    target.trouble = troubles.into_iter().find(|trouble| said(trouble)).map(str::to_owned);
    target.waits_for_space = match (said("queue_if_no_space"), said("error_if_no_space")) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    };
}

/// `1024/204800 16`, or one of the words.
fn snapshot(words: &[&str], target: &mut MappedTarget) {
    let troubles = ["Invalid", "Overflow", "Merge failed", "Unknown"];
    let status = words.join(" ");
    if let Some(trouble) = troubles.into_iter().find(|trouble| *trouble == status) {
        target.trouble = Some(trouble.to_owned());
        return;
    }
    (target.used, target.total) = halves(words.first().copied().and_then(fraction));
}

/// `8 27/2048 128 1024/1024 hits misses hits misses demotions promotions dirty features … mode
/// needs_check`.
fn cache(words: &[&str], target: &mut MappedTarget) {
    target.trouble = gave_up(words);
    if target.trouble.is_some() {
        return;
    }
    let pair = |at: usize| words.get(at).copied().and_then(fraction);
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    (target.metadata_used, target.metadata_total) = halves(pair(1));
    (target.used, target.total) = halves(pair(3));
    let sum = |a: usize, b: usize| Some(number(a)?.saturating_add(number(b)?));
    (target.hits, target.misses) = (sum(4, 6), sum(5, 7));
    target.dirty = number(10);
    let end = words.len().saturating_sub(2);
    let said = |word: &str| words.iter().skip(end.max(11)).any(|other| *other == word);
    let troubles = ["needs_check", "ro"];
    target.trouble = troubles.into_iter().find(|trouble| said(trouble)).map(str::to_owned);
}

/// `2 0 0 0 1 1 A 0 2 0 8:16 A 0 8:32 F 3`: counted lists of features and of the hardware handler,
/// groups of paths, and of each path its device, state and failures.
fn paths(words: &[&str], names: &Path) -> Option<Vec<MultipathPath>> {
    let mut words = words.iter().copied();
    for _ in 0..2 {
        skip_list(&mut words)?;
    }
    let groups: usize = words.next()?.parse().ok()?;
    let _next_group = words.next()?;
    let mut found = Vec::new();
    for _ in 0..groups {
        let _state_of_group = words.next()?;
        skip_list(&mut words)?;
        let paths: usize = words.next()?.parse().ok()?;
        let extra: usize = words.next()?.parse().ok()?;
        for _ in 0..paths {
            let (number, state) = (words.next()?, words.next()?);
            let failures = words.next()?.parse().ok()?;
            for _ in 0..extra {
                words.next()?;
            }
            if found.len() < MOST_PATHS {
                let (device, active) = (name_of(number, names), state == "A");
                found.push(MultipathPath { device, active, failures });
            }
        }
    }
    Some(found)
}

/// Skips a list that its length precedes.
fn skip_list<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<()> {
    let count: usize = words.next()?.parse().ok()?;
    for _ in 0..count {
        words.next()?;
    }
    Some(())
}

/// The name of a block device with that number.
fn name_of(number: &str, names: &Path) -> String {
    let is_number = number.chars().all(|character| character.is_ascii_digit() || character == ':');
    let found = is_number.then(|| names.join(number).canonicalize().ok()).flatten();
    let name = found.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.unwrap_or(number).to_owned()
}

/// `raid1 2 AD 409600/409600 idle 0 0 -`: `D` is a member that failed.
fn failed_members(words: &[&str]) -> Option<u64> {
    let (members, health) = (words.get(1)?.parse::<usize>().ok()?, words.get(2)?);
    (health.len() == members).then(|| health.bytes().filter(|byte| *byte == b'D').count() as u64)
}

/// `23/4096`.
fn fraction(text: &str) -> Option<(u64, u64)> {
    let (part, whole) = text.split_once('/')?;
    Some((part.parse().ok()?, whole.parse().ok()?))
}

fn halves(pair: Option<(u64, u64)>) -> (Option<u64>, Option<u64>) {
    (pair.map(|pair| pair.0), pair.map(|pair| pair.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device mapper with these targets.
    struct Double(Vec<(&'static str, &'static str)>);

    impl ReportsTargets for Double {
        fn targets(&self, device: u64) -> Result<Vec<TargetStatus>, String> {
            if device != 64_512 {
                return Err("No such device or address".to_owned());
            }
            let one = |(target, status): &(&str, &str)| TargetStatus {
                target: (*target).to_owned(),
                status: (*status).to_owned(),
            };
            Ok(self.0.iter().map(one).collect())
        }
    }

    fn target(name: &'static str, status: &'static str) -> MappedTarget {
        let found = read(&Double(vec![(name, status)]), 64_512, Path::new("/nosuch")).unwrap();
        found.into_iter().next().unwrap()
    }

    #[test]
    fn who_reports_nothing_is_left_out() {
        let double = Double(vec![("linear", ""), ("crypt", " "), ("thin", "8192 409599")]);
        let found = read(&double, 64_512, Path::new("/nosuch")).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].target.as_str(), found[0].trouble.as_deref()), ("thin", None));
        assert!(read(&double, 1, Path::new("/nosuch")).is_err());
        let many = Double(vec![("thin", "8 9"); 1000]);
        assert_eq!(read(&many, 64_512, Path::new("/nosuch")).unwrap().len(), MOST_TARGETS);
    }

    #[test]
    fn a_thin_pool_is_full_or_broken() {
        let said = "1 23/4096 105/1600 - rw discard_passdown queue_if_no_space - 1024";
        let pool = target("thin-pool", said);
        assert_eq!((pool.metadata_used, pool.metadata_total), (Some(23), Some(4096)));
        assert_eq!((pool.used, pool.total), (Some(105), Some(1600)));
        assert_eq!((pool.trouble, pool.waits_for_space), (None, Some(true)));
        for (said, trouble, waits) in [
            (
                "1 23/4096 1600/1600 - out_of_data_space no_discard_passdown queue_if_no_space - 1",
                Some("out_of_data_space"),
                Some(true),
            ),
            (
                "1 4096/4096 7/1600 12 ro discard_passdown error_if_no_space needs_check 1024",
                Some("ro"),
                Some(false),
            ),
            (
                "1 9/4096 7/1600 - rw discard_passdown error_if_no_space needs_check 1024",
                Some("needs_check"),
                Some(false),
            ),
            ("Fail", Some("Fail"), None),
            ("Error", Some("Error"), None),
            ("", None, None),
        ] {
            let mut pool = MappedTarget::default();
            thin_pool(&said.split_whitespace().collect::<Vec<_>>(), &mut pool);
            assert_eq!((pool.trouble.as_deref(), pool.waits_for_space), (trouble, waits), "{said}");
        }
    }

    #[test]
    fn a_snapshot_is_full_or_lost() {
        let snapshot = target("snapshot", "1024/204800 16");
        assert_eq!((snapshot.used, snapshot.total), (Some(1024), Some(204_800)));
        assert_eq!(snapshot.trouble, None);
        for word in ["Invalid", "Overflow", "Merge failed"] {
            let lost = target("snapshot", word);
            assert_eq!((lost.trouble.as_deref(), lost.used), (Some(word), None));
        }
    }

    #[test]
    fn a_cache_counts() {
        let said = "8 27/2048 128 512/1024 100 20 30 4 5 6 70 1 writeback 2 migration_threshold \
                    2048 smq 0 rw - ";
        let cache = target("cache", said);
        assert_eq!((cache.used, cache.total, cache.dirty), (Some(512), Some(1024), Some(70)));
        assert_eq!((cache.hits, cache.misses, cache.trouble), (Some(130), Some(24), None));
        let said = "8 27/2048 128 512/1024 1 2 3 4 5 6 7 1 writethrough 0 smq 0 ro needs_check";
        assert_eq!(target("cache", said).trouble.as_deref(), Some("needs_check"));
        assert_eq!(target("cache", "Fail").trouble.as_deref(), Some("Fail"));
    }

    #[test]
    fn paths_are_found_behind_counted_lists() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("block/sdb");
        std::fs::create_dir_all(&disk).unwrap();
        std::os::unix::fs::symlink(&disk, directory.path().join("8:16")).unwrap();
        let of = |said: &str| paths(&said.split_whitespace().collect::<Vec<_>>(), directory.path());
        let said = "2 0 0 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:32 F 3 0 1";
        let path = |device: &str, active, failures| MultipathPath {
            device: device.to_owned(),
            active,
            failures,
        };
        assert_eq!(of(said), Some(vec![path("sdb", true, 0), path("8:32", false, 3)]));
        // Features and a hardware handler with words of their own.
        let said = "3 1 queue_if_no_path x 1 alua 1 1 D 1 y 1 0 ../8:16 A 2";
        assert_eq!(of(said), Some(vec![path("../8:16", true, 2)]));
        for cut in ["", "2 0", "2 0 0 0 9 1 A 0 1 0 8:16", "2 0 0 0 1 1 A 0 7 0 8:16 A 0", "x"] {
            assert_eq!(of(cut), None, "{cut}");
        }
        let endless = format!("0 0 1 1 A 0 1000 0 {}", "8:16 A 0 ".repeat(1000));
        assert_eq!(of(&endless).unwrap().len(), MOST_PATHS);
    }

    #[test]
    fn members_that_failed_are_counted() {
        assert_eq!(target("raid", "raid1 2 AD 9/9 idle 0 0 -").failed_members, Some(1));
        assert_eq!(target("raid", "raid5 3 aaA 1/9 resync 0 0 -").failed_members, Some(0));
        assert_eq!(target("raid", "raid5 3 AA").failed_members, None);
    }
}
