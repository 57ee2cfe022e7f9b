//! The text of each view of intervals, of snoop and of opens: compared with the files in
//! `screens/`, with their tools' columns in their order, within the terminal, and with names that
//! are harmless.

use crate::scenes::{self, MS, S};
use crate::screens::{compare, fits};
use iowhy_analysis::files::ActivityTally;
use iowhy_analysis::histograms::{HistogramBy, Histograms};
use iowhy_analysis::intervals::{EndedInterval, Pass};
use iowhy_analysis::waits::groups::{self, WaitGroups};
use iowhy_analysis::{Interval as Stage, Summarizer};
use iowhy_model::file::Counts;
use iowhy_model::metric::process_subject;
use iowhy_model::script::{START_NS, Script};
use iowhy_model::{
    Environment, FileActivity, FileKind, Metric, Open, Operation, Sample, WaitClass,
};
use iowhy_views::interval::snoop::Lines;
use iowhy_views::interval::{
    BLOCKED, CACHE, FILES, IntervalView, LATENCY, PROC, STACKS, STAT, render,
};
use iowhy_views::opens;
use iowhy_views::style::Style;

/// Adds what a process did with a file, and its counters at both ends.
fn used(script: &mut Script, pid: u32, process: &str, file: &str, calls: u64) {
    let counts = Counts {
        reads: calls,
        writes: calls / 2,
        read_bytes: calls * 4096,
        write_bytes: calls * 2048,
        opens: 3,
        fsyncs: 1,
        stats: calls,
        unlinks: 1,
        timed_calls: calls,
        read_ns: calls * 900,
        ..Counts::default()
    };
    let process_name = script.names.intern(process);
    script.batch.files.push(FileActivity {
        process: Some(process_name),
        file: Some(script.names.intern(file)),
        files: Some(1),
        file_type: Some(FileKind::File),
        lifetime_ns: Some(20 * MS),
        ..FileActivity::of(START_NS, pid, &counts)
    });
    let subject = process_subject(pid, process);
    let counters = [
        (Metric::LogicalRead, counts.read_bytes),
        (Metric::CausedRead, counts.read_bytes),
        (Metric::CausedWrite, counts.write_bytes),
        (Metric::CancelledWrite, 4096),
        (Metric::ProcessMajorFaults, 12),
    ];
    for (metric, grown) in counters {
        sample(script, metric, &subject, 1e6, 1e6 + grown as f64);
    }
    let open = Open {
        time_ns: START_NS + MS,
        pid,
        tid: pid,
        process: Some(process_name),
        file: script.names.intern(file),
        device: Some(script.names.intern("sda")),
        fd: (calls > 1000).then_some(7),
        error: (calls <= 1000).then_some(13),
        duration_ns: Some(4_100),
    };
    script.batch.opens.push(open);
}

/// Adds what a counter was at both ends.
fn sample(script: &mut Script, metric: Metric, subject: &str, first: f64, last: f64) {
    let info = metric.info();
    let (subject, word) = (script.names.intern(subject), script.names.intern(info.word));
    for (time_ns, value) in
        [(script.environment.start_ns, first), (script.environment.end_ns, last)]
    {
        let row = Sample { time_ns, scope: info.scope, subject, metric: word, value };
        script.batch.samples.push(row);
    }
}

/// A busy host, as every view may show it.
fn busy() -> Script {
    let mut script = scenes::jenkins();
    used(&mut script, 30603, "java", "/var/lib/jenkins/jobs/*/builds/N/log", 13_910);
    used(
        &mut script,
        812,
        "postgres",
        "/var/lib/postgresql/15/main/pg_wal/000000010000000000000042",
        2_000,
    );
    used(&mut script, 944, "nginx", "/etc/nginx/secret.key", 1);
    let gib = (1_u64 << 30) as f64;
    for (metric, first, last) in [
        (Metric::MemoryFree, 0.4, 0.5),
        (Metric::MemoryAvailable, 9.0, 8.8),
        (Metric::Cached, 8.1, 8.2),
        (Metric::SharedMemory, 0.1, 0.1),
        (Metric::Buffers, 0.7, 0.7),
        (Metric::Dirty, 0.02, 0.03),
        (Metric::Writeback, 0.0, 0.001),
        (Metric::DirtyThreshold, 1.8, 1.8),
        (Metric::DirtyBackgroundThreshold, 0.9, 0.9),
        (Metric::Dirtied, 3.0, 3.2),
        (Metric::Written, 3.0, 3.1),
        (Metric::FilePages, 8.8, 8.9),
        (Metric::ReclaimedFile, 1.0, 1.3),
        (Metric::RefaultsFile, 0.5, 0.55),
    ] {
        sample(&mut script, metric, "", first * gib, last * gib);
    }
    sample(&mut script, Metric::MajorFaults, "", 10.0, 130.0);
    script
}

/// Names that somebody chose to break a screen, wherever a view shows one.
fn hostile() -> Script {
    let mut script = scenes::hostile();
    for (index, name) in
        ["\x1b[2J\x1b]0;owned\x07", "two\nlines\r\t", "gpj.\u{202e}exe"].iter().enumerate()
    {
        used(
            &mut script,
            index as u32 + 1,
            name,
            &format!("/srv/{name}/{}", "long/".repeat(60)),
            2_000,
        );
        script.wait((index as u32 + 1, name), WaitClass::Fsync, S, 0, 0);
        let file = script.names.intern(name);
        script.batch.waits.iter_mut().for_each(|wait| wait.file = Some(file));
    }
    script
}

/// The text of a view's first interval, which is all of the script.
fn drawn<P: Pass>(
    script: &Script,
    mut pass: P,
    view: &'static IntervalView<P::Figures>,
    width: usize,
) -> String {
    pass.add(&script.batch, &script.names);
    let figures = pass.finish(&script.environment, &script.names);
    let interval = EndedInterval { number: 0, environment: script.environment.clone(), figures };
    render(view, &interval, &Style { rows: 10, ..Style::plain(width) })
}

/// The text of a view by its name.
fn text(view: &str, script: &Script, width: usize) -> String {
    let summarizer = || Summarizer::new(&script.environment);
    let waits = |by| drawn(script, WaitGroups::new(by), &BLOCKED, width);
    let by = HistogramBy { device: true, flags: true, process: true };
    match view {
        "stat" => drawn(script, summarizer(), &STAT, width),
        "proc" => drawn(script, summarizer(), &PROC, width),
        "cache" => drawn(script, summarizer(), &CACHE, width),
        "stacks" => drawn(script, summarizer(), &STACKS, width),
        "latency" => drawn(script, Histograms::new(by, Stage::D2c), &LATENCY, width),
        "waits" => waits(groups::GroupWaitsBy::Class),
        "waits-process" => waits(groups::GroupWaitsBy::Process),
        "waits-file" => waits(groups::GroupWaitsBy::File),
        "files" => drawn(script, ActivityTally::default(), &FILES, width),
        "snoop" => snoop(script, width),
        "opens" => opened(script, width),
        _ => panic!("no view {view}"),
    }
}

fn snoop(script: &Script, width: usize) -> String {
    let mut lines = Lines::new(Style::plain(width), false, false, &script.environment);
    let mut text = lines.heading();
    for (request, parts) in script.batch.requests_with_parts().take(8) {
        text.push_str(&lines.line(request, parts, &script.names));
    }
    text
}

fn opened(script: &Script, width: usize) -> String {
    let style = Style::plain(width);
    let each = script.batch.opens.iter().map(|open| opens::line(open, &script.names, &style));
    opens::heading(&style) + &each.collect::<String>()
}

const VIEWS: [&str; 11] = [
    "stat",
    "proc",
    "cache",
    "stacks",
    "latency",
    "waits",
    "waits-process",
    "waits-file",
    "files",
    "snoop",
    "opens",
];

#[test]
fn each_view_at_both_widths() {
    let script = busy();
    for view in VIEWS {
        for width in [80, 120] {
            let found = text(view, &script, width);
            fits(view, &found, width);
            compare(&format!("tests/it/screens/views/{view}-{width}.txt"), &found);
        }
    }
}

/// Whether `columns` are in one line of `text` in this order, others between them or not.
fn has_heading(text: &str, columns: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        columns.split(' ').all(|column| words.any(|word| word == column))
    })
}

#[test]
fn the_tools_columns_stand_in_their_order() {
    let script = busy();
    for (view, width, columns) in [
        (
            "stat",
            10_000,
            "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await \
             wareq-sz \
             d/s dkB/s drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
        ),
        ("stat", 80, "Device r/s rkB/s r_await w/s wkB/s w_await %util"),
        ("proc", 120, "UID PID kB_rd/s kB_wr/s kB_ccwr/s %blocked Command"),
        ("proc", 80, "UID PID kB_rd/s kB_wr/s kB_ccwr/s %blocked Command"),
        ("files", 120, "PID COMM READS WRITES R_Kb W_Kb T FILE"),
        ("files", 80, "PID COMM READS WRITES R_Kb W_Kb T FILE"),
        ("snoop", 120, "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms) FILE"),
        ("snoop", 80, "TIME(s) COMM PID DISK T BYTES LAT(ms) FILE"),
        ("opens", 80, "PID COMM FD ERR PATH"),
        ("cache", 80, "cache dirty writeback bg limit limit"),
        ("cache", 80, "dirtied/s written/s added/s removed/s"),
        ("cache", 80, "filled/s ahead/s yield majflt/s"),
        ("latency", 80, "from below count distribution"),
        ("waits", 80, "WAITS time waits longest"),
        ("stacks", 80, "CODE PATHS time %time"),
    ] {
        let found = text(view, &script, width);
        assert!(has_heading(&found, columns), "{view} at {width}: {columns}\n{found}");
    }
}

#[test]
fn snoop_shows_the_time_of_day() {
    let mut script = Script::new(1);
    script.request("sda", Operation::Read).bytes(512).direct(1, 1, 1).add();
    // 2026-11-20 16:32:05.25 UTC when the watch began.
    script.environment.realtime_offset_ns = 1_795_192_325_250_000_000 - START_NS as i64;
    script.environment.utc_offset_s = Some(-12_600);
    let drawn = |width, monotonic| {
        let mut lines = Lines::new(Style::plain(width), false, monotonic, &script.environment);
        let mut all = script.batch.requests_with_parts();
        let (request, parts) = all.next().unwrap();
        (lines.heading() + &lines.line(request, parts, &script.names), lines.times())
    };
    let (text, times) = drawn(140, false);
    assert!(text.starts_with("TIME  ") && text.contains("\n13:02:05.25000"), "{text}");
    assert!(times.is_some_and(|message| message.ends_with("2026-11-20 13:02:05 -03:30")));
    let (text, _) = drawn(80, false);
    assert!(text.contains("\n13:02:05.250 "), "{text}");
    let (text, times) = drawn(80, true);
    assert!(text.starts_with("TIME(s)") && text.contains("\n0.0000") && times.is_none(), "{text}");
}

#[test]
fn snoop_says_what_does_not_fit() {
    let message =
        |width| Lines::new(Style::plain(width), false, true, &Environment::default()).left_out();
    assert!(
        message(80).is_some_and(|message| message.contains("SECTOR") && message.contains("--wide"))
    );
    assert_eq!(message(120), None);
}

#[test]
fn snoop_has_a_reason_in_full_where_it_was_cut() {
    let mut script = Script::new(1);
    let reason = "its files are those of the request below it";
    for operation in [Operation::Read, Operation::Write] {
        let request = script.request("sda", operation).bytes(512).direct(1, 1, 1);
        request.part(Err(reason), 512, Err("")).part(Err("swap"), 0, Err("")).add();
    }
    let drawn = |width| {
        let mut lines = Lines::new(Style::plain(width), false, true, &script.environment);
        let all = script.batch.requests_with_parts();
        let text: String =
            all.map(|(request, parts)| lines.line(request, parts, &script.names)).collect();
        (text, lines.legend())
    };
    let (text, legend) = drawn(140);
    assert!(text.contains(reason) && legend.is_none(), "{text}");
    let (text, legend) = drawn(80);
    assert_eq!(text.matches("(its files ar… +1\n").count(), 2, "{text}");
    assert_eq!(legend, Some(format!("in full: ({reason})")));
}

#[test]
fn hostile_names_break_no_view() {
    let script = hostile();
    for view in VIEWS {
        for width in [80, 120] {
            let found = text(view, &script, width);
            fits(view, &found, width);
            let is_plain = |char: char| char == '\n' || !char.is_control();
            assert!(found.chars().all(is_plain), "{view}: {found:?}");
            assert!(!found.contains(['\u{202e}', '\u{200b}', '\u{feff}']), "{view}: {found:?}");
            assert!(!found.lines().any(|line| line.starts_with("lines")), "{view}: {found}");
        }
    }
}
