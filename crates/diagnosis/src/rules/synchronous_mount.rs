//! A file system is mounted, or a folder has an attribute, so that each change waits for the
//! device.

use super::journal_commit::OF_JOURNAL;
use super::*;
use crate::programs;
use facts::calls::{SYNC_ALL, SYNC_FILE};
use facts::neighbours::is_program;
use iowhy_analysis::summary::{ProcessRow, UsedRow};
use iowhy_model::command::shell_word;
use iowhy_model::environment::Mount;
use std::path::Path;

/// Mount options that make calls wait: for data and metadata, for directories, for the log of XFS.
const OPTIONS: &[&str] = &["sync", "dirsync", "wsync"];
/// Classes of the waits of a call that has to be durable before it returns.
const DURABLE: &[WaitClass] = &[
    WaitClass::Fsync,
    WaitClass::JournalCommit,
    WaitClass::JournalSpace,
    WaitClass::Device,
    WaitClass::PageLock,
];

rule!(
    "synchronous-mount",
    "synchronous mount",
    "With the mount option sync every write(2) waits until its data and metadata are on stable \
     storage, as if fsync followed; with dirsync (XFS: wsync) every create, rename and unlink \
     does. The attributes S (sync) and D (dirsync) of a folder or a file do the same, and new ones \
     inherit them. A copy of small blocks then takes a journal commit and a cache flush for each \
     of them. With data=journal all data is written twice, with btrfs's notreelog a sync of one \
     file commits the metadata that all programs have changed, and with ext4's nodelalloc it \
     writes out the data that they have added to files.",
    "The program calls fsync itself, or opens its files with O_SYNC.",
    place: Setting,
    needs: [Waits, Settings],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    if let Some(finding) = data_journal(facts) {
        return Ok(finding.into());
    }
    let mounted =
        facts.devices().iter().filter_map(|device| Some((device, option_of(facts, device)?)));
    let waiting = mounted.map(|(device, option)| (device, option, waits_of(facts, device)));
    let Some((device, (path, option), waited)) = waiting.max_by_key(|waiting| waiting.2.time_ns)
    else {
        let found = by_attribute(facts)
            .or_else(|| without_tree_log(facts))
            .or_else(|| without_delayed_allocation(facts));
        return Ok(found.map_or(RuleVerdict::Clear, RuleVerdict::from));
    };
    clear_if(waited.time_ns == 0)?;
    let subject = Subject { device: Some(device.device.clone()), ..waited.subject() };
    let call = waited.groups.first().and_then(|group| facts.call_name(group.syscall));
    let sentence = format!(
        "{path} ({}) is mounted with `{option}`: each {} of {} waits until it is on stable \
         storage, {} on average",
        device.device,
        call.unwrap_or("change"),
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    Ok(waiting_for(facts, &waited, subject, sentence)
        .fix(fix(option, path))
        .check(format!(
            "`findmnt -no OPTIONS {}` shows `{option}`; on a copy mounted without it the calls \
             return at once",
            shell_word(path)
        ))
        .into())
}

/// What a call of ext4 that makes or removes a name waits in if its folder is synchronous: the end
/// of its own transaction, which other calls do not wait for.
const OF_NAMES: &[&str] = &[
    "ext4_create",
    "ext4_mkdir",
    "ext4_mknod",
    "ext4_symlink",
    "ext4_link",
    "ext4_unlink",
    "ext4_rmdir",
    "ext4_rename*",
];
const OWN_COMMIT: &[&str] = &["jbd2_journal_stop", "__jbd2_journal_stop"];
/// The least share of such waits in those of the device's calls that have to be durable. Chosen:
/// the writes of the new files are others.
const NAMES: f64 = 0.2;

/// Names that are made and removed synchronously although no mount option says so: their folders
/// have an attribute.
fn by_attribute(facts: &Facts<'_>) -> Option<Finding> {
    let waiting = facts.devices().iter().map(|device| (device, waits_of(facts, device)));
    let (device, of_device) = waiting.max_by_key(|waiting| waiting.1.time_ns)?;
    let who = of_device.subject().process;
    let (time_ns, _) = facts.waits_with(|stack| {
        let has = |functions: &[&str]| facts::has_function(&stack.functions, functions);
        let is_there = stack.device.as_ref().is_none_or(|on| *on == device.device);
        stack.process == who && is_there && has(OF_NAMES) && has(OWN_COMMIT)
    });
    // A name that waits for the journal alone has no request that tells its device.
    let of_names = facts.waits(|group| {
        let is_own = Some(&group.process) == who.as_ref() && group.device.is_none();
        is_own && group.class == WaitClass::JournalCommit
    });
    let groups = of_device.groups.into_iter().chain(of_names.groups);
    let waited = facts::Waited::from_groups(groups.collect());
    if time_ns == 0 || (time_ns as f64) < NAMES * waited.time_ns as f64 {
        return None;
    }
    let subject = Subject { device: Some(device.device.clone()), ..waited.subject() };
    let mount = facts.mounts(device).into_iter().next().map(|mount| mount.path.as_str());
    let folder = subject.file.as_deref().and_then(|file| Path::new(file).parent()?.to_str());
    let place = folder.filter(|folder| !folder.is_empty()).or(mount).unwrap_or("FOLDER");
    let sentence = format!(
        "folders at {place} ({}) are changed synchronously, by their attribute S or D: each new \
         name and each write of {} waits until it is on stable storage, {} on average",
        device.device,
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    let finding = waiting_for(facts, &waited, subject, sentence)
        .upper_bound()
        .fix(
            "a mail queue needs it; if the programs need neither durable names nor durable \
             writes: `chattr -R -S -D FOLDER` clears the attributes, which new files and folders \
             inherit; after a crash the last creates and renames may be gone, and without S what \
             was written in the last seconds",
        )
        .check(
            "`lsattr -d FOLDER` shows S or D; in a folder without them the calls return at once",
        );
    Some(finding)
}

/// Returns a finding about calls that wait until their changes are on stable storage.
fn waiting_for(
    facts: &Facts<'_>,
    waited: &facts::Waited<'_>,
    subject: Subject,
    sentence: String,
) -> Finding {
    let flags = words::flags(&subject);
    Finding::of_waits(facts, waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown(
            "time in calls that wait for it",
            waited.time_ns as f64,
            "ns",
            format!("iowhy waits{flags}"),
        )
        .also("such calls", waited.calls as f64 / facts.seconds(), "1/s")
}

/// The option of ext4 that writes all data to the journal first.
const DATA_JOURNAL: &str = "data=journal";
/// The option to mount it with instead.
pub(super) const ORDERED: &str = "data=ordered, the default (in fstab, and `tune2fs -l` shows the \
                                  default options; it cannot be changed by a remount), unless \
                                  each write must be whole after a crash without fsync";
/// The least share of the bytes written to a device that are its journal's, for the option to cost
/// as much as the data. Chosen.
const JOURNAL_SHARE: f64 = 0.3;

/// Returns the mount of a device that writes all data to its journal first.
pub(super) fn data_journal_of<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> Option<&'a Mount> {
    facts.mounts(device).into_iter().find(|mount| mount.has_option(DATA_JOURNAL))
}

/// A file system that writes all data twice.
fn data_journal(facts: &Facts<'_>) -> Option<Finding> {
    let found = facts.devices().iter().filter_map(|device| {
        let mount = data_journal_of(facts, device)?;
        let journal = facts::origin_of(device, Origin::Journal).2;
        let written = facts::of(device, Direction::Write).bytes;
        let share = journal as f64 / written.max(1) as f64;
        let waited = facts.waits(|group| group.device.as_deref() == Some(&device.device));
        (share >= JOURNAL_SHARE && waited.time_ns > 0).then_some((device, mount, share, waited))
    });
    let (device, mount, share, waited) = found.max_by_key(|it| it.3.time_ns)?;
    let subject = Subject { device: Some(device.device.clone()), ..waited.subject() };
    let (name, path) = (&device.device, &mount.path);
    let sentence = format!(
        "{path} ({name}) is mounted with `{DATA_JOURNAL}`: all data is written to the journal \
         first, {} of what the device writes; {} waits {}",
        words::percent(share),
        words::who(&subject),
        words::time(waited.time_ns as f64),
    );
    let finding = Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .upper_bound()
        .sure(Confidence::Certain)
        .shown(
            "share of the journal in the bytes written",
            share * 100.0,
            "%",
            format!("iowhy -d {name}"),
        )
        .shown("time waited for the device", waited.time_ns as f64, "ns", "iowhy waits")
        .fix(format!("mount it with {ORDERED}"))
        .check("with data=ordered the device writes the data once: half of the bytes");
    Some(finding)
}

/// The option of btrfs without its log of single files.
const NO_TREE_LOG: &str = "notreelog";

/// A file system on which a sync of one file commits the metadata that all programs have changed.
fn without_tree_log(facts: &Facts<'_>) -> Option<Finding> {
    let found = facts.devices().iter().filter_map(|device| {
        let mut mounts = facts.mounts(device).into_iter();
        let is_without = |mount: &&Mount| mount.kind == "btrfs" && mount.has_option(NO_TREE_LOG);
        let mount = mounts.find(is_without)?;
        let waited = facts.waits(|group| {
            let is_here = group.device.as_deref() == Some(device.device.as_str());
            is_here && facts.is_call(group.syscall, SYNC_FILE)
        });
        let commits = waited.groups.iter().filter(|group| OF_JOURNAL.contains(&group.class));
        let commits_ns = commits.map(|group| group.time_ns).fold(0, u64::saturating_add);
        // Else they wait for their own data, with the log as without it.
        (commits_ns.saturating_mul(2) > waited.time_ns).then_some((device, mount, waited))
    });
    let (device, mount, waited) = found.max_by_key(|it| it.2.time_ns)?;
    let subject = Subject { device: Some(device.device.clone()), ..waited.subject() };
    let (name, path) = (&device.device, &mount.path);
    let call = waited.groups.first().and_then(|group| facts.call_name(group.syscall));
    let sentence = format!(
        "{path} ({name}) is mounted with `{NO_TREE_LOG}`: each {} of {} commits all \
         metadata that has changed, {} on average",
        call.unwrap_or("sync"),
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    let finding = waiting_for(facts, &waited, subject, sentence)
        // With the log a sync still writes its own file.
        .upper_bound()
        .fix(format!(
            "mount it with `treelog`, the default (`mount -o remount,treelog {}`, and in fstab): \
             an fsync then writes its own file to a log, which is as safe; else have programs that \
             change many names and files use another file system",
            shell_word(path)
        ))
        .check(format!("`findmnt -no OPTIONS {}` shows `{NO_TREE_LOG}`", shell_word(path)));
    Some(finding)
}

/// The option of ext4 that allocates blocks in write(2): in ordered mode each commit then writes
/// out all data that was added to files since the one before.
const NO_DELAYED_ALLOCATION: &str = "nodelalloc";
/// Options with which a commit writes out no data.
const OF_OTHER_DATA: [&str; 2] = ["data=writeback", "data=journal"];

/// A file system on which a sync of one file writes out what others have added to theirs.
fn without_delayed_allocation(facts: &Facts<'_>) -> Option<Finding> {
    let found = facts.devices().iter().filter_map(|device| {
        let mut mounts = facts.mounts(device).into_iter();
        // The kernel shows the option beside data=journal, too, where nobody has set it.
        let is_ordered = |mount: &Mount| !OF_OTHER_DATA.iter().any(|it| mount.has_option(it));
        let mount = mounts.find(|mount| {
            mount.kind == "ext4" && mount.has_option(NO_DELAYED_ALLOCATION) && is_ordered(mount)
        })?;
        let written = |row: &&UsedRow<ProcessRow>| row.usage.directions[Direction::Write].bytes;
        let programs = device.processes.iter().filter(|row| is_program(&row.subject));
        let most = programs.filter(|row| row.subject.pid.is_some()).max_by_key(written)?;
        let waited = facts.waits(|group| {
            let is_here = match &group.file {
                Some(file) => facts.mount_of_file(file).is_some_and(|it| it.path == mount.path),
                None => group.device.as_deref() == Some(device.device.as_str()),
            };
            is_here
                && facts.is_call(group.syscall, SYNC_FILE)
                && !programs::are_of_one(
                    (Some(group.pid), &group.process),
                    (most.subject.pid, &most.subject.process),
                )
        });
        let commits = waited.groups.iter().filter(|group| OF_JOURNAL.contains(&group.class));
        let commits_ns = commits.map(|group| group.time_ns).fold(0, u64::saturating_add);
        let all = facts::of(device, Direction::Write).bytes;
        let is_bulk = written(&most) as f64 >= facts::BULK_PER_S * facts.seconds();
        let writes_most = is_bulk && written(&most).saturating_mul(2) > all;
        let is_behind_data = writes_most && commits_ns.saturating_mul(2) > waited.time_ns;
        is_behind_data.then_some((device, mount, most, waited))
    });
    let (device, mount, most, waited) = found.max_by_key(|it| it.3.time_ns)?;
    let subject = Subject { device: Some(device.device.clone()), ..waited.subject() };
    let (name, path) = (&device.device, &mount.path);
    let call = waited.groups.first().and_then(|group| facts.call_name(group.syscall));
    let sentence = format!(
        "{path} ({name}) is mounted with `{NO_DELAYED_ALLOCATION}`: each {} of {} waits until \
         what {} has added to its files is written, {} on average",
        call.unwrap_or("sync"),
        words::who(&subject),
        words::process(&most.subject.process, most.subject.pid, None),
        words::time(waited.mean_ns()),
    );
    let finding = waiting_for(facts, &waited, subject, sentence)
        .upper_bound()
        .sure(Confidence::Likely)
        .fix(format!(
            "mount it without `{NO_DELAYED_ALLOCATION}` (in fstab): blocks are then allocated at \
             writeback, and a commit waits for much less of others' data; an fsync is as safe, and \
             what a program never synced may be lost a few seconds longer; else keep the two \
             programs on different file systems",
        ))
        .check(format!(
            "`findmnt -no OPTIONS {}` shows `{NO_DELAYED_ALLOCATION}`; while the other program \
             writes nothing there, the syncs are fast",
            shell_word(path)
        ));
    Some(finding)
}

fn fix(option: &str, path: &str) -> String {
    match option {
        "sync" => format!(
            "mount it without `sync` (`mount -o remount,async {}`, and in fstab or the \
             automounter); a crash or an unplugged drive then loses what was written in the last \
             seconds: programs that need durability call fsync, and removable drives are unmounted \
             first",
            shell_word(path)
        ),
        _ => format!(
            "mount it without `{option}`, if the programs need no durable names: after a crash \
             the last creates and renames may be gone, as on other file systems"
        ),
    }
}

/// Returns the mount point of a device and the option that makes its calls wait.
fn option_of<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> Option<(&'a str, &'static str)> {
    facts.mounts(device).into_iter().find_map(|mount| {
        let given = OPTIONS.iter().find(|option| mount.has_option(option));
        given.map(|option| (mount.path.as_str(), *option))
    })
}

/// Returns the waits of calls that do not sync by themselves. A name that waits for the journal
/// alone has no request that tells its device, but its program changes that file system.
fn waits_of<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> facts::Waited<'a> {
    let places: Vec<_> =
        facts.mounts(device).iter().map(|mount| (mount.major, mount.minor)).collect();
    let is_there = |group: &WaitGroup| match &group.device {
        Some(name) => *name == device.device,
        None => {
            let changed = || facts.place_changed(|row| row.pid == group.pid);
            OF_JOURNAL.contains(&group.class) && changed().is_some_and(|it| places.contains(&it))
        }
    };
    let syncs = |group: &WaitGroup| {
        facts.is_call(group.syscall, SYNC_FILE) || facts.is_call(group.syscall, SYNC_ALL)
    };
    facts.waits(|group| {
        DURABLE.contains(&group.class)
            && group.syscall.is_some()
            && !facts.is_call(group.syscall, facts::calls::READ)
            && !syncs(group)
            && is_there(group)
    })
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::environment::{Device, Mount};
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};

    fn found(options: &str, call: u32) -> Option<Finding> {
        found_at("/media/usb", options, call)
    }

    fn found_at(path: &str, options: &str, call: u32) -> Option<Finding> {
        found_on("ext4", path, options, call)
    }

    fn found_on(kind: &str, path: &str, options: &str, call: u32) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.devices.push(Device { name: "sdb".to_owned(), ..Device::default() });
        script.environment.mounts.push(Mount {
            path: path.to_owned(),
            kind: kind.to_owned(),
            source: "/dev/sdb".to_owned(),
            options: options.to_owned(),
            ..Mount::default()
        });
        for index in 0..500 {
            let write = script.write("sdb", 4096).by(7, "cp").at((index * 20 * MS) as i64);
            write.direct(500, 500, 8 * MS).add();
            script.wait((7, "cp"), WaitClass::JournalCommit, 15 * MS, 0, 0);
            script.waited_on("sdb", &format!("{path}/film"), call);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().next().filter(|finding| finding.cause == "synchronous-mount")
    }

    #[test]
    fn names_that_wait_for_the_journal_alone_are_of_the_mount_that_is_changed() {
        let found = |changed: &str| {
            let mut script = Script::new(10);
            script.environment.devices.push(Device { name: "sdb".to_owned(), ..Device::default() });
            for (major, path, options) in [(8, "/srv/new", "rw,dirsync"), (9, "/home", "rw")] {
                let source = if major == 8 { "/dev/sdb" } else { "/dev/sdc" };
                script.environment.mounts.push(Mount {
                    major,
                    path: path.to_owned(),
                    kind: "ext4".to_owned(),
                    source: source.to_owned(),
                    options: options.to_owned(),
                    ..Mount::default()
                });
            }
            script.write("sdb", 4096).by(7, "unzip").direct(500, 500, MS).add();
            script.did((7, "unzip"), changed, Counts { creates: 500, ..Counts::default() });
            for _ in 0..500 {
                script.wait((7, "unzip"), WaitClass::JournalCommit, 15 * MS, 0, 0);
                script.batch.waits.last_mut().unwrap().syscall = Some(257);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().next().filter(|finding| finding.cause == "synchronous-mount")
        };
        assert!(found("/srv/new/a/1").unwrap().sentence.contains("each openat of unzip (7)"));
        assert_eq!(found("/home/a/1"), None, "another file system");
    }

    #[test]
    fn an_attribute_of_folders_is_told_from_a_journal_that_is_busy() {
        let found_beside = |last: &str, others_ms: u64| {
            let mut script = Script::new(10);
            for name in ["sda", "sdb"].map(str::to_owned) {
                script.environment.devices.push(Device { name, ..Device::default() });
            }
            script.write("sda", 4096).by(8, "db").direct(500, 500, MS).add();
            let frames = ["jbd2_log_wait_commit", last, "__ext4_journal_stop", "ext4_create"];
            for index in 0..500 {
                let write = script.write("sdb", 4096).by(7, "unzip").at((index * 20 * MS) as i64);
                write.direct(500, 500, 8 * MS).add();
                script.wait((7, "unzip"), WaitClass::JournalCommit, 15 * MS, 0, 0);
                script.waited_on("sdb", "/srv/new/a.txt", 257);
                script.stacked(&frames);
                if others_ms > 0 {
                    script.wait((8, "db"), WaitClass::Device, others_ms * MS, others_ms * MS, 0);
                    script.waited_on("sda", "/db/1", 1);
                }
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "synchronous-mount")
        };
        let found = |last: &str| found_beside(last, 0);
        let by_attribute = found("jbd2_journal_stop").unwrap();
        assert!(by_attribute.sentence.contains("folders at /srv/new (sdb)"), "{by_attribute:?}");
        assert!(by_attribute.fix.contains("chattr -R -S -D"));
        assert_eq!(found("start_this_handle"), None, "others' commits are not its own");
        // A database on another device waits longer, and is not told to change its folders.
        let beside = found_beside("jbd2_journal_stop", 19);
        assert!(beside.is_none_or(|it| it.subject.process.as_deref() == Some("unzip")));
    }

    #[test]
    fn a_write_that_waits_for_its_mount_is_named() {
        let found = found("rw,sync,relatime", 1).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        for message in ["/media/usb (sdb) is mounted with `sync`", "write of cp (7)"] {
            assert!(found.sentence.contains(message), "{}", found.sentence);
        }
        assert!(found.fix.contains("remount,async"), "{}", found.fix);
    }

    #[test]
    fn a_sync_without_the_log_of_btrfs_commits_everything() {
        let found = |kind, call| found_on(kind, "/media/usb", "rw,notreelog,ssd", call);
        let fsync = found("btrfs", 74).unwrap();
        let said = "each fsync of cp (7) commits all metadata";
        assert!(fsync.sentence.contains(said), "{}", fsync.sentence);
        assert!(fsync.fix.contains("remount,treelog /media/usb"), "{}", fsync.fix);
        assert_eq!(found("btrfs", 1), None, "a write");
        assert_eq!(found("ext4", 74), None, "no such option");
    }

    #[test]
    fn a_commit_writes_what_others_have_added_without_delayed_allocation() {
        let found_beside = |writer: &str, bytes: u64, options: &str| {
            let mut script = Script::new(10);
            let device = Device { name: "sdb".to_owned(), ..Device::default() };
            script.environment.devices.push(device);
            script.mount("/srv", "ext4", "/dev/sdb");
            options.clone_into(&mut script.environment.mounts[0].options);
            for index in 0..100 {
                let write = script.write("sdb", bytes).by(9, writer);
                write.at((index * 100 * MS) as i64).direct(500, 500, 60 * MS).add();
                script.wait((7, "db"), WaitClass::JournalCommit, 80 * MS, 0, 0);
                script.waited_on("sdb", "/srv/log", 75);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().next().filter(|finding| finding.cause == "synchronous-mount")
        };
        let found = |options: &str| found_beside("wget", 1 << 20, options);
        let ordered = found("rw,nodelalloc").unwrap();
        let said = "fdatasync of db (7) waits until what wget (9) has added";
        assert!(ordered.sentence.contains(said), "{}", ordered.sentence);
        assert_eq!(found("rw,relatime"), None, "allocated at writeback");
        assert_eq!(found("rw,nodelalloc,data=writeback"), None, "a commit is without data");
        assert_eq!(found("rw,nodelalloc,data=journal"), None, "all data is in the journal");
        assert_eq!(found_beside("rsyslogd", 4096, "rw,nodelalloc"), None, "a little");
        assert_eq!(found_beside("kworker/u8:2", 1 << 20, "rw,nodelalloc"), None, "of whom?");
        assert_eq!(found_beside("db", 1 << 20, "rw,nodelalloc"), None, "its own");
    }

    #[test]
    fn a_shell_reads_its_path_as_one_word() {
        let found = found_at("/media/usb$(id)", "rw,sync", 1).unwrap();
        assert!(found.fix.contains("async '/media/usb$(id)'`"), "{}", found.fix);
        assert!(found.check.contains("OPTIONS '/media/usb$(id)'`"), "{}", found.check);
    }

    #[test]
    fn other_options_and_own_syncs_are_not_it() {
        assert_eq!(found("rw,async,nosync2", 1), None);
        assert_eq!(found("rw,sync", 74), None, "fsync");
        assert!(found("rw,dirsync", 82).is_some(), "rename");
    }
}
