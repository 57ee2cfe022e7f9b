//! Random reads of a mapped file read whole readahead windows.

use super::*;
use facts::PAGE;
use facts::thresholds::READ_AGAIN;
use iowhy_analysis::summary::patterns::FilePattern;

/// The least bytes read per byte that a fault needs. With the default window of 128 KiB a random
/// fault of one page reads 32 times as much; a window of 16 KiB is harmless.
const OVERREAD: f64 = 8.0;
/// The share of windows that continue where their file was last read, above which the windows are
/// used. Chosen: a scan of a mapped file is far above, random faults far below.
const SEQUENTIAL: f64 = 0.4;
/// The least number of faults to judge.
const LEAST_FAULTS: u64 = 50;
/// The least window that somebody set, KiB: eight times the kernel's default.
const LARGE_KIB: f64 = 1024.0;

rule!(
    "readahead-waste",
    "wasted readahead on mapped files",
    "A program accesses a mapped file at random. For each page that is not in memory the kernel \
     reads a whole window around it (read_ahead_kb), since it cannot know that the neighbours are \
     not needed. The disk reads many times what the program uses, the useless pages evict useful \
     ones, and those are read again. This also affects programs that only write: a page of a \
     mapped file must be read before a part of it is changed.",
    "A sequential scan uses the windows; or memory is large enough to read each page once. The \
     gain depends on the device: if a page takes as long as a window, it is only the pages that \
     the windows evicted.",
    place: Setting,
    needs: [Waits],
    trial: "read_ahead_kb=16",
    bound: [
        "of the waits for touched pages, without those for a CPU: the share of bytes that nobody \
         used",
        "a small read may take as long as a large one",
    ],
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::PageFault);
    let faults = waited.waits;
    clear_if(faults < LEAST_FAULTS)?;
    let reads = |device: &DeviceSummary| {
        let [(_, faults, fault_bytes), (_, ahead, ahead_bytes)] =
            [Origin::PageFault, Origin::Readahead].map(|origin| facts::origin_of(device, origin));
        (faults + ahead, fault_bytes + ahead_bytes)
    };
    // Readahead of other files, on this device or another, is not part of the waste.
    let of_files =
        |it: &DeviceSummary| facts.patterns(&it.device).map_or(0, |it| it.access.faulted_bytes);
    let knows_files = facts.devices().iter().any(|device| of_files(device) > 0);
    let bytes =
        |device: &DeviceSummary| if knows_files { of_files(device) } else { reads(device).1 };
    // Of stacked devices the upper one, with more of the time, is the one that windows apply to.
    let device = facts.devices().iter().rev().max_by_key(|device| bytes(device)).ok_or(Clear)?;
    let (requests, read) = (reads(device).0, bytes(device));
    let over = read as f64 / (faults as f64 * PAGE);
    let files = facts.patterns(&device.device).map_or(&[][..], |it| &it.access.files);
    let faulted: Vec<&FilePattern> = files.iter().filter(|file| file.faults > 0).collect();
    // A fault within a call, as of a write from a mapped file, looks like readahead of the call.
    let ahead: Vec<&FilePattern> = files.iter().filter(|file| file.cached > 0).collect();
    let of_windows = if faulted.is_empty() { &ahead } else { &faulted };
    clear_if(over < OVERREAD || windows_in_order(of_windows, faults, requests) > SEQUENTIAL)?;
    Ok(finding(facts, device, &faulted, read, over).into())
}

/// Returns the share of windows that continue where the one before ended. A window larger than the
/// largest request (max_sectors_kb) is read in pieces, and only the first shows whether it does:
/// requests beyond one per fault are such pieces. Of very many files only those with the most
/// requests are known; they are assumed to have the same share of the faults as of the `reads`.
fn windows_in_order(files: &[&FilePattern], faults: u64, reads: u64) -> f64 {
    let sum = |of: fn(&FilePattern) -> u64| {
        files.iter().map(|file| of(file)).fold(0_u64, u64::saturating_add) as f64
    };
    let (requests, sequential) = (sum(|file| file.requests), sum(|file| file.sequential));
    let faults = faults as f64 * (requests / reads.max(1) as f64).min(1.0);
    let pieces = (requests - faults).max(0.0);
    (sequential - pieces).max(0.0) / requests.min(faults).max(1.0)
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    files: &[&FilePattern],
    read: u64,
    over: f64,
) -> Finding {
    let waited = facts.waits_for(WaitClass::PageFault);
    let name = &device.device;
    let names: Vec<&str> = files.iter().map(|file| file.file.as_str()).collect();
    let pattern = words::pattern(&names);
    let subject = Subject { device: Some(name.clone()), file: pattern.clone(), ..waited.subject() };
    let flags = words::flags(&subject);
    let again = facts.pages_again(name);
    let is_again = again >= READ_AGAIN;
    let window = facts.latest_number(device, "queue/read_ahead_kb");
    let is_large = window.is_some_and(|kib| kib >= LARGE_KIB);
    let only_written = files.iter().any(|file| file.written > 0);
    let reads = if only_written { "writes to" } else { "reads at random from" };
    let sentence = format!(
        "{} {reads} mapped files{}: faults read {over:.0} pages per page needed, {}",
        words::who(&subject),
        pattern.map(|file| format!(" ({file})")).unwrap_or_default(),
        why(is_again.then_some(again), only_written, window.filter(|_| is_large)),
    );
    let window = window.map_or_else(|| "?".to_owned(), |kib| format!("{kib:.0}"));
    let is_wasted = is_again || only_written || is_large;
    // A read of the needed page alone takes at least its share of the bytes.
    let run_queue_ns: u64 =
        waited.groups.iter().map(|group| group.run_queue_ns).fold(0, u64::saturating_add);
    let reading_ns = waited.time_ns.saturating_sub(run_queue_ns);
    let wasted_ns = (reading_ns as f64 * (1.0 - 1.0 / over.max(1.0))) as u64;
    Finding::of_blocked(facts, wasted_ns, sentence)
        .about(subject)
        .upper_bound()
        // First reads may warm up a cache, and be used a moment later.
        .sure(match is_again || only_written {
            true => Confidence::Certain,
            false if is_large => Confidence::Likely,
            false => Confidence::Possible,
        })
        .at_most(if is_wasted { Severity::Critical } else { Severity::Warning })
        .shown(
            "bytes read per byte of a faulted page",
            over,
            "bytes",
            format!("iowhy files{flags}"),
        )
        .shown(
            "read throughput of the device",
            read as f64 / facts.seconds(),
            "bytes/s",
            format!("iowhy stat -d {name}"),
        )
        .shown("page fault waits", waited.waits as f64 / facts.seconds(), "1/s", "iowhy waits")
        .shown("share of pages read again", again * 100.0, "%", "iowhy cache")
        .fix(fix(name, &window, is_wasted))
        .check(format!(
            "`grep workingset_refault_file /proc/vmstat` twice: if it does not grow, the windows \
             warm up the cache: keep them. With a window of 16 KiB the bytes read fall and the \
             fault rate rises; if not, the window is used{}",
            words::tried("read_ahead_kb=16"),
        ))
}

/// Returns why the windows are wasted: pages are read again, written in part, or the window is
/// large.
fn why(again: Option<f64>, only_written: bool, large_kib: Option<f64>) -> String {
    match (again, large_kib) {
        (Some(again), _) => format!("and {} of these are read again", words::percent(again)),
        _ if only_written => "since a page is read before a part of it is written".to_owned(),
        (_, Some(kib)) => format!("in windows of {} (read_ahead_kb)", words::bytes(kib * 1024.0)),
        _ => "none of them again: the cache may be warming up".to_owned(),
    }
}

fn fix(name: &str, window: &str, is_wasted: bool) -> String {
    if !is_wasted {
        return "if the program keeps faulting after its start: madvise(MADV_RANDOM) on the \
                mapping; while it starts, the windows help: keep them"
            .to_owned();
    }
    format!(
        "madvise(MADV_RANDOM) on the mapping; if the program cannot be changed, set a smaller \
         window: `echo 16 > /sys/block/{name}/queue/read_ahead_kb` (now {window}; btrfs: \
         /sys/class/bdi/btrfs-*/read_ahead_kb), and restart the program, since open files keep the \
         old one; this slows down sequential readers and program starts"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    /// Random faults of a program in this many different windows, and a backup that reads ahead in
    /// another file, on that device.
    fn found(windows: u64, backup: Option<&str>) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..400_u64 {
            let place = index % windows * 7919 % 100_003;
            let read = script.read("sda", 131_072).by(7, "db").at((index * 20 * MS) as i64);
            let read = read.sector(place * 256).origin(Origin::PageFault);
            read.file("/data/table").direct(0, 0, 9 * MS).add();
            script.wait((7, "db"), WaitClass::PageFault, 10 * MS, 9 * MS, 0);
        }
        for index in 0..backup.map_or(0, |_| 8000_u64) {
            let read = script.read(backup.unwrap_or(""), 131_072).by(8, "tar");
            let read = read.at((index * MS) as i64).sector((1 << 28) + index * 256);
            read.origin(Origin::Readahead).file("/data/dump").direct(0, 0, MS).add();
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "readahead-waste")
    }

    #[test]
    fn what_is_read_once_may_be_a_start() {
        let again = found(300, None).unwrap();
        assert!(
            again.confidence == Confidence::Certain && again.fix.contains("echo 16"),
            "{again:?}"
        );
        assert!(again.sentence.contains("faults read 32 pages per page"), "{again:?}");
        let once = found(400, None).unwrap();
        assert!(once.confidence == Confidence::Possible && once.severity == Severity::Warning);
        assert!(!once.fix.contains("echo"), "{once:?}");
    }

    #[test]
    fn read_ahead_of_somebody_else_is_not_dragged_along() {
        for device in ["sda", "sdb"] {
            let found = found(300, Some(device)).unwrap();
            assert!(found.evidence[0].figure < 33.0, "{found:?}");
            assert_eq!(found.subject.device.as_deref(), Some("sda"));
        }
    }

    #[test]
    fn pieces_of_windows_are_no_scan_however_many_files_are_known() {
        // Twenty of a hundred files: two windows of each, in five pieces.
        let file =
            FilePattern { requests: 10, sequential: 8, faults: 10, ..FilePattern::default() };
        let known = vec![&file; 20];
        assert!(windows_in_order(&known, 200, 1000) < 0.01);
        // One file, read sequentially.
        let scan =
            FilePattern { requests: 100, sequential: 99, faults: 100, ..FilePattern::default() };
        assert!(windows_in_order(&[&scan], 100, 100) > 0.9);
    }

    #[test]
    fn a_write_from_a_map_reads_ahead_in_order() {
        let found = |apart: u64| {
            let mut script = Script::new(10);
            for index in 0..400_u64 {
                let read = script.read("sda", 131_072).by(7, "copy").at((index * 20 * MS) as i64);
                let read = read.sector(index * 256 * apart % (1 << 30)).origin(Origin::Readahead);
                let read = read.file_at("/data/map", index * 131_072 * apart % (1 << 39));
                read.direct(0, 0, 9 * MS).add();
                script.wait((7, "copy"), WaitClass::PageFault, 10 * MS, 9 * MS, 0);
            }
            let found = diagnose(&script.summary()).findings;
            found.into_iter().find(|it| it.cause == "readahead-waste")
        };
        assert_eq!(found(1), None);
        assert!(found(7919).is_some());
    }
}
