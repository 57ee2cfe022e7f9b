//! One thread reads one block at a time from a device that could serve many.

#[path = "serial_reads/mapped.rs"]
mod mapped;

use super::super::bottleneck::bound::{self, DEEP};
use super::*;
use crate::programs;
use facts::SEQUENTIAL;
use facts::calls::WRITE;
use facts::thresholds::{MOST, SMALL_READ};
use iowhy_analysis::summary::Usage;
use std::collections::BTreeMap;

/// Classes of the waits of a thread that reads.
pub(super) const READING: [WaitClass; 3] =
    [WaitClass::Device, WaitClass::PageRead, WaitClass::PageFault];
/// The least share of the interval that the thread waits for its reads. Chosen: it hardly does
/// anything else.
const WAITING: f64 = 0.7;
/// The least share of a pool's waits for one thread to be the reader. Chosen.
const FOREMOST: f64 = 0.8;
/// The most time that a program's threads wait in all, as a share of the watch, and the most
/// requests in flight while the device is busy, for threads that wait one after another. Chosen.
const TURNS: f64 = 1.05;
/// A shorter read is fast: more concurrency would help, but it is not slow. Chosen.
const SLOW_NS: f64 = 500_000.0;

/// The largest pool of threads whose number is suspected. Chosen: above, the device is rather full.
const POOL: u64 = 16;
/// The most requests in flight per thread of the pool. Chosen: a little of others' and of
/// readahead.
const ALONE: f64 = 1.15;

/// The functions of direct I/O.
const DIRECT: &[&str] = &["iomap_dio_rw", "__iomap_dio_rw", "blkdev_direct_IO", "btrfs_direct_*"];

pub(super) use mapped::MappedReads;

rule!(
    "serial-reads",
    "serial reads",
    "The program reads one block, waits, and reads the next. Nothing is queued, so each read takes \
     the device's full latency and most of its capacity is unused: at 1 ms per read, any device \
     does at most 1,000 reads per second.",
    "A greater depth does not give more reads per second: then the device itself is the limit.",
    place: Pattern,
    needs: [Waits],
    trial: "depth=8",
    bound: [
        "the thread's waits, without outliers",
        "how many reads at once the device can do was not tried",
    ],
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let Some(serial) = serial(facts, Direction::Read) else {
        let is_alone = facts.busiest(|it| is_one_by_one(it, Direction::Read)).is_some();
        return Ok(if is_alone { RuleVerdict::Clear } else { pool(facts) });
    };
    let finding = serial.finding(facts);
    let (how, fix) = how(facts, &serial, &finding.subject);
    let sentence = format!("{}{how}", finding.sentence);
    Ok(finding.saying(sentence).fix(fix).into())
}

/// The most reads of a file that is read at once. Chosen: its data, and what says where that is.
const AT_ONCE: u64 = 2;
/// The fix for many small files.
const SMALL_FILES: &str = "read several files at once (threads of a pool, io_uring), or keep the \
                           data in fewer, larger files (larger chunks, an archive, a database), \
                           of which one request reads more";

/// Returns the number of files that most reads of the device are of, if each has hardly more than
/// one; files of all devices are counted together, of which the others must hardly be read.
fn small_files(facts: &Facts<'_>, device: &DeviceSummary) -> Option<u64> {
    let files = &facts.summary().files;
    let reads = |usage: &Usage| usage.directions[Direction::Read].requests;
    let rows = files.rows.iter().map(|row| (1, reads(&row.usage)));
    let others = (files.others.count, reads(&files.others.usage));
    let all: Vec<(u64, u64)> = rows.chain([others]).filter(|(_, reads)| *reads > 0).collect();
    let small = all.iter().filter(|(count, reads)| *reads <= AT_ONCE.saturating_mul(*count));
    let (count, own) = small.fold((0, 0), |sum, few| (sum.0 + few.0, sum.1 + few.1));
    let whole: u64 = all.iter().map(|(_, reads)| reads).sum();
    let of_device = facts::of(device, Direction::Read).requests;
    let are_most = own as f64 >= MOST * whole.max(of_device) as f64;
    (are_most && own <= of_device).then_some(count)
}

/// Returns how a program reads that reads one block at a time, for the sentence, and the fix.
fn how(
    facts: &Facts<'_>,
    serial: &SerialRequests<'_>,
    subject: &Subject,
) -> (String, &'static str) {
    let again = facts.pages_again(&serial.device.device);
    if again >= MOST && is_direct(facts, serial) {
        let how = format!(
            "; it bypasses the page cache (O_DIRECT), and has read {} of these blocks before",
            words::percent(again),
        );
        return (
            how,
            "open the file without O_DIRECT, so that what is read again comes from \
                      memory; or keep it in a cache of the program",
        );
    }
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let own = programs::advice(process, file, programs::Topic::Reads);
    if let Some(map) = MappedReads::new(facts, serial.device) {
        return (map.words(facts, subject), own.unwrap_or(mapped::FAULTS));
    }
    let of_modules = || programs::advice_on_modules(process?, file?);
    if let Some(files) = small_files(facts, serial.device) {
        let how =
            format!("; these are {} files, hardly more than a read each", words::count(files));
        return (how, own.or_else(of_modules).unwrap_or(SMALL_FILES));
    }
    let fix = own.or_else(of_modules).unwrap_or(
        "submit more requests at once: threads, io_uring or libaio, \
         posix_fadvise(POSIX_FADV_WILLNEED) for the next blocks; for sequential reads raise \
         queue/read_ahead_kb and reopen the file",
    );
    (String::new(), fix)
}

/// Whether most waits for a device are in direct I/O.
fn is_direct(facts: &Facts<'_>, serial: &SerialRequests<'_>) -> bool {
    let (direct_ns, _) = facts.waits_with(|stack| {
        stack.device.as_deref() == Some(serial.device.device.as_str())
            && facts::has_function(&stack.functions, DIRECT)
    });
    2 * direct_ns >= serial.waited.time_ns
}

/// One thread that waits for one small request after another.
pub(super) struct SerialRequests<'a> {
    device: &'a DeviceSummary,
    direction: Direction,
    waited: facts::Waited<'a>,
    /// The mean time of a request without outliers, nanoseconds, and the share of the time without
    /// them.
    usual: (f64, f64),
}

/// Returns the thread that reads or writes one block at a time, if it does hardly anything else.
pub(super) fn serial<'a>(facts: &Facts<'a>, direction: Direction) -> Option<SerialRequests<'a>> {
    let device = facts.busiest(|it| is_one_by_one(it, direction))?;
    let all = facts.waits(|group| {
        let is_of = match direction {
            Direction::Read => READING.contains(&group.class),
            _ => group.class == WaitClass::Device && facts.is_call(group.syscall, WRITE),
        };
        is_of && group.device.as_ref() == Some(&device.device)
    });
    let is_one = |group: &&WaitGroup| {
        group.threads == 1 || group.foremost_ns as f64 >= FOREMOST * group.time_ns as f64
    };
    // With one request in flight, processes of one name follow one another, as a server's do that
    // starts one for each session.
    let mut programs: BTreeMap<&str, Vec<&WaitGroup>> = BTreeMap::new();
    for group in &all.groups {
        programs.entry(&group.process).or_default().push(group);
    }
    let depth = bound::depth(device);
    let programs = programs.into_values().map(|groups| {
        let all = facts::Waited::from_groups(groups);
        // Threads of a pool that take turns read as one does.
        let take_turns = depth <= TURNS && all.time_ns as f64 <= TURNS * facts.duration_ns() as f64;
        match take_turns {
            true => all,
            false => facts::Waited::from_groups(all.groups.into_iter().filter(is_one).collect()),
        }
    });
    let waited = programs.max_by_key(|program| program.time_ns)?;
    let usual = without_tail(device, direction);
    let longest_ns = waited.time_ns as f64;
    (longest_ns * usual.1 >= WAITING * facts.duration_ns() as f64).then_some(SerialRequests {
        device,
        direction,
        waited,
        usual,
    })
}

impl SerialRequests<'_> {
    /// Returns the finding, without its fix.
    pub fn finding(&self, facts: &Facts<'_>) -> Finding {
        let (name, word) = (&self.device.device, self.direction.word());
        let (subject, (mean_ns, usual)) = (self.waited.subject(), self.usual);
        let is_one = self.waited.groups.iter().all(|group| Some(group.pid) == subject.pid);
        let subject = Subject { pid: subject.pid.filter(|_| is_one), ..subject };
        let requests = facts::of(self.device, self.direction);
        // A copy in small blocks is slow because of them.
        let is_small = requests.average_bytes.unwrap_or(0.0) < SMALL_READ;
        let is_copy = requests.sequential_share.unwrap_or(0.0) >= SEQUENTIAL && !is_small;
        let not_helped = self.waited.groups.first().and_then(|group| facts.not_helped(group));
        let but = not_helped.map(|why| format!("; {why}")).unwrap_or_default();
        let what = subject.file.as_ref().map(|file| format!(" {file}")).unwrap_or_default();
        let sentence = format!(
            "{} {word}s{what} one block at a time {} {name}: each takes {}, so {} per second is \
             the maximum{but}",
            words::who(&subject),
            if self.direction == Direction::Read { "from" } else { "to" },
            words::time(mean_ns),
            words::number(1e9 / mean_ns),
        );
        let flags = words::flags(&subject);
        let longest_ns = self.waited.time_ns as f64;
        Finding::of_blocked(facts, (longest_ns * usual) as u64, sentence)
            .about(subject)
            // The depth that the device can serve has not been measured.
            .upper_bound()
            // A sequential copy takes long only because of its size.
            .at_most(if is_copy { Severity::Info } else { Severity::Critical })
            .shown(
                "mean requests in flight while busy",
                self.device.in_flight_mean / self.device.util_share.unwrap_or(1.0).max(1e-6),
                "requests",
                format!("iowhy -d {name}"),
            )
            .shown(
                format!("mean {word} latency (D2C) without outliers"),
                mean_ns,
                "ns",
                format!("iowhy stages -d {name}"),
            )
            .shown(
                "share of the interval its thread waited",
                longest_ns / facts.duration_ns().max(1) as f64 * 100.0,
                "%",
                format!("iowhy waits{flags}"),
            )
            .check(format!(
                "`iowhy probe {name}` reads for some seconds, 1 and 32 at a time: if 32 give no \
                 higher rate, the device has no spare capacity"
            ))
    }
}

/// Threads of one process that read one block each, all of them all the time: their number is the
/// limit, and requests wait in the program.
pub(super) struct ReadingPool<'a> {
    pub device: &'a DeviceSummary,
    waited: facts::Waited<'a>,
    threads: u64,
    /// Whether they are processes.
    are_processes: bool,
}

/// Returns the process whose threads are all that a device's depth consists of.
pub(super) fn pool_of<'a>(facts: &Facts<'a>, device: &'a DeviceSummary) -> Option<ReadingPool<'a>> {
    let all = facts.waits(|group| {
        let on = group.device.as_deref() == Some(device.device.as_str());
        on && READING.contains(&group.class) && !facts.is_call(group.syscall, facts::calls::ASYNC)
    });
    let first = all.groups.first()?;
    // A database reads for its clients, of which each has a thread.
    let program = programs::of(Some(&first.process), first.file.as_deref());
    if program.is_some_and(|program| program.advice(programs::Topic::Pool).is_none()) {
        return None;
    }
    // The workers of a server may be processes, and those of a program that nobody knows are not.
    let is_own = |group: &&WaitGroup| match program {
        Some(_) => group.process == first.process && group.container == first.container,
        None => group.pid == first.pid,
    };
    let own: Vec<&WaitGroup> = all.groups.iter().copied().filter(is_own).collect();
    let mut workers: BTreeMap<u32, u64> = BTreeMap::new();
    for group in &own {
        let threads = workers.entry(group.pid).or_default();
        *threads = group.threads.max(*threads);
    }
    let are_processes = workers.len() > 1;
    let threads: u64 = workers.values().sum();
    let waited = facts::Waited::from_groups(own);
    let each = waited.time_ns as f64 / threads.max(1) as f64 / facts.duration_ns().max(1) as f64;
    let depth = bound::depth(device);
    let fits = (2..=POOL).contains(&threads)
        && each >= WAITING
        && depth <= threads as f64 * ALONE
        && 10 * waited.time_ns >= 9 * all.time_ns;
    fits.then_some(ReadingPool { device, waited, threads, are_processes })
}

/// Whether hardly anything but slow reads in no order, or small ones, goes to the device.
fn is_read_slowly(device: &DeviceSummary) -> bool {
    let reads = facts::of(device, Direction::Read);
    let is_random = reads.sequential_share.unwrap_or(0.0) < SEQUENTIAL
        || reads.average_bytes.unwrap_or(0.0) < SMALL_READ;
    let mean = facts::stage(device, Direction::Read, Interval::D2c);
    is_random
        && device.stalled_ns.is_none()
        && reads.requests > 4 * facts::of(device, Direction::Write).requests
        && mean.is_some_and(|stage| stage.mean_ns >= SLOW_NS)
}

fn pool(facts: &Facts<'_>) -> RuleVerdict {
    let slow = facts.devices().iter().filter(|device| is_read_slowly(device));
    let pools = slow.filter_map(|device| pool_of(facts, device));
    let Some(pool) = pools.max_by_key(|pool| pool.waited.time_ns) else {
        return RuleVerdict::Clear;
    };
    let (name, subject) = (&pool.device.device, pool.waited.subject());
    let kind = if pool.are_processes { "processes" } else { "threads" };
    let subject = Subject { pid: subject.pid.filter(|_| !pool.are_processes), ..subject };
    let reads = facts::of(pool.device, Direction::Read);
    let flags = words::flags(&subject);
    let sentence = format!(
        "{} reads from {name} with {} {kind}, one request each: {} per second, {} each; what \
         else it has to do waits for one of them",
        words::who(&subject),
        pool.threads,
        words::number(reads.requests_per_s),
        words::time(pool.waited.mean_ns()),
    );
    let own = programs::of(subject.process.as_deref(), subject.file.as_deref());
    let own = own.and_then(|program| program.advice(programs::Topic::Pool));
    let map = MappedReads::new(facts, pool.device);
    let faults = map.as_ref().map(|map| map.words(facts, &subject)).unwrap_or_default();
    let sentence = format!("{sentence}{faults}");
    Finding::of_waits(facts, &pool.waited, sentence)
        .about(subject)
        .upper_bound()
        .sure(Confidence::Likely)
        .shown(
            format!("{kind} that read"),
            pool.threads as f64,
            kind,
            format!("iowhy waits{flags}"),
        )
        .shown(
            "mean requests in flight while busy",
            bound::depth(pool.device),
            "requests",
            format!("iowhy stat -d {name}"),
        )
        .also("reads", reads.requests_per_s, "1/s")
        .fix(own.unwrap_or(if map.is_some() {
            mapped::FAULTS
        } else {
            "let the program read with more threads or asynchronously (io_uring), as many at once \
             as the device serves"
        }))
        .check(format!(
            "`iowhy probe {name}` reads with 1 to 64 requests at once: if the rate does not rise \
             beyond {} at once, the device is the limit",
            pool.threads,
        ))
        .into()
}

/// Whether the device is nearly only read, or nearly only written without flushes, slowly, and
/// hardly ever by two requests at once.
fn is_one_by_one(device: &DeviceSummary, direction: Direction) -> bool {
    let requests = |at| facts::of(device, at).requests;
    let depth = device.in_flight_mean / device.util_share.unwrap_or(0.0).max(1e-6);
    let stage = facts::stage(device, direction, Interval::D2c);
    let others = match direction {
        Direction::Read => requests(Direction::Write),
        _ => requests(Direction::Read) + requests(Direction::Flush),
    };
    requests(direction) > others * 4
        && depth < DEEP
        && device.stalled_ns.is_none()
        && stage.is_some_and(|stage| stage.mean_ns >= SLOW_NS)
}

/// Returns the mean latency of a device's requests without outliers, nanoseconds, and the share of
/// their time without them: a few reads of a second say nothing about serial reads.
fn without_tail(device: &DeviceSummary, direction: Direction) -> (f64, f64) {
    let Some(stage) = facts::stage(device, direction, Interval::D2c) else {
        return (0.0, 0.0);
    };
    let outlier_ns = stage.p50_ns as f64 * facts::thresholds::TIMES_MEDIAN;
    let buckets = facts::of(device, direction).d2c_histogram.iter();
    let outliers = buckets.filter(|bucket| bucket.from_ns as f64 >= outlier_ns);
    let (count, time_ns) = outliers.fold((0, 0.0), |(count, time_ns), bucket| {
        (count + bucket.requests, time_ns + bucket.requests as f64 * bucket.from_ns as f64)
    });
    let left_ns = (stage.sum_ns as f64 - time_ns).max(0.0);
    (
        left_ns / stage.requests.saturating_sub(count).max(1) as f64,
        left_ns / stage.sum_ns.max(1) as f64,
    )
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{KnownBy, Origin, WaitClass};

    /// One thread of a pool reads one page at a time, `apart` sectors apart; another waits
    /// `other_ms`.
    fn severity(apart: u64, other_ms: u64) -> Option<Severity> {
        of_size(16_384, apart, other_ms)
    }

    /// The same with reads of a size.
    fn of_size(bytes: u64, apart: u64, other_ms: u64) -> Option<Severity> {
        let mut script = Script::new(10);
        for index in 0..900_u64 {
            let read = script.read("sda", bytes).by(7, "mysqld").at((index * 10 * MS) as i64);
            read.sector(index * apart).direct(500, 500, 10 * MS - 2000).file("/db/t").add();
        }
        for (tid, ms) in [(7, 8500), (8, other_ms)] {
            script.wait((7, "mysqld"), WaitClass::PageRead, ms * MS, ms * MS, 0);
            let sda = script.names.intern("sda");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.tid, wait.device) = (tid, Some(sda));
        }
        let findings = diagnose(&script.summary()).findings;
        findings
            .into_iter()
            .find(|finding| finding.cause == "serial-reads")
            .map(|finding| finding.severity)
    }

    #[test]
    fn one_busy_thread_of_a_pool_reads_alone() {
        assert_eq!(severity(7919 * 8, 100), Some(Severity::Critical));
        assert_eq!(severity(7919 * 8, 8000), None, "two that read");
    }

    #[test]
    fn threads_that_take_turns_read_as_one() {
        let found = |each_ms: u64| {
            let mut script = Script::new(10);
            for index in 0..900_u64 {
                let read = script.read("sda", 4096).by(7, "query").at((index * 10 * MS) as i64);
                read.sector(index * 7919 * 8).direct(500, 500, 10 * MS - 2000).add();
                script.wait((7, "query"), WaitClass::PageRead, each_ms * MS, each_ms * MS, 0);
                let sda = script.names.intern("sda");
                let wait = script.batch.waits.last_mut().unwrap();
                (wait.tid, wait.device) = (100 + index as u32 % 30, Some(sda));
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "serial-reads")
        };
        let found_in_turns = found(10).unwrap();
        assert!(found_in_turns.sentence.contains("query (7) reads one block at a time"));
        assert_eq!(found(20), None, "two at once");
    }

    #[test]
    fn a_few_reads_of_a_second_do_not_make_a_serial_reader() {
        let found = |slow_ms: u64| {
            let mut script = Script::new(10);
            for index in 0..600_u64 {
                let d2c = if index % 200 == 100 { slow_ms * MS } else { 10 * MS };
                let at = index * 10 * MS + (index + 99) / 200 * slow_ms * MS;
                let read = script.read("sda", 4096).by(7, "db").at(at as i64);
                read.sector(index * 7919 * 8).direct(500, 500, d2c - 2000).add();
            }
            script.wait(
                (7, "db"),
                WaitClass::PageRead,
                (6000 + 3 * slow_ms) * MS,
                (6000 + 3 * slow_ms) * MS,
                0,
            );
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
            diagnose(&script.summary())
                .findings
                .into_iter()
                .find(|finding| finding.cause == "serial-reads")
        };
        assert!(found(1000).is_none(), "6 s of 10 are its serial reads");
        assert!(found(10).is_none());
    }

    #[test]
    fn a_copy_is_no_fault() {
        assert_eq!(of_size(131_072, 256, 0), Some(Severity::Info));
        // One in small blocks is slow because of them.
        assert_eq!(severity(32, 0), Some(Severity::Critical));
    }

    /// One thread reads a block at a time, of `blocks` different ones.
    fn how(origin: Origin, blocks: u64, frames: &[&str]) -> Finding {
        let mut script = Script::new(10);
        for index in 0..900_u64 {
            let read = script.read("sda", 4096).by(7, "app").at((index * 10 * MS) as i64);
            let read = read.sector(index % blocks * 79_192).file("/srv/idx").origin(origin);
            read.direct(500, 500, 10 * MS - 2000).add();
            script.wait((7, "app"), WaitClass::Device, 10 * MS, 10 * MS, 0);
            script.stacked(frames);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
        }
        script.behind(8, 1, "main", &[], KnownBy::Woken);
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "serial-reads").unwrap()
    }

    #[test]
    fn page_faults_and_direct_reads_of_the_same_are_named() {
        let faults = how(Origin::PageFault, 900, &["filemap_fault"]);
        let said = "; these are page faults of the memory map of /srv/idx, for which other threads \
                    of it wait 10.0 ms";
        assert!(faults.sentence.contains(said), "{}", faults.sentence);
        assert!(faults.fix.contains("pread"), "{}", faults.fix);
        let again = how(Origin::Read, 9, &["__iomap_dio_rw"]);
        assert!(again.sentence.contains("bypasses the page cache (O_DIRECT)"), "{again:?}");
        for other in [how(Origin::Read, 900, &["__iomap_dio_rw"]), how(Origin::Read, 9, &["read"])]
        {
            assert!(!other.sentence.contains("O_DIRECT"), "{}", other.sentence);
        }
    }

    #[test]
    fn processes_that_follow_one_another_read_serially() {
        let mut script = Script::new(10);
        for index in 0..900_u64 {
            let read = script.read("sda", 4096).by(7, "imap").at((index * 10 * MS) as i64);
            read.sector(index * 7919 * 8).direct(500, 500, 10 * MS - 2000).add();
        }
        for pid in 10..16 {
            script.wait((pid, "imap"), WaitClass::PageRead, 1400 * MS, 1400 * MS, 0);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
        }
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|finding| finding.cause == "serial-reads").unwrap();
        assert!(found.sentence.starts_with("imap reads one block"), "{}", found.sentence);
        assert!(found.fix.starts_with("Dovecot"), "{}", found.fix);
    }

    #[test]
    fn files_of_one_read_are_counted() {
        let found = |files: u64| {
            let mut script = Script::new(10);
            for index in 0..900_u64 {
                let read = script.read("sda", 4096).by(7, "app").at((index * 10 * MS) as i64);
                let file = format!("/srv/store/{}", index % files);
                read.sector(index * 7919 * 8).file(&file).direct(500, 500, 10 * MS - 2000).add();
            }
            script.wait((7, "app"), WaitClass::PageRead, 9000 * MS, 9000 * MS, 0);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "serial-reads").unwrap()
        };
        let small = found(900);
        let said = "; these are 900 files, hardly more than a read each";
        assert!(small.sentence.ends_with(said), "{}", small.sentence);
        assert!(small.fix.contains("fewer, larger files"), "{}", small.fix);
        assert!(!found(3).sentence.contains("files"));
    }

    /// Workers of a server and of a program that nobody knows, of which each reads all the time.
    #[test]
    fn workers_may_be_processes() {
        let found = |process: &'static str| {
            let mut script = Script::new(10);
            for index in 0..1800_u64 {
                let pid = 10 + (index % 2) as u32;
                let at = (index / 2 * 10 * MS) as i64;
                let read = script.read("sda", 16_384).by(pid, process).at(at);
                read.sector(index * 7919 * 8).direct(500, 500, 10 * MS - 2000).add();
            }
            for pid in [10, 11] {
                script.wait((pid, process), WaitClass::Device, 9000 * MS, 9000 * MS, 0);
                let sda = script.names.intern("sda");
                script.batch.waits.last_mut().unwrap().device = Some(sda);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "serial-reads")
        };
        let pool = found("php-fpm8.2").unwrap();
        assert!(pool.sentence.contains("with 2 processes, one request each"), "{pool:?}");
        assert!(pool.fix.contains("pm.max_children"), "{}", pool.fix);
        assert_eq!(found("unknown"), None);
    }
}
