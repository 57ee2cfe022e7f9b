//! What is read again and again does not fit in memory.

use super::*;
use crate::analysis::patterns::DevicePatterns;
use crate::model::WaitClass;

/// The share of watched pages that had been read before in the same watch. Chosen: a set that fits is
/// read once, so that any third is far too many.
const AGAIN: f64 = 0.3;
/// Watched pages (of each 64 KiB one) below which there is nothing to judge: 16 MiB.
const LEAST_PAGES: u64 = 256;

rule!(
    "page-cache-thrash",
    "files that do not fit in the page cache",
    "The files that a program works with are larger than the memory that it or its cgroup may use. \
     The kernel drops pages that are needed again soon, and reads them again: the same places of the \
     same files, over and over.",
    "Pages that are read once, however many: that is a load larger than memory, not thrashing.",
    needs: [Waits],
    symptoms: ["serial-reads", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let again = |it: &DevicePatterns| it.access.pages_again;
    let Some(patterns) = facts.summary().patterns.devices.iter().max_by_key(|it| again(it)) else {
        return Ok(Verdict::Clear);
    };
    let access = &patterns.access;
    let share = access.pages_again as f64 / access.watched_pages.max(1) as f64;
    let cached = [WaitClass::PageRead, WaitClass::PageFault];
    let waited = facts.waits(|group| cached.contains(&group.class));
    if access.watched_pages < LEAST_PAGES || share < AGAIN || waited.time_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let subject = Subject { device: Some(patterns.device.clone()), ..waited.subject() };
    let sentence = format!(
        "the files of {} do not fit in its memory: {} of what it reads from {} it had read before",
        words::who(&subject),
        words::percent(share),
        patterns.device,
    );
    let name = &patterns.device;
    Ok(Finding::of_blocked(facts, (waited.time_ns as f64 * share) as u64, sentence)
        .about(subject)
        .shown("pages read that had been read before", share * 100.0, "%", "iowhy cache")
        .shown("waits for pages of files", waited.time_ns as f64, "ns", "iowhy waits")
        .shown("read from the device", facts::read_per_s(facts, name), "bytes/s", format!("iowhy stat -d {name}"))
        .fix("more memory for it (memory.max or memory.limit_in_bytes of its cgroup), or a smaller working set; keep scans out of its cache (POSIX_FADV_DONTNEED)")
        .check("with twice the memory the reads stop; if they go on, they are of new data")
        .into())
}
