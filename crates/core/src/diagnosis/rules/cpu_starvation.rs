//! What a thread waited for is there, but it does not get a CPU.

use super::*;

/// The share of the blocked time. Chosen.
const SHARE: f64 = 0.2;

rule!(
    "cpu-starvation",
    "a CPU that is not free after the I/O",
    "The device has answered and the thread is woken, but other work has its CPU: a real-time task, a \
     limit of its cgroup (cpu.max), a hypervisor. The program measures slow I/O, although the requests \
     were fast.",
    "Delays of microseconds, which are the price of a switch.",
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let mut waited = facts.waits(|group| group.starved_ns > 0);
    waited.groups.sort_by_key(|group| std::cmp::Reverse(group.starved_ns));
    let delayed: u64 = waited.groups.iter().map(|group| group.starved_ns).sum();
    let share = delayed as f64 / facts.blocked_ns().max(1) as f64;
    let Some(longest) = waited.groups.first() else { return Ok(Verdict::Clear) };
    if share < SHARE {
        return Ok(Verdict::Clear);
    }
    let its = longest.starved_ns as f64 / longest.time_ns.max(1) as f64;
    let subject = Subject { device: None, file: None, ..waited.subject() };
    let sentence = format!(
        "{} gets no CPU when its I/O is done: {} of the time of its waits",
        words::who(&subject),
        words::percent(its),
    );
    Ok(Finding::of_blocked(facts, delayed, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("awake and without a CPU for 3 ms and more", delayed as f64, "ns", "iowhy waits")
        .shown("of the time of its waits", its * 100.0, "%", "iowhy waits")
        .fix("find what has the CPU (top, perf top): real-time tasks, cpu.max of its cgroup, steal time; give it a CPU of its own")
        .check("on an idle CPU (taskset) the delay is gone; if not, the device wakes it late")
        .into())
}
