//! The reports of devices that are made of others, and the sentences on them: a thin pool that runs
//! full, a snapshot that overflows, paths that fail, a cache that goes. They need modules that only
//! guests have.

use crate::recording::Recording;
use crate::support::{finish, iowhy, is_guest, printed, trial, words};
use iowhy_labs::devices::{BlockDevice, MappedDevice, NullBlk};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command};
use iowhy_model::health::{DeviceHealth, MappedTarget};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The two ends of a watch.
type Ends<T> = [T; 2];

pub fn tests() -> Vec<Trial> {
    if !is_guest() {
        return Vec::new();
    }
    vec![
        trial("volumes::thin_pool_that_runs_full", thin_pool),
        trial("volumes::snapshot_that_overflows", snapshot),
        trial("volumes::path_that_fails", multipath),
        trial("volumes::cache_that_goes", bcache),
    ]
}

/// A watch of `devices` while a script runs, and its page.
struct Watched {
    recording: Recording,
    page: String,
}

impl Watched {
    fn new(devices: &[&str], script: &str) -> Result<Watched> {
        let scratch = Scratch::new()?;
        let output = scratch.fresh("recording");
        let mut record = iowhy(["record", "-o"])?;
        record.arg(&output);
        devices.iter().for_each(|name| {
            record.args(["-d", name]);
        });
        // Shorter, and the answers of the beginning may be those of the end.
        let script = format!("sleep 1; {script}; exit 0");
        let result = finish({
            record.args(["--", "/bin/sh", "-c", &script]);
            record
        })?;
        assert!(result.status.success(), "{}", printed(&result));
        let recording = Recording::open(&output)?;
        let page = printed(&finish(iowhy(["report", "--full", &output.to_string_lossy()])?)?);
        Ok(Watched { recording, page })
    }

    fn health(&self, device: &str) -> Ends<&DeviceHealth> {
        let mut devices = self.recording.environment.devices.iter();
        let device = devices.find(|known| known.name == device).expect("the device");
        [&device.health_start, &device.health_end]
            .map(|health| health.as_ref().expect("it was asked"))
    }

    /// The only target of a device.
    fn target(&self, device: &str) -> Ends<&MappedTarget> {
        self.health(device).map(|health| match health.targets.as_slice() {
            [one] => one,
            others => panic!("{others:?}, {:?}", health.unread),
        })
    }

    fn says(&self, text: &str) {
        assert!(words(&self.page).contains(text), "no {text:?} in:\n{}", self.page);
    }
}

fn write(device: &dyn BlockDevice, count: u32) -> String {
    format!(
        "dd if=/dev/zero of={} bs=64k count={count} oflag=direct status=none",
        device.path().display()
    )
}

/// A pool of 8 MiB whose volume claims 32, and is written from its beginning on.
fn thin_pool() -> Result<()> {
    let (metadata, data) = (NullBlk::with_memory(16)?, NullBlk::with_memory(8)?);
    let arguments = format!(
        "{} {} 128 0 1 error_if_no_space",
        metadata.path().display(),
        data.path().display()
    );
    let pool = MappedDevice::of(data, "thin-pool", &arguments)?;
    pool.tell("create_thin 0")?;
    let volume = MappedDevice::sized(pool, 32 << 11, "thin", |pool| format!("{pool} 0"))?;
    let pool = volume.below();
    let watched = Watched::new(&[volume.name(), pool.name()], &write(&volume, 200))?;
    let [before, after] = watched.target(pool.name());
    assert_eq!((before.target.as_str(), before.trouble.as_deref()), ("thin-pool", None));
    assert_eq!((before.used, before.total), (Some(0), Some(128)));
    assert_eq!(before.waits_for_space, Some(false));
    assert_eq!(after.trouble.as_deref(), Some("out_of_data_space"), "{after:?}");
    assert_eq!((after.used, after.total), (Some(128), Some(128)));
    assert!(after.metadata_used > Some(0) && after.metadata_used < after.metadata_total);
    watched.says("thin-pool: out of data space, 100 % of its blocks");
    watched.says("is full: writes to new blocks fail");
    Ok(())
}

/// A snapshot with 1 MiB for the changes of its origin, which is 4 MiB.
fn snapshot() -> Result<()> {
    let (origin, store) = (NullBlk::with_memory(16)?, NullBlk::with_memory(1)?);
    let (below, exceptions) = (origin.path().to_owned(), store.path().to_owned());
    let arguments = format!("{} {} P 8", below.display(), exceptions.display());
    let snapshot = MappedDevice::of(origin, "snapshot", &arguments)?;
    let read = |device: &Path| {
        format!("dd if={} of=/dev/null bs=64k count=4 iflag=direct status=none", device.display())
    };
    let few = format!("{}; {}", write(&snapshot, 4), read(snapshot.path()));
    let watched = Watched::new(&[snapshot.name()], &few)?;
    let [before, after] = watched.target(snapshot.name());
    assert!(before.used < after.used && after.used < after.total, "{before:?} {after:?}");
    assert_eq!((after.total, after.trouble.as_deref()), (Some(2048), None));
    let many = format!("{}; {}", write(&snapshot, 64), read(snapshot.path()));
    let watched = Watched::new(&[snapshot.name()], &many)?;
    let [before, after] = watched.target(snapshot.name());
    assert_eq!(before.trouble, None);
    // A snapshot that overflows while its own blocks are written is invalid at once.
    let lost = after.trouble.as_deref().unwrap_or_default();
    assert!(["Invalid", "Overflow"].contains(&lost), "{after:?}");
    watched.says(&format!("is lost ({lost}): reads of it fail"));
    Ok(())
}

/// Two paths, of which one is failed by a message during the watch.
fn multipath() -> Result<()> {
    for module in ["dm-multipath", "dm-round-robin"] {
        command::run("modprobe", [module])?;
    }
    let (first, second) = (NullBlk::with_memory(16)?, NullBlk::with_memory(16)?);
    let number = |name: &str| {
        let path = format!("/sys/block/{name}/dev");
        let text = std::fs::read_to_string(&path).context(|| format!("read {path}"))?;
        Ok::<_, LabError>(text.trim().to_owned())
    };
    let failing = number(second.name())?;
    let arguments =
        format!("0 0 1 1 round-robin 0 2 1 {} 1000 {failing} 1000", number(first.name())?);
    let paths = MappedDevice::of(first, "multipath", &arguments)?;
    let fail = paths.message(&format!("fail_path {failing}"));
    let script = format!("{fail}; {}", write(&paths, 20));
    let watched = Watched::new(&[paths.name()], &script)?;
    let [before, after] = watched.target(paths.name());
    let state = |target: &MappedTarget| -> Vec<(String, bool, u64)> {
        target.paths.iter().map(|path| (path.device.clone(), path.active, path.failures)).collect()
    };
    let (one, other) = (paths.below().name().to_owned(), second.name().to_owned());
    assert_eq!(state(before), [(one.clone(), true, 0), (other.clone(), true, 0)]);
    assert_eq!(state(after), [(one, true, 0), (other.clone(), false, 1)]);
    watched.says(&format!("failed 1 time during the watch; {other} failed"));
    watched.says("1 of 2 paths failed");
    Ok(())
}

/// A device of bcache, stopped on drop.
struct Cached {
    disk: PathBuf,
    sets: Vec<PathBuf>,
}

impl Cached {
    fn new(backing: &Path, cache: &Path) -> Result<Cached> {
        command::run("modprobe", ["bcache"])
            .map_err(|cause| LabError::unsupported("bcache", format!("its module ({cause})")))?;
        // The kernel takes no cache of fewer than 1,024 buckets.
        let options = ["--writeback", "--bucket", "64k", "-B"].map(Path::new);
        let paths = options.into_iter().chain([backing, Path::new("-C"), cache]);
        command::run("make-bcache", paths)?;
        for device in [backing, cache] {
            let path = "/sys/fs/bcache/register_quiet";
            let text = device.display().to_string();
            std::fs::write(path, text).context(|| format!("register {}", device.display()))?;
        }
        let mut cached = Cached { disk: PathBuf::from("/sys/block/bcache0"), sets: Vec::new() };
        let sets = std::fs::read_dir("/sys/fs/bcache").into_iter().flatten().flatten();
        cached.sets =
            sets.map(|entry| entry.path()).filter(|set| set.join("stop").exists()).collect();
        let begun = Instant::now();
        while !cached.disk.exists() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(cached)
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        let _gone = std::fs::write(self.disk.join("bcache/stop"), "1");
        for set in &self.sets {
            let _gone = std::fs::write(set.join("stop"), "1");
        }
        let begun = Instant::now();
        let remains = || self.disk.exists() || self.sets.iter().any(|set| set.exists());
        while remains() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Written into its cache, then without it: the cache is detached during the second watch.
fn bcache() -> Result<()> {
    let (backing, cache) = (NullBlk::with_memory(128)?, NullBlk::with_memory(128)?);
    let cached = Cached::new(backing.path(), cache.path())?;
    let disk = "/dev/bcache0";
    let load = format!(
        "dd if=/dev/zero of={disk} bs=4k count=64 oflag=direct status=none
        dd if={disk} of=/dev/null bs=4k count=64 iflag=direct status=none"
    );
    // It writes dirty data back by itself, some kilobytes a second.
    let running = "/sys/block/bcache0/bcache/writeback_running";
    let watched = Watched::new(&["bcache0"], &format!("echo 0 >{running}; {load}"))?;
    let [_, after] =
        watched.health("bcache0").map(|health| health.bcache.as_ref().expect("bcache"));
    assert_eq!((after.state.as_str(), after.mode.as_str()), ("dirty", "writeback"), "{after:?}");
    // Hits and misses are added up every 22 s.
    assert!(after.dirty_bytes >= Some(250 << 10) && after.hits.is_some(), "{after:?}");
    watched.says("bcache: dirty, writeback");

    let detach = format!(
        "echo 1 >{running}
        echo 1 >/sys/block/bcache0/bcache/detach
        until grep -q 'no cache' /sys/block/bcache0/bcache/state; do sleep 0.1; done"
    );
    let watched = Watched::new(&["bcache0"], &format!("{load}; {detach}; {load}"))?;
    let states = watched.health("bcache0").map(|health| health.bcache.as_ref().expect("bcache"));
    assert_ne!(states[0].state, "no cache");
    assert_eq!(states[1].state, "no cache");
    watched.says("bcache0 lost its cache during the watch");
    watched.says("bcache: no cache");
    drop(cached);
    Ok(())
}
