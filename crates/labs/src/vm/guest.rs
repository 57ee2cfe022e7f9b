//! One guest: its parts, its run, and its results.

use super::cpio::Archive;
use super::disk::{DiskLimits, GuestDisk};
use super::kernel::Kernel;
use super::qemu::{Machine, Qmp};
use super::userland;
use crate::error::Context;
use crate::{LabError, Result, command, process};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The words that a guest prints first, and a second later by its own clock.
const UP: &str = "up";
const TICKED: &str = "ticked";
/// The least length of a guest's second, even if the host learned late of its beginning.
const LEAST_SECOND: Duration = Duration::from_millis(600);
/// The word that a guest with a system prints five seconds later: its services have time limits.
const STEADY: &str = "steady";
const LEAST_FIVE_SECONDS: Duration = Duration::from_millis(4200);
const MOST_FIVE_SECONDS: Duration = Duration::from_secs(9);
/// Starts at most, until it prints these words in time.
const STARTS: u32 = 5;

/// A guest that has not been started.
#[derive(Clone, Debug)]
pub struct Guest {
    kernel: Kernel,
    disks: Vec<GuestDisk>,
    modules: Vec<String>,
    arguments: Vec<String>,
    files: Vec<(PathBuf, PathBuf)>,
    memory_mib: u64,
    cpus: u32,
    patience: Duration,
    goes_on: bool,
}

impl Guest {
    /// Makes a guest with two CPUs, 2 GiB of memory, and iowhy.
    pub fn new(kernel: Kernel) -> Guest {
        Guest {
            kernel,
            disks: Vec::new(),
            modules: Vec::new(),
            arguments: Vec::new(),
            files: Vec::new(),
            memory_mib: 2048,
            cpus: 2,
            patience: Duration::from_secs(300),
            goes_on: false,
        }
    }

    /// Adds a disk.
    pub fn disk(mut self, disk: GuestDisk) -> Guest {
        self.disks.push(disk);
        self
    }

    /// Loads a module before the command runs; parameters may follow its name.
    pub fn module(mut self, module: &str) -> Guest {
        self.modules.push(module.to_owned());
        self
    }

    /// Adds an argument for the kernel: `lockdown=confidentiality`.
    pub fn argument(mut self, argument: &str) -> Guest {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Adds a program or file of this machine, and its libraries, at `path`.
    pub fn file(mut self, path: impl Into<PathBuf>, from: impl Into<PathBuf>) -> Guest {
        self.files.push((path.into(), from.into()));
        self
    }

    /// Boots the Debian of this image ([`super::system`]), and changes it: the command runs as a
    /// service there. Files that were given paths below `/guest` are in `/run/guest`.
    pub fn system(mut self, image: impl Into<PathBuf>) -> Guest {
        self.goes_on = true;
        // The frequency of the CPU's own counter is calibrated at the start, wrongly if this
        // machine is busy then; this clock has a fixed frequency.
        self.arguments.push("clocksource=acpi_pm".to_owned());
        self.disk(GuestDisk::image(super::system::DISK, image))
    }

    /// Sets its memory in MiB.
    pub fn memory(self, mib: u64) -> Guest {
        Guest { memory_mib: mib, ..self }
    }

    /// Sets the number of its CPUs.
    pub fn cpus(self, cpus: u32) -> Guest {
        Guest { cpus, ..self }
    }

    /// Sets the time after which it is killed.
    pub fn patience(self, patience: Duration) -> Guest {
        Guest { patience, ..self }
    }

    /// Runs `command`, a script for bash, to its end.
    pub fn run(&self, command: &str) -> Result<GuestOutcome> {
        self.run_saying(command, &mut |_line| ())
    }

    /// Runs `command` as [`Guest::run`]; each line that the guest prints goes to `say` as it comes.
    pub fn run_saying(&self, command: &str, say: &mut dyn FnMut(&str)) -> Result<GuestOutcome> {
        let mut running = self.start(command)?;
        while let Some(line) = running.line()? {
            say(&line);
        }
        running.finish()
    }

    /// Starts it, and waits until it is up. Emulated, some kernels crash now and then before they
    /// are, and if the host is busy while the guest calibrates its clock, that may run several
    /// times too fast, so that every time limit in the guest is too short: then it is started once
    /// more.
    pub fn start(&self, command: &str) -> Result<RunningGuest> {
        let mut failure = None;
        for _ in 0..STARTS {
            let mut running = self.boot(command)?;
            match running.come_up(self.goes_on) {
                Ok(()) => return Ok(running),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| LabError::failed("run a guest", "it was never started")))
    }

    fn boot(&self, command: &str) -> Result<RunningGuest> {
        // Sockets have short names: not below a target folder.
        let folder = tempfile::Builder::new()
            .prefix("iowhy-vm-")
            .tempdir_in("/var/tmp")
            .context(|| "make a folder in /var/tmp".to_owned())?;
        let initrd = folder.path().join("initrd");
        self.pack(&initrd, command)?;
        let machine = Machine {
            kernel: &self.kernel,
            folder: folder.path(),
            initrd: &initrd,
            memory_mib: self.memory_mib,
            cpus: self.cpus,
            arguments: &self.arguments,
            disks: &self.disks,
        };
        let mut children = Children::default();
        for disk in &self.disks {
            children.0.extend(machine.serve(disk)?.map(|server| (disk.name.clone(), server)));
        }
        let started = Instant::now();
        let mut qemu = machine.start()?;
        let said = qemu.stdout.take();
        children.0.push((String::new(), qemu));
        let (sender, lines) = channel();
        if let Some(said) = said {
            std::thread::spawn(move || forward(said, &sender));
        }
        let deadline = started + self.patience;
        Ok(RunningGuest {
            children,
            lines,
            said: String::new(),
            folder,
            started,
            deadline,
            booted: Duration::ZERO,
        })
    }

    /// Writes the guest's first file system: the part that all guests share, the kernel's modules,
    /// its own part.
    fn pack(&self, path: &Path, command: &str) -> Result<()> {
        let action = || format!("write {}", path.display());
        let base = userland::base(self.kernel.architecture)?;
        let mut file = BufWriter::new(File::create(path).context(action)?);
        for part in [&base, &self.kernel.modules] {
            let mut part = File::open(part).context(|| format!("open {}", part.display()))?;
            std::io::copy(&mut part, &mut file).context(action)?;
        }
        let mut archive = Archive::new(file);
        for (path, from) in &self.files {
            userland::add(&mut archive, path, from)?;
        }
        userland::add(
            &mut archive,
            Path::new("/usr/bin/iowhy"),
            &self.kernel.architecture.iowhy()?,
        )?;
        archive.text(Path::new("/command"), command).context(action)?;
        archive.text(Path::new("/modules"), &self.module_list()).context(action)?;
        if self.goes_on {
            archive.text(Path::new("/system.sh"), include_str!("system.sh")).context(action)?;
        }
        archive.finish().and_then(|mut file| file.flush()).context(action)
    }

    fn module_list(&self) -> String {
        let of_disks = self.disks.iter().flat_map(|disk| disk.bus.modules()).copied();
        of_disks.chain(self.modules.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }
}

fn forward(said: ChildStdout, lines: &std::sync::mpsc::Sender<String>) {
    let mut said = BufReader::new(said);
    let mut line = Vec::new();
    while said.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        if lines.send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

/// Programs that are ended with their owner: QEMU, and the servers of disks by the disks' names.
#[derive(Default)]
struct Children(Vec<(String, Child)>);

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ended_already = child.kill();
            let _status = child.wait();
        }
    }
}

/// A guest that runs. When this is dropped, it is killed, which is a power cut to it.
pub struct RunningGuest {
    // Ended before its folder goes.
    children: Children,
    lines: Receiver<String>,
    said: String,
    folder: TempDir,
    started: Instant,
    deadline: Instant,
    booted: Duration,
}

impl RunningGuest {
    /// Waits until it is up and its clock has been compared with the host's.
    fn come_up(&mut self, goes_on: bool) -> Result<()> {
        self.wait_for(UP)?;
        self.booted = self.started.elapsed();
        self.keeps_time(TICKED, LEAST_SECOND, Duration::MAX)?;
        if goes_on {
            self.keeps_time(STEADY, LEAST_FIVE_SECONDS, MOST_FIVE_SECONDS)?;
        }
        self.said.clear();
        Ok(())
    }

    /// Fails if it prints `word` earlier or later than that from now.
    fn keeps_time(&mut self, word: &str, least: Duration, most: Duration) -> Result<()> {
        let begun = Instant::now();
        self.wait_for(word)?;
        let took = begun.elapsed();
        if (least..=most).contains(&took) {
            return Ok(());
        }
        let how = if took < least { "fast" } else { "slowly" };
        Err(self.failed(&format!("its clock runs too {how}: {word:?} after {took:?}")))
    }

    /// Returns the next line that the guest prints; `None` once it has ended.
    pub fn line(&mut self) -> Result<Option<String>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => {
                self.said.push_str(&line);
                self.said.push('\n');
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(self.failed("it took too long")),
        }
    }

    /// Waits until the guest prints a line that contains `text`.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        self.wait_saying(text, &mut |_line| ())
    }

    /// Waits as [`RunningGuest::wait_for`]; each line until then goes to `say` as it comes.
    pub fn wait_saying(&mut self, text: &str, say: &mut dyn FnMut(&str)) -> Result<()> {
        while let Some(line) = self.line()? {
            say(&line);
            if line.contains(text) {
                return Ok(());
            }
        }
        Err(self.failed(&format!("it ended and never said {text:?}")))
    }

    /// Returns its output so far that nobody has waited for.
    pub fn heard(&mut self) -> String {
        let new: Vec<String> = self.lines.try_iter().collect();
        for line in &new {
            self.said.push_str(line);
            self.said.push('\n');
        }
        new.join("\n")
    }

    /// Changes a disk's limits; the guest is not told.
    pub fn limit(&mut self, disk: &str, limits: DiskLimits) -> Result<()> {
        Qmp::connect(self.folder.path())?.tell("block_set_io_throttle", limits.arguments(disk))
    }

    /// Has an NVMe disk report a critical warning, as bits: 2 is its temperature.
    pub fn warn(&mut self, disk: &str, bits: u8) -> Result<()> {
        Qmp::connect(self.folder.path())?.warn(disk, bits)
    }

    /// Makes a disk behind nbdkit hang: it answers nothing until [`RunningGuest::resume`].
    pub fn hang(&mut self, disk: &str) -> Result<()> {
        self.signal(disk, Signal::STOP)
    }

    /// Lets a disk continue that hangs.
    pub fn resume(&mut self, disk: &str) -> Result<()> {
        self.signal(disk, Signal::CONT)
    }

    fn signal(&mut self, disk: &str, signal: Signal) -> Result<()> {
        let server = self.children.0.iter().find(|(name, _)| name == disk);
        let (_, server) = server.ok_or_else(|| {
            LabError::failed(format!("signal the server of {disk}"), "there is none")
        })?;
        process::signal(server, signal);
        Ok(())
    }

    /// Waits until it has ended.
    pub fn finish(mut self) -> Result<GuestOutcome> {
        while self.line()?.is_some() {}
        let out = self.folder.path().join("out");
        fs::create_dir(&out).context(|| format!("make {}", out.display()))?;
        let archive = self.folder.path().join("out.tar");
        let unpacked = command::run(
            "tar",
            [Path::new("--extract"), Path::new("--file"), &archive, Path::new("-C"), &out],
        );
        let status = fs::read_to_string(out.join(".status")).unwrap_or_default();
        match (unpacked, status.trim().parse()) {
            (Ok(_), Ok(status)) => {
                let (said, booted) = (self.said, self.booted);
                Ok(GuestOutcome { status, said, booted, out, _folder: self.folder })
            }
            _ => Err(self.failed("it ended without a result")),
        }
    }

    /// Returns a failure of the guest itself, with the end of its and its kernel's output.
    fn failed(&self, cause: &str) -> LabError {
        let mut text = cause.to_owned();
        for (what, content) in [
            ("it said", self.said.clone()),
            ("its kernel said", self.read("console")),
            ("QEMU said", self.read("qemu.log")),
        ] {
            let lines: Vec<&str> = content.lines().collect();
            let last = &lines[lines.len().saturating_sub(20)..];
            text.push_str(&format!("\n{what}:\n{}", last.join("\n")));
        }
        LabError::failed("run a guest", text)
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The results of a guest.
#[derive(Debug)]
pub struct GuestOutcome {
    /// Its command's exit code.
    pub status: i32,
    /// Its standard output and error.
    pub said: String,
    /// The time from the start of QEMU until the guest's first program ran.
    pub booted: Duration,
    out: PathBuf,
    _folder: TempDir,
}

impl GuestOutcome {
    /// Returns the folder with its files of `/out`; removed with this value.
    pub fn out(&self) -> &Path {
        &self.out
    }
}
