//! One file sees direct and buffered I/O at the same time.

use super::*;
use iowhy_analysis::summary::patterns::FilePattern;

/// The least number of requests of each kind. A buffered writer may have none yet, since dirty
/// pages wait for half a minute: then as many waits for the file's lock that direct I/O holds.
const BOTH: u64 = 20;
/// Functions that flush or invalidate the page cache before direct I/O.
const CLEAN: &[&str] = &[
    "kiocb_invalidate_pages",
    "invalidate_inode_pages2_range",
    "filemap_write_and_wait_range",
    "kiocb_write_and_wait",
];
/// Buffered writes take a file's lock exclusively, and direct I/O holds it until its requests
/// complete.
const BUFFERED: &[&str] =
    &["ext4_buffered_write_iter", "xfs_file_buffered_write", "btrfs_buffered_write"];
/// Direct I/O that shares the lock with other direct I/O, and waits only for exclusive holders.
const SHARED: &[&str] = &["rwsem_down_read_slowpath"];
const DIRECT: &[&str] = &["ext4_dio_*", "xfs_file_dio_*", "btrfs_direct_*", "btrfs_dio_*"];

rule!(
    "direct-buffered-mix",
    "direct and buffered I/O on one file",
    "Direct I/O must stay coherent with the page cache: before it touches a range, dirty pages \
     there are written and waited for, and cached ones are invalidated. A file with both direct \
     and buffered users pays for both each time, and a buffered write waits for the file's lock \
     until the direct I/O in flight completes.",
    "The two kinds of I/O are on different files, or at different times.",
    place: Program,
    needs: [Files],
    bound: [
        "the time of the file's requests; if it is more, or none of its cached pages was written \
         or read yet: of the blocked time, the waits for writeback of its cached pages and, at \
         its lock, for its users in the other mode",
        "most of it is needed in one mode, too",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_files()?;
    let mixed = |file: &&FilePattern| {
        file.direct >= BOTH && (through_cache(file) >= BOTH || at_lock(facts, file).1 >= BOTH)
    };
    let found = facts.summary().patterns.devices.iter().filter_map(|patterns| {
        let file = patterns.access.files.iter().filter(mixed).max_by_key(|file| file.time_ns)?;
        Some((patterns.device.as_str(), file))
    });
    let Some((name, file)) = found.max_by_key(|(_, file)| file.time_ns) else {
        return Ok(RuleVerdict::Clear);
    };
    let device = facts.devices().iter().find(|device| device.device == name).ok_or(Clear)?;
    Ok(finding(facts, device, file).into())
}

fn through_cache(file: &FilePattern) -> u64 {
    file.cached + file.faults
}

fn finding<'a>(facts: &Facts<'a>, device: &'a DeviceSummary, file: &FilePattern) -> Finding {
    let name = &device.device;
    let ((cleaning_ns, _), (locked_ns, locked)) = (facts.waits_in(CLEAN), at_lock(facts, file));
    let sentence = format!(
        "{} sees direct and buffered I/O at once: {} direct and {} cached requests, {} waits for \
         its lock between the two",
        file.file,
        words::count(file.direct),
        words::count(through_cache(file)),
        words::count(locked),
    );
    let of_requests =
        Finding::of_device(facts, file.time_ns, facts::device_time_ns(device), sentence.clone());
    let at_file = facts.waits(|it| it.file.as_deref() == Some(&file.file));
    let held = Claims::of_waits(&at_file).limited_to(cleaning_ns + locked_ns);
    let of_requests = match locked_ns {
        0 => of_requests,
        _ => of_requests.claiming(Claims::of_device(facts, name).and(&held)),
    };
    let of_threads = Finding::of_blocked(facts, cleaning_ns + locked_ns, sentence).claiming(held);
    let cleans = through_cache(file) >= BOTH;
    let finding =
        if !cleans || of_threads.impact > of_requests.impact { of_threads } else { of_requests };
    finding
        .about(Subject {
            file: Some(file.file.clone()),
            ..facts::subject_of(name, facts.top_process(device, |_| true))
        })
        // Either kind alone needs most of that time, too.
        .upper_bound()
        .sure(if cleaning_ns > 0 || locked_ns > 0 {
            Confidence::Certain
        } else {
            Confidence::Likely
        })
        .shown("direct requests", file.direct as f64 / facts.seconds(), "1/s", "iowhy files")
        .also("page cache requests", through_cache(file) as f64 / facts.seconds(), "1/s")
        .shown("time in page cache flush and invalidation", cleaning_ns as f64, "ns", "iowhy waits")
        .also("time waiting for the file's lock", locked_ns as f64, "ns")
        .fix(
            "use one kind of I/O on the file: both programs with O_DIRECT, or both without; back \
              up a database's files through its own interface",
        )
        .check(
            "while the program with buffered I/O is stopped, direct I/O gets faster; if not, the \
                mix is not the cause",
        )
}

/// Returns how long threads waited for the file's lock because of the other kind of I/O,
/// nanoseconds, and how often; capped per thread at the time direct I/O was in flight.
fn at_lock(facts: &Facts<'_>, file: &FilePattern) -> (u64, u64) {
    let of_file = facts
        .waits(|group| group.class == WaitClass::FsLock && group.file.as_ref() == Some(&file.file));
    let sum = |of: fn(&WaitGroup) -> u64| {
        of_file.groups.iter().map(|group| of(group)).fold(0_u64, u64::saturating_add)
    };
    let (for_others_ns, for_others) = facts.waits_with(|stack| {
        let has = |functions| facts::has_function(&stack.functions, functions);
        stack.class == WaitClass::FsLock && (has(BUFFERED) || (has(SHARED) && has(DIRECT)))
    });
    let most_ns = of_file.class_ns.min(file.direct_ns.saturating_mul(sum(|group| group.threads)));
    (for_others_ns.min(most_ns), for_others.min(sum(|group| group.waits)))
}

#[cfg(test)]
mod tests {
    use crate::finding::ImpactOf;
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, S, Script};
    use iowhy_model::{Origin, WaitClass};

    /// `direct` direct writes of 10 ms each to a file, concurrently with fifty writebacks of its
    /// pages, and `others` of another file.
    fn script(direct: u64, others: u64) -> Script {
        let mut script = Script::new(10);
        for index in 0..direct {
            let write = script.write("sda", 16_384).by(7, "db").at((index * 10 * MS) as i64);
            write.sector(index * 800).file("/data/table").direct(0, 0, 10 * MS).add();
        }
        for index in 0..50 {
            let write =
                script.write("sda", 4096).origin(Origin::Writeback).at((index * 90 * MS) as i64);
            let write =
                write.sector((1 << 20) + index * 64).part(Ok("/data/table"), 2048, Ok((8, "app")));
            let write = write.part(Ok("/data/table"), 2048, Err("dirtied before the watch"));
            write.direct(0, 0, MS).add();
        }
        for index in 0..others {
            let write = script.write("sda", 4096).by(9, "log").at((index * 15 * MS) as i64);
            write.sector((1 << 22) + index * 8).file("/data/other").direct(0, 0, 300 * MS).add();
        }
        script.wait((9, "log"), WaitClass::Device, 2 * S, 2 * S, 0);
        script
    }

    /// A process waits for the lock of `file` in such calls for `ns`.
    fn wait_at_lock(script: &mut Script, file: &str, frames: &[&str], ns: u64) {
        for pid in [8, 10] {
            script.wait((pid, "app"), WaitClass::FsLock, ns / 2, 0, 0);
            script.stacked(frames);
            let (file, device) = (script.names.intern(file), script.names.intern("sda"));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.file, wait.device) = (Some(file), Some(device));
        }
    }

    fn found(script: &Script) -> Vec<Finding> {
        diagnose(&script.summary()).findings
    }

    fn of<'a>(findings: &'a [Finding], cause: &str) -> Option<&'a Finding> {
        findings.iter().find(|finding| finding.cause == cause)
    }

    #[test]
    fn who_waits_for_the_other_way_waits_for_the_mix() {
        let mut script = script(900, 500);
        let frames = ["rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter"];
        wait_at_lock(&mut script, "/data/table", &frames, 6 * S);
        let found = found(&script);
        let mix = of(&found, "direct-buffered-mix").unwrap();
        assert_eq!((mix.impact, mix.impact_of), (0.75, ImpactOf::BlockedTime));
        assert!(mix.impact_at_most && mix.severity == Severity::Critical, "{mix:?}");
        assert!(mix.symptoms.contains(&"inode-lock") && of(&found, "inode-lock").is_none());
    }

    #[test]
    fn dirty_pages_that_wait_to_be_written_are_a_way_as_well() {
        for (waits, function, is_mix) in [
            (12, "ext4_buffered_write_iter", true),
            (12, "ext4_dio_write_iter", false),
            (4, "ext4_buffered_write_iter", false),
        ] {
            let mut script = script(900, 0);
            script.batch.requests.truncate(900);
            for _ in 0..waits {
                let frames = ["rwsem_down_write_slowpath", "down_write", function];
                wait_at_lock(&mut script, "/data/table", &frames, S / 2);
            }
            let found = found(&script);
            let mix = of(&found, "direct-buffered-mix");
            assert_eq!(mix.is_some(), is_mix, "{found:#?}");
            assert!(
                mix.is_none_or(|mix| mix.sentence.contains("0 cached requests, 24 waits")),
                "{mix:?}"
            );
            assert!(mix.is_none_or(|mix| mix.impact_of == ImpactOf::BlockedTime), "{mix:?}");
        }
    }

    #[test]
    fn the_lock_of_another_file_is_no_symptom() {
        let frames = ["rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter"];
        for (file, is_symptom) in [("/data/table", true), ("/data/else", false)] {
            let mut script = script(900, 0);
            wait_at_lock(&mut script, file, &frames, 6 * S);
            let found = found(&script);
            let mix = of(&found, "direct-buffered-mix").unwrap();
            assert_eq!((mix.impact, mix.impact_of), (1.0, ImpactOf::DeviceTime));
            assert_eq!(mix.evidence[3].figure > 0.0, is_symptom);
            assert_eq!(of(&found, "inode-lock").is_none(), is_symptom, "{found:#?}");
        }
    }

    #[test]
    fn direct_appenders_wait_for_each_other() {
        let mut script = script(900, 500);
        let frames = ["rwsem_down_write_slowpath", "down_write", "ext4_dio_write_iter"];
        wait_at_lock(&mut script, "/data/table", &frames, 6 * S);
        let found = found(&script);
        assert_eq!(of(&found, "direct-buffered-mix").unwrap().evidence[3].figure, 0.0);
    }

    #[test]
    fn little_direct_io_keeps_nobody_for_long() {
        let mut script = script(25, 500);
        let frames = ["rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter"];
        wait_at_lock(&mut script, "/data/table", &frames, 6 * S);
        // 25 direct writes of 10 ms, for which two threads can have waited.
        let found = found(&script);
        assert_eq!(of(&found, "direct-buffered-mix").unwrap().evidence[3].figure, 0.5 * 1e9);
    }

    #[test]
    fn one_way_is_no_mix() {
        assert_eq!(of(&found(&script(0, 500)), "direct-buffered-mix"), None);
    }
}
