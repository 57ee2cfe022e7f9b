//! The place where the commands of a page run: a directory with the files that the page expects (a
//! recording, blktrace's files), a disk and a recorder of the test. Commands of a page share it,
//! since the later ones read the output of the earlier ones.

use crate::architecture::root;
use crate::recorder_host::TestDaemon;
use crate::support::{NO_PERMISSION, finish, labs_program, printed};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, iowhy, machine};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The result of a command.
pub enum Outcome {
    /// The command succeeded.
    Ran,
    /// The command is not run here: this machine cannot, or another test does.
    Skipped(String),
    /// The command failed, with its output.
    Failed(String),
}

/// Names that stand for each reader's own, as whole words; an output gets a directory of its own
/// each time.
const READERS: &[(&str, &str)] = &[
    ("/run/sick", "sick"),
    ("/run/mended", "mended"),
    ("/run/job", "job"),
    ("GOOD", "sick"),
    ("BAD", "mended"),
    ("RECORDING", "sick"),
    ("SOURCE", "sick"),
    ("COMMAND", "sleep 1"),
    ("FILE", "written.html"),
    ("SECTOR", "2048"),
    ("/etc/bash_completion.d/iowhy", "completions"),
];
/// Values of options that the kept recording has, by the option and the page's value.
const KEPT: &[(&str, &str, &str)] = &[
    ("-d", "sdb", "loop0"),
    ("-p", "postgres", "fio"),
    ("-c", "/system.slice/db.service", "/"),
    ("-f", "/var/lib/", "/var/tmp/"),
    ("--above", "20ms", "1ms"),
];
/// Views that print a table for each interval.
const INTERVALS: &[&str] = &["stat", "proc", "latency", "files", "waits", "stacks", "cache"];
/// Commands that watch for a time, if they have no source; `top` ends by a key.
const WATCHES: &[&str] =
    &["record", "events", "stages", "chains", "blame", "snoop", "opens", "probe"];
/// Commands that ask the recorder.
const RECORDER: &[&str] = &["incidents", "history", "capture"];

/// Targets of `make` that are named, and what runs each of them; `man` is run here.
const TARGETS: &[(&str, &str)] = &[
    ("demo", "scripts/test-readme"),
    ("test", "scripts/test-readme --test"),
    ("packages", "make test-packages"),
];
/// Where `make man` writes here.
const MANUAL: &str = "manual";

/// The directory, and the parts that need root.
pub struct ReaderPlace {
    /// A writer, so that a short watch has a request on an idle machine. Ends first.
    _writer: SmallWriter,
    folder: tempfile::TempDir,
    /// The last watches of this place.
    watches: tempfile::TempDir,
    disk: Option<(Arc<Scratch>, LabFileSystem)>,
    daemon: Option<TestDaemon>,
    /// The time at which its incident began.
    time: String,
    outputs: u32,
}

/// Writes and syncs a small file ten times a second, until it is dropped.
struct SmallWriter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SmallWriter {
    fn start(path: PathBuf) -> SmallWriter {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // Without it a watch may have no request, and its test says so.
                let _ = fs::write(&path, [0; 4096])
                    .and_then(|()| fs::File::open(&path))
                    .and_then(|file| file.sync_all());
                thread::sleep(Duration::from_millis(100));
            }
        });
        SmallWriter { stop, thread: Some(thread) }
    }
}

impl Drop for SmallWriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A script that runs `$0` with the last watch of this place: other tests watch, too.
const ALONE: &str = "mkdir -p -m 700 /run/iowhy-watch-0
    mount --bind \"$WATCHES\" /run/iowhy-watch-0
    exec sh -ec \"$0\"";

impl ReaderPlace {
    pub fn new() -> Result<ReaderPlace> {
        let folder = tempfile::tempdir().context(|| "make a directory".to_owned())?;
        fs::create_dir(folder.path().join("demo")).context(|| "make demo".to_owned())?;
        for name in ["sick", "mended", "demo/recording"] {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(root().join("demo/recording")).arg(folder.path().join(name));
            finish(copy)?;
        }
        captures(folder.path())?;
        let watches = tempfile::tempdir_in("/dev/shm").context(|| "make a directory".to_owned())?;
        Ok(ReaderPlace {
            _writer: SmallWriter::start(folder.path().join("written")),
            folder,
            watches,
            disk: disk()?,
            daemon: None,
            time: String::new(),
            outputs: 0,
        })
    }

    /// Runs a command as a page has it.
    pub fn run(&mut self, text: &str) -> Result<Outcome> {
        if text.starts_with("SELECT ") || text.starts_with("duckdb ") {
            return self.query(text);
        }
        let words: Vec<&str> = text.trim_start_matches("sudo ").split_whitespace().collect();
        let subject = words.get(1).copied().unwrap_or_default();
        match words.first() {
            Some(&"make") if subject == "man" => return self.manual(),
            Some(&"make") => return target(subject),
            Some(&"man") => return self.manual_page(subject),
            Some(&"apt") => return Ok(Outcome::Skipped("scripts/test-readme runs it".to_owned())),
            Some(&"systemctl") => {
                return Ok(Outcome::Skipped("scripts/test-recorder-guest runs it".to_owned()));
            }
            _ => {}
        }
        if subject == "daemon" && words.len() == 2 {
            return Ok(Outcome::Skipped("the tests `recorder` run it".to_owned()));
        }
        if RECORDER.contains(&subject) || words.contains(&"--at") {
            return self.ask_recorder(&words);
        }
        let Some(line) = self.adapted(&words) else {
            return Ok(Outcome::Skipped("it needs a disk of the test's own, and root".to_owned()));
        };
        let line = self.with_load(&line);
        self.shell(&line)
    }

    /// The command line with names of this place, which watches for a second.
    fn adapted(&mut self, words: &[&str]) -> Option<String> {
        let subject = words.get(1).copied().unwrap_or_default();
        let is_report = words.starts_with(&["iowhy", "report"]);
        let mut changed = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |at| words[at]);
            let of_kept = KEPT.iter().find(|kept| is_report && (kept.0, kept.1) == (before, *word));
            changed.push(match of_kept {
                Some((_, _, here)) => (*here).to_owned(),
                None => self.word(word, before, subject)?,
            });
        }
        let has_source = (2..changed.len())
            .any(|at| is_source(&changed[at]) && !is_option_of_output(&changed[at - 1]));
        if !has_source {
            limit(&mut changed, subject);
        }
        if matches!(subject, "record" | "reproduce" | "export" | "import")
            || words.iter().any(|word| matches!(*word, "--html" | "--share"))
        {
            self.new_output(&mut changed);
        }
        let line = changed.join(" ");
        // A view for a terminal, which gets one, and the key that ends it.
        Some(match subject {
            "top" => format!(
                "(while sleep 1; do printf q; done) | \
                 script --quiet --return --command '{line}' typed"
            ),
            _ => line,
        })
    }

    /// Returns the command line with a read of its disk in parallel: the recorded reads are
    /// exported.
    fn with_load(&self, line: &str) -> String {
        match &self.disk {
            Some((_, files)) if line.contains(&format!("-d {} ", files.device().name())) => {
                let disk = files.device().path().display();
                format!(
                    "(while :; do dd if={disk} of=/dev/null bs=4k count=100 iflag=direct; \
                     sleep 0.1; done) 2>/dev/null & load=$!; trap 'kill $load' EXIT; {line}"
                )
            }
            _ => line.to_owned(),
        }
    }

    /// Returns a word of a command line for this place; `None` if it needs a disk.
    fn word(&self, word: &str, before: &str, subject: &str) -> Option<String> {
        if (word, before) == ("FILE", "report") {
            return Some("sick".to_owned());
        }
        if let Some((_, here)) = READERS.iter().find(|(name, _)| *name == word) {
            if subject == "locate" {
                let (_, files) = self.disk.as_ref()?;
                return Some(if word == "FILE" {
                    files.path().join("file").display().to_string()
                } else {
                    (*here).to_owned()
                });
            }
            return Some((*here).to_owned());
        }
        match (word, before) {
            ("PID", _) => Some(std::process::id().to_string()),
            ("sda=sdb", _) => Some("loop0=loop0".to_owned()),
            ("DEVICE", _) | ("sda" | "sdb", "-d" | "probe") => {
                let (_, files) = self.disk.as_ref()?;
                let device = files.device();
                let path = device.path().display().to_string();
                Some(if before == "-d" { device.name().to_owned() } else { path })
            }
            _ => Some(word.to_owned()),
        }
    }

    /// Replaces outputs by new paths: a file or directory that is written must not exist.
    fn new_output(&mut self, words: &mut [String]) {
        for at in 1..words.len() {
            if is_option_of_output(&words[at - 1]) && words[at] != "DIR" {
                self.outputs += 1;
                words[at] = format!("{}-{}", words[at], self.outputs);
            }
        }
    }

    fn shell(&self, line: &str) -> Result<Outcome> {
        let binary = iowhy::binary()?;
        let folder = binary.parent().unwrap_or(Path::new("/")).display().to_string();
        let mut shell = match rustix::process::geteuid().is_root() {
            true => {
                let mut shell = Command::new("unshare");
                shell.args(["--mount", "--propagation", "private", "sh", "-ec", ALONE, line]);
                shell
            }
            false => {
                let mut shell = Command::new("sh");
                shell.args(["-ec", line]);
                shell
            }
        };
        shell.current_dir(self.folder.path()).stdin(Stdio::null());
        shell.env("WATCHES", self.watches.path()).env("XDG_RUNTIME_DIR", self.watches.path());
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{folder}:{path}")).env("TERM", "xterm");
        outcome(finish(shell)?, line)
    }

    /// `make man`, of the program that is tested.
    fn manual(&self) -> Result<Outcome> {
        let mut script = Command::new(root().join("scripts/man"));
        script.arg(iowhy::binary()?).arg(self.folder.path().join(MANUAL));
        outcome(finish(script)?, "scripts/man")
    }

    /// A manual page, as `man` shows it.
    fn manual_page(&self, name: &str) -> Result<Outcome> {
        match self.manual()? {
            Outcome::Ran => {}
            other => return Ok(other),
        }
        let shown = format!(
            "command -v man >&2 || exit {NO_PERMISSION}; \
             MANPAGER=cat man --manpath={MANUAL}/man {name} | grep 'EXIT STATUS'"
        );
        self.shell(&shown)
    }

    /// Commands about incidents, after the recorder has kept one.
    fn ask_recorder(&mut self, words: &[&str]) -> Result<Outcome> {
        if let Err(LabError::Missing { what, .. } | LabError::Unsupported { what, .. }) =
            machine::need_bpf()
        {
            return Ok(Outcome::Skipped(format!("missing: {what}")));
        }
        if self.daemon.is_none() {
            let mut daemon = TestDaemon::new(None)?;
            let name = daemon.disk.name().to_owned();
            daemon.start(&[&name], "")?;
            daemon.read_disk()?;
            finish(daemon.command(&["capture", "a test"])?)?;
            let incident = daemon.wait_for_incident(1);
            // The incident lasts for seconds after its condition.
            let second = incident["begun_ns"].as_i64().unwrap_or_default() / 1_000_000_000 + 1;
            let mut date = Command::new("date");
            date.args(["--date", &format!("@{second}"), "+%H:%M:%S"]);
            printed(&finish(date)?).trim().clone_into(&mut self.time);
            self.daemon = Some(daemon);
        }
        let Some(daemon) = &self.daemon else { return Ok(Outcome::Ran) };
        let is_time = |word: &str| word.len() == 5 && word.as_bytes()[2] == b':';
        let words: Vec<&str> = words[1..]
            .iter()
            .map(|word| if is_time(word) { self.time.as_str() } else { word })
            .collect();
        outcome(finish(daemon.command(&words)?)?, &words.join(" "))
    }

    /// A query, in the DuckDB of `scripts/python-env`.
    fn query(&self, text: &str) -> Result<Outcome> {
        let query = text.trim_start_matches("duckdb -c ").trim_matches('"');
        let query = query.replace("/run/sick", "sick");
        let run = "import sys\ntry:\n  import duckdb\nexcept ImportError:\n  sys.exit(77)\n\
                   rows = duckdb.sql(sys.argv[1]).fetchall()\nassert len(rows) > 3, rows";
        let mut python = Command::new("python3");
        python.args(["-c", run, &query]).current_dir(self.folder.path());
        outcome(finish(python)?, "DuckDB, which scripts/python-env installs")
    }
}

/// Whether a word is one of the sources here.
fn is_source(word: &str) -> bool {
    matches!(word, "sick" | "mended" | "demo/recording" | "sda" | "sda.bin" | "DIR")
}

fn is_option_of_output(word: &str) -> bool {
    matches!(word, "-o" | "--html" | "--share" | "--svg")
}

/// Returns the result of a run: with exit code 77 it lacked a requirement.
fn outcome(output: std::process::Output, what: &str) -> Result<Outcome> {
    Ok(match output.status.code() {
        Some(0) => Outcome::Ran,
        Some(NO_PERMISSION) if std::env::var_os("CI").is_none() => {
            Outcome::Skipped(format!("missing: {what}"))
        }
        Some(1) if printed(&output).contains("there are no waits") => {
            Outcome::Skipped("no thread waited for storage meanwhile".to_owned())
        }
        Some(1) if printed(&output).contains("there are no findings") => {
            Outcome::Skipped("nothing was slow meanwhile".to_owned())
        }
        _ => Outcome::Failed(format!("{what} ended with {}: {}", output.status, printed(&output))),
    })
}

/// A target of the Makefile that a script runs.
fn target(name: &str) -> Result<Outcome> {
    let path = root().join("Makefile");
    let makefile = fs::read_to_string(path).context(|| "read Makefile".to_owned())?;
    let runner = TARGETS.iter().find(|(target, _)| *target == name);
    Ok(match runner.filter(|_| makefile.contains(&format!("\n{name}: ## "))) {
        Some((_, runner)) => Outcome::Skipped(format!("{runner} runs it")),
        None => Outcome::Failed("Makefile has no such target, or no test runs it".to_owned()),
    })
}

/// Ends a watch after a second.
fn limit(words: &mut Vec<String>, subject: &str) {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let is_watch = subject.is_empty() || subject.starts_with('-') || WATCHES.contains(&subject);
    // `iowhy 5`: a screen each five seconds.
    if subject.starts_with(|first: char| first.is_ascii_digit()) {
        words.truncate(1);
        words.extend(["1", "1"].map(str::to_owned));
    } else if INTERVALS.contains(&subject) {
        // An interval and a count, not the value of an option.
        while words.len() > 2
            && words[words.len() - 1].parse::<f64>().is_ok()
            && !words[words.len() - 2].starts_with('-')
        {
            words.pop();
        }
        words.extend(["1", "1"].map(str::to_owned));
    } else if let Some(at) = words.iter().position(|word| word == "-t") {
        words[at + 1] = "1".to_owned();
    } else if is_watch && !has("--held") && !has("--") {
        words.extend(["-t", "1"].map(str::to_owned));
    }
}

/// Files of blktrace, `sda.blktrace.*`, and their dump, `sda.bin`.
fn captures(folder: &Path) -> Result<()> {
    let made = folder.join("captures");
    let mut write = Command::new(labs_program());
    write.args(["capture", "--devices", "1", "--events", "2000", "--plain"]).arg(&made);
    let output = finish(write)?;
    assert!(output.status.success(), "{}", printed(&output));
    for entry in fs::read_dir(&made).context(|| "list captures".to_owned())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((_, cpu)) = name.split_once(".blktrace.") else { continue };
        fs::rename(entry.path(), folder.join(format!("sda.blktrace.{cpu}")))
            .context(|| "name a capture".to_owned())?;
    }
    let mut dump = Command::new("blkparse");
    dump.args(["-q", "-i", "sda", "-O", "-d", "sda.bin"]).current_dir(folder);
    match dump.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => Ok(()),
        // The files themselves are read alike.
        Err(_) => fs::copy(folder.join("sda.blktrace.0"), folder.join("sda.bin"))
            .map(|_| ())
            .context(|| "copy a capture".to_owned()),
    }
}

/// A disk with a file system and a file, or none without root.
fn disk() -> Result<Option<(Arc<Scratch>, LabFileSystem)>> {
    if machine::need_root().is_err() {
        return Ok(None);
    }
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 << 20)?;
    let files = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let written = fs::File::create(files.path().join("file")).and_then(|mut file| {
        file.write_all(&[b'x'; 1 << 20])?;
        file.sync_all()
    });
    written.context(|| "write a file".to_owned())?;
    Ok(Some((scratch, files)))
}
