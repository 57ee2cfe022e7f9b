//! The working set does not fit in memory and is read again and again.
//!
//! Refaults of a cgroup whose limit is reached are its own; those of the machine may be of any
//! device, and have to be most of what it reads.

use super::super::bottleneck::kind::BottleneckKind;
use super::super::programs;
use super::*;
use facts::Waited;
use facts::calls::READ;
use facts::memory::FullCgroup;
use facts::thresholds::MOST;
use iowhy_analysis::summary::patterns::DevicePatterns;
use iowhy_model::Metric;

/// The least share of sampled pages that had been read before in the same watch. Chosen: a set that
/// fits is read once, so a third is far too many.
const AGAIN: f64 = 0.3;
/// The least ratio of the kernel's refaults to the repeated reads seen by address: programs that
/// drop their own pages (POSIX_FADV_DONTNEED, drop_caches) and direct reads cause no refaults.
/// Chosen.
const REFAULTS: f64 = 0.2;
/// The most that a program waits for other devices, as a share of its waits for one, for what its
/// cgroup reads again to be of that one. Chosen.
const ELSEWHERE: f64 = 0.2;
/// The least number of sampled pages (one per 64 KiB) to judge: 16 MiB.
const LEAST_PAGES: u64 = 256;

rule!(
    "page-cache-thrash",
    "page cache thrashing",
    "The files that a program uses are larger than the memory that it or its cgroup may use. The \
     kernel evicts pages that are soon needed again, and reads them again: the same parts of the \
     same files, over and over.",
    "Pages are read only once, however many: then the load is larger than memory, but does not \
     thrash.",
    place: Setting,
    needs: [Waits],
    trial: "memory=none",
    picture: Bytes,
);

/// Pages that are read again and again.
pub(super) struct Rereads<'a> {
    patterns: &'a DevicePatterns,
    /// The waits for pages of this device.
    pub waited: Waited<'a>,
    /// File pages that the kernel reclaimed and that were needed again.
    refaults: Option<Refaults<'a>>,
    /// Whether the kernel took them because memory was short, and not because somebody asked it to;
    /// also if that is not known.
    pub is_reclaimed: bool,
}

/// File pages that the kernel reclaimed and that were needed again.
#[derive(Clone, Copy)]
struct Refaults<'a> {
    bytes_per_s: f64,
    /// Their share of what was read.
    share: f64,
    /// The cgroup whose they are; `None` if they are the machine's.
    cgroup: Option<FullCgroup<'a>>,
}

impl<'a> Refaults<'a> {
    /// Those of the whole machine, which may be of any device.
    fn of_machine(facts: &Facts<'a>) -> Option<Refaults<'a>> {
        let sampled = |metric| facts.summary().samples.system(metric).and_then(|it| it.mean);
        let bytes_per_s = sampled(Metric::RefaultsFile)?;
        let rates = facts.devices().iter().map(|device| facts::read_per_s(facts, &device.device));
        // These facts may be without the other devices.
        let all_read = rates.sum::<f64>().max(sampled(Metric::PagedIn).unwrap_or(0.0));
        let share = (bytes_per_s / all_read.max(1.0)).min(1.0);
        Some(Refaults { bytes_per_s, share, cgroup: None })
    }

    /// Those of the cgroup whose limit the program that waits most has reached.
    fn of_cgroup(facts: &Facts<'a>, device: &str, waited: &Waited<'a>) -> Option<Refaults<'a>> {
        let foremost = waited.groups.iter().max_by_key(|group| group.time_ns)?;
        let cgroup = facts.full_cgroup(foremost.pid, &foremost.process)?;
        // Those of other devices are counted, too.
        let is_own = |group: &WaitGroup| {
            group.pid == foremost.pid
                && matches!(group.class, WaitClass::PageRead | WaitClass::PageFault)
        };
        let elsewhere = facts.waits(|it| is_own(it) && it.device.as_deref() != Some(device));
        if elsewhere.time_ns as f64 > ELSEWHERE * foremost.time_ns as f64 {
            return None;
        }
        let samples = &facts.summary().samples;
        let read = samples.get(Metric::ReadBytes, device)?.late_growth(samples.latest_ns())?;
        let read = read.max(cgroup.read.unwrap_or(0.0));
        let share = (cgroup.refaults / read.max(1.0)).min(1.0);
        (share >= AGAIN).then_some(Refaults {
            bytes_per_s: cgroup.refaults,
            share,
            cgroup: Some(cgroup),
        })
    }
}

impl<'a> Rereads<'a> {
    /// Returns the device with most of them that programs wait for.
    pub fn of(facts: &Facts<'a>) -> Option<Rereads<'a>> {
        let of_machine = Refaults::of_machine(facts);
        let devices = facts.summary().patterns.devices.iter();
        // Both a loop device and its backing device show repeated reads; programs wait for the one
        // that they use.
        let awaited = devices.map(|patterns| (patterns, waits_for(facts, &patterns.device)));
        let awaited = awaited.filter(|(_, waited)| waited.time_ns > 0);
        let found = awaited.filter_map(|(patterns, waited)| {
            let of_cgroup = Refaults::of_cgroup(facts, &patterns.device, &waited);
            let refaults = of_cgroup.or(of_machine);
            // A watch is short for a set of gigabytes: the kernel knows what it evicted before.
            let is_evicted = of_machine.is_some_and(|it| it.share >= MOST);
            let is_again = facts.pages_again(&patterns.device) >= AGAIN;
            let is_sampled = patterns.access.watched_pages >= LEAST_PAGES;
            (of_cgroup.is_some() || is_sampled && (is_again || is_evicted))
                .then_some((patterns, waited, refaults))
        });
        let (patterns, waited, refaults) = found.max_by_key(|(it, ..)| it.access.pages_again)?;
        let read = facts::read_per_s(facts, &patterns.device);
        let least = REFAULTS * facts.pages_again(&patterns.device) * read;
        let is_reclaimed = refaults.is_none_or(|refaults| refaults.bytes_per_s >= least);
        Some(Rereads { patterns, waited, refaults, is_reclaimed })
    }

    /// The device.
    pub fn device(&self) -> &'a str {
        &self.patterns.device
    }
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let rereads = Rereads::of(facts).filter(|it| it.is_reclaimed).ok_or(Clear)?;
    let Rereads { patterns, waited, refaults, .. } = rereads;
    let read = facts::read_per_s(facts, &patterns.device);
    // The kernel also knows what was read before the watch.
    let share = facts.pages_again(&patterns.device).max(refaults.map_or(0.0, |it| it.share));
    let cgroup = refaults.and_then(|refaults| refaults.cgroup);
    let subject = Subject { device: Some(patterns.device.clone()), ..waited.subject() };
    let memory = cgroup.map_or("its memory".to_owned(), |cgroup| {
        format!("the {} of its cgroup {}", words::bytes(cgroup.limit), cgroup.path)
    });
    let sentence = format!(
        "the working set of {} does not fit in {memory}: {} of its reads from {} are repeated",
        words::who(&subject),
        words::percent(share),
        patterns.device,
    );
    let name = &patterns.device;
    let finding = Finding::of_blocked(facts, (waited.time_ns as f64 * share) as u64, sentence);
    let finding = match refaults {
        Some(refaults) => finding.shown(
            "refaults soon after eviction",
            refaults.bytes_per_s,
            "bytes/s",
            "iowhy cache 1",
        ),
        None => finding,
    };
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let role = file.and_then(|file| programs::role_of(process, file));
    let program = programs::of(process, file);
    let own = program.and_then(|program| program.advice(BottleneckKind::Read.topic(role)));
    let own = own.map(|it| format!("{it}; else "));
    let (more, counters) = remedy(cgroup);
    Ok(finding
        .about(subject)
        .sure(if refaults.is_some() { Confidence::Certain } else { Confidence::Likely })
        .shown("share of pages read again", share * 100.0, "%", "iowhy cache")
        .shown("blocked time for file pages", waited.time_ns as f64, "ns", "iowhy waits")
        .shown("read throughput of the device", read, "bytes/s", format!("iowhy stat -d {name}"))
        .fix(format!(
            "{}{more}, or let it use fewer files at a time; keep scans out of its cache \
             (POSIX_FADV_DONTNEED)",
            own.unwrap_or_default(),
        ))
        .check(format!(
            "`grep workingset_refault {counters} twice: if the file counter does not grow, no \
             evicted page is read again; with twice the memory the reads stop{}",
            words::tried("memory=none"),
        ))
        .into())
}

/// Returns the advice about the memory that is too small, and where its counters are, as the end of
/// a command.
fn remedy(cgroup: Option<FullCgroup<'_>>) -> (String, String) {
    let files = "memory.max and memory.high; version 1: memory.limit_in_bytes";
    match cgroup {
        Some(FullCgroup { path, .. }) => (
            format!("raise the limit on memory of {path} ({files})"),
            format!("memory.stat` of {path}"),
        ),
        None => (
            format!("give it more memory ({files} of its cgroup; else of the machine)"),
            "/proc/vmstat`".to_owned(),
        ),
    }
}

/// Returns the waits for pages of a device, including waits without a known device of programs that
/// wait for it, and waits for a limit that throttles their reads.
fn waits_for<'a>(facts: &Facts<'a>, device: &str) -> Waited<'a> {
    let cached = [WaitClass::PageRead, WaitClass::PageFault];
    let own = facts.waits(|it| cached.contains(&it.class) && it.device.as_deref() == Some(device));
    let time_of = |waited: &Waited<'_>, pid| -> u64 {
        waited
            .groups
            .iter()
            .filter(|group| group.pid == pid)
            .map(|group| group.time_ns)
            .fold(0, u64::saturating_add)
    };
    let all = facts.waits(|it| cached.contains(&it.class));
    // A few stray waits for the device say nothing about those whose device is not known.
    let uses = |pid| 2 * time_of(&own, pid) >= time_of(&all, pid) && time_of(&own, pid) > 0;
    facts.waits(|it| match &it.device {
        Some(other) if other != device => false,
        Some(_) if it.class == WaitClass::CgroupThrottle => {
            uses(it.pid) && (it.syscall.is_none() || facts.is_call(it.syscall, READ))
        }
        known => cached.contains(&it.class) && (known.is_some() || uses(it.pid)),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::metric::process_subject;
    use iowhy_model::script::{S, START_NS, Script};
    use iowhy_model::{Metric, Origin, Sample, Scope, WaitClass};

    /// A process reads the same pages of sda over and over and waits for them on `device` for three
    /// seconds, while a scan of sdb waits for nine.
    fn found(device: &str) -> Option<Finding> {
        counted(device, None)
    }

    #[test]
    fn refaults_of_a_device_with_more_reads_are_not_of_one_with_few() {
        let found = |paged_in: f64| {
            let mut script = Script::new(10);
            let (metrics, subject) = ([Metric::RefaultsFile, Metric::PagedIn], "");
            for (metric, sum) in metrics.into_iter().zip([60e6, paged_in]) {
                script.counter(metric, subject, 0, 0.0);
                script.counter(metric, subject, 10 * S, sum);
            }
            for index in 0..512_u64 {
                let once = script.read("sda", 131_072).sector(index * 256).by(7, "db");
                once.origin(Origin::Readahead).direct(0, 0, 1000).add();
                let more = script.read("sdb", 131_072).sector(index * 256).by(8, "scan");
                more.origin(Origin::Readahead).direct(0, 0, 1000).add();
            }
            for (who, device) in [((7, "db"), "sda"), ((8, "scan"), "sdb")] {
                script.wait(who, WaitClass::PageRead, 5 * S, 5 * S, 0);
                let device = script.names.intern(device);
                script.batch.waits.last_mut().unwrap().device = Some(device);
            }
            diagnose(&script.summary()).findings.iter().any(|it| it.cause == "page-cache-thrash")
        };
        assert!(found(100e6));
        assert!(!found(134e6), "less than half of what the machine reads");
    }

    /// A program in a cgroup with a limit of 100 MB, which has `used` bytes of files, reads 20 MB/s
    /// for the first time and then reads 8 MB/s of it again, beside a scan of another disk.
    fn limited(used: f64) -> Option<Finding> {
        let mut script = Script::new(10);
        let own = process_subject(7, "db");
        script.counter(Metric::RefaultsFile, "", 0, 0.0);
        script.counter(Metric::PagedIn, "", 0, 0.0);
        script.counter(Metric::RefaultsFile, "", 10 * S, 40e6);
        script.counter(Metric::PagedIn, "", 10 * S, 900e6);
        script.sample(0, Metric::ProcessMemoryLimit, &own, 100e6);
        script.sample(0, Metric::ProcessMemoryGroup, &own, 40.0);
        let metrics = [Metric::CgroupRefaults, Metric::ReadBytes, Metric::CgroupFile];
        let rows = [(0, [0.0; 3]), (5, [0.0, 100e6, used]), (10, [40e6, 200e6, used])];
        for (second, values) in rows {
            for (metric, value) in metrics.into_iter().zip(values) {
                let subject = if metric == Metric::ReadBytes { "sda" } else { "/web" };
                script.sample(second * S, metric, subject, value);
            }
            script.sample(second * S, Metric::CgroupNumber, "/web", 40.0);
        }
        for index in 0..512_u64 {
            let once = script.read("sda", 131_072).sector(index * 256).by(7, "db");
            once.origin(Origin::Readahead).direct(0, 0, 1000).add();
        }
        script.wait((7, "db"), WaitClass::PageRead, 9 * S, 9 * S, 0);
        let device = script.names.intern("sda");
        script.batch.waits.last_mut().unwrap().device = Some(device);
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|finding| finding.cause == "page-cache-thrash")
    }

    #[test]
    fn a_limit_on_memory_that_is_used_up_is_named_with_its_cgroup() {
        let found = limited(90e6).unwrap();
        let expected = "the working set of db (7) does not fit in the 95.4 MiB of its cgroup /web: \
                        40 % of its reads from sda are repeated";
        assert_eq!(found.sentence, expected);
        assert!(found.fix.starts_with("raise the limit on memory of /web"), "{}", found.fix);
        assert_eq!(limited(30e6), None, "it has memory left");
    }

    /// The same with this many bytes of refaults per second.
    fn counted(device: &str, refaults: Option<f64>) -> Option<Finding> {
        let mut script = Script::new(10);
        let names = &mut script.names;
        let (subject, metric) = (names.intern(""), names.intern(Metric::RefaultsFile.info().word));
        for (time_ns, since) in [(START_NS, 0.0), (START_NS + 10 * S, 10.0)] {
            let value = since * refaults.unwrap_or(0.0);
            let sample = Sample { time_ns, scope: Scope::System, subject, metric, value };
            script.batch.samples.extend(refaults.map(|_| sample));
        }
        for index in 0..512_u64 {
            let again = script.read("sda", 131_072).sector(index % 64 * 256);
            again.origin(Origin::Readahead).by(7, "db").direct(0, 0, 1000).add();
            let once = script.read("sdb", 131_072).sector(index * 256);
            once.origin(Origin::Readahead).by(8, "tar").direct(0, 0, 1000).add();
        }
        for (who, ns, device) in [((7, "db"), 3 * S, device), ((8, "tar"), 9 * S, "sdb")] {
            script.wait(who, WaitClass::PageRead, ns, ns, 0);
            let device = script.names.intern(device);
            script.batch.waits.last_mut().unwrap().device = Some(device);
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "page-cache-thrash")
    }

    #[test]
    fn who_reads_something_else_does_not_wait_for_what_is_read_again() {
        let found = found("sda").unwrap();
        assert_eq!(
            (found.subject.process.as_deref(), found.subject.device.as_deref()),
            (Some("db"), Some("sda"))
        );
        assert!((0.2..0.25).contains(&found.impact), "{found:?}");
    }

    #[test]
    fn pages_that_the_program_drops_itself_are_no_refaults() {
        assert_eq!(counted("sda", None).unwrap().confidence, Confidence::Likely);
        assert_eq!(counted("sda", Some(5e6)).unwrap().confidence, Confidence::Certain);
        assert_eq!(counted("sda", Some(1e4)), None);
    }

    #[test]
    fn pages_that_nobody_waits_for_slow_nobody_down() {
        assert_eq!(found("sdc"), None);
    }
}
