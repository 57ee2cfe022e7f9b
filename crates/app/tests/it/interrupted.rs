//! Signals and closed pipes in the middle of long work: nothing half is left, and no noise.

use iowhy_model::recording::RecordingWriter;
use iowhy_model::script::Script;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A recording that takes a few seconds to read on a slow machine.
fn big_recording(folder: &Path) -> PathBuf {
    recording_of(folder, "big", 200)
}

/// A recording of so many times 2,000 requests.
fn recording_of(folder: &Path, name: &str, times: u32) -> PathBuf {
    let mut script = Script::new(60);
    for index in 0..2_000 {
        let file = format!("/srv/data/{index}");
        script.read("sda", 4096).by(7, "reader").file(&file).direct(300, 500, 80_000).add();
    }
    let path = folder.join(name);
    let mut writer = RecordingWriter::create(&path, &script.environment).unwrap();
    for _ in 0..times {
        writer.add(&script.batch, &script.names).unwrap();
        for request in &mut script.batch.requests {
            request.request_id += 1_000_000;
            request.start_ns += 200_000_000;
        }
        for part in &mut script.batch.parts {
            part.request_id += 1_000_000;
        }
    }
    writer.finish(&mut script.environment, &script.names).unwrap();
    path
}

/// blkparse's text of as many requests.
fn big_capture(folder: &Path) -> PathBuf {
    let mut text = String::new();
    for number in 0..60_000_u64 {
        let (second, nanosecond) = (number / 10_000, number % 10_000 * 100_000);
        let events = [("Q", 0), ("G", 10), ("D", 20), ("C", 90_000)];
        for (sequence, (action, later)) in (4 * number + 1..).zip(events) {
            let time = nanosecond + later;
            let sector = number * 8;
            let _ = writeln!(
                text,
                "  8,0    0 {sequence:8} {second:5}.{time:09}  4711  {action}   R {sector} + 8 \
                 [cat]"
            );
        }
    }
    let path = folder.join("big.txt");
    fs::write(&path, text).unwrap();
    path
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Interrupts a command once its output is being written; nothing of it may be left.
fn interrupt(arguments: &[&str], folder: &Path) {
    let before = names(folder);
    let mut child = start(arguments);
    let begun = Instant::now();
    while !names(folder).iter().any(|name| name.contains(".partial-")) {
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended before it wrote");
        assert!(begun.elapsed() < Duration::from_secs(60), "{arguments:?} writes nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{arguments:?}: {message}");
    assert!(message.contains("interrupted"), "{arguments:?}: {message}");
    assert!(!message.contains(['\r', '\u{1b}']), "no progress bar in a pipe: {message:?}");
    assert_eq!(names(folder), before, "{arguments:?}");
}

#[test]
fn an_interrupted_export_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_recording(folder.path());
    let source = source.to_str().unwrap();
    for (name, more) in [
        ("copy", &[][..]),
        ("hidden", &["--redact"]),
        ("table.csv", &["--format", "csv"]),
        ("trace", &["--format", "perfetto"]),
    ] {
        let output = folder.path().join(name);
        let mut arguments = vec!["export", source, "-o", output.to_str().unwrap()];
        arguments.extend(more);
        interrupt(&arguments, folder.path());
    }
}

/// A session that closes sends SIGTERM and SIGHUP together: both ask for one end, in order.
#[test]
fn two_signals_at_a_time_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_recording(folder.path());
    let before = names(folder.path());
    let output = folder.path().join("table.csv");
    let arguments = ["export", source.to_str().unwrap(), "--format", "csv", "-o"];
    let mut child = start(&[&arguments[..], &[output.to_str().unwrap()]].concat());
    let begun = Instant::now();
    while !names(folder.path()).iter().any(|name| name.contains(".partial-")) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote");
        assert!(begun.elapsed() < Duration::from_secs(60), "it writes nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_recording(folder.path());
    for more in [&[][..], &["--format", "csv"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 10; exec \"$0\" \"$@\""]).arg(env!("CARGO_BIN_EXE_iowhy"));
        let output = folder.path().join("output");
        command.arg("export").arg(&source).args(more).arg("-o").arg(&output);
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{more:?}: {said}");
        assert!(said.contains("File too large"), "{more:?}: {said}");
    }
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_capture(folder.path());
    let output = folder.path().join("imported");
    let arguments = ["import", source.to_str().unwrap(), "-o", output.to_str().unwrap()];
    interrupt(&arguments, folder.path());
}

#[test]
fn interrupted_data_files_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_capture(folder.path());
    let output = folder.path().join("blocks");
    interrupt(&["stages", source.to_str().unwrap(), "-B", output.to_str().unwrap()], folder.path());
}

/// Runs the commands once without a signal: all files have their names, and no other file is left.
#[test]
fn whole_data_files_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_capture(folder.path());
    let [files, report] = ["a", "b"].map(|name| folder.path().join(name));
    crate::answer(["stages", "--btt-compat", "-B"].map(Path::new).into_iter().chain([
        files.as_path(),
        Path::new("-o"),
        report.as_path(),
        source.as_path(),
    ]));
    let written = ["a_8,0_c.dat", "a_8,0_r.dat", "b.avg", "b.dat", "big.txt"];
    assert_eq!(names(folder.path()), written);
}

/// A page is written at the end: Ctrl-C while its recording is read leaves none. On a machine that
/// has read it before the signal comes, a recording of twice the size is tried.
#[test]
fn an_interrupted_page_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let mut times = 100;
    loop {
        let source = recording_of(folder.path(), "big", times);
        let before = names(folder.path());
        let output = interrupted_early(&[
            "report",
            source.to_str().unwrap(),
            "--html",
            page.to_str().unwrap(),
        ]);
        let message = String::from_utf8_lossy(&output.stderr);
        if message.contains("was built without") {
            eprintln!("skipped: this build has no page: {message}");
            return;
        }
        if !output.status.success() {
            assert_eq!(names(folder.path()), before, "{message}");
            return;
        }
        fs::remove_file(&page).unwrap();
        fs::remove_dir_all(&source).unwrap();
        times *= 2;
        assert!(times <= 12_800, "it reads {times} times 2,000 requests in {BEGUN_TICKS} ticks");
    }
}

/// Runs a command, and interrupts it as soon as it reads.
fn interrupted_early(arguments: &[&str]) -> Output {
    let mut child = start(arguments);
    while child.try_wait().unwrap().is_none() && cpu_ticks(&child) < BEGUN_TICKS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _may_have_ended = kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT);
    child.wait_with_output().unwrap()
}

/// CPU time, in ticks of 10 ms, after which a report has begun to read, long before it has read a
/// big recording.
const BEGUN_TICKS: u64 = 5;

/// The CPU time that a process has used in its own code, ticks; what is gone has used enough.
fn cpu_ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name in brackets can have spaces and brackets of its own.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(BEGUN_TICKS)
}

/// An output that is not interrupted gets its name, and replaces the old file whole.
#[test]
fn a_whole_export_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let lab = crate::labs().remove(0);
    let output = folder.path().join("table.csv");
    fs::write(&output, "old").unwrap();
    let arguments = ["export", lab.to_str().unwrap(), "--format", "csv", "-o"];
    crate::answer(arguments.into_iter().chain([output.to_str().unwrap()]));
    assert!(fs::read_to_string(&output).unwrap().starts_with("request_id,"));
    assert_eq!(names(folder.path()), ["table.csv"]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let source = big_recording(folder.path());
    let source = source.to_str().unwrap();
    for arguments in [
        &["snoop", source, "--json"][..],
        &["export", source, "--format", "csv"],
        &["report", source, "--json"],
        &["stat", source, "1"],
    ] {
        let mut child = start(arguments);
        let mut line = String::new();
        // Dropped with the pipe once a line was read.
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success() && !line.is_empty(), "{arguments:?}: {status}: {message}");
        assert!(!message.contains("failed"), "{arguments:?}: {message}");
    }
}
