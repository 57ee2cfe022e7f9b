//! The finding of a group of waits.
//!
//! What does not belong here: which waits those are (see [`super::group`]).

use super::backlog::{self, OwnBacklog};
use super::bound::{self, bound};
use super::group::GroupedWaits;
use super::kind::BottleneckKind;
use crate::convoy;
use crate::facts::by_program::WaitingProgram;
use crate::facts::calls::CLOSE;
use crate::facts::shape::two_modes;
use crate::facts::syncs::ProgramSyncs;
use crate::facts::thresholds::MOST;
use crate::facts::{self, Facts, PAGE, Waited};
use crate::finding::{Confidence, Finding, Severity};
use crate::programs::{self, FileRole, KnownProgram, Topic};
use crate::subject::Subject;
use crate::words;
use iowhy_analysis::summary::{DeviceSummary, Direction};
use iowhy_model::WaitClass;

/// The least share of a group's time to name a second program, too. Chosen.
const SECOND: f64 = 0.2;
/// The least ratio of the longest wait to the mean to name it, too. Chosen.
const UNLIKE_THE_MEAN: f64 = 10.0;

/// The least pages of a fault to say how many it reads; a window of 16 KiB has four. Chosen.
const MANY_PAGES: f64 = 8.0;

/// What is known of the work of the first program.
struct OwnWork {
    /// The role of its file.
    role: Option<FileRole>,
    /// Bytes that it writes to its rollback journal for each sync, if they are many.
    large: Option<f64>,
    backlog: Option<OwnBacklog>,
}

impl OwnWork {
    fn of(facts: &Facts<'_>, group: &GroupedWaits<'_>, subject: &Subject) -> OwnWork {
        OwnWork {
            role: role(subject),
            large: large_syncs(facts, group, subject),
            backlog: OwnBacklog::of(facts, group),
        }
    }
}

/// The finding.
pub fn finding(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> Finding {
    let subject = subject(facts, group);
    let own = OwnWork::of(facts, group, &subject);
    let sentence = sentence(facts, group, &subject, &own);
    let bound = bound(group);
    let flags = words::flags(&subject);
    let finding = Finding::of_waits(facts, &group.waited, sentence)
        .sure(Confidence::Certain)
        .at_most(most(facts, group))
        .shown(
            format!("share of these waits on {}", bound.by),
            bound.share * 100.0,
            "%",
            format!("iowhy waits{flags}"),
        );
    let finding = shaped(finding, group);
    let (calls, mean_ns) = calls(facts, group);
    let own_fix = own_fix(facts, group, &subject, &own);
    let finding = finding
        .shown("mean time of a call", mean_ns, "ns", format!("iowhy waits{flags}"))
        .shown("calls", calls as f64 / facts.seconds(), "1/s", format!("iowhy waits{flags}"))
        .fix(own_fix.map_or_else(|| general_fix(facts, group), str::to_owned))
        .advising(own_fix)
        .check(check(group));
    // Who takes completions chose how many requests it has in flight.
    let is_own_depth =
        group.kind == BottleneckKind::Async && group.device.is_some_and(bound::is_saturated);
    busy(finding, group.device).about(subject).doubtful(is_own_depth)
}

/// Returns the highest severity: waits that are as short as the device's usually are are no fault,
/// but a person who waits at a terminal for reads in no order is held up by them.
fn most(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> Severity {
    let is_awaited = || {
        let own = group.waited.groups.iter().filter(|own| facts.is_interactive(own.pid));
        let own_ns = own.map(|own| own.time_ns).fold(0, u64::saturating_add);
        // What is read in order takes long only because of its size.
        let share = |device| facts::of(device, Direction::Read).sequential_share;
        let is_in_order = group.device.and_then(share).unwrap_or(0.0) >= facts::SEQUENTIAL;
        let are_reads = group.kind == BottleneckKind::Read && !is_in_order;
        are_reads && own_ns.saturating_mul(2) >= group.waited.time_ns
    };
    // The file system may write a file back when it is closed.
    let is_closed_now_and_then = || {
        let closing = group.waited.groups.iter().filter(|own| facts.is_call(own.syscall, CLOSE));
        let closing_ns = closing.map(|own| own.time_ns).fold(0, u64::saturating_add);
        let is_bulk = |device| facts.is_bulk_now_and_then(device, &group.waited);
        closing_ns.saturating_mul(2) >= group.waited.time_ns && group.device.is_some_and(is_bulk)
    };
    match () {
        () if is_closed_now_and_then() => Severity::Info,
        () if bound::is_slow(facts, group) => Severity::Critical,
        () if is_awaited() || is_bound_store(facts, group) => Severity::Warning,
        () if is_only_worker(facts, group) => Severity::Warning,
        () => Severity::Info,
    }
}

/// Whether a program with a database in it waits most of the time for what it reads, from a device
/// that can do no more: it is its own client, however short each read is.
fn is_bound_store(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> bool {
    let Some(top) = group.programs.first() else { return false };
    let is_most = group.waited.time_ns as f64 >= MOST * facts.duration_ns() as f64;
    let is_full = group.device.is_some_and(bound::is_saturated);
    let is_server = programs::of(Some(top.process), None).is_some();
    is_most
        && is_full
        && group.kind == BottleneckKind::Read
        && !is_server
        && facts.store_file(top.process).is_some()
}

/// The least share of the watch that the one thread of a server reads for it to hardly do anything
/// else. Chosen.
const ALL: f64 = 0.9;

/// Whether the one thread of a server reads nearly all of the time while several clients wait for
/// it, however short each read is: meanwhile it answers nobody.
fn is_only_worker(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> bool {
    let [program] = group.programs.as_slice() else { return false };
    group.kind == BottleneckKind::Read
        && program.threads == 1
        && group.waited.time_ns as f64 >= ALL * facts.duration_ns() as f64
        && program.pid().is_some_and(|pid| facts.holds_clients_up(pid))
}

fn subject(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> Subject {
    let top = group.programs.first();
    let pid = top.and_then(WaitingProgram::pid);
    Subject {
        device: group.device.map(|device| device.device.clone()),
        process: top.map(|top| top.process.to_owned()),
        pid,
        container: top.and_then(|top| top.container.map(str::to_owned)),
        file: top.and_then(|top| top.file().or_else(|| mapped_file(facts, group, top))),
    }
}

/// Returns the mapped file that most faults of a device read, if the program waits for such: a
/// fault has no call that would tell the file.
fn mapped_file(
    facts: &Facts<'_>,
    group: &GroupedWaits<'_>,
    top: &WaitingProgram<'_>,
) -> Option<String> {
    page_faults(&top.waited)?;
    let files = &facts.patterns(&group.device?.device)?.access.files;
    let all = files.iter().map(|file| file.faults).fold(0, u64::saturating_add);
    let most = files.iter().max_by_key(|file| file.faults)?;
    (most.faults as f64 > MOST * all as f64).then(|| most.file.clone())
}

/// Returns the page faults among waits, if most of the time is theirs.
fn page_faults<'a>(waited: &Waited<'a>) -> Option<Waited<'a>> {
    let faults = waited.groups.iter().filter(|group| group.class == WaitClass::PageFault);
    let faults = Waited::from_groups(faults.copied().collect());
    (faults.time_ns as f64 > MOST * waited.time_ns as f64).then_some(faults)
}

fn role(subject: &Subject) -> Option<FileRole> {
    programs::role_of(subject.process.as_deref(), subject.file.as_deref()?)
}

/// `8 processes of postgres (postgresql.service) wait in fdatasync for the write-ahead log
/// /db/pg_wal/1 on sda, 4.10 ms on average`.
fn sentence(
    facts: &Facts<'_>,
    group: &GroupedWaits<'_>,
    subject: &Subject,
    own: &OwnWork,
) -> String {
    let Some(top) = group.programs.first() else { return String::new() };
    let call = top.call(facts);
    let how =
        call.map_or_else(|| format!("for {}", group.kind.doing()), |call| format!("in {call}"));
    let file = subject.file.as_ref().map(|file| match own.role {
        Some(role) => {
            let process = subject.process.as_deref();
            format!(" for the {} {file}", programs::phrase(process, Some(file.as_str()), role))
        }
        None if call.is_some() => format!(" for {file}"),
        None => format!(" of {file}"),
    });
    let second = group
        .programs
        .get(1)
        .filter(|program| program.waited.time_ns as f64 >= SECOND * group.waited.time_ns as f64);
    let second = second.map(WaitingProgram::named).map(|(who, verb)| match verb {
        "waits" => format!("; so does {who}"),
        _ => format!("; so do {who}"),
    });
    let second = second.unwrap_or_default();
    let (who, verb) = top.named();
    let on = words::on(subject);
    let saturated = match group.device {
        Some(device) if !on.is_empty() && bound::is_saturated(device) => ", which is saturated:",
        _ => ",",
    };
    let (mean_ns, longest_ns) = (calls(facts, group).1, top.waited.longest_ns() as f64);
    // A mean of many short waits and a long one hides the long one.
    let longest = (longest_ns >= UNLIKE_THE_MEAN * mean_ns)
        .then(|| format!(", up to {}", words::time(longest_ns)));
    let server = convoy::served_by(facts, &top.waited).map(|server| format!("; {server}"));
    let large =
        own.large.map(|bytes| format!("; {} of it are written for each", words::bytes(bytes)));
    let backlog = own.backlog.map(|backlog| backlog.words(top.process));
    format!(
        "{who} {verb} {how}{}{on}{saturated} {} on average{}{}{}{second}{}",
        file.unwrap_or_default(),
        words::time(mean_ns),
        longest.unwrap_or_default(),
        large.unwrap_or_default(),
        backlog.unwrap_or_default(),
        server.unwrap_or_default(),
    )
}

/// The least bytes that are written for a sync of a rollback journal, for its transactions to
/// outgrow the cache. Chosen: a commit writes some pages, and the cache has 2 MB by default.
const LARGE: f64 = 524_288.0;

/// Returns the bytes that the first program writes to its rollback journal for each sync, if they
/// are many.
fn large_syncs(facts: &Facts<'_>, group: &GroupedWaits<'_>, subject: &Subject) -> Option<f64> {
    let is_journal = subject.file.as_deref().is_some_and(programs::is_rollback_journal);
    let own = is_journal.then(|| own_syncs(facts, group)).flatten()?;
    own.bytes_each().filter(|bytes| *bytes >= LARGE)
}

/// Returns the syncs of the first program that waited, if these waits are syncs.
fn own_syncs<'a>(facts: &Facts<'a>, group: &GroupedWaits<'_>) -> Option<ProgramSyncs<'a>> {
    let top = group.programs.first().filter(|_| group.kind == BottleneckKind::Sync)?;
    let key = |waited: &Waited<'_>| {
        let first = waited.groups.first()?;
        Some((first.process.clone(), first.container.clone(), waited.time_ns))
    };
    facts.syncs().into_iter().find(|program| key(&program.waited) == key(&top.waited))
}

/// Returns the number of calls of the first program that waited, and their mean time, nanoseconds:
/// of syncs the same as the causes that are about its syncs.
fn calls(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> (u64, f64) {
    let all = |waited: &Waited<'_>| (waited.calls, waited.mean_ns());
    let Some(top) = group.programs.first() else { return all(&group.waited) };
    let own = own_syncs(facts, group);
    // A single long wait is what this finding may be about.
    let usual =
        own.filter(|program: &ProgramSyncs<'_>| program.usual_ns() == program.waited.time_ns);
    usual.map_or(all(&top.waited), |program| (program.count(), program.mean_ns()))
}

/// Adds the two latency modes of the requests that the group waits for, if there are two.
fn shaped(finding: Finding, group: &GroupedWaits<'_>) -> Finding {
    let Some(device) = group.device else { return finding };
    let directions = match group.kind {
        BottleneckKind::Sync => [Direction::Write, Direction::Flush],
        BottleneckKind::Write => [Direction::Write, Direction::Write],
        _ => [Direction::Read, Direction::Read],
    };
    let found = directions.iter().find_map(|direction| {
        Some((direction, two_modes(&device.directions[*direction].q2c_histogram)?))
    });
    let Some((direction, modes)) = found else { return finding };
    let what = match direction {
        Direction::Write => "writes",
        Direction::Flush => "flushes",
        _ => "reads",
    };
    let name = &device.device;
    finding.shown(
        format!(
            "{what} take {} or {}; share of slow ones",
            words::time(modes.fast_ns as f64),
            words::time(modes.slow_ns as f64),
        ),
        modes.slow_share * 100.0,
        "%",
        format!("iowhy latency -d {name}"),
    )
}

/// Adds the device's utilization.
pub(super) fn busy(finding: Finding, device: Option<&DeviceSummary>) -> Finding {
    let Some(device) = device else { return finding };
    let name = &device.device;
    let Some(util) = device.util_share else { return finding };
    let stat = format!("iowhy stat -d {name}");
    finding.shown(format!("{name} busy"), util * 100.0, "%", stat.clone()).also(
        "mean requests in flight while busy",
        bound::depth(device),
        "requests",
    )
}

/// Returns the program that has advice, and the role of its file; then the store in it, if what it
/// waits for is not known to be another file: a program of any name may have one.
fn advisers(
    facts: &Facts<'_>,
    subject: &Subject,
    own: &OwnWork,
) -> [(Option<&'static KnownProgram>, Option<FileRole>); 2] {
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let store = process.and_then(|process| facts.store_file(process));
    let is_beside =
        |store: &&str| file.is_none_or(|file| words::folder(file) == words::folder(store));
    let store = store.filter(is_beside);
    let of_store = store.and_then(|file| programs::role_of(None, file));
    [(programs::of(process, file), own.role), (programs::of(None, store), of_store)]
}

/// Returns the program's own setting, if it has one for these waits.
fn own_fix(
    facts: &Facts<'_>,
    group: &GroupedWaits<'_>,
    subject: &Subject,
    own: &OwnWork,
) -> Option<&'static str> {
    let advisers = advisers(facts, subject, own);
    let is_known = group.kind != BottleneckKind::Unknown;
    let advice_of = |topic: &dyn Fn(Option<FileRole>) -> Topic| {
        let mut known = advisers.iter().filter(|_| is_known);
        known.find_map(|(program, role)| program.as_ref()?.advice(topic(*role)))
    };
    let advice = |topic| advice_of(&|_| topic);
    if own.backlog.is_some() {
        return Some(advice(Topic::Ahead).unwrap_or(backlog::FIX));
    }
    let of_large = own.large.and_then(|_| advice(Topic::Spilled));
    let is_of_reads = matches!(group.kind, BottleneckKind::Read | BottleneckKind::Metadata);
    let of_reads = || advice(Topic::Reads).filter(|_| is_of_reads);
    of_large
        .or_else(|| advice_of(&|role| group.kind.topic(role)))
        .or_else(of_reads)
        .or_else(|| group.kind.advice(subject))
}

/// Returns what to do about waits of any program.
fn general_fix(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> String {
    let general = match group.kind {
        BottleneckKind::Sync => {
            "commit several changes with one sync; put the log on its own device, one with \
             power-loss protection"
        }
        BottleneckKind::Read => {
            "keep repeatedly read data in memory (a larger cache, a higher memory limit); read \
             with several requests at once, or read less; move other readers elsewhere"
        }
        BottleneckKind::Write => {
            "write larger blocks, from several threads or asynchronously; move other writers \
             elsewhere"
        }
        BottleneckKind::Metadata => {
            "access fewer files, and less often; keep their directories cached; use fewer, larger \
             files"
        }
        BottleneckKind::Async if group.device.is_some_and(|it| bound::depth(it) <= bound::DEEP) => {
            "keep more requests in flight at once (a larger queue depth), or use a faster device"
        }
        BottleneckKind::Async => {
            "use a faster device, or fewer requests in flight: more only wait longer"
        }
        BottleneckKind::Memory => {
            "provide more memory for the machine or the cgroup, or run fewer programs in it: \
             `iowhy cache 1` shows what fills it"
        }
        BottleneckKind::Unknown => {
            "find where they wait: `iowhy stacks` and `iowhy waits --by stack`"
        }
    };
    match pages_per_fault(facts, group) {
        Some((device, pages)) if pages >= MANY_PAGES => format!(
            "each fault reads {pages:.0} pages: if their neighbours are not used soon, \
             madvise(MADV_RANDOM) on the mapping, or a smaller window (`echo 16 > \
             /sys/block/{device}/queue/read_ahead_kb`, then restart the program); else {general}"
        ),
        _ => general.to_owned(),
    }
}

/// Returns the device of a group whose time is spent in faults at random places, and how many pages
/// a fault reads.
fn pages_per_fault<'a>(facts: &Facts<'_>, group: &GroupedWaits<'a>) -> Option<(&'a str, f64)> {
    let device = group.device?;
    let faults = page_faults(&group.waited).filter(|faults| faults.waits > 0)?;
    let access = &facts.patterns(&device.device)?.access;
    let read = access.faulted_bytes as f64;
    let faulted = access.files.iter().filter(|file| file.faults > 0);
    let (requests, in_order) = faulted.fold((0_u64, 0_u64), |(requests, in_order), file| {
        (requests.saturating_add(file.requests), in_order.saturating_add(file.sequential))
    });
    // A scan in order uses what is read ahead.
    let is_scan = in_order as f64 > MOST * requests as f64;
    (!is_scan).then(|| (device.device.as_str(), read / (faults.waits as f64 * PAGE)))
}

fn check(group: &GroupedWaits<'_>) -> String {
    let Some(device) = group.device else {
        return "`iowhy waits --by stack` shows the kernel functions that they wait in".to_owned();
    };
    let name = &device.device;
    match group.kind {
        BottleneckKind::Sync => format!(
            "`iowhy stages -d {name}`: if flushes and writes are fast (D2C) and do not queue \
             (Q2D), the time is lost above the device: `iowhy waits`, `iowhy chains`"
        ),
        _ => format!(
            "`iowhy stages -d {name}`: if D2C and Q2D are short, the time is lost above the \
             device: `iowhy waits`, `iowhy chains`"
        ),
    }
}
