//! The kernel or a maintenance tool processes an entire file system while others wait for its disk.

use super::*;
use facts::thresholds::DEVICE_SHARE;

struct KernelWork {
    what: &'static str,
    functions: &'static [&'static str],
    processes: &'static [&'static str],
    fix: &'static str,
}

const KINDS: &[KernelWork] = &[
    KernelWork {
        what: "ext4 writes the inode tables that mkfs skipped (lazy initialisation)",
        functions: &["ext4_lazyinit_thread", "ext4_init_inode_table"],
        processes: &["ext4lazyinit"],
        fix: "it ends on its own, runs once per new file system, and takes longer the larger it \
              is; to slow it down: `mount -o remount,init_itable=100`; to do it at mkfs time: \
              `mkfs.ext4 -E lazy_itable_init=0`",
    },
    KernelWork {
        what: "fstrim discards unused space",
        functions: &["ext4_trim_fs", "xfs_ioc_trim", "xfs_trim_*", "btrfs_trim_fs", "f2fs_trim_fs"],
        processes: &["fstrim"],
        fix: "run it off-peak (`systemctl edit fstrim.timer`), without short extents (`fstrim \
              --minimum 1M`) or in smaller ranges (`-o OFFSET -l LENGTH`); do not \
              disable it: without it flash and thin pools fill up",
    },
    KernelWork {
        what: "XFS frees the blocks of removed files",
        functions: &["xfs_inodegc_worker", "xfs_inodegc_inactivate"],
        processes: &["xfs-inodegc*"],
        fix: "remove large or heavily fragmented files in smaller portions (truncate step by \
              step), off-peak",
    },
    KernelWork {
        what: "xfs_scrub checks the metadata of XFS",
        functions: &["xfs_ioc_scrub_*", "xfs_scrub_metadata", "xchk_*"],
        processes: &["xfs_scrub*"],
        fix: "run it off-peak, with a limit (`xfs_scrub -b`, or IOReadBandwidthMax= in \
              xfs_scrub@.service); it finds damage early, so do not disable it",
    },
    KernelWork {
        what: "a defragmenter moves files",
        functions: &["ext4_move_extents", "btrfs_defrag_file", "xfs_swap_extents"],
        processes: &["e4defrag", "xfs_fsr"],
        fix: "stop it while others need the disk; on flash it gains next to nothing, and with \
              btrfs snapshots it duplicates shared extents",
    },
    KernelWork {
        what: "btrfs discards freed extents in the background",
        functions: &["btrfs_discard_workfn", "btrfs_trim_block_group*"],
        processes: &[],
        fix: "lower its rate: /sys/fs/btrfs/UUID/discard/iops_limit and kbps_limit",
    },
];

rule!(
    "kernel-housekeeping",
    "file system maintenance",
    "Some work starts on its own: ext4 completes a new file system in the background, a timer \
     trims flash once a week, XFS frees removed files, a check or defragmentation runs. It reads \
     and writes the whole disk concurrently with the load, although no application started it.",
    "The requests come from the programs that wait, or the disk is idle while they do not run.",
    place: KernelWork,
    needs: [Processes, Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_processes()?;
    let found =
        KINDS.iter().filter_map(|kind| Some((kind, facts.work(kind.functions, kind.processes)?)));
    let most = found.max_by(|a, b| a.1.share.total_cmp(&b.1.share));
    let Some((kind, work)) = most.filter(|(_, work)| work.share >= DEVICE_SHARE) else {
        return Ok(RuleVerdict::Clear);
    };
    let name = &work.device.device;
    let is_own = |process: &str| facts::has_name(process, kind.processes);
    let victims = facts.victims(name, is_own);
    let own = facts.waits(|group| is_own(&group.process) && group.device.as_ref() == Some(name));
    let requests = Claims::of_device(facts, name).scaled(work.share);
    let row = facts.top_process(work.device, |row| is_own(&row.subject.process));
    let (share, beside) = (words::percent(work.share), facts.beside(&victims));
    let sentence = format!("{} on {name}: {share} of the device's time{beside}", kind.what);
    Ok(Finding::of_work(facts, &work, &victims, sentence)
        .causing(Claims::of_waits(&own).and(&requests))
        .about(facts::subject_of(name, row))
        .sure(if work.by_function { Confidence::Certain } else { Confidence::Likely })
        .shown("share of the device's time", work.share * 100.0, "%", format!("iowhy -d {name}"))
        .shown("time others waited for the device", victims.time_ns as f64, "ns", "iowhy waits")
        .fix(kind.fix)
        .check(format!(
            "after it has ended or is paused, `iowhy -d {name}` shows the same programs without \
             it: if they wait as long, it is not the cause"
        ))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    fn found(process: &str, frames: &[&str], beside: bool) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..400_u64 {
            let write =
                script.write("sda", 1 << 19).at((index * 20 * MS) as i64).sector(index * 8192);
            write.by(50, process).stacks(frames, &[], 1).direct(0, 0, 15 * MS).add();
            let read = script.read("sda", 4096).at((index * 20 * MS) as i64).sector(index * 79_190);
            read.by(9, "mysqld").stacks(&["iomap_dio_rw"], &[], 1).direct(0, 0, 8 * MS).add();
        }
        if beside {
            script.wait((9, "mysqld"), WaitClass::Device, 5000 * MS, 5000 * MS, 0);
            let device = script.names.intern("sda");
            script.batch.waits[0].device = Some(device);
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "kernel-housekeeping")
    }

    #[test]
    fn the_work_is_named_by_function_or_by_thread() {
        let seen = found(
            "ext4lazyinit",
            &["blkdev_issue_zeroout", "ext4_init_inode_table", "ext4_lazyinit_thread"],
            true,
        );
        let seen = seen.unwrap();
        assert_eq!(seen.confidence, Confidence::Certain);
        assert!(
            seen.severity >= Severity::Warning && seen.sentence.contains("lazy initialisation")
        );
        let named = found("fstrim", &[], true).unwrap();
        assert_eq!(named.confidence, Confidence::Likely);
        assert!(named.sentence.contains("fstrim"), "{}", named.sentence);
    }

    #[test]
    fn where_nobody_waits_it_is_information_and_other_writers_are_none() {
        let alone = found("ext4lazyinit", &["ext4_lazyinit_thread"], false);
        assert!(alone.is_none_or(|alone| alone.severity == Severity::Info));
        assert_eq!(found("rsync", &["ext4_writepages"], true), None);
    }
}
