//! One load that begins and ends while all tools run, so that differences do not come from the
//! times at which they began.

use crate::command;
use crate::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{LabError, Result, iowhy, process};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time that the tools have to end once the load is over.
const MARGIN: Duration = Duration::from_secs(3);
/// The minimum time for the load; below it the machine is too busy for a comparison.
const LEAST: Duration = Duration::from_secs(3);
/// The time without a new program after which a tool counts as begun.
const SETTLED: Duration = Duration::from_secs(4);

/// The output of a tool, or the reason why it could not run.
pub type Answer = std::result::Result<String, String>;

/// The outputs of all tools for one load.
#[derive(Debug)]
pub struct Answers {
    /// The load's process.
    pub pid: u32,
    /// Duration of the other tools.
    pub seconds: f64,
    /// `iostat -x`, as JSON.
    pub iostat: Answer,
    /// `pidstat -d`.
    pub pidstat: Answer,
    /// `biolatency`.
    pub biolatency: Answer,
    /// `opensnoop`.
    pub opensnoop: Answer,
    /// `iowhy stat`, as JSON, like those that follow.
    pub stat: String,
    /// `iowhy proc`.
    pub proc: String,
    /// `iowhy latency`.
    pub latency: String,
    /// `iowhy opens`.
    pub opens: String,
}

/// Runs `steps` steps of `program` (`iowhy-labs`), while every tool watches for `seconds`.
pub fn play(program: &Path, seconds: u64, steps: u64) -> Result<Answers> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 256 << 20)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let load = Workload::Steps { folder: disk.path().to_owned(), steps };
    let mut load = SceneLoad::start(load.command(program))?;
    let begun = Instant::now();
    let asked = ask(seconds, disk.device().name(), load.child.id())?;
    let whole = Duration::from_secs(seconds);
    let time = wait_until_begun(&asked, begun + whole).and_then(|()| {
        let left = whole.checked_sub(begun.elapsed() + MARGIN);
        left.filter(|left| *left >= LEAST).ok_or_else(too_busy)
    });
    let done = time.and_then(|time| load.run(time));
    let is_late = asked.iter().any(|tool| tool.is_over());
    let answers = asked.into_iter().map(SceneTool::answer).collect();
    let pid = load.child.id();
    drop(load);
    done?;
    if is_late { Err(too_busy()) } else { gather(pid, whole, answers) }
}

fn too_busy() -> LabError {
    LabError::unsupported(
        "time to spare: the tools took too long to begin, or the load to end",
        "run it while the machine is less busy, or for longer",
    )
}

fn gather(pid: u32, time: Duration, answers: Vec<Result<String>>) -> Result<Answers> {
    let [iostat, pidstat, biolatency, opensnoop, stat, proc, latency, opens] =
        answers
            .try_into()
            .map_err(|_| LabError::failed("ask the tools", "not all of them answered"))?;
    let other = |answer: Result<String>| answer.map_err(|error| error.to_string());
    Ok(Answers {
        pid,
        seconds: time.as_secs_f64(),
        iostat: other(iostat),
        pidstat: other(pidstat),
        biolatency: other(biolatency),
        opensnoop: other(opensnoop),
        stat: stat?,
        proc: proc?,
        latency: latency?,
        opens: opens?,
    })
}

/// A tool that watches the load.
struct SceneTool {
    /// Whether it attaches programs to the kernel.
    attaches: bool,
    /// Its process, or the reason why there is none.
    process: std::result::Result<u32, LabError>,
    output: Option<JoinHandle<Result<String>>>,
}

impl SceneTool {
    fn start(attaches: bool, command: Result<Command>) -> SceneTool {
        let started = command.and_then(|mut command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let name = command::shown(&command);
            let child = command.spawn().context(|| format!("run {name}"))?;
            Ok((child, name))
        });
        match started {
            Err(error) => SceneTool { attaches, process: Err(error), output: None },
            Ok((child, name)) => {
                let process = Ok(child.id());
                SceneTool { attaches, process, output: Some(thread::spawn(|| read(child, name))) }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.output.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn answer(self) -> Result<String> {
        self.process?;
        let panicked = || LabError::failed("ask a tool", "it panicked");
        self.output.ok_or_else(panicked)?.join().map_err(|_| panicked())?
    }

    /// Returns the number of programs, and buffers of them, that it holds.
    fn attached(&self) -> usize {
        let Ok(process) = &self.process else { return 0 };
        let files =
            std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("anon_inode:bpf")).count()
    }
}

fn read(child: Child, name: String) -> Result<String> {
    let output = child.wait_with_output().context(|| format!("run {name}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::failed(format!("run {name}"), format!("{}: {said}", output.status)))
}

/// Waits until every tool that attaches programs has done so, or is over.
fn wait_until_begun(tools: &[SceneTool], deadline: Instant) -> Result<()> {
    let (mut before, mut since) = (Vec::new(), Instant::now());
    loop {
        let own = tools.iter().filter(|tool| tool.attaches && !tool.is_over());
        let now: Vec<usize> = own.map(SceneTool::attached).collect();
        if now != before {
            (before, since) = (now, Instant::now());
        } else if before.iter().all(|count| *count > 0) && since.elapsed() > SETTLED {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(too_busy());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Starts all of them at once.
fn ask(seconds: u64, device: &str, pid: u32) -> Result<Vec<SceneTool>> {
    let (seconds, pid) = (seconds.to_string(), pid.to_string());
    let own = iowhy::binary()?;
    let view = |name: &str, more: &[&str]| {
        let mut command = Command::new(&own);
        command.args([name, "--json"]).args(more);
        Ok(command)
    };
    let tool = |name: &str, more: &[&str]| -> Result<Command> {
        let mut command = Command::new(command::find(name)?);
        command.env("LC_ALL", "C").args(more);
        Ok(command)
    };
    let commands = [
        (false, tool("iostat", &["-x", "-y", "-o", "JSON", &seconds, "1", device])),
        (false, tool("pidstat", &["-d", "-p", &pid, &seconds, "1"])),
        (true, tool("biolatency", &["-d", device, &seconds, "1"])),
        (true, tool("opensnoop", &["-p", &pid, "-d", &seconds])),
        (true, view("stat", &["-d", device, &seconds, "1"])),
        (true, view("proc", &["-d", device, &seconds, "1"])),
        (true, view("latency", &["-d", device, &seconds, "1"])),
        (true, view("opens", &["-p", &pid, "-t", &seconds])),
    ];
    Ok(commands
        .into_iter()
        .map(|(attaches, command)| SceneTool::start(attaches, command))
        .collect())
}

/// The load's process.
struct SceneLoad {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl SceneLoad {
    /// Starts the load; returns when it is ready.
    fn start(mut command: Command) -> Result<SceneLoad> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context(|| "start the load".to_owned())?;
        let said =
            child.stdout.take().ok_or_else(|| LabError::failed("hear the load", "no pipe"))?;
        let mut load = SceneLoad { child, said: BufReader::new(said) };
        load.hear("ready")?;
        Ok(load)
    }

    /// Makes it do its steps in about `time`.
    fn run(&mut self, time: Duration) -> Result<()> {
        let stdin = self.child.stdin.as_mut();
        let stdin = stdin.ok_or_else(|| LabError::failed("tell the load to begin", "no pipe"))?;
        let order = format!("{}\n", time.as_millis());
        stdin.write_all(order.as_bytes()).context(|| "tell the load to begin".to_owned())?;
        self.hear("done")
    }

    fn hear(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        self.said.read_line(&mut line).context(|| "hear the load".to_owned())?;
        if line.trim() == word {
            return Ok(());
        }
        Err(LabError::failed("hear the load", format!("it said {:?} for {word:?}", line.trim())))
    }
}

impl Drop for SceneLoad {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        process::wait_or_kill(&mut self.child, MARGIN);
    }
}
