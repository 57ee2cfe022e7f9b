//! Threads wait for a journal commit.

use super::*;
use crate::programs::{self, FileRole, Topic};
use facts::Waited;
use facts::calls::{SYNC_ALL, SYNC_FILE};
use facts::thresholds::WARNING_SHARE;
use facts::writers::Place;
use iowhy_analysis::summary::{ActivityRow, ProcessRow, UsedRow};
use std::collections::BTreeMap;

/// The mean wait of slow commits: a commit is a few writes and a flush, single milliseconds on SSDs
/// and tens on disks; commits that wait for others' data take far longer.
const SLOW_NS: f64 = 50_000_000.0;
/// Functions in which btrfs waits until it can reserve space for a change.
const TICKETS: &[&str] = &["handle_reserve_ticket", "wait_reserve_ticket"];

rule!(
    "journal-commit",
    "journal commits that hold up writers",
    "A file system's changes go into one running transaction (ext4: jbd2, XFS: its log, btrfs: a \
     commit of its trees). While it commits, the operations that need it wait: creating, renaming \
     and removing files, inode updates, and every fsync. The commit waits for the operations that \
     are part of it, and its blocks queue at the device behind all other data. ext4 in ordered \
     mode also writes the data of files that grew first; since 5.6 (dioread_nolock) only data not \
     allocated as unwritten extents, so a large writer now delays a commit mostly through the \
     device's queue and the size of the transaction. btrfs also waits to reserve space for a \
     change.",
    "The commits are short: then the number of syncs is the cause (fsync-heavy).",
    place: FileSystem,
    needs: [Waits],
    trial: "sync=none",
);

pub(super) const OF_JOURNAL: [WaitClass; 2] = [WaitClass::JournalCommit, WaitClass::JournalSpace];

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let is_sync = |call| facts.is_call(call, SYNC_FILE) || facts.is_call(call, SYNC_ALL);
    let all = facts.waits(|group| OF_JOURNAL.contains(&group.class));
    let others = facts.waits(|group| OF_JOURNAL.contains(&group.class) && !is_sync(group.syscall));
    let slow = all.mean_ns() >= SLOW_NS;
    let held = others.time_ns * 2 >= all.time_ns;
    clear_if(all.time_ns == 0 || !(slow || held))?;
    let syncs = facts.waits(|group| OF_JOURNAL.contains(&group.class) && is_sync(group.syscall));
    let longest = Subject { file: None, ..all.subject() };
    let kind = JournalKind::new(facts, longest.device.as_deref());
    let filler = filler(facts, &longest);
    let syncing = syncing_beside(facts, &others, &syncs).filter(|syncing| {
        // An fsync of btrfs writes its own log, and commits no transaction.
        kind != Some(JournalKind::Btrfs) && !filler.is_other_than(syncing)
    });
    let (subject, filler, waited) = match syncing {
        Some(syncing) => {
            let held = Subject { file: None, ..others.subject() };
            (held, Filler::Syncs(syncing), &others)
        }
        None => {
            let waiting = all.subject();
            let beside = || beside(facts, &waiting);
            let is_known = !matches!(filler, Filler::Unknown);
            (longest, if is_known { filler } else { beside().unwrap_or(filler) }, &all)
        }
    };
    let (tickets_ns, _) = facts.waits_in(TICKETS);
    let for_what = awaited(kind, tickets_ns * 2 >= all.time_ns);
    let sentence = format!(
        "{} waits for {for_what}{}, {} on average{}",
        words::who(&subject),
        words::on(&subject),
        words::time(waited.mean_ns()),
        filler.words(),
    );
    // btrfs also waits for space, no matter which program writes.
    let is_own = matches!(filler, Filler::Itself) && tickets_ns * 2 < all.time_ns;
    let fix = remedy(facts, &subject, &filler, kind, held, is_own);
    let outside = others.time_ns as f64 / all.time_ns as f64 * 100.0;
    Ok(Finding::of_blocked(facts, waited.time_ns, sentence)
        .claiming(Claims::of_waits(waited))
        .causing(Claims::of_waits(&all))
        .about(subject)
        .shown("blocked time for the journal", all.time_ns as f64, "ns", "iowhy waits")
        .also("share outside fsync", outside, "%")
        .also("longest wait", waited.longest_ns() as f64, "ns")
        .fix(fix)
        // Its own writes fill the journal, as fast as the device is: why it writes and syncs them,
        // and why the device is slow, is for others to say.
        .at_most(if is_own { Severity::Info } else { Severity::Critical })
        .check(check(kind))
        .into())
}

/// The advice about a journal that the waiting program fills itself.
const OWN: &str = "its own changes fill the journal: change fewer names and inodes, sync less \
                   often or several files at once (syncfs), keep scratch files on a tmpfs; else a \
                   faster device";

/// Returns the advice: about who syncs, else the program's own setting, where its own syncs wait
/// and not mostly others (`held`).
fn remedy(
    facts: &Facts<'_>,
    subject: &Subject,
    filler: &Filler,
    kind: Option<JournalKind>,
    held: bool,
    is_own: bool,
) -> String {
    let is_of_journal = matches!(kind, Some(JournalKind::Ext4 | JournalKind::Xfs));
    let program = programs::of(subject.process.as_deref(), None);
    let topic = match filler {
        Filler::Snapshot(..) => Topic::Snapshot,
        _ => Topic::Sync,
    };
    let own = program.and_then(|program| program.advice(topic));
    let general = fix(facts, kind);
    match (filler, own.filter(|_| !held && is_of_journal)) {
        (Filler::Syncs(who), _) => format!("let {} {OF_SYNCS}; else {general}", words::who(who)),
        (_, Some(advice)) => format!("{advice}; else {general}"),
        _ if is_own && is_of_journal => OWN.to_owned(),
        _ => general,
    }
}

/// The part of a file system that programs wait for, most of the time for space in it or not.
fn awaited(kind: Option<JournalKind>, is_for_space: bool) -> &'static str {
    match kind {
        Some(JournalKind::Btrfs) if is_for_space => "btrfs to reserve space",
        Some(JournalKind::Btrfs) => "the transaction of btrfs",
        Some(JournalKind::Xfs) => "the log of XFS",
        _ => "the file system's journal",
    }
}

/// The advice about a program whose syncs another one waits for.
const OF_SYNCS: &str = "sync less often, or keep the two on different file systems; files that \
                        need not outlive a crash (heartbeats, locks, pid files) belong on a tmpfs";

/// The most names a second that a program creates and removes without filling the journal itself.
/// Chosen: as for temporary files.
const NAMES_PER_S: f64 = 10.0;
/// The most of a device's written bytes that are of a program which does not fill it. Chosen.
const LITTLE: f64 = 0.1;

/// Returns the program whose syncs commit the journal, a tenth of the time and more, while another
/// one, which neither syncs nor changes much, loses a tenth of its time to it.
fn syncing_beside(facts: &Facts<'_>, others: &Waited<'_>, syncs: &Waited<'_>) -> Option<Subject> {
    let (held, syncing) = (others.subject(), syncs.subject());
    let time_of = |waited: &Waited<'_>, process: Option<&str>| {
        let own = waited.groups.iter().filter(|group| Some(group.process.as_str()) == process);
        own.map(|group| group.time_ns).fold(0, u64::saturating_add) as f64
    };
    let (of_held, of_syncing) = (held.process.as_deref(), syncing.process.as_deref());
    let least = WARNING_SHARE * facts.duration_ns() as f64;
    let is_held = time_of(others, of_held) >= least && time_of(syncs, of_held) == 0.0;
    let syncs_much = time_of(syncs, of_syncing) >= least;
    let mount = |who: &Subject| {
        facts.mount_of_file(who.file.as_deref()?).map(|mount| (mount.major, mount.minor))
    };
    let is_elsewhere =
        mount(&held).zip(mount(&syncing)).is_some_and(|(held, syncing)| held != syncing);
    let is_same_journal = held.device.is_some() && held.device == syncing.device && !is_elsewhere;
    (is_held && syncs_much && is_same_journal && !fills(facts, &held)).then_some(syncing)
}

/// Whether a program changes so much that it fills the journal itself.
fn fills(facts: &Facts<'_>, held: &Subject) -> bool {
    let rows = facts.summary().activity.iter().flat_map(|activity| &activity.rows);
    let own = rows.filter(|row| held.process.is_some() && row.process == held.process);
    let names: u64 = own.map(|row| row.counts.creates + row.counts.unlinks).sum();
    let device = facts.devices().iter().find(|row| Some(&row.device) == held.device.as_ref());
    let written = device.map_or(0.0, |device| {
        let own = device
            .processes
            .iter()
            .filter(|row| Some(&row.subject.process) == held.process.as_ref());
        let own: u64 = own.map(|row| row.usage.directions[Direction::Write].bytes).sum();
        own as f64 / facts::of(device, Direction::Write).bytes.max(1) as f64
    });
    let counted_s = facts.seconds() * facts.summary().environment.calls_share();
    names as f64 >= NAMES_PER_S * counted_s || written > LITTLE
}

/// The program that fills the journal of a device.
enum Filler {
    /// Another program, whose syncs commit the journal.
    Syncs(Subject),
    /// The program that waits longest.
    Itself,
    /// Another program, and its share of the written bytes.
    Other(Subject, f64),
    /// Another program, and the bytes that it writes to files of the same file system.
    Writer(Subject, u64),
    /// The program itself, which writes so many bytes of a snapshot.
    Snapshot(Subject, u64),
    /// An unknown program.
    Unknown,
}

impl Filler {
    /// Whether it is known to be another program than this one.
    fn is_other_than(&self, syncing: &Subject) -> bool {
        matches!(self, Filler::Other(who, _) if who.process != syncing.process)
    }

    fn words(&self) -> String {
        match self {
            Filler::Syncs(who) => format!(
                "; {} syncs meanwhile, and each of its syncs commits the journal",
                words::who(who)
            ),
            Filler::Itself => "; its own writes are most of what the device writes".to_owned(),
            Filler::Other(who, share) => format!(
                "; {} of what the device writes is of {}",
                words::percent(*share),
                words::who(who)
            ),
            Filler::Writer(who, bytes) => format!(
                "; {} writes {} to files of the same file system meanwhile",
                words::who(who),
                words::bytes(*bytes as f64)
            ),
            Filler::Snapshot(who, bytes) => format!(
                "; {} writes {} of its snapshot{} meanwhile",
                words::who(who),
                words::bytes(*bytes as f64),
                who.file.as_ref().map(|file| format!(" {file}")).unwrap_or_default()
            ),
            Filler::Unknown => String::new(),
        }
    }
}

/// Threads of the kernel that write what others changed, or the tables of inodes (a file system's
/// maintenance, which has a finding of its own).
const KERNEL: [&str; 3] = ["kworker", "jbd2", "ext4lazyinit"];

/// The least ratio of the bytes that another program writes to those of the waiting one. Chosen.
const FAR_MORE: u64 = 4;
/// The least bytes a second of a program that fills a journal by its writes. Chosen: a megabyte is
/// what a slow device takes at once.
const MUCH_PER_S: f64 = 1_048_576.0;

/// Returns the file system that a program waits for.
fn place(facts: &Facts<'_>, waiting: &Subject) -> Option<Place> {
    let own = waiting.file.as_deref().and_then(|file| facts.place_of(file));
    own.or_else(|| facts.place_changed_by(waiting.process.as_deref()?))
}

/// Returns who writes most to the file system that a program waits for: another program, or a
/// process of its own that writes a snapshot.
fn beside(facts: &Facts<'_>, waiting: &Subject) -> Option<Filler> {
    match (snapshot_of(facts, waiting), writer_beside(facts, waiting)) {
        (Some(Filler::Snapshot(_, own)), Some(Filler::Writer(who, bytes))) if bytes > own => {
            Some(Filler::Writer(who, bytes))
        }
        (snapshot, writer) => snapshot.or(writer),
    }
}

/// Returns who writes to files of the file system that a program waits for, far more than that one
/// itself: what is written back may have been dirtied before the watch.
fn writer_beside(facts: &Facts<'_>, waiting: &Subject) -> Option<Filler> {
    let process = waiting.process.as_deref();
    let place = place(facts, waiting)?;
    let mut written = facts.written_by_calls(place);
    let own = process.and_then(|name| written.remove(name)).unwrap_or(0);
    let (writer, bytes) = written.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let is_much = bytes as f64 >= MUCH_PER_S * facts.seconds();
    let process = Some(writer.to_owned());
    (is_much && bytes >= own.saturating_mul(FAR_MORE))
        .then_some(Filler::Writer(Subject { process, ..Subject::default() }, bytes))
}

/// Returns the process of the waiting program that writes a snapshot to the same file system, far
/// more than the program writes to its other files: databases fork a process for that.
fn snapshot_of(facts: &Facts<'_>, waiting: &Subject) -> Option<Filler> {
    let process = waiting.process.as_deref()?;
    let rows = facts.summary().activity.iter().flat_map(|activity| &activity.rows);
    let place = place(facts, waiting)?;
    let own = rows.filter(|row| {
        let is_here = row.file.as_deref().and_then(|file| facts.place_of(file)) == Some(place);
        is_here && row.process.as_deref() == Some(process)
    });
    let is_snapshot = |row: &&ActivityRow| {
        let role = row.file.as_deref().and_then(|file| programs::role_of(Some(process), file));
        role == Some(FileRole::Snapshot)
    };
    let (snapshots, others): (Vec<&ActivityRow>, Vec<&ActivityRow>) = own.partition(is_snapshot);
    let sum = |rows: &[&ActivityRow]| -> u64 {
        rows.iter().map(|row| row.counts.write_bytes).fold(0, u64::saturating_add)
    };
    let most = snapshots.iter().max_by_key(|row| row.counts.write_bytes)?;
    let bytes = sum(&snapshots);
    let is_much = bytes as f64 >= MUCH_PER_S * facts.seconds();
    let who = Subject {
        process: most.process.clone(),
        pid: Some(most.pid),
        file: most.file.clone(),
        ..Subject::default()
    };
    (is_much && bytes >= sum(&others).saturating_mul(FAR_MORE))
        .then_some(Filler::Snapshot(who, bytes))
}

/// Returns who writes most to the device of a journal: half of the bytes and more.
fn filler(facts: &Facts<'_>, waiting: &Subject) -> Filler {
    let device = facts.devices().iter().find(|row| Some(&row.device) == waiting.device.as_ref());
    let Some(device) = device else { return Filler::Unknown };
    let written = |row: &UsedRow<ProcessRow>| row.usage.directions[Direction::Write].bytes;
    let programs = device.processes.iter().filter(|row| {
        let name = row.subject.process.as_str();
        !name.is_empty() && !KERNEL.iter().any(|kernel| name.starts_with(kernel))
    });
    let programs: Vec<&UsedRow<ProcessRow>> = programs.collect();
    let all = facts::of(device, Direction::Write).bytes.max(1);
    let is_own =
        |row: &&&UsedRow<ProcessRow>| Some(&row.subject.process) == waiting.process.as_ref();
    let own: u64 =
        programs.iter().filter(is_own).map(|row| written(row)).fold(0, u64::saturating_add);
    if 2 * own >= all {
        return Filler::Itself;
    }
    // Each file of a copy may be one process.
    let of_program = |row: &UsedRow<ProcessRow>| -> u64 {
        let same = programs.iter().filter(|program| program.subject.process == row.subject.process);
        same.map(|row| written(row)).fold(0, u64::saturating_add)
    };
    let others = programs.iter().filter(|row| !is_own(row));
    let Some(most) = others.max_by_key(|row| (of_program(row), written(row))) else {
        return Filler::Unknown;
    };
    match of_program(most) as f64 / all as f64 {
        share if share >= 0.5 => {
            Filler::Other(facts::subject_of(&device.device, Some(most)), share)
        }
        _ => of_files(facts, device, waiting),
    }
}

/// Returns who writes the files with half of the bytes and more: what was dirtied before the watch
/// has no other owner.
fn of_files(facts: &Facts<'_>, device: &DeviceSummary, waiting: &Subject) -> Filler {
    let files = facts.patterns(&device.device).map_or(&[][..], |it| &it.access.files);
    let mut written: BTreeMap<&str, u64> = BTreeMap::new();
    for file in files.iter().filter(|file| file.written > 0) {
        let Some(writer) = super::log_flood::writer(facts, &file.file) else { continue };
        *written.entry(writer).or_default() += file.written;
    }
    let most = written.into_iter().max_by_key(|(_, bytes)| *bytes);
    let Some((writer, bytes)) = most else { return Filler::Unknown };
    let share = bytes as f64 / facts::of(device, Direction::Write).bytes.max(1) as f64;
    if share < 0.5 || Some(writer) == waiting.process.as_deref() {
        return Filler::Unknown;
    }
    let process = Some(writer.to_owned());
    Filler::Other(Subject { process, ..Subject::default() }, share)
}

/// File systems whose journals differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JournalKind {
    Ext4,
    Xfs,
    Btrfs,
}

/// Functions that wait for a journal, by file system.
const FUNCTIONS: &[(JournalKind, &[&str])] = &[
    (
        JournalKind::Btrfs,
        &[
            "btrfs_*",
            "handle_reserve_ticket",
            "wait_reserve_ticket",
            "wait_current_trans*",
            "start_transaction",
            "wait_for_commit",
            "wait_log_commit",
        ],
    ),
    (JournalKind::Xfs, &["xfs_*", "xlog_*"]),
    (JournalKind::Ext4, &["jbd2_*", "ext4_*", "start_this_handle", "do_get_write_access"]),
];

impl JournalKind {
    /// Returns the one with most of the journal waits, by their stacks; else the one on the device.
    pub(super) fn new(facts: &Facts<'_>, device: Option<&str>) -> Option<JournalKind> {
        let time = |functions: &[&str]| {
            let fits = |functions: &[&str], stack: &[String]| facts::has_function(stack, functions);
            facts
                .waits_with(|it| OF_JOURNAL.contains(&it.class) && fits(functions, &it.functions))
                .0
        };
        let most = FUNCTIONS.iter().map(|(kind, functions)| (time(functions), *kind));
        let most = most.max_by_key(|it| it.0).filter(|it| it.0 > 0);
        most.map(|it| it.1).or_else(|| JournalKind::named(facts.file_system(device?)?))
    }

    fn named(name: &str) -> Option<JournalKind> {
        match name {
            "ext4" | "ext3" => Some(JournalKind::Ext4),
            "xfs" => Some(JournalKind::Xfs),
            "btrfs" => Some(JournalKind::Btrfs),
            _ => None,
        }
    }
}

const MOVE: &str = "find the largest writer (`iowhy blame`) and move it, or the process that \
                    syncs, to another file system; write less at once: lower \
                    vm.dirty_background_bytes, which affects the entire machine";

/// The mount option of btrfs with which a commit writes out all data first.
const FLUSHED: &str = "flushoncommit";

fn fix(facts: &Facts<'_>, kind: Option<JournalKind>) -> String {
    // Of waits for a transaction neither device nor mount is known.
    let mounts = || facts.summary().environment.mounts.iter().filter(|it| it.kind == "btrfs");
    let is_flushed = mounts().next().is_some() && mounts().all(|mount| mount.has_option(FLUSHED));
    let own = match kind {
        Some(JournalKind::Btrfs) if is_flushed => {
            "mount btrfs without `flushoncommit`: with it each commit first writes out all data \
             that is dirty, while changes of names wait (without it a crash may leave names and \
             sizes of files whose last data is missing, unless programs sync); or keep the large \
             writer on another file system; "
        }
        Some(JournalKind::Btrfs) => {
            "free space (`btrfs filesystem usage`), turn off unneeded quotas (`btrfs quota \
             disable`), keep fewer snapshots; "
        }
        _ => "",
    };
    let other = match kind {
        None => "; btrfs: free space, turn quotas off, keep fewer snapshots",
        _ => "",
    };
    format!("{own}{MOVE}{other}")
}

fn check(kind: Option<JournalKind>) -> String {
    let own = match kind {
        Some(JournalKind::Btrfs) => {
            "; `cat /sys/fs/btrfs/*/commit_stats` shows how long commits take (if the kernel has \
             it), `btrfs filesystem usage` whether space is short"
        }
        Some(JournalKind::Xfs) => "",
        _ => {
            "; ext4: `cat /proc/fs/jbd2/*/info` shows the mean commit time since the mount, and \
             how much of it is others' data (flushing data)"
        }
    };
    format!("pause the largest writer: if the waits stay as long, its data is not the cause{own}")
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::environment::Mount;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script};

    /// Waits of 200 ms on sda outside fsync, with these functions, on a mount of that type.
    fn found(frames: &[&str], kind: &str) -> Finding {
        let mut script = Script::new(10);
        script.environment.mounts.push(Mount {
            major: 8,
            path: "/data".to_owned(),
            kind: kind.to_owned(),
            source: "/dev/sda".to_owned(),
            ..Mount::default()
        });
        script.write("sda", 4096).by(7, "app").direct(0, 0, MS).add();
        for _ in 0..30 {
            script.wait((7, "app"), WaitClass::JournalSpace, 200 * MS, 0, 0);
            let wait = script.batch.waits.last_mut().unwrap();
            wait.device = Some(script.names.intern("sda"));
            script.stacked(frames);
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "journal-commit").unwrap()
    }

    #[test]
    fn advice_is_the_file_system_s() {
        let ext4 = found(&["start_this_handle", "ext4_create"], "ext4");
        let btrfs = found(&["handle_reserve_ticket", "btrfs_create_common"], "ext4");
        assert!(btrfs.fix.starts_with("free space") && !btrfs.check.contains("jbd2"));
        assert!(btrfs.sentence.contains("btrfs to reserve space"), "{btrfs:?}");
        assert!(!ext4.fix.contains("btrfs") && ext4.check.contains("jbd2"), "{ext4:?}");
        // Without stacks the mount's type decides.
        let xfs = found(&[], "xfs");
        assert!(xfs.sentence.contains("the log of XFS") && !xfs.check.contains("jbd2"));
        assert!(found(&[], "btrfs").fix.starts_with("free space"));
        assert!(found(&[], "zonefs").fix.contains("; btrfs: "));
    }

    /// A program that waits ten times so long in these calls.
    type Waiting = ((u32, &'static str), u64, &'static [u32]);

    const RSYNC: Waiting = ((7, "rsync"), 200, &[FSYNC]);
    const APP: Waiting = ((8, "app"), 200, &[FCHMOD]);
    const FSYNC: u32 = 74;
    const FCHMOD: u32 = 91;

    /// These programs wait for the journal of sda, to which the second has written so much.
    fn beside_syncs(waiting: &[Waiting], written: u64) -> Finding {
        let mut script = Script::new(10);
        script.write("sda", 4096).by(7, "rsync").direct(0, 0, MS).add();
        script.write("sda", written).by(8, "app").direct(0, 0, MS).add();
        for (who, ms, calls) in waiting {
            for call in (0..10).flat_map(|_| *calls) {
                script.wait(*who, WaitClass::JournalCommit, ms * MS, 0, 0);
                let wait = script.batch.waits.last_mut().unwrap();
                wait.device = Some(script.names.intern("sda"));
                wait.syscall = Some(*call);
            }
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "journal-commit").unwrap()
    }

    #[test]
    fn who_writes_to_the_same_file_system_is_named_by_its_calls() {
        let found = |bytes: u64, path: &str| {
            let mut script = Script::new(10);
            script.environment.mounts = ["/data", "/other"].iter().zip(8..).map(mounted).collect();
            script.did((7, "app"), "/data/app/1", written(4096));
            script.did((8, "tar"), path, written(bytes));
            for _ in 0..30 {
                script.wait((7, "app"), WaitClass::JournalCommit, 200 * MS, 0, 0);
                script.waited_on("sda", "/data/app/1", FSYNC);
            }
            let found = diagnose(&script.summary()).findings;
            found.into_iter().find(|it| it.cause == "journal-commit").unwrap().sentence
        };
        let said = "; tar writes 100 MiB to files of the same file system meanwhile";
        assert!(found(100 << 20, "/data/new/1").contains(said));
        assert!(!found(100 << 20, "/other/new/1").contains("tar"));
        assert!(!found(1 << 20, "/data/new/1").contains("tar"), "a tenth of a MiB a second");
    }

    #[test]
    fn a_snapshot_of_the_waiting_program_is_named_with_its_process() {
        let found = |snapshot: u64, path: &str| {
            let mut script = Script::new(10);
            script.environment.mounts = ["/data", "/other"].iter().zip(8..).map(mounted).collect();
            script.did((7, "redis-server"), "/data/appendonlydir/1.aof", written(4 << 20));
            script.did((9, "redis-server"), path, written(snapshot));
            for _ in 0..30 {
                script.wait((7, "redis-server"), WaitClass::JournalCommit, 200 * MS, 0, 0);
                script.waited_on("sda", "/data/appendonlydir/1.aof", FSYNC);
                script.stacked(&["jbd2_log_wait_commit", "ext4_sync_file"]);
            }
            let found = diagnose(&script.summary()).findings;
            found.into_iter().find(|it| it.cause == "journal-commit").unwrap()
        };
        let large = found(100 << 20, "/data/temp-9.rdb");
        let said = "; redis-server (9) writes 100 MiB of its snapshot /data/temp-9.rdb meanwhile";
        assert!(large.sentence.contains(said), "{}", large.sentence);
        assert!(large.fix.starts_with("Redis: keep rdb-save-incremental-fsync"), "{}", large.fix);
        for other in [found(12 << 20, "/data/temp-9.rdb"), found(100 << 20, "/other/temp-9.rdb")] {
            assert!(!other.sentence.contains("snapshot"), "{}", other.sentence);
        }
    }

    fn written(write_bytes: u64) -> Counts {
        Counts { writes: 1, write_bytes, ..Counts::default() }
    }

    fn mounted((path, major): (&&str, u32)) -> Mount {
        let (path, kind) = ((*path).to_owned(), "ext4".to_owned());
        Mount { major, path, kind, ..Mount::default() }
    }

    #[test]
    fn who_does_not_sync_is_the_victim_of_one_that_does() {
        let held = beside_syncs(&[RSYNC, APP], 0);
        assert!(held.sentence.starts_with("app (8) waits for"), "{held:?}");
        assert!(held.sentence.contains("rsync (7) syncs meanwhile"), "{held:?}");
        assert_eq!(held.gain.as_ref().and_then(|it| it.process.as_deref()), Some("app"));
        let seldom = ((7, "rsync"), 2, RSYNC.2);
        let syncs_too = (APP.0, APP.1, &[FSYNC, FCHMOD][..]);
        for (other, why) in [
            (beside_syncs(&[RSYNC, APP], 1 << 20), "it fills the journal itself"),
            (beside_syncs(&[seldom, APP], 0), "hardly a sync"),
            (beside_syncs(&[RSYNC, syncs_too], 0), "it syncs itself"),
        ] {
            assert!(!other.sentence.contains("syncs meanwhile"), "{why}: {other:?}");
        }
    }

    #[test]
    fn no_advice_risks_data() {
        for kind in ["ext4", "xfs", "btrfs", "zonefs"] {
            assert!(!found(&[], kind).fix.contains("fast_commit"));
        }
    }
}
