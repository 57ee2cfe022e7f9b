//! Suspects that are not the cause: processes with much I/O that no thread waits for, and what
//! rules suspect and the data refutes.

use super::facts::Facts;
use super::finding::Finding;
use super::rules;
use super::words;
use iowhy_analysis::summary::DeviceSummary;

/// The least share of the bytes or requests that looks suspicious: a third.
const SUSPICIOUS: f64 = 0.33;
/// The share of the waits below which a process is not the cause.
const INNOCENT: f64 = 0.02;
/// The most sentences.
const MOST: usize = 3;

/// Returns sentences about them; none without findings, since then nothing is suspected.
pub(super) fn red_herrings(facts: &Facts<'_>, findings: &[Finding]) -> Vec<String> {
    let Some(first) = findings.first() else { return Vec::new() };
    let is_guilty = |device: &str| {
        let worst = findings.iter().filter(|finding| finding.severity == first.severity);
        worst.map(|worst| worst.subject.device.as_deref()).any(|blamed| blamed == Some(device))
    };
    let refuted = rules::ALL.iter().map(|rule| (rule.refuted)(facts));
    let mut sentences: Vec<String> = refuted.flatten().collect();
    sentences.truncate(MOST);
    for device in facts.devices() {
        if is_guilty(&device.device) || sentences.len() == MOST {
            continue;
        }
        let waited = facts.waits(|group| group.device.as_deref() == Some(&device.device));
        let share = waited.time_ns as f64 / facts.blocked_ns().max(1) as f64;
        let requests: u64 = device
            .directions
            .0
            .iter()
            .map(|direction| direction.requests)
            .fold(0, u64::saturating_add);
        let of_all = requests as f64 / facts.summary().watch.requests.max(1) as f64;
        if share >= INNOCENT || facts.blocked_ns() == 0 {
            continue;
        }
        let Some(owner) = device.processes.first() else { continue };
        // Who is named by a finding is no other suspect.
        let is_named = findings.iter().any(|it| it.sentence.contains(&owner.subject.process));
        if is_named || is_for_others(facts, device, &owner.subject.process) {
            continue;
        }
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
                "{name} submits {} of all requests, on {}; they explain {} of the waits",
                words::percent(of_all),
                device.device,
                words::percent(share),
            ));
        }
    }
    sentences
}

/// Whether a device's I/O is on behalf of others: iowhy's own reads of programs, a kernel worker,
/// or a lower device, whose requests serve those above.
fn is_for_others(facts: &Facts<'_>, device: &DeviceSummary, process: &str) -> bool {
    let is_below = |upper: &DeviceSummary| upper.below.contains(&device.device);
    process == "iowhy" || process.starts_with("kworker/") || facts.devices().iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::Script;

    /// The sentences about a process that reads much from a disk for which no thread waits.
    fn sentences(process: &str) -> Vec<String> {
        let mut script = Script::new(10);
        for index in 0..500_i64 {
            let slow = script.read("sda", 4096).by(7, "db").at(index * 19_000_000);
            slow.sector(index as u64 * 7919 * 8).direct(500, 500, 18_000_000).add();
            script.read("sdb", 4096).by(8, process).at(index * 19_000_000).direct(0, 0, 9000).add();
        }
        script.wait((7, "db"), WaitClass::PageRead, 9_000_000_000, 9_000_000_000, 0);
        let sda = script.names.intern("sda");
        script.batch.waits[0].device = Some(sda);
        diagnose(&script.summary()).red_herrings
    }

    #[test]
    fn who_works_for_others_is_no_suspect() {
        assert_eq!(sentences("cadvisor").len(), 1);
        assert_eq!(sentences("iowhy"), [] as [String; 0]);
        assert_eq!(sentences("kworker/u8:3"), [] as [String; 0]);
    }
}
