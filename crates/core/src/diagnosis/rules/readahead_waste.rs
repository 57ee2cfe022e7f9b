//! Random reads of a mapped file drag whole read-ahead windows along.

use super::*;
use crate::analysis::patterns::FilePattern;
use crate::analysis::summary::DeviceSummary;
use crate::model::{Origin, WaitClass};

/// How many bytes must be read for each byte that a fault wants. With the default window of 128 KiB a
/// random fault of one page reads 32 times that; a window of 16 KiB is harmless.
const OVERREAD: f64 = 8.0;
/// Windows that go on where their file was last read: above it, the window is used. Chosen: a scan of
/// a mapped file is far above, random faults far below.
const SEQUENTIAL: f64 = 0.4;
/// The share of the pages read that had been read before, from which on useful ones were pushed out.
/// Chosen: what fits in memory is read once.
const AGAIN: f64 = 0.1;
/// Faults below which there is nothing to judge.
const LEAST_FAULTS: u64 = 50;
const PAGE: f64 = 4096.0;

rule!(
    "readahead-waste",
    "read-ahead that nobody uses",
    "A program touches a mapped file here and there. For each page that is not in memory the kernel \
     reads a whole window around it (read_ahead_kb), since it cannot know that the neighbours are not \
     wanted. The disk reads many times what the program uses, the useless pages push useful ones out \
     of memory, and those have to be read again. It also hits programs that only write: a page of a \
     mapped file must be read before a part of it can be changed.",
    "A sequential scan, where the window is used; or enough memory, so that each page is read once. How \
     much is gained depends on the device: where it takes as long for a page as for a window, only the \
     pages that the windows pushed out of memory.",
    needs: [Waits],
    symptoms: [
        "page-cache-thrash", "serial-reads", "provider-cap", "bulk-scan", "cpu-starvation",
        "noisy-neighbour",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::PageFault);
    let faults = waited.waits;
    if faults < LEAST_FAULTS {
        return Ok(Verdict::Clear);
    }
    let reads = |device: &DeviceSummary| {
        let [(_, faults, fault_bytes), (_, ahead, ahead_bytes)] =
            [Origin::PageFault, Origin::Readahead].map(|origin| facts::origin_of(device, origin));
        (faults + ahead, fault_bytes + ahead_bytes)
    };
    // Of devices that stand on each other the upper one, which has more of the time, is what a window is of.
    let Some(device) = facts.devices().iter().rev().max_by_key(|device| reads(device).1) else {
        return Ok(Verdict::Clear);
    };
    let (requests, all) = reads(device);
    // A program that reads ahead in other files on the same device wastes nothing of these.
    let of_files = facts.patterns(&device.device).map_or(0, |it| it.access.faulted_bytes);
    let read = if of_files > 0 { of_files } else { all };
    let over = read as f64 / (faults as f64 * PAGE);
    let files = facts.patterns(&device.device).map_or(&[][..], |it| &it.access.files);
    let faulted: Vec<&FilePattern> = files.iter().filter(|file| file.faults > 0).collect();
    if over < OVERREAD || windows_in_order(&faulted, faults, requests) > SEQUENTIAL {
        return Ok(Verdict::Clear);
    }
    Ok(finding(facts, device, &faulted, read, over).into())
}

/// The share of the windows that go on where the one before ended. A window that is larger than the
/// largest request (max_sectors_kb) is read in pieces, of which only the first tells whether it does:
/// requests beyond one for each fault are such pieces. Of very many files only those with the most requests
/// are known; of the faults, and of the `reads` that they made, they have as large a part.
fn windows_in_order(files: &[&FilePattern], faults: u64, reads: u64) -> f64 {
    let sum = |of: fn(&FilePattern) -> u64| files.iter().map(|file| of(file)).sum::<u64>() as f64;
    let (requests, sequential) = (sum(|file| file.requests), sum(|file| file.sequential));
    let faults = faults as f64 * (requests / reads.max(1) as f64).min(1.0);
    let pieces = (requests - faults).max(0.0);
    (sequential - pieces).max(0.0) / requests.min(faults).max(1.0)
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, files: &[&FilePattern], read: u64, over: f64) -> Finding {
    let waited = facts.waits_for(WaitClass::PageFault);
    let name = &device.device;
    let names: Vec<&str> = files.iter().map(|file| file.file.as_str()).collect();
    let pattern = words::pattern(&names);
    let subject = Subject { device: Some(name.clone()), file: pattern.clone(), ..waited.subject() };
    let flags = words::flags(&subject);
    let only_written = files.iter().any(|file| file.written > 0);
    let reads = if only_written { "writes to" } else { "reads here and there in" };
    let sentence = format!(
        "{} {reads} mapped files{}: each touched page drags a read-ahead window along, {:.0} times what it wants",
        words::who(&subject),
        pattern.map(|file| format!(" ({file})")).unwrap_or_default(),
        over,
    );
    let again = facts.pages_again(name);
    let window = facts.setting(device, "queue/read_ahead_kb").unwrap_or("?");
    // A read of the wanted page alone takes its share of the bytes at least.
    let run_queue_ns: u64 = waited.groups.iter().map(|group| group.run_queue_ns).sum();
    let reading_ns = waited.time_ns.saturating_sub(run_queue_ns);
    let wasted_ns = (reading_ns as f64 * (1.0 - 1.0 / over.max(1.0))) as u64;
    Finding::of_blocked(facts, wasted_ns, sentence)
        .about(subject)
        .upper_bound()
        // What is read for the first time may be a cache that warms up, and used a moment later.
        .sure(if again >= AGAIN || only_written { Confidence::Certain } else { Confidence::Likely })
        .shown("read for each byte of a touched page", over, "bytes", format!("iowhy files{flags}"))
        .shown("read from the device", read as f64 / facts.seconds(), "bytes/s", format!("iowhy stat -d {name}"))
        .shown("waits for touched pages", waited.waits as f64 / facts.seconds(), "1/s", "iowhy waits")
        .shown("pages read that had been read before", again * 100.0, "%", "iowhy cache")
        .fix(format!(
            "madvise(MADV_RANDOM) on the mapping; where the program cannot be changed and is past its \
             start, a smaller window: `echo 16 > /sys/block/{name}/queue/read_ahead_kb` (now {window}; \
             btrfs: /sys/class/bdi/btrfs-*/read_ahead_kb), and restart the program, since open files \
             keep the old one; it slows down who reads in order"
        ))
        .check(
            "`grep workingset_refault_file /proc/vmstat` twice: where it stands still, the windows warm \
             the cache: leave them. With a window of 16 KiB the bytes read fall and the rate of faults \
             rises; if not, the window is used",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_windows_are_no_scan_however_many_files_are_known() {
        // Twenty of a hundred files: two windows of each, in five pieces.
        let file = FilePattern { requests: 10, sequential: 8, faults: 10, ..FilePattern::default() };
        let known = vec![&file; 20];
        assert!(windows_in_order(&known, 200, 1000) < 0.01);
        // All of one file that is read in order.
        let scan = FilePattern { requests: 100, sequential: 99, faults: 100, ..FilePattern::default() };
        assert!(windows_in_order(&[&scan], 100, 100) > 0.9);
    }
}
