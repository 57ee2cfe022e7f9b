//! Programs that make others wait, on a device that is slower than two programs need.

use crate::support::{finish, iowhy, printed, trial, watch};
use iowhy_labs::Result;
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit, LoopDevice,
};
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_model::WaitClass;
use libtest_mimic::Trial;
use serde_json::Value;
use std::process::Command;

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![trial("blame::two_competitors_on_a_slow_device", competitors)]
}

/// Runs `$2` reads of `$0` beside the program that follows, once that has eight reads in flight as
/// `$1` tells.
const BESIDE: &str = r#"device=$0 inflight=$1 count=$2; shift 2; "$@" >&2 & hog=$!
tries=0; reads=0
while [ "$reads" -lt 8 ] && [ "$tries" -lt 200 ]; do
    sleep 0.1; tries=$((tries + 1)); read -r reads writes <"$inflight"
done
dd if="$device" of=/dev/null bs=4096 count="$count" skip=64 iflag=direct 2>&1
kill $hog; wait; true"#;

/// A loop device whose file system below may do 200 reads a second: fio has sixteen of its requests
/// there, dd one, which hence waits for fio's sixteen times as long as for its own.
fn competitors() -> Result<()> {
    let scratch = Scratch::new()?;
    let lower = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    cgroup.limit(&lower, Limit::ReadIops(200))?;
    let below = LabFileSystem::new(&scratch, lower, FileSystemKind::Ext4)?;
    let slow = LoopDevice::inside(&scratch, below.path(), 16 * MIB)?;
    // Data that was never written is not read from the device below.
    let fill = Job::new(slow.path(), Engine::Psync, FioAccess::Write, MIB).direct();
    fill.run(&scratch.fresh("fio.json"))?;
    let hog = Job::new(slow.path(), Engine::Libaio, FioAccess::RandomRead, 4096).direct().timed(60);
    let hog = hog.with("iodepth", "16").command(&scratch.fresh("fio.json"))?;
    let mut both = Command::new("/bin/sh");
    let inflight = format!("/sys/block/{}/inflight", slow.name());
    both.args(["-c", BESIDE]).arg(slow.path()).args([&inflight, "40"]).arg(hog.get_program());
    both.args(hog.get_args());
    let output = scratch.fresh("recording");
    let recording = watch(&slow, &output, &cgroup.inside(&both))?;
    let waits = recording.waits.iter().filter(|wait| recording.text(wait.process) == "dd");
    let blocked: u64 = waits
        .filter(|wait| wait.class != WaitClass::CgroupThrottle)
        .map(|wait| wait.queue_ns + wait.device_ns)
        .sum();
    assert!(blocked > 1_000_000_000, "dd waited {blocked} ns");
    let report = json(&["blame", "--json"], &output)?;
    let dd = waiter(&report["blame"], "dd");
    assert_eq!(dd["waited_ns"], blocked, "{dd}");
    let part = |name: &str| dd[name].as_u64().unwrap_or_default();
    let parts = ["own_ns", "others_ns", "idle_ns", "unknown_ns"].map(part);
    assert_eq!(parts.iter().sum::<u64>(), blocked, "{dd}");
    // Sixteen of seventeen, and no less than nine tenths.
    assert!(part("others_ns") * 10 >= blocked * 9, "{dd}");
    assert_eq!(dd["foremost"]["process"], "fio", "{dd}");
    assert!(dd["foremost"]["time_ns"].as_u64() >= Some(blocked * 9 / 10), "{dd}");
    // The first screen and the view have the same figures.
    assert_eq!(json(&["report", "--json"], &output)?["blame"], report["blame"]);
    let only = json(&["blame", "--json", "--process", "dd"], &output)?;
    assert_eq!(waiter(&only["blame"], "dd"), dd);
    assert_eq!(only["blame"]["waiters"].as_array().map(Vec::len), Some(1));
    Ok(())
}

fn json(arguments: &[&str], recording: &std::path::Path) -> Result<Value> {
    let mut command = iowhy(arguments)?;
    command.arg(recording);
    let result = finish(command)?;
    assert!(result.status.success(), "{}", printed(&result));
    Ok(serde_json::from_slice(&result.stdout).expect("a report is JSON"))
}

fn waiter<'a>(blame: &'a Value, process: &str) -> &'a Value {
    let waiters = blame["waiters"].as_array().expect("there are waiters");
    let found = waiters.iter().find(|waiter| waiter["process"] == process);
    found.unwrap_or_else(|| panic!("{process} did not wait: {blame}"))
}
