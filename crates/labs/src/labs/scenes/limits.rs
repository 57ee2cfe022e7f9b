//! Limits, queues and the device itself.

use super::*;
use crate::labs::expected::Expected;
use crate::labs::measure::{Measure, Relief};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("cgroup-throttle", &["cgroup-throttle"], cgroup_throttle),
    Lab::near("cgroup-throttle-near", &["cgroup-throttle"], slow_below),
    Lab::cause("provider-cap", &["provider-cap"], slow_below),
    Lab::near("provider-cap-near", &["provider-cap"], unlimited_below),
    Lab::cause("burst-credits", &["burst-credits"], burst_credits),
    Lab::near("burst-credits-near", &["burst-credits"], slow_below),
    Lab::cause("noisy-neighbour", &["noisy-neighbour"], noisy_neighbour),
    Lab::near("noisy-neighbour-near", &["noisy-neighbour"], own_load_grows),
    Lab::cause("noisy-neighbour-here", &["noisy-neighbour"], |stage| competitor(stage, 48)),
    Lab::near("noisy-neighbour-here-near", &["noisy-neighbour"], |stage| competitor(stage, 1)),
    Lab::cause("hung-io", &["hung-io"], hung_io),
    Lab::near("hung-io-near", &["hung-io"], slow_below),
    Lab::cause("device-slow-tail", &["device-slow-tail"], slow_tail),
    Lab::near("device-slow-tail-near", &["device-slow-tail"], paced_reads),
    Lab::cause("tag-starvation", &["tag-starvation"], |stage| tags(stage, Some("4"))),
    Lab::near("tag-starvation-near", &["tag-starvation"], |stage| tags(stage, None)),
    Lab::cause("scheduler-overhead", &["scheduler-overhead"], |stage| scheduler(stage, "bfq")),
    Lab::near("scheduler-overhead-near", &["scheduler-overhead"], |stage| scheduler(stage, "none")),
    Lab::cause("serial-reads", &["serial-reads"], |stage| reads(stage, 1)),
    Lab::near("serial-reads-near", &["serial-reads"], |stage| reads(stage, 8)),
    Lab::cause("split-requests", &["split-requests"], |stage| large_reads(stage, Some("16"))),
    Lab::near("split-requests-near", &["split-requests"], |stage| large_reads(stage, None)),
    Lab::cause("small-writes", &["small-writes"], |stage| small_writes(stage, Some("2"))),
    Lab::near("small-writes-near", &["small-writes"], |stage| small_writes(stage, None)),
    Lab::cause("cpu-starvation", &["cpu-starvation"], |stage| starved(stage, true)),
    Lab::near("cpu-starvation-near", &["cpu-starvation"], |stage| starved(stage, false)),
    Lab::cause("cpu-quota", &["cpu-starvation"], |stage| quota(stage, (3, 8))),
    Lab::near("cpu-quota-near", &["cpu-starvation"], |stage| quota(stage, (250, 400))),
    Lab::cause("io-uring-punt", &["io-uring-punt"], |stage| {
        uring(stage, Engine::IoUringForceAsync)
    }),
    Lab::near("io-uring-punt-near", &["io-uring-punt"], |stage| uring(stage, Engine::IoUring)),
];

/// Direct random I/O on all of a device.
pub(super) fn random(device: &dyn BlockDevice, access: FioAccess, depth: u64) -> Job {
    let engine = if depth == 1 { Engine::Psync } else { Engine::Libaio };
    Job::new(device.path(), engine, access, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth.to_string())
}

fn any_random(stage: &mut LabStage) -> FioAccess {
    stage.dice.one(&[FioAccess::RandomRead, FioAccess::RandomWrite])
}

pub(super) fn cgroup_throttle(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(256)?;
    let cgroup = LabCgroup::block(&stage.scratch)?;
    let iops = stage.dice.between(50, 400);
    let (access, limit) = stage.dice.one(&[
        (FioAccess::RandomRead, Limit::ReadIops(iops)),
        (FioAccess::RandomWrite, Limit::WriteIops(iops)),
    ]);
    cgroup.limit(&device, limit)?;
    stage.fio_inside(random(&device, access, 1), &cgroup)?;
    let lift = cgroup.lifting(&device, limit)?;
    stage.relieved(Measure::Bytes, |_| lift());
    stage.keep(cgroup);
    stage.keep(device);
    Ok(())
}

fn slow_below(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (iops, depth, access) = (stage.round_iops(), stage.dice.between(6, 24), any_random(stage));
    hidden.iops(iops)?;
    stage.fio(random(&device, access, depth))?;
    stage.relieved(Measure::Bytes, move |_| {
        hidden.open();
        Ok(())
    });
    stage.keep(device);
    Ok(())
}

fn unlimited_below(stage: &mut LabStage) -> Result<()> {
    let (device, _hidden) = stage.hidden(256)?;
    let (depth, access) = (stage.dice.between(6, 24), any_random(stage));
    stage.fio(random(&device, access, depth))?;
    stage.keep(device);
    Ok(())
}

fn burst_credits(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (low, depth, access) = (stage.round_iops(), stage.dice.between(6, 16), any_random(stage));
    let high = low * stage.dice.between(3, 6);
    hidden.iops(high)?;
    stage.fio(random(&device, access, depth))?;
    let later = hidden.clone();
    stage.relieved(Measure::Bytes, move |_| later.iops(high));
    stage.in_watch((2, 5), move || {
        drop(hidden.iops(low));
        NEVER_MS
    });
    stage.keep(device);
    Ok(())
}

/// Another tenant takes a varying share of the disk below.
fn noisy_neighbour(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (depth, alone) = (stage.dice.between(2, 6), stage.dice.between(1000, 2000));
    hidden.latency(Duration::from_micros(alone));
    stage.fio(random(&device, FioAccess::RandomRead, depth))?;
    let mut dice = stage.dice.clone();
    let gone = Arc::new(AtomicBool::new(false));
    let goes = Arc::clone(&gone);
    stage.relieved(Measure::Bytes, move |_| {
        goes.store(true, Ordering::Relaxed);
        Ok(())
    });
    stage.in_watch((3, 5), move || {
        let others = if gone.load(Ordering::Relaxed) { 1 } else { dice.between(5, 12) };
        hidden.latency(Duration::from_micros(alone * others));
        dice.between(250, 450)
    });
    stage.keep(device);
    Ok(())
}

/// Another program of this machine submits far more than the device takes, and everybody waits
/// behind it.
fn competitor(stage: &mut LabStage, depth: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let iops = stage.dice.between(400, 900);
    stage.uneven(&hidden, iops * 8 / 10, iops * 12 / 10);
    let victim = random(&device, FioAccess::RandomRead, 1).with("rate_iops", "20");
    let (victim_name, name) = (stage.dice.name(), stage.dice.name());
    stage.fio_as(&victim_name, victim)?;
    let job = random(&device, FioAccess::RandomWrite, depth);
    let job = if depth == 1 { job.with("rate_iops", "30") } else { job };
    stage.fio_as(&name, job)?;
    stage.keep(device);
    Ok(())
}

/// The machine's own load grows: there is no neighbour.
fn own_load_grows(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let iops = stage.dice.between(900, 1300);
    stage.uneven(&hidden, iops * 8 / 10, iops * 12 / 10);
    stage.fio(random(&device, FioAccess::RandomRead, 2))?;
    let start = (stage.seconds / 2 + 2).to_string();
    stage.fio(random(&device, FioAccess::RandomRead, 16).with("startdelay", start))?;
    stage.keep(device);
    Ok(())
}

fn hung_io(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (depth, access) = (stage.dice.between(1, 8), any_random(stage));
    stage.fio(random(&device, access, depth).with("rate_iops", "300"))?;
    stage.in_watch((2, 5), move || {
        hidden.stall(Duration::from_secs(3600));
        NEVER_MS
    });
    stage.keep(device);
    Ok(())
}

/// Now and then all I/O stalls for some hundred milliseconds.
pub(super) fn slow_tail(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.fio(random(&device, FioAccess::RandomRead, 1).with("rate_iops", "300"))?;
    let mut dice = stage.dice.clone();
    let healthy = Arc::new(AtomicBool::new(false));
    let heals = Arc::clone(&healthy);
    let relief = Relief::new(Measure::Requests, move |_| {
        heals.store(true, Ordering::Relaxed);
        Ok(())
    });
    stage.relief = Some(relief.noticed_in(Duration::from_millis(1500)));
    stage.again(1500, move || {
        let stall = dice.between(300, 700);
        if !healthy.load(Ordering::Relaxed) {
            hidden.stall(Duration::from_millis(stall));
        }
        stall + dice.between(700, 1500)
    });
    stage.keep(device);
    Ok(())
}

fn paced_reads(stage: &mut LabStage) -> Result<()> {
    let (device, _hidden) = stage.hidden(256)?;
    stage.fio(random(&device, FioAccess::RandomRead, 1).with("rate_iops", "300"))?;
    stage.keep(device);
    Ok(())
}

/// A device that works on many requests at once, and a queue that admits few.
pub(super) fn tags(stage: &mut LabStage, requests: Option<&str>) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    if let Some(requests) = requests {
        stage.set(&device, "scheduler", "mq-deadline")?;
        stage.set_cause(&device, "nr_requests", requests)?;
    }
    let latency = Duration::from_micros(stage.dice.between(3000, 6000));
    stage.uneven_latency(&hidden, latency);
    let depth = stage.dice.between(28, 48);
    stage.fio(random(&device, FioAccess::RandomRead, depth))?;
    stage.keep(device);
    Ok(())
}

/// The delay between readers of which bfq serves one at a time: it takes those that begin within
/// 180 ms (bfq_burst_interval) for one, and serves them all at once.
const APART: Duration = Duration::from_millis(400);

/// Readers of a device that does many reads at once: bfq reserves it for one of them at a time.
fn scheduler(stage: &mut LabStage, name: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.set(&device, "rotational", "1")?;
    stage.set(&device, "scheduler", "none")?;
    stage.set_cause(&device, "scheduler", name)?;
    if name == "bfq" {
        // Otherwise it often dispatches all requests: to readers that it takes for one, or for a
        // while.
        stage.set(&device, "iosched/strict_guarantees", "1")?;
    }
    let latency = Duration::from_micros(stage.dice.between(800, 1500));
    stage.uneven_latency(&hidden, latency);
    readers(stage, &device, APART)?;
    stage.keep(device);
    Ok(())
}

/// Readers of a part each, in order, that begin one after the other.
pub(super) fn readers(
    stage: &mut LabStage,
    device: &dyn BlockDevice,
    apart: Duration,
) -> Result<()> {
    for part in 0..stage.dice.between(4, 6) {
        let job = random(device, FioAccess::Read, 1)
            .with("size", (40 * MIB).to_string())
            .with("offset", (part * 40 * MIB).to_string());
        stage.fio(job)?;
        std::thread::sleep(apart);
    }
    Ok(())
}

/// Reads from a device that works on any number at once, so that more of them are done in the same
/// time.
pub(super) fn reads(stage: &mut LabStage, depth: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let latency = Duration::from_micros(stage.dice.between(3000, 7000));
    stage.uneven_latency(&hidden, latency);
    stage.fio(random(&device, FioAccess::RandomRead, depth))?;
    if depth == 1 {
        let parallel = stage.command_of(random(&device, FioAccess::RandomRead, 8))?;
        stage.instead(Measure::Bytes, parallel);
    }
    stage.keep(device);
    Ok(())
}

/// Large reads of a device on which each request costs the same: if only bytes count, pieces cost
/// next to nothing.
pub(super) fn large_reads(stage: &mut LabStage, limit: Option<&str>) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.uneven(&hidden, 1500, 3000);
    if let Some(limit) = limit {
        stage.set_cause(&device, "max_sectors_kb", limit)?;
    }
    let block = stage.dice.one(&[512 << 10, MIB]);
    let job = Job::new(device.path(), Engine::Psync, FioAccess::Read, block)
        .direct()
        .with("size", (200 * MIB).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Small writes that follow each other, to a device on which each request costs the same.
pub(super) fn small_writes(stage: &mut LabStage, nomerges: Option<&str>) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.uneven(&hidden, 1500, 3000);
    if let Some(nomerges) = nomerges {
        stage.set_cause(&device, "nomerges", nomerges)?;
    }
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::Write, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", "32")
        .with("iodepth_batch_submit", "32")
        .with("iodepth_batch_complete_min", "16");
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A reader of low priority, on a CPU that is always busy, or on an idle one.
fn starved(stage: &mut LabStage, busy: bool) -> Result<()> {
    let device = stage.fast(256)?;
    let cpu = std::thread::available_parallelism().map_or(0, |count| count.get() - 1);
    let job = random(&device, FioAccess::RandomRead, 1)
        .with("cpus_allowed", cpu.to_string())
        .with("nice", "19");
    stage.fio(job)?;
    if busy {
        let program = given(include_str!("../../../programs/starved.py"), &[("cpu", &cpu)]);
        let before = stage.pids();
        for _ in 0..stage.dice.between(2, 4) {
            stage.python(&program, &[])?;
        }
        // Processes that fio has started since then are not busy in vain.
        let reader = crate::process::below(&before);
        let busy: Vec<u32> = stage.pids().into_iter().filter(|pid| !reader.contains(pid)).collect();
        stage.measured = before;
        stage.relieved(Measure::Calls, move |_| {
            busy.into_iter().for_each(crate::process::kill);
            Ok(())
        });
    }
    stage.keep(device);
    Ok(())
}

/// A reader in a cgroup that may use so many hundredths of a CPU: less than it wants, or more than
/// exist.
fn quota(stage: &mut LabStage, (least, most): (u64, u64)) -> Result<()> {
    let device = stage.fast(256)?;
    let cgroup = LabCgroup::cpu(&stage.scratch, stage.dice.between(least, most))?;
    stage.fio_inside(random(&device, FioAccess::RandomRead, 1), &cgroup)?;
    stage.expected = Expected::fix(&["cpu.max"]).by("fio");
    let lift = cgroup.lifting_cpu();
    stage.relieved(Measure::Calls, |_| lift());
    stage.keep(cgroup);
    stage.keep(device);
    Ok(())
}

pub(super) fn uring(stage: &mut LabStage, engine: Engine) -> Result<()> {
    // A device of a known speed: punting matters by the time of the requests in flight.
    let (device, hidden) = stage.hidden(256)?;
    let latency = Duration::from_micros(stage.dice.between(2_000, 4_000));
    stage.uneven_latency(&hidden, latency);
    let depth = stage.dice.between(4, 16).to_string();
    let job = Job::new(device.path(), engine, FioAccess::RandomRead, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth)
        .with("rate_iops", stage.dice.between(8_000, 15_000).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}
