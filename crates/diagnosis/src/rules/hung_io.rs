//! Requests that never complete.

use super::*;
use crate::facts::thresholds::WARNING_SHARE;
use iowhy_analysis::summary::patterns::Slow;
use iowhy_model::Losses;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::figures::plural;

/// The least time without a completion. Garbage collection of flash takes less; a rotating disk
/// that spins up takes 5 to 15 s, and is only reported as likely; drivers give up after 30 s.
const HUNG_NS: u64 = 2_000_000_000;
/// The longest spin-up time of a rotating disk.
const SPIN_UP_NS: u64 = 15_000_000_000;
/// A hang that lasts: the shares and means of other rules then show what it kept waiting. No
/// healthy device takes so long but a rotating disk that spins up. Chosen.
const LASTS_NS: u64 = 10_000_000_000;
/// The same if no read or write is in flight: discards, flushes, secure erase and zone management
/// of healthy devices take many seconds. SCSI's and NVMe's own timeout for them.
const HUNG_OTHER_NS: u64 = 30_000_000_000;

rule!(
    "hung-io",
    "requests hung at the device",
    "The device, its path or its driver has stopped responding: requests are in flight and none \
     completes. Every process that needs one of them waits, usually in state D, where it cannot be \
     killed. Rates and averages show nothing, since they count completed requests. The kernel \
     gives up after its timeout (30 s for SCSI and NVMe; virtio disks have none), resets the \
     device and retries.",
    "The requests complete after the watch: then the device was very slow, not hung.",
    place: Fault,
    least: LeastData::EVENT,
    picture: Heat,
    incident: InFlight,
);

/// The number of other devices that the sentence names.
const NAMED: usize = 3;

fn judge(facts: &Facts<'_>) -> Judged {
    let hung = hung(facts);
    let Some((device, others)) = hung.split_first() else {
        return Ok(before(facts).map_or(RuleVerdict::Clear, RuleVerdict::from));
    };
    let stalled_ns = device.stalled_ns.unwrap_or(0);
    let open = in_flight(device);
    let waited = facts.waits(|group| group.device.as_deref() == Some(&device.device));
    let share = stalled_ns as f64 / facts.duration_ns().max(1) as f64;
    let of_blocked = waited.time_ns as f64 / facts.blocked_ns().max(1) as f64;
    let name = &device.device;
    let is_suspended =
        device.health_end.as_ref().and_then(|health_end| health_end.suspended) == Some(true);
    let sentence = format!(
        "{name} has completed no request for {}: {} in flight{}{}",
        words::time(stalled_ns as f64),
        words::count(open),
        if is_suspended { "; it is suspended (`dmsetup info`)" } else { "" },
        also(others),
    );
    let mut subject = waited.subject();
    subject.device = Some(name.clone());
    let spins = facts.rotates(device) && stalled_ns < SPIN_UP_NS;
    let sure = match device.overtaken_requests {
        0 if spins => Confidence::Likely,
        0 => Confidence::Certain,
        _ => Confidence::Possible,
    };
    // The same requests may be those whose ends are lost.
    let are_listed = facts.summary().losses.items.iter().any(|it| it.place == Losses::UNFINISHED);
    let sure = if are_listed { sure.min(Confidence::Likely) } else { sure };
    let age = device.oldest_open_ns.unwrap_or(stalled_ns);
    let is_sure = sure > Confidence::Possible;
    let is_stall = is_sure && lasts(facts, device, age.max(stalled_ns));
    let threads = share * open as f64;
    let finding =
        Finding::of_share(ImpactOf::BlockedTime, share.max(of_blocked), threads, sentence);
    let finding = if is_stall { finding.of_stall() } else { finding };
    Ok(finding
        .about(subject)
        .sure(sure)
        .shown("time without a completion", stalled_ns as f64, "ns", format!("iowhy -d {name}"))
        .also("age of the oldest request", age as f64, "ns")
        .also("requests in flight", open as f64, "requests")
        .fix(format!(
            "check the path and the device: `dmesg`, `cat /sys/block/{name}/device/state`, \
             `multipath -ll`, `dmsetup info` (is it suspended?), the provider's volume status. \
             Blocked processes cannot be killed until the requests end"
        ))
        .check(format!(
            "`cat /sys/block/{name}/stat` twice: if the first (reads) or fifth number (writes) \
             grows, it is slow, not hung"
        ))
        .into())
}

/// Whether the device did nothing for longer than any healthy one does.
fn lasts(facts: &Facts<'_>, device: &DeviceSummary, stalled_ns: u64) -> bool {
    let spins = facts.rotates(device);
    stalled_ns >= if spins { SPIN_UP_NS } else { LASTS_NS }
}

/// Returns the hung devices, sorted by the time without a completion, then by the age of the oldest
/// request, longest first.
fn hung<'a>(facts: &Facts<'a>) -> Vec<&'a DeviceSummary> {
    let data = |it: &DeviceSummary| {
        let open = |at| facts::of(it, at).open_requests;
        let all: u64 =
            it.directions.0.iter().map(|it| it.open_requests).fold(0, u64::saturating_add);
        open(Direction::Read) + open(Direction::Write) > 0 || all == 0
    };
    let limit = |device: &DeviceSummary| if data(device) { HUNG_NS } else { HUNG_OTHER_NS };
    let is_hung =
        |device: &&DeviceSummary| device.stalled_ns.is_some_and(|stalled| stalled >= limit(device));
    let mut hung: Vec<&DeviceSummary> = facts.devices().iter().filter(is_hung).collect();
    hung.compact_sort_by_key(|hung| std::cmp::Reverse((hung.stalled_ns, hung.oldest_open_ns)));
    hung
}

/// A hang that ended within the watch: nothing completed for long, then requests from before did.
fn before(facts: &Facts<'_>) -> Option<Finding> {
    let found = facts.devices().iter().filter_map(|device| Some((device, gap(facts, device)?)));
    let (device, Gap { from_ns, gap_ns, in_flight_ns }) = found.max_by_key(|(_, it)| it.gap_ns)?;
    let name = &device.device;
    let sentence = format!(
        "{name} completed no request for {} from {} on; then it recovered",
        words::time(gap_ns as f64),
        words::moment(facts.summary(), from_ns),
    );
    let waited = facts.waits(|group| group.device.as_deref() == Some(name));
    let mut subject = waited.subject();
    subject.device = Some(name.clone());
    let share = gap_ns as f64 / facts.duration_ns().max(1) as f64;
    let longest = waited.longest_ns().max(gap_ns);
    let logged = health::messages(device, &["reset", "timeout"]).len() as u64;
    let events = logged.max(health::timeouts(device));
    let sure = if events > 0 { Confidence::Certain } else { Confidence::Likely };
    let finding = Finding::of_share(ImpactOf::DeviceTime, share, share, sentence);
    // In a long watch it is one event, and what goes on all the time may matter more.
    let is_stall = lasts(facts, device, in_flight_ns) && share >= WARNING_SHARE;
    let finding = if is_stall { finding.of_stall() } else { finding };
    Some(
        finding
            .about(subject)
            .sure(sure)
            .shown(
                "time without a completion",
                gap_ns as f64,
                "ns",
                format!("iowhy stat -d {name} 1"),
            )
            .shown("resets and timeouts that were logged", events as f64, "events", "dmesg")
            .shown("longest wait", longest as f64, "ns", "iowhy waits")
            .fix(format!(
                "check the path and the device: `dmesg` (resets, timeouts), `cat \
                 /sys/block/{name}/device/iotmo_cnt` and ioerr_cnt (SCSI), the device's health log \
                 (`smartctl -a`, `nvme smart-log`), the provider's volume status"
            ))
            .check(
                "a rotating disk that was in standby takes 5 to 15 s to spin up, and shingled \
                 drives (SMR) reorganize data for as long: watch again while it is in use",
            ),
    )
}

/// A time without a completion, nanoseconds.
#[derive(Clone, Copy)]
struct Gap {
    from_ns: u64,
    /// Its length, in whole bins of the timeline: the real one may be two bins longer.
    gap_ns: u64,
    /// The time that a request which spans it was at the device, nanoseconds.
    in_flight_ns: u64,
}

/// Returns the longest gap of at least [`HUNG_NS`] without a completion that a read or a write
/// spans.
fn gap(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Gap> {
    let patterns = facts.patterns(&device.device)?;
    let timeline = &patterns.timeline;
    let mut worst: Option<Gap> = None;
    let mut from = 0;
    for (at, bin) in timeline.bins.iter().enumerate() {
        if bin.requests == 0 {
            continue;
        }
        let gap_ns = (at - from) as u64 * timeline.bin_ns;
        let from_ns = from as u64 * timeline.bin_ns;
        let until_ns = (at + 1) as u64 * timeline.bin_ns;
        // What completes now was in flight all the time: otherwise nothing was submitted.
        let waited = |slow: &Slow| {
            slow.ended_ns >= from_ns + gap_ns && slow.ended_ns < until_ns && slow.d2c_ns >= gap_ns
        };
        let spanning = patterns.slowest.iter().filter(|slow| waited(slow));
        let in_flight_ns = spanning.map(|slow| slow.d2c_ns).max().filter(|_| gap_ns >= HUNG_NS);
        if let Some(in_flight_ns) = in_flight_ns
            && worst.is_none_or(|worst| gap_ns > worst.gap_ns)
        {
            worst = Some(Gap { from_ns, gap_ns, in_flight_ns });
        }
        from = at + 1;
    }
    worst
}

fn in_flight(device: &DeviceSummary) -> u64 {
    let open = device.open_requests.saturating_sub(device.overtaken_requests);
    open.max(device.kernel_in_flight_end.unwrap_or(0))
}

/// `; nor has sdd (32 in flight)`, with a count of the devices that are not named.
fn also(others: &[&DeviceSummary]) -> String {
    let of = |device: &&DeviceSummary| {
        format!("{} ({} in flight)", device.device, words::count(in_flight(device)))
    };
    let mut names: Vec<String> = others.iter().take(NAMED).map(of).collect();
    if others.len() > NAMED {
        names.push(plural((others.len() - NAMED) as u64, "other device"));
    }
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; nor has {only}"),
        Some((last, first)) => format!("; nor have {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Confidence, Losses};
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::Script;
    use iowhy_model::{Status, WaitClass};

    fn finding_for(devices: usize) -> (String, Option<String>) {
        let mut script = Script::new(10);
        for index in 0..devices {
            let begun = -(1 + index as i64) * 1_000_000_000;
            let read = script.read(&format!("sd{index}"), 4096).by(7, "cat").at(begun);
            read.status(Status::InFlight).add();
        }
        let found = diagnose(&script.summary()).findings;
        let found = found.into_iter().find(|it| it.cause == "hung-io").unwrap();
        (found.sentence, found.subject.device)
    }

    #[test]
    fn a_long_discard_is_no_hang() {
        use iowhy_model::Operation;
        for (operation, is_hung) in [(Operation::Write, true), (Operation::Discard, false)] {
            let mut script = Script::new(20);
            let open = script.request("sda", operation).bytes(1 << 31).by(7, "fstrim").at(1);
            open.status(Status::InFlight).add();
            let found = diagnose(&script.summary()).findings;
            assert_eq!(found.iter().any(|it| it.cause == "hung-io"), is_hung, "{operation:?}");
        }
    }

    #[test]
    fn what_cannot_have_completed_in_a_capture_is_a_loss() {
        for (lost, is_hung) in [(0, true), (10, false)] {
            let mut script = Script::new(10);
            script.environment.source = "blktrace".to_owned();
            script.environment.losses.add("unfinished", lost, "requests without an end", true);
            for index in 0..50 {
                let read = script.read("sda", 4096).by(7, "java").at(index * 100_000_000);
                read.status(Status::InFlight).add();
            }
            let found = diagnose(&script.summary()).findings;
            assert_eq!(found.iter().any(|it| it.cause == "hung-io"), is_hung, "{lost} lost");
        }
    }

    #[test]
    fn requests_that_are_listed_as_lost_are_no_certain_hang() {
        for (lost, sure) in [(0, Confidence::Certain), (1, Confidence::Likely)] {
            let mut script = Script::new(20);
            let (unfinished, meaning) = (Losses::UNFINISHED, "requests without an end");
            script.environment.losses.add(unfinished, lost, meaning, true);
            for index in 0..200 {
                let read = script.read("sda", 4096).by(7, "java").at(index * 10_000_000);
                read.direct(500, 500, 1_000_000).add();
            }
            let open = script.read("sda", 4096).by(7, "java").at(2_100_000_000);
            open.status(Status::InFlight).add();
            let found = diagnose(&script.summary()).findings;
            let found = found.into_iter().find(|it| it.cause == "hung-io").unwrap();
            assert_eq!(found.confidence, sure, "{lost} lost");
        }
    }

    /// A read every 100 ms; one of them takes `longest_ms`, and those after it wait for it, or not.
    fn stalls(longest_ms: u64, others_wait: bool) -> Option<String> {
        const MS: u64 = 1_000_000;
        let mut script = Script::new(10);
        for index in 0..100_u64 {
            let at = index * 100;
            let since = at.saturating_sub(3000);
            let takes = match at {
                ..3000 => 1,
                3000 => longest_ms,
                _ if others_wait && since < longest_ms => longest_ms - since,
                _ => 1,
            };
            let read = script.read("sda", 4096).by(7, "db").at((at * MS) as i64);
            read.sector(index * 7919 * 8).direct(500, 500, takes * MS).add();
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "hung-io").map(|it| it.sentence)
    }

    #[test]
    fn a_hang_that_ends_is_one_too() {
        let sentence = stalls(3000, true).unwrap();
        assert!(
            sentence.starts_with("sda completed no request for 3.00 s from 3.00 s after"),
            "{sentence}"
        );
        // One slow request among others is the tail, and so is a second and a half.
        assert_eq!(stalls(3000, false), None);
        assert_eq!(stalls(1500, true), None);
    }

    /// The causes found, in their order, while a log is synced fifty times per second for forty
    /// seconds and its device hangs for `hang_ms` of them.
    fn beside_syncs(hang_ms: u64, rotational: &str) -> Vec<&'static str> {
        const MS: u64 = 1_000_000;
        let mut script = Script::new(40);
        script.device("sda", &[("queue/rotational", rotational)]);
        let mut at = 0;
        while at < 40_000 {
            let takes = if at == 10_000 { hang_ms } else { 18 };
            let write = script.write("sda", 4096).by(7, "etcd").at((at * MS) as i64);
            write.sector(at * 8).direct(500, 500, takes * MS - MS).add();
            script.wait((7, "etcd"), WaitClass::Fsync, takes * MS, takes * MS - MS, 0);
            script.waited_on("sda", "/data/member/wal/0.wal", 75);
            at += takes.next_multiple_of(20);
        }
        diagnose(&script.summary()).findings.iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn a_hang_that_lasts_comes_before_what_it_kept_waiting() {
        assert_eq!(beside_syncs(13_000, "0")[..2], ["hung-io", "fsync-heavy"]);
        // A rotating disk may have spun up.
        assert_eq!(beside_syncs(13_000, "1")[0], "fsync-heavy");
        assert_eq!(beside_syncs(17_000, "1")[0], "hung-io");
        // The syncs take most of the time without it, too.
        let short = beside_syncs(4_000, "0");
        assert!(short[0] == "fsync-heavy" && short.contains(&"hung-io"), "{short:?}");
    }

    #[test]
    fn a_pause_of_the_load_is_no_hang() {
        let mut script = Script::new(10);
        for at in [0_i64, 1000, 6000, 7000] {
            script.read("sda", 4096).at(at * 1_000_000).direct(0, 0, 2_000_000).add();
        }
        let found = diagnose(&script.summary()).findings;
        assert!(!found.iter().any(|it| it.cause == "hung-io"), "{found:?}");
    }

    #[test]
    fn every_hung_device_is_named() {
        let (sentence, device) = finding_for(1);
        assert_eq!(sentence, "sd0 has completed no request for 10.0 s: 1 in flight");
        assert_eq!(device.as_deref(), Some("sd0"));
        let (sentence, device) = finding_for(3);
        // None completed a request during the entire watch: the oldest request decides.
        assert_eq!(device.as_deref(), Some("sd2"));
        assert!(
            sentence.ends_with("; nor have sd1 (1 in flight) and sd0 (1 in flight)"),
            "{sentence}"
        );
        let (sentence, _) = finding_for(6);
        assert!(
            sentence.ends_with("sd3 (1 in flight), sd2 (1 in flight) and 2 other devices"),
            "{sentence}"
        );
    }
}
