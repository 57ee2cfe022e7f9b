//! io_uring punts requests to kernel threads.

use super::*;

/// The least share of a device's request time that worker threads submit. Chosen.
const SHARE: f64 = 0.3;
const WORKER: &[&str] = &["io_wq_submit_work", "io_worker_handle_work", "io_wq_worker"];

rule!(
    "io-uring-punt",
    "io_uring requests punted to threads",
    "io_uring punts operations that cannot start without blocking (buffered writes on some file \
     systems, IOSQE_ASYNC, fsync, open) to kernel threads. Each request then costs two context \
     switches, threads contend for the same locks, and the benefit of asynchronous I/O is gone.",
    "The program's own thread submits the requests.",
    place: Calls,
    needs: [Stacks],
    bound: [
        "the time of the requests that take the detour",
        "most of it is needed without the detour, too",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_stacks()?;
    let share = |device: &DeviceSummary| {
        let paths = facts.paths_on(&device.device, WORKER);
        paths.iter().map(|row| row.usage.time_share).sum::<f64>()
    };
    let punted_ns = |device: &DeviceSummary| share(device) * facts::device_time_ns(device) as f64;
    // Each device by itself: I/O on other devices makes it no better.
    let punted = facts.devices().iter().filter(|device| share(device) >= SHARE);
    let device = punted.max_by(|a, b| punted_ns(a).total_cmp(&punted_ns(b))).ok_or(Clear)?;
    let (name, share) = (&device.device, share(device));
    let paths = facts.paths_on(name, WORKER);
    let process = paths.first().and_then(|row| row.subject.process.as_deref());
    let top = facts.top_process(device, |row| Some(row.subject.process.as_str()) == process);
    let subject = facts::subject_of(name, top);
    let sentence = format!(
        "io_uring punts requests of {} on {name} to kernel threads: {} of the request time",
        words::who(&subject),
        words::percent(share),
    );
    let time = facts::device_time_ns(device);
    Ok(Finding::of_device(facts, (share * time as f64) as u64, time, sentence)
        .about(subject)
        // The requests take their time whichever thread submits them; the cost of punting is not
        // measured.
        .upper_bound()
        .at_most(Severity::Warning)
        .sure(Confidence::Certain)
        .shown(
            "share of request time submitted by worker threads",
            share * 100.0,
            "%",
            format!("iowhy stacks -d {name}"),
        )
        .fix(
            "open files with O_DIRECT on a file system that supports it (XFS, ext4), without \
             IOSQE_ASYNC; allocate files beforehand; a device below without NOWAIT support \
             (dm-crypt and md of older kernels) makes io_uring punt every request; limit the \
             workers (IORING_REGISTER_IOWQ_MAX_WORKERS, Linux 5.15)",
        )
        .check(
            "`ps -eLo pid,comm` shows iou-wrk threads of the program (before Linux 5.12: \
             io_wqe_worker of the kernel); without them the program submits its requests itself",
        )
        .into())
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    /// Many waiting requests on sda, and few on sdb, where workers submit `punted` of 1,000
    /// requests.
    fn found(punted: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..1000 {
            let at = (index * 10 * MS) as i64;
            let read = script.read("sda", 4096).by(7, "fio").at(at).sector(index * 7919 * 8);
            read.direct(500, 500, 50 * MS)
                .stacks(&["blkdev_read_iter", "aio_read"], &["main"], 1)
                .add();
            let path = if index < punted { "io_wq_submit_work" } else { "io_submit_sqes" };
            let read = script.read("sdb", 4096).by(8, "fio").at(at).sector(index * 7919 * 8);
            read.direct(500, 500, MS).stacks(&["blkdev_read_iter", path], &["main"], 1).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "io-uring-punt")
    }

    #[test]
    fn a_device_is_judged_by_its_own_requests() {
        let found = found(1000).unwrap();
        assert_eq!((found.subject.device.as_deref(), found.subject.pid), (Some("sdb"), Some(8)));
        assert!(found.impact > 0.99 && found.severity == Severity::Warning, "{found:?}");
    }

    #[test]
    fn some_that_are_handed_over_are_no_habit() {
        assert_eq!(found(200), None);
        assert_eq!(found(0), None);
    }
}
