//! A disk that hangs: what was in flight before the watch began is seen all the same.

use crate::recording::Recording;
use crate::support::{finish, iowhy, said, trial};
use iowhy_core::model::{Operation, Request, Status};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystem, Kind, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, machine, process};
use libtest_mimic::Trial;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BYTES: u64 = 64 << 10;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("hung::before_and_after_the_watch", never_ends),
        trial("hung::before_the_watch_only", ends_meanwhile),
    ]
}

/// A loop device whose file lies on a file system that can be frozen.
struct Stage {
    // Dropped in this order.
    upper: LoopDevice,
    lower: FileSystem,
    scratch: Arc<Scratch>,
}

impl Stage {
    fn new() -> Result<Stage> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
        let lower = FileSystem::new(&scratch, disk, Kind::Ext4)?;
        let upper = LoopDevice::inside(&scratch, lower.path(), 32 * MIB)?;
        Ok(Stage { upper, lower, scratch })
    }

    /// One direct write to the upper device.
    fn write(&self) -> Result<Child> {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "count=1", "oflag=direct", &format!("bs={BYTES}")]);
        dd.arg(format!("of={}", self.upper.path().display())).stderr(Stdio::null());
        dd.spawn().context(|| "start dd".to_owned())
    }

    fn watch(&self, seconds: &str) -> Result<Child> {
        let mut record = iowhy(["record", "-d", self.upper.name(), "-t", seconds, "-o"])?;
        record.arg(self.scratch.path().join("watched"));
        record.stdout(Stdio::null()).stderr(Stdio::piped());
        record.spawn().context(|| "start iowhy".to_owned())
    }

    fn recording(&self, watch: Child) -> Result<Recording> {
        let result = watch.wait_with_output().context(|| "wait for iowhy".to_owned())?;
        assert!(result.status.success(), "{}", said(&result));
        Recording::open(&self.scratch.path().join("watched"))
    }

    /// What iowhy says of the recording.
    fn report(&self) -> Result<String> {
        let mut report = iowhy(["report"])?;
        report.arg(self.scratch.path().join("watched"));
        Ok(said(&finish(report)?))
    }
}

fn the_write(recording: &Recording) -> &Request {
    let writes = recording.requests.iter().filter(|request| request.operation == Operation::Write);
    let writes: Vec<_> = writes.collect();
    assert_eq!(writes.len(), 1, "{}", recording.overview());
    assert_eq!(writes[0].bytes, BYTES, "{:?}", writes[0]);
    writes[0]
}

fn never_ends() -> Result<()> {
    let stage = Stage::new()?;
    let frozen = stage.lower.freeze()?;
    let mut dd = stage.write()?;
    std::thread::sleep(Duration::from_secs(1));
    let recording = stage.recording(stage.watch("2")?)?;
    let said = stage.report()?;
    drop(frozen);
    process::wait_or_kill(&mut dd, Duration::from_secs(10));
    let write = the_write(&recording);
    assert_eq!(write.status, Status::InFlight, "{write:?}");
    assert_eq!(write.q2c_ns, None, "{write:?}");
    let waited = recording.environment.end_ns - write.start_ns;
    assert!(waited > 2_900_000_000, "begun {waited} ns before the end, {said}");
    assert!(said.contains(&format!("{} stalls", stage.upper.name())), "{said}");
    Ok(())
}

fn ends_meanwhile() -> Result<()> {
    let stage = Stage::new()?;
    let frozen = stage.lower.freeze()?;
    let mut dd = stage.write()?;
    std::thread::sleep(Duration::from_secs(1));
    let watch = stage.watch("4")?;
    std::thread::sleep(Duration::from_secs(2));
    drop(frozen);
    process::wait_or_kill(&mut dd, Duration::from_secs(10));
    let recording = stage.recording(watch)?;
    let write = the_write(&recording);
    assert_eq!(write.status, Status::BegunBefore, "{write:?}");
    assert!(write.q2c_ns.is_some_and(|waited| waited > 2_900_000_000), "{write:?}");
    Ok(())
}
