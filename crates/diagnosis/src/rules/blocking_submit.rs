//! Submitting asynchronous I/O blocks, so it is not asynchronous.

use super::super::bottleneck::bound::SLOW_NS;
use super::facts::calls::ASYNC;
use super::facts::thresholds::MOST;
use super::*;
use facts::WaitsByStack;
use iowhy_analysis::summary::patterns::WaitStack;

/// Functions that submit a request in the submitter's own context.
const SUBMITTING: &[&str] = &[
    "io_submit_one",
    "__io_submit_one*",
    "aio_write*",
    "aio_read*",
    "aio_fsync*",
    "io_submit_sqes",
    "io_submit_sqe",
    "io_issue_sqe",
    "__io_issue_sqe",
    "io_queue_sqe*",
];
/// io_uring's own workers, which exist to run what may block.
const WORKERS: &[&str] =
    &["io_wq_worker", "io_worker_handle_work", "io_wq_submit_work", "io_sq_thread"];
/// Waits in the block layer and for limits have causes of their own.
const ELSEWHERE: &[WaitClass] = &[
    WaitClass::Queue,
    WaitClass::Wbt,
    WaitClass::Iocost,
    WaitClass::CgroupThrottle,
    WaitClass::DirtyThrottle,
];
/// The submitter's wait if it needs a free request.
const FULL: &str = "a free request: the queue is full";
/// The wait of direct writes of parts of blocks, which a file system does one by one.
const UNALIGNED: &str = "each write, which begins or ends within a block of the file: such \
                         writes are done one after another";
const ALIGN: &str = "write whole blocks at multiples of 4096 bytes: in an image partitions begin \
                     at such a multiple (sector 2048, not 63: `fdisk -l IMAGE`); or write the file \
                     once from end to end beforehand, instead of fallocate alone";
/// The least number of writes to judge.
const LEAST_WRITES: u64 = 50;
/// Other waits of the submitter, and the functions that show them.
const WHY: &[(&str, &[&str])] = &[
    ("pages of the page cache", &["filemap_*", "folio_wait_*", "page_cache_*"]),
    (
        "space in the journal or log",
        &[
            "xfs_log_*",
            "xlog_*",
            "start_this_handle",
            "jbd2_*",
            "xfs_trans_alloc*",
            "xfs_trans_reserve",
        ],
    ),
    (
        "block allocation",
        &[
            "ext4_map_blocks*",
            "ext4_mb_*",
            "xfs_bmapi_*",
            "xfs_alloc_*",
            "xfs_iomap_write_*",
            "btrfs_reserve_*",
            "ext4_iomap_begin*",
        ],
    ),
    (
        "the inode lock",
        &["inode_lock*", "xfs_ilock*", "rwsem_down_*", "ext4_dio_write_iter", "inode_dio_wait"],
    ),
];

rule!(
    "blocking-submit",
    "blocking submission of asynchronous I/O",
    "io_submit and io_uring are meant to return at once. A write that extends a file or fills a \
     hole first allocates blocks and changes the inode, which can wait for the journal, for free \
     space or for the inode lock; I/O without O_DIRECT waits for pages. A program that does \
     everything in one thread (ScyllaDB, nginx, event loops) stalls meanwhile.",
    "The waits are for completions (io_getevents), where such programs sleep when idle.",
    place: Limit,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked_where(|stack| blocks(facts, stack));
    clear_if(stacked.time_ns == 0)?;
    let subject = stacked.subject();
    let why = WHY.iter().max_by_key(|(_, functions)| stacked.time_in(functions));
    let why = why.filter(|(_, functions)| stacked.time_in(functions) > 0).map(|why| why.0);
    let why = match facts.busiest(|device| is_unaligned(facts, device, &stacked)) {
        _ if is_for_tags(&stacked) => Some(FULL),
        Some(_) => Some(UNALIGNED),
        None => why,
    };
    let call = stacked
        .stacks
        .first()
        .and_then(|stack| facts.call_name(stack.syscall))
        .unwrap_or("io_submit");
    let sentence = format!(
        "{} blocks while it submits asynchronous I/O ({call}): it waits for {}",
        words::who(&subject),
        why.unwrap_or("the file system"),
    );
    Ok(Finding::of_blocked(facts, stacked.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("blocked time in submission", stacked.time_ns as f64, "ns", "iowhy waits")
        .also("blocked submissions", stacked.waits as f64 / facts.seconds(), "1/s")
        .also("longest wait", stacked.longest_ns as f64, "ns")
        .fix(if why == Some(UNALIGNED) { ALIGN } else { fix_of(&stacked) })
        .check(
            "write the file once from end to end beforehand: submission then returns at once; if \
             it still blocks, check `iowhy waits --by stack`",
        )
        .into())
}

fn blocks(facts: &Facts<'_>, stack: &WaitStack) -> bool {
    facts.is_call(stack.syscall, ASYNC)
        && !ELSEWHERE.contains(&stack.class)
        && (stack.class != WaitClass::Tag || mean_ns(stack) >= SLOW_NS)
        && facts::has_function(&stack.functions, SUBMITTING)
        && !facts::has_function(&stack.functions, WORKERS)
}

/// Whether the submitter waits for a device that gets most writes in parts of blocks, from a file.
fn is_unaligned(facts: &Facts<'_>, device: &DeviceSummary, stacked: &WaitsByStack<'_>) -> bool {
    let in_file = stacked.time_in(&["iomap_dio_rw", "__iomap_dio_rw", "ext4_file_write_iter"]);
    let access = facts.patterns(&device.device).map(|patterns| &patterns.access);
    stacked.subject().device.as_ref() == Some(&device.device)
        && in_file as f64 > MOST * stacked.time_ns as f64
        && access.is_some_and(|access| {
            access.data_writes >= LEAST_WRITES
                && access.unaligned_writes as f64 >= MOST * access.data_writes as f64
        })
}

/// Whether most of the time is spent waiting for a free request.
fn is_for_tags(stacked: &WaitsByStack<'_>) -> bool {
    let for_tags = stacked.stacks.iter().filter(|stack| stack.class == WaitClass::Tag);
    2 * for_tags.map(|for_tag| for_tag.time_ns).fold(0_u64, u64::saturating_add) > stacked.time_ns
}

fn mean_ns(stack: &WaitStack) -> f64 {
    stack.time_ns as f64 / stack.waits.max(1) as f64
}

fn fix_of(stacked: &WaitsByStack<'_>) -> &'static str {
    let pages = 2 * stacked.time_in(WHY[0].1) > stacked.time_ns;
    if is_for_tags(stacked) {
        "keep fewer requests in flight than the queue holds (nr_requests), so that the program \
         decides what waits and in which order; if the disk cannot keep up, use a faster one or \
         reduce the load"
    } else if pages {
        "open the file with O_DIRECT: without it io_submit goes through the page cache and waits \
         for it"
    } else {
        "give the file its final size and write it once (fallocate alone leaves unwritten extents, \
         which must be converted); on XFS set an extent size hint (`xfs_io -c 'extsize 32m' FILE`, \
         before it has data), which makes allocations rare; submit appends from a thread of their \
         own"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{S, Script};

    fn found(class: WaitClass, frames: &[&str], syscall: u32) -> Option<Finding> {
        of_length(class, frames, syscall, 6 * S)
    }

    fn of_length(class: WaitClass, frames: &[&str], syscall: u32, ns: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "scylla"), class, ns, 0, 0);
        script.stacked(frames);
        script.waited_on("sda", "/data/commitlog", syscall);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "blocking-submit")
    }

    const IO_SUBMIT: u32 = 209;

    #[test]
    fn what_blocks_is_named() {
        let stack = [
            "down",
            "xfs_buf_lock",
            "xfs_alloc_read_agf",
            "xfs_bmapi_write",
            "aio_write",
            "io_submit_one",
        ];
        let found = found(WaitClass::FsLock, &stack, IO_SUBMIT).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
        for message in ["scylla (7)", "io_submit", "block allocation"] {
            assert!(found.sentence.contains(message), "{}", found.sentence);
        }
        assert_eq!(found.subject.file.as_deref(), Some("/data/commitlog"));
    }

    #[test]
    fn a_full_queue_that_holds_the_submitter_for_long_is_named() {
        let tag = ["blk_mq_get_tag", "aio_write", "io_submit_one"];
        let of = |ms| of_length(WaitClass::Tag, &tag, IO_SUBMIT, ms * S / 1000);
        let long = of(11).unwrap();
        assert!(long.sentence.contains("a free request"), "{long:?}");
        assert!(long.fix.contains("nr_requests"), "{long:?}");
        assert_eq!(of(9), None);
    }

    #[test]
    fn completions_and_workers_are_not_meant() {
        assert_eq!(found(WaitClass::Device, &["read_events"], 208), None);
        let worker = ["xfs_ilock", "io_write", "io_issue_sqe", "io_wq_submit_work", "io_wq_worker"];
        assert_eq!(found(WaitClass::FsLock, &worker, 426), None);
    }

    #[test]
    fn writes_across_the_blocks_of_a_file_are_named() {
        let found = |sector: u64| {
            let mut script = Script::new(10);
            for index in 0..100_u64 {
                let write = script.write("sda", 4096).by(7, "qemu").at(index as i64 * 80_000_000);
                write.sector(sector + index * 64).direct(0, 0, 5_000_000).add();
            }
            script.wait((7, "qemu"), WaitClass::Device, 6 * S, 6 * S, 0);
            script.stacked(&["__iomap_dio_rw", "iomap_dio_rw", "aio_write", "io_submit_one"]);
            script.waited_on("sda", "/vm.raw", IO_SUBMIT);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "blocking-submit").unwrap()
        };
        let (across, whole) = (found(63), found(64));
        assert!(across.sentence.contains("within a block"), "{}", across.sentence);
        assert!(across.fix.contains("sector 2048"), "{}", across.fix);
        assert!(!whole.sentence.contains("within a block"), "{}", whole.sentence);
    }
}
