//! Without root: each command says which capability is missing and how to grant it, shows
//! unprivileged figures, and works with no more than the capabilities that it names. With root:
//! code that took over a thread of a watch can do no more than the thread needs.

use crate::chains::compiled_once;
use crate::confined::{self, OF_NOBODY};
use crate::links;
use crate::recording::Recording;
use crate::support::{NO_PERMISSION, finish, iowhy, printed, trial, wait_until};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::machine::{self, DiskStats};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, process};
use libtest_mimic::Trial;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

/// What token.c ends with where the kernel has no token.
const NO_TOKEN: i32 = 3;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("privilege::screens_show_counters", screens_show_counters),
        trial("privilege::lines_say_what_is_missing", lines_say_what_is_missing),
        trial("privilege::check_names_each", check_names_each),
        trial("privilege::the_hint_is_enough", the_hint_is_enough),
        trial("privilege::a_token_is_enough", a_token_is_enough),
        trial("privilege::what_is_missing_is_a_limit", what_is_missing_is_a_limit),
        trial("privilege::named_files_need_own_rights", named_files_need_own_rights),
        trial("privilege::code_in_a_recording_is_refused", code_in_a_recording),
        trial("privilege::code_in_a_view_is_refused", code_in_a_view),
        trial("privilege::code_in_top_is_refused", code_in_top),
        trial("privilege::code_in_the_daemon_is_refused", code_in_the_daemon),
    ]
}

fn folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))
        .context(|| "open the folder".to_owned())?;
    Ok(folder)
}

/// `iowhy` with `arguments`, as a user who has these capabilities and no others.
fn as_nobody_with(folder: &Path, names: &[&str], arguments: &[&str]) -> Result<Command> {
    machine::need_root()?;
    // The built program may be in a directory that is not readable for others.
    let program = folder.join("iowhy");
    if !program.exists() {
        fs::copy(iowhy_labs::iowhy::binary()?, &program).context(|| "copy iowhy".to_owned())?;
    }
    let sets = std::iter::once("-all".to_owned());
    let sets: Vec<String> = sets.chain(names.iter().map(|name| format!("+{name}"))).collect();
    let sets = sets.join(",");
    let mut command = Command::new(command::find("setpriv")?);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["bounding-set", "inh-caps", "ambient-caps"].map(|set| format!("--{set}={sets}")));
    command.arg(program).args(arguments).stdin(Stdio::null()).current_dir("/");
    Ok(command)
}

/// `iowhy` with `arguments`, as a user without capabilities.
fn as_nobody(folder: &Path, arguments: &[&str]) -> Result<Command> {
    match machine::need_root() {
        Ok(()) => as_nobody_with(folder, &[], arguments),
        Err(_) => iowhy(arguments),
    }
}

/// A device with a reader.
struct Busy {
    fio: Child,
    device: LoopDevice,
    _scratch: Arc<Scratch>,
}

impl Busy {
    fn begin() -> Result<Busy> {
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 << 20)?;
        let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 4096).direct();
        let job = job.with("rate_iops", "200").with("size", "16m").timed(120);
        let mut command = job.command(&scratch.fresh("fio.json"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let fio = command.spawn().context(|| "start fio".to_owned())?;
        let busy = Busy { fio, device, _scratch: scratch };
        let before = DiskStats::for_device(busy.device.name())?.reads;
        wait_until("reads of fio", || {
            Ok(DiskStats::for_device(busy.device.name())?.reads > before + 50)
        })?;
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        process::end(&mut self.fio);
    }
}

/// Checks that the output names the missing capabilities and the command that grants them.
fn expect_refusal(arguments: &[&str], output: &Output) -> String {
    let text = printed(output);
    assert_eq!(output.status.code(), Some(NO_PERMISSION), "{arguments:?}:\n{text}");
    assert!(text.contains("CAP_BPF") && text.contains("CAP_PERFMON"), "which: {text}");
    assert!(text.contains("sudo setcap cap_bpf,cap_perfmon,"), "how to grant it: {text}");
    assert!(!text.contains("panicked"), "{text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn screens_show_counters() -> Result<()> {
    let folder = folder()?;
    let busy = machine::need_root().is_ok().then(Busy::begin).transpose()?;
    for arguments in [
        &["-t", "1"][..],
        &["stat", "1", "1"],
        &["proc", "1", "1"],
        &["cache", "1", "1"],
        &["latency", "1", "1"],
        &["waits", "1", "1"],
        &["files", "1", "1"],
        &["stacks", "1", "1"],
    ] {
        let output = finish(as_nobody(folder.path(), arguments)?)?;
        let screen = expect_refusal(arguments, &output);
        assert!(screen.contains("the figures are the kernel's counters"), "{screen}");
        assert!(!screen.contains("known cause"), "nothing was judged: {screen}");
        let Some(busy) = &busy else { continue };
        let heading = screen.lines().find(|line| line.starts_with("DEVICES"));
        assert!(heading.is_some_and(|line| line.contains("r_await")), "{arguments:?}: {screen}");
        let row = screen.lines().find(|line| line.starts_with(busy.device.name()));
        let reads = row.and_then(|row| row.split_whitespace().nth(1)?.parse::<f64>().ok());
        assert!(reads.is_some_and(|reads| reads > 20.0), "{arguments:?}: {screen}");
    }
    Ok(())
}

/// For commands that print lines or write files, /proc has no answer.
fn lines_say_what_is_missing() -> Result<()> {
    let folder = folder()?;
    let recording = folder.path().join("recording");
    let recording = recording.to_string_lossy();
    for arguments in [
        &["record", "-t", "1", "-o", &recording][..],
        &["snoop", "-t", "1"],
        &["opens", "-t", "1"],
        &["events", "-t", "1"],
        &["stages", "-t", "1"],
        &["blame", "-t", "1"],
        &["chains", "-t", "1"],
        &["stacks", "--folded", "1", "1"],
        &["stat", "1", "1", "--json"],
        &["--json", "-t", "1"],
    ] {
        let output = finish(as_nobody(folder.path(), arguments)?)?;
        assert_eq!(expect_refusal(arguments, &output), "", "{arguments:?}");
    }
    assert!(!Path::new(&*recording).exists(), "no recording of nothing");
    Ok(())
}

/// The capabilities that the hint of a refused watch grants.
fn granted(folder: &Path) -> Result<Vec<String>> {
    let text = printed(&finish(as_nobody(folder, &["-t", "0.1", "--json"])?)?);
    let list = text.split_once("setcap ").and_then(|(_, rest)| rest.split_once("+ep"));
    let (list, _) = list.unwrap_or_else(|| panic!("no command in: {text}"));
    Ok(list.split(',').map(|name| name.trim_start_matches("cap_").to_owned()).collect())
}

/// `iowhy check`'s rows of missing capabilities: what was found, what is lost; a command grants
/// them.
fn missing(command: Command) -> Result<Vec<(String, String)>> {
    let output = finish(command)?;
    assert!(output.status.success(), "it is no failure: {}", printed(&output));
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).context(|| "read its JSON".to_owned())?;
    let rows = json["rows"].as_array().cloned().unwrap_or_default();
    let rows = rows.iter().filter(|row| row["what"] == "capability" && row["there"] == "no");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    assert!(text(&json["grant"]).starts_with("sudo chgrp adm "), "{json:#}");
    Ok(rows.map(|row| (text(&row["found"]), text(&row["lost"]))).collect())
}

/// The capabilities of the hint and of `check` are the same, and each has its loss.
fn check_names_each() -> Result<()> {
    let folder = folder()?;
    let none = missing(as_nobody(folder.path(), &["check", "--json"])?)?;
    machine::need_root()?;
    let names = granted(folder.path())?;
    assert_eq!(none.len(), names.len(), "{none:?}");
    for left_out in &names {
        let others: Vec<&str> =
            names.iter().filter(|name| *name != left_out).map(String::as_str).collect();
        let rows = missing(as_nobody_with(folder.path(), &others, &["check", "--json"])?)?;
        let [(found, lost)] = rows.as_slice() else { panic!("without {left_out}: {rows:?}") };
        assert_eq!(*found, format!("no CAP_{}", left_out.to_uppercase()));
        assert!(lost.len() > 10, "{lost}");
    }
    Ok(())
}

/// A watch as a user with these capabilities only.
fn record_with(folder: &Path, names: &[&str]) -> Result<Recording> {
    let output = folder.join("recording");
    let path = output.to_string_lossy().into_owned();
    let record = as_nobody_with(folder, names, &["record", "-t", "1", "-o", &path])?;
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    Recording::open(&output)
}

fn the_hint_is_enough() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    let names = granted(folder.path())?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let recording = record_with(folder.path(), &names)?;
    let limits = &recording.environment.limits;
    assert!(!limits.iter().any(|limit| limit.contains("CAP_")), "{limits:?}");
    Ok(())
}

/// A user without any capability of the machine watches it from a user namespace to which root
/// delegated what docs/kernels.md lists (BPF token, 6.9).
fn a_token_is_enough() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    let document = include_str!("../../../../docs/kernels.md");
    let delegated = document.lines().filter(|line| line.starts_with("delegate_"));
    let delegated: Vec<&str> = delegated.collect();
    assert_eq!(delegated.len(), 4, "{delegated:?}");
    let program = folder.path().join("iowhy");
    fs::copy(iowhy_labs::iowhy::binary()?, &program).context(|| "copy iowhy".to_owned())?;
    let within = |words: &[&str]| -> Result<Output> {
        let mut token = Command::new(compiled_once("token.c", "token")?);
        token.arg("65534").args(&delegated).arg("--").arg(&program).args(words);
        finish(token)
    };
    let place = folder.path().join("recording");
    let path = place.to_string_lossy().into_owned();
    let output = within(&["record", "-t", "1", "-o", &path])?;
    let said = printed(&output);
    if output.status.code() == Some(NO_TOKEN) {
        return Err(LabError::unsupported("BPF tokens", "run this on Linux 6.9 or newer"));
    }
    assert!(output.status.success(), "{said}");
    let recording = Recording::open(&place)?;
    assert!(recording.environment.losses.requests() == 0 && !recording.processes.is_empty());
    let limits = &recording.environment.limits;
    assert!(limits.iter().any(|limit| limit.contains("user namespace")), "{limits:?}");
    let check = printed(&within(&["check"])?);
    assert!(check.contains("in a user namespace"), "{check}");
    Ok(())
}

fn what_is_missing_is_a_limit() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    let names = granted(folder.path())?;
    let others = names.iter().map(String::as_str).filter(|name| *name != "sys_ptrace");
    let recording = record_with(folder.path(), &others.collect::<Vec<_>>())?;
    let limits = &recording.environment.limits;
    assert!(limits.iter().any(|limit| limit.contains("CAP_SYS_PTRACE")), "{limits:?}");
    Ok(())
}

/// Capabilities that pass over permissions do not open the files that their user names.
fn named_files_need_own_rights() -> Result<()> {
    machine::need_root()?;
    let folder = folder()?;
    let (input, locked) = (folder.path().join("input"), folder.path().join("locked"));
    links::record(&input)?;
    fs::create_dir(&locked).context(|| "make a directory".to_owned())?;
    let output = locked.join("out").to_string_lossy().into_owned();
    let input = input.to_string_lossy().into_owned();
    let over = ["dac_override", "dac_read_search", "fowner", "sys_ptrace", "checkpoint_restore"];
    let with_rights = |words: &[&str]| finish(as_nobody_with(folder.path(), &over, words)?);
    let report = with_rights(&["report", &input])?;
    assert!(!report.status.success() && printed(&report).contains("ermission"), "{report:?}");
    command::run("chmod", ["-R", "a+rX", &input])?;
    let report = with_rights(&["report", &input])?;
    assert!(report.status.success(), "{}", printed(&report));
    // A directory that everybody may read, in one that nobody else may enter: it is open here.
    let hidden = locked.join("input");
    command::run("cp", ["-r", &input, &hidden.to_string_lossy()])?;
    command::run("chmod", ["700", &locked.to_string_lossy()])?;
    let opened = fs::File::open(&hidden).context(|| "open a directory".to_owned())?;
    let opened = format!("/proc/{}/fd/{}", std::process::id(), opened.as_raw_fd());
    for words in [["report", &opened], ["events", &opened], ["chains", &opened]] {
        let read = with_rights(&words)?;
        assert!(!read.status.success() && printed(&read).contains("ermission"), "{read:?}");
    }
    let device = with_rights(&["locate", &opened])?;
    assert!(!device.status.success() && printed(&device).contains("ermission"), "{device:?}");
    let export = with_rights(&["export", &input, "--format", "csv", "-o", &output])?;
    assert!(!export.status.success() && printed(&export).contains("ermission"), "{export:?}");
    assert!(!Path::new(&output).exists());
    Ok(())
}

/// Returns the actions that a program could do that took over the thread `tid` of another: it opens
/// a file to write, starts a program, loads one into the kernel and makes a map for it, connects,
/// traces another process. The thread goes on afterwards.
fn taken_over(tid: u32, scratch: &Scratch) -> Result<Vec<String>> {
    if cfg!(not(target_arch = "x86_64")) {
        let hint = "run this on x86_64";
        return Err(LabError::unsupported("registers of x86_64 to take a thread over", hint));
    }
    let victim = scratch.path().join("victim");
    if !victim.exists() {
        fs::write(&victim, "precious").context(|| "write a file".to_owned())?;
    }
    let mut other = Command::new("sleep");
    let mut other = other.arg("60").spawn().context(|| "start a program".to_owned())?;
    let mut inject = Command::new(compiled_once("inject.c", "inject")?);
    inject.arg(tid.to_string()).arg(&victim).arg(other.id().to_string());
    let said = command::output_of(inject);
    process::end(&mut other);
    let said = said?;
    let words = said.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
    let words: Vec<String> = words.collect();
    assert_eq!(words.len(), 6, "{words:?}");
    Ok(words
        .into_iter()
        .filter_map(|word| Some(word.strip_suffix(" possible")?.to_owned()))
        .collect())
}

/// Checks that an unlimited program of root's can do all of it, so that a refusal means something.
fn expect_that_all_is_possible(scratch: &Scratch) -> Result<()> {
    let mut free = Command::new("sleep");
    let mut free = free.arg("60").spawn().context(|| "start a program".to_owned())?;
    let possible = taken_over(free.id(), scratch);
    process::end(&mut free);
    assert_eq!(possible?, ["write", "start", "load", "map", "connect", "trace"]);
    Ok(())
}

/// What each thread of the process `pid` can do, by its name, but for what `may` says.
fn expect_refusals(
    pid: u32,
    scratch: &Scratch,
    may: fn(&str) -> &'static [&'static str],
) -> Result<()> {
    let threads = confined::limited(pid, OF_NOBODY);
    let mut tried = 0;
    for thread in &threads {
        // Threads and processes that read for a moment end in between.
        let is_gone = || !Path::new(&format!("/proc/{}", thread.tid)).exists();
        if is_gone() {
            continue;
        }
        let possible = match taken_over(thread.tid, scratch) {
            Err(_) if is_gone() => continue,
            possible => possible?,
        };
        let more: Vec<&String> =
            possible.iter().filter(|what| !may(&thread.name).contains(&what.as_str())).collect();
        assert!(more.is_empty(), "{} can {more:?}", thread.name);
        tried += 1;
    }
    assert!(tried >= 3, "only {tried} threads");
    Ok(())
}

/// Returns the actions of a watch's thread: readers may start programs, which have its limits;
/// writers may not.
fn of_watch(thread: &str) -> &'static [&'static str] {
    if ["writer", "save"].contains(&thread) { &[] } else { &["start"] }
}

fn code_in_a_recording() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    expect_that_all_is_possible(&scratch)?;
    let place = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", "120", "-o"])?;
    record.arg(&place).stdout(Stdio::null()).stderr(Stdio::null());
    let child = record.spawn().context(|| "start iowhy".to_owned())?;
    expect_refusals(child.id(), &scratch, of_watch)?;
    confined::end(child)?;
    let victim = fs::read(scratch.path().join("victim")).context(|| "read it".to_owned())?;
    assert_eq!(victim, b"precious");
    Recording::open(&place).map(drop)
}

fn code_in_a_view() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let mut stat = iowhy(["stat", "1", "120"])?;
    stat.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = stat.spawn().context(|| "start iowhy".to_owned())?;
    expect_refusals(child.id(), &scratch, of_watch)?;
    process::end(&mut child);
    Ok(())
}

fn code_in_top() -> Result<()> {
    let scratch = Scratch::new()?;
    // The file that it tries to write is not below the directory that it may save into.
    let (terminal, _folder) = confined::started_top(&scratch)?;
    expect_refusals(terminal.pid()?, &scratch, of_watch)
}

/// Its watch is renewed: the thread that watches loads programs.
fn code_in_the_daemon() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let mut daemon = iowhy(["daemon", "--state"])?;
    daemon.arg(scratch.fresh("state")).arg("--runtime").arg(scratch.fresh("runtime"));
    daemon.stdout(Stdio::null()).stderr(Stdio::null());
    let child = daemon.spawn().context(|| "start the daemon".to_owned())?;
    expect_refusals(child.id(), &scratch, |thread| match thread {
        "writer" | "saver" | "control" => &[],
        _ => &["start", "load", "map"],
    })?;
    confined::end(child)
}
