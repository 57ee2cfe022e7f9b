//! Who waits for a file system's journal that an I/O limit holds up: a commit waits until all have
//! ended that change the file system, and ext4 in ordered mode for the data of files that grew.
//!
//! What does not belong here: which limit it is (the rule), and commits that wait for anything else
//! (`journal_commit`).

use super::super::journal_commit::OF_JOURNAL;
use super::super::{DeviceSummary, Facts, Subject, WaitClass, WaitGroup, words};
use crate::facts::Waited;
use crate::facts::thresholds::MOST;
use iowhy_analysis::summary::ChainRow;

/// What a commit waits for while a limit holds back the data that it writes first.
const OF_DATA: [WaitClass; 3] = [WaitClass::CgroupThrottle, WaitClass::Fsync, WaitClass::PageLock];

/// Returns the waits of others for the journal of a device, if a thread in the limit holds it up.
pub(super) fn behind_thread<'a>(facts: &Facts<'a>, limited: &Subject) -> Waited<'a> {
    behind(facts, limited.device.as_deref(), |row| {
        row.class == WaitClass::CgroupThrottle.word() && row.device == limited.device
    })
}

/// Returns the waits of others for the journal of a device, if its commits wait for data far longer
/// than requests take: the limit holds the data back.
pub(super) fn behind_data<'a>(
    facts: &Facts<'a>,
    device: &DeviceSummary,
    is_limited: impl Fn(&WaitGroup) -> bool,
    is_far_longer: impl Fn(f64) -> bool,
) -> Waited<'a> {
    let name = Some(device.device.as_str());
    let all = behind(facts, name, |row| {
        OF_DATA.iter().any(|class| row.class == class.word())
            && row.device.as_deref().is_none_or(|device| Some(device) == name)
            && is_far_longer(row.time_ns as f64 / row.sleeps.max(1) as f64)
    });
    Waited::from_groups(all.groups.into_iter().filter(|group| !is_limited(group)).collect())
}

/// Returns the journal waits of those who were seen to wait for a commit that such a row is about;
/// none if most of that time was not seen to be behind it.
fn behind<'a>(
    facts: &Facts<'a>,
    device: Option<&str>,
    is_held: impl Fn(&ChainRow) -> bool,
) -> Waited<'a> {
    let is_commit = |row: &&ChainRow| {
        row.steps.iter().any(|step| device.is_some_and(|name| is_journal_of(&step.process, name)))
    };
    let rows: Vec<&ChainRow> =
        facts.chains().filter(is_commit).filter(|row| is_held(row)).collect();
    let waiting = |group: &WaitGroup| {
        rows.iter().any(|row| row.steps.first().is_some_and(|first| first.pid == group.pid))
    };
    let waited = facts.waits(|group| {
        let is_on = group.device.is_none() || group.device.as_deref() == device;
        is_on && OF_JOURNAL.contains(&group.class) && waiting(group)
    });
    let seen_ns = rows.iter().map(|row| row.time_ns).fold(0, u64::saturating_add);
    match seen_ns as f64 >= MOST * waited.time_ns as f64 {
        true => waited,
        false => Waited::default(),
    }
}

/// Whether it is the thread of ext4's journal on a device, or on a partition of it: `jbd2/sda1-8`.
fn is_journal_of(process: &str, device: &str) -> bool {
    let Some(name) = process.strip_prefix("jbd2/") else { return false };
    let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
    name.strip_prefix(device)
        .is_some_and(|rest| rest.trim_start_matches('p').chars().all(|char| char.is_ascii_digit()))
}

/// `, which holds up the file system's journal: python3 (7) waits for it, 2.0 s on average`.
pub(super) fn behind_words(behind: &Waited<'_>) -> String {
    match behind.time_ns {
        0 => String::new(),
        _ => format!(
            ", which holds up the file system's journal: {} waits for it, {} on average",
            words::who(&behind.subject()),
            words::time(behind.mean_ns()),
        ),
    }
}

/// The advice about a limit beside others that share the journal.
pub(super) const OWN_FILE_SYSTEM: &str = "put what is limited on a file system of its own: a \
                                          limit on one program that writes to a journal holds up \
                                          all of them. A weight (io.weight) slows it down only \
                                          while others want the disk";
