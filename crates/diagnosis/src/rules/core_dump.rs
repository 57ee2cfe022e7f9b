//! The kernel writes the memory of a crashed program to a file.

use super::*;
use crate::programs;

/// Functions that write a core dump.
const FUNCTIONS: &[&str] = &[
    "do_coredump",
    "vfs_coredump",
    "elf_core_dump",
    "elf_fdpic_core_dump",
    "coredump_write",
    "dump_emit*",
    "dump_user_range",
    "__dump_emit",
];

/// Functions that end a program by a signal, after its dump is written, and close its files.
const ENDED: [&[&str]; 2] = [&["get_signal"], &["__fput", "ext4_release_file"]];

rule!(
    "core-dump",
    "core dump",
    "When a program crashes, the kernel writes its memory to a file (kernel.core_pattern), \
     gigabytes for a large program, as fast as the page cache takes it. The write-back saturates \
     the device, and the commits of others wait behind it.",
    "No program crashed, or core dumps go to a device of their own.",
    place: Program,
    needs: [Waits],
);

/// Whether a device writes a file with the kernel's own name for dumps.
fn has_dump(facts: &Facts<'_>, device: Option<&str>) -> bool {
    let is_dump = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or(file);
        name == "core" || name.starts_with("core.")
    };
    let Some(patterns) = device.and_then(|device| facts.patterns(device)) else { return false };
    patterns.access.files.iter().any(|pattern| pattern.written > 0 && is_dump(&pattern.file))
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked_where(|stack| {
        let has = |functions| facts::has_function(&stack.functions, functions);
        has(FUNCTIONS) || ENDED.into_iter().all(has) && has_dump(facts, stack.device.as_deref())
    });
    let process = stacked.subject().process.ok_or(Clear)?;
    // Two scripts of one interpreter are two programs; several workers of one may crash at once.
    let is_own = |pid: Option<u32>, name: &str| {
        let mut crashed = stacked.stacks.iter();
        crashed.any(|stack| programs::are_of_one((pid, name), (stack.pid, &process)))
    };
    let written = |device: &DeviceSummary| {
        let own = device.processes.iter();
        let own = own.filter(|row| is_own(row.subject.pid, &row.subject.process));
        own.map(|row| row.usage.directions[Direction::Write].bytes).fold(0_u64, u64::saturating_add)
    };
    let device = facts.devices().iter().max_by_key(|device| written(device));
    let device = device.filter(|device| written(device) > 0);
    let name = device.map(|device| device.device.clone());
    let subject = Subject { device: name.clone(), ..stacked.subject() };
    let all = device.map_or(0, |device| facts::of(device, Direction::Write).bytes);
    let share = device.map_or(0.0, |device| written(device) as f64 / all.max(1) as f64).min(1.0);
    let is_own = |group: &WaitGroup| is_own(Some(group.pid), &group.process);
    let others = facts.waits(|group| group.device == name && !is_own(group));
    let own = facts.waits(is_own);
    let behind = waiting_for(&others);
    let sentence = format!(
        "the kernel writes a core dump of {}{}: {} within {}{behind}",
        words::who(&subject),
        words::on(&subject),
        words::bytes(device.map_or(0.0, |device| written(device) as f64)),
        words::time(facts.duration_ns() as f64),
    );
    let claims = Claims::of_waits(&others).scaled(share).and(&Claims::of_waits(&own));
    let time_ns = own.time_ns + (others.time_ns as f64 * share) as u64;
    Ok(Finding::of_blocked(facts, time_ns, sentence)
        .claiming(claims)
        .about(subject)
        .sure(Confidence::Certain)
        .shown(
            "time in the dump's own writes",
            stacked.time_ns as f64,
            "ns",
            "iowhy waits --by stack",
        )
        .shown("its share of the device's writes", share * 100.0, "%", "iowhy proc")
        .fix(
            "find why it crashed; limit the size (`ulimit -c`, LimitCORE= of the unit, \
             ProcessSizeMax= in coredump.conf), leave memory that no debugger needs out \
             (/proc/PID/coredump_filter, madvise(MADV_DONTDUMP)), or direct dumps to another \
             device (kernel.core_pattern, which affects the entire machine)",
        )
        .check(
            "`coredumpctl list` or the file of kernel.core_pattern shows a dump of that time; when \
             it is complete the others are fast again",
        )
        .into())
}

/// Returns the end of the sentence about those that wait meanwhile.
fn waiting_for(others: &facts::Waited<'_>) -> String {
    match others.time_ns {
        0 => String::new(),
        time_ns => format!(
            "; {} waits for {} meanwhile",
            words::who(&others.subject()),
            words::time(time_ns as f64),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    /// A program that waits in `frames` while it writes that file, and a database beside it.
    fn found(frames: &[&str], file: &str) -> Option<Finding> {
        found_of(("worker", "mysqld"), frames, file)
    }

    /// The same of programs of these names.
    fn found_of((worker, database): (&str, &str), frames: &[&str], file: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..300_u64 {
            let write = script.write("sda", 1 << 20).by(8, worker).at((index * 33 * MS) as i64);
            write.sector(index * 2048).file(file).direct(500, 500, 30 * MS).add();
        }
        script.wait((8, worker), WaitClass::Wbt, 6000 * MS, 0, 0);
        script.stacked(frames);
        script.batch.waits[0].device = Some(script.batch.requests[0].device);
        script.wait((7, database), WaitClass::Fsync, 5000 * MS, 5000 * MS, 0);
        script.waited_on("sda", "/db/log", 75);
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "core-dump")
    }

    #[test]
    fn a_dump_is_seen_while_it_is_written_and_while_it_is_closed() {
        let ends = ["rq_qos_wait", "ext4_release_file", "__fput", "do_exit", "get_signal"];
        for (frames, file) in [(&["dump_emit", "do_coredump"][..], "/d/x"), (&ends, "/d/core.7")] {
            let found = found(frames, file).unwrap();
            assert!(found.sentence.contains("core dump of worker (8)"), "{}", found.sentence);
            assert!(found.sentence.contains("mysqld (7) waits"), "{}", found.sentence);
        }
        // A program that is killed closes its files, too.
        assert_eq!(found(&ends, "/d/table"), None);
    }

    #[test]
    fn another_script_of_the_interpreter_waits_for_the_dump() {
        let frames = ["dump_emit", "do_coredump"];
        let scripts = found_of(("python3", "python3"), &frames, "/d/x").unwrap();
        assert!(scripts.sentence.contains("core dump of python3 (8)"), "{}", scripts.sentence);
        assert!(scripts.sentence.contains("python3 (7) waits"), "{}", scripts.sentence);
        let server = found_of(("db", "db"), &frames, "/d/x").unwrap();
        assert!(!server.sentence.contains("waits"), "{}", server.sentence);
    }
}
