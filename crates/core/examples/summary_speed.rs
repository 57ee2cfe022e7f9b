//! How long the summarizer takes for each request: `cargo run --release --example summary_speed`.
//!
//! The rows are like those of a busy database host: a few processes, many files, random reads and
//! sequential writes with one or two parts each.
#![allow(clippy::print_stdout, reason = "an example's output is what it is for")]

use iowhy_core::analysis::Summarizer;
use iowhy_core::model::Origin;
use iowhy_core::script::Script;
use iowhy_core::source::Batch;
use std::time::Instant;

const REQUESTS: u64 = 300_000;
const ROUNDS: u64 = 8;
const BATCH: usize = 1000;

fn main() {
    let script = rows();
    let plain = batches(&script, false);
    let waits = batches(&script, true);
    let (mut best, mut summary) = ([f64::MAX; 2], None);
    for _ in 0..ROUNDS {
        for (batches, best) in [&plain, &waits].into_iter().zip(&mut best) {
            let begin = cpu_ns();
            let mut summarizer = Summarizer::new(&script.environment);
            batches.iter().for_each(|batch| summarizer.add(batch, &script.names));
            *best = best.min((cpu_ns() - begin) as f64 / REQUESTS as f64);
            summary = Some(summarizer);
        }
    }
    let begin = Instant::now();
    let summary = summary.map(|it| it.finish(&script.environment, &script.names));
    println!(
        "ns of CPU per request with 1.25 parts (batches of {BATCH}): {:.0}; with 0.75 waits {:.0}; \
         finish {:.1} ms; {} requests",
        best[0],
        best[1],
        begin.elapsed().as_secs_f64() * 1e3,
        summary.map_or(0, |summary| summary.watch.requests),
    );
}

/// CPU time of this process so far: the machine may be busy with others.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The rows as a watch gives them: each wait behind its request.
fn batches(script: &Script, waits: bool) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let all = &script.batch;
    let (mut next, mut links) = (all.waits.iter().peekable(), all.wait_requests.iter());
    for (index, (request, parts)) in all.requests_with_parts().enumerate() {
        if index % BATCH == 0 {
            batches.push(Batch::default());
        }
        let Some(batch) = batches.last_mut() else { continue };
        batch.requests.push(request.clone());
        batch.parts.extend_from_slice(parts);
        let own = next.next_if(|wait| waits && wait.start_ns == request.start_ns);
        if let Some(wait) = own {
            batch.waits.push(wait.clone());
            batch.wait_requests.extend(links.next().cloned());
        }
    }
    batches
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
            let read = read.sector(random * 8).file(&file).scheduled(300, 200, 4000, d2c).add();
            script.wait_for((pid, "postgres"), at as u64, 4500 + d2c, &[read]);
        }
    }
    script
}
