//! A process walks the file system's inodes and directories.

use super::super::programs::{self, Topic};
use super::*;
use facts::calls::LIST;
use facts::thresholds::MOST;
use iowhy_analysis::summary::{CodePathRow, ProcessRow, UsedRow};
use iowhy_model::stack::without_types;

/// The least share of the read time for metadata. A load that reads files stays far below. Chosen.
const SHARE: f64 = 0.3;
/// Functions that read a block device itself, mounted or not, those that verify all of a file
/// system, and those that look for free space.
const NO_LOOKUP: &[&str] = &[
    "blkdev_read_iter",
    "blkdev_read_folio",
    "blkdev_readahead",
    "scrub_*",
    "btrfs_scrub_dev",
    "ext4_read_block_bitmap*",
];
/// The largest share of lookups beside them. Chosen: a program that begins looks up its own files.
const LITTLE: f64 = 0.1;
/// The least metadata reads per second for a scan.
const READS_PER_S: f64 = 20.0;
/// Kernel functions that look up names and inodes.
const LOOKUP: &[&str] = &[
    "vfs_statx*",
    "vfs_fstatat",
    "vfs_lstat",
    "iterate_dir",
    "ext4_readdir",
    "xfs_file_readdir",
    "xfs_readdir",
    "btrfs_real_readdir",
    "lookup_slow",
    "__lookup_slow",
    "path_lookupat",
    "filename_lookup",
    "ext4_lookup",
    "xfs_lookup",
    "xfs_vn_lookup",
    "btrfs_lookup*",
    "path_openat",
    "open_last_lookups",
    "link_path_walk",
    "walk_component",
];

/// The least mean number of them in flight. Chosen: one at a time, most of the time.
const ALWAYS: f64 = 0.5;
/// The least number of waits for blocks for each directory opened that makes directories large.
/// Chosen: 64 KiB have room for a few thousand names.
const BLOCKS: u64 = 16;

rule!(
    "metadata-scan",
    "metadata scan",
    "To get a file's size or age, a process reads its inode, and its directory to find the inode. \
     Walking a tree that is not cached (find, du, updatedb, a backup, a disk usage monitor) is one \
     small random read after another. The disk is busy, but no file data is read, and no process \
     seems to read anything.",
    "Reads of file data take more of the time; or the tree is cached.",
    place: Program,
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let reads_of = |device: &DeviceSummary| {
        let row = device.origins.iter().find(|row| row.subject.origin == Origin::Metadata);
        row.map_or((0, 0), |row| {
            let flow = &row.usage.directions[Direction::Read];
            (flow.time_ns, flow.requests)
        })
    };
    let all_reads = |device: &DeviceSummary| -> u64 {
        device
            .origins
            .iter()
            .map(|row| row.usage.directions[Direction::Read].time_ns)
            .fold(0, u64::saturating_add)
    };
    let device = facts.busiest(|device| {
        let (time_ns, requests) = reads_of(device);
        // Beside another program's queue it is a small share, and yet always there.
        let is_most = time_ns as f64 >= SHARE * facts::device_time_ns(device) as f64;
        (is_most || time_ns as f64 >= ALWAYS * facts.duration_ns() as f64)
            && requests as f64 / facts.seconds() >= READS_PER_S
    });
    let device = device.ok_or(Clear)?;
    facts.need_processes()?;
    clear_if(looks_up_nothing(facts))?;
    Ok(finding(facts, device, reads_of(device), all_reads(device)).into())
}

/// Whether most metadata reads look up no names: a program reads the block device itself, as a disk
/// copy does, or the file system reads everything that it stores (a scrub).
fn looks_up_nothing(facts: &Facts<'_>) -> bool {
    let own = |row: &&&UsedRow<CodePathRow>| row.subject.origin == Origin::Metadata;
    let time = |rows: &[&UsedRow<CodePathRow>]| -> f64 {
        rows.iter().filter(own).map(|row| row.usage.time_share).sum()
    };
    let all: Vec<&UsedRow<CodePathRow>> = facts.summary().code_paths.table.rows.iter().collect();
    time(&facts.paths(NO_LOOKUP)) * 2.0 > time(&all)
        && time(&facts.paths(LOOKUP)) < LITTLE * time(&all)
}

/// Returns how to see the functions of a program whose stacks end early.
fn own_functions(subject: &Subject) -> &'static str {
    if subject.process.as_deref() == Some("java") {
        ". For its own functions, run it with -XX:+PreserveFramePointer, and then `jcmd PID \
         Compiler.perfmap`"
    } else {
        ". Its own functions are unknown: it was built without frame pointers"
    }
}

/// Returns the process that reads most metadata from a device, as far as stacks tell; else the one
/// that reads most.
fn top_reader<'a>(facts: &Facts<'a>, device: &'a DeviceSummary) -> Option<&'a UsedRow<ProcessRow>> {
    let reader = reader(facts, &device.device);
    let reads = |row: &UsedRow<ProcessRow>| row.usage.directions[Direction::Read].requests > 0;
    let is_reader = |row: &UsedRow<ProcessRow>| Some(&row.subject.process) == reader.as_ref();
    let top = facts.top_process(device, |row| reads(row) && is_reader(row));
    top.or_else(|| facts.top_process(device, reads))
}

/// Returns the waits for a device of the programs that read metadata from it; of all programs where
/// stacks do not tell.
fn claims(facts: &Facts<'_>, device: &str, share: f64) -> Claims {
    let rows = facts.patterns(device).map_or(&[][..], |patterns| &patterns.code_paths).iter();
    let of_metadata = rows.filter(|row| row.subject.origin == Origin::Metadata);
    let names: Vec<&String> = of_metadata.filter_map(|row| row.subject.process.as_ref()).collect();
    let counts = |group: &WaitGroup| names.is_empty() || names.contains(&&group.process);
    Claims::of_device_for(facts, device, counts).scaled(share)
}

/// Returns the program that reads most metadata from a device, by the stacks of its requests.
fn reader(facts: &Facts<'_>, device: &str) -> Option<String> {
    let rows = facts.patterns(device).map_or(&[][..], |patterns| &patterns.code_paths).iter();
    let of_metadata = rows.filter(|row| row.subject.origin == Origin::Metadata);
    let most = of_metadata.max_by(|a, b| a.usage.time_share.total_cmp(&b.usage.time_share))?;
    most.subject.process.clone()
}

/// Whether it is an index of files on a disk that nobody else waits for, and that would serve
/// others at once most of the time.
fn is_at_leisure(facts: &Facts<'_>, device: &DeviceSummary, subject: &Subject) -> bool {
    let process = subject.process.as_deref().unwrap_or_default();
    let others = facts.waits(|group| group.device == subject.device && group.process != process);
    let is_alone = (others.time_ns as f64) < facts::WARNING_THREADS * facts.duration_ns() as f64;
    let is_idle = device.util_share.is_some_and(|share| share < MOST);
    programs::is_indexer(process) && is_alone && is_idle
}

/// Returns `, from readdir < walk`: the program's functions that look names up.
fn callers(row: &UsedRow<CodePathRow>) -> String {
    let names: Vec<&str> =
        row.subject.user.iter().take(2).map(|function| without_types(function)).collect();
    format!(", from {}", names.join(" < "))
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    (time_ns, requests): (u64, u64),
    all: u64,
) -> Finding {
    let name = &device.device;
    let top = top_reader(facts, device);
    let subject = facts::subject_of(name, top);
    let lookups = facts.paths(LOOKUP).into_iter();
    let paths: Vec<_> = lookups.filter(|row| row.subject.origin == Origin::Metadata).collect();
    let user = paths.iter().find(|row| !row.subject.user.is_empty()).copied();
    let through = user.map_or_else(String::new, callers);
    let busy = device.util_share.map_or(String::new(), |share| {
        format!(" and keeps it busy {} of the time", words::percent(share))
    });
    let stacks = facts.summary().code_paths.sampled_requests > 0;
    let what = match paths.is_empty() && stacks {
        true => "reads metadata blocks",
        false => "scans names and inodes",
    };
    let listed = listed(facts, &subject);
    let what = listed.as_ref().map_or(what, |listed| &listed.what);
    let victims = facts.victims(name, |process| subject.process.as_deref() == Some(process));
    let beside = facts.beside(&victims);
    let sentence = format!("{} {what} on {name}{busy}{through}{beside}", words::who(&subject));
    let of_reads = time_ns as f64 / all.max(1) as f64;
    let whole = facts::device_time_ns(device);
    let lookups: f64 = paths.iter().map(|row| row.usage.time_share).sum();
    // Extent and checksum trees and bitmaps are read without a lookup.
    let sure = match paths.is_empty() {
        false => Confidence::Certain,
        true if stacks => Confidence::Possible,
        true => Confidence::Likely,
    };
    let incomplete = !paths.is_empty() && user.is_none_or(|row| !row.subject.user_complete);
    let hint = if incomplete { own_functions(&subject) } else { "" };
    Finding::of_device(facts, time_ns, whole, sentence)
        .claiming(claims(facts, name, time_ns as f64 / whole.max(1) as f64))
        .at_most(if is_at_leisure(facts, device, &subject) {
            Severity::Info
        } else {
            Severity::Critical
        })
        .about(subject.clone())
        .sure(sure)
        .shown(
            "metadata reads",
            requests as f64 / facts.seconds(),
            "1/s",
            format!("iowhy snoop -d {name} --flags M"),
        )
        .shown("metadata share of the read time", of_reads * 100.0, "%", format!("iowhy -d {name}"))
        .shown(
            "share of request time in name and inode lookups",
            lookups * 100.0,
            "%",
            format!("iowhy stacks{} --flags M", words::flags(&subject)),
        )
        .fix(format!(
            "{}{hint}",
            fix(facts, name, subject.process.as_deref(), listed.is_some_and(|it| it.are_large))
        ))
        .check(format!(
            "`iowhy -d {name} --flags M` while it is stopped: the reads stop; if not, another \
             process does the lookups"
        ))
}

/// Returns how often the processes of a name opened a file or a directory at most; `None` where not
/// all calls were counted.
fn opens_of(facts: &Facts<'_>, process: &str) -> Option<u64> {
    let counted = facts.summary().activity.as_ref();
    let activity = counted.filter(|_| !facts.summary().environment.lacks_calls())?;
    let own = activity.rows.iter().filter(|row| row.process.as_deref() == Some(process));
    let listed = own.map(|row| row.counts.opens).fold(0, u64::saturating_add);
    Some(listed.saturating_add(activity.others.counts.opens))
}

/// What a program lists that waits in calls which list directories most of the time.
struct Listed {
    /// `reads the blocks of directories (/spool/*)`, `walks directories (/srv/*/*)`.
    what: String,
    /// Whether it reads many blocks of each.
    are_large: bool,
}

/// Returns that, if a program lists directories most of the time rather than look up what is in
/// them.
fn listed(facts: &Facts<'_>, subject: &Subject) -> Option<Listed> {
    let process = subject.process.as_ref()?;
    let own = facts.waits(|group| group.device == subject.device && group.process == *process);
    let is_listing = |group: &&&WaitGroup| facts.is_call(group.syscall, LIST);
    let listing = own.groups.iter().filter(is_listing);
    let listing = facts::Waited::from_groups(listing.copied().collect());
    if listing.time_ns as f64 <= MOST * own.time_ns as f64 {
        return None;
    }
    let names: Vec<&str> =
        listing.groups.iter().filter_map(|group| group.file.as_deref()).collect();
    let place = words::pattern(&names).map_or_else(String::new, |place| format!(" ({place})"));
    let opens = opens_of(facts, process);
    let are_large = opens.is_some_and(|opens| listing.waits >= BLOCKS.saturating_mul(opens));
    let what = if are_large { "reads the blocks of directories" } else { "walks directories" };
    Some(Listed { what: format!("{what}{place}"), are_large })
}

/// Returns what to do about a scan; the directories of ext4 that are slow to list never become
/// smaller.
fn fix(facts: &Facts<'_>, device: &str, process: Option<&str>, are_large: bool) -> String {
    let large = match facts.file_system(device).is_some_and(|kind| kind.starts_with("ext")) {
        true if are_large => {
            "see whether `ls -ld` shows far more bytes for them than their names need: a directory \
             that once held many files keeps its blocks. Move its files to a new one, or run \
             `e2fsck -fD` while it is not mounted; else "
        }
        _ => "",
    };
    let advice = programs::advice(process, None, Topic::Lookups)
        .unwrap_or("stop the scan, or run it rarely and at night");
    format!(
        "{large}{advice}. Keep inodes cached longer, at the cost of file data: `sysctl \
         vm.vfs_cache_pressure=50`"
    )
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{MS, Script, US};
    use iowhy_model::{Origin, WaitClass};

    /// 139 metadata reads per second of `each_us` each, through a kernel function.
    fn found(each_us: u64, function: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..1390_u64 {
            let read = script.read("sda", 8192).by(7, "java").at((index * 7190 * US) as i64);
            let read = read.origin(Origin::Metadata).sector(index * 7919 * 8);
            read.direct(500, 500, each_us * US).stacks(&[function, "vfs_read"], &["main"], 1).add();
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "metadata-scan")
    }

    #[test]
    fn a_walk_is_as_severe_as_the_device_is_busy() {
        assert_eq!(found(6190, "xfs_lookup").unwrap().severity, Severity::Critical);
        assert_eq!(found(750, "xfs_lookup").unwrap().severity, Severity::Warning, "busy 10 %");
        assert_eq!(found(250, "xfs_lookup").unwrap().severity, Severity::Info);
    }

    #[test]
    fn a_program_with_settings_against_it_is_told_them() {
        let mut script = Script::new(10);
        for index in 0..1390_u64 {
            let read = script.read("sda", 8192).by(7, "git").at((index * 7190 * US) as i64);
            let read = read.origin(Origin::Metadata).sector(index * 7919 * 8);
            read.direct(500, 500, 6190 * US).stacks(&["xfs_lookup"], &["main"], 1).add();
        }
        let findings = diagnose(&script.summary()).findings;
        let scan = findings.into_iter().find(|finding| finding.cause == "metadata-scan").unwrap();
        assert!(scan.fix.starts_with("git: `git config core.untrackedCache true`"), "{}", scan.fix);
    }

    #[test]
    fn who_looks_for_no_name_walks_over_none() {
        assert_eq!(found(6190, "blkdev_read_iter"), None, "a copy of the disk");
        assert_eq!(found(6190, "scrub_stripe"), None, "all of a file system is verified");
        let other = found(6190, "btrfs_search_slot").unwrap();
        assert_eq!(other.confidence, Confidence::Possible);
        assert!(other.sentence.contains("metadata blocks"), "{}", other.sentence);
    }

    #[test]
    fn an_index_of_files_on_a_disk_of_its_own_may_take_its_time() {
        let severity = |name: &str, other_ms: u64, each_us: u64| {
            let mut script = Script::new(10);
            for index in 0..1390_u64 {
                let read = script.read("sda", 8192).by(7, name).at((index * 7190 * US) as i64);
                let read = read.origin(Origin::Metadata).sector(index * 7919 * 8);
                read.direct(500, 500, each_us * US).stacks(&["xfs_lookup"], &["main"], 1).add();
            }
            script.wait((8, "db"), WaitClass::Device, other_ms * MS, other_ms * MS, 0);
            script.waited_on("sda", "/db/table", 0);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|it| it.cause == "metadata-scan").unwrap().severity
        };
        assert_eq!(severity("updatedb", 100, 3000), Severity::Info);
        assert!(severity("updatedb", 5000, 3000) > Severity::Info);
        assert!(severity("updatedb", 100, 6190) > Severity::Info, "busy 87 %");
        assert!(severity("find", 100, 3000) > Severity::Info);
    }

    #[test]
    fn directories_that_are_listed_may_be_larger_than_their_names_need() {
        let found = |call: u32, kind: &str, opens: u64| {
            let mut script = Script::new(10);
            script.device("sda", &[]);
            script.mount("/spool", kind, "/dev/sda");
            for index in 0..1390_u64 {
                let read = script.read("sda", 4096).by(7, "ls").at((index * 7190 * US) as i64);
                let read = read.origin(Origin::Metadata).sector(index * 7919 * 8);
                read.direct(500, 500, 6190 * US).stacks(&["iterate_dir"], &[], 1).add();
            }
            for _ in 0..16 {
                script.wait((7, "ls"), WaitClass::Device, 500 * MS, 500 * MS, 0);
                script.waited_on("sda", "/spool/in", call);
            }
            let counts = Counts { opens, ..Counts::default() };
            script.did((7, "ls"), "/spool/in", counts);
            script.wait((8, "smtpd"), WaitClass::Device, 4000 * MS, 4000 * MS, 0);
            script.waited_on("sda", "/spool/mail", 0);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "metadata-scan").unwrap()
        };
        let (listing, other) = (found(217, "ext4", 1), found(262, "ext4", 1));
        let said = "ls (7) reads the blocks of directories (/spool/in) on sda";
        assert!(listing.sentence.starts_with(said), "{}", listing.sentence);
        assert!(listing.fix.contains("e2fsck -fD") && !other.fix.contains("e2fsck"), "{other:?}");
        assert!(!found(217, "xfs", 1).fix.contains("e2fsck"), "directories of XFS become smaller");
        let walk = found(217, "ext4", 16);
        assert!(walk.sentence.starts_with("ls (7) walks directories (/spool/in)"), "{walk:?}");
        assert!(!walk.fix.contains("e2fsck"), "{}", walk.fix);
        let beside = "smtpd (8) waits for the same device, 4.00 s each";
        assert!(walk.sentence.ends_with(beside), "{}", walk.sentence);
    }
}
