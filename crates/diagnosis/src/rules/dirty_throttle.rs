//! Writers are throttled because too many pages are dirty.

#[path = "dirty_throttle/limits.rs"]
mod limits;

use super::super::bottleneck::{bound, kind::BottleneckKind};
use super::super::programs;
use super::*;
use crate::facts::thresholds::MOST;
use facts::BULK_PER_S;
use facts::Waited;
use facts::calls::SYNC_ALL;
use facts::neighbours::is_program;
use iowhy_analysis::summary::{ProcessRow, UsedRow};
use limits::{LowLimit, OwnLimit};

/// The least mean number of other waiting threads. As for a warning.
const OTHERS: f64 = super::super::facts::WARNING_THREADS;

/// A rate of calls that were counted for a shorter time says nothing. Chosen.
const LEAST_COUNTED_S: f64 = 0.5;

/// The advice where a device takes little of large requests.
const SLOW_FIX: &str = "a sound disk takes ten times as much of such writes: look for a disk that \
                        fails (`smartctl -a`), cheap or full flash, a shingled disk, a slow port, \
                        or a limit of the volume; copy less to it, or to another one";

rule!(
    "dirty-throttle",
    "dirty page throttling",
    "A buffered write only changes memory, until the dirty pages (changed, not yet on disk) reach \
     the limit (vm.dirty_ratio, vm.dirty_bytes, or the cgroup's share). Then balance_dirty_pages \
     puts every writer to sleep until the device catches up, in proportion to how much it writes. \
     Programs that write little to the same device or in the same cgroup sleep, too.",
    "The writers wait in fsync instead: then they wait for the device on purpose.",
    place: Throttle,
    needs: [Waits],
    trial: "vm.dirty_ratio=40",
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::DirtyThrottle);
    clear_if(waited.class_ns == 0)?;
    let subject = waited.subject();
    let own = OwnLimit::of(facts, &subject);
    let full = full_elsewhere(facts, &subject);
    // Judged by itself, a device that has time does not show who fills the machine's limit.
    let is_partial = facts.devices().iter().any(|device| device.util_share.is_none());
    clear_if(own.is_none() && full.is_none() && is_partial && has_time(facts, &subject))?;
    let slow = facts.device_of(&subject).and_then(|device| facts.slow_bulk(device));
    let is_told = own.is_some()
        || full.is_some()
        || facts.heavier_writer(&subject).is_some()
        || is_for_space(facts, &waited);
    let low = LowLimit::of(facts, subject.device.as_deref()).filter(|_| !is_told);
    let (mut sentence, apart) = sentence(facts, &waited, &own, full, low.as_ref());
    let writing = facts.writing(&subject);
    if let Some(slow) = &slow {
        sentence += &slow.words(&subject);
    } else if let Some(writing) = &writing {
        sentence += &writing.words();
    }
    let is_waste = writing.as_ref().is_some_and(|writing| writing.is_waste(&subject));
    let less = writing.map_or_else(String::new, |writing| format!("{}; else ", writing.fix()));
    let hurts = own.is_some() || low.is_some() || hurts(facts, &waited);
    // A bulk writer is as fast as its device: those that write little lose by it.
    let little = Waited::from_groups(
        waited.groups.iter().copied().filter(|group| is_hurt(facts, group)).collect(),
    );
    // A limit that is too low holds up all of them, while the device has time.
    let victims = if little.time_ns > 0 && low.is_none() { &little } else { &waited };
    Ok(Finding::of_class(facts, &waited, sentence)
        .claiming(Claims::of_class(victims))
        .about(subject)
        .sure(Confidence::Certain)
        // Throttling a pure bulk writer to the speed of its device is as intended.
        .at_most(match (hurts, slow) {
            (true, _) => Severity::Critical,
            (false, Some(_)) => Severity::Warning,
            // Nor is it if there was no need to write so much.
            (false, None) if is_waste => Severity::Warning,
            (false, None) => Severity::Info,
        })
        .shown("time throttled for dirty pages", waited.class_ns as f64, "ns", "iowhy waits")
        .also("longest wait", waited.longest_ns() as f64, "ns")
        .shown("throttled sleeps", waited.waits as f64 / facts.seconds(), "1/s", "iowhy cache")
        .fix(match (own, low, slow) {
            (Some(own), ..) => own.fix(),
            (None, Some(low), _) => format!("{}; else {apart}{less}let it write less", low.fix()),
            (None, None, Some(_)) => {
                format!("{apart}{SLOW_FIX}; else {less}{}", general_fix(facts, &waited))
            }
            (None, None, None) => format!("{apart}{less}{}", general_fix(facts, &waited)),
        })
        .check(
            "`iowhy cache 1`: dirty pages stay near the limit meanwhile; if they are far below it, \
             it is the limit of its cgroup (file_dirty in memory.stat) or something else",
        )
        .into())
}

/// Returns who writes faster than which device, whom the limit puts to sleep, and the beginning of
/// the advice where those write to another device.
fn sentence(
    facts: &Facts<'_>,
    waited: &Waited<'_>,
    own: &Option<OwnLimit>,
    full: Option<Subject>,
    low: Option<&LowLimit>,
) -> (String, String) {
    let subject = waited.subject();
    if let Some(own) = own {
        return (own.sentence(&subject), String::new());
    }
    let who = words::who(&subject);
    if let Some(full) = full {
        let device = full.device.clone().unwrap_or_default();
        let sentence = format!(
            "{} writes faster than {device}: the dirty page limit puts {who}, which writes{}, to \
             sleep, too",
            words::who(&full),
            to(&subject),
        );
        return (sentence, apart(facts, &device));
    }
    if let Some(heavy) = facts.heavier_writer(&subject) {
        let sentence = format!(
            "{} writes faster than the device: the dirty page limit puts {who} to sleep, too",
            words::who(&heavy),
        );
        return (sentence, String::new());
    }
    if let Some(low) = low {
        return (low.sentence(&subject), String::new());
    }
    if is_for_space(facts, waited) {
        let sentence = format!(
            "{who} waits until what is dirty{} is written: little more than that is free there",
            words::on(&subject),
        );
        return (sentence, FREE_SPACE.to_owned());
    }
    let begin = format!("{who} writes faster than the device: the dirty page limit puts it");
    // The limit is the machine's: who writes to another device waits, too.
    let elsewhere = waited.groups.iter().copied().find(|group| {
        let is_other = Some(group.pid) != subject.pid && group.device.is_some();
        let other = Waited::from_groups(vec![group]).subject();
        is_other
            && group.device != subject.device
            && is_hurt(facts, group)
            && has_time(facts, &other)
            && OwnLimit::of(facts, &other).is_none()
    });
    match (elsewhere, &subject.device) {
        (Some(group), Some(device)) => {
            let other = Waited::from_groups(vec![group]).subject();
            let and = format!(" and {}, which writes{}, to sleep", words::who(&other), to(&other));
            (begin + &and, apart(facts, device))
        }
        _ if waited.groups.first().is_some_and(|group| facts.holds_itself_up(group)) => {
            (begin + " to sleep, and its other threads wait for that", String::new())
        }
        _ => (begin + " to sleep", String::new()),
    }
}

/// The advice where a file system has little more free than is dirty.
const FREE_SPACE: &str = "free or add space there (`df`); ";

/// Whether most of the time is ext4's, which writes back what is dirty before it promises more than
/// is free.
fn is_for_space(facts: &Facts<'_>, waited: &Waited<'_>) -> bool {
    facts.waits_in(&["ext4_nonda_switch"]).0.saturating_mul(2) > waited.time_ns
}

/// Returns ` to sda`, or nothing.
fn to(subject: &Subject) -> String {
    subject.device.as_ref().map_or_else(String::new, |device| format!(" to {device}"))
}

/// Whether the device of a throttled writer is idle most of the time.
fn has_time(facts: &Facts<'_>, subject: &Subject) -> bool {
    let device = facts.device_of(subject).and_then(|device| device.util_share);
    device.is_some_and(|share| share < MOST)
}

/// Returns who has most of the dirty data that a busy device writes, if the subject's own device
/// has time: its writers wait, since what is dirty is limited for all devices together.
fn full_elsewhere(facts: &Facts<'_>, subject: &Subject) -> Option<Subject> {
    let own = subject.device.as_deref().filter(|_| has_time(facts, subject))?;
    let is_apart = |device: &&DeviceSummary| {
        let other = device.device.as_str();
        other != own && !facts.stands_on(own, other) && !facts.stands_on(other, own)
    };
    let written_back = |device: &DeviceSummary| facts::origin_of(device, Origin::Writeback).2;
    let is_full = |device: &&DeviceSummary| {
        let moved = device.directions.0.iter().map(|direction| direction.bytes);
        let moved = moved.fold(0, u64::saturating_add);
        bound::is_saturated(device) && written_back(device).saturating_mul(2) > moved
    };
    let others = facts.devices().iter().filter(is_apart).filter(is_full);
    let device = others.max_by_key(|device| written_back(device))?;
    let written = |row: &&UsedRow<ProcessRow>| row.usage.directions[Direction::Write].bytes;
    let most =
        device.processes.iter().filter(|row| is_program(&row.subject)).max_by_key(written)?;
    let is_most = written(&most).saturating_mul(2) > written_back(device);
    is_most.then(|| facts::subject_of(&device.device, Some(most)))
}

/// The advice where others than the writers of this device wait for the machine's limit; none where
/// the limit of the device is another file, or is there.
fn apart(facts: &Facts<'_>, name: &str) -> String {
    let device = facts.devices().iter().find(|device| device.device == name);
    let mounts = device.map(|device| facts.mounts(device)).unwrap_or_default();
    let has_own_file = mounts.iter().all(|mount| mount.kind != "btrfs");
    let is_strict = device.and_then(|device| facts.latest_number(device, "bdi/strict_limit"));
    if !has_own_file || is_strict == Some(1.0) {
        return String::new();
    }
    let folder = format!("/sys/block/{name}/bdi");
    format!(
        "give {name} a limit of its own, so that only who writes there waits: `echo 1 > \
         {folder}/strict_limit` (Linux 6.2 and later) and `echo 5 > {folder}/max_ratio`; "
    )
}

fn general_fix(facts: &Facts<'_>, waited: &Waited<'_>) -> String {
    let settings = &facts.summary().environment.settings_start;
    let setting = |name: &str| settings.get(name).map_or("?", String::as_str).to_owned();
    // A sort's temporary files are another matter than a checkpoint.
    let own = BottleneckKind::Write.advice(&waited.subject());
    let own = own.map_or_else(String::new, |own| format!("{own}; else "));
    format!(
        "{own}write less or more slowly; give the cgroup more memory (version 2); raise the limits \
         only if the device is fast enough, since syncs then wait for more data: `sysctl \
         vm.dirty_bytes=N`, which affects the entire machine (now vm.dirty_ratio {}, \
         vm.dirty_bytes {}; the one that is 0 is not used)",
        setting("vm/dirty_ratio"),
        setting("vm/dirty_bytes"),
    )
}

/// Whether the throttling hurts more than a bulk writer: a program that writes little sleeps, or
/// one whose latency matters; or others wait.
fn hurts(facts: &Facts<'_>, waited: &Waited<'_>) -> bool {
    let is_slept = |pid: u32| waited.groups.iter().any(|group| group.pid == pid);
    let device = waited.subject().device;
    let others = facts.waits(|it| {
        let near = it.device.is_none() || device.is_none() || it.device == device;
        // Who waits for a lock that the writer holds, or for all that is dirty, has a finding of
        // its own.
        let is_apart = it.class == WaitClass::FsLock || facts.is_call(it.syscall, SYNC_ALL);
        !is_slept(it.pid) && near && !is_apart
    });
    others.time_ns as f64 >= OTHERS * facts.duration_ns() as f64
        || waited.groups.iter().any(|group| is_hurt(facts, group))
}

/// Whether a throttled process is one whose latency matters, or writes little.
fn is_hurt(facts: &Facts<'_>, group: &WaitGroup) -> bool {
    programs::is_store(&group.process, group.file.as_deref())
        || !is_bulk(facts, group.pid)
        || facts.holds_itself_up(group)
}

/// Whether a process writes in bulk: by its calls, or by its pages that reached a device, since a
/// call of seconds is counted when it ends, and calls are not counted all the time.
fn is_bulk(facts: &Facts<'_>, pid: u32) -> bool {
    let summary = facts.summary();
    let rows = summary.activity.iter().flat_map(|it| &it.rows).filter(|row| row.pid == pid);
    let called: u64 = rows.map(|row| row.counts.write_bytes).fold(0, u64::saturating_add);
    let counted_s = facts.seconds() * summary.environment.calls_share();
    let own = summary.processes.rows.iter().find(|row| row.subject.pid == Some(pid));
    let written = own.map_or(0, |row| row.usage.directions[Direction::Write].bytes);
    let is_much = |bytes: u64, seconds: f64| bytes as f64 >= BULK_PER_S * seconds;
    counted_s >= LEAST_COUNTED_S && is_much(called, counted_s) || is_much(written, facts.seconds())
}

#[cfg(test)]
mod tests {
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Thinning;
    use iowhy_model::file::Counts;
    use iowhy_model::metric::process_subject;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{FileActivity, Metric, Origin, WaitClass};

    /// A program that writes this many bytes in ten seconds and is throttled for nine of them,
    /// while another waits for `other_ms`; with a limit of dirty bytes.
    fn severity(name: &str, bytes: u64, other_ms: u64, limit: &str) -> Severity {
        judged(name, bytes, other_ms, limit, None)
    }

    /// The same; calls were counted for `counted_ms`, if that is not all the time.
    fn judged(
        name: &str,
        bytes: u64,
        other_ms: u64,
        limit: &str,
        counted_ms: Option<u64>,
    ) -> Severity {
        let mut script = Script::new(10);
        script.environment.thinning.extend(counted_ms.map(|counted_ms| Thinning {
            from_ns: script.environment.start_ns + counted_ms * MS,
            requests_one_in: 1,
            waits_one_in: 1,
            ..Thinning::default()
        }));
        let limit = ("vm/dirty_bytes".to_owned(), limit.to_owned());
        *script.environment.settings_start = [limit].into();
        for index in 0..300 {
            let write = script.write("sda", 1 << 20).by(9, "kworker").at((index * 33 * MS) as i64);
            write.origin(Origin::Writeback).direct(500, 500, 30 * MS).add();
        }
        let counts = Counts { writes: 100, write_bytes: bytes, ..Counts::default() };
        let (file, own) = (script.names.intern("/data/copy"), script.names.intern(name));
        let row =
            FileActivity { file: Some(file), files: Some(1), ..FileActivity::of(1, 7, &counts) };
        script.batch.files.push(FileActivity { process: Some(own), ..row });
        script.wait((7, name), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
        script.wait((8, "db"), WaitClass::PageRead, other_ms * MS, other_ms * MS, 0);
        for wait in &mut script.batch.waits {
            wait.device = Some(script.batch.requests[0].device);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "dirty-throttle").unwrap().severity
    }

    #[test]
    fn a_copy_is_throttled_as_it_should_be() {
        assert_eq!(severity("cp", 300 << 20, 0, "0"), Severity::Info);
        assert_eq!(
            severity("cp", 300 << 20, 400, "0"),
            Severity::Info,
            "hardly any other process waits"
        );
    }

    #[test]
    fn a_server_that_stops_until_its_dump_is_written_is_held_up() {
        let found = |clients: f64, waited_ms: u64, class: WaitClass| {
            let mut script = Script::new(10);
            for index in 0..300 {
                let write = script.write("sda", 1 << 20).by(1, "java").at((index * 33 * MS) as i64);
                write.origin(Origin::Writeback).direct(500, 500, 30 * MS).add();
            }
            let counts = Counts { writes: 100, write_bytes: 300 << 20, ..Counts::default() };
            script.did((1, "java"), "/dumps/heap.hprof", counts);
            script.sample(1, Metric::WorkClients, &process_subject(1, "java"), clients);
            script.wait((1, "java"), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
            script.waited_on("sda", "/dumps/heap.hprof", 1);
            // The thread that dumps is not the one that the process began with.
            script.batch.waits[0].tid = 3;
            script.chain(&[(2, "VM Thread"), (3, "GC Thread")], waited_ms * MS, waited_ms * MS);
            let last = script.batch.wait_chains.last_mut().unwrap();
            (last.class, last.file) = (Some(class), None);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "dirty-throttle").unwrap()
        };
        let still = found(3.0, 9000, WaitClass::DirtyThrottle);
        assert!(still.severity > Severity::Info, "{still:?}");
        assert!(still.sentence.contains("and its other threads wait for that"), "{still:?}");
        for (other, why) in [
            (found(3.0, 100, WaitClass::DirtyThrottle), "nobody waits for it"),
            (found(0.0, 9000, WaitClass::DirtyThrottle), "it works for nobody"),
            (found(3.0, 9000, WaitClass::Fsync), "its threads wait for something else"),
        ] {
            assert_eq!(other.severity, Severity::Info, "{why}");
        }
    }

    /// A copy that is throttled for `copy_ms`, whose data fill sdb by writes of that origin, beside
    /// a spool on sda that is throttled for three seconds and writes once.
    fn beside_a_spool(copy_ms: u64, origin: Origin) -> Script {
        let mut script = Script::new(10);
        for index in 0..50 {
            let write = script.write("sdb", 1 << 20).by(7, "cp");
            let write = write.at((index * 200 * MS) as i64).origin(origin);
            write.direct(500, 500, 600 * MS).add();
        }
        script.write("sda", 4096).by(8, "spool").direct(500, 500, MS).add();
        if copy_ms > 0 {
            script.wait((7, "cp"), WaitClass::DirtyThrottle, copy_ms * MS, 0, 0);
            script.waited_on("sdb", "/media/film", 1);
        }
        script.wait((8, "spool"), WaitClass::DirtyThrottle, 3000 * MS, 0, 0);
        script.waited_on("sda", "/srv/job", 1);
        let counts = Counts { writes: 100, write_bytes: 60 << 20, ..Counts::default() };
        script.did((7, "cp"), "/media/film", counts);
        script
    }

    #[test]
    fn who_writes_to_another_disk_is_held_up_by_the_machine_s_limit() {
        let found = |copy_ms, origin| {
            let findings = diagnose(&beside_a_spool(copy_ms, origin).summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "dirty-throttle").unwrap()
        };
        let both = found(9000, Origin::Writeback);
        let said = "puts it and spool (8), which writes to sda, to sleep";
        assert!(both.sentence.contains(said), "{}", both.sentence);
        assert!(both.fix.starts_with("give sdb a limit of its own"), "{}", both.fix);
        assert!(both.severity >= Severity::Warning, "{both:?}");
        let spool = found(0, Origin::Writeback);
        let said = "cp (7) writes faster than sdb: the dirty page limit puts spool (8)";
        assert!(spool.sentence.starts_with(said), "{}", spool.sentence);
        assert!(spool.fix.starts_with("give sdb a limit of its own"), "{}", spool.fix);
        // Direct writes dirty no page.
        let direct = found(0, Origin::Write);
        assert!(!direct.sentence.contains("cp"), "{}", direct.sentence);
    }

    #[test]
    fn a_copy_to_a_disk_that_takes_little_is_slow() {
        let found = |apart_ms: u64| {
            let mut script = Script::new(10);
            for index in 0..10_000 / apart_ms {
                let write = script.write("sda", 1 << 20).by(9, "kworker");
                let write = write.at((index * apart_ms * MS) as i64).origin(Origin::Writeback);
                write.direct(500, 500, 3 * apart_ms * MS).add();
            }
            script.wait((7, "cp"), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
            script.waited_on("sda", "/data/copy", 1);
            let counts = Counts { writes: 100, write_bytes: 60 << 20, ..Counts::default() };
            script.did((7, "cp"), "/data/copy", counts);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "dirty-throttle").unwrap()
        };
        let slow = found(200);
        assert_eq!(slow.severity, Severity::Warning);
        let said = "; sda takes only 5.00 MiB a second, in requests of 1.00 MiB";
        assert!(slow.sentence.ends_with(said), "{}", slow.sentence);
        assert!(slow.fix.starts_with("a sound disk takes ten times as much"), "{}", slow.fix);
        assert_eq!(found(20).severity, Severity::Info);
    }

    #[test]
    fn calls_that_were_counted_for_a_second_are_a_tenth() {
        assert_eq!(judged("cp", 30 << 20, 0, "0", Some(1000)), Severity::Info);
        assert_eq!(judged("cp", 3 << 20, 0, "0", Some(1000)), Severity::Critical);
        assert_eq!(judged("cp", 30 << 20, 0, "0", None), Severity::Critical);
    }

    #[test]
    fn who_writes_little_or_makes_others_wait_is_hurt() {
        // A plain write of 512 bytes that takes 12.7 ms.
        assert_eq!(severity("dd", 403_000, 0, "0"), Severity::Critical);
        assert_eq!(severity("cp", 300 << 20, 4000, "0"), Severity::Critical);
        assert_eq!(severity("postgres", 300 << 20, 0, "0"), Severity::Critical);
    }

    #[test]
    fn who_fills_the_device_is_named_before_who_sleeps() {
        let sentence = |writer: &str| {
            let mut script = Script::new(10);
            for index in 0..300 {
                let at = (index * 33 * MS) as i64;
                let write = script.write("sda", 1 << 20).by(9, writer).at(at);
                write.origin(Origin::Writeback).direct(500, 500, 30 * MS).add();
            }
            script.wait((7, "web"), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
            script.batch.waits[0].device = Some(script.batch.requests[0].device);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "dirty-throttle").unwrap().sentence
        };
        let named = sentence("cp");
        assert!(named.starts_with("cp (9) writes faster than the device"), "{named}");
        assert!(named.ends_with("puts web (7) to sleep, too"), "{named}");
        // The kernel's own thread writes for others.
        assert!(sentence("kworker/u8:1").starts_with("web (7) writes"));
    }

    #[test]
    fn a_limit_that_is_too_low_hurts() {
        assert_eq!(severity("cp", 300 << 20, 0, "16777216"), Severity::Critical);
        assert_eq!(severity("cp", 300 << 20, 0, "1073741824"), Severity::Info);
    }

    #[test]
    fn a_limit_of_the_devices_own_hurts() {
        let found = |dirty: f64, strict: &str, busy_ms: u64| {
            let mut script = Script::new(10);
            script.device("sda", &[("bdi/strict_limit", strict), ("bdi/max_ratio", "100")]);
            for index in 0..300 {
                let at = (index * 33 * MS) as i64;
                let write = script.write("sda", 1 << 20).by(9, "kworker").at(at);
                let write = write.origin(Origin::Writeback);
                write.direct(500, 500, busy_ms * MS).add();
            }
            for at in [0, 9000 * MS] {
                script.sample(at, Metric::Dirty, "", dirty);
                script.sample(at, Metric::DirtyThreshold, "", 4e9);
                script.sample(at, Metric::DirtyBackgroundThreshold, "", 2e9);
            }
            script.wait((7, "cp"), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
            script.waited_on("sda", "/data/copy", 1);
            let counts = Counts { writes: 100, write_bytes: 300 << 20, ..Counts::default() };
            script.did((7, "cp"), "/data/copy", counts);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "dirty-throttle").unwrap()
        };
        let strict = found(3e8, "1", 20);
        assert_eq!(strict.severity, Severity::Critical);
        assert!(strict.sentence.ends_with("sda has a limit of its own (bdi)"), "{strict:?}");
        assert!(strict.fix.contains("echo 0 > /sys/block/sda/bdi/strict_limit"), "{strict:?}");
        assert!(
            found(3e8, "0", 20).sentence.ends_with("a limit of sda (bdi) or of its cgroup does")
        );
        // At the machine's limit, or at the speed of the device.
        assert_eq!(found(2.9e9, "0", 20).severity, Severity::Info);
        assert_eq!(found(3e8, "0", 60).severity, Severity::Info);
    }
}
