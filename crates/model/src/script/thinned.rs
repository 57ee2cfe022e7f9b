//! Rows as a budget would have recorded them: those in one of several windows of a jiffy, and slow
//! ones all, with the kernel's exact counts.
//!
//! What does not belong here: which windows the kernel's programs choose (`bpf/thinning.bpf.h` of
//! the capture, which this follows).

use crate::environment::{ExactCount, Thinning};
use crate::source::Batch;
use crate::{Environment, Request, Status};
use std::collections::{BTreeMap, HashSet};

/// Windows in which rows are kept together, nanoseconds: a jiffy.
const WINDOW_NS: u64 = 4_000_000;
/// Slower ones are always recorded.
const SLOW_NS: u64 = 10_000_000;

/// Leaves one in `one_in` of all requests and waits of a watch, a power of two, and notes in its
/// `environment` what was left out.
#[must_use]
pub fn thinned(batch: Batch, environment: &mut Environment, one_in: u32) -> Batch {
    environment.exact_counts = counted(&batch.requests);
    environment.thinning = vec![Thinning {
        from_ns: environment.start_ns,
        requests_one_in: one_in,
        waits_one_in: one_in,
        calls: true,
        call_times: true,
        resting: false,
    }];
    let mut kept = Batch { parts: Vec::new(), ..Batch::default() };
    for (request, parts) in batch.requests_with_parts() {
        if let Some(weight) = weight(request.start_ns, request.cpu, request.q2c_ns, one_in) {
            kept.requests.push(Request { weight: Some(weight), ..request.clone() });
            kept.parts.extend_from_slice(parts);
        }
    }
    let Batch { waits, mut wait_requests, .. } = batch;
    for mut wait in waits {
        let chosen = weight(wait.start_ns, wait.tid, Some(wait.duration_ns), one_in);
        if let Some(weight) = chosen {
            wait.weight = Some(weight);
            kept.waits.push(wait);
        }
    }
    let ids: HashSet<u64> = kept.waits.iter().map(|wait| wait.wait_id).collect();
    wait_requests.retain(|wait_request| ids.contains(&wait_request.wait_id));
    Batch {
        requests: kept.requests,
        parts: kept.parts,
        waits: kept.waits,
        wait_requests,
        wait_chains: batch.wait_chains,
        files: batch.files,
        opens: batch.opens,
        processes: batch.processes,
        stacks: batch.stacks,
        samples: batch.samples,
        events: batch.events,
    }
}

/// Whether the window of a time and a CPU is recorded.
fn is_recorded(time_ns: u64, cpu: u32, one_in: u32) -> bool {
    let jiffy = time_ns / WINDOW_NS;
    (0..one_in.ilog2()).all(|round| {
        let pair = (jiffy >> (round + 1)).wrapping_mul(4096).wrapping_add(u64::from(cpu));
        let hash = pair.wrapping_add(u64::from(round) << 58).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        ((jiffy >> round) ^ (hash >> 63)) & 1 == 0
    })
}

/// The weight with which a row is recorded, if it is.
fn weight(time_ns: u64, cpu: u32, took_ns: Option<u64>, one_in: u32) -> Option<u32> {
    match took_ns.is_none_or(|took| took >= SLOW_NS) {
        true => Some(1),
        false => is_recorded(time_ns, cpu, one_in).then_some(one_in),
    }
}

fn counted(requests: &[Request]) -> Vec<ExactCount> {
    let mut counts: BTreeMap<(u32, u32, &str), ExactCount> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.status != Status::InFlight) {
        let operation = request.operation.word();
        let count = counts.entry((request.major, request.minor, operation)).or_default();
        (count.major, count.minor) = (request.major, request.minor);
        operation.clone_into(&mut count.operation);
        let [q2g_ns, ..] = request.stages_ns();
        let latency_ns = request.q2c_ns.map(|whole| whole.saturating_sub(q2g_ns));
        count.add(&ExactCount {
            requests: 1,
            bytes: request.bytes,
            errors: Some(u64::from(request.error.is_some())),
            timed: u64::from(latency_ns.is_some()),
            latency_ns: latency_ns.unwrap_or(0),
            ..ExactCount::default()
        });
        count.errors = Some(count.errors.unwrap_or(0) + u64::from(request.error.is_some()));
    }
    counts.into_values().collect()
}
