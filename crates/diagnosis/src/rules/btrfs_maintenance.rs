//! btrfs maintenance: quotas, deletion of snapshots, balance, scrub.

use super::*;
use facts::thresholds::DEVICE_SHARE;

/// Functions that wait for the running transaction.
const TRANSACTION: &[&str] = &["wait_current_trans*"];

/// A kind of work: its description, its functions, and the fix.
struct BtrfsWork {
    what: &'static str,
    functions: &'static [&'static str],
    fix: &'static str,
}

const KINDS: &[BtrfsWork] = &[
    BtrfsWork {
        what: "accounts extents to quota groups",
        functions: &["btrfs_qgroup_*", "qgroup_*", "btrfs_find_all_roots*", "find_parent_nodes"],
        fix: "quota groups cost most if many snapshots share extents: turn them off if nothing \
              needs the figures (`btrfs quota disable MOUNTPOINT`; this also drops the limits), or \
              use simple quotas (`btrfs quota enable --simple`, Linux 6.7); delete snapshots one \
              at a time",
    },
    BtrfsWork {
        what: "deletes snapshots or subvolumes",
        functions: &[
            "btrfs_drop_snapshot",
            "btrfs_clean_one_deleted_snapshot",
            "walk_down_tree",
            "walk_up_proc",
        ],
        fix: "delete fewer snapshots at a time, and off-peak (snapper, timeshift: keep fewer, run \
              at another hour); with quota groups each extent is accounted for, too: turn them \
              off if nothing needs the figures (`btrfs quota disable MOUNTPOINT`; this also drops \
              the limits); `btrfs subvolume sync MOUNTPOINT` waits until the deletion has finished",
    },
    BtrfsWork {
        what: "moves extents (balance, or removing or resizing a device)",
        functions: &[
            "relocate_block_group",
            "btrfs_relocate_*",
            "relocate_*",
            "merge_reloc_root*",
            "prepare_to_relocate",
            "btrfs_balance",
        ],
        fix: "pause it with `btrfs balance pause MOUNTPOINT` and resume it at night; balance only \
              what is needed: `-dusage=20`, not a full balance",
    },
    BtrfsWork {
        what: "verifies checksums of all data (scrub)",
        functions: &["scrub_*", "btrfs_scrub_*"],
        fix: "slow it down: `btrfs scrub limit -a -l 50m MOUNTPOINT` (or \
              /sys/fs/btrfs/UUID/devinfo/*/scrub_speed_max), or `btrfs scrub cancel MOUNTPOINT` \
              and `resume` it later: it finds failing disks, so do not skip it",
    },
];

rule!(
    "btrfs-maintenance",
    "btrfs maintenance",
    "A snapshot is cheap to create and expensive to delete: btrfs walks all extents that it \
     shared, and with quotas recomputes their owners. Scrub reads everything; balance reads and \
     writes it. Transactions that include such work take seconds, and every process that creates, \
     renames or syncs a file waits for the running transaction.",
    "The requests come from programs, or the file system has no snapshots and quotas.",
    place: KernelWork,
    needs: [Stacks, Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_stacks()?;
    let by_kind = KINDS.iter().filter_map(|kind| Some((kind, facts.work(kind.functions, &[])?)));
    let most = by_kind.max_by(|a, b| a.1.share.total_cmp(&b.1.share));
    let waited = facts.stacked_where(|it| {
        KINDS.iter().any(|kind| facts::has_function(&it.functions, kind.functions))
    });
    let Some((kind, work)) = most.filter(|(_, work)| work.share >= DEVICE_SHARE) else {
        return Ok(RuleVerdict::Clear);
    };
    let name = &work.device.device;
    let is_own = |process: &str| process.starts_with("btrfs");
    let victims = facts.victims(name, is_own);
    let own = facts.waits(|group| is_own(&group.process) && group.device.as_ref() == Some(name));
    let mut sentence = format!(
        "btrfs on {name} {}: {} of the device's time",
        kind.what,
        words::percent(work.share),
    );
    if victims.time_ns > 0 {
        sentence += &format!("; {} waits behind it", words::who(&victims.subject()));
    }
    // A change waits until the transaction with that work is committed.
    let held = facts.stacked(TRANSACTION);
    let held_by = facts.waits(|group| {
        held.subject().pid == Some(group.pid) && group.class == WaitClass::JournalSpace
    });
    let finding = match held_by.time_ns > victims.time_ns {
        true => Finding::of_waits(facts, &held_by, sentence).upper_bound(),
        false => Finding::of_work(facts, &work, &victims, sentence),
    };
    Ok(finding
        .causing(Claims::of_waits(&own))
        .about(Subject { device: Some(name.clone()), ..victims.subject() })
        .sure(Confidence::Certain)
        .shown(
            "share of the device's time",
            work.share * 100.0,
            "%",
            format!("iowhy stacks -d {name}"),
        )
        .shown("time others waited for the device", victims.time_ns as f64, "ns", "iowhy waits")
        .shown(
            "waits inside btrfs maintenance",
            waited.time_ns as f64,
            "ns",
            "iowhy waits --by stack",
        )
        .fix(kind.fix)
        .check(
            "`btrfs balance status`, `btrfs scrub status`, `btrfs qgroup show` and `btrfs \
             subvolume list -d MOUNTPOINT` (deleted, not yet cleaned): if none of them shows \
             anything, this is not the cause",
        )
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    fn found(frames: &[&str], d2c: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..500_u64 {
            let read =
                script.read("sda", 16_384).at((index * 20 * MS) as i64).sector(index * 79_190);
            let read = read.by(300, "btrfs-cleaner").origin(Origin::Metadata);
            read.stacks(frames, &[], 1).direct(0, 0, d2c).add();
            let write =
                script.write("sda", 16_384).at((index * 20 * MS) as i64).sector(index * 160);
            write.by(9, "mysqld").stacks(&["iomap_dio_rw"], &[], 1).direct(0, 0, 5 * MS).add();
        }
        script.wait((9, "mysqld"), WaitClass::JournalCommit, 9000 * MS, 0, 0);
        let device = script.names.intern("sda");
        script.batch.waits[0].device = Some(device);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "btrfs-maintenance")
    }

    #[test]
    fn the_kind_of_work_is_named() {
        let delete = found(
            &[
                "read_extent_buffer_pages",
                "walk_down_tree",
                "btrfs_drop_snapshot",
                "cleaner_kthread",
            ],
            15 * MS,
        )
        .unwrap();
        assert!(delete.sentence.contains("deletes snapshots"), "{}", delete.sentence);
        assert_eq!((delete.severity, delete.confidence), (Severity::Critical, Confidence::Certain));
        let quota = found(
            &["find_parent_nodes", "btrfs_find_all_roots", "btrfs_qgroup_account_extents"],
            15 * MS,
        )
        .unwrap();
        assert!(quota.sentence.contains("quota groups") && quota.fix.contains("quota disable"));
    }

    #[test]
    fn a_plain_commit_or_a_little_of_it_is_no_maintenance() {
        assert_eq!(
            found(&["btree_write_cache_pages", "btrfs_write_and_wait_transaction"], 15 * MS),
            None
        );
        assert_eq!(found(&["walk_down_tree", "btrfs_drop_snapshot"], MS / 2), None);
    }

    #[test]
    fn who_waits_for_the_transaction_waits_for_it() {
        let mut script = Script::new(10);
        for index in 0..300_u64 {
            let read = script.read("sda", 16_384).at((index * 30 * MS) as i64);
            let read = read.sector(index * 79_190).by(300, "btrfs-cleaner");
            let read = read.origin(Origin::Metadata);
            let frames = ["walk_down_tree", "btrfs_drop_snapshot", "cleaner_kthread"];
            read.stacks(&frames, &[], 1).direct(0, 0, 2 * MS).add();
        }
        script.wait((9, "mysqld"), WaitClass::JournalSpace, 6000 * MS, 0, 0);
        script.stacked(&["wait_current_trans", "start_transaction", "btrfs_sync_file"]);
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|it| it.cause == "btrfs-maintenance").unwrap();
        assert_eq!(found.subject.process.as_deref(), Some("mysqld"));
        assert_eq!(found.severity, Severity::Critical, "{found:?}");
    }
}
