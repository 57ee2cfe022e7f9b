//! Discards of freed space take the device's time.

use super::*;
use facts::neighbours::is_program;
use facts::thresholds::DEVICE_SHARE;
use iowhy_model::command::shell_word;

/// The least number of discards in total.
const LEAST: u64 = 20;
/// The mean discard above which smaller ones let other requests in between, bytes. Chosen.
const LARGE: f64 = 67_108_864.0;
/// Waits for commits, which wait for the discards of what they freed.
const OF_COMMITS: &[WaitClass] = &[WaitClass::JournalCommit, WaitClass::JournalSpace];

rule!(
    "discard-storm",
    "discard storm",
    "With the mount option discard, every deletion sends discards for the freed blocks to the \
     device at once. Many devices process them slowly, in the same queue as reads and writes, and \
     file systems wait for them in their commits. A large deletion then stalls everything for \
     seconds.",
    "No process waits for the discards.",
    place: Program,
    least: LeastData::for_requests(LEAST),
    picture: Bytes,
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
            && time(device) as f64 >= DEVICE_SHARE * facts::device_time_ns(device) as f64
    };
    let device = facts.busiest(fits).ok_or(Clear)?;
    let name = &device.device;
    let discards = facts::of(device, Direction::Discard);
    let stage = facts::stage(device, Direction::Discard, Interval::D2c);
    let mounts = facts.mounts(device);
    let mounted = mounts
        .iter()
        .find(|mount| mount.options.split(',').any(|word| word.starts_with("discard")));
    let top =
        facts.top_process(device, |row| row.usage.directions[Direction::Discard].requests > 0);
    let by = top.filter(|row| !row.subject.process.is_empty()).map_or_else(String::new, |row| {
        format!(" of {}", words::process(&row.subject.process, row.subject.pid, None))
    });
    let mean_bytes = discards.average_bytes.unwrap_or(0.0);
    let sentence = format!(
        "{name} is busy with discards{by}, {} per second of {} each: {} of its time",
        words::number(discards.requests_per_s),
        words::bytes(mean_bytes),
        words::percent(time(device) as f64 / facts::device_time_ns(device).max(1) as f64),
    );
    let whole_ns = facts::device_time_ns(device);
    let share = time(device) as f64 / whole_ns.max(1) as f64;
    let requests = Claims::of_device(facts, name).scaled(share);
    // A commit sends the discards of what it freed, and is over when they are.
    let commits = facts.waits(|group| {
        mounted.is_some()
            && group.device.as_ref() == Some(name)
            && OF_COMMITS.contains(&group.class)
    });
    let sender = top.map(|row| row.subject.process.as_str());
    let by_program = top.filter(|row| is_program(&row.subject)).and(sender);
    let victims = facts.victims(name, |process| sender == Some(process));
    let sentence = sentence + &facts.beside(&victims);
    Ok(Finding::of_device(facts, time(device), whole_ns, sentence)
        .claiming(requests.and(&Claims::of_waits(&commits)))
        .about(facts::subject_of(name, top))
        .sure(Confidence::Certain)
        .shown("discards", discards.requests_per_s, "1/s", format!("iowhy stat -d {name}"))
        .shown(
            "mean discard latency (D2C)",
            stage.map_or(0.0, |stage| stage.mean_ns),
            "ns",
            format!("iowhy stages -d {name}"),
        )
        .fix(fix(name, mounted.map(|mount| mount.kind.as_str()), by_program, mean_bytes))
        .check(check(mounted.map(|mount| (mount.path.as_str(), mount.kind.as_str()))))
        .into())
}

fn check(mount: Option<(&str, &str)>) -> String {
    let ended = "the discards stop; if not, ";
    match mount {
        // XFS accepts a remount with nodiscard and ignores it.
        Some((point, "xfs")) => {
            let point = shell_word(point);
            format!(
                "XFS applies it only at the next mount of {point} (a remount is ignored): until \
                 then, while no files are removed {ended}a program sends them itself (blkdiscard, \
                 fstrim)"
            )
        }
        Some((point, _)) => {
            let point = shell_word(point);
            format!(
                "`mount -o remount,nodiscard {point}`: {ended}a program sends them itself \
                     (blkdiscard, fstrim)"
            )
        }
        None => format!("while their sender is stopped {ended}something else sends them"),
    }
}

fn fix(name: &str, mounted: Option<&str>, sender: Option<&str>, mean_bytes: f64) -> String {
    let of_program = sender.map(|sender| format!("run {sender} off-peak"));
    let source = match mounted {
        // Since Linux 6.2 btrfs discards by default.
        Some("btrfs") => {
            "mount it with nodiscard, which btrfs needs since Linux 6.2, and let fstrim.timer trim \
             free space once a week (`systemctl enable --now fstrim.timer`); delete in smaller \
             batches"
        }
        Some(_) => {
            "mount without discard (it is mounted with it; /etc/fstab), and let fstrim.timer trim \
             free space once a week (`systemctl enable --now fstrim.timer`): without either a thin \
             volume below fills up; delete in smaller batches"
        }
        None => of_program.as_deref().unwrap_or(
            "no mount of it has the option discard: find what sends them (`findmnt -O discard` for \
             mounts on devices above it, fstrim, blkdiscard, mkfs), and run that off-peak",
        ),
    };
    let size = match mean_bytes > LARGE {
        true => format!(
            "; `echo {LARGE} > /sys/block/{name}/queue/discard_max_bytes` makes them smaller"
        ),
        false => String::new(),
    };
    source.to_owned() + &size
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_is_not_mounted_with_discard_is_not_told_to_mount_without() {
        assert!(
            super::fix("sda", Some("ext4"), Some("rm"), 4096.0)
                .starts_with("mount without discard")
        );
        assert!(super::fix("sda", Some("btrfs"), None, 4096.0).contains("nodiscard"));
        assert!(super::fix("sda", None, None, 4096.0).contains("find what sends them"));
        assert!(super::fix("sda", None, Some("fstrim"), 4096.0).starts_with("run fstrim off-peak"));
    }

    #[test]
    fn the_size_of_discards_is_changed_where_that_is_the_trouble() {
        let fix = |mean_bytes| super::fix("sda", None, Some("fstrim"), mean_bytes);
        assert!(fix(1e9).contains("echo 67108864"));
        assert_eq!(fix(10e6), "run fstrim off-peak");
    }

    #[test]
    fn xfs_is_not_told_to_remount() {
        assert!(!super::check(Some(("/data", "xfs"))).contains("remount,nodiscard"));
        assert!(super::check(Some(("/data", "ext4"))).contains("remount,nodiscard"));
    }
}
