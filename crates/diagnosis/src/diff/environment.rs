//! Differences of the environment, and the stages or wait classes that each can explain.

use super::{ComparedTimes, DevicePair};
use crate::words;
use iowhy_analysis::summary::{DeviceSummary, Summary};
use iowhy_model::cgroup::{Cgroup, IoLimit};
use iowhy_model::environment::{Mount, chosen};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The stages and wait classes that each setting can change. A name that ends in `*` is a prefix.
/// Sources: the kernel's Documentation/ABI/stable/sysfs-block, admin-guide/sysctl/vm and
/// filesystems/ext4.
const EFFECTS: &[(&str, &[&str])] = &[
    ("queue/scheduler", &["g2i", "i2d", "g2d"]),
    ("queue/iosched/*", &["g2i", "i2d", "g2d", "tag"]),
    ("queue/nr_requests", &["q2g", "i2d", "tag"]),
    ("queue/wbt_lat_usec", &["q2g", "wbt"]),
    ("queue/nomerges", &["i2d", "d2c"]),
    ("queue/max_*sectors_kb", &["i2d", "d2c"]),
    ("queue/read_ahead_kb", &["d2c", "page_read", "page_fault"]),
    ("queue/rotational", &["i2d", "d2c"]),
    ("queue/write_cache", &["d2c", "fsync", "journal_commit"]),
    ("queue/fua", &["d2c", "fsync", "journal_commit"]),
    ("queue/stable_writes", &["page_lock"]),
    ("queue/rq_affinity", &["d2c", "run_queue"]),
    ("queue/io_poll", &["d2c"]),
    ("queue/logical_block_size", &["d2c"]),
    ("queue/physical_block_size", &["d2c"]),
    ("queue/chunk_sectors", &["d2c"]),
    ("queue/dax", &["d2c", "page_read", "page_fault"]),
    ("loop/dio", &["g2d", "d2c"]),
    ("swap/priority", &["swap"]),
    ("model", &["d2c"]),
    ("transport", &["d2c"]),
    ("lower devices", &["d2c"]),
    ("backing file", &["d2c"]),
    ("file system", &["journal_commit", "journal_space", "fsync", "fs_lock", "page_lock", "d2c"]),
    ("mount options", &["journal_commit", "journal_space", "fsync", "fs_lock", "d2c"]),
    ("vm/dirty_*", &["dirty_throttle", "fsync", "journal_commit", "page_lock", "reclaim"]),
    ("vm/swappiness", &["swap", "reclaim", "page_read", "page_fault"]),
    ("vm/min_free_kbytes", &["reclaim"]),
    ("vm/watermark_scale_factor", &["reclaim"]),
    ("vm/zone_reclaim_mode", &["reclaim"]),
    ("vm/vfs_cache_pressure", &["reclaim", "fs_lock"]),
    ("vm/page-cluster", &["swap"]),
    ("vm/laptop_mode", &["dirty_throttle", "fsync"]),
    ("CPU limit of *", &["run_queue"]),
    // A bio is throttled before it is queued; threads wait where they submit it.
    (
        "I/O limit of *",
        &["cgroup_throttle", "dirty_throttle", "journal_commit", "fsync", "page_lock"],
    ),
    // For a device that is not compared: it may be below one that is.
    (
        "limit on *",
        &["cgroup_throttle", "dirty_throttle", "journal_commit", "fsync", "page_lock", "d2c"],
    ),
    ("memory", &["reclaim", "swap", "page_read", "page_fault", "dirty_throttle"]),
    ("CPUs", &["run_queue"]),
    ("virtual machine", &["d2c", "run_queue"]),
];

/// Settings without an effect on speed, or that repeat another one.
const SILENT: &[&str] = &["removable", "queue/iostats", "queue/zoned", "swap/used_kb"];

/// One difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The devices that it concerns; `None` for the machine.
    pub devices: Option<[String; 2]>,
    /// The setting's name: a file below /proc/sys or /sys/block/DEVICE, or a few words.
    pub name: String,
    /// The values of A and B; `None` if it does not exist or is not in the data.
    pub values: [Option<String>; 2],
    /// The stages and wait classes that it can change.
    pub can_explain: Vec<&'static str>,
    /// Whether it can change all of them, as a different kernel.
    pub explains_all: bool,
    /// Whether one of them differs.
    pub explains: bool,
}

/// All differences, the machine's first.
pub(super) fn differences(compared: &ComparedTimes<'_>) -> Vec<Difference> {
    let [a, b] = compared.sides.map(|side| side.summary);
    let mut found = Differences::default();
    machine(a, b, &mut found);
    for pair in &compared.pairs {
        device(pair, &mut found);
        mounts(pair, [a, b], &mut found);
    }
    cgroups(&compared.pairs, [a, b], &mut found);
    found.all
}

/// Limits of cgroups by path; empty if a side did not read any.
fn cgroups(pairs: &[DevicePair<'_>], sides: [&Summary; 2], found: &mut Differences) {
    let both = sides.map(|side| &side.environment.cgroups);
    if both.iter().any(|cgroups| cgroups.is_empty()) {
        return;
    }
    let is_paired = |name: &str| {
        pairs.iter().any(|pair| pair.devices.iter().any(|device| device.device == name))
    };
    let paths: BTreeSet<&String> =
        both.iter().flat_map(|cgroups| cgroups.iter()).map(|cgroup| &cgroup.path).collect();
    for path in paths {
        let own = both.map(|cgroups| cgroups.iter().find(|cgroup| cgroup.path == *path));
        let cpus = |cpus: f64| format!("{} CPUs", words::number(cpus));
        let name = format!("CPU limit of cgroup {path}");
        found.note(None, &name, own.map(|cgroup| cgroup.and_then(Cgroup::cpus).map(cpus)));
        let limits = own.map(|cgroup| cgroup.map(Cgroup::io_limits).unwrap_or_default());
        for pair in pairs {
            let of = |at: usize| {
                let device = pair.devices[at];
                limits[at].get(&(device.major, device.minor)).map(words::io_limit)
            };
            found.note(Some(pair), &format!("I/O limit of cgroup {path}"), [0, 1].map(of));
        }
        let rest = [0, 1].map(|at| -> BTreeMap<String, String> {
            let named = |(number, own): (&(u32, u32), &IoLimit)| {
                Some((name_of(sides[at], *number), words::io_limit(own)))
                    .filter(|limit| !is_paired(&limit.0))
            };
            limits[at].iter().filter_map(named).collect()
        });
        let devices: BTreeSet<&String> = rest.iter().flat_map(|limits| limits.keys()).collect();
        for device in devices {
            let name = format!("limit on {device} of cgroup {path}");
            found.note(None, &name, [0, 1].map(|at| rest[at].get(device).cloned()));
        }
    }
}

fn name_of(summary: &Summary, (major, minor): (u32, u32)) -> String {
    let mut devices = summary.environment.devices.iter();
    let known = devices.find(|device| (device.major, device.minor) == (major, minor));
    known.map_or_else(|| format!("{major}:{minor}"), |device| device.name.clone())
}

#[derive(Default)]
struct Differences {
    all: Vec<Difference>,
}

impl Differences {
    /// Records a difference.
    fn note(&mut self, devices: Option<&DevicePair<'_>>, name: &str, values: [Option<String>; 2]) {
        let trimmed = |value: Option<String>| value.map(|text| text.trim().to_owned());
        let values = values.map(trimmed).map(|value| value.filter(|text| !text.is_empty()));
        if values[0] == values[1] || SILENT.contains(&name) {
            return;
        }
        let fits = |(pattern, _): &&(&str, &[&'static str])| matches(pattern, name);
        let can_explain = EFFECTS.iter().find(fits).map_or(Vec::new(), |(_, what)| what.to_vec());
        self.all.push(Difference {
            devices: devices.map(DevicePair::names),
            name: name.to_owned(),
            values,
            can_explain,
            explains_all: name == "kernel",
            explains: false,
        });
    }

    /// Records a difference of known values: a capture has no settings, and empty ones are not
    /// known.
    fn note_known(&mut self, devices: Option<&DevicePair<'_>>, name: &str, values: [String; 2]) {
        if values.iter().all(|value| !value.is_empty()) {
            self.note(devices, name, values.map(Some));
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
        None => pattern == name,
    }
}

fn machine(a: &Summary, b: &Summary, found: &mut Differences) {
    let both = [&a.environment, &b.environment];
    found.note_known(None, "kernel", both.map(|environment| environment.kernel.clone()));
    found.note_known(
        None,
        "distribution",
        both.map(|environment| environment.distribution.clone()),
    );
    found.note_known(
        None,
        "architecture",
        both.map(|environment| environment.architecture.clone()),
    );
    let number = |value: u64| if value > 0 { value.to_string() } else { String::new() };
    found.note_known(None, "CPUs", both.map(|environment| number(u64::from(environment.cpus))));
    if both.iter().all(|environment| environment.memory_bytes > 0) {
        found.note_known(
            None,
            "memory",
            both.map(|environment| words::bytes(environment.memory_bytes as f64)),
        );
    }
    let is_virtual =
        |known: Option<bool>| known.map_or("", |known| if known { "yes" } else { "no" });
    found.note_known(
        None,
        "virtual machine",
        both.map(|environment| is_virtual(environment.is_virtual).to_owned()),
    );
    settings(None, both.map(|environment| &*environment.settings_start), found);
}

/// Settings that differ; none if a side did not read any.
fn settings(
    devices: Option<&DevicePair<'_>>,
    both: [&BTreeMap<String, String>; 2],
    found: &mut Differences,
) {
    if both.iter().any(|settings| settings.is_empty()) {
        return;
    }
    let names: BTreeSet<&String> = both.iter().flat_map(|settings| settings.keys()).collect();
    for name in names {
        let chosen = |value: &String| chosen(value).to_owned();
        found.note(devices, name, both.map(|settings| settings.get(name).map(chosen)));
    }
}

fn device(pair: &DevicePair<'_>, found: &mut Differences) {
    let devices = pair.devices;
    settings(Some(pair), devices.map(|device| &*device.settings), found);
    if devices.iter().all(|device| !device.settings.is_empty()) {
        found.note(Some(pair), "model", devices.map(|device| device.model.clone()));
        let transport = |device: &DeviceSummary| device.transport.clone().unwrap_or_default();
        found.note_known(Some(pair), "transport", devices.map(transport));
        let size = |device: &DeviceSummary| device.size_bytes.map(|size| words::bytes(size as f64));
        found.note(Some(pair), "size", devices.map(size));
        found.note(Some(pair), "lower devices", devices.map(|device| Some(device.below.join(" "))));
        let is_loop = devices.iter().all(|device| device.backing_file.is_some());
        if !is_loop {
            found.note(
                Some(pair),
                "backing file",
                devices.map(|device| device.backing_file.clone()),
            );
        }
    }
}

/// The mounted file systems of a device.
fn mounted<'a>(summary: &'a Summary, device: &DeviceSummary) -> Vec<&'a Mount> {
    let number = (device.major, device.minor);
    let own = |mount: &&Mount| mount.is_on(&device.device, number);
    summary.environment.mounts.iter().filter(own).collect()
}

fn mounts(pair: &DevicePair<'_>, sides: [&Summary; 2], found: &mut Differences) {
    let both = [0, 1].map(|at| mounted(sides[at], pair.devices[at]));
    let [Some(a), Some(b)] = [both[0].first(), both[1].first()] else { return };
    // If both are mounted several times, mounts at the same mount point.
    let same = both[0].iter().find_map(|mount| {
        both[1].iter().find(|other| other.path == mount.path).map(|other| (mount, other))
    });
    let (a, b) = same.unwrap_or((a, b));
    found.note(Some(pair), "file system", [a, b].map(|mount| Some(mount.kind.clone())));
    let options = [a, b].map(|mount| mount.options.split(',').collect::<BTreeSet<&str>>());
    let only =
        |at: usize| -> Vec<&str> { options[at].difference(&options[1 - at]).copied().collect() };
    found.note(Some(pair), "mount options", [0, 1].map(|at| Some(only(at).join(","))));
}
