//! Contention for shared storage: by another program of this machine, or by another machine behind
//! the device.

use super::provider_cap::{even_bins, plateau};
use super::*;
use crate::facts::thresholds::WARNING_SHARE;
use crate::programs::{self, Topic};
use facts::BehindProgram;
use facts::neighbours::MainUser;
use facts::thresholds::{MOST, SAME_LOAD};
use facts::{Waited, shape};
use iowhy_analysis::summary::patterns::{Bin, Timeline};
use iowhy_analysis::summary::{ProcessRow, UsedRow};

/// The least factor by which requests take longer than before. Chosen.
const SLOWER: f64 = 2.0;
/// The largest ratio of the request rate after to before, if the depth rises. Chosen.
const LESS: f64 = 0.7;
/// The least mean request time afterwards to report, nanoseconds.
const SLOW_NS: f64 = 1_000_000.0;
/// The least number of requests in a bin for a meaningful mean.
const LEAST: u64 = 5;
/// The least number of bins of half a second.
const BINS: usize = 8;
/// The least share of the blocked time that others spend behind one program's requests. Chosen:
/// twice that of a scan, since programs that share a device evenly also delay each other.
const OTHERS: f64 = 0.2;
/// Origins of a program's own I/O; metadata and journals have rules of their own.
const OWN_DOING: &[&str] = &["read", "readahead", "page_fault", "write", "writeback", "discard"];

/// The least share of the watch in which the device has requests, for others to wait behind some.
/// Chosen.
const BUSY: f64 = 0.3;
const FIX: &str = "limit it (io.max of its cgroup, or ionice with bfq, and with mq-deadline since \
                   Linux 5.14), lower its concurrency or run it at another time, or move one of \
                   the two to another device";
const CHECK: &str = "if it can be paused, stop all of it for ten seconds (`kill -STOP PID`, then \
                     `kill -CONT PID`, for each process that `ps` shows now): if the others wait \
                     as long, it is not the cause";

const OF_DATABASE: &str = "watch again after it has ended: if the others are as slow, it is not \
                           the cause; do not stop a database process with a signal, others may \
                           wait for its locks";

rule!(
    "noisy-neighbour",
    "contention for shared storage",
    "A device serves all submitters. When one program submits much, the requests of all others \
     wait behind it in the same queue, even if they are few. iowhy records whose requests the \
     device worked on while others waited. If the neighbour is another machine on shared storage, \
     requests take longer from issue to completion, while this machine submits the same requests, \
     of the same size and at the same depth.",
    "This machine's own load changed at the same moment, or the rate is flat at both levels (then \
     it is a limit: burst-credits, provider-cap).",
    place: Neighbour,
    least: LeastData::for_requests(BINS as u64 * LEAST),
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    if let Some(user) = facts.main_user().filter(|user| holds_up(facts, user)) {
        return Ok(main(facts, &user).into());
    }
    if let Some(neighbour) = neighbour(facts) {
        return Ok(here(facts, &neighbour).into());
    }
    // The devices below an upper device are watched, too, and its own page cache serves some
    // requests.
    let is_shared = |device: &&DeviceSummary| {
        device.stalled_ns.is_none() && !facts.is_own_drive(device) && device.below.is_empty()
    };
    let found = facts.devices().iter().filter(is_shared);
    let mut found = found.filter_map(|device| slower(facts, device).map(|it| (device, it)));
    let Some((device, found)) = found.next() else {
        facts.need_bins(BINS)?;
        return Ok(RuleVerdict::Clear);
    };
    let name = &device.device;
    let sentence = format!(
        "{name} takes {} instead of {} per request under the same load: others use the storage \
         behind it",
        words::time(found.after_ns),
        words::time(found.before_ns),
    );
    let whole = facts::device_time_ns(device);
    Ok(Finding::of_device(facts, (found.extra * whole as f64) as u64, whole, sentence)
        .about(Subject { device: Some(name.clone()), ..Subject::default() })
        .sure(Confidence::Possible)
        .shown(
            "mean latency (D2C) before",
            found.before_ns,
            "ns",
            format!("iowhy stat -d {name} 1"),
        )
        .also("mean latency (D2C) since", found.after_ns, "ns")
        .shown(
            "mean requests in flight",
            device.in_flight_mean,
            "requests",
            format!("iowhy stat -d {name}"),
        )
        .fix(
            "find out who shares the storage; move one of them, or give this machine a guaranteed \
              share",
        )
        .check(format!(
            "`iowhy stat -d {name} 10` for some minutes: if the slow times follow your own load, \
                        it is not a neighbour"
        ))
        .into())
}

/// Whether others are held up behind a device's main user: not by the device alone, which answers
/// fast.
fn holds_up(facts: &Facts<'_>, user: &MainUser<'_>) -> bool {
    let gain = Claims::of_waits(&user.others).scaled(held(facts, user)).gain(facts, |_| true);
    let is_busy = user.device.util_share.is_none_or(|share| share >= BUSY);
    let is_held_up = gain.is_some_and(|gain| gain.share >= WARNING_SHARE);
    is_held_up && is_busy && user.others.mean_stored_ns() >= SLOW_NS
}

/// The share of the others' waits that a device's main user causes: its share of the device, unless
/// it reads. A flush also writes what others have written, but a reader delays only requests that
/// are at the device with its own.
fn held(facts: &Facts<'_>, user: &MainUser<'_>) -> f64 {
    let seen_ns = facts.seen_by_blame_ns(&user.others);
    // Who waits for a CPU afterwards waits for nobody's requests.
    let stored = user.others.stored_ns() as f64 / user.others.time_ns.max(1) as f64;
    // Blame does not distinguish processes of one program.
    let name = &user.row.subject.process;
    let is_within = user.others.groups.iter().any(|group| group.process == *name);
    if !user.reads || is_within || seen_ns == 0 {
        return user.share * stored;
    }
    let unseen_ns = user.others.stored_ns().saturating_sub(seen_ns) as f64;
    let held_ns = behind_ns(facts, user) as f64 + unseen_ns * user.share;
    (held_ns / user.others.time_ns.max(1) as f64).min(user.share * stored)
}

/// Returns the time that others waited while the device served requests of its main user,
/// nanoseconds.
fn behind_ns(facts: &Facts<'_>, user: &MainUser<'_>) -> u64 {
    let mut blamed = facts.behind(OWN_DOING).into_iter();
    let blamed = blamed.find(|blamed| blamed.process == user.row.subject.process);
    blamed.map_or(0, |blamed| blamed.time_ns)
}

/// The finding about a device's main user, which others wait for.
fn main(facts: &Facts<'_>, user: &MainUser<'_>) -> Finding {
    let name = &user.device.device;
    let file = facts.main_file(user);
    let subject = Subject { file, ..facts::subject_of(name, Some(user.row)) };
    let victim = user.others.subject();
    let clients = super::fuse_server::clients(facts, &user.others);
    let sentence = sentence(facts, user, (&subject, &victim), &clients);
    let held = held(facts, user);
    let time_ns = (user.others.time_ns as f64 * held) as u64;
    let behind_ns = behind_ns(facts, user);
    let waited_ns = user.others.stored_ns() as f64;
    // What the device served meanwhile was seen.
    let is_seen = behind_ns as f64 >= MOST * user.others.time_ns as f64;
    let flags = words::flags(&subject);
    // A process of a database must not be stopped or limited like a copy.
    let program = programs::of(subject.process.as_deref(), None);
    let fix = program.and_then(|program| program.advice(Topic::Maintenance));
    // What a server waits for itself, its clients wait for: that is not explained by its writing.
    let own = facts.waits(|group| {
        let is_own = Some(&group.process) == subject.process.as_ref() && !user.is_known();
        is_own && group.device.as_ref() == Some(name)
    });
    let finding = Finding::of_blocked(facts, time_ns, sentence);
    let share = user.share * 100.0;
    let finding = match user.is_of_work {
        true => finding.shown(
            "its share of the device's work, by completions",
            share,
            "%",
            format!("iowhy events -d {name}"),
        ),
        false => finding.shown("its share of the device", share, "%", format!("iowhy proc{flags}")),
    };
    finding
        .claiming(Claims::of_waits(&user.others).and(&Claims::of_waits(&clients)).scaled(held))
        .causing(Claims::of_waits(&own).scaled(held))
        .about(subject)
        .upper_bound()
        .sure(if is_seen { Confidence::Certain } else { Confidence::Likely })
        .shown("time others waited for the device", waited_ns, "ns", "iowhy waits")
        .shown("of it behind its requests", behind_ns as f64, "ns", "iowhy blame")
        .fix(fix.map_or_else(|| FIX.to_owned(), str::to_owned))
        .check(if fix.is_some() { OF_DATABASE } else { CHECK })
}

/// Returns who delays whom, in which call, and what it does.
fn sentence(
    facts: &Facts<'_>,
    user: &MainUser<'_>,
    (subject, victim): (&Subject, &Subject),
    clients: &Waited<'_>,
) -> String {
    let name = &user.device.device;
    let what = match (user.reads, &subject.file) {
        (true, Some(file)) => format!("which reads {file}"),
        (false, Some(file)) => format!("which writes {file}"),
        (true, None) => "which reads".to_owned(),
        (false, None) => "which writes".to_owned(),
    };
    let call = user.others.groups.first().and_then(|group| facts.call_name(group.syscall));
    let waits = match (call, &victim.file) {
        (Some(call), Some(file)) => format!("{call} of {file}"),
        (Some(call), None) => call.to_owned(),
        (None, Some(file)) => format!("its I/O on {file}"),
        (None, None) => "its I/O".to_owned(),
    };
    let for_whom = match clients.subject().process {
        Some(client) => format!(", which works for {client}"),
        None => String::new(),
    };
    format!(
        "{} delays {}{for_whom}: {waits} waits {} on average behind {}, {what} and has {} of \
         {name}",
        words::who(subject),
        words::who(victim),
        words::time(user.others.mean_stored_ns()),
        user.row.subject.process,
        words::percent(user.share),
    )
}

/// Returns the program that programs of other names wait behind longest.
fn neighbour(facts: &Facts<'_>) -> Option<BehindProgram> {
    let most = facts.behind(OWN_DOING).into_iter().max_by_key(|it| it.time_ns)?;
    let time = most.time_ns as f64;
    // What work in the background waits itself is no harm, and others lose by less than most of
    // their time.
    let (least, blocked_ns) = match programs::is_maintenance(&most.process) {
        true => {
            let own = facts.waits(|group| group.process == most.process);
            (OTHERS, facts.blocked_ns().saturating_sub(own.time_ns))
        }
        false => (MOST, facts.blocked_ns()),
    };
    (time >= OTHERS * blocked_ns as f64 && time >= least * most.waited_ns as f64).then_some(most)
}

fn here(facts: &Facts<'_>, neighbour: &BehindProgram) -> Finding {
    let on = facts.devices().iter().find_map(|device| {
        let is_it = |row: &UsedRow<ProcessRow>| {
            let container = &neighbour.container;
            row.subject.process == neighbour.process
                && (container.is_none() || row.subject.container == *container)
        };
        let row = facts.top_process(device, is_it)?;
        Some((device, row))
    });
    let mut subject = on.map_or_else(Subject::default, |(device, row)| {
        facts::subject_of(&device.device, Some(row))
    });
    subject.process = Some(neighbour.process.clone());
    subject.pid = subject.pid.or(neighbour.pid);
    subject.container = subject.container.or(neighbour.container.clone());
    let share = neighbour.time_ns as f64 / neighbour.waited_ns.max(1) as f64;
    let sentence = format!(
        "{} delays {}{}: while {} waits, the device serves requests of {} for {} of the time",
        words::who(&subject),
        neighbour.victim,
        words::on(&subject),
        neighbour.victim,
        neighbour.process,
        words::percent(share),
    );
    let of_device = on.map_or(0.0, |(_, row)| row.usage.time_share);
    let flags = words::flags(&subject);
    // Shares of requests in flight together are an upper bound: the device may serve both at once.
    let victims = facts.waits(|group| {
        let is_victim = words::who(&Waited::from_groups(vec![group]).subject()) == neighbour.victim;
        is_victim || group.process != neighbour.process && group.device == subject.device
    });
    let claims = Claims::of_requests(&victims).limited_to(neighbour.time_ns);
    Finding::of_blocked(facts, neighbour.time_ns, sentence)
        .claiming(claims)
        .about(subject)
        .upper_bound()
        .sure(Confidence::Likely)
        .shown(
            "time others waited behind its requests",
            neighbour.time_ns as f64,
            "ns",
            "iowhy blame",
        )
        .also("share of the others' waits for requests", share * 100.0, "%")
        .shown("share of the device's time", of_device * 100.0, "%", format!("iowhy proc{flags}"))
        .fix(FIX)
        .check(CHECK)
}

struct SlowedBy {
    before_ns: f64,
    after_ns: f64,
    /// The share of the device's time that the slowdown explains.
    extra: f64,
}

fn slower(facts: &Facts<'_>, device: &DeviceSummary) -> Option<SlowedBy> {
    if plateau(facts, device).is_some() {
        return None;
    }
    let timeline = even_bins(&facts.patterns(&device.device)?.timeline);
    let of = most_asked(&timeline);
    if timeline.bins.len() < BINS || timeline.bins.iter().any(|bin| of(bin).0 < LEAST) {
        return None;
    }
    let latency = values(&timeline, |bin| of(bin).1 as f64 / of(bin).0 as f64);
    let depth = values(&timeline, |bin| bin.q2c_ns as f64 / timeline.bin_ns as f64);
    let size = values(&timeline, |bin| bin.bytes as f64 / bin.requests as f64);
    // On a logarithmic scale, so that a single slow bin does not make a level.
    let orders: Vec<f64> = latency.iter().map(|it| it.max(1.0).ln()).collect();
    let step = shape::step(&orders, f64::INFINITY)?;
    let (left, right) = shape::around(&latency, step.at);
    // A device that gets faster was slow before.
    let (fast, slow) = if step.before < step.after { (left, right) } else { (right, left) };
    let (before, after) = (shape::mean(fast), shape::mean(slow));
    let apart = slow.iter().all(|late| fast.iter().all(|early| late > early));
    let level = |values: &[f64]| {
        let (left, right) = shape::around(values, step.at);
        let (left, right) = (shape::mean(left), shape::mean(right));
        if step.before < step.after { (left, right) } else { (right, left) }
    };
    let alike = |(left, right): (f64, f64)| (left - right).abs() <= SAME_LOAD * left.max(right);
    // A paced load piles up if the device slows down; a load that submits more gets more, or as
    // much as before.
    let (had, has) = level(&values(&timeline, |bin| bin.requests as f64));
    let same = alike(level(&depth)) || has <= LESS * had;
    let count: u64 = timeline.bins.iter().map(|bin| of(bin).0).fold(0, u64::saturating_add);
    let all: u64 = timeline.bins.iter().map(|bin| of(bin).1).fold(0, u64::saturating_add);
    // The others are assumed to slow down as much.
    let extra = 1.0 - before * count as f64 / all.max(1) as f64;
    (apart && after >= SLOWER * before && after >= SLOW_NS && same && alike(level(&size)))
        .then_some(SlowedBy { before_ns: before, after_ns: after, extra })
}

/// Returns the request count of a bin and their time, of reads or of others, whichever are more: a
/// load that reads less and writes more, which takes longer, is another load.
fn most_asked(timeline: &Timeline) -> fn(&Bin) -> (u64, u64) {
    let sum = |of: fn(&Bin) -> u64| timeline.bins.iter().map(|bin| of(bin) as f64).sum::<f64>();
    if sum(|bin| bin.reads) * 2.0 >= sum(|bin| bin.requests) {
        |bin| (bin.reads, bin.read_d2c_ns)
    } else {
        |bin| (bin.requests.saturating_sub(bin.reads), bin.d2c_ns.saturating_sub(bin.read_d2c_ns))
    }
}

fn values(timeline: &Timeline, of: impl Fn(&Bin) -> f64) -> Vec<f64> {
    timeline.bins.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, START_NS, Script};
    use iowhy_model::{Operation, WaitClass};

    /// Sequential requests for ten seconds: reads per ten requests, and the times of a read and of
    /// a write, for both halves.
    fn found(reads: [u64; 2], times: [(u64, u64); 2]) -> Option<Finding> {
        let mut script = Script::new(10);
        let (mut at, mut index) = (0, 0);
        while at < 9_980 * MS {
            let half = usize::from(at >= 5_000 * MS);
            let is_read = index % 10 < reads[half];
            let d2c = if is_read { times[half].0 } else { times[half].1 };
            let operation = if is_read { Operation::Read } else { Operation::Write };
            let request = script.request("sda", operation).bytes(4096).by(7, "db").at(at as i64);
            request.sector(index * 7919 * 8 % (1 << 24)).direct(1000, 1000, d2c).add();
            // An uneven pace, so that no limit is suspected.
            at += d2c + 2000 + index % 7 * MS / 10;
            index += 1;
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "noisy-neighbour")
    }

    #[test]
    fn who_writes_more_than_before_has_no_neighbour() {
        for (reads, times) in [([9, 4], (2 * MS, 12 * MS)), ([6, 1], (MS, 20 * MS))] {
            assert_eq!(found(reads, [times, times]), None);
        }
    }

    #[test]
    fn what_takes_longer_under_the_same_load_has_one() {
        for reads in [9, 5, 1] {
            let found = found([reads, reads], [(2 * MS, 2 * MS), (9 * MS, 9 * MS)]).unwrap();
            assert!((0.3..0.7).contains(&found.impact), "{found:?}");
        }
    }

    /// A device that does one request at a time: every 40 ms a synchronous write of 24 ms, which
    /// reads of more bytes, issued just after it, must wait for.
    #[test]
    fn who_waits_at_the_device_is_not_its_main_user() {
        let mut script = Script::new(10);
        for at in (0..10_000_i64).step_by(40) {
            let write = script.write("sda", 4096).by(7, "counters").at(at * MS as i64);
            write.sector(at as u64 * 7919).direct(500, 500, 24 * MS).add();
            script.wait((7, "counters"), WaitClass::Device, 24 * MS, 24 * MS, 0);
            on_sda(&mut script, at);
            let read = script.read("sda", 16_384).by(9, "php").at(at * MS as i64 + 1000);
            read.sector(at as u64 * 104_729).direct(500, 500, 24 * MS + MS / 2).add();
            script.wait((9, "php"), WaitClass::Device, 24 * MS, 24 * MS, 0);
            on_sda(&mut script, at);
        }
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|finding| finding.cause == "noisy-neighbour");
        let found = found.expect("the reader waits for the writer");
        assert!(found.sentence.starts_with("counters (7) delays php (9)"), "{}", found.sentence);
    }

    /// A program writes all the time and waits for its own syncs; a shell waits behind it.
    fn beside_a_shell(name: &str) -> Vec<Finding> {
        let mut script = Script::new(10);
        for at in (0..10_000_i64).step_by(100) {
            let write = script.write("sda", 1 << 20).by(7, name).at(at * MS as i64);
            let write = write.sector(at as u64 * 7919).direct(500, 500, 98 * MS).add();
            script.wait_for((7, name), at as u64 * MS, 98 * MS, &[write]);
            script.waited_on("sda", "/srv/log", 74);
            on_sda(&mut script, at);
            script.wait((9, "bash"), WaitClass::JournalCommit, 30 * MS, 0, 0);
            on_sda(&mut script, at);
        }
        diagnose(&script.summary()).findings
    }

    #[test]
    fn what_a_server_waits_for_itself_is_not_its_neighbours() {
        let first = |name| {
            let findings = beside_a_shell(name);
            findings.first().map(|finding| (finding.cause, finding.subject.process.clone()))
        };
        let (cause, process) = first("java").unwrap();
        assert_eq!((cause, process.as_deref()), ("slow-sync", Some("java")));
        let (cause, _) = first("cp").unwrap();
        assert_eq!(cause, "noisy-neighbour");
    }

    fn on_sda(script: &mut Script, at_ms: i64) {
        let sda = script.names.intern("sda");
        let wait = script.batch.waits.last_mut().unwrap();
        (wait.start_ns, wait.device) = (START_NS + at_ms as u64 * MS, Some(sda));
    }

    /// A backup reads most of what a device moves, 3 ms of every 10; a database writes in between.
    #[test]
    fn a_reader_delays_only_those_that_are_there_with_it() {
        let found = |apart_ms: i64| {
            let mut script = Script::new(10);
            for at in (0..10_000_i64).step_by(10) {
                let read = script.read("sda", 1 << 20).by(9, "tar").at(at * MS as i64);
                let read = read.sector(at as u64 * 2048).direct(500, 500, 5 * MS).add();
                script.wait_for((9, "tar"), at as u64 * MS, 5 * MS, &[read]);
                on_sda(&mut script, at);
                let at = at + apart_ms;
                let write = script.write("sda", 4096).by(7, "db").at(at * MS as i64);
                let write = write.sector(at as u64 * 104_729).direct(500, 500, 3 * MS).add();
                script.wait_for((7, "db"), at as u64 * MS, 3 * MS, &[write]);
                on_sda(&mut script, at);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "noisy-neighbour")
        };
        assert_eq!(found(6), None, "it is idle while the database writes");
        let found = found(1).expect("both are at the device");
        assert!(found.sentence.starts_with("tar (9) delays db (7)"), "{}", found.sentence);
    }
}
