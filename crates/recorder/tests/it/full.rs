//! A runtime directory without room: what comes then is lost and counted, and kept again once there
//! is room.

use iowhy_analysis::summarize;
use iowhy_model::recording::RecordingReader;
use iowhy_model::script::{START_NS, Script};
use iowhy_recorder::ring::{CutSpan, Ring, RingChange, RingLimits};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const S: u64 = 1_000_000_000;
const REQUESTS: u64 = 20;

/// A small file system in memory.
struct SmallMemory(PathBuf);

impl SmallMemory {
    fn mounted(at: &Path) -> Option<SmallMemory> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "iowhy-full"]).arg(at);
        let is_mounted = rustix::process::geteuid().is_root()
            && mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then(|| SmallMemory(at.to_owned()))
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        // Nothing more can be done about one that stays.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_runtime_directory_costs_rounds_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(memory) = SmallMemory::mounted(folder.path()) else {
        eprintln!("skipped: no file system can be mounted");
        return;
    };
    let (filler, path) = (memory.0.join("filler"), memory.0.join("ring"));
    let limits = RingLimits { keep_ns: 600 * S, bytes: 4 << 20 };
    let mut ring = Ring::new(&path, limits).unwrap();
    let mut script = Script::new(REQUESTS);
    for second in 0..REQUESTS {
        let at = (second * S) as i64;
        script.read("sda", 4096).by(7, "cat").at(at).direct(100, 200, 3_000).add();
    }
    let (batch, names) = (&script.batch, &script.names);
    let environment = &script.environment;
    let end_ns = START_NS + REQUESTS * S;

    ring.begin(environment).unwrap();
    ring.add(batch, names).unwrap();
    ring.rotate(end_ns, environment, names).unwrap();
    assert_eq!((ring.take_changes(), ring.take_lost_requests()), (vec![], 0));

    let mut file = File::create(&filler).unwrap();
    while file.write(&[1; 4096]).is_ok_and(|written| written > 0) {}
    ring.add(batch, names).unwrap();
    ring.rotate(end_ns + 5 * S, environment, names).unwrap();
    let changes = ring.take_changes();
    let [RingChange::Stopped(cause)] = &changes[..] else { panic!("{changes:?}") };
    assert!(cause.contains("No space left"), "{cause}");
    assert!(ring.has_stopped());
    assert_eq!(ring.take_lost_requests(), REQUESTS);
    // It is said once, however often it is tried.
    ring.begin(environment).unwrap();
    ring.add(batch, names).unwrap();
    ring.end(end_ns + 10 * S, environment, names).unwrap();
    assert_eq!((ring.take_changes(), ring.take_lost_requests()), (vec![], REQUESTS));

    drop(file);
    fs::remove_file(&filler).unwrap();
    ring.begin(environment).unwrap();
    ring.add(batch, names).unwrap();
    ring.rotate(end_ns + 15 * S, environment, names).unwrap();
    assert_eq!((ring.take_changes(), ring.take_lost_requests()), (vec![RingChange::GoesOn], 0));
    let cut = folder.path().join("cut");
    ring.cut(&cut, CutSpan { from_ns: 0, until_ns: u64::MAX }, None).unwrap();
    let summary = summarize(&mut RecordingReader::open(&cut).unwrap()).unwrap();
    assert_eq!(summary.watch.requests, REQUESTS);
}
