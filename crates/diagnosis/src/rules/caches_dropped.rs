//! Somebody empties the page cache again and again, or drops pages of files that others use.

use super::page_cache_thrash::Rereads;
use super::*;
use facts::calls::{LOOKUP, METADATA};
use facts::neighbours::is_program;
use iowhy_analysis::summary::{ProcessRow, UsedRow};
use iowhy_model::Metric;

/// The least number of times within a watch. One is a person's, before a measurement.
const TIMES: f64 = 2.0;

/// The least share of what is read from a device, for a program that may drop what others have in
/// memory. Chosen: a program that drops what it has read reads much.
const READS: f64 = 0.1;

rule!(
    "caches-dropped",
    "page cache emptied on purpose",
    "A write to /proc/sys/vm/drop_caches frees all clean pages of all files, or all inodes and \
     directory entries, or both. What programs had in memory must be read from the device again. \
     Scripts do it that take the page cache for lost memory; the kernel frees those pages itself \
     when they are needed. A backup that calls posix_fadvise(POSIX_FADV_DONTNEED) after each file \
     also drops pages that others had there.",
    "The page cache is small because memory is short: then pages are reclaimed, and nobody drops \
     them (`grep drop_ /proc/vmstat` does not grow).",
    place: Memory,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let dropped = facts.summary().samples.system(Metric::CacheDropped).map_or(0.0, |it| it.grown());
    if dropped < TIMES {
        // Once explains what is read again, too.
        let evicted = if dropped > 0.0 { None } else { evicted(facts) };
        return Ok(evicted.map_or(RuleVerdict::Clear, RuleVerdict::from));
    }
    let waited = facts.waits(|wait| {
        matches!(wait.class, WaitClass::PageRead | WaitClass::PageFault)
            || facts.is_call(wait.syscall, LOOKUP)
            || facts.is_call(wait.syscall, METADATA)
    });
    clear_if(waited.time_ns == 0)?;
    let subject = waited.subject();
    let seconds = facts.duration_ns() as f64 / 1e9;
    let sentence = format!(
        "a program emptied the page cache {dropped:.0} times within {seconds:.0} s (drop_caches): \
         {} reads from the device what it had in memory",
        words::who(&subject),
    );
    let longest_ns = waited.longest_ns();
    Ok(Finding::of_blocked(facts, waited.time_ns, sentence)
        .claiming(Claims::of_waits(&waited))
        .about(subject)
        // Some of it would have been read for the first time.
        .upper_bound()
        .sure(Confidence::Likely)
        .shown("times that the page cache was emptied", dropped, "times", "cat /proc/vmstat")
        .shown("blocked time for pages of files", waited.time_ns as f64, "ns", "iowhy waits")
        .also("longest wait", longest_ns as f64, "ns")
        .fix(
            "find who writes to /proc/sys/vm/drop_caches (`dmesg | grep drop_caches` has program \
             and PID; cron jobs, scripts that \"free memory\") and remove that: the kernel frees \
             these pages itself when memory is needed",
        )
        .check(
            "`grep drop_ /proc/vmstat` twice: while it does not grow, programs find their files \
             in memory again",
        )
        .into())
}

/// Returns the finding about pages that are read again, although the kernel reclaimed none of them.
fn evicted(facts: &Facts<'_>) -> Option<Finding> {
    let rereads = Rereads::of(facts).filter(|it| !it.is_reclaimed)?;
    let (name, waited) = (rereads.device(), &rereads.waited);
    let share = facts.pages_again(name);
    let subject = Subject { device: Some(name.to_owned()), ..waited.subject() };
    let device = facts.devices().iter().find(|row| row.device == name)?;
    // Who drops what it has read itself harms nobody: somebody else reads it, too.
    let all = device.directions[Direction::Read].bytes as f64;
    let is_other = |row: &UsedRow<ProcessRow>| {
        let is_same = Some(&row.subject.process) == subject.process.as_ref();
        let read = row.usage.directions[Direction::Read].bytes as f64;
        !is_same && is_program(&row.subject) && read >= READS * all
    };
    let other = facts.top_process(device, is_other)?;
    let other = facts::subject_of(name, Some(other));
    let sentence = format!(
        "{} of what is read from {name} was in memory before, and was dropped there on purpose \
         (POSIX_FADV_DONTNEED), not because memory was short: {} waits for it; {} reads from \
         {name}, too",
        words::percent(share),
        words::who(&subject),
        words::who(&other),
    );
    let time_ns = (waited.time_ns as f64 * share) as u64;
    let finding = Finding::of_blocked(facts, time_ns, sentence)
        .claiming(Claims::of_waits(waited).scaled(share))
        .about(subject)
        .upper_bound()
        .shown("share of pages read again", share * 100.0, "%", "iowhy cache")
        .shown("blocked time for file pages", waited.time_ns as f64, "ns", "iowhy waits")
        .fix(
            "let the program that drops pages (a backup, a log shipper, a copy) drop only those \
             that were not in memory before it read them (mincore, or RWF_DONTCACHE since Linux \
             6.14), or read a snapshot, or run it at night",
        )
        .check(format!(
            "`strace -f -e trace=fadvise64 -p {}` shows whether it calls that with \
             POSIX_FADV_DONTNEED; while the one that does is paused, the same files are in memory \
             again",
            words::pid(&other),
        ));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{S, START_NS, Script};
    use iowhy_model::{Metric, Origin, Sample, Scope, WaitClass};

    /// A process waits four of ten seconds for pages, while the cache is emptied that often.
    fn found(times: f64) -> Option<Finding> {
        let mut script = Script::new(10);
        let (subject, metric) =
            (script.names.intern(""), script.names.intern(Metric::CacheDropped.info().word));
        for (time_ns, value) in [(START_NS, 7.0), (START_NS + 10 * S, 7.0 + times)] {
            script.batch.samples.push(Sample {
                time_ns,
                scope: Scope::System,
                subject,
                metric,
                value,
            });
        }
        script.wait((7, "grep"), WaitClass::PageRead, 4 * S, 4 * S, 0);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "caches-dropped")
    }

    #[test]
    fn caches_that_are_emptied_again_and_again_are_named() {
        let finding = found(8.0).unwrap();
        assert!(finding.sentence.contains("8 times within 10 s"), "{}", finding.sentence);
        assert_eq!(finding.subject.process.as_deref(), Some("grep"));
    }

    /// A process reads the same pages again and again, of which the kernel reclaims so many bytes
    /// per second, while another one reads once.
    fn again(refaults: f64, dropped: f64) -> Option<Finding> {
        let mut script = Script::new(10);
        for (at, since) in [(0, 0.0), (10 * S, 10.0)] {
            script.sample(at, Metric::RefaultsFile, "", since * refaults);
            script.sample(at, Metric::CacheDropped, "", 7.0 + since * dropped / 10.0);
        }
        for index in 0..512_u64 {
            for (pid, name, sector) in [(7, "web", index % 64 * 256), (8, "tar", index * 256)] {
                let read = script.read("sda", 131_072).sector(sector).origin(Origin::Readahead);
                read.by(pid, name).at((index * 19_000_000) as i64).direct(0, 0, 1000).add();
            }
        }
        script.wait((7, "web"), WaitClass::PageRead, 6 * S, 6 * S, 0);
        script.waited_on("sda", "/srv/index.html", 0);
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "caches-dropped")
    }

    #[test]
    fn pages_that_are_read_again_and_were_not_reclaimed_were_dropped() {
        let found = again(0.0, 0.0).unwrap();
        assert!(found.sentence.contains("web (7) waits for it; tar (8) reads"), "{found:?}");
        assert!(found.check.contains("trace=fadvise64 -p 8`"), "{found:?}");
        assert_eq!(again(5e6, 0.0), None, "memory is short");
        assert_eq!(again(0.0, 1.0), None, "a person did it, once");
    }

    #[test]
    fn once_before_a_measurement_is_no_cause() {
        assert_eq!(found(1.0), None);
        assert_eq!(found(0.0), None);
    }
}
