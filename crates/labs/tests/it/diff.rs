//! `iowhy diff` of two watches of the same load on one device: with and without a limit below it,
//! and under another scheduler.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial, watch};
use iowhy_labs::Result;
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit, LoopDevice,
};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("diff::a_limit_below_the_device", limited),
        trial("diff::another_scheduler_is_listed", another_scheduler),
        trial("diff::a_limit_of_a_cgroup_is_listed", limit_of_a_cgroup),
    ]
}

/// Random reads, four at a time; not more a second than a busy machine has the time to record.
fn job(device: &LoopDevice) -> Job {
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 4096);
    job.direct().timed(4).with("iodepth", "4").with("rate_iops", "5000")
}

fn compared(a: &Path, b: &Path) -> Result<Value> {
    let mut diff = iowhy(["diff", "--json"])?;
    diff.args([a, b]);
    let result = finish(diff)?;
    assert!(result.status.success(), "{}", printed(&result));
    Ok(serde_json::from_slice(&result.stdout).expect("a comparison is JSON"))
}

/// A loop device over a file system whose own device may do 400 reads a second: the device's time.
fn limited() -> Result<()> {
    let scratch = Scratch::new()?;
    let lower = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    let below = LabFileSystem::new(&scratch, lower, FileSystemKind::Ext4)?;
    let upper = LoopDevice::inside(&scratch, below.path(), 64 * MIB)?;
    // Data that was never written is not read from the device below.
    let fill = Job::new(upper.path(), Engine::Psync, FioAccess::Write, MIB).direct();
    fill.run(&scratch.fresh("fio.json"))?;
    let command = job(&upper).command(&scratch.fresh("fio.json"))?;
    let (fast, slow) = (scratch.fresh("fast"), scratch.fresh("slow"));
    watch(&upper, &fast, &cgroup.inside(&command))?;
    cgroup.limit(below.device(), Limit::ReadIops(400))?;
    watch(&upper, &slow, &cgroup.inside(&command))?;
    let found = compared(&fast, &slow)?;
    assert_eq!(found["verdict"], "moved", "{found:#}");
    let first = &found["times"][0];
    assert_eq!(first["direction"], "read", "{found:#}");
    assert_eq!(first["parts"][0]["what"], "d2c", "{found:#}");
    // Four in flight at 400 a second take 10 ms each.
    let more = first["parts"][0]["difference_ns"].as_f64().unwrap_or_default();
    assert!((5e6..20e6).contains(&more), "{more} ns more");
    let sentence = found["sentence"].as_str().unwrap_or_default();
    assert!(sentence.contains("more in D2C for each read of"), "{sentence}");
    // A recording does not differ from itself.
    assert_eq!(compared(&slow, &slow)?["verdict"], "same");
    Ok(())
}

/// Reads in a cgroup are compared without and with a limit on their device.
fn limit_of_a_cgroup() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 4096).direct().timed(3);
    let command = job.with("rate_iops", "500").command(&scratch.fresh("fio.json"))?;
    let (free, limited) = (scratch.fresh("free"), scratch.fresh("limited"));
    watch(&device, &free, &cgroup.inside(&command))?;
    cgroup.limit(&device, Limit::ReadIops(100))?;
    watch(&device, &limited, &cgroup.inside(&command))?;
    let recording = Recording::open(&limited)?;
    let path = cgroup.name();
    let own = recording.environment.cgroups.iter().find(|cgroup| cgroup.path == path);
    let own = own.expect("the cgroup of fio is there");
    let limits = own.io_limits();
    let reads = limits.values().map(|limit| (limit.reads, limit.writes)).collect::<Vec<_>>();
    assert_eq!(reads, [(Some(100), None)], "{own:?}");
    assert_eq!(own.settings_start, own.settings_end);
    let found = compared(&free, &limited)?;
    let listed = found["environment"].as_array().expect("a list of differences");
    let limit = listed
        .iter()
        .find(|difference| difference["name"] == format!("I/O limit of cgroup {path}"));
    let limit = limit.expect("the limit is listed");
    assert_eq!(limit["values"], serde_json::json!([null, "100 reads/s"]), "{found:#}");
    assert_eq!(limit["devices"], serde_json::json!([device.name(), device.name()]));
    let explains = limit["can_explain"].as_array().expect("what it can explain");
    assert!(explains.contains(&Value::from("cgroup_throttle")), "{limit:#}");
    Ok(())
}

fn another_scheduler() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let setting = format!("/sys/block/{}/queue/scheduler", device.name());
    let mut outputs = Vec::new();
    for scheduler in ["none", "mq-deadline"] {
        std::fs::write(&setting, scheduler).context(|| format!("set {scheduler}"))?;
        let output = scratch.fresh(scheduler);
        watch(&device, &output, &job(&device).command(&scratch.fresh("fio.json"))?)?;
        outputs.push(output);
    }
    let found = compared(&outputs[0], &outputs[1])?;
    let listed = found["environment"].as_array().expect("a list of differences");
    let scheduler = listed.iter().find(|difference| difference["name"] == "queue/scheduler");
    let values = scheduler.map(|scheduler| (&scheduler["values"][0], &scheduler["values"][1]));
    assert_eq!(values, Some((&Value::from("none"), &Value::from("mq-deadline"))), "{found:#}");
    // With `none` nothing is inserted: the stages show this at any latency.
    let read =
        found["times"].as_array().into_iter().flatten().find(|row| row["direction"] == "read");
    let parts = read.and_then(|read| read["parts"].as_array()).expect("reads are compared");
    let inserted = parts.iter().find(|part| part["what"] == "i2d").expect("I2D is there");
    assert_eq!(inserted["mean_ns"][0], 0.0, "{inserted}");
    assert!(inserted["mean_ns"][1].as_f64() > Some(0.0), "{inserted}");
    Ok(())
}
