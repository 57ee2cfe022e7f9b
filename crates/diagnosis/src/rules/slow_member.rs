//! One device of a mirror or an array is slower than the others that hold the same data. Where only
//! counters are known, `counters::devices` finds it among devices that have as much work.

use super::*;
use iowhy_analysis::summary::StageTime;
use iowhy_model::compact_sort::CompactSort;
use std::collections::BTreeSet;

/// The least ratio of a member's median write or read to the fastest one's. Chosen: drives of one
/// model differ by less than two.
const SLOWER: f64 = 4.0;
/// The least median of its writes or reads, nanoseconds. Chosen.
const SLOW_NS: f64 = 2_000_000.0;
/// The largest ratio between the numbers of writes of members that hold the same, and of reads that
/// they share. Chosen.
const ALIKE: f64 = 1.5;
/// The most by which the fast member's share of reads in order is above the slow one's. Chosen.
const MORE_IN_ORDER: f64 = 0.3;
/// The least number of writes or reads to judge.
const LEAST: u64 = 20;

rule!(
    "slow-member",
    "slow member of a mirror or a group",
    "A mirrored write is complete when every copy is: a RAID 1 of two devices is as slow as the \
     slower one. Reads are shared among the members, and each waits for the one that it got. A \
     failing or different drive therefore slows down the whole array or file \
     system, while the others are nearly idle. The same holds for devices that share a load \
     without an array, as those of a storage cluster do.",
    "The members hold different data, or one of them has other work.",
    place: Fault,
    needs: [Waits],
    least: LeastData::for_requests(2 * LEAST),
);

/// The slowest and the fastest of some devices, with the times of their requests.
struct Members<'a> {
    slow: (&'a DeviceSummary, StageTime),
    fast: (&'a DeviceSummary, StageTime),
    direction: Direction,
}

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

/// Returns the slowest and the fastest member, if they get as many writes or reads and take unlike
/// times.
fn members<'a>(facts: &Facts<'a>, names: &BTreeSet<String>) -> Option<Members<'a>> {
    let found = [Direction::Write, Direction::Read].map(|direction| {
        let rows = facts.devices().iter().filter(|row| names.contains(&row.device));
        let timed = rows.filter_map(|row| {
            let stage = facts::stage(row, direction, Interval::D2c)?;
            (stage.requests >= LEAST).then_some((row, stage))
        });
        let mut timed: Vec<(&DeviceSummary, StageTime)> = timed.collect();
        timed.compact_sort_by_key(|(_, stage)| std::cmp::Reverse(stage.p50_ns));
        let is_alike = |slow: &StageTime, fast: &StageTime| {
            are_near(slow.requests as f64, fast.requests as f64)
                && slow.p50_ns as f64 >= SLOW_NS.max(SLOWER * fast.p50_ns as f64)
        };
        let mut pairs = timed.iter().flat_map(|slow| {
            let others = timed.iter().rev().filter(|fast| {
                let is_same = direction == Direction::Write || are_same_reads(slow.0, fast.0);
                is_same && is_alike(&slow.1, &fast.1)
            });
            others.map(|fast| Members { slow: *slow, fast: *fast, direction })
        });
        pairs.next()
    });
    found.into_iter().flatten().max_by_key(|members| members.slow.1.p50_ns)
}

fn are_near(one: f64, other: f64) -> bool {
    one <= ALIKE * other && other <= ALIKE * one
}

/// Whether two members have reads of one kind: a mirror may give one of them a stream in order, and
/// the other what is read here and there.
fn are_same_reads(slow: &DeviceSummary, fast: &DeviceSummary) -> bool {
    let of = |device| facts::of(device, Direction::Read);
    let bytes = of(slow).average_bytes.zip(of(fast).average_bytes);
    let order = of(slow).sequential_share.zip(of(fast).sequential_share);
    bytes.is_some_and(|(slow, fast)| are_near(slow, fast))
        && order.is_some_and(|(slow, fast)| fast <= slow + MORE_IN_ORDER)
}

fn finding(facts: &Facts<'_>, array: &str, members: &Members<'_>) -> Finding {
    let Members { slow, fast, direction } = members;
    let (name, other) = (&slow.0.device, &fast.0.device);
    let waited = facts.waits(|group| group.device.as_ref() == Some(name));
    let subject = Subject { device: Some(name.clone()), ..waited.subject() };
    // Members of a file system without copies share its reads, too.
    let (kind, is_what, for_what) = match direction {
        Direction::Read => ("read", "another member of", "those on it"),
        _ => ("write", "which holds the same data of", "the slower copy"),
    };
    let who = match &subject.process {
        Some(_) => format!("; {} waits for {for_what}", words::who(&subject)),
        None => String::new(),
    };
    let sentence = format!(
        "{name} takes {} for a {kind} where {other}, {is_what} {array}, takes {}{who}",
        words::time(slow.1.p50_ns as f64),
        words::time(fast.1.p50_ns as f64),
    );
    let stages = |name: &str| format!("iowhy stages -d {name}");
    Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .sure(match direction {
            Direction::Read => Confidence::Likely,
            _ => Confidence::Certain,
        })
        .upper_bound()
        .shown(
            format!("median {kind} (D2C) of the slow one"),
            slow.1.p50_ns as f64,
            "ns",
            stages(name),
        )
        .shown("the same of the fast one", fast.1.p50_ns as f64, "ns", stages(other))
        .fix(format!(
            "check {name} (`smartctl -a`, `btrfs device stats`, its link), and replace it while \
             the array runs, where its data has another copy (`btrfs replace start`, `mdadm \
             --replace`): until then each write, and each read that it gets, takes as long as on \
             the slowest member; reads of a RAID 1 keep off it with `echo writemostly > \
             /sys/block/MD/md/dev-MEMBER/state`"
        ))
        .check(format!(
            "`iowhy stages -d {name}` and the same of {other}: if both take alike under the same \
             requests, neither is the cause"
        ))
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

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
    fn a_member_that_reads_slowly_is_named() {
        let found = |slow: u64| {
            let mut script = Script::new(10);
            let below = vec!["sda".to_owned(), "sdb".to_owned()];
            let name = "md0".to_owned();
            script.environment.devices.push(Device { name, below, ..Device::default() });
            for index in 0..100_u64 {
                let (device, each) = if index % 2 == 0 { ("sda", MS / 2) } else { ("sdb", slow) };
                let read = script.read(device, 8192).by(7, "cat").at((index * 90 * MS) as i64);
                read.direct(500, 500, each).add();
                script.wait((7, "cat"), WaitClass::PageRead, each, each, 0);
                script.waited_on(device, "/photos/1.jpg", 0);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "slow-member")
        };
        let slow = found(150 * MS).unwrap();
        let said = "sdb takes 150 ms for a read where sda, another member of md0, takes 500 µs";
        assert!(slow.sentence.contains(said), "{}", slow.sentence);
        assert_eq!(slow.subject.process.as_deref(), Some("cat"));
        assert_eq!(found(MS), None);
    }

    #[test]
    fn members_that_take_alike_or_hold_different_data_are_not() {
        assert_eq!(found(3 * MS, 1), None);
        assert_eq!(found(40 * MS, 2), None);
    }
}
