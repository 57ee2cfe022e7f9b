//! What looks guilty and is not: who does much I/O that nobody waits for.

use super::facts::Facts;
use super::finding::Finding;
use super::words;

/// Whose share of the bytes or requests a person would suspect: a third.
const SUSPICIOUS: f64 = 0.33;
/// What explains less than this share of the waits is innocent.
const INNOCENT: f64 = 0.02;
/// Sentences at most.
const MOST: usize = 3;

/// Sentences about them; none where nothing was found, since then nobody is suspected.
pub(super) fn red_herrings(facts: &Facts<'_>, findings: &[Finding]) -> Vec<String> {
    let Some(first) = findings.first() else { return Vec::new() };
    let is_guilty = |device: &str| {
        let worst = findings.iter().filter(|it| it.severity == first.severity);
        worst.map(|it| it.subject.device.as_deref()).any(|it| it == Some(device))
    };
    let mut sentences: Vec<String> = Vec::new();
    for device in facts.devices() {
        if is_guilty(&device.device) || sentences.len() == MOST {
            continue;
        }
        let waited = facts.waits(|group| group.device.as_deref() == Some(&device.device));
        let share = waited.time_ns as f64 / facts.blocked_ns().max(1) as f64;
        let requests: u64 = device.directions.0.iter().map(|it| it.requests).sum();
        let of_all = requests as f64 / facts.summary().watch.requests.max(1) as f64;
        if share >= INNOCENT || facts.blocked_ns() == 0 {
            continue;
        }
        let Some(owner) = device.processes.first() else { continue };
        let name = words::process(&owner.subject.process, owner.subject.pid, None);
        if let Some(burst) = facts.burst(&device.device) {
            sentences.push(format!(
                "{} does bursts of I/O on {} every {}; they explain {} of the waits",
                words::process(&burst.process, burst.pid, None),
                device.device,
                words::time(burst.period_ns as f64),
                words::percent(share),
            ));
        } else if of_all >= SUSPICIOUS {
            sentences.push(format!(
                "{name} makes {} of all requests, on {}; they explain {} of the waits",
                words::percent(of_all),
                device.device,
                words::percent(share),
            ));
        }
    }
    sentences
}
