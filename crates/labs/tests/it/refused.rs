//! Kernels and policies that refuse a program: only that program is lost. A separate process
//! answers `bpf(2)` for the kernel (`programs/refuse.py`), so that each program can be refused.

use crate::recording::Recording;
use crate::support::{finish, printed, trial, wait_until};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::kernels::{Claims, KernelProgram};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, iowhy, machine, process};
use iowhy_model::{Sample, Status};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Bytes of a program's name that the kernel keeps.
const NAME: usize = 15;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("refused::each_program_costs_itself", each_costs_itself),
        trial("refused::several_at_once", several),
        trial("refused::requests_in_flight_are_read_instead", read_instead),
    ]
}

/// iowhy on a kernel that refuses these programs.
fn without(programs: &str) -> Result<Command> {
    let mut refusing = Command::new(command::find("python3")?);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/refuse.py");
    refusing.arg(program).arg(programs).arg(iowhy::binary()?);
    Ok(refusing)
}

fn check_without(programs: &str) -> Result<Claims> {
    let mut check = without(programs)?;
    check.args(["check", "--json"]);
    let output = finish(check)?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.is_empty() {
        return Err(LabError::failed("refuse a program", printed(&output)));
    }
    Claims::parse(&text)
}

/// Returns the programs that are useless without `program`.
fn resting_on(program: &str) -> &'static [&'static str] {
    match program {
        "on_switch" => &["list_sleepers", "list_thread_sleepers"],
        "on_waking" => &["list_thread_sleepers"],
        "on_call" => &["on_call_begins"],
        _ => &[],
    }
}

/// Programs without which there is no watch.
const NEEDED: &[&str] = &["on_complete", "on_issue", "on_queue"];

fn unusable(claims: &Claims) -> BTreeSet<&str> {
    let programs = claims.programs.iter().filter(|program| !program.usable);
    programs.map(|program| program.program.as_str()).collect()
}

/// Returns the names that the kernel cannot distinguish from this one.
fn same<'a>(program: &str, all: &'a [KernelProgram]) -> Vec<&'a str> {
    let short = |name: &str| name.get(..NAME).unwrap_or(name).to_owned();
    let names = all.iter().map(|program| program.program.as_str());
    names.filter(|name| short(name) == short(program)).collect()
}

fn each_costs_itself() -> Result<()> {
    machine::need_bpf()?;
    let whole = check_without("none")?;
    let lost = unusable(&whole);
    assert!(whole.programs.len() > 20, "{:#?}", whole.rows);
    for program in whole.programs.iter().filter(|program| program.usable) {
        let name = program.program.as_str();
        let refused = same(name, &whole.programs);
        let claims = check_without(name)?;
        let row = claims.rows.iter().find(|row| row.what == "programs");
        if refused.iter().any(|name| NEEDED.contains(name)) {
            assert!(row.is_some_and(|row| row.there == "no"), "{name}: {:#?}", claims.rows);
            continue;
        }
        let rest = refused.iter().flat_map(|name| resting_on(name)).copied();
        let expected: BTreeSet<&str> =
            lost.iter().copied().chain(refused.iter().copied()).chain(rest).collect();
        assert_eq!(unusable(&claims), expected, "without {name}");
        assert!(row.is_some_and(|row| row.there == "yes"), "{name}: {:#?}", claims.rows);
        let said = claims.rows.iter().any(|row| row.what == "program" && row.found.contains(name));
        assert!(said, "{name}: {:#?}", claims.rows);
    }
    Ok(())
}

fn several() -> Result<()> {
    machine::need_bpf()?;
    let lost = unusable(&check_without("none")?).len();
    let claims = check_without("list_pending,list_writers,on_dirty,on_call,event_plug")?;
    let found = unusable(&claims);
    for name in ["list_pending", "list_writers", "on_dirty", "on_call", "on_call_begins"] {
        assert!(found.contains(name), "{name}: {found:?}");
    }
    assert!(found.len() <= lost + 7, "{found:?}");
    Ok(())
}

/// The data of the program that lists requests in flight is read from user space: a disk that hangs
/// shows while it hangs, and nothing is reported as invisible.
fn read_instead() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
    let lower = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
    let upper = LoopDevice::inside_as(Backing::File, &scratch, lower.path(), 32 * MIB)?;
    let frozen = lower.freeze()?;
    let output = scratch.path().join("watched");
    let mut record = without("list_pending")?;
    // All devices: a filter by device leaves these ages out.
    record.args(["record", "--every", "-t", "4", "-o"]).arg(&output);
    record.stdout(Stdio::null()).stderr(Stdio::null());
    let mut record = record.spawn().context(|| "start iowhy".to_owned())?;
    // Its directory exists once it has begun: the age is that of requests of the watch itself.
    wait_until("the watch", || Ok(output.exists()))?;
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "count=1", "oflag=direct", "bs=64k"]);
    dd.arg(format!("of={}", upper.path().display())).stderr(Stdio::null());
    let mut dd = dd.spawn().context(|| "start dd".to_owned())?;
    let status = record.wait().context(|| "wait for iowhy".to_owned())?;
    drop(frozen);
    process::wait_or_kill(&mut dd, Duration::from_secs(10));
    assert!(status.success(), "{status}");
    let recording = Recording::open(&output)?;
    let name = upper.name();
    let own = recording.requests.iter().filter(|row| recording.text(row.device) == name);
    let open = own.filter(|row| row.status == Status::InFlight).count();
    assert_eq!(open, 1, "{}", recording.overview());
    let limits = &recording.environment.limits;
    assert!(!limits.iter().any(|limit| limit.contains("not visible")), "{limits:?}");
    let is_age = |row: &&Sample| {
        let about = (recording.text(row.subject), recording.text(row.metric));
        about == (name, "under_way.oldest_ns")
    };
    let ages = recording.samples.iter().filter(is_age);
    let oldest_ns = ages.map(|row| row.value).fold(0.0, f64::max);
    assert!(oldest_ns > 1e9, "{oldest_ns} {}", recording.overview());
    Ok(())
}
