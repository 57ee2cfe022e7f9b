//! What recording costs: CPU time for each request by step, memory, and bytes on disk.
//!
//! `cargo run --release --example recording_cost [DIR]` writes to DIR, or to a scratch directory.
//! Rows are synthetic: `fio` is 4 KiB random reads of one file by one process, where most columns
//! stall; `mixed` is many processes, files and sizes. Times are CPU time of this thread, the
//! best of several rounds; the disk's own work is not in them.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program that prints its results")]

use iowhy_core::model::table::{Columns, Table};
use iowhy_core::model::{Environment, Name, Names, Origin, Request, RequestPart};
use iowhy_core::recording::{RecordingReader, RecordingWriter};
use iowhy_core::source::{Batch, Progress, Source};
use std::path::{Path, PathBuf};
use std::time::Duration;

const REQUESTS: usize = 2 << 20;
const BATCH: usize = 512;
const ROUNDS: usize = 5;

fn main() {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = directory.join(format!("iowhy-recording-cost-{}", std::process::id()));
    println!("{:8} {:22} {:>10}", "rows", "step", "ns/request");
    for (name, kind) in [("fio", SampleKind::Fio), ("mixed", SampleKind::Mixed)] {
        let line = |step: &str, value: f64| println!("{name:8} {step:22} {value:10.1}");
        let mut names = Names::new();
        let batches = batches(kind, &mut names);
        let columns = best(|| gather(&batches));
        let (mut weight, mut reading) = (RecordingSize::default(), Duration::MAX);
        let all = best(|| {
            let (spent, found) = record(&directory, &batches, &names);
            weight.disk = found.disk;
            // The first round's: the later ones reuse what it left.
            weight.memory = weight.memory.max(found.memory);
            reading = reading.min(read(&directory));
            std::fs::remove_dir_all(&directory).expect("the scratch directory");
            spent
        });
        line("rows into columns", columns);
        line("encode and write", all - columns);
        line("all of writing", all);
        line("reading", reading.as_nanos() as f64 / REQUESTS as f64);
        line("bytes on disk", weight.disk as f64 / REQUESTS as f64);
        line("memory, MB in all", weight.memory as f64 / 1e6);
    }
}

/// The shortest of several rounds, in nanoseconds for each request.
fn best(mut round: impl FnMut() -> Duration) -> f64 {
    let shortest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    shortest.as_nanos() as f64 / REQUESTS as f64
}

/// The time to turn the rows into columns, in groups as large as the writer's.
fn gather(batches: &[Batch]) -> Duration {
    let mut requests = Columns::of::<Request>();
    let mut parts = Columns::of::<RequestPart>();
    let begin = cpu();
    for batch in batches.iter().cycle().take(REQUESTS / BATCH) {
        requests.extend(&batch.requests);
        parts.extend(&batch.parts);
        if requests.len() >= 64 << 10 {
            requests.clear();
            parts.clear();
        }
    }
    cpu() - begin
}

/// CPU time of this thread so far.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(first.expect("nanoseconds"))
}

/// What a recording takes.
#[derive(Default)]
struct RecordingSize {
    /// Bytes of requests and parts on disk.
    disk: u64,
    /// The largest increase of anonymous memory, bytes.
    memory: u64,
}

/// The time to write a recording of the rows.
fn record(directory: &Path, batches: &[Batch], names: &Names) -> (Duration, RecordingSize) {
    let mut weight = RecordingSize::default();
    let before = anonymous();
    let mut environment = Environment::default();
    let mut writer = RecordingWriter::create(directory, &environment).expect("a scratch directory");
    let (mut spent, mut begin) = (Duration::ZERO, cpu());
    for (number, batch) in batches.iter().cycle().take(REQUESTS / BATCH).enumerate() {
        writer.add(batch, names).expect("room for the recording");
        if number % 100 == 0 {
            spent += cpu() - begin;
            weight.memory = weight.memory.max(anonymous().saturating_sub(before));
            begin = cpu();
        }
    }
    writer.finish(&mut environment, names).expect("room for the recording");
    spent += cpu() - begin;
    let sizes = [Request::NAME, RequestPart::NAME].map(|table| size(&directory.join(table)));
    weight.disk = sizes.iter().sum();
    (spent, weight)
}

/// The time to read it back, row by row.
fn read(directory: &Path) -> Duration {
    let (mut batch, mut names) = (Batch::default(), Names::new());
    let begin = cpu();
    let mut reader = RecordingReader::open(directory).expect("the recording");
    let mut requests = 0;
    while reader.fill(&mut batch, &mut names).expect("the recording") == Progress::More {
        requests += batch.requests.len();
        batch.clear();
    }
    assert_eq!(requests, REQUESTS);
    cpu() - begin
}

/// Anonymous memory of this process, bytes.
fn anonymous() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.expect("kilobytes") * 1024
}

fn size(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).expect("a table's directory");
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[derive(Clone, Copy)]
enum SampleKind {
    Fio,
    Mixed,
}

/// Two batches: in a watch, too, rows are in the second-level cache when they come, since they were
/// just decoded.
fn batches(kind: SampleKind, names: &mut Names) -> Vec<Batch> {
    let mut random = ExampleRandom(88_172_645_463_325_252);
    let mut words = |prefix: &str, count: usize| -> Vec<Name> {
        (0..count).map(|number| names.intern(&format!("{prefix}{number}"))).collect()
    };
    let many = |count| if matches!(kind, SampleKind::Fio) { 1 } else { count };
    let texts = Texts {
        device: words("loop", many(2)),
        rwbs: words("R", many(4)),
        process: words("process-", many(40)),
        cgroup: words("/system.slice/some-unit.service/", many(20)),
        file: words("/var/lib/database/base/16384/relation-", many(2000)),
    };
    let mut time = 1_000_000_000_000;
    let mut id = 0;
    let batch = |_| {
        let mut batch = Batch::default();
        for _ in 0..BATCH {
            id += 1;
            time += random.below(8_000);
            let (request, part) = row(id, time, &texts, &mut random);
            batch.requests.push(request);
            batch.parts.push(part);
        }
        batch
    };
    (0..2).map(batch).collect()
}

struct Texts {
    device: Vec<Name>,
    rwbs: Vec<Name>,
    process: Vec<Name>,
    cgroup: Vec<Name>,
    file: Vec<Name>,
}

fn row(id: u64, time: u64, texts: &Texts, random: &mut ExampleRandom) -> (Request, RequestPart) {
    let who = random.below(texts.process.len() as u64);
    let process = texts.process[who as usize];
    let cgroup = texts.cgroup[who as usize % texts.cgroup.len()];
    let file = random.below(texts.file.len() as u64);
    let bytes = 4096 << random.below(texts.rwbs.len() as u64);
    let offset = random.below(1 << 18) * 4096;
    let [q2g, g2d, d2c] =
        [300 + random.below(900), 400 + random.below(600), 40_000 + random.below(60_000)];
    let request = Request {
        request_id: id,
        start_ns: time - random.below(50_000),
        q2g_ns: Some(q2g),
        g2d_ns: Some(g2d),
        d2c_ns: Some(d2c),
        q2c_ns: Some(q2g + g2d + d2c),
        device: texts.device[random.below(texts.device.len() as u64) as usize],
        major: 7,
        sector: offset / 512,
        bytes,
        rwbs: texts.rwbs[random.below(texts.rwbs.len() as u64) as usize],
        origin: Origin::Read,
        cpu: 1,
        pid: Some(4000 + who as u32),
        tid: Some(4000 + who as u32),
        process: Some(process),
        cgroup: Some(cgroup),
        syscall: Some(17),
        ..Table::blank()
    };
    let part = RequestPart {
        file: Some(texts.file[file as usize]),
        inode: Some(1_000_000 + file),
        inode_device: Some(7 << 20),
        file_offset: Some(offset),
        owner_pid: Some(4000 + who as u32),
        owner: Some(process),
        owner_cgroup: Some(cgroup),
        owner_share: Some(1.0),
        ..RequestPart::blank(id, bytes)
    };
    (request, part)
}

/// Numbers that look random and are the same in every run (xorshift).
struct ExampleRandom(u64);

impl ExampleRandom {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
