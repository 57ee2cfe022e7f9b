//! One device of a mirror or an array is slower than the others that hold the same data. Where only
//! counters are known, `counters::devices` finds it among devices that have as much work.

use super::*;
use crate::analysis::summary::StageTime;
use std::collections::BTreeSet;

/// The least ratio of a member's median write to the fastest one's. Chosen: drives of one model
/// differ by less than two.
const SLOWER: f64 = 4.0;
/// The least median of its writes, nanoseconds. Chosen.
const SLOW_NS: f64 = 2_000_000.0;
/// The largest ratio between the writes of members that hold the same. Chosen.
const ALIKE: f64 = 1.5;
/// The least number of writes to judge.
const LEAST: u64 = 20;

rule!(
    "slow-member",
    "slow member of a mirror or a group",
    "A mirrored write is complete when every copy is: a RAID 1 of two devices is as slow as the \
     slower one. A failing or different drive therefore slows down the whole array or file \
     system, while the others are nearly idle. The same holds for devices that share a load \
     without an array, as those of a storage cluster do.",
    "The members hold different data, or one of them has other work.",
    place: Fault,
    needs: [Waits],
    least: LeastData::for_requests(2 * LEAST),
);

/// The slowest and the fastest of some devices, with the times of their writes.
type SlowestAndFastest<'a> = [(&'a DeviceSummary, StageTime); 2];

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let found = arrays(facts).into_iter().filter_map(|array| {
        let members = members(facts, &array.1)?;
        Some((array.0, members))
    });
    let findings: Vec<Finding> =
        found.map(|(array, members)| finding(facts, &array, &members)).collect();
    Ok(findings.into())
}

/// Returns arrays and file systems over several devices, with the names of these.
fn arrays(facts: &Facts<'_>) -> Vec<(String, BTreeSet<String>)> {
    let devices = facts.summary().environment.devices.iter();
    let stacked = devices.filter(|device| device.name.starts_with("md") && device.below.len() > 1);
    let mut arrays: Vec<(String, BTreeSet<String>)> = stacked
        .map(|stacked| (stacked.name.clone(), stacked.below.iter().cloned().collect()))
        .collect();
    // Of btrfs only the waits for one file on several devices show its members.
    for group in &facts.summary().patterns.waits {
        let (Some(device), Some(file)) = (&group.device, &group.file) else { continue };
        let Some(mount) = facts.mount_of_file(file).filter(|it| it.kind == "btrfs") else {
            continue;
        };
        match arrays.iter_mut().find(|(name, _)| *name == mount.path) {
            Some((_, members)) => drop(members.insert(device.clone())),
            None => arrays.push((mount.path.clone(), [device.clone()].into())),
        }
    }
    arrays
}

/// Returns the slowest and the fastest member, if they get the same writes and take unlike times.
fn members<'a>(facts: &Facts<'a>, names: &BTreeSet<String>) -> Option<SlowestAndFastest<'a>> {
    let rows = facts.devices().iter().filter(|row| names.contains(&row.device));
    let written = rows.filter_map(|row| {
        let stage = facts::stage(row, Direction::Write, Interval::D2c)?;
        (stage.requests >= LEAST).then_some((row, stage))
    });
    let mut written: Vec<(&DeviceSummary, StageTime)> = written.collect();
    written.sort_by_key(|(_, stage)| std::cmp::Reverse(stage.p50_ns));
    let is_copy = |slow: &StageTime, fast: &StageTime| {
        let (one, other) = (slow.requests as f64, fast.requests as f64);
        let is_alike = one <= ALIKE * other && other <= ALIKE * one;
        is_alike && slow.p50_ns as f64 >= SLOW_NS.max(SLOWER * fast.p50_ns as f64)
    };
    let mut pairs = written.iter().flat_map(|slow| {
        let copies = written.iter().rev().filter(|fast| is_copy(&slow.1, &fast.1));
        copies.map(|fast| [*slow, *fast])
    });
    pairs.next()
}

fn finding(facts: &Facts<'_>, array: &str, [slow, fast]: &SlowestAndFastest<'_>) -> Finding {
    let name = &slow.0.device;
    let waited = facts.waits(|group| group.device.as_ref() == Some(name));
    let subject = Subject { device: Some(name.clone()), ..waited.subject() };
    let who = match &subject.process {
        Some(_) => format!("; {} waits for the slower copy", words::who(&subject)),
        None => String::new(),
    };
    let sentence = format!(
        "{name} takes {} for a write where {}, which holds the same data of {array}, takes {}{who}",
        words::time(slow.1.p50_ns as f64),
        fast.0.device,
        words::time(fast.1.p50_ns as f64),
    );
    let stages = |name: &str| format!("iowhy stages -d {name}");
    Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .upper_bound()
        .shown("median write (D2C) of the slow one", slow.1.p50_ns as f64, "ns", stages(name))
        .shown("the same of the fast one", fast.1.p50_ns as f64, "ns", stages(&fast.0.device))
        .fix(format!(
            "check {name} (`smartctl -a`, `btrfs device stats`, its link), and replace it while \
             the array runs (`btrfs replace start`, `mdadm --replace`): until then each write \
             takes as long as on the slowest member"
        ))
        .check(format!(
            "`iowhy stages -d {name}` and the same of {}: if both take alike under the same \
             writes, neither is the cause",
            fast.0.device
        ))
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Finding, diagnose};
    use crate::model::WaitClass;
    use crate::model::environment::Device;
    use crate::script::{MS, Script};

    /// A mirror of two devices, of which the second takes `slow` for each write and gets one of
    /// `every` writes.
    fn found(slow: u64, every: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        let below = vec!["sda".to_owned(), "sdb".to_owned()];
        script.environment.devices.push(Device {
            name: "md0".to_owned(),
            below,
            ..Device::default()
        });
        for index in 0..200_u64 {
            let at = (index * 45 * MS) as i64;
            script.write("sda", 8192).by(7, "db").at(at).direct(500, 500, MS).add();
            if index % every == 0 {
                script.write("sdb", 8192).by(7, "db").at(at).direct(500, 500, slow).add();
            }
            script.wait((7, "db"), WaitClass::Fsync, slow, slow, 0);
            script.waited_on("sdb", "/db/pg_wal/1", 75);
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "slow-member")
    }

    #[test]
    fn the_slower_copy_is_named_with_the_faster_one() {
        let found = found(40 * MS, 1).unwrap();
        assert_eq!(found.subject.device.as_deref(), Some("sdb"));
        let said = "sdb takes 40.0 ms for a write where sda, which holds the same data of md0";
        assert!(found.sentence.contains(said), "{}", found.sentence);
    }

    #[test]
    fn members_that_take_alike_or_hold_different_data_are_not() {
        assert_eq!(found(3 * MS, 1), None);
        assert_eq!(found(40 * MS, 2), None);
    }
}
