//! Writers are slowed down because too many pages are dirty.

use super::*;
use crate::model::WaitClass;

rule!(
    "dirty-throttle",
    "too many dirty pages",
    "A buffered write only changes memory, until the dirty pages (changed, and not yet on disk) reach \
     the limit (vm.dirty_ratio, vm.dirty_bytes, or the cgroup's share). Then balance_dirty_pages puts \
     every writer to sleep until the device has caught up, in proportion to how much it writes. Programs \
     that write little but on the same device or cgroup sleep with them.",
    "Writers that wait in fsync instead: they chose to wait for the device.",
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::DirtyThrottle);
    if waited.class_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let subject = waited.subject();
    let sentence = format!(
        "{} writes faster than the device takes it: the limit of dirty pages puts it to sleep",
        words::who(&subject),
    );
    let settings = &facts.summary().environment.settings_start;
    let setting = |name: &str| settings.get(name).map_or("?", String::as_str).to_owned();
    Ok(Finding::of_blocked(facts, waited.class_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        // Every bulk writer is held to the speed of its device.
        .at_most(Severity::Warning)
        .shown("sleep for the limit", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .shown("how often", waited.waits as f64 / facts.seconds(), "1/s", "iowhy cache")
        .fix(format!(
            "write less or more slowly; a cgroup with more memory (version 2); higher limits only where the device is \
             fast enough for them, since syncs then wait for more: `sysctl vm.dirty_bytes=N`, of the whole machine \
             (now vm.dirty_ratio {}, vm.dirty_bytes {}; the one that is 0 does not count)",
            setting("vm/dirty_ratio"),
            setting("vm/dirty_bytes"),
        ))
        .check("`iowhy cache 1`: dirty pages stay near the limit while it happens; far below it, it is the limit of its cgroup (file_dirty in memory.stat) or something else")
        .into())
}
