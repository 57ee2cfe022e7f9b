//! Captures that lack kinds of events, and text of every tool that prints events: lines in the form
//! of public ones, and the results that they must have.

use super::*;
use iowhy_analysis::Summarizer;
use iowhy_analysis::stages::Stage;
use iowhy_analysis::{Direction, Summary};
use iowhy_blktrace::import::{self, CaptureImport};
use iowhy_diagnosis::diagnose;
use iowhy_model::source::{self, Progress, Source};
use iowhy_model::{Names, Operation, Request, Status};
use std::fmt::Write;

/// A text as it is read.
struct ReadText {
    requests: Vec<Request>,
    summary: Summary,
    stages: StageAnalysis,
}

impl ReadText {
    fn new(text: &str) -> ReadText {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        std::fs::write(&path, text).unwrap();
        let capture = open(std::slice::from_ref(&path), Order::Time);
        let options = import::ImportOptions::default();
        let mut import = CaptureImport::new(capture, events::ProcessNames::default(), options);
        let (mut batch, mut names) = (source::Batch::default(), Names::new());
        let mut summarizer = Summarizer::new(import.environment());
        let mut requests = Vec::new();
        loop {
            batch.clear();
            let Ok(progress) = import.fill(&mut batch, &mut names);
            summarizer.add(&batch, &names);
            requests.append(&mut batch.requests);
            if progress == Progress::Done {
                break;
            }
        }
        let summary = summarizer.finish(import.environment(), &names);
        ReadText { requests, summary, stages: stages(&[path]) }
    }

    /// Returns the sentences above the figures.
    fn said(&self) -> String {
        self.summary.environment.limits.join("\n")
    }

    fn lost(&self) -> u64 {
        self.summary.environment.losses.requests()
    }

    fn causes(&self) -> Vec<&'static str> {
        diagnose(&self.summary).findings.iter().map(|finding| finding.cause).collect()
    }
}

#[test]
fn requests_that_are_only_issued_have_rates_and_no_latencies() {
    let mut text = String::new();
    for number in 0..20_000_u64 {
        let (whole, rest) = (number / 4000, number % 4000 * 250_000);
        writeln!(text, "8,0 0 {number} {whole}.{rest:09} 9 D R {} + 8 [a]", number * 512).unwrap();
    }
    let read = ReadText::new(&text);
    assert_eq!((read.requests.len(), read.lost()), (20_000, 0));
    assert!(
        read.requests
            .iter()
            .all(|request| request.status == Status::Complete && request.d2c_ns.is_none())
    );
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert_eq!((device.stalled_ns, device.util_share, device.aqu_sz), (None, None, None));
    assert_eq!(device.directions.0[0].requests, 20_000);
    assert!(read.said().contains("it holds no Q, no G, no C"), "{}", read.said());
    assert!(read.said().contains("blktrace -d"), "{}", read.said());
    assert_eq!(read.causes(), Vec::<&str>::new());
    assert_eq!(read.stages.devices()[0].reads.requests, 20_000);
}

#[test]
fn requests_that_only_complete_have_rates_and_no_latencies() {
    let text = "\
        8,16 5 15 0.000356669 0 C R 1444645666 + 256 [0]\n\
        8,16 1 1 0.000656835 0 C WS 700 + 8 [0]\n\
        8,16 1 2 0.000756835 0 C WS 700 [0]\n\
        8,16 5 30 0.200440190 0 C R 1444646178 + 256 [65531]\n";
    let read = ReadText::new(text);
    assert_eq!((read.requests.len(), read.lost()), (3, 0), "{}", read.said());
    assert!(read.requests.iter().all(|request| request.q2c_ns.is_none() && request.pid.is_none()));
    assert_eq!(read.summary.devices[0].errors[0].error, -5);
    assert!(read.said().contains("it holds no Q, no G, no D"), "{}", read.said());
}

#[test]
fn a_completion_whose_device_began_requests_later_is_lost() {
    let text = "\
        8,16 5 1 0.000356669 0 C R 1000 + 8 [0]\n\
        8,16 5 2 0.000400000 9 Q R 2000 + 8 [a]\n\
        8,16 5 3 0.000500000 9 D R 2000 + 8 [a]\n\
        8,16 5 4 0.000600000 0 C R 2000 + 8 [0]\n";
    let read = ReadText::new(text);
    assert_eq!((read.requests.len(), read.lost()), (1, 1));
}

/// Writes of an old kernel, which logs no completion of flushes; then nothing for a minute.
fn without_ends_of_flushes() -> String {
    let mut text = String::new();
    for number in 0..40_u64 {
        let at = |microseconds: u64| format!("1.{:06}", number * 1000 + microseconds);
        let sector = number * 8;
        writeln!(
            text,
            "a-7 ( 7) [001] d..2 {}: block_rq_issue: 93,32 W 0 () {sector} + 8 [a]",
            at(0)
        )
        .unwrap();
        if number % 20 == 0 {
            let none = u64::MAX;
            writeln!(
                text,
                "a-7 [001] d..2 {}: block_rq_issue: 93,32 FWS 0 () {none} + 0 [a]",
                at(5)
            )
            .unwrap();
        }
        writeln!(
            text,
            "a-7 [001] d..2 {}: block_rq_complete: 93,32 W () {sector} + 8 [0]",
            at(300)
        )
        .unwrap();
    }
    text.push_str("a-7 [001] d..2 61.000000: block_rq_insert: 93,32 W 0 () 999 + 8 [a]\n");
    text
}

#[test]
fn a_flush_whose_end_is_never_logged_is_no_stall() {
    let read = ReadText::new(&without_ends_of_flushes());
    let device = &read.summary.devices[0];
    assert_eq!((device.stalled_ns.is_none(), read.lost()), (true, 0), "{}", read.said());
    assert!(device.util_share.unwrap() < 0.01, "{:?}", device.util_share);
    assert!(read.said().contains("2 requests of 93:32, all of them flushes, never ended"));
    assert!(!read.causes().contains(&"hung-io"));
    assert!(read.summary.environment.source == "ftrace", "{}", read.summary.environment.source);
    // A flush that the driver got is the kernel's command, and no write.
    let writes = device.directions[Direction::Write].requests;
    let flushes = device.directions[Direction::Flush].requests;
    assert_eq!(flushes, 2);
    assert_eq!(writes + 2, device_issues(&without_ends_of_flushes()));
}

/// The issues of the first device of a text.
fn device_issues(text: &str) -> u64 {
    text.lines().filter(|line| line.contains("block_rq_issue: 93,32")).count() as u64
}

#[test]
fn a_single_event_has_no_rate() {
    let read = ReadText::new(
        "a-7 [000] d.h.. 100.000001: block_rq_complete: 8,0 R () 64 + 8 none,0,0 [-5]\n",
    );
    let rate = read.summary.devices[0].directions[Direction::Read].requests_per_s;
    assert!(rate.is_nan(), "{rate}");
}

/// Lines of trace-cmd with a disk that is read all the time, and a drive that is asked every two
/// seconds whether a medium is there: such commands have no sector.
fn polls_of_a_drive(rwbs: &str, issued: &str, completed: &str) -> String {
    let mut text = String::new();
    for index in 0..600 {
        let (at, sector) = (100.0 + f64::from(index) / 100.0, index * 64);
        write!(
            text,
            "a-7 [000] ..... {at:.6}: block_io_start: 8,0 R 4096 () {sector} + 8 none,0,0 [a]\n\
             a-7 [000] ..... {:.6}: block_rq_issue: 8,0 R 4096 () {sector} + 8 none,0,0 [a]\n\
             a-7 [000] d.h.. {:.6}: block_rq_complete: 8,0 R () {sector} + 8 none,0,0 [0]\n\
             a-7 [000] d.h.. {:.6}: block_io_done: 8,0 R 0 () {sector} + 0 none,0,0 [a]\n",
            at + 0.000_001,
            at + 0.001,
            at + 0.001_001,
        )
        .unwrap();
        if index % 200 == 0 {
            write!(
                text,
                "k-2 [000] ..... {:.6}: block_rq_issue: 11,0 {rwbs} {issued} 0 + 0 [k]\n\
                 k-2 [000] d.h2. {:.6}: block_rq_complete: 11,0 {rwbs} {completed} \
                 {} + 0 [0]\n",
                at + 0.002,
                at + 0.0024,
                u64::MAX
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn commands_of_drivers_complete_although_they_have_no_sector() {
    let of_now = polls_of_a_drive("N", "8 ()", "()");
    let of_old = polls_of_a_drive("R", "8 (4a 01 00 00 10 00 00 00 08 00)", "()");
    for text in [of_now, of_old] {
        let read = ReadText::new(&text);
        assert_eq!(read.lost(), 0, "{}", read.said());
        assert!(!read.causes().contains(&"hung-io"), "{:?}", read.causes());
        assert!(!read.said().contains("skipped"), "{}", read.said());
        let of_drive = |request: &&Request| request.major == 11;
        assert_eq!(read.requests.iter().filter(of_drive).count(), 3);
        assert_eq!(read.requests.len(), 603);
    }
}

#[test]
fn a_write_around_which_the_cache_is_flushed_has_stages_of_its_own() {
    let text = "\
        8,0 3 2 0.000002000 594 Q FWFSM 4378 + 16 [x]\n\
        8,0 3 3 0.000006000 594 G FWFSM 4378 + 16 [x]\n\
        8,0 3 4 0.000031000 195 D FN [k]\n\
        8,0 2 7 0.001628000 0 C FN 0 [0]\n\
        8,0 2 8 0.001671000 323 D WSM 4378 + 16 [k]\n\
        8,0 2 9 0.001843000 0 C WSM 4378 + 16 [0]\n\
        8,0 2 10 0.001863000 323 D FN [k]\n\
        8,0 2 11 0.002735000 0 C FN 0 [0]\n\
        8,0 2 12 0.002742000 0 C WSM 4378 [0]\n";
    let read = ReadText::new(text);
    let write = read.requests.iter().find(|request| request.operation == Operation::Write).unwrap();
    assert_eq!((write.q2c_ns, write.d2c_ns), (Some(2_740_000), Some(1_071_000)));
    assert_eq!((write.g2d_ns, write.i2d_ns), (None, None), "no scheduler held it");
    let total = |stage| read.stages.all().get(stage).average.total;
    assert_eq!((total(Stage::Preflush), total(Stage::Postflush)), (1_665_000, 899_000));
    let summary = read.stages.summary(&iowhy_analysis::stages::summary::device_name);
    let shares = summary.devices[0].shares.unwrap();
    let parts = [shares.q2g_share, shares.g2d_share, shares.preflush_share, shares.d2c_share];
    assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    assert_eq!(read.causes(), Vec::<&str>::new());
}

#[test]
fn a_write_whose_last_flush_is_not_logged_ends_with_its_data() {
    let text = "\
        8,0 3 2 0.000002000 594 Q FWFS 4378 + 16 [x]\n\
        8,0 3 3 0.000006000 594 G FWFS 4378 + 16 [x]\n\
        8,0 3 4 0.000010000 594 I FWFS 4378 + 16 [x]\n\
        8,0 2 8 0.065671000 323 D WS 4378 + 16 [k]\n\
        8,0 2 9 0.065843000 0 C WS 4378 + 16 [0]\n";
    let read = ReadText::new(text);
    assert_eq!(
        (read.requests[0].status, read.requests[0].d2c_ns),
        (Status::Complete, Some(172_000))
    );
    assert_eq!(read.requests[0].i2d_ns, None, "the cache was flushed meanwhile");
}

#[test]
fn requeues_are_a_stage_of_their_own() {
    let text = "\
        252,0 29 1 0.000000000 62 Q WS 0 + 8 [dd]\n\
        252,0 29 2 0.000010000 62 G WS 0 + 8 [dd]\n\
        252,0 29 3 0.000014000 62 I WS 0 + 8 [dd]\n\
        252,0 29 4 0.000040000 80 D WS 0 + 8 [k]\n\
        252,0 29 5 0.000043000 80 R WS 0 + 8 [0]\n\
        252,0 29 8 0.008220000 80 I WS 0 + 8 [k]\n\
        252,0 29 9 0.008225000 80 D WS 0 + 8 [k]\n\
        252,0 29 20 0.008251000 15 C WS 0 + 8 [0]\n";
    let read = ReadText::new(text);
    let total = |stage| read.stages.all().get(stage).average.total;
    assert_eq!(total(Stage::Requeue), 8_185_000);
    assert_eq!((total(Stage::G2i), total(Stage::I2d)), (4_000, 26_000));
    assert_eq!((read.requests[0].g2i_ns, read.requests[0].requeues), (Some(4_000), 1));
}

#[test]
fn times_before_the_first_event_are_before_it() {
    let text = "\
        259,0 12 1 0.000000000 11 Q WS 408 + 8 [fio]\n\
        259,0 12 5 0.000005654 11 D WS 408 + 8 [fio]\n\
        259,0 4 1 0.000045379 0 C WS 408 + 8 [0]\n\
        259,0 3 1 1266874889.709450585 12 Q WS 908 + 8 [fio]\n\
        259,0 3 5 1266874889.709458888 12 D WS 908 + 8 [fio]\n\
        ^C259,0 8 1 1266874889.709500996 0 C WS 908 + 8 [0]\n";
    let read = ReadText::new(text);
    assert_eq!((read.requests.len(), read.lost()), (2, 0), "{}", read.said());
    assert_eq!(read.summary.watch.duration_ns, 101_031 + 45_379);
    assert!(!read.said().contains("no event"), "{}", read.said());
}

#[test]
fn completions_of_split_requests_are_those_of_their_parts() {
    let mut text = String::from("8,32 1 1 0.000000000 34 Q R 0 + 32 [fio]\n");
    for part in 0..4 {
        let sector = part * 8;
        if part < 3 {
            writeln!(text, "8,32 1 2 0.00000100{part} 34 X R {sector} / {} [fio]", sector + 8)
                .unwrap();
        }
        writeln!(text, "8,32 1 3 0.00000200{part} 34 G R {sector} + 8 [fio]").unwrap();
    }
    for part in 0..4 {
        writeln!(text, "8,32 1 5 0.00005000{part} 34 D R {} + 8 [fio]", part * 8).unwrap();
    }
    for part in 0..4 {
        writeln!(text, "8,32 1 6 0.00105000{part} 34 C R 0 + {} [0]", part * 8 + 8).unwrap();
    }
    let read = ReadText::new(&text);
    assert_eq!((read.requests.len(), read.lost()), (4, 0), "{}", read.said());
    assert!(
        read.requests
            .iter()
            .all(|request| request.d2c_ns == Some(1_000_000) && request.bytes == 4096)
    );
}

#[test]
fn what_a_tracer_lost_is_counted() {
    let text = "\
        # entries-in-buffer/entries-written: 2/51234   #P:4\n\
        cpus=4\nCPU 2 is empty\n\
        dd-1 [002] 1.567890: block_rq_issue: 8,0 W 4096 () 0 + 8 [dd]\n\
        dd-1 [002] 1.567990: block_rq_complete: 8,0 W () 0 + 8 [0]\n\
        CPU:3 [LOST 51 EVENTS]\n\
        CPU:1 [7 EVENTS DROPPED]\n";
    let read = ReadText::new(text);
    let losses = &read.summary.environment.losses.items;
    let count = |place: &str| losses.iter().find(|loss| loss.place == place).map(|loss| loss.count);
    assert_eq!((count("tracer"), count("overwritten")), (Some(58), Some(51_232)), "{losses:?}");
    assert!(!read.said().contains("no event"), "{}", read.said());
}

#[test]
fn an_error_that_is_printed_twice_is_one() {
    let begin = "k-10 [000] ..... 586.064527: block_rq_";
    for (events, count) in [(&["complete", "error"][..], 1), (&["error"][..], 1)] {
        let mut text = String::new();
        for event in events {
            writeln!(text, "{begin}{event}: 251,0 WS () 1310720 + 128 [-5]").unwrap();
        }
        let read = ReadText::new(&text);
        assert_eq!(read.requests.len(), count, "{events:?}");
        assert_eq!((read.requests[0].error, read.requests[0].bytes), (Some(-5), 65_536));
    }
}

#[test]
fn the_blk_tracer_quoted_mails_and_call_chains_are_read() {
    let text = "\
        > zsh-31 [015] d..1.  5758.124989: 249,1    Q   R 0 + 8 [zsh]\n\
        > zsh-31 [015] d..1.  5758.125007: 249,1    P   N [zsh]\n\
        > zsh-31 [015] d..1.  5758.125007: 249,1    U   N [zsh] 1\n\
        > zsh-31 [015] d..1.  5758.125013: 249,1    D   R 0 + 8 [zsh]\n\
        > <idle>-0 [021] d.s1.  5758.125079: 249,1   1,0  m   N --> swapper/21\n\
        > <idle>-0 [021] d.s2.  5758.125080: 249,1    C   R 0 + 8 [0]\n";
    let read = ReadText::new(text);
    assert_eq!(
        (read.requests.len(), read.requests[0].q2c_ns),
        (1, Some(91_000)),
        "{}",
        read.said()
    );
    assert!(!read.said().contains("no event"), "{}", read.said());
    let chain = "swapper 0 [004] 54.164887: block:block_rq_complete: 259,0 R () 64 + 8 [0]\n\
                 \tffffffff8112aabb blk_update_request+0xab ([kernel.kallsyms])\n\n";
    let read = ReadText::new(chain);
    assert_eq!((read.requests.len(), read.summary.environment.source.as_str()), (1, "perf"));
    assert!(!read.said().contains("no event"), "{}", read.said());
}

/// The lines of `text` that differ from what is printed of the events in it.
fn changed(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, text).unwrap();
    let printed = our_text(&[path], events::EventOptions::default());
    let same = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed: Vec<String> = printed.lines().map(same).collect();
    text.lines().map(same).filter(|line| !printed.contains(line)).collect()
}

#[test]
fn events_come_back_as_they_were() {
    let text = "\
        8,0 2 0 0.000000000 39952 1,0 m N bfq [bfq_limit_depth] wr_busy 0\n\
        8,0 2 1 0.000008134 39952 D R 4 [dmraid]\n\
        8,0 2 2 0.000021538 24 C R [0]\n\
        8,0 2 3 0.000031538 24 Q WBS 64 + 8 [a]\n\
        8,0 2 4 0.000041538 24 Q WZS 640 + 8 [a]\n\
        8,0 2 5 0.000051538 24 Q R 1000 + 16 [a]\n\
        8,0 2 6 0.000061538 24 X R 1000 / 1008 [a]\n";
    assert_eq!(changed(text), Vec::<String>::new());
    let read = ReadText::new(text);
    let driver = read.requests.iter().filter(|request| request.operation == Operation::Driver);
    assert_eq!(driver.filter(|driver| driver.status == Status::Complete).count(), 1);
}

#[test]
fn text_of_another_format_is_refused_by_its_reason() {
    let text = "8,16 1 1 0.000000000 416746 A DS 1874855936 + 83 ( 0) [blkdiscard]\n";
    let read = ReadText::new(text);
    assert!(read.requests.is_empty());
    assert!(read.said().contains("another format than blkparse's default"), "{}", read.said());
}

#[test]
fn the_real_cuts_give_their_right_answers() {
    let Some(traces) = traces() else { return };
    let cuts = traces.join("../inputs/captures");
    let text = |name: &str| std::fs::read_to_string(cuts.join(name)).ok();
    let Some(issued) = text("issue-only.txt") else {
        eprintln!("skipped: {} has no cuts", cuts.display());
        return;
    };
    for text in [issued, text("complete-only.txt").unwrap()] {
        let read = ReadText::new(&text);
        let sum = |operation: Operation| {
            let of = read.requests.iter().filter(move |request| request.operation == operation);
            (of.clone().count(), of.map(|request| request.bytes / 1024).sum::<u64>())
        };
        assert_eq!(sum(Operation::Read), (78, 9_744));
        assert_eq!(sum(Operation::Write), (92, 30_520));
        assert_eq!((read.lost(), read.causes()), (0, Vec::<&str>::new()));
    }
    let wrapped = ReadText::new(&text("wrapped-times-completions-only.txt").unwrap());
    assert_eq!(wrapped.requests.len(), 80);
    assert!(wrapped.summary.watch.duration_ns < 50_000_000);
    for (name, requests) in [
        ("wrapped-times-aws-nvme.txt", 5),
        ("blkparse13-splits.txt", 4),
        ("requeues-as-plug.txt", 2),
        ("cgroup-messages-passthrough.txt", 2),
        ("one-request-scheduler-overhead.txt", 1),
        ("ftrace-rq-error.txt", 1),
    ] {
        let read = ReadText::new(&text(name).unwrap());
        assert_eq!((read.requests.len(), read.lost()), (requests, 0), "{name}: {}", read.said());
        assert_eq!(read.causes(), Vec::<&str>::new(), "{name}");
    }
    for name in ["android-flush-no-completion.txt", "perf-7-lines-metadata-scan.txt"] {
        let read = ReadText::new(&text(name).unwrap());
        assert_eq!(read.causes(), Vec::<&str>::new(), "{name}");
    }
    let tracer = ReadText::new(&text("blk-tracer.txt").unwrap());
    assert!(!tracer.said().contains("no event"), "{}", tracer.said());
    let discard = ReadText::new(&text("discard-error-default.txt").unwrap());
    assert_eq!(discard.summary.devices[0].errors[0].error, -121);
    assert_eq!(discard.causes(), Vec::<&str>::new());
    assert!(ReadText::new(&text("discard-error-format.txt").unwrap()).requests.is_empty());
    let flushed = open(&[cuts.join("fwfs-preflush")], Order::Time);
    let options = import::ImportOptions::default();
    let mut import = CaptureImport::new(flushed, events::ProcessNames::default(), options);
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    while import.fill(&mut batch, &mut names).unwrap() == Progress::More {}
    let write = batch.requests.iter().find(|request| request.sector == 486_884_680).unwrap();
    assert_eq!(write.i2d_ns, None);
    assert!(
        write.d2c_ns.is_some_and(|d2c_ns| (10_000_000..12_000_000).contains(&d2c_ns)),
        "{write:?}"
    );
}
