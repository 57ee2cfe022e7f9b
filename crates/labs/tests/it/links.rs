//! Root writes into a directory of another user, who swaps its entries for links to root's files as
//! fast as possible: no writer of iowhy changes any of root's files.
//!
//! What does not belong here: each single way to write (see crates/fs/tests/links.rs).

use crate::chains::compiled_once;
use crate::support::{finish, iowhy, printed, trial, wait_until};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine, process};
use iowhy_model::recording::RecordingWriter;
use iowhy_model::script::Script;
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least number of links that are planted, or swapped for a writer's file.
const LINKS: u64 = 1_000;
/// Runs of each writer, at least.
const RUNS: u64 = 100;
/// Runs of a watch, which takes a second or more; each is tried by many swaps.
const WATCHES: u64 = 3;
const NOBODY: u32 = 65_534;
/// The swapper's own names.
const OF_SWAPPER: [&str; 3] = [".spare-", ".junk-", ".swaps"];
/// The name of every output.
const OUTPUT: &str = "out";

pub fn tests() -> Vec<Trial> {
    vec![
        trial("links::a_plain_writer_is_led_elsewhere", plain_writers),
        trial("links::pages", || {
            written(|attack| attack.iowhy(&["report", "IN", "--html", "OUT"]))
        }),
        trial("links::exports", || {
            written(|attack| attack.iowhy(&["export", "IN", "--format", "csv", "-o", "OUT"]))
        }),
        trial("links::recordings", || {
            written(|attack| attack.iowhy(&["export", "IN", "-o", "OUT"]))
        }),
        trial("links::reproductions", || {
            written(|attack| attack.iowhy(&["reproduce", "IN", "-o", "OUT"]))
        }),
        trial("links::watches", watches),
        trial("links::the_daemon", daemon),
    ]
}

/// Root's files, a directory of somebody else, and a program of theirs that swaps.
struct Attack {
    scratch: Arc<Scratch>,
    before: BTreeMap<PathBuf, String>,
    swapper: Child,
}

impl Attack {
    fn new(names: &[&str]) -> Result<Attack> {
        machine::need_root()?;
        let scratch = Scratch::new()?;
        scratch.let_pass()?;
        let (victim, attacked) = (victim(&scratch), scratch.path().join("attacked"));
        let action = || "lay out the attack".to_owned();
        // Directories that a recording has, in which it would be written through a link.
        for name in ["kept", "requests", "waits", "recording", "incidents", "history"] {
            fs::create_dir_all(victim.join("directory").join(name)).context(action)?;
        }
        for name in ["file", "directory/kept/file", "directory/recording.json", "directory/run"] {
            let path = victim.join(name);
            fs::write(&path, "precious").context(action)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).context(action)?;
        }
        fs::create_dir(&attacked).context(action)?;
        chown(&attacked, Some(NOBODY), Some(NOBODY)).context(action)?;
        let program = scratch.path().join("swap");
        fs::copy(compiled_once("swap.c", "swap")?, &program).context(action)?;
        let mut swapper = Command::new(command::find("setpriv")?);
        swapper.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        swapper.args([&attacked, &victim.join("file"), &victim.join("directory")]).args(names);
        scratch.mark(swapper.stdin(Stdio::null()));
        let before = state(&victim)?;
        let swapper = swapper.spawn().context(|| "start the swapper".to_owned())?;
        let attack = Attack { scratch, before, swapper };
        wait_until("the swapper", || Ok(attack.links() > 0))?;
        Ok(attack)
    }

    fn attacked(&self) -> PathBuf {
        self.scratch.path().join("attacked")
    }

    fn output(&self) -> PathBuf {
        self.attacked().join(OUTPUT)
    }

    /// Returns how often an entry was swapped for a link, or a link was planted.
    fn links(&self) -> u64 {
        let text = fs::read_to_string(self.attacked().join(".swaps")).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
    }

    /// iowhy in the directory that is attacked: `IN` is a recording, `OUT` the output.
    fn iowhy(&self, words: &[&str]) -> Result<bool> {
        let input = self.scratch.path().join("input");
        let words = words.iter().map(|word| match *word {
            "IN" => input.clone().into_os_string(),
            "OUT" => self.output().into_os_string(),
            word => word.into(),
        });
        let output = finish(iowhy(words)?)?;
        let said = printed(&output);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{}: {said}", output.status);
        Ok(output.status.success())
    }

    /// Removes the files of writers; a name that is a link is removed itself.
    fn clear(&self) {
        for entry in fs::read_dir(self.attacked()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !OF_SWAPPER.iter().any(|own| name.starts_with(own)) {
                // By then it may be another entry, or be gone.
                let _ = fs::remove_file(entry.path());
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Ends the swapper, and checks that root's files are unchanged.
    fn end(mut self) -> Result<()> {
        process::end(&mut self.swapper);
        assert_eq!(state(&victim(&self.scratch))?, self.before);
        Ok(())
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        process::end(&mut self.swapper);
    }
}

fn victim(scratch: &Scratch) -> PathBuf {
    scratch.path().join("victim")
}

/// Returns the names below `folder`, with owner, mode and content.
fn state(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let action = || format!("read {}", folder.display());
    for entry in fs::read_dir(folder).context(action)? {
        let path = entry.context(action)?.path();
        let about = fs::symlink_metadata(&path).context(action)?;
        let content = match about.is_dir() {
            true => String::new(),
            false => fs::read_to_string(&path).context(action)?,
        };
        let said = format!("{} {:o} {content}", about.uid(), about.mode());
        if about.is_dir() {
            found.append(&mut state(&path)?);
        }
        found.insert(path, said);
    }
    Ok(found)
}

/// Code without regard for links, for comparison.
fn plain_writers() -> Result<()> {
    let attack = Attack::new(&[OUTPUT])?;
    let victim = victim(&attack.scratch);
    let is_led = |path: &str| {
        fs::read_to_string(victim.join(path)).is_ok_and(|content| content != "precious")
    };
    let begun = Instant::now();
    let (mut file, mut directory) = (false, false);
    while !(file && directory) && begun.elapsed() < Duration::from_secs(30) {
        let _ = fs::write(attack.output(), "x");
        file = is_led("file");
        attack.clear();
        let _ = fs::create_dir(attack.output());
        let _ = fs::write(attack.output().join("recording.json"), "x");
        directory = is_led("directory/recording.json");
        attack.clear();
    }
    assert!(file && directory, "the race proves nothing: {file} {directory}");
    Ok(())
}

/// Runs `write` repeatedly in the directory of another user.
fn written(write: impl Fn(&Attack) -> Result<bool>) -> Result<()> {
    let attack = Attack::new(&[OUTPUT])?;
    record(&attack.scratch.path().join("input"))?;
    // Without swaps, it writes.
    process::signal(&attack.swapper, Signal::STOP);
    attack.clear();
    assert!(write(&attack)?, "nothing was written");
    attack.clear();
    process::signal(&attack.swapper, Signal::CONT);
    let mut runs = 0;
    while runs < RUNS || attack.links() < LINKS {
        write(&attack)?;
        runs += 1;
        attack.clear();
    }
    attack.end()
}

/// Writes a small recording.
pub fn record(place: &Path) -> Result<()> {
    let action = || "write a recording".to_owned();
    let mut script = Script::new(10);
    for index in 0..50 {
        let read = script.read("sda", 4096).by(7, "cat").file("/srv/data").at(index * 200_000_000);
        read.direct(100, 200, 3_000_000).add();
    }
    let mut writer = RecordingWriter::create(place, &script.environment).context(action)?;
    writer.add(&script.batch, &script.names).context(action)?;
    writer.finish(&mut script.environment, &script.names).context(action)
}

fn watches() -> Result<()> {
    machine::need_bpf()?;
    let attack = Attack::new(&[OUTPUT])?;
    for _ in 0..WATCHES {
        attack.iowhy(&["record", "-t", "1", "-o", "OUT"])?;
        attack.clear();
        attack.iowhy(&["-t", "1", "--html", "OUT"])?;
        attack.clear();
    }
    assert!(attack.links() >= LINKS, "{} links", attack.links());
    attack.end()
}

/// The daemon's directories are in one of another user.
fn daemon() -> Result<()> {
    machine::need_bpf()?;
    for (state, runtime) in [("state", "elsewhere"), ("elsewhere", "runtime")] {
        let attack = Attack::new(&["state", "runtime"])?;
        let place = |name: &str| match name {
            "elsewhere" => attack.scratch.path().join(name),
            name => attack.attacked().join(name),
        };
        let (state, runtime) = (place(state), place(runtime));
        let with_places = |words: &[&str]| -> Result<Command> {
            let mut command = iowhy(words)?;
            command.arg("--state").arg(&state).arg("--runtime").arg(&runtime);
            Ok(command)
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(12) {
            // It may be refused at its start, or lose its directories: it is started again.
            let mut daemon = with_places(&["daemon"])?;
            daemon.stdout(Stdio::null()).stderr(Stdio::null());
            let mut daemon = daemon.spawn().context(|| "start the daemon".to_owned())?;
            std::thread::sleep(Duration::from_secs(3));
            let mut capture = with_places(&["capture", "a test"])?;
            capture.stdout(Stdio::null()).stderr(Stdio::null());
            let _ = capture.status().context(|| "ask for an incident".to_owned())?;
            process::end(&mut daemon);
        }
        assert!(attack.links() >= LINKS, "{} links", attack.links());
        attack.end()?;
    }
    Ok(())
}
