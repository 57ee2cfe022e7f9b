//! Freed space is given back to the device while others wait.

use super::*;
use crate::analysis::summary::DeviceSummary;
use crate::analysis::{Direction, Interval};
use crate::command::shell_word;

/// The share of the device's time that discards take. Chosen.
const SHARE: f64 = 0.1;
/// Discards in the whole watch below which it is no storm.
const LEAST: u64 = 20;

rule!(
    "discard-storm",
    "a storm of discards",
    "With the mount option discard, every deletion tells the device at once which blocks are \
     free. Many devices do this slowly, in the same queue as reads and writes, and file systems \
     wait for it in their commits. A large deletion then stops everything for seconds.",
    "Discards that nobody waits for.",
    symptoms: ["device-slow-tail", "journal-commit", "noisy-neighbour", "inode-lock"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let time = |device: &DeviceSummary| {
        let stage = facts::stage(device, Direction::Discard, Interval::Q2c).or(facts::stage(
            device,
            Direction::Discard,
            Interval::D2c,
        ));
        stage.map_or(0, |stage| stage.sum_ns)
    };
    let fits = |device: &DeviceSummary| {
        facts::of(device, Direction::Discard).requests >= LEAST
            && time(device) as f64 >= SHARE * facts::device_time_ns(device) as f64
    };
    let Some(device) = facts.busiest(fits) else { return Ok(Verdict::Clear) };
    let name = &device.device;
    let discards = facts::of(device, Direction::Discard);
    let stage = facts::stage(device, Direction::Discard, Interval::D2c);
    let mounts = facts.mounts(device);
    let mounted = mounts
        .iter()
        .find(|mount| mount.options.split(',').any(|word| word.starts_with("discard")));
    let top =
        facts.top_process(device, |row| row.usage.directions[Direction::Discard].requests > 0);
    let sentence = format!(
        "{name} is busy with discards, {} a second of {} each: {} of its time",
        words::number(discards.requests_per_s),
        words::bytes(discards.average_bytes.unwrap_or(0.0)),
        words::percent(time(device) as f64 / facts::device_time_ns(device).max(1) as f64),
    );
    Ok(Finding::of_device(facts, time(device), facts::device_time_ns(device), sentence)
        .about(facts::subject_of(name, top))
        .sure(Confidence::Certain)
        .shown("discards", discards.requests_per_s, "1/s", format!("iowhy stat -d {name}"))
        .shown(
            "mean discard at the device",
            stage.map_or(0.0, |stage| stage.mean_ns),
            "ns",
            format!("iowhy stages -d {name}"),
        )
        .fix(fix(name, mounted.map(|mount| mount.kind.as_str())))
        .check(check(mounted.map(|mount| (mount.path.as_str(), mount.kind.as_str()))))
        .into())
}

fn check(mount: Option<(&str, &str)>) -> String {
    let ended = "the discards end; if not, ";
    match mount {
        // XFS accepts a remount with nodiscard and goes on as before.
        Some((point, "xfs")) => {
            let point = shell_word(point);
            format!(
                "XFS changes it only at the next mount of {point} (a remount is ignored): until \
                 then, while no files are removed {ended}a program sends them itself \
                 (blkdiscard, fstrim)"
            )
        }
        Some((point, _)) => {
            let point = shell_word(point);
            format!(
                "`mount -o remount,nodiscard {point}`: {ended}a program sends them itself \
                     (blkdiscard, fstrim)"
            )
        }
        None => format!("while what sends them is stopped {ended}somebody else does"),
    }
}

fn fix(name: &str, mounted: Option<&str>) -> String {
    let source = match mounted {
        // From Linux 6.2 on btrfs discards by default.
        Some("btrfs") => {
            "mount it with nodiscard, which btrfs needs from Linux 6.2 on, and let fstrim.timer \
             give space back once a week (`systemctl enable --now fstrim.timer`); smaller \
             deletions"
        }
        Some(_) => {
            "mount without discard (it is mounted with it; /etc/fstab), and let fstrim.timer \
             give space back once a week (`systemctl enable --now fstrim.timer`): without either \
             a thin volume below fills up; smaller deletions"
        }
        None => {
            "no mount of it has the option discard: find what sends them (`findmnt -O discard` \
             for what lies above it, fstrim, blkdiscard, mkfs), and let that run when nobody \
             waits"
        }
    };
    format!(
        "{source}; `echo 67108864 > /sys/block/{name}/queue/discard_max_bytes` makes single \
             ones smaller"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_is_not_mounted_with_discard_is_not_told_to_mount_without() {
        assert!(super::fix("sda", Some("ext4")).starts_with("mount without discard"));
        assert!(super::fix("sda", Some("btrfs")).contains("nodiscard"));
        assert!(super::fix("sda", None).contains("find what sends them"));
    }

    #[test]
    fn xfs_is_not_told_to_remount() {
        assert!(!super::check(Some(("/data", "xfs"))).contains("remount,nodiscard"));
        assert!(super::check(Some(("/data", "ext4"))).contains("remount,nodiscard"));
    }
}
