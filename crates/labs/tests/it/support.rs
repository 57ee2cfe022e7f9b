//! The run of a test: skips, the binary under test, one watch.

use crate::recording::Recording;
use iowhy_labs::devices::BlockDevice;
use iowhy_labs::error::Context;
use iowhy_labs::machine::{self, DiskStats};
use iowhy_labs::{LabError, Result, command, iowhy};
use libtest_mimic::{Completion, Failed, Trial};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The exit code of a missing privilege.
pub const NO_PERMISSION: i32 = 77;

/// Held by every test while it runs: shared, or by one that runs alone.
static MACHINE: RwLock<()> = RwLock::new(());

/// The panic of a test whose watch lost more than a few requests.
pub struct LostTooMany(pub String);

/// A test of times, which other tests would disturb: it runs alone.
pub fn trial_alone(
    name: impl Into<String>,
    test: impl Fn() -> Result<()> + Send + 'static,
) -> Trial {
    unlocked(name.into(), move |name| {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        run(name, test)
    })
}

/// A test. It is skipped, with the reason, if the machine cannot run it. Under CI everything that
/// the pipeline can provide (root, BPF, programs) is required.
pub fn trial(name: impl Into<String>, test: impl Fn() -> Result<()> + Send + 'static) -> Trial {
    unlocked(name.into(), move |name| {
        let _beside_others = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        run(name, test)
    })
}

fn unlocked(name: String, test: impl FnOnce(&str) -> Result<()> + Send + 'static) -> Trial {
    Trial::ignorable_test(name.clone(), move || match test(&name) {
        Ok(()) => Ok(Completion::Completed),
        Err(LabError::Unsupported { what, .. }) => {
            Ok(Completion::ignored_with(format!("missing: {what}")))
        }
        Err(LabError::Missing { what, .. }) if std::env::var_os("CI").is_none() => {
            Ok(Completion::ignored_with(format!("missing: {what}")))
        }
        Err(error) => Err(Failed::from(error.to_string())),
    })
}

/// Runs a test. The requests that a kernel hides depend on the machine's other load
/// (docs/architecture.md, known limits): after a watch that lost too many, the test runs once more,
/// and says so. A defect loses them again.
#[allow(clippy::print_stderr, reason = "a test's second attempt")]
fn run(name: &str, test: impl Fn() -> Result<()>) -> Result<()> {
    let attempt = catch_unwind(AssertUnwindSafe(|| run_once(name, &test)));
    let payload = match attempt {
        Ok(result) => return result,
        Err(payload) => payload,
    };
    let Some(LostTooMany(what)) = payload.downcast_ref() else { resume_unwind(payload) };
    assert!(!is_guest(), "{what}");
    eprintln!("{name}: once more, because the watch lost too many requests: {what}");
    match catch_unwind(AssertUnwindSafe(|| run_once(name, &test))) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<LostTooMany>() {
            Ok(again) => panic!("twice: {}", again.0),
            Err(other) => resume_unwind(other),
        },
    }
}

/// One attempt; a guest prints at once how it ended. Failures are listed only after the last test,
/// and a guest may be ended before. A panic prints its message, but not which test it is.
fn run_once(name: &str, test: impl Fn() -> Result<()>) -> Result<()> {
    let ended = Ended { name, begun: Instant::now() };
    let result = test();
    if let Err(error) = &result {
        ended.report(&format!("gave an error: {error}"));
    }
    result
}

/// Reports that a test has ended when this is dropped.
struct Ended<'a> {
    name: &'a str,
    begun: Instant,
}

impl Ended<'_> {
    #[allow(clippy::print_stderr, reason = "state of a test whose guest is ended")]
    fn report(&self, what: &str) {
        if is_guest() {
            let seconds = self.begun.elapsed().as_secs_f64();
            eprintln!("{} after {seconds:.1} s: {what}", self.name);
        }
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.report(if std::thread::panicking() { "it panicked" } else { "it has ended" });
    }
}

/// Whether these tests run in a guest that tests have started.
pub fn is_guest() -> bool {
    std::env::var_os("IOWHY_GUEST").is_some()
}

/// Whether the kernel has it as a module and does not describe its types, as before 5.11.
pub fn is_module_without_types(name: &str) -> bool {
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let is_module = modules.lines().any(|line| line.split(' ').next() == Some(name));
    is_module && !Path::new("/sys/kernel/btf").join(name).exists()
}

/// Returns this crate's own program, which has the workloads.
pub fn labs_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_iowhy-labs"))
}

/// The time after which a waiting test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done` returns true; `what` names it if it does not happen.
pub fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !done()? {
        if start.elapsed() > PATIENCE {
            return Err(LabError::failed(format!("see {what}"), format!("waited {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// `iowhy` with `arguments`.
pub fn iowhy<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Command> {
    let mut command = Command::new(iowhy::binary()?);
    let arguments: Vec<_> =
        arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
    let (name, rest) = arguments.split_at(arguments.len().min(1));
    command.args(name);
    // Tests count: nothing may be left out to keep to a budget, unless the test says so.
    if name == ["record"] && !rest.iter().any(|argument| argument == "--budget") {
        command.arg("--every");
    }
    command.args(rest).stdin(Stdio::null()).env_remove("NO_COLOR");
    // Files that it writes by default are not written into the repository.
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    Ok(command)
}

/// Runs a command to its end, with any exit code.
pub fn finish(mut command: Command) -> Result<Output> {
    command.output().context(|| format!("run {}", command::shown(&command)))
}

/// Returns its standard output and error.
pub fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Returns a text without the ends of its lines: screens are folded.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks a failing run: the exit code is not 0, nothing panicked, and there is one clear message.
pub fn refused(command: Command) -> Result<(i32, String)> {
    let shown = command::shown(&command);
    let output = finish(command)?;
    let text = printed(&output);
    assert!(!text.contains("panicked"), "{shown} panicked:\n{text}");
    assert!(text.contains("failed to "), "{shown} does not say what failed:\n{text}");
    let code = output.status.code();
    assert!(code.is_some_and(|code| code != 0), "{shown} ended with {}:\n{text}", output.status);
    Ok((code.unwrap_or_default(), text))
}

/// Runs "$@" between two reads of the device's counters.
pub const COUNTED: &str = r#"stat=$1 notes=$2; shift 2
cat "$stat" >"$notes.before"; "$@"; status=$?; cat "$stat" >"$notes.after"; exit $status"#;

/// Watches `device` while `workload` runs, and reads the recording. Checks the invariants of every
/// watch: the device's own counters, the stages, the parts.
pub fn watch(device: &dyn BlockDevice, output: &Path, workload: &Command) -> Result<Recording> {
    machine::need_bpf()?;
    let before = DiskStats::for_device(device.name())?;
    let mut record = iowhy(["record", "-d", device.name(), "-o"])?;
    record.arg(output).args(["--", "/bin/sh", "-c", COUNTED, "sh"]);
    record.arg(format!("/sys/block/{}/stat", device.name())).arg(output.with_extension("stat"));
    record.arg(workload.get_program()).args(workload.get_args());
    let shown = command::shown(&record);
    let result = finish(record)?;
    let after = DiskStats::for_device(device.name())?;
    if result.status.code() == Some(NO_PERMISSION) {
        return Err(LabError::missing("BPF", printed(&result)));
    }
    assert!(result.status.success(), "{shown} ended with {}:\n{}", result.status, printed(&result));
    let noted = |name: &str| DiskStats::read(&output.with_extension(format!("stat.{name}")));
    let recording = Recording::open(output)?;
    // A sync of the whole machine may come just before or after the watch: the recorded figures lie
    // between the counts within it and around it.
    let (within, around) = (noted("after")?.since(noted("before")?), after.since(before));
    recording.check(device.name(), within, around);
    Ok(recording)
}
