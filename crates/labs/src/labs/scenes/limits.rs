//! Limits, queues and the device itself.

use super::*;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab {
        name: "cgroup-throttle",
        sort: Sort::Cause,
        causes: &["cgroup-throttle"],
        build: cgroup_throttle,
    },
    Lab {
        name: "cgroup-throttle-near",
        sort: Sort::NearMiss,
        causes: &["cgroup-throttle"],
        build: slow_below,
    },
    Lab { name: "provider-cap", sort: Sort::Cause, causes: &["provider-cap"], build: slow_below },
    Lab {
        name: "provider-cap-near",
        sort: Sort::NearMiss,
        causes: &["provider-cap"],
        build: unlimited_below,
    },
    Lab {
        name: "burst-credits",
        sort: Sort::Cause,
        causes: &["burst-credits"],
        build: burst_credits,
    },
    Lab {
        name: "burst-credits-near",
        sort: Sort::NearMiss,
        causes: &["burst-credits"],
        build: slow_below,
    },
    Lab {
        name: "noisy-neighbour",
        sort: Sort::Cause,
        causes: &["noisy-neighbour"],
        build: noisy_neighbour,
    },
    Lab {
        name: "noisy-neighbour-near",
        sort: Sort::NearMiss,
        causes: &["noisy-neighbour"],
        build: own_load_grows,
    },
    Lab { name: "hung-io", sort: Sort::Cause, causes: &["hung-io"], build: hung_io },
    Lab { name: "hung-io-near", sort: Sort::NearMiss, causes: &["hung-io"], build: slow_below },
    Lab {
        name: "device-slow-tail",
        sort: Sort::Cause,
        causes: &["device-slow-tail"],
        build: slow_tail,
    },
    Lab {
        name: "device-slow-tail-near",
        sort: Sort::NearMiss,
        causes: &["device-slow-tail"],
        build: paced_reads,
    },
    Lab {
        name: "tag-starvation",
        sort: Sort::Cause,
        causes: &["tag-starvation"],
        build: |it| tags(it, Some("4")),
    },
    Lab {
        name: "tag-starvation-near",
        sort: Sort::NearMiss,
        causes: &["tag-starvation"],
        build: |it| tags(it, None),
    },
    Lab {
        name: "scheduler-overhead",
        sort: Sort::Cause,
        causes: &["scheduler-overhead"],
        build: |it| scheduler(it, "bfq"),
    },
    Lab {
        name: "scheduler-overhead-near",
        sort: Sort::NearMiss,
        causes: &["scheduler-overhead"],
        build: |it| scheduler(it, "none"),
    },
    Lab {
        name: "serial-reads",
        sort: Sort::Cause,
        causes: &["serial-reads"],
        build: |it| reads(it, 1),
    },
    Lab {
        name: "serial-reads-near",
        sort: Sort::NearMiss,
        causes: &["serial-reads"],
        build: |it| reads(it, 8),
    },
    Lab {
        name: "split-requests",
        sort: Sort::Cause,
        causes: &["split-requests"],
        build: |it| large_reads(it, Some("16")),
    },
    Lab {
        name: "split-requests-near",
        sort: Sort::NearMiss,
        causes: &["split-requests"],
        build: |it| large_reads(it, None),
    },
    Lab {
        name: "small-writes",
        sort: Sort::Cause,
        causes: &["small-writes"],
        build: |it| small_writes(it, Some("2")),
    },
    Lab {
        name: "small-writes-near",
        sort: Sort::NearMiss,
        causes: &["small-writes"],
        build: |it| small_writes(it, None),
    },
    Lab {
        name: "cpu-starvation",
        sort: Sort::Cause,
        causes: &["cpu-starvation"],
        build: |it| starved(it, true),
    },
    Lab {
        name: "cpu-starvation-near",
        sort: Sort::NearMiss,
        causes: &["cpu-starvation"],
        build: |it| starved(it, false),
    },
    Lab {
        name: "io-uring-punt",
        sort: Sort::Cause,
        causes: &["io-uring-punt"],
        build: |it| uring(it, Engine::IoUringForceAsync),
    },
    Lab {
        name: "io-uring-punt-near",
        sort: Sort::NearMiss,
        causes: &["io-uring-punt"],
        build: |it| uring(it, Engine::IoUring),
    },
];

/// Direct random I/O on all of a device.
fn random(device: &dyn BlockDevice, access: Access, depth: u64) -> Job {
    let engine = if depth == 1 { Engine::Psync } else { Engine::Libaio };
    Job::new(device.path(), engine, access, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth.to_string())
}

fn any_random(stage: &mut Stage) -> Access {
    stage.dice.one(&[Access::RandomRead, Access::RandomWrite])
}

fn cgroup_throttle(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(256)?;
    let cgroup = Cgroup::block(&stage.scratch)?;
    let iops = stage.dice.between(50, 400);
    let (access, limit) = stage.dice.one(&[
        (Access::RandomRead, Limit::ReadIops(iops)),
        (Access::RandomWrite, Limit::WriteIops(iops)),
    ]);
    cgroup.limit(&device, limit)?;
    stage.fio_inside(random(&device, access, 1), &cgroup)?;
    stage.keep(cgroup);
    stage.keep(device);
    Ok(())
}

fn slow_below(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (iops, depth, access) = (stage.round_iops(), stage.dice.between(6, 24), any_random(stage));
    hidden.iops(iops)?;
    stage.fio(random(&device, access, depth))?;
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

fn unlimited_below(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (depth, access) = (stage.dice.between(6, 24), any_random(stage));
    stage.fio(random(&device, access, depth))?;
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

fn burst_credits(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (low, depth, access) = (stage.round_iops(), stage.dice.between(6, 16), any_random(stage));
    hidden.iops(low * stage.dice.between(3, 6))?;
    stage.fio(random(&device, access, depth))?;
    let later = hidden.clone();
    let at = 3500 + stage.seconds * 100 * stage.dice.between(2, 5);
    stage.after(at, move || drop(later.iops(low)));
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

/// Somebody else takes a part of what is below that changes all the time.
fn noisy_neighbour(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let depth = stage.dice.between(2, 6);
    stage.fio(random(&device, Access::RandomRead, depth).with("rate_iops", "2000"))?;
    hidden.iops(3000)?;
    let later = hidden.clone();
    let seconds = stage.seconds;
    let mut dice = stage.dice.clone();
    let at = 2500 + seconds * 100 * stage.dice.between(3, 5);
    stage.after(at, move || {
        for _ in 0..seconds * 3 {
            drop(later.iops(dice.between(90, 330)));
            std::thread::sleep(std::time::Duration::from_millis(dice.between(250, 450)));
        }
    });
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

/// The machine's own load grows: that is no neighbour.
fn own_load_grows(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.iops(stage.dice.between(900, 1300))?;
    stage.fio(random(&device, Access::RandomRead, 2))?;
    let start = (stage.seconds / 2 + 2).to_string();
    stage.fio(random(&device, Access::RandomRead, 16).with("startdelay", start))?;
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

fn hung_io(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let (depth, access) = (stage.dice.between(1, 8), any_random(stage));
    stage.fio(random(&device, access, depth).with("rate_iops", "300"))?;
    let later = hidden.clone();
    let at = 2500 + stage.seconds * 100 * stage.dice.between(2, 5);
    // A byte a second: the next request takes an hour.
    stage.after(at, move || {
        drop(later.limit("read_bps", 1));
        drop(later.limit("write_bps", 1));
    });
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

/// Now and then all stands still for some hundred milliseconds.
pub fn slow_tail(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.fio(random(&device, Access::RandomRead, 1).with("rate_iops", "300"))?;
    let later = hidden.clone();
    let mut dice = stage.dice.clone();
    let seconds = stage.seconds;
    stage.after(1500, move || {
        for _ in 0..seconds * 2 {
            drop(later.limit("read_bps", 4096));
            std::thread::sleep(std::time::Duration::from_millis(dice.between(300, 700)));
            later.open();
            std::thread::sleep(std::time::Duration::from_millis(dice.between(700, 1500)));
        }
    });
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

fn paced_reads(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.fio(random(&device, Access::RandomRead, 1).with("rate_iops", "300"))?;
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

fn tags(stage: &mut Stage, requests: Option<&str>) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    if let Some(requests) = requests {
        stage.set(&device, "scheduler", "mq-deadline")?;
        stage.set(&device, "nr_requests", requests)?;
    }
    hidden.iops(stage.dice.between(2300, 4700))?;
    let depth = stage.dice.between(28, 48);
    stage.fio(random(&device, Access::RandomRead, depth))?;
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

/// Readers of different priority that think between reads: bfq keeps the device for the first.
fn scheduler(stage: &mut Stage, name: &str) -> Result<()> {
    let device = stage.fast(256)?;
    stage.set(&device, "scheduler", name)?;
    stage.set(&device, "rotational", "1")?;
    for priority in ["0", "3", "7"] {
        let job = random(&device, Access::Read, 1)
            .with("prioclass", "2")
            .with("prio", priority)
            .with("thinktime", stage.dice.between(800, 2000).to_string())
            .with("numjobs", "2");
        stage.fio(job)?;
    }
    stage.keep(device);
    Ok(())
}

fn reads(stage: &mut Stage, depth: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    stage.uneven(&hidden, 130, 350);
    stage.fio(random(&device, Access::RandomRead, depth))?;
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

fn large_reads(stage: &mut Stage, limit: Option<&str>) -> Result<()> {
    let device = stage.fast(256)?;
    if let Some(limit) = limit {
        stage.set(&device, "max_sectors_kb", limit)?;
    }
    let block = stage.dice.one(&[512 << 10, MIB]);
    let job = Job::new(device.path(), Engine::Psync, Access::Read, block)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("rate", "200m");
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

fn small_writes(stage: &mut Stage, nomerges: Option<&str>) -> Result<()> {
    let device = stage.fast(256)?;
    if let Some(nomerges) = nomerges {
        stage.set(&device, "nomerges", nomerges)?;
    }
    let job = Job::new(device.path(), Engine::Libaio, Access::Write, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", "32")
        .with("iodepth_batch_submit", "32")
        .with("iodepth_batch_complete_min", "16");
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A program that computes between its reads, with and without a limit of CPU time.
fn starved(stage: &mut Stage, limited: bool) -> Result<()> {
    let device = stage.fast(256)?;
    let job = random(&device, Access::RandomRead, 1);
    if limited {
        let cgroup = Cgroup::cpu(&stage.scratch, stage.dice.between(15, 30))?;
        stage.fio_inside(job, &cgroup)?;
        stage.keep(cgroup);
    } else {
        stage.fio(job)?;
    }
    stage.keep(device);
    Ok(())
}

fn uring(stage: &mut Stage, engine: Engine) -> Result<()> {
    let device = stage.fast(256)?;
    let depth = stage.dice.between(4, 16).to_string();
    let job = Job::new(device.path(), engine, Access::RandomRead, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth)
        .with("rate_iops", stage.dice.between(8_000, 15_000).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}
