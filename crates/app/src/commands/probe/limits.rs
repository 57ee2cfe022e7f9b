//! The limits of a volume that this machine knows of: those of cgroups on this process, and what
//! the volume itself counts. What a probe measured is compared with them.
//!
//! What does not belong here: measuring (see [`super`]).

use iowhy_capture::host::cgroup::Roots;
use iowhy_capture::host::devices;
use iowhy_capture::reader::health::{AskedAt, HealthAsker};
use iowhy_model::cgroup::{Cgroup, IoLimit};
use iowhy_model::environment::Device;
use iowhy_views::probe::{MeasuredLimit, ProbeRow};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// The share of a limit from which the probe has measured the limit, not the device. Chosen:
/// throttling is even.
const REACHED: f64 = 0.9;
/// The least share of the time at its limit that a volume counts for it to be worth a word. Chosen.
const HELD: f64 = 0.05;
/// The longest wait for a device's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The disk of a probe and its limits.
pub struct VolumeLimits {
    disks: Vec<Device>,
    cgroups: Vec<(String, IoLimit)>,
    asker: HealthAsker,
}

impl VolumeLimits {
    /// Returns the limits of the disk below `path`, which exists; asks the disk for its counts so
    /// far.
    pub fn for_path(path: &Path) -> VolumeLimits {
        let disks = disk_of(path).into_iter().collect::<Vec<Device>>();
        let cgroups = disks.first().map(own_limits).unwrap_or_default();
        let mut limits = VolumeLimits { disks, cgroups, asker: HealthAsker::default() };
        limits.ask(AskedAt::Start);
        limits
    }

    fn ask(&mut self, when: AskedAt) {
        self.asker.ask(&self.disks, when);
        self.asker.finish(&mut self.disks, PATIENCE);
    }

    /// Compares what was measured over so many seconds; `rows` are of reads, then whether each
    /// wrote.
    pub fn compared(mut self, rows: &[(ProbeRow, bool)], seconds: f64) -> Vec<MeasuredLimit> {
        self.ask(AskedAt::End);
        let mut all: Vec<MeasuredLimit> = Vec::new();
        for (path, limit) in &self.cgroups {
            all.extend(of_cgroup(path, *limit, rows));
        }
        all.extend(self.disks.first().and_then(|disk| of_volume(disk, seconds)));
        all
    }
}

/// The whole disk of a device, or below a file.
fn disk_of(path: &Path) -> Option<Device> {
    let about = std::fs::metadata(path).ok()?;
    let number = if about.file_type().is_block_device() { about.rdev() } else { about.dev() };
    let number = (rustix::fs::major(number), rustix::fs::minor(number));
    let all = devices::list();
    let own = all.iter().find(|device| (device.major, device.minor) == number)?;
    let name = own.partition_of.clone().unwrap_or_else(|| own.name.clone());
    all.into_iter().find(|device| device.name == name)
}

/// The limits on a disk of this process's cgroups and those above them.
fn own_limits(disk: &Device) -> Vec<(String, IoLimit)> {
    let roots = Roots::find();
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (words.next(), words.next()) else { continue };
        if !controllers.is_empty() && !controllers.split(',').any(|part| part == "blkio") {
            continue;
        }
        for above in Path::new(path).ancestors() {
            let path = above.to_string_lossy().into_owned();
            let settings_start = roots.limits(&path);
            let group = Cgroup { path: path.clone(), settings_start, ..Cgroup::default() };
            let limit = group.io_limits().remove(&(disk.major, disk.minor));
            found.extend(limit.map(|limit| (path, limit)));
        }
    }
    found
}

/// Returns the limits of a cgroup, compared with the highest rates.
fn of_cgroup(path: &str, limit: IoLimit, rows: &[(ProbeRow, bool)]) -> Vec<MeasuredLimit> {
    let most = |writes: bool, of: fn(&ProbeRow) -> f64| {
        let own = rows.iter().filter(|(_, is_write)| *is_write == writes).map(|(row, _)| of(row));
        own.reduce(f64::max)
    };
    let requests: fn(&ProbeRow) -> f64 = |row| row.requests_per_s;
    let bytes: fn(&ProbeRow) -> f64 = |row| row.bytes_per_s;
    let IoLimit { read_bytes, write_bytes, reads, writes } = limit;
    let all = [
        ("reads", reads, most(false, requests)),
        ("writes", writes, most(true, requests)),
        ("bytes read", read_bytes, most(false, bytes)),
        ("bytes written", write_bytes, most(true, bytes)),
    ];
    let stated = all.into_iter().filter_map(|(what, limit, measured)| {
        let limit = limit? as f64;
        let reached = measured.is_some_and(|measured| measured >= REACHED * limit);
        let then = match (reached, measured) {
            (true, _) => "that is what was measured, not the device",
            (false, Some(_)) => "it was not reached",
            (false, None) => "none were tested",
        };
        let sentence = format!("the cgroup {path} allows {limit:.0} {what} per second: {then}");
        Some(MeasuredLimit { sentence, limit: Some(limit), measured, reached })
    });
    stated.collect()
}

/// Returns the times that the volume has counted at its own limits meanwhile.
fn of_volume(disk: &Device, seconds: f64) -> Option<MeasuredLimit> {
    let (before, after) = (disk.health_start.as_ref()?, disk.health_end.as_ref()?);
    let (before, after) = (before.volume.as_ref()?, after.volume.as_ref()?);
    let grown = |of: fn(&iowhy_model::health::VolumeStatistics) -> u64| {
        of(after).saturating_sub(of(before)) as f64 / 1e6
    };
    let all = [
        ("the volume's limit of requests", grown(|volume| volume.volume_iops_exceeded_us)),
        ("the volume's limit of bytes", grown(|volume| volume.volume_throughput_exceeded_us)),
        ("the instance's limit of requests", grown(|volume| volume.instance_iops_exceeded_us)),
        ("the instance's limit of bytes", grown(|volume| volume.instance_throughput_exceeded_us)),
    ];
    let (what, held) = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let reached = held >= HELD * seconds;
    let name = &disk.name;
    let sentence = match reached {
        true => format!("{name} reports that {what} held it back for {held:.1} s of the probe"),
        false => format!("{name} reports that no limit of the volume or the instance held it back"),
    };
    Some(MeasuredLimit { sentence, limit: None, measured: None, reached })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::health::{DeviceHealth, VolumeStatistics};

    fn row(requests_per_s: f64) -> ProbeRow {
        ProbeRow { requests_per_s, bytes_per_s: requests_per_s * 4096.0, ..ProbeRow::default() }
    }

    #[test]
    fn a_rate_at_the_cgroup_s_limit_is_the_limit() {
        let limit = IoLimit { reads: Some(500), writes: Some(500), ..IoLimit::default() };
        let found = of_cgroup("/app", limit, &[(row(120.0), false), (row(497.0), false)]);
        assert_eq!(found.iter().map(|limit| limit.reached).collect::<Vec<_>>(), [true, false]);
        assert!(found[0].sentence.contains("/app allows 500 reads"), "{found:?}");
        assert!(found[1].sentence.contains("none were tested"), "{found:?}");
        let free = of_cgroup("/app", limit, &[(row(120.0), false)]);
        assert!(!free[0].reached && free[0].sentence.contains("not reached"), "{free:?}");
        assert_eq!(of_cgroup("/", IoLimit::default(), &[(row(1.0), true)]), []);
    }

    #[test]
    fn a_volume_s_own_count_is_believed() {
        let health = |us: u64| {
            let volume = VolumeStatistics { volume_iops_exceeded_us: us, ..Default::default() };
            Some(DeviceHealth { volume: Some(volume), ..DeviceHealth::default() })
        };
        let disk = |end: u64| Device {
            name: "nvme1n1".to_owned(),
            health_start: health(1_000_000),
            health_end: health(end),
            ..Device::default()
        };
        let held = of_volume(&disk(5_000_000), 9.0).unwrap();
        assert!(held.reached && held.sentence.contains("4.0 s"), "{held:?}");
        let free = of_volume(&disk(1_000_000), 9.0).unwrap();
        assert!(!free.reached && free.sentence.contains("no limit"), "{free:?}");
        assert_eq!(of_volume(&Device::default(), 9.0), None);
    }
}
