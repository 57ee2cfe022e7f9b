//! A process syncs whole file systems, and all others wait.

use super::*;
use crate::facts::thresholds::{MOST, WARNING_SHARE};
use facts::Waited;
use facts::calls::{SYNC_FILE, UNMOUNT};
use iowhy_analysis::summary::{ProcessRow, UsedRow};
use iowhy_model::FileKind;
use std::collections::BTreeMap;

/// The least calls of sync or syncfs per second for a storm. Chosen: a package manager makes one
/// per package, an administrator an occasional one.
const SYNCS_PER_S: f64 = 0.5;
/// The least calls in a watch, however short it is. Chosen.
const LEAST: u64 = 3;
/// The length from which a single call matters, nanoseconds. Chosen: a person who starts a
/// container notices a second.
const LONG_NS: u64 = 1_000_000_000;
/// Classes of waits for data to be written, other than a sync's own.
const FOR_WRITEBACK: &[WaitClass] = &[
    WaitClass::Fsync,
    WaitClass::JournalCommit,
    WaitClass::PageLock,
    WaitClass::Device,
    WaitClass::Unknown,
];

rule!(
    "sync-storm",
    "frequent sync of whole file systems",
    "sync(2) and syncfs(2) write all dirty data of all processes, commit the journal and flush the \
     device's cache. A script or agent that calls them every second makes all others' commits and \
     fsyncs wait, and defeats the page cache.",
    "The calls are fsync of single files, however many (fsync-heavy).",
    place: Program,
    needs: [Waits],
    trial: "sync=none",
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let syncing = facts.waits(|group| facts.is_sync_all(group) || is_unmount(facts, group));
    clear_if(syncing.waits == 0)?;
    let calls = calls(facts, &syncing);
    let rate = calls as f64 / facts.seconds();
    let awaited = awaited(facts, &syncing);
    let device = awaited.map(|row| row.device.clone());
    let subject = Subject { file: None, device, ..syncing.subject() };
    let behind = [WaitClass::JournalCommit, WaitClass::JournalSpace, WaitClass::PageLock];
    // A wait for a device without writeback has another reason.
    let synced =
        |device: &String| syncing.groups.iter().any(|group| group.device.as_ref() == Some(device));
    let others = facts.waits(|group| {
        Some(group.pid) != subject.pid
            && group.device.as_ref().is_none_or(synced)
            && !facts.is_sync_all(group)
            && (behind.contains(&group.class) || facts.is_call(group.syscall, SYNC_FILE))
    });
    let is_storm = calls >= LEAST && rate >= SYNCS_PER_S;
    // A script that syncs what it has just copied waits now and then, and nobody else does.
    let is_alone = (others.time_ns as f64) < WARNING_SHARE * facts.duration_ns() as f64;
    let is_occasional = is_alone && (syncing.time_ns as f64) < MOST * facts.duration_ns() as f64;
    let is_felt = syncing.longest_ns() >= LONG_NS && !is_occasional;
    let call =
        facts.call_name(syncing.groups.first().and_then(|group| group.syscall)).unwrap_or("sync");
    let of_whom = dirtied(facts, awaited, &subject);
    let sentence = sentence(facts, &syncing, &subject, call, (calls, is_storm)) + &of_whom;
    let flags = words::flags(&subject);
    // Nobody waits longer behind the calls than they take.
    let behind_calls = |group: &&WaitGroup| {
        let most_ns = syncing.time_ns.saturating_mul(group.threads);
        Claims::of_waits(&Waited::from_groups(vec![group])).limited_to(most_ns)
    };
    let behind_them = others.groups.iter().map(behind_calls);
    let claims = behind_them.fold(Claims::of_waits(&syncing), |all, one| all.and(&one));
    let time_ns = claims.waited_ns();
    Ok(Finding::of_blocked(facts, time_ns, sentence)
        .claiming(claims)
        .about(subject)
        // Processes that wait for pages and commits meanwhile may wait for their own.
        .sure(if others.time_ns > syncing.time_ns {
            Confidence::Likely
        } else {
            Confidence::Certain
        })
        .at_most(if is_storm || is_felt { Severity::Critical } else { Severity::Info })
        .shown("sync and syncfs calls", rate, "1/s", format!("iowhy waits{flags}"))
        .also("time in these calls", syncing.time_ns as f64, "ns")
        .shown(
            "time others waited for commits and pages meanwhile",
            others.time_ns as f64,
            "ns",
            "iowhy waits",
        )
        .fix(fix(call))
        .check(
            "if the caller can be paused for ten seconds, stop it or what starts it (`kill -STOP \
             PID`, then `kill -CONT PID`, as `ps` shows it now): if the others wait as long, the \
             sync is not the cause",
        )
        .into())
}

/// `agent (7) called sync 12 times in 10.0 s; each took 40.0 ms`.
fn sentence(
    facts: &Facts<'_>,
    syncing: &Waited<'_>,
    subject: &Subject,
    call: &str,
    (calls, is_storm): (u64, bool),
) -> String {
    let each = words::time(syncing.time_ns as f64 / calls.max(1) as f64);
    let who = words::who(subject);
    match is_storm {
        true => format!(
            "{who} called {call} {} times in {}; each took {each}",
            words::count(calls),
            words::time(facts.duration_ns() as f64),
        ),
        false if calls == 1 => format!("{who} called {call} once: it took {each}"),
        false => format!("{who} called {call} {calls} times: each took {each}"),
    }
}

/// Whether a thread waits in an unmount until the file system below is written back: umount of an
/// overlay calls syncfs on it, and the last umount of a file system writes all of it.
fn is_unmount(facts: &Facts<'_>, group: &WaitGroup) -> bool {
    facts.is_call(group.syscall, UNMOUNT) && FOR_WRITEBACK.contains(&group.class)
}

/// Returns the device for which the calls wait longest.
fn awaited<'a>(facts: &Facts<'a>, syncing: &Waited<'_>) -> Option<&'a DeviceSummary> {
    // sync(2) waits for all file systems: the one with most of the time counts, if it is known.
    let device = syncing.groups.first().and_then(|group| group.device.as_deref());
    let known = facts.devices().iter().filter(|row| device.is_none_or(|name| row.device == name));
    let is_written = |row: &&DeviceSummary| facts::of(row, Direction::Write).bytes > 0;
    // Of several devices the one with most in flight is the one that takes long.
    known.filter(is_written).max_by_key(|row| facts::device_time_ns(row))
}

/// Returns who dirtied most of what the calls wait for: a program other than the caller.
fn dirtied(facts: &Facts<'_>, busiest: Option<&DeviceSummary>, caller: &Subject) -> String {
    let Some(device) = busiest else { return String::new() };
    let on = &device.device;
    let others: Vec<&UsedRow<ProcessRow>> = device
        .processes
        .iter()
        .filter(|row| {
            let name = row.subject.process.as_str();
            Some(name) != caller.process.as_deref() && !name.starts_with("kworker")
        })
        .collect();
    let bytes = |row: &UsedRow<ProcessRow>| row.usage.directions[Direction::Write].bytes;
    let written = |row: &UsedRow<ProcessRow>| -> u64 {
        let same = others.iter().filter(|it| it.subject.process == row.subject.process);
        same.map(|row| bytes(row)).fold(0, u64::saturating_add)
    };
    let all = facts::of(device, Direction::Write).bytes;
    let is_much = |bytes: u64| bytes.saturating_mul(4) >= all;
    let most = others.iter().max_by_key(|row| (written(row), bytes(row)));
    if let Some(writer) = most.filter(|writer| is_much(written(writer))) {
        let name = words::process(&writer.subject.process, writer.subject.pid, None);
        return format!("; it waits for what {name} wrote to {on}");
    }
    match writer_by_calls(facts, device, caller).filter(|(_, bytes)| is_much(*bytes)) {
        Some((name, _)) => {
            format!("; it waits for all dirty data of {on}, where {name} writes most")
        }
        None => format!("; it waits for all dirty data of {on}"),
    }
}

/// Returns the program other than the caller that writes most to the file system of a device, and
/// how many bytes: requests do not tell who dirtied the data before the watch.
fn writer_by_calls<'a>(
    facts: &Facts<'a>,
    device: &DeviceSummary,
    caller: &Subject,
) -> Option<(&'a str, u64)> {
    let mount = facts.mounts(device).into_iter().next()?;
    let mut written = facts.written_by_calls((mount.major, mount.minor));
    written.retain(|name, _| Some(*name) != caller.process.as_deref());
    written.into_iter().max_by_key(|(_, bytes)| *bytes)
}

/// Returns what to do instead of the call.
fn fix(call: &str) -> &'static str {
    match call {
        "umount2" => {
            "an unmount writes back all dirty data of the file system, for an overlay that of the \
             file system below it: let containers use the overlay option `volatile` if their files \
             need not survive a crash (containerd, podman), keep bulk writers on another file \
             system, or have them sync as they go"
        }
        _ => {
            "drop the call, or have it sync only its own files (fsync, `sync FILE`): sync(1) waits \
             for all dirty data of the machine, syncfs for that of one file system"
        }
    }
}

/// Returns the number of sync calls. Those of syncfs were counted, with the folder that they name;
/// else one call waits many times without pauses in between, but only once for the journal of one
/// device.
fn calls(facts: &Facts<'_>, syncing: &Waited<'_>) -> u64 {
    let mut of_process: BTreeMap<u32, u64> = BTreeMap::new();
    for group in &syncing.groups {
        if let Some(counted) = counted(facts, group.pid) {
            of_process.insert(group.pid, counted);
            continue;
        }
        let commits = if group.class == WaitClass::JournalCommit { group.waits } else { 0 };
        let calls = of_process.entry(group.pid).or_default();
        *calls = (*calls).max(group.bouts).max(commits);
    }
    of_process.values().sum()
}

/// Returns the syncs of folders that a process called, if calls were counted all the time.
fn counted(facts: &Facts<'_>, pid: u32) -> Option<u64> {
    let summary = facts.summary();
    let rows = summary.activity.iter().flat_map(|it| &it.rows);
    let own =
        rows.filter(|row| row.pid == pid && row.file_type == Some(FileKind::Directory.word()));
    let calls: u64 = own.map(|row| row.counts.fsyncs).fold(0, u64::saturating_add);
    (calls > 0 && !summary.environment.lacks_calls()).then_some(calls)
}

#[cfg(test)]
mod tests {
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{FileActivity, FileKind, WaitClass};

    /// A wait in syncfs on sda, from `at` on.
    fn synced(script: &mut Script, at: u64, ns: u64) {
        script.wait((7, "agent"), WaitClass::Fsync, ns, 0, 0);
        let sda = script.names.intern("sda");
        let wait = script.batch.waits.last_mut().unwrap();
        wait.start_ns += at;
        (wait.syscall, wait.device) = (Some(306), Some(sda));
    }

    #[test]
    fn calls_count_and_not_their_waits() {
        // One call that waits for 300 pages, and calls of 30 waits each.
        for (calls, severity) in
            [(1, Severity::Info), (2, Severity::Info), (12, Severity::Critical)]
        {
            let mut script = Script::new(10);
            script.read("sda", 4096).direct(0, 0, MS).add();
            for index in 0..360 / calls * calls {
                let call = index / (360 / calls);
                synced(&mut script, (call * 100 + index * 20) * MS, 20 * MS);
            }
            let findings = diagnose(&script.summary()).findings;
            let found = findings.into_iter().find(|finding| finding.cause == "sync-storm").unwrap();
            assert_eq!(found.severity, severity, "{calls}: {found:?}");
            let message = if calls == 1 { "once".to_owned() } else { format!("{calls} times") };
            assert!(found.sentence.contains(&message), "{}", found.sentence);
        }
    }

    #[test]
    fn a_script_that_waits_now_and_then_and_alone_is_no_warning() {
        let severity = |calls: u64, victim_ms: u64| {
            let mut script = Script::new(10);
            script.read("sda", 4096).direct(0, 0, MS).add();
            for call in 0..calls {
                synced(&mut script, call * 2000 * MS, 1300 * MS);
            }
            script.wait((9, "postgres"), WaitClass::JournalCommit, victim_ms * MS, 0, 0);
            script.waited_on("sda", "/db/pg_wal/1", 74);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "sync-storm").unwrap().severity
        };
        assert_eq!(severity(3, 0), Severity::Info);
        assert!(severity(3, 3000) > Severity::Info, "a database waits behind it");
        assert!(severity(4, 0) > Severity::Info, "it waits more than half of the time");
    }

    #[test]
    fn calls_that_were_counted_are_known() {
        let mut script = Script::new(10);
        script.read("sda", 4096).direct(0, 0, MS).add();
        // Each call waits twice, with a pause.
        for call in 0..10 {
            synced(&mut script, call * 900 * MS, 20 * MS);
            synced(&mut script, (call * 900 + 100) * MS, 20 * MS);
        }
        let counts = Counts { fsyncs: 10, ..Counts::default() };
        let row = FileActivity::of(1, 7, &counts);
        script.batch.files.push(FileActivity { file_type: Some(FileKind::Directory), ..row });
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|finding| finding.cause == "sync-storm").unwrap();
        assert!(found.sentence.contains("called syncfs 10 times"), "{}", found.sentence);
    }

    #[test]
    fn who_dirtied_data_before_the_watch_is_told_by_its_calls() {
        let found = |name: &str| {
            let mut script = Script::new(10);
            script.mount("/srv", "ext4", "/dev/sda");
            let device = Device { name: "sda".to_owned(), ..Device::default() };
            script.environment.devices.push(device);
            for index in 0..50 {
                let write = script.write("sda", 1 << 20).by(9, "kworker/u8:2");
                write.at((index * 100 * MS) as i64).direct(0, 0, 90 * MS).add();
            }
            for call in 0..10 {
                synced(&mut script, call * 900 * MS, 20 * MS);
            }
            let counts = Counts { writes: 50, write_bytes: 50 << 20, ..Counts::default() };
            let (file, process) = (script.names.intern("/srv/f.bin"), script.names.intern(name));
            let row = FileActivity { file: Some(file), ..FileActivity::of(1, 9, &counts) };
            script.batch.files.push(FileActivity { process: Some(process), ..row });
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "sync-storm").unwrap().sentence
        };
        assert!(
            found("dd").ends_with("dirty data of sda, where dd writes most"),
            "{}",
            found("dd")
        );
        let own = found("agent");
        assert!(own.ends_with("all dirty data of sda"), "{own}");
    }

    #[test]
    fn the_device_that_takes_long_and_its_writer_are_named() {
        let mut script = Script::new(10);
        for index in 0..50 {
            let at = (index * 100 * MS) as i64;
            script.write("sda", 4096).by(7, "agent").at(at).direct(0, 0, MS).add();
            let slow = script.write("sdb", 1 << 20).by(20 + index as u32 % 2, "dd").at(at);
            slow.direct(0, 0, 2000 * MS).add();
            synced(&mut script, index * 180 * MS, 170 * MS);
            script.batch.waits.last_mut().unwrap().device = None;
        }
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|finding| finding.cause == "sync-storm").unwrap();
        assert_eq!(found.subject.device.as_deref(), Some("sdb"));
        assert!(found.sentence.contains("it waits for what dd (2"), "{}", found.sentence);
        assert!(found.sentence.ends_with("wrote to sdb"), "{}", found.sentence);
    }

    /// The impact of syncfs on sda, ten times per second, while another process waits for the
    /// journal on `device`.
    fn impact(device: Option<&str>) -> f64 {
        let mut script = Script::new(10);
        script.read("sda", 4096).direct(0, 0, MS).add();
        for index in 0..100 {
            synced(&mut script, index * 100 * MS, 10 * MS);
        }
        script.wait((8, "db"), WaitClass::JournalCommit, 3000 * MS, 0, 0);
        let device = device.map(|name| script.names.intern(name));
        script.batch.waits.last_mut().unwrap().device = device;
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "sync-storm").unwrap().impact
    }

    #[test]
    fn who_waits_for_another_device_does_not_wait_for_the_sync() {
        assert_eq!(impact(Some("sdb")), 0.25);
    }

    #[test]
    fn nobody_waits_longer_behind_the_calls_than_they_take() {
        // Calls of a second, and one of the other's three.
        assert_eq!((impact(Some("sda")), impact(None)), (0.5, 0.5));
    }
}
