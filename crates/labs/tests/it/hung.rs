//! A disk that hangs: requests in flight before the watch are found.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice, SilentServer,
};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, machine, process};
use iowhy_model::{Operation, Request, Status};
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const BYTES: u64 = 64 << 10;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("hung::before_and_after_the_watch", never_ends),
        trial("hung::before_the_watch_only", ends_meanwhile),
        trial("hung::polls_with_a_time_limit", polling),
        trial("hung::a_program_whose_file_never_answers", silent_program),
        trial("hung::a_perf_map_that_never_answers", silent_map),
        trial("hung::a_held_file_whose_name_is_never_answered", silent_held),
    ]
}

/// A loop device whose file lies on a file system that can be frozen.
struct FrozenLoop {
    // Dropped in this order.
    upper: LoopDevice,
    lower: LabFileSystem,
    scratch: Arc<Scratch>,
}

impl FrozenLoop {
    fn new() -> Result<FrozenLoop> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
        let lower = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
        let upper = LoopDevice::inside_as(Backing::File, &scratch, lower.path(), 32 * MIB)?;
        Ok(FrozenLoop { upper, lower, scratch })
    }

    /// One direct write to the upper device.
    fn write(&self) -> Result<Child> {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "count=1", "oflag=direct", &format!("bs={BYTES}")]);
        dd.arg(format!("of={}", self.upper.path().display())).stderr(Stdio::null());
        dd.spawn().context(|| "start dd".to_owned())
    }

    /// A watch that has begun: then its directory exists.
    fn watch(&self, seconds: &str) -> Result<Child> {
        let mut record = iowhy(["record", "-d", self.upper.name(), "-t", seconds, "-o"])?;
        record.arg(self.scratch.path().join("watched"));
        record.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut watch = record.spawn().context(|| "start iowhy".to_owned())?;
        let output = self.scratch.path().join("watched");
        let ended = |watch: &mut Child| watch.try_wait().is_ok_and(|status| status.is_some());
        while !output.exists() && !ended(&mut watch) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(watch)
    }

    fn recording(&self, watch: Child) -> Result<Recording> {
        let result = watch.wait_with_output().context(|| "wait for iowhy".to_owned())?;
        assert!(result.status.success(), "{}", printed(&result));
        Recording::open(&self.scratch.path().join("watched"))
    }

    /// Returns the recording of a watch that is interrupted now.
    fn interrupted(&self, watch: Child) -> Result<Recording> {
        process::signal(&watch, Signal::INT);
        self.recording(watch)
    }

    /// iowhy's report of the recording.
    fn report(&self) -> Result<String> {
        let mut report = iowhy(["report"])?;
        report.arg(self.scratch.path().join("watched"));
        Ok(printed(&finish(report)?))
    }
}

/// Seconds after which a watch ends that the test interrupts earlier: an emulated machine is slow.
const AT_MOST_WATCHED: &str = "60";

fn the_write(recording: &Recording) -> &Request {
    let writes = recording.requests.iter().filter(|request| request.operation == Operation::Write);
    let writes: Vec<_> = writes.collect();
    assert_eq!(writes.len(), 1, "{}", recording.overview());
    assert_eq!(writes[0].bytes, BYTES, "{:?}", writes[0]);
    writes[0]
}

fn never_ends() -> Result<()> {
    let stage = FrozenLoop::new()?;
    let frozen = stage.lower.freeze()?;
    let mut dd = stage.write()?;
    std::thread::sleep(Duration::from_secs(1));
    let recording = stage.recording(stage.watch("2")?)?;
    let printed = stage.report()?;
    drop(frozen);
    process::wait_or_kill(&mut dd, Duration::from_secs(10));
    let write = the_write(&recording);
    assert_eq!(write.status, Status::InFlight, "{write:?}");
    assert_eq!(write.q2c_ns, None, "{write:?}");
    let waited = recording.environment.end_ns - write.start_ns;
    assert!(waited > 2_900_000_000, "begun {waited} ns before the end, {printed}");
    assert!(printed.contains(&format!("{} stalls", stage.upper.name())), "{printed}");
    Ok(())
}

fn ends_meanwhile() -> Result<()> {
    let stage = FrozenLoop::new()?;
    let frozen = stage.lower.freeze()?;
    let mut dd = stage.write()?;
    std::thread::sleep(Duration::from_secs(1));
    let watch = stage.watch(AT_MOST_WATCHED)?;
    std::thread::sleep(Duration::from_secs(2));
    drop(frozen);
    process::wait_or_kill(&mut dd, Duration::from_secs(10));
    let recording = stage.interrupted(watch)?;
    let write = the_write(&recording);
    assert_eq!(write.status, Status::BegunBefore, "{write:?}");
    assert!(write.q2c_ns.is_some_and(|waited| waited > 2_900_000_000), "{write:?}");
    Ok(())
}

/// A database asks again and again, and each time the limit ends the wait before its I/O does.
const POLLS: &str = r#"
my ($file) = @ARGV;
use constant { SETUP => 206, SUBMIT => 209, GETEVENTS => 208, DIRECT => 040002 };
sysopen(my $handle, $file, DIRECT) or die "open $file: $!\n";
my $context = pack("Q", 0);
syscall(SETUP, 8, $context) == 0 or die "io_setup: $!\n";
my $address = unpack("Q", $context);
my $bytes = 65536;
my $room = "\0" x (2 * $bytes);
my $at = unpack("Q", pack("P", $room));
my $aligned = ($at + $bytes - 1) & ~($bytes - 1);
my @fields = (0, 0, 0, 1, 0, fileno($handle), $aligned, $bytes, 0, 0, 0, 0);
my $control = pack("Q l l S s l Q Q q Q L L", @fields);
my $list = pack("P", $control);
syscall(SUBMIT, $address, 1, $list) == 1 or die "io_submit: $!\n";
syswrite(STDOUT, "submitted\n");
my $events = "\0" x 256;
my $limit = pack("q q", 0, 50_000_000);
for (;;) {
  my $done = syscall(GETEVENTS, $address, 1, 8, $events, $limit);
  last if $done != 0;
}
"#;

/// Each wait ends without I/O; whether they were for I/O shows when that ends.
fn polling() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(LabError::unsupported("x86-64", "the test has its numbers of system calls"));
    }
    let stage = FrozenLoop::new()?;
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-e", POLLS]).arg(stage.upper.path()).stdout(Stdio::piped());
    let frozen = stage.lower.freeze()?;
    let watch = stage.watch(AT_MOST_WATCHED)?;
    let mut perl = perl.spawn().context(|| "start perl".to_owned())?;
    let mut printed = String::new();
    let output = perl.stdout.take().expect("its output is piped");
    let read = BufReader::new(output).read_line(&mut printed);
    std::thread::sleep(Duration::from_secs(1));
    drop(frozen);
    process::wait_or_kill(&mut perl, Duration::from_secs(10));
    let recording = stage.interrupted(watch)?;
    assert!(read.is_ok() && printed == "submitted\n", "perl said {printed:?}");
    let own = recording.waits.iter().filter(|wait| recording.text(wait.process) == "perl");
    let own: Vec<_> = own.collect();
    let at_device: u64 = own.iter().map(|wait| wait.device_ns).sum();
    assert!(own.len() > 10, "{own:?}\n{}", recording.overview());
    assert!(at_device > 800_000_000, "{at_device} ns: {own:?}\n{}", recording.overview());
    Ok(())
}

/// The time that a watch of two seconds takes at most, on a machine that is busy.
const AT_MOST: Duration = Duration::from_secs(20);

/// A process that is always killed.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Builds the program that reads a device, whose every function has a name. Each test builds its
/// own: a file that another one is writing cannot be run.
fn reads(scratch: &Scratch) -> Result<PathBuf> {
    let program = scratch.fresh("hung-reads");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/programs/reads.c");
    let mut gcc = Command::new(command::find("gcc")?);
    gcc.args(["-static", "-O1", "-fno-omit-frame-pointer", "-o"]).arg(&program).arg(source);
    command::output_of(gcc)?;
    Ok(program)
}

/// Checks a watch while `program` reads a device and `silent` stops answering: it ends in time and
/// reports the missing data.
fn expect_end(mut program: Command, silent: &SilentServer, scratch: &Scratch) -> Result<()> {
    let mut program = Killed(program.spawn().context(|| "start the program".to_owned())?);
    std::thread::sleep(Duration::from_millis(500));
    assert!(program.0.try_wait().is_ok_and(|ended| ended.is_none()), "the program has ended");
    silent.silence();
    let output = scratch.path().join("watched");
    let mut record = iowhy(["record", "-t", "2", "-o"])?;
    record.arg(&output).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut watch = Killed(record.spawn().context(|| "start iowhy".to_owned())?);
    while watch.0.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < AT_MOST {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (took, asked) = (begun.elapsed(), silent.waiting());
    silent.speak();
    assert!(took < AT_MOST, "it did not end");
    assert!(asked > 0, "nobody read what never answers");
    let recording = Recording::open(&output)?;
    let losses = &recording.environment.losses.items;
    assert!(losses.iter().any(|loss| loss.place == "unread"), "{losses:?}");
    assert!(losses.iter().any(|loss| loss.place == "readers"), "{losses:?}");
    let reasons = recording.stacks.iter().map(|stack| recording.text(stack.reason));
    let late = reasons.filter(|reason| reason.contains("could not be read in time")).count();
    assert_eq!(late, 1, "{}", recording.overview());
    let own = recording.requests.iter();
    let own = own.filter(|request| request.pid == Some(program.0.id())).count();
    assert!(own > 100, "{own} requests: {}", recording.overview());
    Ok(())
}

fn silent_program() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let bytes = std::fs::read(reads(&scratch)?).context(|| "read the program".to_owned())?;
    let silent = SilentServer::new(&scratch, bytes)?;
    let mut program = Command::new(silent.path().join("reads"));
    program.arg(disk.path());
    expect_end(program, &silent, &scratch)
}

/// In the program's own view of the file system, `/tmp` is a file system that never answers.
fn silent_map() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(LabError::unsupported("x86-64", "the test has its machine code"));
    }
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let silent = SilentServer::new(&scratch, b"1000 10 void A.b()\n".to_vec())?;
    let mut program = Command::new(command::find("unshare")?);
    program.args(["--mount", "sh", "-c", r#"mount --bind "$0" /tmp && exec "$@""#]);
    program.arg(silent.path()).arg(reads(&scratch)?).arg(disk.path()).arg("written");
    expect_end(program, &silent, &scratch)
}

/// Whether a file with a deleted file's suffix exists, only its silent file system knows; files
/// that others hold are still reported.
fn silent_held() -> Result<()> {
    let scratch = Scratch::new()?;
    let silent = SilentServer::new(&scratch, vec![0; 4096])?;
    let (called, other) = (silent.path().join("x (deleted)"), scratch.fresh("other"));
    std::fs::write(&other, "x").context(|| "make a file".to_owned())?;
    let holder = |file: &Path| -> Result<Killed> {
        let file = std::fs::File::open(file).context(|| format!("open {}", file.display()))?;
        let mut sleep = Command::new("sleep");
        let holder = sleep.arg("1000").stdin(file).stdout(Stdio::null()).spawn();
        Ok(Killed(holder.context(|| "start sleep".to_owned())?))
    };
    let (stuck, free) = (holder(&called)?, holder(&other)?);
    silent.silence();
    let mut held = iowhy(["opens", "--held", "--json"])?;
    for process in [&stuck, &free] {
        held.args(["-p", &process.0.id().to_string()]);
    }
    held.stdout(Stdio::piped()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut held = Killed(held.spawn().context(|| "start iowhy".to_owned())?);
    while held.0.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < AT_MOST {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (took, asked) = (begun.elapsed(), silent.waiting());
    silent.speak();
    assert!(took < AT_MOST, "it did not end");
    assert!(asked > 0, "nobody asked who never answers");
    let mut answer = String::new();
    let output = held.0.stdout.as_mut().expect("its output is piped");
    output.read_to_string(&mut answer).context(|| "read its answer".to_owned())?;
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((&answer["processes"], &answer["unanswered_processes"]), (&2.into(), &1.into()));
    let rows = answer["held"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["file"] == other.to_string_lossy().as_ref());
    assert_eq!(found.map(|row| &row["pid"]), Some(&free.0.id().into()), "{answer}");
    Ok(())
}
