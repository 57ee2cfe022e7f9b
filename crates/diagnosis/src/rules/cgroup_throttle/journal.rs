//! Who waits for a file system's journal that an I/O limit holds up: a commit waits until all have
//! ended that change the file system, and ext4 in ordered mode for the data of files that grew.
//!
//! What does not belong here: which limit it is (the rule), and commits that wait for anything else
//! (`journal_commit`).

use super::super::journal_commit::OF_JOURNAL;
use super::super::{DeviceSummary, Facts, Subject, WaitClass, WaitGroup, words};
use crate::facts::Waited;
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

fn behind<'a>(
    facts: &Facts<'a>,
    device: Option<&str>,
    is_held: impl Fn(&ChainRow) -> bool,
) -> Waited<'a> {
    let is_commit = |row: &&ChainRow| row.steps.iter().any(|step| step.process.starts_with("jbd2"));
    if !facts.chains().filter(is_commit).any(|row| is_held(row)) {
        return Waited::default();
    }
    facts.waits(|group| {
        let is_on = group.device.is_none() || group.device.as_deref() == device;
        is_on && OF_JOURNAL.contains(&group.class)
    })
}

/// `, which holds up the file system's journal: python3 (7) waits for it, 2.0 s on average`.
pub(super) fn words_of(behind: &Waited<'_>) -> String {
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
pub(super) const OWN: &str = "put what is limited on a file system of its own (a limit on a part \
                              of a journal's writers holds up all of them), or use a weight, \
                              which leaves an idle disk to it";
