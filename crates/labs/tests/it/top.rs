//! `iowhy top` on a real load, in a terminal (tmux): its screens, and the recording that it saves.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, machine, process};
use libtest_mimic::Trial;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// The I/Os of fio in each second.
const IOPS: u64 = 400;

pub fn tests() -> Vec<Trial> {
    vec![trial("top::shows_and_saves_a_load", shows_and_saves_a_load)]
}

/// A program that is ended on drop.
struct EndedChild(Child);

impl Drop for EndedChild {
    fn drop(&mut self) {
        process::end(&mut self.0);
    }
}

/// A terminal of our own.
pub struct LabTerminal {
    socket: String,
}

impl LabTerminal {
    /// Starts a program in one, in a directory.
    pub fn start(mut program: Command, folder: &std::path::Path) -> Result<LabTerminal> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("iowhy-labs-{}-{number}", std::process::id());
        let terminal = LabTerminal { socket };
        let mut words = vec![program.get_program().to_string_lossy().into_owned()];
        words.extend(program.get_args().map(|word| word.to_string_lossy().into_owned()));
        program.stdin(Stdio::null());
        let folder = folder.to_string_lossy().into_owned();
        let mut start: Vec<&str> = vec!["-u", "-f", "/dev/null", "new-session", "-d"];
        start.extend(["-x", "80", "-y", "24", "-c", &folder]);
        start.extend(words.iter().map(String::as_str));
        terminal.tmux(&start)?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments).env("LC_ALL", "C.UTF-8");
        let output = command.output().context(|| "run tmux".to_owned())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The process of the program.
    pub fn pid(&self) -> Result<u32> {
        let said = self.tmux(&["display-message", "-p", "-t", ":0", "#{pane_pid}"])?;
        said.trim().parse().map_err(|_| LabError::failed("find the program in a terminal", said))
    }

    /// Presses a key.
    pub fn press(&self, key: &str) -> Result<()> {
        self.tmux(&["send-keys", "-t", ":0", key])?;
        std::thread::sleep(Duration::from_millis(200));
        Ok(())
    }

    /// The first screen for which `is_right` holds.
    pub fn wait_for(&self, what: &str, is_right: impl Fn(&str) -> bool) -> Result<String> {
        let begun = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p", "-t", ":0"])?;
            if is_right(&screen) {
                return Ok(screen);
            }
            if begun.elapsed() > PATIENCE {
                return Err(LabError::failed(format!("see {what}"), screen));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for LabTerminal {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to end.
        let _ = self.tmux(&["kill-server"]);
    }
}

/// The line of a device, in words.
fn line_of<'a>(screen: &'a str, device: &str) -> Option<Vec<&'a str>> {
    let lines = screen.lines().map(|line| line.trim_start_matches(['>', ' ']));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.into_iter().find(|words| words.first() == Some(&device))
}

fn shows_and_saves_a_load() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 << 20)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 4096).direct();
    let job = job.with("rate_iops", IOPS.to_string()).with("size", "64m").timed(300);
    let mut fio = job.command(&scratch.fresh("fio.json"))?;
    fio.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _fio = EndedChild(fio.spawn().context(|| "start fio".to_owned())?);
    let folder = scratch.fresh("saved");
    std::fs::create_dir(&folder).context(|| "make a folder".to_owned())?;
    let terminal = LabTerminal::start(iowhy(["top", "-d", device.name()])?, &folder)?;
    let name = device.name();
    // A second has fio's I/Os of one, within the delays of a machine with other load.
    let is_near = |words: Vec<&str>| {
        let reads = words.get(1).and_then(|word| word.replace(',', "").parse::<f64>().ok());
        reads.is_some_and(|reads| (IOPS as f64 * 0.5..IOPS as f64 * 1.5).contains(&reads))
    };
    terminal.wait_for("its processes", |screen| screen.contains("fio"))?;
    terminal.press("1")?;
    terminal.wait_for("the device", |screen| line_of(screen, name).is_some_and(is_near))?;
    terminal.press("Enter")?;
    terminal.wait_for("fio behind it", |screen| screen.contains("fio ("))?;
    terminal.press("Enter")?;
    terminal.wait_for("its file", |screen| screen.contains(&format!("/dev/{name}")))?;
    terminal.press("s")?;
    terminal.wait_for("that it was saved", |screen| screen.contains("saved "))?;
    terminal.press("q")?;
    let saved = folder.join("iowhy-recording");
    let recording = Recording::open(&saved)?;
    assert!(recording.requests.len() as u64 > IOPS, "{} requests", recording.requests.len());
    let mut report = iowhy(["report"])?;
    report.arg(&saved);
    let shown = finish(report)?;
    assert!(shown.status.success(), "{}", printed(&shown));
    let page = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(page.contains(name) && page.contains("fio"), "{page}");
    Ok(())
}
