//! A loop device whose backing file is cached a second time.

use super::flush_cost::is_cached_below;
use super::*;
use facts::BULK_PER_S;

/// Compressed file systems: the cache below holds other bytes than the one above, and the program
/// that mounts such images (snapd) sets up the loop device.
const COMPRESSED: &[&str] = &["squashfs", "erofs", "cramfs"];

rule!(
    "double-caching",
    "double caching of a loop device's file",
    "A loop device without direct I/O reads and writes its file through the page cache, although \
     the file system on the device has its own. All data is in memory twice and copied once more, \
     flushes wait for both, and write errors of the backing file show late.",
    "The loop device uses direct I/O (losetup -l shows DIO 1), or holds a compressed image.",
    place: Setting,
    needs: [Settings],
    bound: [
        "the time of the requests that take the detour",
        "most of it is needed without the detour, too",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let moved =
        |device: &DeviceSummary| device.directions.0.iter().map(|it| it.bytes_per_s).sum::<f64>();
    let buffered = |device: &DeviceSummary| {
        let kind = facts.file_system(&device.device);
        is_cached_below(facts, device)
            && !kind.is_some_and(|kind| COMPRESSED.contains(&kind))
            && !device.below.is_empty()
            && moved(device) >= BULK_PER_S
    };
    let device = facts.busiest(buffered).ok_or(Clear)?;
    let name = &device.device;
    let file = device.backing_file.clone().unwrap_or_default();
    let all: u64 = facts.devices().iter().map(facts::device_time_ns).fold(0, u64::saturating_add);
    let below = device.below.first().cloned().unwrap_or_default();
    let sentence = format!(
        "{name} reads and writes its backing file {file} through the page cache: its data is in \
                            memory twice"
    );
    let time = facts::device_time_ns(device).min(all);
    // It is a cost, not a stall: if the device hangs, there is another cause.
    let least = (facts.duration_ns() as f64 * super::super::facts::WARNING_THREADS).ceil() as u64;
    Ok(Finding::of_device(facts, time.max(least), all, sentence)
        .about(Subject {
            file: Some(file),
            ..facts::subject_of(name, facts.top_process(device, |_| true))
        })
        .sure(Confidence::Certain)
        .upper_bound()
        .at_most(super::super::finding::Severity::Warning)
        .shown(
            "throughput of the loop device",
            moved(device),
            "bytes/s",
            format!("iowhy stat -d {name}"),
        )
        .shown(
            format!("share of all device time, including {below} below it"),
            time as f64 / all.max(1) as f64 * 100.0,
            "%",
            "iowhy",
        )
        .fix(format!(
            "`losetup --direct-io=on /dev/{name}`, and the same option where the loop device is \
                      set up; it fails if the disk below has larger blocks"
        ))
        .check(format!(
            "`losetup -l /dev/{name}` shows DIO 0; with 1, `free` shows less buff/cache and \
                        throughput stays or rises; if it falls, the second copy was useful"
        ))
        .into())
}

#[cfg(test)]
mod tests {
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::{Device, Mount};
    use iowhy_model::script::Script;

    /// Whether a loop device with such a file system and this many MiB per second is reported.
    fn is_found(kind: &str, mebibytes: u64) -> bool {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "loop3".to_owned(),
            major: 7,
            minor: 3,
            below: vec!["sda".to_owned()],
            backing_file: Some("/images/it.img".to_owned()),
            settings_start: [("loop/dio".to_owned(), "0".to_owned())].into(),
            ..Device::default()
        });
        script.environment.mounts.push(Mount {
            major: 7,
            minor: 3,
            path: "/mnt".to_owned(),
            kind: kind.to_owned(),
            source: "/dev/loop3".to_owned(),
            ..Mount::default()
        });
        for index in 0..mebibytes * 10 {
            let read = script.read("loop3", 1 << 20).by(7, "cat").at(index as i64 * 10_000_000);
            let mut read = read.sector(index * 2048).direct(0, 0, 5_000_000);
            (read.request.major, read.request.minor) = (7, 3);
            read.add();
        }
        let found = diagnose(&script.summary()).findings;
        found.iter().any(|it| it.cause == "double-caching")
    }

    #[test]
    fn compressed_images_are_not_cached_twice() {
        assert!(is_found("ext4", 5));
        assert!(!is_found("squashfs", 5));
        assert!(!is_found("ext4", 3));
    }
}
