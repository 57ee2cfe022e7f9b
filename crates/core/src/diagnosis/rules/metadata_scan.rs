//! Somebody walks over the file system's inodes and directories.

use super::*;
use crate::analysis::Direction;
use crate::analysis::summary::DeviceSummary;
use crate::model::Origin;

/// The share of the reads' time that is for the file system's own blocks. A load that reads files
/// stays far below. Chosen.
const SHARE: f64 = 0.3;
/// Metadata reads a second from which on it is a scan.
const READS_PER_S: f64 = 20.0;
/// Functions of the kernel that look for names and inodes.
const LOOKUP: &[&str] = &[
    "vfs_statx*", "vfs_fstatat", "vfs_lstat", "iterate_dir", "ext4_readdir", "xfs_file_readdir", "xfs_readdir",
    "btrfs_real_readdir", "lookup_slow", "__lookup_slow", "path_lookupat", "filename_lookup", "ext4_lookup",
    "xfs_lookup", "xfs_vn_lookup", "btrfs_lookup*", "path_openat", "open_last_lookups", "link_path_walk", "walk_component",
];

rule!(
    "metadata-scan",
    "a scan over names and inodes",
    "Finding out a file's size or age reads its inode, and its directory to find the inode. A walk over \
     a tree that is not in memory (find, du, updatedb, a backup, a monitor of disk usage) is one small \
     random read after another. The disk is busy, no byte of any file is read, and no process seems \
     to read anything.",
    "Reads of file data that take more of the time; or a walk over a tree that is in memory.",
    symptoms: [
        "serial-reads", "atime-updates", "provider-cap", "device-slow-tail", "noisy-neighbour",
    ],
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
        device.origins.iter().map(|row| row.usage.directions[Direction::Read].time_ns).sum()
    };
    let device = facts.busiest(|device| {
        let (time_ns, requests) = reads_of(device);
        time_ns as f64 >= SHARE * facts::device_time_ns(device) as f64
            && requests as f64 / facts.seconds() >= READS_PER_S
    });
    let Some(device) = device else { return Ok(Verdict::Clear) };
    facts.need_processes()?;
    Ok(finding(facts, device, reads_of(device), all_reads(device)).into())
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, (time_ns, requests): (u64, u64), all: u64) -> Finding {
    let name = &device.device;
    let top = facts.top_process(device, |row| row.usage.directions[Direction::Read].requests > 0);
    let subject = facts::subject_of(name, top);
    let paths: Vec<_> = facts
        .paths(LOOKUP)
        .into_iter()
        .filter(|row| row.subject.origin == Origin::Metadata)
        .collect();
    let user = paths.iter().find(|row| !row.subject.user.is_empty());
    let through = user.map_or(String::new(), |row| {
        let names: Vec<&str> = row.subject.user.iter().take(2).map(String::as_str).collect();
        format!(", from {}", names.join(" < "))
    });
    let busy = device.util_share.map_or(String::new(), |share| {
        format!(" and keeps it busy {} of the time", words::percent(share))
    });
    let sentence = format!("{} walks over names and inodes on {name}{busy}{through}", words::who(&subject));
    let of_reads = time_ns as f64 / all.max(1) as f64;
    let whole = facts::device_time_ns(device);
    let lookups: f64 = paths.iter().map(|row| row.usage.time_share).sum();
    let flags = words::flags(&subject);
    let sure = if paths.is_empty() { Confidence::Likely } else { Confidence::Certain };
    let incomplete = !paths.is_empty() && user.is_none_or(|row| !row.subject.user_complete);
    let hint = if incomplete {
        "; its own functions are not known: the program lacks frame pointers or a map of its symbols (Java: \
         -XX:+PreserveFramePointer and `jcmd PID Compiler.perfmap`)"
    } else {
        ""
    };
    Finding::of_device(facts, time_ns, whole, sentence)
        .about(subject)
        .sure(sure)
        .shown("reads of the file system's own blocks", requests as f64 / facts.seconds(), "1/s", format!("iowhy snoop -d {name} --flags M"))
        .shown("their share of the time of all reads", of_reads * 100.0, "%", format!("iowhy -d {name}"))
        .shown("requests' time that looks up names and inodes", lookups * 100.0, "%", format!("iowhy stacks{flags} --flags M"))
        .fix(format!("stop the scan, or run it seldom and at night; let inodes stay in memory for longer: `sysctl vm.vfs_cache_pressure=50`, never 0; files get less{hint}"))
        .check(format!("`iowhy -d {name} --flags M` while it is stopped: the reads end; if not, somebody else looks for names"))
}
