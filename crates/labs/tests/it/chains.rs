//! Threads that wait for one that writes: each is found, and so is the one that they wait for, in
//! programs of several languages.

use crate::recording::Recording;
use crate::support::{finish, iowhy, is_guest, labs_program, printed, trial};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit, LoopDevice,
};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::vm::Architecture;
use iowhy_labs::workload::Workload;
use iowhy_labs::{LabError, Result, command, fio, machine, process};
use iowhy_model::{KnownBy, WaitChain, WaitClass};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Seconds that a program runs, unless it is ended before: its start, the watch's and the watch
/// itself, on a busy or emulated machine.
pub const SECONDS: u64 = 120;
/// The limit's writes: so few that the delay of a busy machine is small compared with a write.
const WRITES_PER_SECOND: u64 = 10;
/// Watches at most, if the machine and not the limit made the writer wait.
const ROUNDS: u32 = 5;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("chains::mutex_in_c", || moving(c("mutex")?, &["worker", "snapshot-writer"])),
        trial("chains::two_locks_in_c", || {
            moving(c("hops")?, &["worker", "relay", "snapshot-writer"])
        }),
        trial("chains::pipe_in_c", || moving(c("pipe")?, &["reader", "feeder"])),
        trial("chains::socket_in_c", || moving(c("socket")?, &["reader", "feeder"])),
        trial("chains::mutex_in_rust", || moving(rust(), &["worker", "snapshot-writer"])),
        trial("chains::mutex_in_go", || moving(go()?, &["chains-go", "chains-go"])),
        trial("chains::monitor_in_java", java),
        trial("chains::standing_in_c", || standing(c("mutex")?, KnownBy::Owner)),
        trial("chains::standing_with_timeouts", || standing(c("timed")?, KnownBy::Owner)),
        trial("chains::standing_in_java", || {
            standing(java_program(compiler("java")?, &java_classes()?), KnownBy::Likely)
        }),
        trial("chains::can_be_left_out", left_out),
        trial("chains::standing_in_rust", || standing(rust(), KnownBy::Likely)),
    ]
}

/// A program that writes to the file that it is given.
pub type Program = Box<dyn Fn(&Path) -> Command>;

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/programs").join(name)
}

/// Returns the path of a compiler's output; the same for every test.
pub fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Finds a compiler that is optional.
pub fn compiler(name: &str) -> Result<PathBuf> {
    command::find(name).map_err(|_| LabError::unsupported(name, format!("install {name}")))
}

/// The programs that gcc makes: source and name. Guests have no gcc, but these.
pub const COMPILED: &[(&str, &str)] = &[
    ("chains.c", "chains-c-mutex"),
    ("chains.c", "chains-c-timed"),
    ("chains.c", "chains-c-hops"),
    ("chains.c", "chains-c-pipe"),
    ("chains.c", "chains-c-socket"),
    ("aio.c", "waits-aio-0"),
    ("aio.c", "waits-aio-5"),
    ("hostile.c", "hostile-reuse"),
    ("hostile.c", "hostile-rename"),
    ("hostile.c", "hostile-threads"),
    ("hostile.c", "hostile-deep"),
    ("named.c", "named-reads"),
    ("uring_open.c", "uring-open"),
];

/// The program that gcc makes of a source, under a name of its own.
pub fn compiled(name: &str, as_name: &str) -> Result<PathBuf> {
    compiled_with(name, as_name, &["-O1", "-fno-omit-frame-pointer"])
}

/// Compiles a program that several tests run at once, which cannot be written meanwhile.
pub fn compiled_once(name: &str, as_name: &'static str) -> Result<PathBuf> {
    static MADE: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = made.get(as_name) {
        return Ok(program.clone());
    }
    let program = compiled(name, as_name)?;
    made.insert(as_name, program.clone());
    Ok(program)
}

/// Compiles it with other options.
pub fn compiled_with(name: &str, as_name: &str, options: &[&str]) -> Result<PathBuf> {
    let program = made(as_name);
    if is_guest() && program.exists() {
        return Ok(program);
    }
    compile(Architecture::X86_64, name, options, &program)?;
    Ok(program)
}

/// The same for a guest's processor. One test has programs for two.
pub fn compiled_for(
    architecture: Architecture,
    name: &str,
    as_name: &str,
    options: &[&str],
) -> Result<PathBuf> {
    let program = made(&format!("{as_name}-{}", architecture.debian()));
    compile(architecture, name, options, &program)?;
    Ok(program)
}

fn compile(architecture: Architecture, name: &str, options: &[&str], program: &Path) -> Result<()> {
    let mut compiler = Command::new(architecture.compiler()?);
    compiler.args(options).args(["-pthread", "-o"]).arg(program).arg(source(name));
    command::output_of(compiler).map(drop)
}

fn c(mode: &'static str) -> Result<Program> {
    let program = compiled("chains.c", &format!("chains-c-{mode}"))?;
    Ok(Box::new(move |file| {
        let mut command = Command::new(&program);
        command.arg(mode).arg(file).arg(SECONDS.to_string());
        command
    }))
}

fn rust() -> Program {
    Box::new(|file| {
        Workload::Locked { file: file.to_owned(), seconds: SECONDS }.command(labs_program())
    })
}

fn go() -> Result<Program> {
    let program = made("chains-go");
    let mut go = Command::new(compiler("go")?);
    go.args(["build", "-o"]).arg(&program).arg(source("chains.go"));
    command::output_of(go)?;
    Ok(Box::new(move |file| {
        let mut command = Command::new(&program);
        command.arg(file).arg(SECONDS.to_string());
        command
    }))
}

/// A running program, which is always ended.
struct RunningProgram(Child);

impl RunningProgram {
    fn start(mut command: Command) -> Result<RunningProgram> {
        command.stdout(Stdio::null());
        let shown = command::shown(&command);
        command.spawn().map(RunningProgram).context(|| format!("start {shown}"))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        process::signal(&self.0, rustix::process::Signal::TERM);
        process::wait_or_kill(&mut self.0, Duration::from_secs(5));
    }
}

/// A watch of two seconds, with the chains of one process: others' threads may have the same names.
fn record(scratch: &Scratch, pid: u32, options: &[&str]) -> Result<Recording> {
    machine::need_bpf()?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", "2", "-o"])?;
    record.arg(&output).args(options);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let mut recording = Recording::open(&output)?;
    check(&recording);
    let same = |a: &WaitChain, b: &WaitChain| (a.chain_id, a.path) == (b.chain_id, b.path);
    let own = recording.chains.chunk_by(same).filter(|path| path[0].pid == pid);
    recording.chains = own.flatten().cloned().collect();
    Ok(recording)
}

/// The paths that lead through threads with these names, the first to the last.
pub fn paths<'a>(recording: &'a Recording, threads: &[&str]) -> Vec<&'a [WaitChain]> {
    let same = |a: &WaitChain, b: &WaitChain| (a.chain_id, a.path) == (b.chain_id, b.path);
    let is_wanted = |path: &&[WaitChain]| {
        let digit = |letter: char| letter.is_ascii_digit();
        let name = |row: &WaitChain| recording.text(row.thread).trim_end_matches(digit);
        let mut names: Vec<&str> = path.iter().map(name).collect();
        let all = names == threads;
        // Members of a pool may be in between.
        names.dedup();
        all || names == threads
    };
    recording.chains.chunk_by(same).filter(is_wanted).collect()
}

/// Checks the properties of every chain.
fn check(recording: &Recording) {
    let waits: BTreeSet<u64> = recording.waits.iter().map(|wait| wait.wait_id).collect();
    for chain in recording.chains.chunk_by(|a, b| a.chain_id == b.chain_id) {
        let first = &chain[0];
        let times = chain.iter().filter(|row| row.hop == 0).map(|row| row.storage_ns);
        assert!(times.sum::<u64>() <= first.duration_ns, "{chain:?}");
        for path in chain.chunk_by(|a, b| a.path == b.path) {
            let hops = path.iter().map(|row| row.hop);
            assert!(hops.eq(0..path.len() as u32), "{path:?}");
            let (last, others) = path.split_last().expect("a path has rows");
            assert!(last.wait_id.is_some_and(|wait| waits.contains(&wait)), "{path:?}");
            assert!(last.class.is_some() && last.waits.is_some(), "{path:?}");
            assert!(others.iter().all(|row| row.class.is_none()), "{path:?}");
            assert!(path.iter().all(|row| (row.hop == 0) == row.known_by.is_none()), "{path:?}");
        }
    }
}

/// Threads that wait again and again for a writer under a limit.
fn moving(program: Program, threads: &[&str]) -> Result<()> {
    limited(&program, Duration::ZERO, threads, |_| Ok(())).map(drop)
}

/// Returns a watch in which the writer waited for the limit, by its own waits: then its chains must
/// have the same. On a machine with other load, a device without a limit is slow, too.
fn limited(
    program: &Program,
    warm: Duration,
    threads: &[&str],
    mut ready: impl FnMut(u32) -> Result<()>,
) -> Result<Recording> {
    let mut round = 0;
    loop {
        round += 1;
        let recording = throttled(program, WRITES_PER_SECOND, warm, &mut ready)?;
        let found = paths(&recording, threads);
        let writers: BTreeSet<u32> =
            found.iter().filter_map(|path| path.last()).map(|last| last.tid).collect();
        let own = recording.waits.iter().filter(|wait| writers.contains(&wait.tid));
        let (mut all, mut limited) = (0, 0);
        for wait in own {
            all += wait.duration_ns;
            let is_limit = wait.main_class() == WaitClass::CgroupThrottle;
            limited += if is_limit { wait.duration_ns } else { 0 };
        }
        if found.is_empty() || limited * 10 > all * 9 || round == ROUNDS {
            expect_moving(&recording, threads);
            return Ok(recording);
        }
    }
}

/// Returns the recording after the program ran under a limit for a while and `ready` was called.
pub fn throttled(
    program: &Program,
    writes_per_second: u64,
    warm: Duration,
    ready: impl FnOnce(u32) -> Result<()>,
) -> Result<Recording> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    cgroup.limit(&device, Limit::WriteIops(writes_per_second))?;
    let running = RunningProgram::start(cgroup.inside(&program(device.path())))?;
    std::thread::sleep(warm);
    ready(running.0.id())?;
    record(&scratch, running.0.id(), &[])
}

/// Threads behind a lock are watched without chains and with them.
fn left_out() -> Result<()> {
    let scratch = Scratch::new()?;
    let mut without = None;
    let with = throttled(&c("mutex")?, WRITES_PER_SECOND, Duration::ZERO, |pid| {
        without = Some(record(&scratch, pid, &["--no-chains"])?);
        Ok(())
    })?;
    let without = without.expect("it was watched first");
    assert!(!with.chains.is_empty(), "there are none to leave out");
    assert!(without.chains.is_empty() && !without.environment.fills("wait_chains"));
    assert!(!without.waits.is_empty(), "waits are not left out with them");
    Ok(())
}

fn expect_moving(recording: &Recording, threads: &[&str]) {
    let found = paths(recording, threads);
    let first: BTreeSet<u32> = found.iter().map(|path| path[0].tid).collect();
    assert!(!first.is_empty(), "no thread waited along {threads:?}: {:?}", shown(recording));
    let time: u64 = found.iter().map(|path| path[0].storage_ns).sum();
    // Of each two seconds the writer waits most.
    assert!(time > 500_000_000, "{time} ns along {threads:?}: {:?}", shown(recording));
    let mut by_class: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for last in found.iter().filter_map(|path| path.last()) {
        *by_class.entry(last.class.map(WaitClass::word)).or_default() += last.storage_ns;
    }
    let limited = by_class.get(&Some(WaitClass::CgroupThrottle.word())).copied().unwrap_or(0);
    assert!(limited * 10 > time * 8, "{limited} of {time} ns because of the limit: {by_class:?}");
    // The ledger has the writer's wait, and no wait of a thread that only waited for it.
    let waiting = recording.waits.iter().filter(|wait| first.contains(&wait.tid));
    let direct: u64 = waiting.map(|wait| wait.duration_ns).sum();
    assert!(threads[0] == threads[1] || direct < time / 4, "{direct} of {time} ns");
}

/// The chains as a person reads them, for a test that fails.
pub fn shown(recording: &Recording) -> BTreeSet<String> {
    let same = |a: &WaitChain, b: &WaitChain| (a.chain_id, a.path) == (b.chain_id, b.path);
    let show = |path: &[WaitChain]| {
        let names = path.iter().map(|row| recording.text(row.thread).to_owned());
        names.collect::<Vec<_>>().join(" < ")
    };
    recording.chains.chunk_by(same).map(show).collect()
}

/// Returns the folder of the Java program's classes.
fn java_classes() -> Result<PathBuf> {
    let classes = made("chains-java");
    let mut javac = Command::new(compiler("javac")?);
    javac.arg("-d").arg(&classes).arg(source("Chains.java"));
    command::output_of(javac)?;
    Ok(classes)
}

fn java_program(java: PathBuf, classes: &Path) -> Program {
    let classes = classes.to_owned();
    Box::new(move |file| {
        let mut command = Command::new(&java);
        // Compiled at once: the interpreter has one name for all methods.
        command.args(["-XX:+PreserveFramePointer", "-Xcomp", "-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(&classes).arg("Chains").arg(file).arg(SECONDS.to_string());
        command
    })
}

/// The JVM's map of its methods, removed on drop.
struct PerfMap(PathBuf);

impl Drop for PerfMap {
    fn drop(&mut self) {
        let _never_made = std::fs::remove_file(&self.0);
    }
}

/// Threads of the JVM, with the names of its methods from a perf map.
fn java() -> Result<()> {
    let jcmd = compiler("jcmd")?;
    let program = java_program(compiler("java")?, &java_classes()?);
    let mut left = None;
    let warm = Duration::from_secs(4);
    let recording = limited(&program, warm, &["worker-", "snapshot-writer"], |pid| {
        left = Some(PerfMap(PathBuf::from(format!("/tmp/perf-{pid}.map"))));
        let mut map = Command::new(&jcmd);
        map.arg(pid.to_string()).arg("Compiler.perfmap");
        command::output_of(map).map(drop)
    })?;
    let stacks = recording.user_stacks("snapshot-writer");
    assert!(stacks.iter().any(|name| name.contains(" Chains.")), "{stacks:?}");
    Ok(())
}

/// A chain that does not move at all while it is watched.
fn standing(program: Program, known_by: KnownBy) -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let disk = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), MIB)?;
    let frozen = disk.freeze()?;
    let running = RunningProgram::start(program(&file))?;
    wait_for(running.0.id(), "snapshot-writer")?;
    let result = record(&scratch, running.0.id(), &[]);
    drop(frozen);
    drop(running);
    let recording = result?;
    let mut found = paths(&recording, &["worker", "snapshot-writer"]);
    found.extend(paths(&recording, &["worker-", "snapshot-writer"]));
    let workers: BTreeSet<u32> = found.iter().map(|path| path[0].tid).collect();
    assert_eq!(workers.len(), 5, "{:?}", shown(&recording));
    // Threads that wait for work, or for the end of others, wait for no lock.
    let others = recording.chains.iter().filter(|row| row.hop == 0);
    let others = others.filter(|row| !recording.text(row.thread).starts_with("worker"));
    assert_eq!(others.count(), 0, "{:?}", shown(&recording));
    for path in found {
        let last = path.last().expect("a path has rows");
        assert_eq!((last.known_by, last.class), (Some(known_by), Some(WaitClass::FsLock)));
        assert!(path[0].censored && path[0].storage_ns > 1_000_000_000, "{path:?}");
    }
    Ok(())
}

/// Waits until a process uses no more CPU time, as when all of its threads sleep.
fn wait_for_rest(pid: u32) -> Result<()> {
    let mut before = f64::NAN;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_secs(1));
        let now = machine::cpu_seconds_of(pid).unwrap_or_default();
        if now - before < 0.015 {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Waits until a process has a thread of that name, and others have had time to fall asleep.
fn wait_for(pid: u32, thread: &str) -> Result<()> {
    let folder = format!("/proc/{pid}/task");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        let threads = std::fs::read_dir(&folder).context(|| format!("list {folder}"))?.flatten();
        let mut names =
            threads.filter_map(|one| std::fs::read_to_string(one.path().join("comm")).ok());
        if names.any(|name| name.trim() == thread) {
            return wait_for_rest(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(LabError::failed("wait for the program's threads", format!("none is {thread}")))
}
