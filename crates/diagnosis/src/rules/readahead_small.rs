//! Read-ahead is too small for a program that reads in order.

use super::serial_reads::{MappedReads, READING};
use super::*;
use facts::PAGE;
use facts::SEQUENTIAL;
use facts::thresholds::SMALL_READ;

/// The largest ratio of a read's size to the window, for the window to set it. Chosen: with a
/// window of 0 each read is one page.
const OF_WINDOW: f64 = 2.0;
/// The most pages of a read that is not in order by itself: a database's block has up to four.
const FEW_PAGES: f64 = 4.0;
/// The least share of the watch that a reader waits. Chosen: it does little else.
const WAITING: f64 = 0.3;

rule!(
    "readahead-small",
    "read-ahead that is too small",
    "When a program reads a file in order, the kernel reads ahead of it, in windows of \
     queue/read_ahead_kb. With a window of a few kilobytes each read(2) waits for a small request, \
     and the device never gets two large ones at once: the throughput is the size of the window \
     divided by the device's latency, whatever the device could do.",
    "The program reads at random, or with O_DIRECT: then no window applies.",
    place: Setting,
    needs: [Waits, Settings],
    trial: "read_ahead_kb=128",
    bound: ["the waits for reads", "how fast the device is with larger requests was not tried"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let fits =
        |device: &DeviceSummary| window(facts, device).is_some() && is_in_order(facts, device);
    let Some(device) = facts.busiest(fits) else { return Ok(turned_off(facts)) };
    let kib = window(facts, device).ok_or(Clear)?;
    let name = &device.device;
    let waited = facts
        .waits(|group| group.class == WaitClass::PageRead && group.device.as_deref() == Some(name));
    clear_if((waited.time_ns as f64) < WAITING * facts.duration_ns() as f64)?;
    let subject = waited.subject();
    let reads = facts::of(device, Direction::Read);
    let sentence = format!(
        "{} reads {} in order with a read-ahead of {kib} KiB on {name}: {} per second in requests \
         of {}, {} each",
        words::who(&subject),
        subject.file.as_deref().unwrap_or("its files"),
        words::bytes(reads.bytes_per_s),
        words::bytes(reads.average_bytes.unwrap_or(0.0)),
        words::time(waited.mean_ns()),
    );
    Ok(Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .upper_bound()
        .shown(
            "read-ahead window",
            kib * 1024.0,
            "bytes",
            format!("cat /sys/block/{name}/queue/read_ahead_kb"),
        )
        .shown(
            "average size of a read",
            reads.average_bytes.unwrap_or(0.0),
            "bytes",
            format!("iowhy stat -d {name}"),
        )
        .also("share of reads in order", reads.sequential_share.unwrap_or(0.0) * 100.0, "%")
        .fix(format!(
            "raise it to the default or more: `echo 128 > /sys/block/{name}/queue/read_ahead_kb` \
             (1024 to 4096 for large files read in order); files that are open keep the old value \
             until they are opened again"
        ))
        .check(
            "`dd if=FILE of=/dev/null bs=1M` of a file that is not cached, before and after: the \
             throughput rises with the window; if it stays, the device is the limit",
        )
        .into())
}

/// Returns the finding about a program that reads a memory map in order, one page for each page
/// fault, although the device has a window: it has told the kernel that it reads at random.
fn turned_off(facts: &Facts<'_>) -> RuleVerdict {
    let is_by_page = |device: &DeviceSummary| {
        let reads = facts::of(device, Direction::Read);
        window(facts, device).is_none()
            && reads.sequential_share.unwrap_or(0.0) >= SEQUENTIAL
            && reads.average_bytes.is_some_and(|bytes| bytes <= OF_WINDOW * PAGE)
            // A few pages of each of many files are no scan, however they lie on the disk.
            && MappedReads::new(facts, device).is_some_and(|map| map.is_of_one)
    };
    let Some(device) = facts.busiest(is_by_page) else { return RuleVerdict::Clear };
    let name = &device.device;
    let waited = facts
        .waits(|group| READING.contains(&group.class) && group.device.as_deref() == Some(name));
    if (waited.time_ns as f64) < WAITING * facts.duration_ns() as f64 {
        return RuleVerdict::Clear;
    }
    let reads = facts::of(device, Direction::Read);
    let file = MappedReads::new(facts, device).and_then(|map| map.file);
    let subject = Subject { file, ..waited.subject() };
    let kib = facts.latest_number(device, "queue/read_ahead_kb").unwrap_or(0.0);
    let sentence = format!(
        "{} reads the memory map of {} in order without read-ahead, although {name} has {kib} KiB \
         of it: {} per second in page faults of {}, {} each",
        words::who(&subject),
        subject.file.as_deref().unwrap_or("a file"),
        words::bytes(reads.bytes_per_s),
        words::bytes(reads.average_bytes.unwrap_or(0.0)),
        words::time(waited.mean_ns()),
    );
    Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .upper_bound()
        .shown(
            "average size of a read",
            reads.average_bytes.unwrap_or(0.0),
            "bytes",
            format!("iowhy stat -d {name}"),
        )
        .fix(
            "the program has turned it off with madvise(MADV_RANDOM): use MADV_SEQUENTIAL or \
             MADV_NORMAL for a scan, or read the file with read(2) in large blocks",
        )
        .check(
            "`grep -A 25 FILE /proc/PID/smaps` has `rr` in VmFlags (random reads); if not, the \
             pages are not read in the order of the file",
        )
        .into()
}

/// Returns the read-ahead window of a device in KiB, if it is small.
fn window(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    facts.latest_number(device, "queue/read_ahead_kb").filter(|kib| kib * 1024.0 < SMALL_READ)
}

/// Whether the device is read in order, in requests of the size that the window allows.
fn is_in_order(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let reads = facts::of(device, Direction::Read);
    let most = OF_WINDOW * (window(facts, device).unwrap_or(0.0) * 1024.0).max(2.0 * PAGE);
    let Some(bytes) = reads.average_bytes.filter(|bytes| *bytes <= most) else { return false };
    // A read of two pages is two requests, of which the second follows the first.
    let pieces = small_call(facts, device).map_or(1.0, |call| (call / bytes).max(1.0));
    let in_order = 1.0 - (1.0 - reads.sequential_share.unwrap_or(0.0)) * pieces;
    in_order >= SEQUENTIAL
}

/// Returns the bytes of a read by the program that reads most from a device, if it reads a few
/// pages at a time: a larger read is in order by itself.
fn small_call(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let top = facts.top_process(device, |_| true)?;
    let rows = facts.summary().activity.iter().flat_map(|report| &report.rows);
    let own = rows.filter(|row| Some(row.pid) == top.subject.pid);
    let (reads, bytes) = own.fold((0_u64, 0_u64), |sum, row| {
        (sum.0.saturating_add(row.counts.reads), sum.1.saturating_add(row.counts.read_bytes))
    });
    let call = bytes as f64 / reads.max(1) as f64;
    (reads > 0 && call <= FEW_PAGES * PAGE).then_some(call)
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Origin, WaitClass};

    fn found(kib: &str, bytes: u64, apart: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/read_ahead_kb".to_owned(), kib.to_owned())].into(),
            ..Device::default()
        });
        for index in 0..3000_u64 {
            let read = script.read("sda", bytes).by(7, "tar").at((index * 3 * MS) as i64);
            let read = read.sector(index * bytes / 512 * apart % (1 << 30));
            read.direct(500, 500, 2 * MS).add();
            script.wait((7, "tar"), WaitClass::PageRead, 2 * MS, 2 * MS, 0);
            script.waited_on("sda", "/srv/a", 0);
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "readahead-small")
    }

    #[test]
    fn small_windows_are_named_with_the_setting() {
        let found = found("4", 4096, 1).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        assert!(found.sentence.contains("read-ahead of 4 KiB on sda"), "{}", found.sentence);
        assert!(self::found("0", 4096, 1).is_some());
        assert!(self::found("32", 32_768, 1).is_some());
    }

    #[test]
    fn random_or_large_reads_and_the_default_are_not_it() {
        assert_eq!(found("128", 131_072, 1), None);
        assert_eq!(found("4", 65_536, 1), None, "the program reads large blocks itself");
        assert_eq!(found("4", 4096, 7919), None, "at random");
    }

    #[test]
    fn a_map_that_is_read_in_order_without_read_ahead_has_it_turned_off() {
        let of = |kib: &str, apart: u64, origin: Origin, files: u64| {
            let mut script = Script::new(10);
            script.device("sda", &[("queue/read_ahead_kb", kib)]);
            for index in 0..3000_u64 {
                let file = format!("/srv/{}", index * files / 3000);
                let read = script.read("sda", 4096).by(7, "scan").at((index * 3 * MS) as i64);
                let read = read.sector(index * 8 * apart % (1 << 30)).file(&file);
                read.origin(origin).direct(500, 500, 2 * MS).add();
                script.wait((7, "scan"), WaitClass::PageFault, 2 * MS, 2 * MS, 0);
                let sda = script.names.intern("sda");
                script.batch.waits.last_mut().unwrap().device = Some(sda);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "readahead-small")
        };
        let found = |kib: &str, apart: u64, origin: Origin| of(kib, apart, origin, 1);
        assert_eq!(of("128", 1, Origin::PageFault, 1000), None, "a few pages of each file");
        let off = found("128", 1, Origin::PageFault).unwrap();
        let said = "scan (7) reads the memory map of /srv/0 in order without read-ahead, although \
                    sda has 128 KiB";
        assert!(off.sentence.contains(said), "{}", off.sentence);
        assert!(off.fix.contains("MADV_RANDOM"), "{}", off.fix);
        assert_eq!(found("128", 7919, Origin::PageFault), None, "at random");
        assert_eq!(found("128", 1, Origin::Read), None, "in small direct reads");
    }

    #[test]
    fn a_block_of_two_pages_at_random_is_not_in_order() {
        let found = |block: u64| {
            let mut script = Script::new(10);
            script.device("sda", &[("queue/read_ahead_kb", "0")]);
            for index in 0..3000_u64 {
                let read = script.read("sda", 4096).by(7, "postgres").at((index * 3 * MS) as i64);
                let pages = block / 4096;
                let sector = index / pages * 7919 * 8 % (1 << 30) + index % pages * 8;
                read.sector(sector).direct(500, 500, 2 * MS).add();
                script.wait((7, "postgres"), WaitClass::PageRead, 2 * MS, 2 * MS, 0);
                script.waited_on("sda", "/srv/a", 0);
            }
            let reads = 3000 * 4096 / block;
            let counts = Counts { reads, read_bytes: reads * block, ..Counts::default() };
            script.did((7, "postgres"), "/srv/a", counts);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "readahead-small")
        };
        assert_eq!(found(8192), None);
        assert_eq!(found(16_384), None);
        assert!(found(1 << 20).is_some(), "a large read is in order by itself");
    }
}
