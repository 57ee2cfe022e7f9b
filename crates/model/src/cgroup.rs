//! The limits of a cgroup, as text in `recording.json` and as numbers.
//!
//! What does not belong here: reading the files (crate `iowhy-capture`).

use super::object::object;
use std::collections::BTreeMap;

object! {
    /// The limits of a cgroup.
    pub struct Cgroup {
        /// Its path, as in the column `cgroup`.
        pub path: String,
        /// The content of its files when it was first seen, by file name, with `; ` between lines:
        /// `io.max`, `io.bfq.weight`, `cpu.max`, `memory.max`, `memory.high` (v2);
        /// `blkio.throttle.*`, `blkio.bfq.*`, `cpu.cfs_*`, `memory.limit_in_bytes` (v1: where
        /// controllers have hierarchies of their own, the cpu controller's cgroup of the same
        /// path). Devices are `major:minor`.
        pub settings_start: BTreeMap<String, String>,
        /// The same when the watch ended; empty if it was removed.
        pub settings_end: BTreeMap<String, String>,
    }
}

/// The limits of a cgroup on one device, per second; `None` without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoLimit {
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Reads.
    pub reads: Option<u64>,
    /// Writes.
    pub writes: Option<u64>,
}

impl IoLimit {
    /// The field of a limit, by its key in v2's io.max.
    fn place(&mut self, key: &str) -> Option<&mut Option<u64>> {
        match key {
            "rbps" => Some(&mut self.read_bytes),
            "wbps" => Some(&mut self.write_bytes),
            "riops" => Some(&mut self.reads),
            "wiops" => Some(&mut self.writes),
            _ => None,
        }
    }
}

/// More bytes than any machine has: version 1 rounds `i64::MAX` down to a page.
const UNLIMITED: u64 = 1 << 60;

/// Returns the smallest limit on memory among a cgroup's files of both versions, whose contents
/// `read` returns: its file, and bytes.
pub fn smallest_memory_limit(
    read: impl Fn(&'static str) -> Option<String>,
) -> Option<(&'static str, u64)> {
    // `max` means no limit; version 1 writes a huge number instead.
    let limit = |file| {
        let bytes: u64 = read(file)?.trim().parse().ok()?;
        (bytes < UNLIMITED).then_some((file, bytes))
    };
    let files = ["memory.high", "memory.max", "memory.limit_in_bytes"];
    files.into_iter().filter_map(limit).min_by_key(|(_, bytes)| *bytes)
}

/// v1's files, and v2's keys for their limits.
const LEGACY: [(&str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps"),
    ("blkio.throttle.write_bps_device", "wbps"),
    ("blkio.throttle.read_iops_device", "riops"),
    ("blkio.throttle.write_iops_device", "wiops"),
];

impl Cgroup {
    /// The limits on I/O when it was first seen, by the device's major and minor number.
    pub fn io_limits(&self) -> BTreeMap<(u32, u32), IoLimit> {
        let mut limits: BTreeMap<(u32, u32), IoLimit> = BTreeMap::new();
        let mut note = |device: Option<(u32, u32)>, key: &str, value: &str| {
            // `max` means no limit.
            let (Some(device), Ok(value)) = (device, value.parse()) else { return };
            let mut own = limits.get(&device).copied().unwrap_or_default();
            if let Some(place) = own.place(key) {
                *place = Some(value);
                limits.insert(device, own);
            }
        };
        for line in self.lines("io.max") {
            let mut words = line.split_whitespace();
            let device = words.next().and_then(number);
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                note(device, key, value);
            }
        }
        for (file, key) in LEGACY {
            for (device, value) in self.lines(file).filter_map(|line| line.split_once(' ')) {
                note(number(device), key, value.trim());
            }
        }
        limits
    }

    /// The weight of its requests for a device in the scheduler bfq when it was first seen; `None`
    /// where that is not known.
    pub fn bfq_weight(&self, device: (u32, u32)) -> Option<u64> {
        let files = ["io.bfq.weight", "blkio.bfq.weight_device", "blkio.bfq.weight"];
        let lines = || files.into_iter().flat_map(|file| self.lines(file));
        let own = || {
            lines().find_map(|line| line.split_once(' ').filter(|of| number(of.0) == Some(device)))
        };
        let usual =
            || lines().find_map(|line| line.strip_prefix("default ").or(Some(line))?.parse().ok());
        own().and_then(|(_, weight)| weight.trim().parse().ok()).or_else(usual)
    }

    /// Number of CPUs that its processes may use together when it was first seen; `None` without a
    /// limit.
    pub fn cpus(&self) -> Option<f64> {
        let of = |name: &str| self.settings_start.get(name).map(String::as_str);
        let (quota, period) = match of("cpu.max") {
            Some(both) => both.split_once(' ')?,
            None => (of("cpu.cfs_quota_us")?, of("cpu.cfs_period_us")?),
        };
        // `max` and -1 mean no limit.
        let (quota, period): (u64, u64) = (quota.parse().ok()?, period.trim().parse().ok()?);
        (period > 0).then(|| quota as f64 / period as f64)
    }

    /// The smallest memory limit when it was first seen: its file, and bytes.
    pub fn memory_limit(&self) -> Option<(&'static str, u64)> {
        smallest_memory_limit(|file| self.settings_start.get(file).cloned())
    }

    fn lines(&self, name: &str) -> impl Iterator<Item = &str> {
        self.settings_start.get(name).into_iter().flat_map(|text| text.split(';')).map(str::trim)
    }
}

/// `8:16`.
fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(settings: &[(&str, &str)]) -> Cgroup {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Cgroup { settings_start: settings.collect(), ..Cgroup::default() }
    }

    #[test]
    fn a_weight_is_that_of_the_device_else_the_usual_one() {
        let unified = cgroup(&[("io.bfq.weight", "default 100; 8:0 500")]);
        assert_eq!(unified.bfq_weight((8, 0)), Some(500));
        assert_eq!(unified.bfq_weight((8, 16)), Some(100));
        let legacy = cgroup(&[("blkio.bfq.weight", "20"), ("blkio.bfq.weight_device", "8:0 30")]);
        assert_eq!(legacy.bfq_weight((8, 0)), Some(30));
        assert_eq!(legacy.bfq_weight((8, 16)), Some(20));
        assert_eq!(cgroup(&[("io.bfq.weight", "8:0 x; y")]).bfq_weight((8, 0)), None);
    }

    #[test]
    fn the_smallest_limit_of_memory_is_what_holds() {
        let both = cgroup(&[("memory.max", "1000000"), ("memory.high", "900000")]);
        assert_eq!(both.memory_limit(), Some(("memory.high", 900_000)));
        let none =
            cgroup(&[("memory.max", "max"), ("memory.limit_in_bytes", "9223372036854771712")]);
        assert_eq!(none.memory_limit(), None);
    }

    #[test]
    fn both_versions_say_the_same() {
        let io = "7:0 rbps=1048576 wbps=max riops=400 wiops=max; 8:16 rbps=max wbps=9 riops=max \
                  wiops=max";
        let unified = cgroup(&[("io.max", io), ("cpu.max", "20000 100000")]);
        let legacy = cgroup(&[
            ("blkio.throttle.read_bps_device", "7:0 1048576"),
            ("blkio.throttle.read_iops_device", "7:0 400"),
            ("blkio.throttle.write_bps_device", "8:16 9"),
            ("blkio.throttle.write_iops_device", ""),
            ("cpu.cfs_quota_us", "20000"),
            ("cpu.cfs_period_us", "100000"),
        ]);
        let first = IoLimit { read_bytes: Some(1 << 20), reads: Some(400), ..IoLimit::default() };
        let second = IoLimit { write_bytes: Some(9), ..IoLimit::default() };
        let limits = BTreeMap::from([((7, 0), first), ((8, 16), second)]);
        assert_eq!((unified.io_limits(), legacy.io_limits()), (limits.clone(), limits));
        assert_eq!((unified.cpus(), legacy.cpus()), (Some(0.2), Some(0.2)));
    }

    #[test]
    fn no_limit_is_none() {
        let unified = cgroup(&[("io.max", ""), ("cpu.max", "max 100000")]);
        let legacy = cgroup(&[("cpu.cfs_quota_us", "-1"), ("cpu.cfs_period_us", "100000")]);
        for cgroup in [unified, legacy, Cgroup::default()] {
            assert_eq!((cgroup.io_limits().len(), cgroup.cpus()), (0, None), "{cgroup:?}");
        }
    }
}
