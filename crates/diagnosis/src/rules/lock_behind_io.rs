//! Threads wait for a lock whose holder waits for storage.

use super::super::bottleneck::bound::SLOW_SYNC_NS;
use super::super::bottleneck::kind::BottleneckKind;
use super::*;
use crate::convoy::{named, what};
use crate::programs::{self, Topic};
use facts::Waited;
use facts::calls::FUTEX;
use iowhy_analysis::summary::{ChainRow, ChainStep};
use iowhy_model::KnownBy;
use iowhy_model::wait::locks::{is_idle, is_lock};

/// The least number of threads behind the holder: with one or two it may be a worker that reads for
/// another.
const THREADS: u64 = 3;
/// The most holders if the lock is known by wakeups only: members of a pool wake each other all the
/// time.
const HOLDERS: u64 = 2;
/// The least sleeps of each thread per call of the holder that waits, if the lock is known by
/// wakeups only: a thread that wants a lock sleeps once each time it is held; of idle workers one
/// is woken at a time. Chosen.
const EACH: f64 = 0.5;

/// The mean number of threads that wait for storage if there is always one, and never two. Chosen.
const ALWAYS: f64 = 0.7;
const ONE: f64 = 1.1;

rule!(
    "lock-behind-io",
    "lock contention behind I/O",
    "A thread writes or syncs while it holds a lock of its program. For as long as the disk takes, \
     every thread that wants the lock is blocked, and none of them does any I/O: the disk shows \
     one writer, the program shows forty threads in futex(2). The lock may pass from thread to \
     thread, so that each of them is the holder for a while.",
    "The holder computes or waits for the network; or the threads wait for work, not for a lock.",
    place: Lock,
    needs: [Waits, Chains],
    picture: Chain,
    convoy: true,
);

/// The wait chains of one process with holders of the same certainty.
struct Convoy<'a> {
    most: &'a ChainRow,
    sleepers: &'a ChainStep,
    holder: &'a ChainStep,
    sure: Confidence,
    time_ns: u64,
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let chains = facts.summary().chains.as_ref().ok_or(Clear)?;
    let known = chains.rows.iter().filter_map(|row| Some((row, sureness(facts, row)?)));
    let known: Vec<(&ChainRow, Confidence)> = known.collect();
    let rank = |it: &&(&ChainRow, Confidence)| (it.1, it.0.time_ns);
    let Some((most, sure)) = known.iter().max_by_key(rank).copied() else {
        return Ok(RuleVerdict::Clear);
    };
    let (Some(sleepers), Some(holder)) = (most.steps.first(), most.steps.get(1)) else {
        return Ok(RuleVerdict::Clear);
    };
    let same = |it: &&(&ChainRow, Confidence)| {
        it.1 == sure && it.0.steps.first().is_some_and(|step| step.pid == sleepers.pid)
    };
    let time_ns = known.iter().filter(same).map(|it| it.0.time_ns).fold(0, u64::saturating_add);
    let convoy = Convoy { most, sleepers, holder, sure, time_ns };
    Ok(finding(facts, &convoy, chains.time_ns).into())
}

/// Returns the confidence that the first threads of a chain wait for a lock; `None` if they do not,
/// or are too few.
fn sureness(facts: &Facts<'_>, row: &ChainRow) -> Option<Confidence> {
    let (first, holder) = (row.steps.first()?, row.steps.get(1)?);
    let is_futex = facts.is_call(first.syscall, FUTEX);
    let is_crowd = first.pid == holder.pid && first.threads >= THREADS;
    if !is_futex || !is_crowd || is_idle(&first.user_stack) || super::gc_log_stall::is_jvm(row) {
        return None;
    }
    let by_owner = holder.known_by == Some(KnownBy::Owner.word());
    if by_owner || is_lock(first.user_stack.iter().map(String::as_str)) {
        return Some(Confidence::Certain);
    }
    // A pool whose members wake each other looks the same, unless they wait one at a time.
    if holder.threads > HOLDERS {
        return takes_turns(facts, row).then_some(Confidence::Possible);
    }
    let held = held(facts, row).calls;
    let sleeps = row.sleeps as f64 / first.threads.max(1) as f64;
    match sleeps >= EACH * held.max(1) as f64 {
        true => Some(Confidence::Likely),
        false => Some(Confidence::Possible),
    }
}

/// Whether nearly all the time one thread waits for storage in the chain's class, and never two.
fn takes_turns(facts: &Facts<'_>, row: &ChainRow) -> bool {
    let waiting = held(facts, row).time_ns as f64 / facts.duration_ns().max(1) as f64;
    (ALWAYS..=ONE).contains(&waiting)
}

/// Returns all waits of the chain's last process in the class of the chain.
fn held<'a>(facts: &Facts<'a>, row: &ChainRow) -> Waited<'a> {
    let pid = row.steps.last().map(|step| step.pid);
    facts.waits(|it| Some(it.pid) == pid && it.class.word() == row.class)
}

fn finding(facts: &Facts<'_>, convoy: &Convoy<'_>, chained_ns: u64) -> Finding {
    let Convoy { most, sleepers, sure, time_ns, .. } = convoy;
    let all_ns = facts.blocked_ns() + chained_ns;
    let impact = *time_ns as f64 / all_ns.max(1) as f64;
    // The number of concurrent waiters says nothing about how long each of them waits.
    let each_ns = *time_ns as f64 / sleepers.threads.max(1) as f64;
    let part = each_ns / facts.duration_ns().max(1) as f64;
    let subject = Subject {
        device: most.device.clone(),
        process: Some(sleepers.process.clone()),
        pid: Some(sleepers.pid),
        container: facts.waits(|group| group.pid == sleepers.pid).subject().container,
        file: most.files.first().map(|(file, _)| file.clone()),
    };
    let flags = words::flags(&subject);
    let chains = format!("iowhy chains{flags}");
    // A statement that reads holds its locks for as long as it reads.
    let topics: &[Topic] = match held(facts, most).groups.first() {
        Some(group) if BottleneckKind::new(facts, group) == BottleneckKind::Read => {
            &[Topic::Scan, Topic::Maintenance, Topic::Reads]
        }
        _ => &[Topic::Sync],
    };
    let program = programs::of(subject.process.as_deref(), None);
    let own = program.and_then(|it| topics.iter().find_map(|topic| it.advice(*topic)));
    let sentence = sentence(convoy, subject.file.as_deref());
    // Threads that wait for a group commit sleep the same way: if that is fast, nothing is wrong.
    let each = most.time_ns as f64 / most.sleeps.max(1) as f64;
    let is_well = *sure != Confidence::Certain && each < SLOW_SYNC_NS;
    let pid = sleepers.pid;
    let behind =
        Claims::of_chains(facts, |row| row.steps.first().is_some_and(|step| step.pid == pid));
    // What its holder waits for is part of it, if it is known to be a lock.
    let holder = match sure {
        Confidence::Certain => held(facts, most),
        _ => Waited::default(),
    };
    Finding::of_share(ImpactOf::BlockedTime, impact, part, sentence)
        .claiming(behind.limited_to(*time_ns).and(&Claims::of_waits(&holder)))
        .holding(part)
        .about(subject)
        .sure(*sure)
        .doubtful(*sure != Confidence::Certain)
        .at_most(match sure {
            _ if is_well => Severity::Info,
            Confidence::Certain => Severity::Critical,
            // What the holder waits for is known, and comes first.
            _ => Severity::Warning,
        })
        .shown("threads behind the holder", sleepers.threads as f64, "threads", &*chains)
        .also("their blocked time behind the holder", *time_ns as f64, "ns")
        .also("share of each thread's time", part * 100.0, "%")
        .also("longest wait behind the holder", most.longest_ns as f64, "ns")
        .fix(fix(*sure, own))
        .check(
            "`iowhy chains` shows the stacks of both: if there is no lock around the holder's \
             write and in the stacks of the others, they wait for something else, or for work",
        )
}

fn fix(sure: Confidence, own: Option<&str>) -> String {
    let general = "do not write or sync while holding the lock: copy the data under the lock, \
                   write the copy without it, and take the lock again only to publish it; or put \
                   that file on another device";
    match (sure, own) {
        (_, Some(own)) => own.to_owned(),
        (Confidence::Certain, None) => general.to_owned(),
        _ => format!("find what they wait for (`iowhy chains`); if it is a lock: {general}"),
    }
}

fn sentence(convoy: &Convoy<'_>, file: Option<&str>) -> String {
    let Convoy { most, sleepers, holder, sure, .. } = convoy;
    let of = file.map(|file| format!(" of {file}")).unwrap_or_default();
    let for_what = format!("{}{of}", what(most.class));
    let (count, process) = (sleepers.threads, &sleepers.process);
    let who = words::process(process, Some(sleepers.pid), None);
    match sure {
        Confidence::Certain if holder.threads > HOLDERS => format!(
            "{count} threads of {who} take turns holding a lock, and each holder waits for \
             {for_what}"
        ),
        Confidence::Certain => format!(
            "{count} threads of {who} wait for a lock held by thread {}, which waits for \
             {for_what}",
            named(holder),
        ),
        _ if holder.threads > HOLDERS => format!(
            "{count} threads of {who} seem to take turns holding a lock: one at a time waits for \
             {for_what} (no stack shows a lock, and workers of a single client look the same)"
        ),
        _ => format!(
            "{count} threads of {who} may wait for a lock (no stack shows one, and idle workers \
             look the same): thread {} wakes them, and waits for {for_what}",
            named(holder),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Diagnosis, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{KnownBy, WaitClass};

    const FUTEX: u32 = 202;
    const FDATASYNC: u32 = 75;

    /// `threads` sleep `sleeps` times each behind a holder that syncs `syncs` times, 90 ms each,
    /// and each sleep overlaps the syncs by the given time.
    struct LockScene<'a> {
        threads: u32,
        sleeps: u32,
        syncs: u32,
        ns: u64,
        stack: &'a [&'a str],
        known_by: KnownBy,
        holders: u32,
    }

    const SCENE: LockScene<'_> = LockScene {
        threads: 20,
        sleeps: 100,
        syncs: 100,
        ns: 80 * MS,
        stack: &[],
        known_by: KnownBy::Woken,
        holders: 1,
    };

    fn judged(scene: &LockScene<'_>) -> Diagnosis {
        let mut script = Script::new(10);
        let stack_id = script.stack_of(scene.stack, true);
        for sync in 0..scene.syncs {
            script.wait((1, "db"), WaitClass::Fsync, 90 * MS, 90 * MS, 0);
            let names = ["sda", "/data/snap"].map(|it| script.names.intern(it));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.device, wait.file) = (Some(names[0]), Some(names[1]));
            (wait.syscall, wait.tid) = (Some(FDATASYNC), 900 + sync % scene.holders);
        }
        for thread in 0..scene.threads {
            for sleep in 0..scene.sleeps {
                let holder = 900 + sleep % scene.holders;
                script.chain(&[(100 + thread, "worker"), (holder, "writer")], scene.ns, scene.ns);
            }
        }
        for row in &mut script.batch.wait_chains {
            if row.hop == 0 {
                row.syscall = Some(FUTEX);
                row.user_stack_id = stack_id;
            } else {
                row.known_by = Some(scene.known_by);
            }
        }
        diagnose(&script.summary())
    }

    fn found(scene: &LockScene<'_>) -> Option<Finding> {
        judged(scene).findings.into_iter().find(|finding| finding.cause == "lock-behind-io")
    }

    const MONITOR: &[&str] = &["os::PlatformEvent::park()", "ObjectMonitor::enter(JavaThread*)"];

    #[test]
    fn a_lock_that_was_seen_is_certain() {
        for scene in
            [LockScene { stack: MONITOR, ..SCENE }, LockScene { known_by: KnownBy::Owner, ..SCENE }]
        {
            let judged = judged(&scene);
            let found = &judged.findings[0];
            assert_eq!(found.cause, "lock-behind-io", "{judged:#?}");
            assert!(
                found.confidence == Confidence::Certain && found.severity == Severity::Critical
            );
            assert!(found.symptoms.contains(&"fsync-heavy") || judged.findings.len() == 1);
        }
    }

    #[test]
    fn idle_threads_are_not_counted() {
        for stack in [
            &["runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.stopm"][..],
            &["Parker::park(bool, long)", "Unsafe_Park"],
            &["LinkedBlockingQueue.take", "ThreadPoolExecutor.getTask"],
        ] {
            assert_eq!(found(&LockScene { stack, ..SCENE }), None, "{stack:?}");
        }
    }

    #[test]
    fn what_no_stack_shows_hides_nothing() {
        let likely = judged(&SCENE);
        let lock =
            likely.findings.iter().find(|finding| finding.cause == "lock-behind-io").unwrap();
        assert!(lock.confidence == Confidence::Likely && lock.symptoms.is_empty(), "{lock:?}");
        assert!(lock.sentence.contains("idle workers look the same"));
        let first = &likely.findings[0];
        assert!(first.cause != "lock-behind-io" || first.severity > lock.severity, "{first:?}");
        // Workers, of which one is woken occasionally.
        let idle = found(&LockScene { sleeps: 49, ns: 160 * MS, ..SCENE }).unwrap();
        assert_eq!(idle.confidence, Confidence::Possible);
        let each = found(&LockScene { sleeps: 50, ns: 160 * MS, ..SCENE }).unwrap();
        assert_eq!(each.confidence, Confidence::Likely);
    }

    #[test]
    fn a_lock_that_goes_round_is_one_too() {
        let round =
            found(&LockScene { stack: MONITOR, holders: 12, threads: 12, ..SCENE }).unwrap();
        assert!(round.sentence.contains("take turns holding a lock"), "{round:?}");
        assert_eq!(round.severity, Severity::Critical);
        // Without a stack, one that syncs at any time, and never two, is a hint.
        let hint = found(&LockScene { holders: 12, threads: 12, ..SCENE }).unwrap();
        assert_eq!(hint.confidence, Confidence::Possible);
        assert!(hint.sentence.contains("seem to take turns"), "{hint:?}");
        // A pool whose members only wake each other.
        assert_eq!(found(&LockScene { holders: 12, threads: 12, syncs: 50, ..SCENE }), None);
        assert_eq!(found(&LockScene { holders: 12, threads: 12, syncs: 200, ..SCENE }), None);
    }

    #[test]
    fn many_threads_that_hardly_wait_are_information() {
        // Seven threads, 1.1 s in total: a flusher that writes outside the lock.
        let scene = LockScene { threads: 7, sleeps: 2, ns: 79 * MS, stack: MONITOR, ..SCENE };
        assert_eq!(found(&scene).unwrap().severity, Severity::Info);
        let scene = LockScene { sleeps: 14, ..scene };
        assert_eq!(found(&scene).unwrap().severity, Severity::Warning);
        assert_eq!(found(&LockScene { threads: 2, ..SCENE }), None);
    }
}
