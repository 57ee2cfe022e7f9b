//! The file system works on a CPU for what a program asks: it searches directories, and compresses
//! or decompresses data.
//!
//! What does not belong here: threads that want a CPU and get none (see `cpu_starvation`).

use super::*;
use crate::facts::thresholds::WARNING_SHARE;
use iowhy_analysis::summary::ActivityRow;
use iowhy_model::Metric;
use iowhy_model::environment::Mount;
use iowhy_model::path_patterns::without_numbers;
use std::collections::BTreeMap;

/// The most that a call from memory takes, nanoseconds: a lookup takes microseconds. Chosen: many
/// times that.
const CALL_NS: u64 = 100_000;
/// The most that a byte from memory takes, nanoseconds: a tenth of a gigabyte per second. Chosen.
const BYTE_NS: u64 = 10;
/// The largest share of the watch in which the device may be busy, for waits to be for the kernel's
/// workers and not for it. Chosen.
const IDLE_DEVICE: f64 = 0.5;
/// File systems whose blocks are compressed as a whole when the image is built.
const IMAGES: &[&str] = &["squashfs", "erofs", "cramfs"];

rule!(
    "file-system-cpu",
    "CPU time in the file system",
    "A file system computes: it decompresses a whole block for each part that is read, compresses \
     what is written, or searches a directory name by name where it has no index. The program is \
     in its call meanwhile, or waits for the kernel's workers; the device has little to do.",
    "The device is busy meanwhile; or calls are served from memory within microseconds.",
    place: Setting,
    needs: [Waits, Calls],
);

/// The work of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Decompress,
    Compress,
    Search,
    Unknown,
}

/// The time of a process.
pub(super) struct BusyCalls<'a> {
    subject: Subject,
    mount: Option<&'a Mount>,
    work: Work,
    time_ns: u64,
    calls: u64,
    claims: Claims,
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let found = in_calls(facts).into_iter().chain(behind_workers(facts)).chain(reserving(facts));
    let found = found.filter(|it| share(facts, it) >= WARNING_SHARE);
    let most = found.max_by_key(|it| it.time_ns);
    Ok(most.map_or(RuleVerdict::Clear, |most| finding(facts, &most).into()))
}

fn share(facts: &Facts<'_>, busy: &BusyCalls<'_>) -> f64 {
    busy.time_ns as f64 / facts.duration_ns().max(1) as f64
}

/// Returns the processes whose calls on files take longer than from memory, without waits.
fn in_calls<'a>(facts: &Facts<'a>) -> Vec<BusyCalls<'a>> {
    let mut processes: BTreeMap<(u32, &str), Vec<&ActivityRow>> = BTreeMap::new();
    for row in facts.summary().activity.iter().flat_map(|report| &report.rows) {
        let Some(process) = row.process.as_deref() else { continue };
        processes.entry((row.pid, process)).or_default().push(row);
    }
    processes
        .into_iter()
        .filter_map(|((pid, name), rows)| of_process(facts, pid, name, &rows))
        .collect()
}

fn of_process<'a>(
    facts: &Facts<'a>,
    pid: u32,
    name: &str,
    rows: &[&ActivityRow],
) -> Option<BusyCalls<'a>> {
    let sum =
        |of: fn(&ActivityRow) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    let calls = sum(|row| row.counts.calls());
    // Of few calls that were timed, their mean says little about the others.
    if sum(|row| row.counts.timed_calls).saturating_mul(2) < calls {
        return None;
    }
    let bytes = sum(|row| row.counts.read_bytes.saturating_add(row.counts.write_bytes));
    let own = facts.waits(|group| group.pid == pid && group.process == name);
    // A call can be interrupted for others on its CPU, too.
    let waited_ns: u64 =
        own.groups.iter().map(|group| group.time_ns + group.beside_ns).fold(0, u64::saturating_add);
    let time_ns = sum(|row| row.time_ns.unwrap_or(0)).saturating_sub(waited_ns);
    let from_memory_ns =
        calls.saturating_mul(CALL_NS).saturating_add(bytes.saturating_mul(BYTE_NS));
    let time_ns = time_ns.checked_sub(from_memory_ns).filter(|time_ns| *time_ns > 0)?;
    // A call that neither waits nor computes is one of a thread that was not let run.
    let computed = facts.cpu_share(Metric::ProcessSystemCpu, pid);
    let computed_ns = computed.map(|share| (share * facts.duration_ns() as f64) as u64);
    let time_ns = time_ns.min(computed_ns.unwrap_or(u64::MAX));
    let most = rows.iter().max_by_key(|row| row.time_ns)?;
    let file = most.file.as_deref();
    let mount = file.and_then(|file| image_within(facts, file).or(facts.mount_of_file(file)));
    let names_ns = sum(|row| row.counts.other_ns);
    let work = match mount {
        Some(mount) if IMAGES.contains(&mount.kind.as_str()) => Work::Decompress,
        Some(mount) if compression(mount).is_some() => Work::Compress,
        _ if names_ns >= sum(|row| row.time_ns.unwrap_or(0)) / 2 => Work::Search,
        // What it computes is not known: that it does must be.
        _ => computed.map(|_| Work::Unknown)?,
    };
    let subject = Subject {
        device: mount.and_then(|mount| device_of(facts, mount)),
        process: Some(name.to_owned()),
        pid: Some(pid),
        container: most.container.clone(),
        file: most.file.clone(),
    };
    let claims = Claims::of_calls(pid, time_ns);
    Some(BusyCalls { subject, mount, work, time_ns, calls, claims })
}

/// Returns the only image that is mounted within a pattern of files: it may name less than the path
/// that the image is mounted at.
fn image_within<'a>(facts: &Facts<'a>, file: &str) -> Option<&'a Mount> {
    let folder = file.strip_suffix("**").filter(|folder| *folder != "/")?;
    let mounts = facts.summary().environment.mounts.iter();
    let mut within = mounts.filter(|mount| {
        IMAGES.contains(&mount.kind.as_str()) && without_numbers(&mount.path).starts_with(folder)
    });
    within.next().filter(|_| within.next().is_none())
}

/// Returns the program that waits longest for the kernel to compress what it writes, while the
/// device has little to do. Many tools that write are started anew each time.
fn behind_workers<'a>(facts: &Facts<'a>) -> Option<BusyCalls<'a>> {
    let mount_of = |group: &WaitGroup| {
        let mount = facts.mount_of_file(group.file.as_deref()?)?;
        compression(mount).map(|_| mount)
    };
    let is_idle = |group: &WaitGroup| {
        let device = facts.devices().iter().find(|row| Some(&row.device) == group.device.as_ref());
        device.is_none_or(|row| row.util_share.is_some_and(|share| share < IDLE_DEVICE))
    };
    let is_behind = |group: &WaitGroup| {
        matches!(group.class, WaitClass::PageLock | WaitClass::Fsync)
            && is_idle(group)
            && mount_of(group).is_some()
    };
    let mut programs: BTreeMap<(&str, Option<&str>), u64> = BTreeMap::new();
    for group in &facts.waits(is_behind).groups {
        *programs.entry((&group.process, group.container.as_deref())).or_default() += group.time_ns;
    }
    let (program, _) = programs.into_iter().max_by_key(|(_, time_ns)| *time_ns)?;
    let waited = facts.waits(|group| {
        (group.process.as_str(), group.container.as_deref()) == program && is_behind(group)
    });
    let first = waited.groups.first()?;
    let is_one = waited.groups.iter().all(|group| group.pid == first.pid);
    let subject = waited.subject();
    Some(BusyCalls {
        subject: Subject { pid: subject.pid.filter(|_| is_one), ..subject },
        mount: mount_of(first),
        work: Work::Compress,
        time_ns: waited.class_ns,
        calls: waited.calls,
        claims: Claims::of_class(&waited),
    })
}

/// Returns the program that waits longest until btrfs can reserve space, where space is not short:
/// what was written before holds its reservation until workers have compressed it.
pub(super) fn reserving<'a>(facts: &Facts<'a>) -> Option<BusyCalls<'a>> {
    let mounts = || facts.summary().environment.mounts.iter().filter(|it| it.kind == "btrfs");
    // Of these waits neither device nor mount is known.
    let mount = mounts().next().filter(|_| mounts().all(|it| compression(it).is_some()))?;
    let is_full = |mount: &Mount| {
        let space = mount.free_bytes.zip(mount.bytes);
        space.is_none_or(|(free, all)| free as f64 <= super::space_nearly_full::FREE * all as f64)
    };
    let device = device_of(facts, mount)?;
    let row = facts.devices().iter().find(|row| row.device == device)?;
    let is_idle = row.util_share.is_some_and(|share| share < IDLE_DEVICE);
    if !is_idle || mounts().any(is_full) {
        return None;
    }
    let tickets = facts.stacked(super::space_nearly_full::TICKETS);
    let (subject, class) = (tickets.subject(), tickets.stacks.first()?.class);
    let waited = facts.waits(|group| {
        let is_own = Some(&group.process) == subject.process.as_ref();
        is_own && group.class == class && group.device.is_none()
    });
    (2 * tickets.time_ns >= waited.time_ns).then(|| BusyCalls {
        subject: Subject { device: Some(device), ..subject },
        mount: Some(mount),
        work: Work::Compress,
        time_ns: waited.class_ns,
        calls: waited.calls,
        claims: Claims::of_class(&waited),
    })
}

/// Returns the mount option that has data compressed.
fn compression(mount: &Mount) -> Option<&str> {
    mount.options.split(',').find(|option| option.starts_with("compress"))
}

fn device_of(facts: &Facts<'_>, mount: &Mount) -> Option<String> {
    let mut devices = facts.devices().iter();
    let on = devices.find(|row| mount.is_on(&row.device, (row.major, row.minor)))?;
    Some(on.device.clone())
}

fn finding(facts: &Facts<'_>, busy: &BusyCalls<'_>) -> Finding {
    let share = share(facts, busy).min(1.0);
    let flags = words::flags(&busy.subject);
    let impact =
        busy.time_ns as f64 / facts.blocked_ns().saturating_add(busy.time_ns).max(1) as f64;
    Finding::of_share(ImpactOf::BlockedTime, impact, share, sentence(busy, share))
        .claiming(busy.claims.clone())
        .holding(share)
        .about(busy.subject.clone())
        .upper_bound()
        .shown("time in the file system", busy.time_ns as f64, "ns", format!("iowhy files{flags}"))
        .also("share of its time", share * 100.0, "%")
        .also("calls", busy.calls as f64 / facts.seconds(), "1/s")
        .fix(fix(busy.work))
        .check(format!(
            "`perf top -p {}`, or of the kworkers, names the functions of the kernel: those that \
             decompress (xz_dec_run, ZSTD_*), compress or search (ext4_search_dir); if the program \
             itself computes, the file system is not the cause",
            words::pid(&busy.subject),
        ))
}

/// `icons.py (812) spends 46 % of its time in calls on /img/*, 14.0 ms each, without waiting: …`
fn sentence(busy: &BusyCalls<'_>, share: f64) -> String {
    let place =
        busy.mount.map_or_else(String::new, |mount| format!("{} ({})", mount.path, mount.kind));
    let what = match busy.work {
        Work::Decompress => format!("{place} decompresses a whole block for what is read of it"),
        Work::Compress => {
            let option = busy.mount.and_then(compression).unwrap_or_default();
            format!("{place} compresses what is written ({option})")
        }
        Work::Search => format!("{place} searches its directories for each name"),
        Work::Unknown => format!("{place} computes (checksums, encryption, lists of extents)"),
    };
    let file = busy.subject.file.as_ref().map(|file| format!(" on {file}")).unwrap_or_default();
    format!(
        "{} spends {} of its time in calls{file}, {} each, while no device works for it: {what} \
         on a CPU",
        words::who(&busy.subject),
        words::percent(share),
        words::time(busy.time_ns as f64 / busy.calls.max(1) as f64),
    )
}

const fn fix(work: Work) -> &'static str {
    match work {
        Work::Decompress => {
            "build the image with smaller blocks and an algorithm that decompresses faster \
             (mksquashfs -b 16K -comp zstd or lz4), or unpack what is read often"
        }
        Work::Compress => {
            "use a lower level or another algorithm (compress=zstd:1, lzo), or none for these \
             files (`btrfs property set FILE compression none`)"
        }
        Work::Search => {
            "spread the files over more directories (`ls -f DIRECTORY | wc -l` counts them); on \
             ext4 see whether directories have an index (dir_index in `dumpe2fs -h DEVICE`; if \
             not, `tune2fs -O dir_index` and `e2fsck -fD` add it while it is not mounted)"
        }
        Work::Unknown => {
            "find what the kernel computes (check); keep what is used often in memory, or use a \
             cheaper checksum or cipher"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::FileActivity;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, S, Script};

    /// A program that is in so many calls on a file for five of ten seconds, and waits for
    /// `waited_ms` of them.
    fn found(file: &str, counts: &Counts, waited_ms: u64) -> Option<Finding> {
        found_computing(file, counts, waited_ms, None)
    }

    /// The same, of a program that is within the kernel on a CPU for that time.
    fn found_computing(
        file: &str,
        counts: &Counts,
        waited_ms: u64,
        system_ms: Option<u64>,
    ) -> Option<Finding> {
        let mut script = Script::new(10);
        script.mount("/img", "squashfs", "/dev/loop1");
        script.mount("/srv/app/img", "squashfs", "/dev/loop2");
        script.mount("/mail", "ext4", "/dev/sda");
        script.read("sda", 4096).direct(0, 0, 1000).add();
        let [file, own] = [file, "web"].map(|name| script.names.intern(name));
        let row =
            FileActivity { file: Some(file), files: Some(1), ..FileActivity::of(1, 7, counts) };
        script.batch.files.push(FileActivity { process: Some(own), ..row });
        script.wait((7, "web"), WaitClass::PageRead, waited_ms * MS, waited_ms * MS, 0);
        for (at, ns) in system_ms.into_iter().flat_map(|ms| [(0, 0), (10 * S, ms * MS)]) {
            script.sample(at, Metric::ProcessSystemCpu, "7 web", ns as f64);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "file-system-cpu")
    }

    fn reads() -> Counts {
        let of = Counts { reads: 500, read_bytes: 4_000_000, ..Counts::default() };
        Counts { timed_calls: 500, read_ns: 5 * S, ..of }
    }

    fn renames(count: u64) -> Counts {
        Counts { renames: count, timed_calls: count, other_ns: 5 * S, ..Counts::default() }
    }

    #[test]
    fn time_in_calls_that_is_no_wait_is_the_file_systems() {
        let image = found("/img/1.svg", &reads(), 100).unwrap();
        assert!(image.sentence.contains("/img (squashfs) decompresses"), "{}", image.sentence);
        let mail = found("/mail/new/1", &renames(2000), 0).unwrap();
        assert!(mail.sentence.contains("searches its directories"), "{}", mail.sentence);
        assert!(mail.severity == Severity::Warning && mail.fix.contains("dir_index"), "{mail:?}");
    }

    #[test]
    fn files_of_one_pattern_may_be_within_an_image() {
        let found = found("/srv/app/**", &reads(), 100).unwrap();
        assert!(
            found.sentence.contains("/srv/app/img (squashfs) decompresses"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn calls_that_wait_or_are_fast_are_not() {
        assert_eq!(found("/img/1.svg", &reads(), 4500), None, "it waits for the device");
        assert_eq!(found("/mail/new/1", &renames(60_000), 0), None, "a call takes 80 µs");
        let large = Counts { read_bytes: 600_000_000, ..reads() };
        assert_eq!(found("/img/1.svg", &large, 0), None, "it reads much");
        let few = Counts { timed_calls: 200, read_ns: 2 * S, ..reads() };
        assert_eq!(found("/img/1.svg", &few, 0), None, "few calls were timed");
    }

    #[test]
    fn who_was_not_let_run_computes_nothing() {
        assert!(found_computing("/img/1.svg", &reads(), 100, Some(4000)).is_some());
        assert_eq!(found_computing("/img/1.svg", &reads(), 100, Some(300)), None);
        // Of a file system that need not compute, only what was seen to.
        assert_eq!(found("/mail/new/1", &reads(), 100), None);
        let seen = found_computing("/mail/new/1", &reads(), 100, Some(4000)).unwrap();
        assert!(seen.sentence.contains("computes (checksums"), "{}", seen.sentence);
    }

    #[test]
    fn a_reservation_waits_for_the_compression_where_space_is_not_short() {
        let first = |option: &str, free: u64| {
            let mut script = Script::new(10);
            script.mount("/archive", "btrfs", "/dev/sda");
            let mount = &mut script.environment.mounts[0];
            mount.options = format!("rw,{option}");
            (mount.bytes, mount.free_bytes) = (Some(1000), Some(free));
            script.write("sda", 4096).direct(0, 0, 1000).add();
            for _ in 0..8 {
                script.wait((7, "tar"), WaitClass::Unknown, S, 0, 0);
                script.stacked(&["handle_reserve_ticket", "__reserve_bytes"]);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().next().unwrap()
        };
        let found = first("compress-force=zstd:15", 900);
        assert_eq!(found.cause, "file-system-cpu", "{found:?}");
        assert!(found.sentence.starts_with("tar (7) spends 80 %"), "{}", found.sentence);
        assert!(found.sentence.contains("/archive (btrfs) compresses"), "{}", found.sentence);
        assert_eq!(first("compress-force=zstd:15", 50).cause, "space-nearly-full");
        assert_eq!(first("discard=async", 900).cause, "space-nearly-full");
    }

    #[test]
    fn programs_started_anew_each_time_wait_together_for_the_compression() {
        let found = |option: &str, pids: u32| {
            let mut script = Script::new(10);
            script.mount("/pictures", "btrfs", "/dev/sda");
            script.environment.mounts[0].options = format!("rw,{option}");
            script.read("sda", 4096).direct(0, 0, 1000).add();
            for pid in 0..pids {
                script.wait((100 + pid, "sync"), WaitClass::PageLock, 500 * MS, 0, 0);
                script.waited_on("sda", "/pictures/new", 74);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "file-system-cpu")
        };
        let all = found("compress-force=zstd:15", 8).unwrap();
        assert!(all.sentence.starts_with("sync spends 40 %"), "{}", all.sentence);
        assert!(all.sentence.contains("compress-force=zstd:15"), "{}", all.sentence);
        assert_eq!(found("compress-force=zstd:15", 1), None, "a twentieth of the time");
        assert_eq!(found("discard=async", 8), None);
    }
}
