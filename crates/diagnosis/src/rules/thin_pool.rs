//! A thin pool or a snapshot copies a block before its first change.

use super::*;
use facts::thresholds::DEVICE_SHARE;

/// Functions of kcopyd, which snapshots and thin volumes use for this, and little else does.
const COPYING: &[&str] = &["run_io_job", "dm_kcopyd_*", "kcopyd_*", "process_jobs"];
/// Functions of a thin volume's worker, which allocates new blocks.
const THIN: &[&str] = &[
    "process_thin_deferred_*",
    "process_deferred_bios",
    "process_prepared_mapping*",
    "dm_thin_*",
    "dm_pool_*",
];
/// Functions of a classic snapshot.
const SNAPSHOT: &[&str] =
    &["__origin_write", "snapshot_map", "pending_complete", "start_copy", "remap_and_issue"];

rule!(
    "thin-pool",
    "copy-on-write in a snapshot or thin volume",
    "The first write to a block that a snapshot shares must first copy it: for a write of 4 KiB a \
     chunk of 64 KiB or more is read and written, and the mapping is committed. A thin volume also \
     allocates a new block for each first write, in one worker for the whole pool. Later writes to \
     the same blocks are fast.",
    "Writes are as slow on blocks already written since the snapshot was created.",
    place: Fault,
    needs: [Stacks],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_stacks()?;
    let copying = facts.work(COPYING, &[]).filter(|it| it.share >= DEVICE_SHARE);
    let work = copying.ok_or(Clear)?;
    let below = &work.device.device;
    let upper = upper(facts, below).ok_or(Clear)?;
    let on = |functions: &[&str]| {
        [below.as_str(), upper.device.as_str()]
            .iter()
            .any(|it| !facts.paths_on(it, functions).is_empty())
    };
    let what = if on(SNAPSHOT) {
        "the snapshot of"
    } else if on(THIN) {
        "the thin pool of"
    } else {
        "a snapshot or thin pool of"
    };
    let is_above = |device: Option<&str>| {
        device == Some(upper.device.as_str()) || device == Some(below.as_str())
    };
    let waited = facts.waits(|it| is_above(it.device.as_deref()));
    let sentence = format!(
        "{what} {} copies blocks before their first change: {} of the time of {below}",
        upper.device,
        words::percent(work.share),
    );
    let row = facts.top_process(upper, |_| true);
    Ok(Finding::of_work(facts, &work, &waited, sentence)
        .about(facts::subject_of(&upper.device, row))
        .sure(Confidence::Certain)
        .shown(
            "share of the lower device's time for copies",
            work.share * 100.0,
            "%",
            format!("iowhy stacks -d {below}"),
        )
        .shown("blocked time for the volume", waited.time_ns as f64, "ns", "iowhy waits")
        .fix(
            "remove unneeded snapshots (`lvs -o +origin,snap_percent`: one that runs full is lost, \
             so merge or remove it before); after a restore or a clone write the volume once \
             off-peak; thin pools: larger chunks for large writes, and enough space (`lvs -o \
             data_percent,metadata_percent`: a full pool fails writes)",
        )
        .check(format!(
            "write the same blocks twice: if the second time on {} is as slow, the copy is not the \
             cause",
            upper.device
        ))
        .into())
}

/// Returns the device-mapper device above this one, if any.
fn upper<'a>(facts: &Facts<'a>, below: &str) -> Option<&'a DeviceSummary> {
    let stands_on = |device: &&DeviceSummary| {
        device.device.starts_with("dm-")
            && device.below.iter().any(|it| iowhy_model::environment::is_part_of(below, it))
    };
    facts.busiest(|device| stands_on(&device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    fn found(frames: &[&str], upper: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        let below = vec!["sda2".to_owned()];
        script.environment.devices.push(Device {
            name: upper.to_owned(),
            below,
            ..Device::default()
        });
        for index in 0..400_u64 {
            let at = (index * 20 * MS) as i64;
            let own = script.write(upper, 4096).at(at).sector(index * 4096);
            own.by(9, "mysqld").stacks(&["iomap_dio_rw"], &[], 1).bio(15 * MS).add();
            let copy = script.read("sda", 65_536).at(at).sector(index * 4096);
            copy.by(4, "kworker/0:1").stacks(frames, &[], 1).direct(0, 0, 8 * MS).add();
        }
        script.wait((9, "mysqld"), WaitClass::Device, 5000 * MS, 5000 * MS, 0);
        let device = script.names.intern(upper);
        script.batch.waits[0].device = Some(device);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "thin-pool")
    }

    #[test]
    fn the_copier_is_the_evidence() {
        let found =
            found(&["dispatch_io", "dm_io", "run_io_job", "process_jobs", "do_work"], "dm-3")
                .unwrap();
        assert_eq!(found.confidence, Confidence::Certain);
        assert_eq!(found.subject.device.as_deref(), Some("dm-3"));
        assert_eq!(found.subject.process.as_deref(), Some("mysqld"));
    }

    #[test]
    fn another_worker_or_no_volume_above_is_none() {
        assert_eq!(found(&["crypt_convert", "kcryptd_crypt"], "dm-3"), None);
        assert_eq!(found(&["run_io_job", "process_jobs"], "md0"), None);
    }
}
