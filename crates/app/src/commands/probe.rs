//! `iowhy probe`: a short, bounded benchmark of a device or a file with fio, instead of dd. It only
//! reads; with `--write` it writes to a file that it creates itself, in a directory of its own.

pub mod limits;

use crate::args::probe::ProbeArgs;
use crate::failure::Failure;
use crate::output;
use iowhy_fs::{Folder, PRIVATE_FILE, PRIVATE_FOLDER};
use iowhy_views::json::escaped;
use iowhy_views::probe::{MeasuredLimit, ProbeRow, render};
use limits::VolumeLimits;
use rustix::fs::FileType;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Size of the file for writes, bytes.
const SIZE: u64 = 256 << 20;
/// Time beyond its runtime after which fio is killed, since the device hangs.
const GRACE: Duration = Duration::from_secs(15);
/// Time in which a killed fio is gone, unless its requests hang.
const DYING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// A part of the benchmark: its name, fio's pattern, the request size, the queue depth.
struct ProbePart {
    name: &'static str,
    pattern: &'static str,
    block: &'static str,
    depth: u32,
    /// Whether each write is made durable; the time of that is measured then.
    synced: bool,
}

impl ProbePart {
    const fn new(
        name: &'static str,
        pattern: &'static str,
        block: &'static str,
        depth: u32,
    ) -> ProbePart {
        ProbePart { name, pattern, block, depth, synced: false }
    }

    const fn synced(name: &'static str, block: &'static str) -> ProbePart {
        ProbePart { name, pattern: "write", block, depth: 1, synced: true }
    }

    fn writes(&self) -> bool {
        self.pattern.contains("write")
    }
}

const READS: [ProbePart; 3] = [
    ProbePart::new("read 4 KiB, random, 1 at a time", "randread", "4k", 1),
    ProbePart::new("read 4 KiB, random, 32 at a time", "randread", "4k", 32),
    ProbePart::new("read 1 MiB, in order, 8 at a time", "read", "1m", 8),
];
const WRITES: [ProbePart; 3] = [
    ProbePart::synced("append 4 KiB, fdatasync after each", "4k"),
    ProbePart::new("write 4 KiB, random, 1 at a time", "randwrite", "4k", 1),
    ProbePart::new("write 1 MiB, in order, 8 at a time", "write", "1m", 8),
];

/// Reads at these depths, for the knee.
const DEPTHS: [ProbePart; 7] = [
    ProbePart::new("read 4 KiB, random, 1 at a time", "randread", "4k", 1),
    ProbePart::new("read 4 KiB, random, 2 at a time", "randread", "4k", 2),
    ProbePart::new("read 4 KiB, random, 4 at a time", "randread", "4k", 4),
    ProbePart::new("read 4 KiB, random, 8 at a time", "randread", "4k", 8),
    ProbePart::new("read 4 KiB, random, 16 at a time", "randread", "4k", 16),
    ProbePart::new("read 4 KiB, random, 32 at a time", "randread", "4k", 32),
    ProbePart::new("read 4 KiB, random, 64 at a time", "randread", "4k", 64),
];
/// Reads of growing sizes, to compare their cost.
const SIZES: [ProbePart; 5] = [
    ProbePart::new("read 4 KiB, random, 1 at a time", "randread", "4k", 1),
    ProbePart::new("read 16 KiB, random, 1 at a time", "randread", "16k", 1),
    ProbePart::new("read 64 KiB, random, 1 at a time", "randread", "64k", 1),
    ProbePart::new("read 256 KiB, random, 1 at a time", "randread", "256k", 1),
    ProbePart::new("read 1 MiB, random, 1 at a time", "randread", "1m", 1),
];
/// The fio test of etcd's documentation ("Hardware recommendations"): writes of the size of an
/// entry of its log.
const ETCD: ProbePart = ProbePart::synced("append 2300 bytes, fdatasync after each", "2300");
/// The p99 of fdatasync that etcd asks for, nanoseconds.
const ETCD_P99_NS: f64 = 10e6;
/// A step of the depth that adds less than this share of requests is beyond the knee. Chosen.
const KNEE: f64 = 0.2;

/// The parts that the arguments ask for.
fn parts(args: &ProbeArgs) -> Vec<&'static ProbePart> {
    match () {
        () if args.etcd => vec![&ETCD],
        () if args.depths => DEPTHS.iter().collect(),
        () if args.sizes => SIZES.iter().collect(),
        () if args.write => WRITES.iter().chain(&READS).collect(),
        () => READS.iter().collect(),
    }
}

/// Returns the meaning of the figures, in a sentence.
fn verdict(args: &ProbeArgs, rows: &[ProbeRow]) -> Option<String> {
    if args.etcd {
        let p99 = rows.first()?.p99_ns;
        let word = if p99 < ETCD_P99_NS { "fast enough" } else { "too slow" };
        return Some(format!(
            "{word} for etcd: the 99th percentile of fdatasync is {:.2} ms, and etcd needs less \
             than 10 ms",
            p99 / 1e6
        ));
    }
    match (args.depths, args.sizes) {
        (true, _) => Some(knee(rows)),
        (_, true) => larger(rows),
        _ => None,
    }
}

/// Returns a comparison of a large read with a small one.
fn larger(rows: &[ProbeRow]) -> Option<String> {
    let (small, large) = (rows.first()?, rows.last()?);
    let times = |a: f64, b: f64| a / b.max(1e-9);
    Some(format!(
        "1 MiB takes {:.1} times as long as 4 KiB, and moves {:.0} times as many bytes per second",
        times(large.p50_ns, small.p50_ns),
        times(large.bytes_per_s, small.bytes_per_s)
    ))
}

/// The depth beyond which requests only wait longer.
fn knee(rows: &[ProbeRow]) -> String {
    let gain = |pair: &[ProbeRow]| pair[1].requests_per_s / pair[0].requests_per_s.max(1e-9) - 1.0;
    let at = rows.windows(2).position(|pair| gain(pair) < KNEE);
    match at.and_then(|at| DEPTHS.get(at)) {
        Some(part) => format!(
            "the knee is at {} at a time: more requests in flight wait longer and hardly more \
             complete per second",
            part.depth
        ),
        None => "there is no knee up to 64 at a time: the device takes more at once".to_owned(),
    }
}

/// Announces the benchmark, runs it, and shows the results.
pub fn run(args: &ProbeArgs) -> Result<(), Failure> {
    // Before the file exists, so that a signal cannot leave it behind.
    let stop = stop_flag()?;
    let target = Target::from_arguments(args)?;
    let parts = parts(args);
    let seconds = args.time.as_secs_f64();
    let all = seconds * parts.len() as f64;
    let path = target.path.display();
    output::note(&match args.writes() {
        true => format!(
            "writes and reads {path} for {all} s: a new file of 256 MiB, removed at the end"
        ),
        false => format!("reads {path} for {all} s, bypassing the page cache; writes nothing"),
    });
    let limits = VolumeLimits::for_path(&target.path);
    let mut measured = Vec::new();
    for part in parts {
        measured.push((measure(part, &target, args, &stop)?, part.writes()));
    }
    let limits = limits.compared(&measured, all);
    let rows: Vec<ProbeRow> = measured.into_iter().map(|pair| pair.0).collect();
    let verdict = verdict(args, &rows);
    let text = match args.json {
        true => json(&target.path, &rows, &limits, verdict.as_deref()),
        false => render(&rows, &output::style()),
    };
    output::print(&text)?;
    verdict.iter().for_each(|said| output::note(said));
    limits.iter().for_each(|limit| output::note(&limit.sentence));
    if limits.is_empty() {
        output::note(
            "no limit is known here: no cgroup of this process limits the disk, and it counts none",
        );
    }
    Ok(())
}

fn json(path: &Path, rows: &[ProbeRow], limits: &[MeasuredLimit], verdict: Option<&str>) -> String {
    let value = serde_json::json!({
        "format": 1,
        "target": path,
        "tests": rows,
        "limits": limits,
        "verdict": verdict,
    });
    escaped(format!("{value}\n"))
}

/// The target.
struct Target {
    path: PathBuf,
    /// The directory that the file is in, if iowhy makes the file.
    own: Option<OwnFolder>,
}

impl Target {
    /// A device or a file that exists.
    fn existing(path: &Path) -> Target {
        Target { path: path.to_owned(), own: None }
    }
}

/// A directory of iowhy's own with the file that fio writes. fio removes the file and makes it
/// anew, by its path, and in a directory where others may make files one of them could put a link
/// there meanwhile.
struct OwnFolder {
    above: Folder,
    name: OsString,
    folder: Folder,
}

/// The name of the file in it.
const FILE: &str = "data";

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // If the file is missing, fio failed before it made it. Nothing else is in the directory,
        // and one that somebody put in its place stays unless it is empty.
        let _ = self.folder.remove_file(FILE);
        let _ = self.above.remove_folder(&self.name);
    }
}

impl Target {
    fn from_arguments(args: &ProbeArgs) -> Result<Target, Failure> {
        let path = &args.target;
        let failed = |cause: String, hint: &str| {
            let message = format!("failed to probe {}: {cause}", path.display());
            Err(Failure::new(message, Some(hint.to_owned())))
        };
        let kind = match rustix::fs::stat(path) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(_) if args.writes() && is_new(path) => {
                enough_room(path.parent().filter(|parent| *parent != Path::new("")))?;
                return created(path);
            }
            Err(cause) => return failed(cause.to_string(), "name a block device or a file"),
        };
        match (kind, args.writes()) {
            (FileType::BlockDevice | FileType::RegularFile, true) => failed(
                "existing data is never overwritten".to_owned(),
                "name a directory on it, or a file that does not exist: it is created there and \
                 removed again",
            ),
            (FileType::Directory, true) => {
                enough_room(Some(path))?;
                let name = format!(".iowhy-probe-{}", std::process::id());
                created(&path.join(name))
            }
            (FileType::Directory, false) => {
                failed("it is a directory".to_owned(), "name a file in it, or add --write")
            }
            (FileType::BlockDevice, false) => Ok(Target::existing(path)),
            (FileType::RegularFile, false) => {
                let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                if size < 1 << 20 {
                    let cause = format!("it has {size} bytes");
                    return failed(cause, "name a file of at least 1 MiB");
                }
                Ok(Target::existing(path))
            }
            _ => failed("it is neither a device nor a file".to_owned(), "name one of these"),
        }
    }
}

impl ProbeArgs {
    /// Whether a file is made and written.
    fn writes(&self) -> bool {
        self.write || self.etcd
    }
}

/// Whether nothing has this name in a directory that exists.
fn is_new(path: &Path) -> bool {
    let is_free = std::fs::symlink_metadata(path).is_err() && path.file_name().is_some();
    is_free && iowhy_fs::folder_of(path).is_dir()
}

/// Refuses a directory without room for the file.
fn enough_room(folder: Option<&Path>) -> Result<(), Failure> {
    let folder = folder.unwrap_or(Path::new("."));
    let free = rustix::fs::statvfs(folder).map_or(0, |space| space.f_bavail * space.f_frsize);
    if free >= SIZE * 2 {
        return Ok(());
    }
    let message = format!("failed to probe {}: only {} MiB are free", folder.display(), free >> 20);
    let hint = "512 MiB must be free, so that other programs do not run out of space";
    Err(Failure::new(message, Some(hint.to_owned())))
}

/// A new file in a new directory `path`.
fn created(path: &Path) -> Result<Target, Failure> {
    let failed = |cause: io::Error, hint: &str| {
        let message = format!("failed to create {}: {cause}", path.display());
        Failure::new(message, Some(hint.to_owned()))
    };
    let unwritable = |cause| failed(cause, "choose a writable directory");
    let (above, name) = iowhy_fs::parent(path).map_err(unwritable)?;
    let folder = above.make_folder(&name, PRIVATE_FOLDER).map_err(unwritable)?;
    let own = OwnFolder { above, name, folder };
    // fio opens the file by its path, and root may write whatever stands there then.
    if rustix::process::geteuid().is_root() {
        let checked = own.folder.check_paths();
        checked.map_err(|cause| failed(cause, "name a directory of root's on the same disk"))?;
    }
    own.folder.create(FILE, PRIVATE_FILE).map_err(unwritable)?;
    Ok(Target { path: path.join(FILE), own: Some(own) })
}

/// A signal ends fio, so that the file is removed; also the SIGHUP of a closed terminal.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(format!("failed to handle signals: {error}"), None))?;
    }
    Ok(stop)
}

fn measure(
    part: &ProbePart,
    target: &Target,
    args: &ProbeArgs,
    stop: &AtomicBool,
) -> Result<ProbeRow, Failure> {
    let not_started = |cause: String| {
        let hint = "install fio: `apt install fio`, `dnf install fio`".to_owned();
        Failure::new(format!("failed to start fio: {cause}"), Some(hint))
    };
    let program = iowhy_fs::programs::find("fio");
    let program = program.ok_or_else(|| not_started("it is not installed".to_owned()))?;
    let mut command = fio(&program, part, target, args);
    let mut child = command.spawn().map_err(|cause| not_started(cause.to_string()))?;
    let deadline = Instant::now() + args.time + GRACE;
    // fio's output is far smaller than a pipe's buffer, so it is read at the end.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.load(Ordering::Relaxed) || Instant::now() > deadline => {
                end(&mut child);
                let cause = match stop.load(Ordering::Relaxed) {
                    true => "it was interrupted".to_owned(),
                    false => "fio does not end: requests hang".to_owned(),
                };
                let hint = "`iowhy stat` shows how old the oldest request is".to_owned();
                return Err(failed(target, &cause, Some(hint)));
            }
            Ok(None) => std::thread::sleep(PAUSE),
            Err(cause) => return Err(failed(target, &cause.to_string(), None)),
        }
    };
    let text = |pipe: &mut dyn Read| {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text).unwrap_or_default()
    };
    let answer = child.stdout.take().map(|mut pipe| text(&mut pipe)).unwrap_or_default();
    let said = child.stderr.take().map(|mut pipe| text(&mut pipe)).unwrap_or_default();
    match figures(part, &answer) {
        Some(row) if status.success() => Ok(row),
        _ => {
            let first = said.lines().chain(answer.lines()).find(|line| !line.trim().is_empty());
            let cause = first.unwrap_or("fio printed no figures").to_owned();
            Err(failed(target, &cause, None))
        }
    }
}

/// Kills fio, which may have ended already. Until it is gone it may make its file anew; one whose
/// requests hang is not waited for.
fn end(child: &mut Child) {
    let _ = child.kill();
    let deadline = Instant::now() + DYING;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
}

fn failed(target: &Target, cause: &str, hint: Option<String>) -> Failure {
    // fio does not say that a privilege is missing, only that it cannot open the device.
    let may_read = rustix::fs::access(&target.path, rustix::fs::Access::READ_OK).is_ok();
    let sudo = || "this user may not read it: `sudo iowhy probe ...`".to_owned();
    let hint = if may_read { hint } else { Some(sudo()) };
    Failure::new(format!("failed to probe {}: {cause}", target.path.display()), hint)
}

fn fio(program: &Path, part: &ProbePart, target: &Target, args: &ProbeArgs) -> Command {
    let mut command = iowhy_fs::bound::command(program);
    command.args(["--name=iowhy-probe", "--output-format=json", "--time_based"]);
    match part.synced {
        true => command.args(["--ioengine=psync", "--fdatasync=1"]),
        false => command.args(["--ioengine=libaio", "--direct=1"]),
    };
    command.args(["--thread", "--randrepeat=0"]);
    command.arg(format!("--runtime={}ms", args.time.as_millis()));
    command.arg(format!("--rw={}", part.pattern));
    command.arg(format!("--bs={}", part.block));
    command.arg(format!("--iodepth={}", part.depth));
    match target.own.is_some() {
        true => command.arg(format!("--size={SIZE}")),
        // fio itself then refuses to write.
        false => command.arg("--readonly"),
    };
    // A colon separates files for fio.
    let path = target.path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:");
    command.arg(format!("--filename={path}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The figures of the part in fio's JSON.
fn figures(part: &ProbePart, answer: &str) -> Option<ProbeRow> {
    // A note may come before the JSON.
    let json: Value = serde_json::from_str(answer.get(answer.find('{')?..)?).ok()?;
    let side = if part.writes() { "write" } else { "read" };
    let jobs = json.get("jobs")?.get(0)?;
    let job = jobs.get(side)?;
    // The latency of the sync, if the part is about syncs.
    let latency = match part.synced {
        true => jobs.get("sync")?.get("lat_ns")?,
        false => job.get("clat_ns")?,
    };
    let percentile = |name: &str| latency.get("percentile")?.get(name)?.as_f64();
    Some(ProbeRow {
        test: part.name.to_owned(),
        requests_per_s: job.get("iops")?.as_f64()?,
        bytes_per_s: job.get("bw_bytes")?.as_f64()?,
        p50_ns: percentile("50.000000")?,
        p99_ns: percentile("99.000000")?,
        max_ns: latency.get("max")?.as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rates: &[f64]) -> Vec<ProbeRow> {
        let row = |rate: &f64| ProbeRow { requests_per_s: *rate, ..ProbeRow::default() };
        rates.iter().map(row).collect()
    }

    #[test]
    fn the_knee_is_where_more_depth_gains_little() {
        let said = knee(&rows(&[100.0, 190.0, 350.0, 380.0, 385.0, 390.0, 390.0]));
        assert!(said.contains("at 4 at a time"), "{said}");
        let said = knee(&rows(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]));
        assert!(said.contains("no knee"), "{said}");
    }

    #[test]
    fn nobody_else_reaches_the_file_that_fio_makes_anew() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        // As /tmp.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        let target = created(&folder.path().join("probe")).unwrap();
        let place = iowhy_fs::folder_of(&target.path);
        assert_ne!(place, folder.path(), "others may make files there");
        assert_eq!(place.metadata().unwrap().mode() & 0o777, 0o700);
        drop(target);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_put_in_the_place_of_the_directory_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = created(&folder.path().join("probe")).unwrap();
        std::fs::rename(folder.path().join("probe"), folder.path().join("moved")).unwrap();
        let precious = folder.path().join("probe/data");
        std::fs::create_dir(folder.path().join("probe")).unwrap();
        std::fs::write(&precious, "precious").unwrap();
        drop(target);
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        assert!(!folder.path().join("moved/data").exists(), "its own file is removed");
    }

    #[test]
    fn a_sync_has_its_own_figures() {
        let answer = r#"note {"jobs": [{"write": {"iops": 50.0, "bw_bytes": 115000, "clat_ns":
            {"max": 1, "percentile": {"50.000000": 1, "99.000000": 1}}}, "sync": {"lat_ns":
            {"max": 9e6, "percentile": {"50.000000": 2e6, "99.000000": 8e6}}}}]}"#;
        let row = figures(&ETCD, answer).unwrap();
        assert_eq!((row.p50_ns, row.p99_ns, row.requests_per_s), (2e6, 8e6, 50.0));
        assert_eq!(figures(&WRITES[0], answer).unwrap().p99_ns, 8e6);
        assert_eq!(figures(&WRITES[1], answer).unwrap().p99_ns, 1.0);
    }
}
