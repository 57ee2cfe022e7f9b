//! A JVM stalls while its VM thread writes a log or its counters.

use super::*;
use crate::convoy::{named, what};
use facts::calls::WRITE;
use facts::thresholds::MOST;
use iowhy_analysis::summary::{ChainRow, ChainStep};

/// HotSpot threads for which all program threads wait at a safepoint: they write the GC log before
/// the others continue. Source: HotSpot's vmThread.cpp, concurrentGCThread.cpp and `-Xlog` (JEP
/// 158).
const VM_THREADS: &[&str] = &["VM Thread", "VM Periodic Tas", "G1 Main Marker", "G1 Service"];
/// The file of counters that a JVM maps (see -XX:+PerfDisableSharedMem).
const COUNTERS: &str = "hsperfdata";

rule!(
    "gc-log-stall",
    "JVM stalls on GC log writes",
    "A JVM stops all program threads for a collection (a safepoint), and its VM thread writes the \
     GC log before they continue. That write is buffered and short, until the journal, the dirty \
     page limit or writeback of the log's page blocks it: then the whole program stalls for as \
     long, and the collector is blamed. The same happens with the counters that a JVM keeps in a \
     mapped file (hsperfdata).",
    "The VM thread waits for pages of its own code or of swap, or does not wait for the disk.",
    place: Program,
    needs: [Waits, Chains],
    picture: Chain,
);

/// Whether a chain ends at the VM thread of a JVM, or at a JVM thread that writes a GC log: JVMs
/// before 9 do not set kernel thread names.
pub(super) fn is_jvm(row: &ChainRow) -> bool {
    is_vm_thread(row) || is_gc_log(row)
}

fn is_vm_thread(row: &ChainRow) -> bool {
    row.steps.iter().skip(1).any(|step| VM_THREADS.contains(&step.thread.as_str()))
}

fn is_gc_log(row: &ChainRow) -> bool {
    let is_unnamed = |step: &ChainStep| step.process == "java" && step.thread == step.process;
    let is_java = row.steps.last().is_some_and(is_unnamed);
    let name = row.files.first().and_then(|(file, _)| file.rsplit('/').next()).unwrap_or_default();
    is_java && (name.starts_with("gc") || name.contains("verbosegc")) && name.contains(".log")
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let chains = facts.summary().chains.as_ref().ok_or(Clear)?;
    let counters = |row: &ChainRow| row.files.first().is_some_and(|file| file.0.contains(COUNTERS));
    let fits = |row: &&ChainRow| {
        let last = row.steps.last();
        let is_write = last.is_some_and(|last| facts.is_call(last.syscall, WRITE));
        is_jvm(row) && (counters(row) || is_write)
    };
    let rows: Vec<&ChainRow> = chains.rows.iter().filter(fits).collect();
    let most = rows.first().ok_or(Clear)?;
    let (Some(first), Some(last)) = (most.steps.first(), most.steps.last()) else {
        return Ok(RuleVerdict::Clear);
    };
    let rows =
        rows.iter().filter(|row| row.steps.first().is_some_and(|step| step.pid == first.pid));
    let time_ns: u64 = rows.map(|row| row.time_ns).fold(0, u64::saturating_add);
    let impact = time_ns as f64 / (facts.blocked_ns() + chains.time_ns).max(1) as f64;
    let part = time_ns as f64 / first.threads.max(1) as f64 / facts.duration_ns().max(1) as f64;
    let file = most.files.first().map(|(file, _)| file.clone());
    let sentence = format!(
        "{} of {} stall until thread {} has written{}, which waits for {}{}",
        match first.threads {
            1 => "threads".to_owned(),
            many => format!("{many} threads"),
        },
        words::process(&first.process, Some(first.pid), None),
        named(last),
        file.as_ref().map(|file| format!(" to {file}")).unwrap_or_default(),
        what(most.class),
        who_fills(facts, most).unwrap_or_default(),
    );
    let subject = Subject {
        device: most.device.clone(),
        process: Some(first.process.clone()),
        pid: Some(first.pid),
        container: facts.waits(|group| group.pid == first.pid).subject().container,
        file,
    };
    let flags = words::flags(&subject);
    let command = format!("iowhy chains{flags}");
    let pid = first.pid;
    let behind =
        Claims::of_chains(facts, |row| row.steps.first().is_some_and(|step| step.pid == pid));
    Ok(Finding::of_share(ImpactOf::BlockedTime, impact, part, sentence)
        .claiming(behind.limited_to(time_ns))
        .holding(part)
        .about(subject)
        .sure(if is_vm_thread(most) { Confidence::Certain } else { Confidence::Likely })
        .shown("stalled threads", first.threads as f64, "threads", &*command)
        .also("stalled time of these threads", time_ns as f64, "ns")
        .also("longest stall", most.longest_ns as f64, "ns")
        .fix(fix(counters(most)))
        .check(
            "`-Xlog:safepoint` shows pauses at the times of these stalls, with a collection that \
             took little CPU; with the log on tmpfs they end",
        )
        .into())
}

/// Returns the end of a sentence about the other program that has most of the log's device.
fn who_fills(facts: &Facts<'_>, row: &ChainRow) -> Option<String> {
    let own = &row.steps.last()?.process;
    let users = facts.main_users().into_iter();
    let mut others = users.filter(|user| user.row.subject.process != *own);
    let other = others.find(|user| Some(&user.device.device) == row.device.as_ref())?;
    let subject = &other.row.subject;
    (other.share >= MOST).then(|| {
        let who = words::process(&subject.process, subject.pid, None);
        format!("; {who} has {} of {}", words::percent(other.share), other.device.device)
    })
}

fn fix(counters: bool) -> &'static str {
    if counters {
        "set -XX:+PerfDisableSharedMem (jps and jstat then do not see the program), or put /tmp on \
         tmpfs"
    } else {
        "write the log asynchronously (`-Xlog:async`, JDK 17 and later: messages are dropped if \
         its buffer is full), or put it on its own device or on tmpfs; reduce the I/O of the \
         program that fills the device"
    }
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    const WRITE: u32 = 1;

    fn found(thread: &str, syscall: Option<u32>, file: &str, cause: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((1, "java"), WaitClass::JournalSpace, 3000 * MS, 0, 0);
        for worker in 0..12 {
            script.chain(&[(100 + worker, "http-nio-1"), (7, thread)], 3000 * MS, 3000 * MS);
        }
        let (file, java) = (script.names.intern(file), script.names.intern("java"));
        for row in &mut script.batch.wait_chains {
            row.process = Some(java);
            if row.hop == 0 {
                row.syscall = Some(202);
            } else {
                (row.syscall, row.file) = (syscall, Some(file));
                row.class = Some(WaitClass::JournalSpace);
            }
        }
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == cause)
    }

    #[test]
    fn the_vm_thread_in_a_write_stops_all() {
        let message = found("VM Thread", Some(WRITE), "/app/gc.log", "gc-log-stall").unwrap();
        assert!(message.confidence == Confidence::Certain && message.severity == Severity::Warning);
        assert!(message.fix.contains("-Xlog:async"), "{message:?}");
        assert_eq!(found("VM Thread", Some(WRITE), "/app/gc.log", "lock-behind-io"), None);
        let mapped = found("VM Thread", None, "/tmp/hsperfdata_app/1", "gc-log-stall").unwrap();
        assert!(mapped.fix.contains("PerfDisableSharedMem"), "{mapped:?}");
    }

    #[test]
    fn threads_without_names_are_known_by_the_log() {
        let message = found("java", Some(WRITE), "/app/logs/gc.log", "gc-log-stall").unwrap();
        assert_eq!(message.confidence, Confidence::Likely);
        assert_eq!(found("java", Some(WRITE), "/app/logs/access.log", "gc-log-stall"), None);
    }

    #[test]
    fn other_threads_and_other_waits_do_not() {
        assert_eq!(found("writer", Some(WRITE), "/app/gc.log", "gc-log-stall"), None);
        // A page fault in the JVM's own code.
        assert_eq!(found("VM Thread", None, "/usr/lib/libjvm.so", "gc-log-stall"), None);
    }
}
