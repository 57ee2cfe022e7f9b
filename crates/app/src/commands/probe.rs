//! `iowhy probe`: a short, bounded benchmark of a device or a file with fio, instead of dd. It only
//! reads; with `--write` it writes to a file that it creates itself.

use crate::args::probe::ProbeArgs;
use crate::failure::Failure;
use crate::output;
use iowhy_views::probe::{ProbeRow, render};
use rustix::fs::FileType;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Size of the file for writes, bytes.
const SIZE: u64 = 256 << 20;
/// Time beyond its runtime after which fio is killed, since the device hangs.
const GRACE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// A part of the benchmark: its name, fio's pattern, the request size, the queue depth.
struct ProbePart {
    name: &'static str,
    pattern: &'static str,
    block: &'static str,
    depth: u32,
}

const READS: [ProbePart; 3] = [
    ProbePart {
        name: "read 4 KiB, random, 1 at a time",
        pattern: "randread",
        block: "4k",
        depth: 1,
    },
    ProbePart {
        name: "read 4 KiB, random, 32 at a time",
        pattern: "randread",
        block: "4k",
        depth: 32,
    },
    ProbePart { name: "read 1 MiB, in order, 8 at a time", pattern: "read", block: "1m", depth: 8 },
];
const WRITES: [ProbePart; 2] = [
    ProbePart {
        name: "write 4 KiB, random, 1 at a time",
        pattern: "randwrite",
        block: "4k",
        depth: 1,
    },
    ProbePart {
        name: "write 1 MiB, in order, 8 at a time",
        pattern: "write",
        block: "1m",
        depth: 8,
    },
];

/// Reads at these depths, for the knee.
const DEPTHS: [ProbePart; 7] = [
    at_depth("read 4 KiB, random, 1 at a time", 1),
    at_depth("read 4 KiB, random, 2 at a time", 2),
    at_depth("read 4 KiB, random, 4 at a time", 4),
    at_depth("read 4 KiB, random, 8 at a time", 8),
    at_depth("read 4 KiB, random, 16 at a time", 16),
    at_depth("read 4 KiB, random, 32 at a time", 32),
    at_depth("read 4 KiB, random, 64 at a time", 64),
];
/// What etcd's documentation ("Hardware recommendations") has fio do: the size of an entry of its
/// log.
const ETCD: ProbePart = ProbePart {
    name: "append 2300 bytes, fdatasync after each",
    pattern: "write",
    block: "2300",
    depth: 1,
};
/// The p99 of fdatasync that etcd asks for, nanoseconds.
const ETCD_P99_NS: f64 = 10e6;
/// A step of the depth that adds less than this share of requests is beyond the knee. Chosen.
const KNEE: f64 = 0.2;

const fn at_depth(name: &'static str, depth: u32) -> ProbePart {
    ProbePart { name, pattern: "randread", block: "4k", depth }
}

/// The parts that the arguments ask for.
fn parts(args: &ProbeArgs) -> Vec<&'static ProbePart> {
    match (args.etcd, args.depths, args.write) {
        (true, ..) => vec![&ETCD],
        (_, true, _) => DEPTHS.iter().collect(),
        (.., true) => WRITES.iter().chain(&READS).collect(),
        _ => READS.iter().collect(),
    }
}

/// What the figures mean, in a sentence.
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
    args.depths.then(|| knee(rows))
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
    let target = Target::of(args)?;
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
    let mut rows = Vec::new();
    for part in parts {
        rows.push(measure(part, &target, args, &stop)?);
    }
    let text = match args.json {
        true => json(&target.path, &rows),
        false => render(&rows, &output::style()),
    };
    output::print(&text)?;
    verdict(args, &rows).iter().for_each(|said| output::note(said));
    Ok(())
}

fn json(path: &Path, rows: &[ProbeRow]) -> String {
    let value = serde_json::json!({ "format": 1, "target": path, "tests": rows });
    format!("{}\n", output::escaped(&value.to_string()))
}

/// The target.
struct Target {
    path: PathBuf,
    /// Whether iowhy creates the file, and removes it.
    is_own: bool,
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_own {
            // It exists only after fio has created it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Target {
    fn of(args: &ProbeArgs) -> Result<Target, Failure> {
        let path = &args.target;
        let failed = |cause: String, hint: &str| {
            let message = format!("failed to probe {}: {cause}", path.display());
            Err(Failure::new(message, Some(hint.to_owned())))
        };
        let kind = match rustix::fs::stat(path) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(cause) => return failed(cause.to_string(), "name a block device or a file"),
        };
        match (kind, args.writes()) {
            (FileType::BlockDevice | FileType::RegularFile, true) => failed(
                "existing data is never overwritten".to_owned(),
                "name a directory on it: a file is created there and removed again",
            ),
            (FileType::Directory, true) => {
                let free = rustix::fs::statvfs(path).map_or(0, |it| it.f_bavail * it.f_frsize);
                if free < SIZE * 2 {
                    let cause = format!("only {} MiB are free", free >> 20);
                    return failed(
                        cause,
                        "512 MiB must be free, so that other programs do not run \
                        out of space",
                    );
                }
                Ok(Target { path: new_file(path)?, is_own: true })
            }
            (FileType::Directory, false) => {
                failed("it is a directory".to_owned(), "name a file in it, or add --write")
            }
            (FileType::BlockDevice, false) => Ok(Target { path: path.clone(), is_own: false }),
            (FileType::RegularFile, false) => {
                let size = std::fs::metadata(path).map_or(0, |it| it.len());
                if size < 1 << 20 {
                    let cause = format!("it has {size} bytes");
                    return failed(cause, "name a file of at least 1 MiB");
                }
                Ok(Target { path: path.clone(), is_own: false })
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

/// A new file.
fn new_file(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(format!(".iowhy-probe-{}", std::process::id()));
    match std::fs::File::create_new(&path) {
        Ok(_) => Ok(path),
        Err(cause) => {
            let message = format!("failed to create {}: {cause}", path.display());
            Err(Failure::new(message, Some("choose a writable directory".to_owned())))
        }
    }
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
    let mut command = fio(part, target, args);
    let mut child = command.spawn().map_err(|cause| {
        let hint = "install fio: `apt install fio`, `dnf install fio`".to_owned();
        Failure::new(format!("failed to start fio: {cause}"), Some(hint))
    })?;
    let deadline = Instant::now() + args.time + GRACE;
    // fio's output is far smaller than a pipe's buffer, so it is read at the end.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.load(Ordering::Relaxed) || Instant::now() > deadline => {
                // It may have ended already.
                let _ = child.kill();
                let _ = child.try_wait();
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

fn failed(target: &Target, cause: &str, hint: Option<String>) -> Failure {
    Failure::new(format!("failed to probe {}: {cause}", target.path.display()), hint)
}

fn fio(part: &ProbePart, target: &Target, args: &ProbeArgs) -> Command {
    let mut command = Command::new("fio");
    command.args(["--name=iowhy-probe", "--output-format=json", "--time_based"]);
    match args.etcd {
        true => command.args(["--ioengine=psync", "--fdatasync=1"]),
        false => command.args(["--ioengine=libaio", "--direct=1"]),
    };
    command.args(["--thread", "--randrepeat=0"]);
    command.arg(format!("--runtime={}ms", args.time.as_millis()));
    command.arg(format!("--rw={}", part.pattern));
    command.arg(format!("--bs={}", part.block));
    command.arg(format!("--iodepth={}", part.depth));
    match target.is_own {
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
    let side = if part.pattern.contains("write") { "write" } else { "read" };
    let jobs = json.get("jobs")?.get(0)?;
    let job = jobs.get(side)?;
    // What a sync takes, where the part is about that.
    let latency = match part.name == ETCD.name {
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
    fn a_sync_has_its_own_figures() {
        let answer = r#"note {"jobs": [{"write": {"iops": 50.0, "bw_bytes": 115000, "clat_ns":
            {"max": 1, "percentile": {"50.000000": 1, "99.000000": 1}}}, "sync": {"lat_ns":
            {"max": 9e6, "percentile": {"50.000000": 2e6, "99.000000": 8e6}}}}]}"#;
        let row = figures(&ETCD, answer).unwrap();
        assert_eq!((row.p50_ns, row.p99_ns, row.requests_per_s), (2e6, 8e6, 50.0));
        assert_eq!(figures(&WRITES[0], answer).unwrap().p99_ns, 1.0);
    }
}
