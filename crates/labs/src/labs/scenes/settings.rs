//! Settings of a device that change while it is used.

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("config-regression", &["config-regression"], |stage| changed(stage, true)),
    Lab::near("config-regression-near", &["config-regression"], |stage| changed(stage, false)),
    Lab::near("config-regression-apart", &["config-regression"], apart),
];

/// The latency of a device before any change, microseconds.
const LATENCY_US: (u64, u64) = (1000, 2000);

/// More than is read during a lab: data that is read twice could have been cached.
const MIB_OF_DEVICE: u64 = 4096;

/// A setting that is changed in the watch, and a load that is slower with the new value, or is not.
fn changed(stage: &mut LabStage, dear: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(MIB_OF_DEVICE)?;
    let latency = Duration::from_micros(stage.dice.between(LATENCY_US.0, LATENCY_US.1));
    stage.uneven_latency(&hidden, latency);
    let turn = stage.dice.one(&[scheduler, tags, read_ahead]);
    let (setting, value, further) = turn(stage, &device, dear)?;
    stage.expected = Expected::fix(&[setting]).on(device.name());
    stage.cause_in_watch(&device, (4, 6), (setting, value), further);
    stage.keep(device);
    Ok(())
}

/// A setting, its new value, and another one that has to be set with it.
type Turn = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// Readers of which bfq serves one at a time, while the device could do all of their reads at once;
/// mq-deadline lets them.
fn scheduler(stage: &mut LabStage, device: &dyn BlockDevice, dear: bool) -> Result<Turn> {
    stage.set(device, "rotational", "1")?;
    stage.set(device, "scheduler", "none")?;
    limits::readers(stage, device, Duration::ZERO)?;
    let strict = ("iosched/strict_guarantees", "1");
    Ok(if dear { ("scheduler", "bfq", Some(strict)) } else { ("scheduler", "mq-deadline", None) })
}

/// Readers that outnumber the places of the queue, or fewer.
fn tags(stage: &mut LabStage, device: &dyn BlockDevice, dear: bool) -> Result<Turn> {
    stage.set(device, "scheduler", "mq-deadline")?;
    stage.set(device, "nr_requests", "128")?;
    let readers = stage.dice.between(20, 30).to_string();
    stage.fio(limits::random(device, FioAccess::RandomRead, 1).with("numjobs", readers))?;
    Ok(("nr_requests", if dear { "4" } else { "64" }, None))
}

/// A program that reads all of a device with small calls, a part after the other: at each open, the
/// kernel looks up the readahead.
fn read_ahead(stage: &mut LabStage, device: &dyn BlockDevice, dear: bool) -> Result<Turn> {
    stage.set(device, "read_ahead_kb", "128")?;
    stage.python(PARTS, &[device.path()])?;
    Ok(("read_ahead_kb", if dear { "4" } else { "256" }, None))
}

/// The device is kept open, or the kernel would drop its cached pages.
const PARTS: &str = include_str!("../../../programs/partial_pages.py");

/// A setting that costs nothing, and a device that becomes slower by itself seconds before or after
/// it is changed.
fn apart(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let latency = Duration::from_micros(stage.dice.between(LATENCY_US.0, LATENCY_US.1));
    hidden.latency(latency);
    let turn = stage.dice.one(&[scheduler, tags]);
    let (setting, value, further) = turn(stage, &device, false)?;
    let (early, late) = ((2, 3), (6, 7));
    let (slow, set) = stage.dice.one(&[(early, late), (late, early)]);
    let times = stage.dice.between(3, 6) as u32;
    stage.in_watch(slow, move || {
        hidden.latency(latency * times);
        NEVER_MS
    });
    stage.cause_in_watch(&device, set, (setting, value), further);
    stage.keep(device);
    Ok(())
}
