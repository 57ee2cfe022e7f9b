//! How long the summarizer takes for each request: `cargo run --release --example summary_speed`.
//!
//! The rows are like those of a busy database host: a few processes, many files, random reads and
//! sequential writes with one or two parts each.
#![allow(clippy::print_stdout, reason = "an example's output is what it is for")]

use iowhy_core::analysis::Summarizer;
use iowhy_core::model::Origin;
use iowhy_core::script::Script;
use std::time::Instant;

const REQUESTS: u64 = 200_000;
const ROUNDS: u64 = 20;
const BATCH: usize = 1000;

fn main() {
    let script = rows();
    let source = script.source(BATCH);
    let mut summarizer = Summarizer::new(&script.environment);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for batch in source.batches.iter().filter(|batch| batch.requests.len() == BATCH) {
            let begin = Instant::now();
            summarizer.add(batch, &script.names);
            times.push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    let begin = Instant::now();
    let summary = summarizer.finish(&script.environment, &script.names);
    println!(
        "ns per request with 1.25 parts (wall, batches of {BATCH}): best {:.0}, quarter {:.0}, \
         median {:.0}; finish {:.1} ms; {} requests, {} files",
        times[0],
        times[times.len() / 4],
        times[times.len() / 2],
        begin.elapsed().as_secs_f64() * 1e3,
        summary.watch.requests,
        summary.files.rows.len() as u64 + summary.files.others.count,
    );
}

fn rows() -> Script {
    let mut script = Script::new(10);
    let mut state = 1_u64;
    for index in 0..REQUESTS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = state >> 33;
        let pid = 1000 + (random % 8) as u32;
        let at = (index * 40_000) as i64;
        let file = format!("/var/lib/db/{}", random % 2000);
        let d2c = 80_000 + random % 50_000;
        if index % 4 == 0 {
            let write = script.write("nvme0n1", 16_384).at(at).by(70, "kworker/u8:2");
            let write = write.sector((1 << 30) + index * 8).origin(Origin::Writeback);
            let write = write.part(Ok(&file), 8192, Ok((pid, "postgres")));
            write
                .part(Ok("/var/log/messages"), 8192, Ok((9, "rsyslogd")))
                .direct(0, 900, d2c)
                .add();
        } else {
            let read = script.read("nvme0n1", 4096).at(at).by(pid, "postgres");
            let read = read.cgroup("/system.slice/postgres.service", "postgres.service");
            read.sector(random * 8).file(&file).scheduled(300, 200, 4000, d2c).add();
        }
    }
    script
}
