//! One command of the built iowhy on one input, and the verdict on it.
//!
//! What does not belong here: the list of commands (see [`crate::commands`]).

use iowhy_labs::error::Context;
use iowhy_labs::{Result, machine};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Memory that a command may take, bytes.
pub const MOST_BYTES: u64 = 512 << 20;
/// CPU time that a command may take; then the kernel ends it.
pub const MOST_CPU: Duration = Duration::from_secs(10);
/// The time that it may take on a busy machine: beyond that it hangs.
const MOST_TIME: Duration = Duration::from_secs(120);
/// The code of a panic.
const PANICKED: i32 = 101;
/// The messages about words that iowhy does not accept: a mistake in the list of commands.
const MISTAKES: [&str; 2] = ["try '--help'", "failed to redact names"];
/// Commands that print the texts of a source unescaped, unless standard output is a terminal.
const DATA: [&str; 2] = ["events", "--folded"];
/// The interval of sampling the command's memory.
const LOOK: Duration = Duration::from_millis(3);
/// Bytes of its output that are examined.
const MOST_OUTPUT: u64 = 64 << 20;
/// Bytes that it may write.
const MOST_WRITTEN: u64 = 1 << 30;

/// The result of an input.
pub struct HostileRun {
    /// The input's number; `None` for one that is kept.
    pub number: Option<u64>,
    /// The kind of the input, and the way in which it was spoiled.
    pub kind: &'static str,
    pub damage: &'static str,
    pub command: &'static str,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The largest memory that was seen, bytes.
    pub bytes: u64,
    pub time: Duration,
    /// The reason why the result is wrong.
    pub fault: Option<String>,
}

/// Puts the input `place` through `words`.
pub fn run(
    binary: &Path,
    place: &Path,
    (kind, damage): (&'static str, &'static str),
    words: &'static str,
) -> Result<HostileRun> {
    let (output, printed) = (place.with_extension("out"), place.with_extension("printed"));
    let mut command = Command::new(binary);
    for word in words.split(' ') {
        let word = word.replace("IN", &place.to_string_lossy());
        command.arg(word.replace("OUT", &output.to_string_lossy()));
    }
    let file = File::create(&printed).context(|| format!("write {}", printed.display()))?;
    let errors = file.try_clone().context(|| "open it again".to_owned())?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.env_remove("RUST_BACKTRACE").current_dir(place.parent().unwrap_or(place));
    let begun = Instant::now();
    let mut child = command.spawn().context(|| format!("run iowhy {words}"))?;
    limit(&child);
    let (status, bytes) = watch(&mut child, begun);
    let time = begun.elapsed();
    let is_data = DATA.iter().any(|word| words.contains(word));
    let fault = fault(status, bytes, time, &printed, is_data);
    for left in [&output, &printed] {
        // Either of them may be a directory, or not exist.
        let _ = fs::remove_file(left);
        let _ = fs::remove_dir_all(left);
    }
    let code = status.and_then(|status| status.code());
    Ok(HostileRun { number: None, kind, damage, command: words, code, bytes, time, fault })
}

/// Limits the resources of the child from now on. Between two samples of its memory it could
/// allocate and free more: so the kernel limits its allocations.
fn limit(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let limits = [
        (Resource::Data, MOST_BYTES),
        (Resource::Core, 0),
        (Resource::Fsize, MOST_WRITTEN),
        (Resource::Cpu, MOST_CPU.as_secs()),
    ];
    for (resource, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        // It fails if the child has ended already.
        let _ = prlimit(pid, resource, limit);
    }
}

/// Waits for its end, or ends it if it exceeds a limit; returns its status and its largest memory.
fn watch(child: &mut Child, begun: Instant) -> (Option<ExitStatus>, u64) {
    let mut most = 0;
    loop {
        most = most.max(machine::memory_of(child.id(), "VmHWM").unwrap_or(0));
        match child.try_wait() {
            Ok(Some(status)) => return (Some(status), most),
            Ok(None) if begun.elapsed() < MOST_TIME && most <= MOST_BYTES => {}
            Ok(None) | Err(_) => {
                // It has ended already, or ends now.
                let _ = child.kill();
                let _ = child.wait();
                return (None, most);
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn fault(
    status: Option<ExitStatus>,
    bytes: u64,
    time: Duration,
    printed: &Path,
    is_data: bool,
) -> Option<String> {
    if bytes > MOST_BYTES {
        return Some(format!("it took {} MiB", bytes >> 20));
    }
    let Some(status) = status else { return Some(format!("not done after {time:?}")) };
    let mut text = Vec::new();
    let read = File::open(printed).and_then(|file| file.take(MOST_OUTPUT).read_to_end(&mut text));
    let said = String::from_utf8_lossy(&text);
    let is_mistaken = MISTAKES.iter().any(|words| said.contains(words));
    if status.signal().is_some() || status.code() == Some(PANICKED) || is_mistaken {
        let last = said.len().saturating_sub(400);
        return Some(format!("{status}: {}", said.get(last..).unwrap_or(&said)));
    }
    if said.contains("panicked at") {
        return Some(format!("a thread panicked: {said}"));
    }
    let is_raw = |byte: &u8| !is_data && byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t');
    match read {
        Ok(_) => text.iter().find(|byte| is_raw(byte)).map(|byte| format!("it printed {byte:#x}")),
        Err(error) => Some(error.to_string()),
    }
}
