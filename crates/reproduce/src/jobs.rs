//! The files of a reproduction as text: fio's job files, the small programs, `run`, `README.md`.
//!
//! fio replaces `${DISK1}` by the directory and `${RAW1}` by the device of the first disk, which
//! the run sets; nothing else depends on where it runs.
//!
//! What does not belong here: the numbers (see [`crate::plan`]), and running them (see
//! [`crate::run`]).

use crate::plan::{LoadPlan, PlannedJob, PlannedProgram, PlannedStep, SyncCall};
use std::fmt::Write as _;

/// The script that runs it.
pub const RUN: &str = include_str!("programs/run.sh");
/// The oldest fio that knows all that job files contain.
pub const OLDEST_FIO: (u32, u32) = (3, 31);

/// The job file of a program; `None` if fio has nothing to do for it.
pub fn job_file(program: &PlannedProgram) -> Option<String> {
    if program.jobs.is_empty() {
        return None;
    }
    let mut text = format!("; {}\n", program.name);
    text.push_str("[global]\ntime_based=1\nruntime=${SECONDS}\nfallocate=none\n");
    if program.one_process {
        text.push_str("thread=1\n");
    }
    for job in &program.jobs {
        section(job, &mut text);
    }
    Some(text)
}

/// Adds the section of a job.
fn section(job: &PlannedJob, text: &mut String) {
    // Writing to a String cannot fail.
    writeln!(text, "\n[{}]", job.name).unwrap_or_default();
    let mut line = |key: &str, value: &str| {
        writeln!(text, "{key}={value}").unwrap_or_default();
    };
    files(job, &mut line);
    line("size", &job.file_bytes.saturating_mul(u64::from(job.files.max(1))).to_string());
    line("rw", direction(job));
    if !matches!(job.read_percent, 0 | 100) {
        line("rwmixread", &job.read_percent.to_string());
    }
    sizes(job, &mut line);
    line("ioengine", job.engine.word());
    if job.direct {
        line("direct", "1");
    }
    if job.depth > 1 {
        line("iodepth", &job.depth.to_string());
    }
    if job.threads > 1 {
        line("numjobs", &job.threads.to_string());
    }
    if job.random && job.direct {
        line("norandommap", "1");
    }
    if !job.zones.is_empty() {
        let zones: Vec<String> = job.zones.iter().map(|(a, b)| format!("{a}/{b}")).collect();
        line("random_distribution", &format!("zoned:{}", zones.join(":")));
    }
    // A hint that offsets follow each other would double the readahead.
    line("fadvise_hint", if job.random && job.advise { "1" } else { "0" });
    if job.read_percent < 100 {
        match job.overwrite {
            true => line("overwrite", "1"),
            false => line("create_on_open", "1"),
        }
    }
    if let Some(sync) = job.sync {
        let writes = sync.writes;
        match sync.call {
            SyncCall::Fsync => line("fsync", &writes.to_string()),
            SyncCall::Fdatasync => line("fdatasync", &writes.to_string()),
            SyncCall::SyncFileRange => line("sync_file_range", &format!("write:{writes}")),
        }
    }
    if job.think_us >= 1.0 {
        line("thinktime", &format!("{:.0}", job.think_us));
        line("thinktime_blocks", &job.think_after.to_string());
    }
}

/// The name of a job's files: the original's if it is kept, with a number that fio sets.
fn file_name(job: &PlannedJob, number: &str) -> String {
    let Some(path) = &job.path else {
        return match number {
            "" => job.name.clone(),
            number => format!("{}.{number}", job.name),
        };
    };
    let (folder, base) = path.rsplit_once('/').unwrap_or(("", path));
    let base = match base.split_once('N') {
        Some((before, after)) => format!("{before}1{number}{}", after.replace('N', "1")),
        None if number.is_empty() || job.threads.max(job.files) <= 1 => base.to_owned(),
        None => format!("{base}.{number}"),
    };
    format!("{}/{base}", folder.replace('N', "1")).trim_start_matches('/').to_owned()
}

/// Writes the lines for the place and the names of a job's files.
fn files(job: &PlannedJob, line: &mut impl FnMut(&str, &str)) {
    let disk = job.disk + 1;
    let raw = format!("${{RAW{disk}}}");
    let own = format!("${{DISK{disk}}}");
    match (job.raw, job.shares_files()) {
        (true, _) => line("filename", &raw),
        (false, true) if job.files > 1 => {
            line("directory", &own);
            line("filename_format", &file_name(job, "$filenum"));
            line("nrfiles", &job.files.to_string());
            // As long in a file as until it is synced.
            let turns = job.sync.map_or(1, |sync| sync.writes.max(1));
            line("file_service_type", &format!("roundrobin:{turns}"));
        }
        (false, true) => line("filename", &format!("{own}/{}", file_name(job, ""))),
        (false, false) => {
            line("directory", &own);
            if job.path.is_some() {
                line("filename_format", &file_name(job, "$jobnum"));
            }
        }
    }
}

fn direction(job: &PlannedJob) -> &'static str {
    match (job.read_percent, job.random) {
        (100, false) => "read",
        (100, true) => "randread",
        (0, false) => "write",
        (0, true) => "randwrite",
        (_, false) => "rw",
        (_, true) => "randrw",
    }
}

fn sizes(job: &PlannedJob, line: &mut impl FnMut(&str, &str)) {
    let is_one = |sizes: &[(u64, u32)]| sizes.len() <= 1;
    if is_one(&job.read_sizes) && is_one(&job.write_sizes) {
        let first = |sizes: &[(u64, u32)]| sizes.first().map(|size| size.0);
        let (read, write) = (first(&job.read_sizes), first(&job.write_sizes));
        let either = read.or(write).unwrap_or(4096);
        let both = (read.unwrap_or(either), write.unwrap_or(either));
        return match both.0 == both.1 {
            true => line("bs", &both.0.to_string()),
            false => line("bs", &format!("{},{}", both.0, both.1)),
        };
    }
    let split = |sizes: &[(u64, u32)]| {
        let parts: Vec<String> = sizes.iter().map(|(size, of)| format!("{size}/{of}")).collect();
        parts.join(":")
    };
    let [read, write] = [&job.read_sizes, &job.write_sizes].map(|sizes| split(sizes));
    match (read.is_empty(), write.is_empty()) {
        (false, false) => line("bssplit", &format!("{read},{write}")),
        (false, true) => line("bssplit", &read),
        _ => line("bssplit", &write),
    }
}

/// Returns a program for a step: its numbers, then its actions. `comm` is the name under which it
/// runs.
pub fn program(step: &PlannedStep, name: &str, comm: Option<&str>) -> String {
    let mut text = String::from("#!/usr/bin/env python3\n");
    let mut set = |key: &str, value: &dyn std::fmt::Display| {
        writeln!(text, "{key} = {value}").unwrap_or_default();
    };
    set("name", &format!("{name:?}"));
    let body = match step {
        PlannedStep::Scan { directories, files, threads, think_us, .. } => {
            set("directories", directories);
            set("files", files);
            set("threads", threads);
            set("think_us", &format!("{think_us:.1}"));
            include_str!("programs/scan.py")
        }
        PlannedStep::Churn { files, bytes, reads, synced, threads, think_us, .. } => {
            set("files", files);
            set("bytes", bytes);
            set("reads", reads);
            set("synced", &u8::from(*synced));
            set("threads", threads);
            set("think_us", &format!("{think_us:.1}"));
            include_str!("programs/churn.py")
        }
        PlannedStep::Lock { waiters, bytes, block, synced, think_us, .. } => {
            set("waiters", waiters);
            set("bytes", bytes);
            set("block", block);
            set("synced", &u8::from(*synced));
            set("think_us", &format!("{think_us:.1}"));
            include_str!("programs/lock.py")
        }
        // The sequence is in a file of its own, which iowhy itself plays.
        PlannedStep::Replay { .. } => return String::new(),
    };
    if let Some(comm) = comm {
        let named = format!("open('/proc/self/comm', 'w').write({comm:?})\n");
        return format!("{text}{named}\n{body}");
    }
    format!("{text}\n{body}")
}

/// The name of a step's program and of its files: unique in the plan.
pub fn step_name(program: &PlannedProgram, number: usize, step: &PlannedStep) -> String {
    let kind = match step {
        PlannedStep::Scan { .. } => "scan",
        PlannedStep::Churn { .. } => "churn",
        PlannedStep::Lock { .. } => "lock",
        PlannedStep::Replay { .. } => "replay",
    };
    format!("{}-{kind}{}", program.name, number + 1)
}

/// Returns the description of the reproduction's files, for a person.
pub fn readme(plan: &LoadPlan) -> String {
    let mut text = String::from(
        "# A reproduction by iowhy\n\n`./run --on DIR` makes the load in an empty directory of the \
         disk to test, records it, and prints how like the original it is. `./run --on-device \
         DEVICE` uses an empty device. `iowhy verify . --on DIR --with scheduler=none` tests a \
         fix.\n",
    );
    let mut line = |parts: String| writeln!(text, "{parts}").unwrap_or_default();
    if let Some(cause) = &plan.original.finding {
        line(format!("\nThe original's first finding: {cause}.\n"));
    }
    for disk in &plan.disks {
        let files = disk.file_system.as_deref().unwrap_or("no file system");
        let needs = disk.bytes.div_ceil(1 << 20);
        line(format!("- {}: {files}; needs {needs} MiB", disk.name));
    }
    for program in &plan.programs {
        let jobs = program.jobs.iter().map(|job| format!("fio {}", job.name));
        let steps = program.steps.iter().enumerate();
        let steps = steps.map(|(number, step)| match step {
            PlannedStep::Replay { requests, .. } => format!("{requests} requests, one by one"),
            _ => step_name(program, number, step),
        });
        let all: Vec<String> = jobs.chain(steps).collect();
        line(format!("- {}: {}", program.name, all.join(", ")));
    }
    for note in &plan.notes {
        line(format!("- not reproduced: {note}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{JobEngine, SyncEvery};

    fn job() -> PlannedJob {
        PlannedJob {
            name: "program1-files1-write".to_owned(),
            write_sizes: vec![(8192, 100)],
            file_bytes: 1 << 20,
            depth: 1,
            threads: 1,
            sync: Some(SyncEvery { call: SyncCall::Fdatasync, writes: 1 }),
            think_us: 1500.4,
            think_after: 3,
            ..PlannedJob::default()
        }
    }

    #[test]
    fn a_job_file_reads_as_a_person_writes_it() {
        let program = PlannedProgram {
            name: "program1".to_owned(),
            jobs: vec![job()],
            ..PlannedProgram::default()
        };
        let text = job_file(&program).unwrap();
        let expected = "; program1\n[global]\ntime_based=1\nruntime=${SECONDS}\nfallocate=none\n\n\
            [program1-files1-write]\ndirectory=${DISK1}\nsize=1048576\nrw=write\nbs=8192\n\
            ioengine=psync\nfadvise_hint=0\ncreate_on_open=1\nfdatasync=1\nthinktime=1500\n\
            thinktime_blocks=3\n";
        assert_eq!(text, expected);
        assert_eq!(job_file(&PlannedProgram::default()), None);
    }

    #[test]
    fn mixes_and_devices_have_their_lines() {
        let mixed = PlannedJob {
            raw: true,
            direct: true,
            random: true,
            read_percent: 70,
            read_sizes: vec![(4096, 60), (8192, 40)],
            engine: JobEngine::Libaio,
            depth: 4,
            zones: vec![(60, 10), (40, 90)],
            disk: 1,
            ..job()
        };
        let mut text = String::new();
        section(&mixed, &mut text);
        for line in [
            "filename=${RAW2}",
            "rw=randrw",
            "rwmixread=70",
            "bssplit=4096/60:8192/40,8192/100",
            "iodepth=4",
            "random_distribution=zoned:60/10:40/90",
            "direct=1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn kept_names_are_those_of_files() {
        let kept = |path: &str| PlannedJob { path: Some(path.to_owned()), ..job() };
        assert_eq!(file_name(&kept("write/pg_wal/N"), "$jobnum"), "write/pg_wal/1$jobnum");
        assert_eq!(file_name(&kept("write/dN/temp-N.rdb"), ""), "write/d1/temp-1.rdb");
        assert_eq!(file_name(&kept("write/LOG"), "$jobnum"), "write/LOG");
        assert_eq!(file_name(&job(), "$filenum"), "program1-files1-write.$filenum");
        let mut text = String::new();
        section(&kept("write/pg_wal/N"), &mut text);
        assert!(text.contains("\nfilename_format=write/pg_wal/1$jobnum\n"), "{text}");
    }

    #[test]
    fn several_files_are_used_in_turn() {
        let many = PlannedJob { files: 20, sync: None, ..job() };
        let mut text = String::new();
        section(&many, &mut text);
        for line in [
            "directory=${DISK1}",
            "filename_format=program1-files1-write.$filenum",
            "nrfiles=20",
            "size=20971520",
            "file_service_type=roundrobin:1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        assert_eq!(many.bytes(), 20 << 20);
    }

    #[test]
    fn programs_begin_with_their_numbers() {
        let step = PlannedStep::Lock {
            disk: 0,
            waiters: 20,
            bytes: 8 << 20,
            block: 1 << 20,
            synced: true,
            think_us: 50_000.0,
        };
        let text = program(&step, "program1-lock1", Some("java"));
        assert!(text.contains("waiters = 20\n") && text.contains("synced = 1\n"), "{text}");
        assert!(text.contains("write(\"java\")"), "{text}");
    }
}
