//! Watches written by hand, whose right answers are known.

use super::summary::{DeviceSummary, Summary, Usage, UsageTable};
use crate::pass::{Summarizer, summarize};
use crate::script::ScriptSummary;
use crate::summary::{Direction, Interval};
use crate::sums::device_layer::MAX_DEVICES;
use iowhy_model::environment::Device;
use iowhy_model::recording::{RecordingReader, RecordingWriter};
use iowhy_model::script::Script;
use iowhy_model::{Name, Operation, Origin, Status, WaitClass};

const MS: u64 = 1_000_000;

fn device<'a>(summary: &'a Summary, name: &str) -> &'a DeviceSummary {
    summary.devices.iter().find(|device| device.device == name).unwrap()
}

/// Rows, others and unknown together.
fn total<R>(table: &UsageTable<R>) -> Usage {
    let rows = table.rows.iter().map(|row| &row.usage);
    let unknown = table.unknown.iter().map(|row| &row.usage);
    let mut sum = Usage::default();
    for usage in rows.chain(unknown).chain([&table.others.usage]) {
        sum.bytes += usage.bytes;
        sum.time_ns += usage.time_ns;
        sum.open_time_ns += usage.open_time_ns;
        sum.time_share += usage.time_share;
        sum.bytes_share += usage.bytes_share;
    }
    sum
}

/// Each table's rows, others and unknown add up to the watch's whole.
fn assert_sums(summary: &Summary) {
    let totals = [
        total(&summary.processes),
        total(&summary.programs),
        total(&summary.containers),
        total(&summary.files),
        total(&summary.origins),
    ];
    for sum in totals {
        assert_eq!(sum.bytes, summary.watch.bytes);
        assert_eq!(sum.time_ns + sum.open_time_ns, summary.watch.time_ns);
        let whole = |amount: u64| if amount > 0 { 1.0 } else { 0.0 };
        assert!((sum.time_share - whole(summary.watch.time_ns)).abs() < 1e-9);
        assert!((sum.bytes_share - whole(summary.watch.bytes)).abs() < 1e-9);
    }
    for device in &summary.devices {
        let bytes: u64 = device.directions.0.iter().map(|direction| direction.bytes).sum();
        assert_eq!(device.origins.iter().map(|row| row.usage.bytes).sum::<u64>(), bytes);
    }
}

/// A watch with something of everything.
fn varied() -> Script {
    let mut script = Script::new(10);
    script.process(100, "java", "/system.slice/jenkins.service", "jenkins.service");
    for index in 0..500_u64 {
        let at = (index * 10 * MS) as i64;
        let java = script.read("sda", 4096).by(100, "java").at(at).sector(index * 977 * 8);
        let java = java.cgroup("/system.slice/jenkins.service", "jenkins.service");
        java.scheduled(1000, 500, 20_000 + index, MS)
            .origin(Origin::Metadata)
            .part(Err("inode"), 4096, Ok((100, "java")))
            .stacks(&["submit_bio", "xfs_lookup"], &["lstat0"], 1)
            .add();
        let writer =
            script.write("sda", 12_288).by(7, "kworker/u8:1").at(at + 5).sector(index * 24);
        writer
            .origin(Origin::Writeback)
            .direct(0, 3000, 3 * MS)
            .part(Ok("/var/log/a"), 4096, Ok((200, "rsyslogd")))
            .part(Ok("/var/log/b"), 8192, Err("dirtied before the watch"))
            .add();
    }
    script.request("sda", Operation::Flush).direct(0, 100, 2 * MS).add();
    script.read("sda", 4096).by(300, "dd").at(9_000 * MS as i64).status(Status::InFlight).add();
    script
}

#[test]
fn figures_are_those_of_iostat_and_the_stages_add_up() {
    let summary = varied().summary();
    assert_sums(&summary);
    let sda = device(&summary, "sda");
    let read = &sda.directions[Direction::Read];
    let write = &sda.directions[Direction::Write];
    assert_eq!((read.requests, write.requests, summary.watch.requests), (500, 500, 1002));
    assert_eq!((read.requests_per_s, read.bytes_per_s), (50.0, 204_800.0));
    let g2c = 500.0 + 20_249.5 + 1e6;
    assert!((read.await_ns.unwrap() - g2c).abs() < 1e-6);
    assert!((write.await_ns.unwrap() - 3_003_000.0).abs() < 1e-6);
    assert_eq!(sda.directions[Direction::Flush].await_ns, Some(2_000_100.0));
    let waited = 500.0 * g2c + 500.0 * 3_003_000.0 + 2_000_100.0;
    assert!((sda.aqu_sz.unwrap() - waited / 1e10).abs() < 1e-9);
    let stage = |interval| read.intervals[interval].unwrap().sum_ns;
    let parts = [Interval::Q2g, Interval::G2i, Interval::I2d, Interval::D2c].map(stage);
    assert_eq!(parts.iter().sum::<u64>(), stage(Interval::Q2c));
    assert_eq!(stage(Interval::Q2d) + stage(Interval::D2c), stage(Interval::Q2c));
    assert_eq!(read.intervals[Interval::G2d], None);
    assert_eq!(write.intervals[Interval::I2d], None);
}

#[test]
fn busy_time_is_a_union_and_open_requests_stay_busy_until_the_end() {
    let mut script = Script::new(10);
    script.read("sda", 512).direct(0, MS, 2 * MS).add();
    script.read("sda", 512).at(2 * MS as i64).direct(0, 0, 3 * MS).add();
    let summary = script.summary();
    assert!((device(&summary, "sda").util_share.unwrap() - 0.0004).abs() < 1e-12);
    script.read("sda", 512).at(9_000 * MS as i64).status(Status::InFlight).add();
    let summary = script.summary();
    assert!((device(&summary, "sda").util_share.unwrap() - 0.1004).abs() < 1e-12);
    assert!((device(&summary, "sda").in_flight_mean - 0.1006).abs() < 1e-9);
}

#[test]
fn batches_and_the_numbers_of_names_do_not_matter() {
    let mut script = varied();
    script.read("sdb", 4096).by(8, "cc1").file("/tmp/x").direct(0, 0, 5 * MS).add();
    script.read("sdb", 4096).by(9, "cc1").file("/tmp/y").direct(0, 0, 5 * MS).add();
    let whole = script.summary();
    for size in [1, 2, 7, 1000] {
        assert_eq!(script.summary_in_batches(size), whole, "batches of {size}");
    }
    assert_eq!(renamed(&script).summary(), whole);
}

/// The same rows, whose names have other numbers.
fn renamed(script: &Script) -> Script {
    let mut other = Script::new(10);
    for text in ["/tmp/y", "cc1", "/tmp/x", "sdb", "rsyslogd", "java", "sda", "lstat0"] {
        other.names.intern(text);
    }
    let mut batch = script.batch.clone();
    let mut rename = |name: &mut Name| *name = other.names.intern(script.names.get(*name));
    for request in &mut batch.requests {
        rename(&mut request.device);
        let names = [&mut request.process, &mut request.cgroup, &mut request.container];
        names.into_iter().flatten().for_each(&mut rename);
    }
    for part in &mut batch.parts {
        let file = [&mut part.file, &mut part.file_reason];
        file.into_iter().flatten().for_each(&mut rename);
        let owner = [&mut part.owner, &mut part.owner_reason];
        owner.into_iter().flatten().for_each(&mut rename);
    }
    for stack in &mut batch.stacks {
        stack.frames.iter_mut().for_each(&mut rename);
    }
    for process in &mut batch.processes {
        rename(&mut process.process);
        let names = [&mut process.cgroup, &mut process.container];
        names.into_iter().flatten().for_each(&mut rename);
    }
    Script { batch, ..other }
}

#[test]
fn writeback_is_charged_to_the_dirtier_or_to_nobody_with_the_reason() {
    let summary = varied().summary();
    let names: Vec<&str> =
        summary.processes.rows.iter().map(|row| row.subject.process.as_str()).collect();
    assert_eq!(names, ["dd", "java", "rsyslogd"]);
    let unknown = &summary.processes.unknown;
    assert_eq!(unknown[0].reason, "dirtied before the watch");
    assert_eq!(unknown[0].usage.bytes, 500 * 8192);
    assert_eq!((unknown.len(), summary.watch.helper_requests), (1, 1));
    let rsyslogd = &summary.processes.rows[2].usage;
    assert_eq!((rsyslogd.bytes, rsyslogd.requests), (500 * 4096, 500));
    assert_eq!(rsyslogd.time_ns, 500 * 1_001_000);
    let java = &summary.processes.rows[1].subject;
    assert_eq!(java.container.as_deref(), Some("jenkins.service"));
}

#[test]
fn censored_requests_are_apart() {
    let mut script = Script::new(10);
    script.read("sda", 4096).at(-5_000 * MS as i64).by(1, "a").status(Status::InFlight).add();
    let begun = script.read("sda", 4096).at(-1_000 * MS as i64).by(2, "b").bio(3_000 * MS);
    begun.status(Status::BegunBefore).add();
    script.read("sda", 4096).at(4_000 * MS as i64).by(3, "c").status(Status::InFlight).add();
    let summary = script.summary();
    assert_sums(&summary);
    let sda = device(&summary, "sda");
    let read = &sda.directions[Direction::Read];
    assert_eq!((read.requests, read.begun_before_requests, read.open_requests), (1, 1, 2));
    assert_eq!((read.intervals[Interval::Q2c], read.await_ns), (None, None));
    assert!(read.q2c_histogram.is_empty());
    assert_eq!(sda.oldest_open_ns, Some(15_000 * MS));
    assert_eq!(sda.stalled_ns, Some(8_000 * MS));
    assert_eq!(sda.util_share, Some(1.0));
    let times: Vec<(u64, u64)> = summary
        .processes
        .rows
        .iter()
        .map(|row| (row.usage.time_ns, row.usage.open_time_ns))
        .collect();
    assert_eq!(times, [(0, 10_000 * MS), (0, 6_000 * MS), (2_000 * MS, 0)]);
}

#[test]
fn an_open_request_that_others_overtook_is_overdue_or_lost() {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(1, "waiter").status(Status::InFlight).add();
    for index in 1..100 {
        let read = script.read("sda", 4096).by(2, "busy").at(index * 100 * MS as i64);
        read.direct(0, 0, 20 * MS).add();
    }
    let time_of = |summary: &Summary, name: &str| {
        let mut rows = summary.processes.rows.iter();
        rows.find(|row| row.subject.process == name).unwrap().usage.all_time_ns()
    };
    let summary = script.summary();
    assert_sums(&summary);
    let sda = device(&summary, "sda");
    assert_eq!((sda.oldest_open_ns, sda.is_oldest_overdue), (Some(10_000 * MS), true));
    assert_eq!((sda.stalled_ns, sda.util_share), (None, Some(1.0)));
    assert_eq!(time_of(&summary, "waiter"), 10_000 * MS);
    // Where ends are lost, this one's is.
    script.environment.losses.add("ring", 1, "requests that have no record", true);
    let summary = script.summary();
    assert_sums(&summary);
    let sda = device(&summary, "sda");
    assert_eq!((sda.oldest_open_ns, sda.overtaken_requests), (None, 1));
    assert_eq!((time_of(&summary, "waiter"), sda.util_share), (0, Some(0.198)));
}

#[test]
fn a_disk_that_hung_before_the_watch_is_seen() {
    let mut script = Script::new(10);
    script.write("sdc", 4096).at(-60_000 * MS as i64).status(Status::InFlight).add();
    let silent = Device {
        name: "sdd".into(),
        in_flight_start: Some((3, 0)),
        in_flight_end: Some((3, 1)),
        stat_start: vec![7; 17],
        stat_end: vec![7; 17],
        ..Device::default()
    };
    let working = Device { name: "sde".into(), stat_end: vec![8; 17], ..silent.clone() };
    *script.environment.devices = vec![silent, working];
    let summary = script.summary();
    let sdc = device(&summary, "sdc");
    assert_eq!((sdc.oldest_open_ns, sdc.stalled_ns), (Some(70_000 * MS), Some(10_000 * MS)));
    assert_eq!((sdc.aqu_sz, sdc.in_flight_mean), (Some(0.0), 1.0));
    let sdd = device(&summary, "sdd");
    assert_eq!((sdd.stalled_ns, sdd.kernel_in_flight_end), (Some(10_000 * MS), Some(4)));
    assert_eq!((summary.devices.len(), summary.idle_devices), (2, 1));
}

#[test]
fn nothing_and_one_request() {
    let summary = Script::new(10).summary();
    assert_sums(&summary);
    assert!(summary.devices.is_empty() && summary.processes.rows.is_empty());
    let mut script = Script::new(0);
    script.read("sda", 4096).direct(1, 2, 3).add();
    script.environment.end_ns = 0;
    let summary = script.summary();
    assert_sums(&summary);
    assert_eq!(summary.watch.duration_ns, 6);
    let stage = device(&summary, "sda").directions[Direction::Read].intervals[Interval::Q2c];
    let stage = stage.unwrap();
    assert_eq!((stage.requests, stage.p50_ns, stage.p99_ns, stage.max_ns), (1, 6, 6, 6));
}

#[test]
fn a_capture_of_issues_and_completions_has_no_queueing() {
    let mut script = Script::new(10);
    for index in 0..10 {
        script.read("sda", 4096).at(index * 100).issued(100).add();
    }
    let summary = script.summary();
    assert_sums(&summary);
    let sda = device(&summary, "sda");
    let read = &sda.directions[Direction::Read];
    let known = Interval::ALL.map(|interval| read.intervals[interval].is_some());
    assert_eq!(known, [false, false, false, false, false, true, false]);
    assert_eq!((read.await_ns, sda.aqu_sz), (None, None));
    assert_eq!(read.intervals[Interval::D2c].unwrap().q2c_share, None);
    assert_eq!(sda.util_share, Some(1e-7));
    assert_eq!(summary.files.unknown[0].reason, "not in the data");
    assert_eq!(summary.watch.time_ns, 1000);
}

#[test]
fn stacked_devices_count_once() {
    let mut script = Script::new(10);
    for index in 0..10 {
        let at = index * MS as i64;
        let upper = script.read("dm-0", 4096).at(at).by(5, "db").file("/db").bio(3 * MS).add();
        script
            .read("sda", 4096)
            .at(at)
            .by(5, "db")
            .file("/db")
            .direct(0, 0, 2 * MS)
            .parent(upper)
            .add();
    }
    script.read("sda", 512).by(6, "cat").file("/boot/x").direct(0, 0, MS).add();
    let below = |name: &str, below: &[&str]| Device {
        name: name.into(),
        below: below.iter().map(|name| (*name).to_owned()).collect(),
        ..Device::default()
    };
    let partition = Device { partition_of: Some("sda".into()), ..below("sda2", &[]) };
    *script.environment.devices = vec![below("dm-0", &["sda2"]), partition, below("sda", &[])];
    let summary = script.summary();
    assert_sums(&summary);
    assert_eq!(summary.watch.bytes, 10 * 4096 + 512);
    assert_eq!((summary.watch.requests, summary.watch.lower_requests), (21, 10));
    assert_eq!(device(&summary, "sda").directions[Direction::Read].requests, 11);
    assert_eq!(device(&summary, "sda").lower_requests, 10);
    assert_eq!(device(&summary, "sda").processes[0].usage.requests, 10);
    // With the upper device filtered out, the lower one's requests are all there is.
    let dm = script.batch.requests[0].device;
    script.batch.requests.retain(|request| request.device != dm);
    script.batch.parts.retain(|part| part.request_id % 2 == 0 || part.bytes == 512);
    let summary = script.summary();
    assert_sums(&summary);
    assert_eq!((summary.watch.bytes, summary.watch.lower_requests), (10 * 4096 + 512, 0));
}

#[test]
fn what_iowhy_does_itself_is_counted_apart() {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(7, "db").direct(0, 0, MS).add();
    for index in 0..3 {
        script.read("sda", 8192).by(9, "iowhy").at(index * 1000).direct(0, 0, MS).add();
    }
    script.wait((7, "db"), WaitClass::PageRead, 5 * MS, 5 * MS, 0);
    script.wait((9, "iowhy"), WaitClass::PageFault, 50 * MS, 50 * MS, 0);
    let summary = script.summary();
    assert_sums(&summary);
    let watch = &summary.watch;
    assert_eq!((watch.own_requests, watch.own_bytes, watch.own_waits), (3, 3 * 8192, 1));
    let ledger = summary.ledger.as_ref().unwrap();
    assert_eq!(ledger.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [7]);
    assert!(summary.blame.unwrap().waiters.iter().all(|waiter| waiter.pid != Some(9)));
}

#[test]
fn streams_are_followed_file_by_file() {
    let mut script = Script::new(10);
    for index in 0..100 {
        for (file, base) in [("/a", 0), ("/b", 1_000_000)] {
            let read = script.read("sda", 4096).sector(base + index * 8).by(1, "cat");
            read.at(index as i64).file(file).direct(0, 0, 10).add();
        }
        let random = script.read("sda", 4096).sector(index * 7919 % 1000 * 1024).by(1, "cat");
        random.at(index as i64).file("/r").direct(0, 0, 10).add();
    }
    let summary = script.summary();
    let read = &device(&summary, "sda").directions[Direction::Read];
    assert_eq!((read.requests, read.sequential_requests), (300, 198));
    assert_eq!(read.sequential_share, Some(0.66));
    let shares: Vec<_> =
        summary.files.rows.iter().map(|row| row.subject.sequential_share).collect();
    assert_eq!(shares, [Some(0.99), Some(0.99), Some(0.0)]);
}

#[test]
fn a_stream_of_which_owners_were_sampled_is_sequential() {
    let share = |step: u64| {
        let mut script = Script::new(10);
        for index in 0..300_u64 {
            let read = script.read("sda", 4096).sector(index * step * 8).at(index as i64);
            let read = read.by(1 + index as u32 % 2, "dd");
            let read = if index % 3 == 0 { read.file("/data") } else { read };
            read.direct(0, 0, 10).add();
        }
        device(&script.summary(), "sda").directions[Direction::Read].sequential_share.unwrap()
    };
    assert!(share(1) > 0.98, "{}", share(1));
    assert_eq!(share(9), 0.0);
}

#[test]
fn many_files_are_bounded_and_every_byte_is_kept() {
    let mut script = Script::new(10);
    for index in 0..100_000 {
        let file = format!("/data/{index}");
        script.write("sda", 4096).by(index % 5, "cp").file(&file).direct(0, 0, 1000).add();
        if index % 10 == 0 {
            script.write("sda", 1 << 20).by(9, "big").file("/big").direct(0, 0, MS).add();
        }
    }
    let summary = script.summary();
    assert_sums(&summary);
    let files = &summary.files;
    assert!(files.rows.len() <= 200);
    assert_eq!(files.rows[0].subject.file, "/big");
    assert_eq!(files.rows[0].usage.bytes, 10_000 << 20);
    assert_eq!(files.rows.len() as u64 + files.others.count, 100_001);
}

#[test]
fn programs_and_containers_are_folded() {
    let mut script = Script::new(10);
    for pid in 0..1000 {
        script.process(pid, "cc1", "/ci/job", "ci");
        let cgroup = if pid % 2 == 0 { "/ci/a" } else { "/ci/b" };
        let read = script.read("sda", 4096).by(pid, "cc1").cgroup(cgroup, "ci");
        read.direct(0, 0, 1000).add();
    }
    script.read("sda", 4096).by(5000, "top").cgroup("/user", "").direct(0, 0, 1).add();
    let summary = script.summary();
    assert_sums(&summary);
    let cc1 = &summary.programs.rows[0].subject;
    assert_eq!((cc1.processes, cc1.pid, cc1.container.as_deref()), (1000, None, Some("ci")));
    assert_eq!(summary.programs.rows[1].subject.pid, Some(5000));
    assert_eq!(summary.containers.rows[0].subject.container, "ci");
    assert_eq!(summary.containers.rows[0].usage.requests, 1000);
    assert_eq!(summary.processes.rows.len() as u64 + summary.processes.others.count, 1001);
}

#[test]
fn parts_of_a_request_count_as_often_as_it_does() {
    let mut script = Script::new(10);
    for _ in 0..10 {
        script.read("sda", 4096).by(1, "db").file("/data/table").direct(0, 0, MS).add();
    }
    script.batch.requests.iter_mut().for_each(|request| request.weight = Some(8));
    let summary = script.summary();
    assert_sums(&summary);
    let row = &summary.files.rows[0];
    assert_eq!((row.usage.bytes, row.usage.time_ns), (80 * 4096, 80 * MS));
    assert!(summary.files.unknown.is_empty(), "{:?}", summary.files.unknown);
}

#[test]
fn code_paths_stand_for_what_their_weights_say() {
    let mut script = Script::new(10);
    for index in 0..100 {
        let read = script.read("sda", 4096).by(1, "db").direct(0, 0, MS);
        if index % 10 == 0 {
            read.stacks(&["submit_bio", "ext4_readpage"], &["pread64", "main"], 10).add();
        } else {
            read.add();
        }
    }
    let paths = script.summary().code_paths;
    assert_eq!((paths.sampled_requests, paths.represented_requests), (10, 100));
    let row = &paths.table.rows[0];
    assert_eq!((row.usage.requests, row.usage.bytes, row.usage.time_share), (100, 409_600, 1.0));
    assert_eq!(row.subject.user, ["pread64", "main"]);
}

#[test]
fn flushes_that_the_kernel_makes_are_not_counted_twice() {
    let mut script = Script::new(10);
    let commit = script.write("sda", 4096).by(1, "jbd2/sda").origin(Origin::Journal);
    commit.scheduled(0, 2 * MS, 0, MS).add();
    script.request("sda", Operation::Flush).issued(2 * MS).add();
    let summary = script.summary();
    assert_sums(&summary);
    assert_eq!((summary.watch.time_ns, summary.watch.helper_requests), (3 * MS, 1));
    assert_eq!(device(&summary, "sda").directions[Direction::Flush].requests, 1);
    // Where nothing else was kept, they are all there is.
    script.batch.requests.remove(0);
    assert_eq!(script.summary().watch.time_ns, 2 * MS);
}

#[test]
fn flushes_are_counted_as_the_kernel_does() {
    let mut script = Script::new(10);
    for _ in 0..3 {
        let asked = script.request("sda", Operation::Flush).by(1, "db");
        asked.direct(0, 100, 2 * MS).add();
    }
    script.request("sda", Operation::Flush).issued(MS).add();
    let summary = script.summary();
    let sda = device(&summary, "sda");
    let (write, flush) = (&sda.directions[Direction::Write], &sda.directions[Direction::Flush]);
    assert_eq!((write.requests, flush.requests), (3, 1));
    assert_eq!((write.await_ns, flush.await_ns), (Some(2_000_100.0), Some(1e6)));
    assert_eq!(write.intervals[Interval::Q2c], None);
    assert_eq!(flush.intervals[Interval::Q2c].unwrap().requests, 3);
    assert_eq!(flush.intervals[Interval::D2c].unwrap().requests, 1, "the command for all three");
    assert_eq!(summary.processes.rows[0].usage.directions[Direction::Flush].requests, 3);
}

#[test]
fn a_flush_is_at_the_device_once() {
    let mut script = Script::new(10);
    for turn in 0..3_i64 {
        let at = turn * 10 * MS as i64;
        let asked = script.request("sda", Operation::Flush).by(1, "db").at(at);
        asked.direct(0, 100, 2 * MS).add();
        // The kernel's own command for it.
        script.request("sda", Operation::Flush).at(at + 100).issued(2 * MS).add();
    }
    let summary = script.summary();
    let flush = &device(&summary, "sda").directions[Direction::Flush];
    let at_device = flush.intervals[Interval::D2c].unwrap();
    assert_eq!((flush.requests, at_device.requests, at_device.sum_ns), (3, 3, 6 * MS));
}

#[test]
fn functions_that_every_request_goes_through_part_no_paths() {
    let mut script = Script::new(10);
    for plumbing in ["submit_bio", "__traceiter_block_bio_queue", "blk_mq_submit_bio"] {
        let read = script.read("sda", 4096).by(1, "db").direct(0, 0, MS);
        read.stacks(&[plumbing, "ext4_readpage", "do_syscall_64"], &["bpf_mine"], 1).add();
    }
    let paths = script.summary().code_paths.table.rows;
    assert_eq!(paths.len(), 1);
    assert_eq!((paths[0].subject.kernel.len(), paths[0].subject.user.len()), (1, 1));
}

#[test]
fn a_recording_gives_the_same_summary() {
    let mut script = varied();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let mut writer = RecordingWriter::create(&path, &script.environment).unwrap();
    for batch in script.source(100).batches {
        writer.add(&batch, &script.names).unwrap();
    }
    writer.finish(&mut script.environment, &script.names).unwrap();
    let live = script.summary();
    let again = summarize(&mut RecordingReader::open(&path).unwrap()).unwrap();
    assert_eq!(again.environment, live.environment);
    assert_eq!(again, live);
}

#[test]
fn errors_requeues_and_unknown_parents_are_counted() {
    let mut script = Script::new(10);
    let reason = script.names.intern("dm-crypt writes carry no parent");
    for error in [-5, -5, -28] {
        let mut write = script.write("sda", 4096).direct(0, 0, MS).error(error);
        (write.request.requeues, write.request.parent_reason) = (2, Some(reason));
        write.add();
    }
    let summary = script.summary();
    let sda = device(&summary, "sda");
    assert_eq!(
        sda.errors.iter().map(|error| (error.error, error.requests)).collect::<Vec<_>>(),
        [(-5, 2), (-28, 1)]
    );
    assert_eq!(sda.directions[Direction::Write].requeues, 6);
    assert_eq!((sda.unlinked[0].requests, summary.watch.unlinked_requests), (3, 3));
}

#[test]
fn settings_that_changed_are_reported() {
    let mut script = Script::new(10);
    let settings = |value: &str| [("scheduler".to_owned(), value.to_owned())].into();
    *script.environment.devices = vec![Device {
        name: "sda".into(),
        settings_start: settings("none"),
        settings_end: settings("bfq"),
        ..Device::default()
    }];
    let summary = script.summary();
    let changed = &summary.changed_settings[0];
    assert_eq!((changed.before.as_str(), changed.after.as_str()), ("none", "bfq"));
    assert_eq!(summary.devices.len(), 1);
}

#[test]
fn devices_beyond_the_limit_are_one() {
    let mut script = Script::new(10);
    for index in 0..1000 {
        script.read(&format!("sd{index:04}"), 512).direct(0, 0, 1000).add();
    }
    let summary = script.summary();
    assert_sums(&summary);
    assert_eq!(summary.devices.len(), MAX_DEVICES + 1);
    let rest = device(&summary, "(further devices)");
    assert_eq!(rest.directions[Direction::Read].requests, 1000 - MAX_DEVICES as u64);
}

#[test]
fn absurd_figures_do_not_break_it() {
    let mut script = Script::new(10);
    for _ in 0..100 {
        for status in [Status::Complete, Status::BegunBefore, Status::InFlight, Status::Error] {
            let mut draft = script.read("sda", u64::MAX).sector(u64::MAX).status(status);
            draft.request.start_ns = u64::MAX;
            draft.request.q2g_ns = Some(u64::MAX);
            draft.request.g2d_ns = Some(u64::MAX);
            draft.request.d2c_ns = Some(u64::MAX);
            draft.request.requeues = u32::MAX;
            draft.request.merges = u32::MAX;
            draft.request.stack_weight = u32::MAX;
            draft.part(Ok("/a"), u64::MAX, Ok((1, "a"))).part(Ok("/b"), 7, Err("")).add();
        }
    }
    let summary = script.summary();
    assert_eq!(summary.watch.requests, 400);
    let nothing = Summarizer::new(&script.environment);
    assert_eq!(nothing.finish(&script.environment, &script.names).watch.requests, 0);
}
