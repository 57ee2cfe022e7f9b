//! A RAID reads and writes all of its disks concurrently with the load.

use super::*;
use facts::thresholds::{DEVICE_SHARE, MOST};
use iowhy_analysis::summary::{ProcessRow, UsedRow};
use iowhy_model::environment::{Device, is_part_of};

/// Name suffixes of the md threads that do it.
const THREADS: &[&str] = &["_resync", "_recover", "_reshape", "_check", "_repair"];
/// The thread name prefix of an array created by LVM.
const OF_LVM: &str = "mdX";
/// The actions of md that read all of the array and compare its disks.
const CHECK: &str = "check";
const REPAIR: &str = "repair";

rule!(
    "raid-resync",
    "RAID resync, rebuild or check",
    "After a failure, a crash or once a month, md reads all of its disks and writes what differs. \
     It slows down when others use the disks, but never below sync_speed_min, and their requests \
     queue behind its large sequential ones. A write-intent bitmap (`mdadm --grow \
     --bitmap=internal ARRAY`), added once it is complete, keeps the next resync after a crash \
     short.",
    "The requests come from a program on the same disks.",
    place: KernelWork,
    needs: [Processes],
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_processes()?;
    let found = facts.devices().iter().filter_map(|device| resync(device).map(|row| (device, row)));
    let Some((device, row)) = found.max_by_key(|(_, row)| row.usage.all_time_ns()) else {
        return Ok(RuleVerdict::Clear);
    };
    let whole = facts::device_time_ns(device);
    let time = row.usage.all_time_ns();
    clear_if((time as f64) < DEVICE_SHARE * whole as f64)?;
    let thread = row.subject.process.clone();
    let array = array_of(facts, &device.device, &thread).ok_or(Clear)?;
    let action = action_of(facts, array);
    let sentence = format!(
        "{array} {}: {thread} takes {} of the time of {}",
        words_of(action),
        words::percent(time as f64 / whole.max(1) as f64),
        device.device,
    );
    let name = &device.device;
    Ok(Finding::of_device(facts, time, whole, sentence)
        .about(facts::subject_of(name, Some(row)))
        .sure(Confidence::Certain)
        .shown(
            "share of the disk's time",
            time as f64 / whole.max(1) as f64 * 100.0,
            "%",
            format!("iowhy -d {name}"),
        )
        .shown(
            "resync throughput",
            row.usage.bytes as f64 / facts.seconds(),
            "bytes/s",
            format!("iowhy proc -d {name}"),
        )
        .fix(fix(array, action, row.usage.bytes as f64 / facts.seconds()))
        .check(check(array))
        .into())
}

/// Returns what md does, in its own word; empty if it did not say.
fn action_of<'a>(facts: &Facts<'a>, array: &str) -> &'a str {
    let mut devices = facts.summary().environment.devices.iter();
    let device = devices.find(|device| device.name == array);
    let health =
        device.and_then(|device| device.health_start.as_ref().or(device.health_end.as_ref()));
    health.and_then(|health| health.array.as_ref()).map_or("", |it| it.action.as_str())
}

fn words_of(action: &str) -> &'static str {
    match action {
        "recover" => "is being rebuilt",
        "resync" => "is being made consistent (resync)",
        "reshape" => "is being reshaped",
        CHECK => "is being checked",
        REPAIR => "is being checked and repaired",
        _ => "is rebuilding or checking",
    }
}

/// `bytes_per_s` is what the resync reads of a disk now.
fn fix(array: &str, action: &str, bytes_per_s: f64) -> String {
    if matches!(action, CHECK | REPAIR) && !array.starts_with("dm-") {
        return format!(
            "stop it and begin it again at a quiet time: `echo idle > \
             /sys/block/{array}/md/sync_action` (a check can be stopped at any time; \
             distributions begin one each month)"
        );
    }
    let end = "let it finish if you can: until a rebuild is complete, the next disk failure may \
               lose data";
    if array.starts_with("dm-") {
        return format!(
            "{end}. Otherwise slow it down: `lvchange --maxrecoveryrate 20M VG/LV` (`lvs -a -o \
             name,sync_percent,raid_sync_action` shows which)"
        );
    }
    // md's own default of the least speed is 1,000 KiB/s.
    let half = (bytes_per_s / 2048.0 / 100.0).round().max(10.0) as u64 * 100;
    format!(
        "{end}. Otherwise halve its speed: `echo {half} > /sys/block/{array}/md/sync_speed_max` \
         (KiB/s)"
    )
}

fn check(array: &str) -> String {
    if array.starts_with("dm-") {
        return "`lvs -a -o name,sync_percent,raid_sync_action` shows it; if the disks stay as slow \
                after it has ended, the resync is not the cause"
            .to_owned();
    }
    format!(
        "`cat /proc/mdstat` shows it; `echo 1000 > /sys/block/{array}/md/sync_speed_max` for ten \
         seconds, then `echo system` into it: if the disks stay as slow, the resync is not the \
         cause"
    )
}

/// Returns the array that the thread belongs to, an upper device of the disk. Any program may have
/// such a name.
fn array_of<'a>(facts: &Facts<'a>, disk: &str, thread: &str) -> Option<&'a str> {
    let name = THREADS.iter().find_map(|end| thread.strip_suffix(end))?;
    let mut arrays = facts.summary().environment.devices.iter();
    let stands_on = |device: &Device| device.below.iter().any(|below| is_part_of(disk, below));
    // The thread of an array created by LVM is called mdX, whatever the volume's name.
    let is_named =
        |device: &Device| device.name == name || name == OF_LVM && device.name.starts_with("dm-");
    arrays.find(|device| is_named(device) && stands_on(device)).map(|device| device.name.as_str())
}

fn resync(device: &DeviceSummary) -> Option<&UsedRow<ProcessRow>> {
    device.processes.iter().find(|row| {
        let name = &row.subject.process;
        name.starts_with("md") && THREADS.iter().any(|end| name.ends_with(end))
    })
}

/// Whether a resync takes most of the time of a disk, or of another disk of its array: md then sets
/// the pace, like a limit. What is read from one disk is written to the others by another thread.
pub(super) fn sets_the_pace(facts: &Facts<'_>, disk: &DeviceSummary) -> bool {
    let arrays = facts.summary().environment.devices.iter();
    let below = |array: &Device, disk: &str| array.below.iter().any(|it| is_part_of(disk, it));
    let arrays: Vec<&Device> = arrays.filter(|array| below(array, &disk.device)).collect();
    facts.devices().iter().any(|other| {
        let is_sibling = arrays.iter().any(|array| below(array, &other.device));
        let time = resync(other).map_or(0, |row| row.usage.all_time_ns());
        is_sibling && time as f64 > MOST * facts::device_time_ns(other) as f64
    })
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::health::{ArrayState, DeviceHealth};
    use iowhy_model::script::Script;

    /// The fix if a thread of that name reads sda, a lower device of `array`.
    fn fix(thread: &str, array: &str) -> Option<String> {
        found(thread, array, "").map(|it| it.fix)
    }

    /// The same as a finding; `action` is what md says that it does.
    fn found(thread: &str, array: &str, action: &str) -> Option<Finding> {
        let state = ArrayState { action: action.to_owned(), ..ArrayState::default() };
        let health = DeviceHealth { array: Some(state), ..DeviceHealth::default() };
        let mut script = Script::new(10);
        let below = vec!["sda1".to_owned()];
        script.environment.devices.push(Device {
            name: array.to_owned(),
            below,
            health_start: Some(health),
            ..Device::default()
        });
        for at in 0..400_i64 {
            let read = script.read("sda", 1 << 20).by(7, thread).at(at * 20_000_000);
            read.direct(0, 0, 15_000_000).add();
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "raid-resync")
    }

    #[test]
    fn a_check_can_be_stopped_and_a_rebuild_cannot() {
        let of = |action: &str| found("md5_resync", "md5", action).unwrap();
        let check = of("check");
        assert!(check.sentence.starts_with("md5 is being checked: md5_resync takes"), "{check:?}");
        assert!(check.fix.contains("echo idle > /sys/block/md5/md/sync_action"), "{}", check.fix);
        let rebuild = of("recover");
        assert!(rebuild.sentence.starts_with("md5 is being rebuilt"), "{}", rebuild.sentence);
        assert!(rebuild.fix.starts_with("let it finish if you can"), "{}", rebuild.fix);
        assert!(of("").sentence.starts_with("md5 is rebuilding or checking"));
    }

    /// Processes that wait for the array wait for its disks.
    #[test]
    fn waits_for_the_array_are_the_resyncs() {
        let mut script = Script::new(10);
        let device = |name: &str, below: &[&str], whole: Option<&str>| Device {
            name: name.to_owned(),
            below: below.iter().map(|it| (*it).to_owned()).collect(),
            partition_of: whole.map(str::to_owned),
            ..Device::default()
        };
        let devices =
            [("md5", &["sda1"][..], None), ("md6", &[], None), ("sda1", &[], Some("sda"))];
        let devices = devices.map(|(name, below, whole)| device(name, below, whole));
        script.environment.devices.extend(devices);
        for at in 0..400_i64 {
            let read = script.read("sda", 1 << 20).by(7, "md5_check").at(at * 20_000_000);
            read.direct(0, 0, 15_000_000).add();
        }
        let explained = |device: &str| {
            let mut script = script.clone();
            for at in 0..90_u64 {
                let ids = [script.read(device, 4096).bio(90_000_000).add()];
                let sleep = script.sleep((8, "db"), at * 100_000_000, 90_000_000);
                sleep.call(0).requests(&ids).add();
            }
            let found = diagnose(&script.summary()).findings;
            let resync = found.into_iter().find(|it| it.cause == "raid-resync");
            resync.unwrap().bottlenecks.contains(&"slow-reads")
        };
        assert!(explained("md5"));
        assert!(!explained("md6"), "another array's");
    }

    #[test]
    fn only_a_thread_of_an_array_rebuilds_it() {
        assert!(fix("md5_check", "md5").is_some_and(|it| it.contains("/sys/block/md5/md/")));
        assert!(
            fix("md_home_resync", "md_home").is_some_and(|it| it.contains("/sys/block/md_home/"))
        );
        assert_eq!(fix("md5_check", "md0"), None);
        assert_eq!(fix("md;reboot;_check", "md0"), None);
        // LVM's arrays.
        assert!(fix("mdX_resync", "dm-3").is_some_and(|it| it.contains("lvchange")));
        assert_eq!(fix("mdX_resync", "md0"), None);
    }
}
