//! One command of iowhy on one input, and the verdict on it.
//!
//! What does not belong here: the input.

use crate::error::Context;
use crate::{Result, machine};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Memory that a command may take, bytes.
pub const MOST_BYTES: u64 = 512 << 20;
/// How long it may take.
pub const MOST_TIME: Duration = Duration::from_secs(10);
/// The code of a panic.
const PANICKED: i32 = 101;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(4);
/// Bytes of its output that are examined.
const MOST_OUTPUT: u64 = 64 << 20;

/// Every command that reads a recording; `IN` is the recording, `OUT` a place for an output.
pub const COMMANDS: &[&str] = &[
    "report IN",
    "report IN --full",
    "report IN --json",
    "report IN --json=brief",
    "report IN --redact",
    "report IN --html OUT",
    "report IN --share OUT",
    "stat IN 1",
    "stat IN 0.1 --redact",
    "proc IN 1",
    "cache IN 1",
    "latency IN 1",
    "waits IN 1",
    "files IN 1",
    "stacks IN 1",
    "stacks IN --folded",
    "blame IN",
    "chains IN",
    "stages IN",
    "snoop IN",
    "events IN",
    "opens IN",
    "diff IN IN",
    "diff IN IN --json",
    "reproduce IN -o OUT",
    "top IN",
    "import IN -o OUT",
    "export IN --format csv -o OUT",
    "export IN --format perfetto -o OUT",
    "export IN --format pprof -o OUT",
    "export IN --format collapsed",
    "export IN --format recording --redact -o OUT",
];

/// What became of an input.
pub struct HostileRun {
    /// The input's number.
    pub number: u64,
    /// The kind of its damage.
    pub kind: &'static str,
    /// The command.
    pub command: &'static str,
    /// The command's exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The most memory that was seen, bytes.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
    /// Why it may not be so.
    pub fault: Option<String>,
}

/// Puts the input `place` through the command of that number.
///
/// # Errors
/// The command cannot be started.
pub fn run(binary: &Path, number: u64, kind: &'static str, place: &Path) -> Result<HostileRun> {
    let count = COMMANDS.len() as u64;
    let words = COMMANDS.get((number % count) as usize).copied().unwrap_or_default();
    let beside = |name: &str| place.with_extension(name);
    let (output, printed) = (beside("out"), beside("printed"));
    let mut command = Command::new(binary);
    for word in words.split(' ') {
        match word {
            "IN" => command.arg(place),
            "OUT" => command.arg(&output),
            word => command.arg(word),
        };
    }
    let file = File::create(&printed).context(|| format!("write {}", printed.display()))?;
    let errors = file.try_clone().context(|| "open it again".to_owned())?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    // What a test of panics sets would hide none, but take long.
    command.env_remove("RUST_BACKTRACE");
    let begun = Instant::now();
    let mut child = command.spawn().context(|| format!("run iowhy {words}"))?;
    let (status, bytes) = watch(&mut child, begun);
    let time = begun.elapsed();
    let fault = fault(status, bytes, time, &printed);
    for left in [&output, &printed] {
        // One of them may be a directory, or not be there.
        let _ = std::fs::remove_file(left);
        let _ = std::fs::remove_dir_all(left);
    }
    let code = status.and_then(|status| status.code());
    Ok(HostileRun { number, kind, command: words, code, bytes, time, fault })
}

/// Waits for its end, or ends it where it takes too much; its most memory.
fn watch(child: &mut Child, begun: Instant) -> (Option<ExitStatus>, u64) {
    let mut most = 0;
    loop {
        most = most.max(machine::memory_of(child.id(), "VmHWM").unwrap_or(0));
        match child.try_wait() {
            Ok(Some(status)) => return (Some(status), most),
            Ok(None) if begun.elapsed() < MOST_TIME && most < 2 * MOST_BYTES => {}
            Ok(None) | Err(_) => {
                // It has ended already, or does now.
                let _ = child.kill();
                let _ = child.wait();
                return (None, most);
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn fault(status: Option<ExitStatus>, bytes: u64, time: Duration, printed: &Path) -> Option<String> {
    if bytes > MOST_BYTES {
        return Some(format!("it took {} MiB", bytes >> 20));
    }
    let Some(status) = status else { return Some(format!("not done after {time:?}")) };
    if status.signal().is_some() || status.code() == Some(PANICKED) {
        return Some(status.to_string());
    }
    let mut text = Vec::new();
    let read = File::open(printed).and_then(|file| file.take(MOST_OUTPUT).read_to_end(&mut text));
    let is_raw = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t');
    match read {
        Ok(_) if text.windows(9).any(|it| it == b"panicked ") => {
            Some("a thread panicked".to_owned())
        }
        Ok(_) => text.iter().find(|byte| is_raw(byte)).map(|byte| format!("it printed {byte:#x}")),
        Err(error) => Some(error.to_string()),
    }
}
