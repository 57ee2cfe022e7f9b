//! How long diagnosing a recording takes, beside reading it and adding it up.
//!
//! `cargo run --release -p iowhy-core --example diagnosis_speed -- RECORDING...`; without one, a
//! recording of a million requests in ten seconds is written to a scratch directory first:
//! processes, files, waits and stacks as on a busy database host. Times are CPU time of this
//! process, the best of several rounds, so that a busy machine does not count.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use iowhy_core::analysis::{Summarizer, Summary};
use iowhy_core::diagnosis::diagnose;
use iowhy_core::model::{Names, WaitClass};
use iowhy_core::recording::{RecordingReader, RecordingWriter};
use iowhy_core::script::Script;
use iowhy_core::source::{Batch, Progress, Source};
use std::error::Error;
use std::path::{Path, PathBuf};

/// A build without optimisation says no more than that it cannot be slower.
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 5 };
const REQUESTS: u64 = 1_000_000;
const SECONDS: u64 = 10;
const BATCH: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if given.is_empty() {
        let scratch = tempfile::tempdir()?;
        let path = scratch.path().join("million");
        write(&path)?;
        return measure(&path);
    }
    given.iter().try_for_each(|path| measure(path))
}

fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut best = [f64::MAX; 3];
    let mut message = String::new();
    for _ in 0..ROUNDS {
        let begun = cpu_ms();
        let (summarizer, source, names) = read(path)?;
        let read = cpu_ms();
        let summary: Summary = summarizer.finish(source.environment(), &names);
        let finished = cpu_ms();
        let diagnosis = diagnose(&summary);
        let diagnosed = cpu_ms();
        for (best, spent) in
            best.iter_mut().zip([read - begun, finished - read, diagnosed - finished])
        {
            *best = best.min(spent);
        }
        let findings: Vec<&str> = diagnosis.findings.iter().map(|it| it.cause).collect();
        message = format!("{} requests: {findings:?}", summary.watch.requests);
    }
    let [read, finished, diagnosed] = best;
    println!(
        "{}: read and added up {read:.0} ms; summary {finished:.1} ms, diagnosis {diagnosed:.2} \
         ms; {message}",
        path.display(),
    );
    Ok(())
}

fn read(path: &Path) -> Result<(Summarizer, RecordingReader, Names), Box<dyn Error>> {
    let mut source = RecordingReader::open(path)?;
    let mut summarizer = Summarizer::new(source.environment());
    let (mut batch, mut names) = (Batch::default(), Names::new());
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names)?;
        summarizer.add(&batch, &names);
        if progress == Progress::Done {
            return Ok((summarizer, source, names));
        }
    }
}

/// CPU time of this process so far, milliseconds.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

/// A recording of [`REQUESTS`]: reads of many files by a few processes, a wait for every other one.
fn write(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut script = Script::new(SECONDS);
    let mut writer = RecordingWriter::create(path, &script.environment)?;
    let mut dice: u64 = 7;
    let mut below = |limit: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) % limit
    };
    for first in (0..REQUESTS).step_by(BATCH as usize) {
        for index in first..first + BATCH {
            let at = index * (SECONDS * 1_000_000_000 / REQUESTS);
            let pid = 100 + below(12) as u32;
            let file = format!("/var/lib/db/base/{}/{}", below(8), below(2000));
            let (device, d2c) = (["sda", "sdb"][below(2) as usize], 80_000 + below(900_000));
            let read = script.read(device, 4096 << below(4)).by(pid, "db").at(at as i64);
            let read = read.sector(below(1 << 28) * 8).file(&file).direct(400, 700, d2c);
            let kernel = ["submit_bio", "ext4_mpage_readpages", "filemap_get_pages", "vfs_read"];
            let mut read =
                if index % 100 == 0 { read.stacks(&kernel, &["main"], 100) } else { read };
            read.request.request_id = index + 1;
            read.parts.iter_mut().for_each(|part| part.request_id = index + 1);
            read.add();
            if index % 2 == 0 {
                script.wait((pid, "db"), WaitClass::PageRead, d2c + 2_000, d2c, 500);
                if let Some(wait) = script.batch.waits.last_mut() {
                    (wait.wait_id, wait.start_ns) = (index + 1, wait.start_ns + at);
                }
            }
        }
        writer.add(&script.batch, &script.names)?;
        // Stacks stay: a later request may have the same.
        script.batch =
            Batch { stacks: std::mem::take(&mut script.batch.stacks), ..Batch::default() };
    }
    let mut environment = script.environment.clone();
    writer.finish(&mut environment, &script.names)?;
    Ok(())
}
