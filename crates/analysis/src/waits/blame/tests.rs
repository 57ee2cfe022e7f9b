//! Scripted watches with known results.

use crate::script::ScriptSummary;
use crate::summary::{BlameShares, BlameSummary, BlamedWaiter};
use iowhy_model::script::Script;
use iowhy_model::{Origin, Status};

const MS: u64 = 1_000_000;

fn blame(script: &Script) -> BlameSummary {
    let blame = script.summary().blame.expect("there are waits");
    for size in [1, 7, 1000] {
        assert_eq!(script.summary_in_batches(size).blame.as_ref(), Some(&blame), "{size}");
    }
    check(&blame);
    blame
}

/// Invariants of every watch.
fn check(blame: &BlameSummary) {
    for waiter in &blame.waiters {
        let BlameShares { waited_ns, queue_ns, device_ns, .. } = waiter.shares;
        let BlameShares { own_ns, others_ns, idle_ns, unknown_ns, .. } = waiter.shares;
        assert_eq!(own_ns + others_ns + idle_ns + unknown_ns, waited_ns, "{waiter:?}");
        assert_eq!(queue_ns + device_ns, waited_ns, "{waiter:?}");
        let behind: u64 = waiter.behind.iter().map(|culprit| culprit.time_ns).sum();
        assert_eq!(behind + waiter.further_ns, own_ns + others_ns, "{waiter:?}");
    }
    let sum = blame.waiters.iter().map(|waiter| waiter.shares.waited_ns).sum::<u64>();
    assert!(blame.waiters.len() == 50 || sum == blame.whole.waited_ns);
    let charged: u64 = blame.culprits.iter().map(|culprit| culprit.time_ns).sum();
    assert!(blame.culprits.len() == 50 || charged == blame.whole.others_ns);
}

fn waiter<'a>(blame: &'a BlameSummary, process: &str) -> &'a BlamedWaiter {
    blame.waiters.iter().find(|waiter| waiter.process == process).expect("it waited")
}

/// The time that `process` is charged with, in the queue and at the device.
fn by(waiter: &BlamedWaiter, process: &str) -> (u64, u64) {
    let own = waiter.behind.iter().filter(|culprit| culprit.process.as_deref() == Some(process));
    own.fold((0, 0), |sum, culprit| (sum.0 + culprit.queue_ns, sum.1 + culprit.device_ns))
}

/// A program that reads a new file each time is one culprit, however many files there are.
#[test]
fn thousands_of_files_of_one_program_are_one_culprit() {
    let mut script = Script::new(10);
    for index in 0..100 {
        let file = format!("/srv/docs/{index}/{}", ["a", "b", "c", "d"][index as usize % 4]);
        let read = script.read("sda", 1 << 20).at(index * 50 * MS as i64).by(9, "rsync");
        read.file(&file).origin(Origin::Read).direct(0, 0, 50 * MS).add();
    }
    let read = script.read("sda", 4096).at(0).by(7, "web").file("/srv/page");
    let read = read.scheduled(0, 0, 5000 * MS, 0).add();
    script.wait_for((7, "web"), 0, 5000 * MS, &[read]);
    let blame = blame(&script);
    let rsync =
        blame.waiters[0].behind.iter().filter(|row| row.process.as_deref() == Some("rsync"));
    let rsync: Vec<_> = rsync.collect();
    assert!(rsync[0].several_files && rsync.len() <= 4, "{rsync:?}");
    let sum: u64 = rsync.iter().map(|row| row.time_ns).sum();
    assert_eq!(sum, 5000 * MS);
}

/// The example of the design: a read queues behind writeback of a log that another process dirtied.
#[test]
fn a_read_behind_writeback_is_charged_to_the_dirtier() {
    let mut script = Script::new(10);
    for index in 0..36 {
        let write = script.write("sda", 1 << 20).at(index * 100 * MS as i64);
        let write = write.by(70, "kworker/u8:2").origin(Origin::Writeback);
        let write = write.part(Ok("/var/log/app.log"), 1 << 20, Ok((9, "logger")));
        write.direct(0, 0, 100 * MS).add();
    }
    let read = script.read("sda", 4096).at(0).by(7, "cat").file("/srv/data");
    let read = read.scheduled(0, 0, 3600 * MS, 300 * MS).add();
    script.wait_for((7, "cat"), 0, 3900 * MS, &[read]);
    let blame = blame(&script);
    let cat = waiter(&blame, "cat");
    assert_eq!(cat.shares.waited_ns, 3900 * MS);
    assert_eq!((cat.shares.queue_ns, cat.shares.device_ns), (3600 * MS, 300 * MS));
    assert_eq!(by(cat, "logger"), (3600 * MS, 0));
    assert_eq!(by(cat, "cat"), (0, 300 * MS));
    assert_eq!((cat.shares.idle_ns, cat.shares.unknown_ns), (0, 0));
    let first = &cat.behind[0];
    assert_eq!(first.file.as_deref(), Some("/var/log/app.log"));
    assert_eq!((first.origin, first.pid, first.own), (Some("writeback"), Some(9), false));
    let foremost = cat.foremost.as_ref().unwrap();
    assert_eq!((foremost.file.as_deref(), foremost.time_ns), (first.file.as_deref(), 3600 * MS));
    assert_eq!(blame.queue_behind.as_deref(), Some("logger"));
    let logger = &blame.culprits[0];
    assert_eq!((logger.pid, logger.time_ns), (Some(9), 3600 * MS));
}

/// At the device, time is divided equally, the waiter included.
#[test]
fn the_device_is_shared_in_equal_parts() {
    let mut script = Script::new(10);
    for pid in 1..=3 {
        script.read("sda", 4096).at(0).by(pid, "dd").direct(0, 0, 400).add();
    }
    let read = script.read("sda", 4096).at(0).by(7, "cat").direct(0, 0, 400).add();
    script.wait_for((7, "cat"), 0, 400, &[read]);
    let blame = blame(&script);
    let cat = waiter(&blame, "cat");
    assert_eq!(by(cat, "dd"), (0, 300));
    assert_eq!((cat.shares.own_ns, cat.shares.others_ns), (100, 300));
}

/// While the device is idle, no process is blamed.
#[test]
fn an_idle_device_is_nobodys_fault() {
    let mut script = Script::new(10);
    script.read("sda", 4096).at(0).by(1, "dd").direct(0, 0, 100).add();
    script.read("sda", 4096).at(150).by(1, "dd").direct(0, 0, 50).add();
    script.read("sdb", 4096).at(0).by(1, "dd").direct(0, 0, 1000).add();
    let read = script.read("sda", 4096).at(0).by(7, "cat").scheduled(10, 10, 280, 100).add();
    script.wait_for((7, "cat"), 0, 400, &[read]);
    let blame = blame(&script);
    let cat = waiter(&blame, "cat");
    assert_eq!(by(cat, "dd"), (150, 0));
    assert_eq!((cat.shares.idle_ns, cat.shares.own_ns), (150, 100));
}

/// Two threads of one process do not blame each other, but their concurrency shows.
#[test]
fn ones_own_requests_are_ones_own() {
    let mut script = Script::new(10);
    script.read("sda", 4096).at(0).by(7, "cat").file("/a").direct(0, 0, 100).add();
    let read = script.read("sda", 4096).at(0).by(7, "cat").file("/b");
    let read = read.scheduled(0, 0, 100, 50).add();
    script.wait_for((7, "cat"), 0, 150, &[read]);
    let blame = blame(&script);
    let cat = waiter(&blame, "cat");
    assert_eq!((cat.shares.own_ns, cat.shares.others_ns), (150, 0));
    assert_eq!(cat.behind.len(), 2);
    assert!(cat.behind.iter().all(|culprit| culprit.own));
    assert!(blame.culprits.is_empty());
}

/// A request of several owners is charged by their bytes.
#[test]
fn a_request_of_several_is_charged_by_bytes() {
    let mut script = Script::new(10);
    let write = script.write("sda", 4096).at(0).by(70, "kworker").origin(Origin::Writeback);
    let write = write.part(Ok("/a"), 3072, Ok((1, "big")));
    write.part(Ok("/b"), 1024, Err("dirtied before the watch")).direct(0, 0, 160).add();
    let read = script.read("sda", 4096).at(0).by(7, "cat").scheduled(0, 0, 160, 1).add();
    script.wait_for((7, "cat"), 0, 160, &[read]);
    let blame = blame(&script);
    let cat = waiter(&blame, "cat");
    assert_eq!(by(cat, "big"), (120, 0));
    let nobody = cat.behind.iter().find(|culprit| culprit.process.is_none()).unwrap();
    assert_eq!((nobody.queue_ns, nobody.file.as_deref()), (40, Some("/b")));
    assert_eq!(nobody.reason.as_deref(), Some("dirtied before the watch"));
}

/// One line names the culprit: with the file if most of the time is of one, else without.
#[test]
fn the_foremost_is_a_process() {
    let mut script = Script::new(10);
    for (index, (pid, name, file)) in
        [(1, "dd", "/a"), (1, "dd", "/b"), (1, "dd", "/c"), (2, "cp", "/d"), (2, "cp", "/d")]
            .into_iter()
            .enumerate()
    {
        let read = script.read("sda", 4096).at(index as i64 * 100).by(pid, name).file(file);
        read.direct(0, 0, 100).add();
    }
    let read = script.read("sda", 4096).at(0).by(7, "cat").scheduled(0, 0, 500, 1).add();
    script.wait_for((7, "cat"), 0, 501, &[read]);
    let blame = blame(&script);
    let cat = waiter(&blame, "cat");
    assert_eq!(cat.behind[0].file.as_deref(), Some("/d"));
    let foremost = cat.foremost.as_ref().unwrap();
    assert_eq!((foremost.process.as_deref(), foremost.time_ns), (Some("dd"), 300));
    assert_eq!((foremost.file.as_deref(), foremost.several_files), (None, true));
    assert_eq!(foremost.origin, Some("read"));
}

/// A request that hangs until the end of the watch blocks others until then, and its own waiter.
#[test]
fn requests_that_have_not_ended_count_to_the_end() {
    let second = 1_000_000_000;
    let mut script = Script::new(10);
    let mut hung = script.write("sda", 4096).at(0).by(1, "dd").status(Status::InFlight);
    (hung.request.q2g_ns, hung.request.g2d_ns) = (Some(0), Some(0));
    let hung = hung.add();
    let mut queued = script.read("sda", 4096).at(second).by(7, "cat").status(Status::InFlight);
    queued.request.q2g_ns = Some(0);
    let queued = queued.add();
    for (pid, name, at, request) in [(1, "dd", 0, hung), (7, "cat", second as u64, queued)] {
        let ns = 10 * second as u64 - at;
        script.wait_for((pid, name), at, ns, &[request]);
        let wait = script.batch.waits.last_mut().unwrap();
        wait.censored = true;
        (wait.queue_ns, wait.device_ns) = if pid == 1 { (0, ns) } else { (ns, 0) };
    }
    let blame = blame(&script);
    assert_eq!(by(waiter(&blame, "cat"), "dd"), (9 * second as u64, 0));
    assert_eq!(waiter(&blame, "dd").shares.own_ns, 10 * second as u64);
}

/// Missing data is reported, not guessed.
#[test]
fn a_wait_without_its_request_is_unknown() {
    let mut script = Script::new(10);
    let read = script.read("sda", 4096).at(0).by(7, "cat").direct(10, 20, 70).add();
    script.wait_for((7, "cat"), 0, 100, &[read]);
    script.batch.requests.clear();
    let blame = blame(&script);
    let cat = waiter(&blame, "cat").shares;
    assert_eq!((cat.waited_ns, cat.unknown_ns), (100, 100));
    assert_eq!((cat.queue_ns, cat.device_ns), (30, 70));
}

#[test]
fn a_filtered_watch_blames_nobody() {
    let mut script = Script::new(10);
    let read = script.read("sda", 4096).at(0).by(7, "cat").direct(10, 20, 70).add();
    script.wait_for((7, "cat"), 0, 100, &[read]);
    script.environment.filter = "--device sda".to_owned();
    assert!(script.summary().blame.is_some());
    script.environment.filter = "--device sda --process cat".to_owned();
    assert!(script.summary().blame.is_none());
}

/// A stream that is settled in several steps yields the same as a simple sum; a wait that spans
/// steps is charged by their means.
#[test]
fn a_long_stream_is_settled_piece_by_piece() {
    let mut script = Script::new(10);
    let count = 60_000_u64;
    let mut reads = Vec::new();
    for index in 0..count {
        let at = (index * 1000) as i64;
        script.write("sda", 4096).at(at).by(1, "hog").file("/hog").direct(0, 0, 600).add();
        let read = script.read("sda", 4096).at(at).by(7, "cat").scheduled(0, 100, 300, 400);
        reads.push((index * 1000, read.add()));
    }
    for (at, read) in reads {
        script.wait_for((7, "cat"), at, 800, &[read]);
    }
    let long = script.read("sda", 4096).at(0).by(8, "late");
    let long = long.scheduled(0, 0, count * 1000 - 500, 500).add();
    script.wait_for((8, "late"), 0, count * 1000, &[long]);
    let blame = script.summary().blame.expect("there are waits");
    check(&blame);
    let cat = waiter(&blame, "cat");
    // In the queue 400 behind the hog; at the device 200 with it, half of which is the hog's.
    assert_eq!(cat.shares.waited_ns, count * 800);
    let (queue, device) = by(cat, "hog");
    assert!(queue.abs_diff(count * 400) <= count * 400 / 1000, "{queue}");
    assert!(device.abs_diff(count * 100) <= count * 100 / 1000, "{device}");
    let late = waiter(&blame, "late");
    let (hog, cat) = (by(late, "hog").0 as f64, by(late, "cat").0 as f64);
    assert!((hog / cat - 1.5).abs() < 0.2, "{hog} {cat}");
    let size = script.summary_in_batches(1000).blame.expect("there are waits");
    assert_eq!(size, blame);
}

/// Ten thousand processes and files take bounded memory, and sums stay exact.
#[test]
fn many_of_everything_stay_within_bounds() {
    let mut script = Script::new(10);
    for index in 0..10_000_u32 {
        let at = u64::from(index) * 1000;
        let file = format!("/f/{index}");
        let write = script.write("sda", 4096).at(at as i64).by(100_000 + index, "hog");
        write.file(&file).direct(0, 0, 900).add();
        let read = script.read("sda", 4096).at(at as i64).by(10_000 + index, "cat");
        let read = read.scheduled(0, 0, 900, 50).add();
        script.wait_for((10_000 + index, "cat"), at, 950, &[read]);
    }
    let blame = script.summary().blame.expect("there are waits");
    check(&blame);
    assert_eq!(blame.whole.waited_ns, 10_000 * 950);
    assert!(blame.whole.others_ns >= 10_000 * 900, "{:?}", blame.whole);
}
