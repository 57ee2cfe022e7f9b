//! A `plan.json` may come from somebody else: everything in it that becomes a line of a job file, a
//! path, a program's argument or a setting of the kernel is checked when it is read.
//!
//! What does not belong here: whether a plan makes sense on this machine (see [`crate::target`]).

use crate::plan::{
    LoadPlan, MOST_BUFFER_BYTES, PlannedDisk, PlannedJob, PlannedProgram, PlannedStep,
};
use crate::planning::{DISK_SETTINGS, MACHINE_SETTINGS};

/// Bytes of a name or a value.
const LONGEST: usize = 200;
/// Programs of a plan, jobs and steps of a program, sizes and zones of a job.
const MOST_PARTS: usize = 4096;
/// Threads, depths, disks.
const MOST_AT_ONCE: u64 = 4096;
/// Files, directories, rounds.
const MOST_FILES: u64 = 100_000_000;
/// Bytes of files, and of limits: sixteen times the largest disk that is sold.
const MOST_BYTES: u64 = 1 << 49;
/// Seconds of a watch, and microseconds of a pause: a week.
const MOST_SECONDS: u64 = 7 * 86_400;

/// Returns the fault of a plan; `None` if there is none.
pub fn defect(plan: &LoadPlan) -> Option<String> {
    check(plan).err()
}

type Checked = Result<(), String>;

fn check(plan: &LoadPlan) -> Checked {
    number("seconds", plan.seconds, MOST_SECONDS)?;
    count("disks", plan.disks.len(), MOST_AT_ONCE as usize)?;
    count("programs", plan.programs.len(), MOST_PARTS)?;
    for (name, setting) in &plan.settings {
        if !MACHINE_SETTINGS.contains(&name.as_str()) {
            return Err(format!("settings: {name:?} is not a setting that a plan has"));
        }
        plain(name, setting)?;
    }
    plan.disks.iter().try_for_each(disk)?;
    plan.programs.iter().try_for_each(|program| self::program(program, plan.disks.len()))?;
    number("bytes of buffers", plan.buffer_bytes(), MOST_BUFFER_BYTES)
}

fn disk(disk: &PlannedDisk) -> Checked {
    plain("a disk's name", &disk.name)?;
    number("bytes of a disk", disk.bytes, MOST_BYTES)?;
    if let Some(kind) = &disk.file_system {
        let is_kind = kind.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !is_kind || kind.is_empty() || kind.len() > 16 {
            return Err(format!("{kind:?} is not a file system"));
        }
    }
    for (name, setting) in &disk.settings {
        if !DISK_SETTINGS.contains(&name.as_str()) {
            return Err(format!("settings of a disk: {name:?} is not a setting that a plan has"));
        }
        plain(name, setting)?;
    }
    Ok(())
}

fn program(program: &PlannedProgram, disks: usize) -> Checked {
    plain("a program's name", &program.name)?;
    count("jobs", program.jobs.len(), MOST_PARTS)?;
    count("steps", program.steps.len(), MOST_PARTS)?;
    count("limits", program.limits.len(), MOST_PARTS)?;
    program.limits.iter().try_for_each(|limit| on_disk(limit.disk, disks))?;
    program.jobs.iter().try_for_each(|planned| job(planned, disks))?;
    program.steps.iter().try_for_each(|planned| step(planned, disks))
}

fn job(job: &PlannedJob, disks: usize) -> Checked {
    plain("a job's name", &job.name)?;
    on_disk(job.disk, disks)?;
    if let Some(path) = &job.path {
        path.split('/').try_for_each(|part| plain("a part of a job's path", part))?;
    }
    let lists = [job.zones.len(), job.read_sizes.len(), job.write_sizes.len()];
    lists.into_iter().try_for_each(|length| count("sizes and zones", length, MOST_PARTS))?;
    for (size, _) in job.read_sizes.iter().chain(&job.write_sizes) {
        number("a size", *size, MOST_BYTES)?;
    }
    number("depth", job.depth.into(), MOST_AT_ONCE)?;
    number("threads", job.threads.into(), MOST_AT_ONCE)?;
    number("files", job.files.into(), MOST_FILES)?;
    number("bytes of a file", job.file_bytes, MOST_BYTES)?;
    pause(job.think_us)
}

fn step(step: &PlannedStep, disks: usize) -> Checked {
    on_disk(step.disk(), disks)?;
    match step {
        PlannedStep::Scan { directories, files, threads, think_us, .. } => {
            number("directories", *directories, MOST_FILES)?;
            number("files", *files, MOST_FILES)?;
            number("threads", (*threads).into(), MOST_AT_ONCE)?;
            pause(*think_us)
        }
        PlannedStep::Churn { files, bytes, reads, threads, think_us, .. } => {
            number("files", *files, MOST_FILES)?;
            number("bytes", *bytes, MOST_BYTES)?;
            number("reads", *reads, MOST_FILES)?;
            number("threads", (*threads).into(), MOST_AT_ONCE)?;
            pause(*think_us)
        }
        PlannedStep::Lock { waiters, bytes, block, think_us, .. } => {
            number("waiters", (*waiters).into(), MOST_AT_ONCE)?;
            number("bytes", *bytes, MOST_BYTES)?;
            number("block", *block, MOST_BYTES)?;
            pause(*think_us)
        }
        PlannedStep::Replay { bytes, .. } => number("bytes", *bytes, MOST_BYTES),
    }
}

/// A word that means nothing to a shell, to fio or in a path.
fn plain(what: &str, text: &str) -> Checked {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_named = !text.is_empty() && !text.starts_with(['.', '-']) && text.len() <= LONGEST;
    match is_named && text.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!("{what} is {text:?}: only letters, digits, - _ and . may be in it")),
    }
}

fn number(what: &str, value: u64, most: u64) -> Checked {
    match value <= most {
        true => Ok(()),
        false => Err(format!("{what}: {value} is more than {most}")),
    }
}

fn count(what: &str, length: usize, most: usize) -> Checked {
    number(what, length as u64, most as u64)
}

fn on_disk(disk: usize, disks: usize) -> Checked {
    match disk < disks {
        true => Ok(()),
        false => Err(format!("there is no disk {disk}: the plan has {disks}")),
    }
}

fn pause(think_us: f64) -> Checked {
    match (0.0..=MOST_SECONDS as f64 * 1e6).contains(&think_us) {
        true => Ok(()),
        false => Err(format!("a pause of {think_us} µs is none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan with one disk and one program, changed.
    fn plan(change: impl FnOnce(&mut LoadPlan)) -> LoadPlan {
        let job = PlannedJob { name: "program1-files1".to_owned(), ..PlannedJob::default() };
        let program = PlannedProgram {
            name: "program1".to_owned(),
            jobs: vec![job],
            ..PlannedProgram::default()
        };
        let disk = PlannedDisk { name: "disk1".to_owned(), ..PlannedDisk::default() };
        let mut plan =
            LoadPlan { disks: vec![disk], programs: vec![program], ..LoadPlan::default() };
        change(&mut plan);
        plan
    }

    #[test]
    fn a_sound_plan_has_no_defect() {
        assert_eq!(defect(&plan(|_| ())), None);
        assert_eq!(
            defect(&plan(|plan| {
                plan.settings.insert("vm/dirty_ratio".to_owned(), "20".to_owned());
                plan.programs[0].jobs[0].path = Some("write/pg_wal/N".to_owned());
            })),
            None
        );
    }

    #[test]
    fn nothing_of_a_plan_becomes_a_command_or_a_path_elsewhere() {
        type Change = fn(&mut LoadPlan);
        let changes: [(Change, &str); 14] = [
            (|plan| plan.programs[0].name = "a\nexec_prerun=reboot".to_owned(), "a program's name"),
            (|plan| plan.programs[0].name = "../../etc/cron.d/x".to_owned(), "a program's name"),
            (|plan| plan.programs[0].name = String::new(), "a program's name"),
            (|plan| plan.programs[0].jobs[0].name = "x]\n[y".to_owned(), "a job's name"),
            (|plan| plan.programs[0].jobs[0].path = Some("/etc/passwd".to_owned()), "path"),
            (|plan| plan.programs[0].jobs[0].path = Some("a/../../b".to_owned()), "path"),
            (|plan| plan.programs[0].jobs[0].path = Some("a:${HOME}".to_owned()), "path"),
            (|plan| plan.programs[0].jobs[0].disk = 7, "no disk 7"),
            (|plan| plan.programs[0].jobs[0].think_us = f64::NAN, "a pause"),
            (|plan| plan.programs[0].jobs[0].threads = u32::MAX, "threads"),
            (
                |plan| _ = plan.settings.insert("kernel/core_pattern".into(), "|x".into()),
                "settings",
            ),
            (|plan| _ = plan.settings.insert("/etc/passwd".into(), "x".into()), "settings"),
            (|plan| _ = plan.disks[0].settings.insert("../x".into(), "1".into()), "settings"),
            (|plan| plan.disks[0].file_system = Some("ext4 -F /dev/sda".to_owned()), "file system"),
        ];
        for (change, said) in changes {
            let found = defect(&plan(change)).unwrap_or_default();
            assert!(found.contains(said), "{said}: {found}");
        }
        let step = PlannedStep::Scan {
            disk: 0,
            directories: u64::MAX,
            files: u64::MAX,
            threads: 1,
            think_us: 0.0,
        };
        let found = defect(&plan(|plan| plan.programs[0].steps.push(step))).unwrap();
        assert!(found.contains("directories"), "{found}");
    }

    #[test]
    fn buffers_of_all_programs_have_a_bound() {
        type Change = fn(&mut LoadPlan);
        let memory: [Change; 3] = [
            |plan| {
                let job = &mut plan.programs[0].jobs[0];
                (job.read_sizes, job.depth) = (vec![(128 << 20, 100)], 16);
            },
            |plan| {
                let job = PlannedJob { depth: 32, threads: 1, ..PlannedJob::default() };
                let job = PlannedJob { write_sizes: vec![(1 << 20, 100)], ..job };
                let names = (0..40).map(|number| format!("job{number}"));
                let jobs = names.map(|name| PlannedJob { name, ..job.clone() });
                plan.programs[0].jobs = jobs.collect();
            },
            |plan| {
                let step = PlannedStep::Lock {
                    disk: 0,
                    waiters: 1,
                    bytes: 1 << 40,
                    block: 1 << 40,
                    synced: false,
                    think_us: 0.0,
                };
                plan.programs[0].steps.push(step);
            },
        ];
        for change in memory {
            let found = defect(&plan(change)).unwrap_or_default();
            assert!(found.contains("buffers"), "{found}");
        }
        // What iowhy writes itself is never refused.
        for change in &memory[..2] {
            let mut planned = plan(change);
            assert!(planned.fit_buffers() && !planned.fit_buffers());
            assert_eq!(defect(&planned), None);
            assert!(planned.buffer_bytes() >= MOST_BUFFER_BYTES / 4);
        }
    }
}
