//! Requests that do not come back.

use super::*;

/// For how long nothing must have completed: slow flushes and garbage collection of healthy devices
/// stay below; drivers give up after 30 s.
const HUNG_NS: u64 = 2_000_000_000;

rule!(
    "hung-io",
    "requests that do not complete",
    "The device, its path or its driver has stopped answering: requests are in flight and none ends. \
     Everything that needs one of them waits, usually in state D where it cannot be killed. Rates and \
     averages show nothing, since they count what completed. The kernel gives up after its time limit \
     (30 s for SCSI and NVMe), resets the device, and tries again.",
    "A completion after the watch: then it was very slow, not hung.",
);

fn judge(facts: &Facts<'_>) -> Judged {
    let is_hung = |stalled: u64| stalled >= HUNG_NS;
    let hung = facts.devices().iter().filter(|it| it.stalled_ns.is_some_and(is_hung));
    let Some(device) = hung.max_by_key(|it| it.stalled_ns) else { return Ok(Verdict::Clear) };
    let stalled_ns = device.stalled_ns.unwrap_or(0);
    let open = device.open_requests.saturating_sub(device.overtaken_requests);
    let open = open.max(device.kernel_in_flight_end.unwrap_or(0));
    let waited = facts.waits(|group| group.device.as_deref() == Some(&device.device));
    let share = stalled_ns as f64 / facts.duration_ns().max(1) as f64;
    let of_blocked = waited.time_ns as f64 / facts.blocked_ns().max(1) as f64;
    let name = &device.device;
    let sentence = format!(
        "{name} has answered no request for {}: {} in flight",
        words::time(stalled_ns as f64),
        words::count(open),
    );
    let mut subject = waited.subject();
    subject.device = Some(name.clone());
    let sure = if device.overtaken_requests > 0 { Confidence::Possible } else { Confidence::Certain };
    let age = device.oldest_open_ns.unwrap_or(stalled_ns);
    Ok(Finding::of_share(ImpactOf::BlockedTime, share.max(of_blocked), share * open as f64, sentence)
        .about(subject)
        .sure(sure)
        .shown("no completion for", stalled_ns as f64, "ns", format!("iowhy -d {name}"))
        .shown("age of the oldest request", age as f64, "ns", format!("iowhy -d {name}"))
        .shown("requests in flight", open as f64, "requests", format!("iowhy -d {name}"))
        .fix("look at the path and the device: dmesg, multipath -ll, nvme list, the provider's volume status; \
              what waits cannot be killed until the requests end or time out")
        .check(format!("cat /sys/block/{name}/inflight twice: numbers that move are a slow device, not a hung one"))
        .into())
}
