//! A day of trouble in scripted time: 24 watches, an hour apart, with programs, cgroups and
//! devices that come and go, incidents, a state disk that is full and one that is gone, and a clock
//! on the wall that is set forward and back. What is kept stays bounded, and what was counted adds
//! up.
//!
//! The table is part of docs/recorder.md: `IOWHY_BLESS=1 cargo test -p iowhy-recorder --test it`
//! writes it.

use crate::causes::CAUSES;
use crate::host::{ALONE, HOUR_S, S, ScriptedHost, healthy};
use crate::storage::{BEGUN_S, Storage, StoredSums, sums_of};
use iowhy_model::script::{START_NS, Script};
use iowhy_recorder::history::HistoryFiles;
use iowhy_recorder::incidents::store::IncidentStore;
use iowhy_recorder::trigger::{Trigger, TriggerKind};
use iowhy_recorder::writers::files::WriterFiles;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

/// Windows of a watch: three minutes are scripted, then time goes on by the rest of the hour.
const WINDOWS: u64 = 18;
/// When a cause is planted.
const PLANTED: std::ops::Range<u64> = 6..9;
/// What all incidents together may take.
const INCIDENT_BYTES: u64 = 4 << 20;
/// What the state disk has, where this test may make one.
const DISK: &str = "size=24m";
const DAY_S: i64 = 86_400;
const START: &str =
    "<!-- trouble: written by IOWHY_BLESS=1 cargo test -p iowhy-recorder --test it -->\n";
const END: &str = "<!-- end of trouble -->\n";

/// What happens in some hours.
struct Phase {
    hours: std::ops::Range<u64>,
    what: &'static str,
    /// New programs, each in a cgroup of its own, and new devices, every ten seconds.
    programs: u64,
    devices: u64,
    /// Captures that people ask for, an hour.
    asked: u64,
}

const fn phase(hours: std::ops::Range<u64>, what: &'static str) -> Phase {
    Phase { hours, what, programs: 2, devices: 1, asked: 0 }
}

const PHASES: [Phase; 8] = [
    phase(0..4, "little comes and goes"),
    Phase { programs: 40, ..phase(4..6, "40 programs in cgroups of their own every ten seconds") },
    Phase { programs: 40, devices: 12, ..phase(6..8, "and 12 devices") },
    phase(8..12, "the clock is set three days forward, back by more, and right again"),
    phase(12..14, "the state disk is full"),
    phase(14..16, "the state directory is not there"),
    Phase { asked: 20, ..phase(16..20, "people ask for 20 incidents an hour") },
    Phase { programs: 40, devices: 12, ..phase(20..24, "40 programs and 12 devices again") },
];

/// A file system of a bounded size, where this test may mount one.
struct StateDisk {
    folder: PathBuf,
    is_mounted: bool,
}

impl StateDisk {
    fn new(folder: &Path) -> StateDisk {
        let folder = folder.join("disk");
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "iowhy-trouble"]).arg(&folder);
        let is_mounted = rustix::process::geteuid().is_root()
            && mount.output().is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("skipped: a full disk; a state directory that is gone stands in for it");
        }
        fs::create_dir(folder.join("state")).unwrap();
        StateDisk { folder, is_mounted }
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Leaves no room, or as much as there was.
    fn set_full(&self, is_full: bool) {
        let filler = self.folder.join("filler");
        match (self.is_mounted, is_full) {
            (false, gone) => self.set_gone(gone),
            (true, false) => fs::remove_file(filler).unwrap(),
            (true, true) => {
                let mut filler = File::create(filler).unwrap();
                while filler.write(&[1; 4096]).is_ok_and(|written| written > 0) {}
            }
        }
    }

    /// Puts a file in its place, or takes it away.
    fn set_gone(&self, is_gone: bool) {
        let away = self.folder.join("away");
        if is_gone {
            fs::rename(self.state(), away).unwrap();
            fs::write(self.state(), "").unwrap();
        } else {
            fs::remove_file(self.state()).unwrap();
            fs::rename(away, self.state()).unwrap();
        }
    }
}

impl Drop for StateDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            // Nothing more can be done about one that stays.
            let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
        }
    }
}

/// What this process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory: u64,
    files: usize,
    ring: u64,
    metrics: usize,
}

impl Held {
    fn by(host: &ScriptedHost) -> Held {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        Held {
            memory: line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10,
            files: fs::read_dir("/proc/self/fd").unwrap().count(),
            ring: host.ring.bytes(),
            metrics: host.storage.as_ref().unwrap().metrics.text().len(),
        }
    }
}

/// The rows of ten seconds.
fn fill(script: &mut Script, hour: u64, window: u64, phase: &Phase) {
    healthy(script, window);
    for number in 0..phase.programs {
        let name = format!("job-{hour}-{window}-{number}");
        let pid = 1_000 + number as u32;
        script.process(pid, &name, &format!("/jobs/{name}"), &format!("{name}.service"));
        let write = script.write("sda", 4096).by(pid, &name).at((number * 1000) as i64);
        let write = write.cgroup(&format!("/jobs/{name}"), &format!("{name}.service"));
        write.file(&format!("/jobs/{name}.log")).direct(1, 2, 300_000).add();
    }
    for number in 0..phase.devices {
        let device = format!("loop{}", (hour * 360 + window.min(360)) * 12 + number);
        script.read(&device, 4096).by(50, "losetup").direct(1, 2, 200_000).add();
    }
    let is_planted = window == u64::MAX || PLANTED.contains(&window);
    let cause = CAUSES[hour as usize % CAUSES.len()];
    if is_planted {
        (cause.1)(script);
    }
}

/// An hour, and what people ask for in it.
fn hour(host: &mut ScriptedHost, hour: u64, phase: &Phase) {
    host.watch(hour * HOUR_S, WINDOWS, &mut |script: &mut Script, window: u64| {
        fill(script, hour, window, phase);
    });
    for number in 0..phase.asked {
        // Asked between two watches, so that each is cut out of what the ring has.
        let now_ns = START_NS + (hour * HOUR_S + WINDOWS * 10 + number) * S;
        host.follow(Trigger::manual(TriggerKind::Command, "again".to_owned()), now_ns);
        host.close();
    }
}

fn set_clock(host: &mut ScriptedHost, off_by_s: i64) {
    host.storage.as_mut().unwrap().off_by_s = off_by_s;
}

fn trouble(host: &mut ScriptedHost, disk: &StateDisk, hour: u64) {
    match hour {
        8 => set_clock(host, 3 * DAY_S),
        9 => set_clock(host, -7_200),
        10 => set_clock(host, 0),
        12 => disk.set_full(true),
        14 => {
            disk.set_full(false);
            disk.set_gone(true);
        }
        16 => disk.set_gone(false),
        _ => (),
    }
}

/// Requests of the lines of the history.
fn in_history(state: &Path) -> u64 {
    let files = HistoryFiles::below(state);
    let minutes = files.minutes(BEGUN_S - 9 * DAY_S, BEGUN_S + 9 * DAY_S).unwrap();
    let flows =
        minutes.iter().flat_map(|minute| minute.devices.values()).flat_map(|flows| flows.values());
    flows.map(|flow| flow.requests).sum()
}

fn of_writers(state: &Path) -> u64 {
    let files = WriterFiles::below(state);
    let records = files.records(BEGUN_S - 9 * DAY_S, BEGUN_S + 9 * DAY_S).unwrap();
    sums_of(&records).requests
}

/// Holds that nothing has grown since `before`.
fn expect_bounded(host: &ScriptedHost, folder: &Path, before: Held, hour: u64) {
    let now = Held::by(host);
    let grown = now.memory.saturating_sub(before.memory);
    assert!(grown < 16 << 20, "hour {hour}: {now:?} after {before:?}");
    assert!(now.files <= before.files + 16, "hour {hour}: {now:?} after {before:?}");
    assert!(now.ring <= 64 << 20 && now.metrics <= 512 << 10, "hour {hour}: {now:?}");
    let generations = fs::read_dir(folder.join("ring")).unwrap().count();
    assert!(generations <= 2, "hour {hour}: {generations} generations in the ring");
}

fn expect_kept(state: &Path, runtime: &Path, sums: StoredSums) {
    let store = IncidentStore::below(state);
    let sizes = store.sizes().unwrap();
    let bytes: u64 = sizes.iter().map(|size| size.bytes).sum();
    assert!(bytes <= INCIDENT_BYTES, "{bytes} bytes of {}", sizes.len());
    assert!(sizes.len() > 4 && sizes.len() < sums.incidents as usize, "{}", sizes.len());
    assert_eq!(sizes.last().map(|size| size.number), Some(sums.incidents));
    assert_eq!(sums.saved, sums.incidents, "each was on the disk once: {sums:?}");
    let asked = sizes.iter().filter(|size| size.asked).map(|size| size.bytes).sum::<u64>();
    assert!(asked <= INCIDENT_BYTES / 2 && asked > 0, "{asked} bytes that people asked for");
    assert_eq!(fs::read_dir(runtime.join("incidents")).unwrap().count(), 0, "all are saved");
    let days = HistoryFiles::below(state).days().unwrap();
    assert_eq!(days.len(), 2, "the day, and the one that the clock was set to: {days:?}");
}

#[test]
fn a_day_of_trouble_leaves_what_is_bounded_and_adds_up() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let disk = StateDisk::new(folder.path());
    let mut host = ScriptedHost::new(folder.path());
    host.storage = Some(Storage::new(folder.path(), &disk.state(), INCIDENT_BYTES));
    // Everything has come and gone once when it is taken.
    let mut before = None;
    let mut table =
        String::from("\n| hours | what happens | requests | incidents |\n|---|---|--:|--:|\n");
    let mut earlier = StoredSums::default();
    for phase in &PHASES {
        for hour_of_day in phase.hours.clone() {
            trouble(&mut host, &disk, hour_of_day);
            hour(&mut host, hour_of_day, phase);
            match before {
                None if hour_of_day == 7 => before = Some(Held::by(&host)),
                None => (),
                Some(before) => expect_bounded(&host, folder.path(), before, hour_of_day),
            }
        }
        let sums = host.storage.as_ref().unwrap().sums;
        if phase.hours.end <= 12 {
            assert_eq!(in_history(&disk.state()), sums.requests, "{}", phase.what);
            assert_eq!(of_writers(&disk.state()), sums.requests, "{}", phase.what);
            assert_eq!(sums.refused_lines, 0);
        }
        let (from, until) = (phase.hours.start, phase.hours.end);
        let (requests, incidents) =
            (sums.requests - earlier.requests, sums.incidents - earlier.incidents);
        let _ =
            writeln!(table, "| {from} to {until} | {} | {requests} | {incidents} |", phase.what);
        earlier = sums;
    }
    let (sums, _) = host.storage.take().unwrap().finish();
    assert!(sums.refused_lines > 0 && sums.failed > 0, "the disk took everything: {sums:?}");
    let written = in_history(&disk.state());
    assert_eq!(written + sums.refused_requests, sums.requests, "{sums:?}");
    assert_eq!(sums.minutes, 24 * WINDOWS / 6);
    expect_kept(&disk.state(), folder.path(), sums);
    table.push('\n');
    crate::day::check_table((START, END), &table);
}
