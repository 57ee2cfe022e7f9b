//! io_uring hands requests to kernel threads.

use super::*;

/// The share of the requests' time that worker threads submitted. Chosen.
const SHARE: f64 = 0.3;
const WORKER: &[&str] = &["io_wq_submit_work", "io_worker_handle_work", "io_wq_worker"];

rule!(
    "io-uring-punt",
    "io_uring that falls back to threads",
    "What io_uring cannot start without sleeping (buffered writes on some file systems, IOSQE_ASYNC, \
     fsync, open) it gives to kernel threads. Each request then costs two switches, threads queue at the \
     same locks, and the promise of asynchronous I/O is gone.",
    "Requests that the program's own thread submits.",
    needs: [Stacks],
    symptoms: ["inode-lock", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_stacks()?;
    let paths = facts.paths(WORKER);
    let share: f64 = paths.iter().map(|row| row.usage.time_share).sum();
    let Some(first) = paths.first() else { return Ok(Verdict::Clear) };
    if share < SHARE {
        return Ok(Verdict::Clear);
    }
    let device = facts.devices().first().map(|device| device.device.clone());
    let name = first.subject.process.clone();
    let row = facts.devices().iter().flat_map(|it| &it.processes).find(|row| Some(&row.subject.process) == name.as_ref());
    let subject = facts::subject_of(device.as_deref().unwrap_or(""), row);
    let sentence = format!(
        "io_uring gives the requests of {} to kernel threads: {} of their time",
        words::who(&subject),
        words::percent(share),
    );
    let time: u64 = facts.devices().iter().map(facts::device_time_ns).sum();
    Ok(Finding::of_device(facts, (share * time as f64) as u64, time, sentence)
        .about(subject)
        // The requests take their time by whomever they are sent; what the detour costs is not seen.
        .upper_bound()
        .sure(Confidence::Certain)
        .shown("requests' time that worker threads submitted", share * 100.0, "%", "iowhy stacks")
        .fix("open files with O_DIRECT on a file system that can (XFS, ext4), without IOSQE_ASYNC; allocate files beforehand; a limit of workers (IORING_REGISTER_IOWQ_MAX_WORKERS)")
        .check("ps -L shows iou-wrk threads of the program; without them the requests were its own")
        .into())
}
