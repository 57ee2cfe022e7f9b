//! Runs the command `iowhy`: with a limit of time and of output, and until it is cancelled.
//!
//! What does not belong here: which command ([`crate::arguments`]).

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Bytes of output that are read; a command that prints more is ended.
pub const MOST_OUTPUT: usize = 1 << 20;
/// Characters of its messages that are passed on.
const MOST_MESSAGE: usize = 2_000;
/// Bytes of messages that are kept.
const MOST_SAID: usize = 1 << 16;
/// The longest wait for a program's messages once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The exit code of a process that did not become the command, as of a shell.
pub const NOT_STARTED: i32 = 127;
const INSTALL: &str = "hint: install iowhy, or name it: --iowhy PATH";

/// The output of a command.
#[derive(Debug)]
pub struct ProgramOutput {
    /// The standard output.
    pub text: String,
    /// Whether it was ended because it printed too much.
    pub cut: bool,
}

/// The program beside this one, else the one in PATH.
pub fn beside() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside =
        own.and_then(|own| Some(own.parent()?.join("iowhy"))).filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from("iowhy"))
}

/// Runs `program` and gives what it printed; an error is what it said, or why it did not end by
/// itself. It is killed when this future is dropped, and the kernel then unloads its BPF programs.
pub async fn run(
    program: &Path,
    arguments: &[OsString],
    most: Duration,
) -> Result<ProgramOutput, String> {
    let mut command = Command::from(iowhy_fs::bound::command(program));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1").kill_on_drop(true);
    let shown = program.display();
    let failed = |cause: &dyn Display| format!("failed to start {shown}: {cause}\n{INSTALL}");
    let mut child = command.spawn().map_err(|cause| failed(&cause))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Read at the same time, to its end: a full pipe would stop the program.
    let saying = tokio::spawn(async move { read(err, MOST_SAID, true).await.0 });
    let timed = tokio::time::timeout(most, async {
        let (text, cut) = read(out, MOST_OUTPUT, false).await;
        if cut {
            // The child may have ended meanwhile, which is as good.
            let _ = child.start_kill();
        }
        let status = child.wait().await;
        // Further messages of a process that the child left behind are not waited for.
        let message = tokio::time::timeout(LAST_WORDS, saying).await;
        (text, cut, message.ok().and_then(Result::ok).unwrap_or_default(), status)
    });
    let Ok((text, cut, message, status)) = timed.await else {
        let seconds = most.as_secs();
        return Err(format!(
            "failed to get an answer within {seconds} s\n\
             hint: narrow it by filters, or watch shorter"
        ));
    };
    let is_success = cut || status.as_ref().is_ok_and(|status| status.success());
    if is_success {
        return Ok(ProgramOutput { text: String::from_utf8_lossy(&text).into_owned(), cut });
    }
    if status.as_ref().is_ok_and(|status| status.code() == Some(NOT_STARTED)) {
        return Err(failed(&String::from_utf8_lossy(&message).trim_end()));
    }
    let status = status.map_or_else(|cause| cause.to_string(), |status| status.to_string());
    let message = String::from_utf8_lossy(&message);
    let message: String = message.chars().take(MOST_MESSAGE).collect();
    Err(format!("{}\n({status})", message.trim_end()))
}

/// Reads at most `most` bytes, and whether there was more; `to_end` reads and drops the rest.
async fn read(from: Option<impl AsyncRead + Unpin>, most: usize, to_end: bool) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let Some(mut from) = from else { return (bytes, false) };
    // After an error the bytes read until then are the answer.
    let _ = (&mut from).take(most as u64 + 1).read_to_end(&mut bytes).await;
    let more = bytes.len() > most;
    bytes.truncate(most);
    if more && to_end {
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    (bytes, more)
}
