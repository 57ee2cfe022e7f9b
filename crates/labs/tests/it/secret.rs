//! Of a copied stack only return addresses are kept: the contents of a program's frames are in no
//! file that iowhy writes.

use crate::chains::compiled_with;
use crate::recorder_host::TestDaemon;
use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial_alone};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use iowhy_labs::devices::{Backing, BlockDevice, LabCgroup, Limit, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine, process};
use libtest_mimic::Trial;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The text in every frame of the program, many times over.
const SECRET: &str = "STACKSECRET7F3A9";
/// The text in the process's name.
const NAME: &str = "secret-c";
const MIB: u64 = 1 << 20;
/// Few enough that each write waits for longer than 10 ms.
const WRITES_PER_SECOND: u64 = 40;

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("secret::no_recording_or_page_has_what_is_on_a_stack", recording_and_page),
        trial_alone("secret::no_incident_has_what_is_on_a_stack", incident),
    ]
}

/// The running program; always ended, before its cgroup goes.
struct SecretProgram {
    child: Child,
    _cgroup: LabCgroup,
}

impl SecretProgram {
    fn start(disk: &LoopDevice, scratch: &Arc<Scratch>) -> Result<SecretProgram> {
        let program = compiled_with("secret.c", NAME, &["-O2", "-fomit-frame-pointer"])?;
        assert!(!holds(&content(&program)?), "the program's own file has it");
        let cgroup = LabCgroup::block(scratch)?;
        cgroup.limit(disk, Limit::WriteIops(WRITES_PER_SECOND))?;
        let mut run = Command::new(program);
        run.arg(disk.path()).arg("120");
        let mut inside = cgroup.inside(&run);
        inside.stdout(Stdio::null());
        let shown = command::shown(&inside);
        let child = inside.spawn().context(|| format!("start {shown}"))?;
        Ok(SecretProgram { child, _cgroup: cgroup })
    }
}

impl Drop for SecretProgram {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}

fn content(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("read {}", path.display()))
}

/// Returns whether the secret is in the bytes, as text or as a word that looks like an address.
fn holds(bytes: &[u8]) -> bool {
    let words = SECRET.as_bytes().chunks_exact(8).map(|word| {
        let word = word.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        format!("{word:x}")
    });
    // Half of it is enough; a stack pointer may lie in its middle.
    let halves = [&SECRET[..8], &SECRET[4..12], &SECRET[8..]].map(str::to_owned);
    let mut all = words.chain(halves);
    all.any(|text| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(|entry| of(entry.path())).collect()
}

/// Checks that no file below has it, as text or in a recording's compressed columns.
fn expect_none(directory: &Path, recordings: &[&Path]) -> Result<()> {
    let all = files(directory);
    assert!(all.len() > 3, "there is nothing to look into: {all:?}");
    for file in all {
        assert!(!holds(&content(&file)?), "{}", file.display());
    }
    for recording in recordings {
        let recording = Recording::open(recording)?;
        for half in [&SECRET[..8], &SECRET[4..12], &SECRET[8..]] {
            assert!(!recording.tells(half), "{half}");
        }
        let names =
            recording.stacks.iter().flat_map(|stack| recording.frames(Some(stack.stack_id)));
        assert!(!names.clone().any(|name| holds(name.as_bytes())), "a frame is none");
    }
    Ok(())
}

/// Returns the decompressed data of a page.
fn unpacked(page: &[u8]) -> Vec<u8> {
    let page = String::from_utf8_lossy(page);
    let (_, rest) = page.split_once("id=\"iowhy-data\">").expect("the page has data");
    let (packed, _) = rest.split_once('<').expect("the data ends");
    let packed = STANDARD.decode(packed.trim()).expect("base64");
    let mut bytes = Vec::new();
    ZlibDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("compressed data");
    bytes
}

/// A recording with copied stacks, its output, and its page.
fn recording_and_page() -> Result<()> {
    machine::need_bpf()?;
    // The search finds a secret that is there.
    let hidden = format!("x{SECRET}y");
    assert!(holds(hidden.as_bytes()) && holds(b"0x4345534b43415453") && !holds(b"STACK"));
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 16 * MIB)?;
    let running = SecretProgram::start(&disk, &scratch)?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", "3", "-o"])?;
    record.arg(&output);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    drop(running);
    let recording = Recording::open(&output)?;
    let copied = recording.environment.cost.copied_stacks;
    let is_unwound = |stack: &iowhy_model::Stack| {
        stack.complete
            && recording.text(stack.unwound_by) == ".eh_frame"
            && recording.frames(Some(stack.stack_id)).contains(&"write_with_secret")
    };
    assert!(copied > 0 && recording.stacks.iter().any(is_unwound), "{copied} stacks were copied");
    expect_none(&output, &[&output])?;
    let path = output.to_string_lossy().into_owned();
    for words in [
        &["report", "--full"][..],
        &["report", "--json"],
        &["stacks", "--json"],
        &["waits", "--json"],
        &["chains", "--json"],
        &["events"],
    ] {
        let mut command = iowhy(words)?;
        command.arg(&path);
        let text = printed(&finish(command)?);
        assert!(!holds(text.as_bytes()), "{words:?}: {text}");
    }
    let page = scratch.fresh("page.html");
    let mut report = iowhy(["report", "--html"])?;
    report.arg(&page).arg(&path);
    let result = finish(report)?;
    if !result.status.success() && printed(&result).contains("built without the page's script") {
        return Ok(());
    }
    assert!(result.status.success(), "{}", printed(&result));
    let page = content(&page)?;
    assert!(!holds(&page) && !holds(&unpacked(&page)), "the page has it");
    Ok(())
}

/// The flight recorder's ring and incidents.
fn incident() -> Result<()> {
    let mut daemon = TestDaemon::new(None)?;
    daemon.start(&[], "")?;
    let disk = LoopDevice::new(&daemon.scratch, Backing::Tmpfs, 16 * MIB)?;
    let running = SecretProgram::start(&disk, &daemon.scratch)?;
    std::thread::sleep(std::time::Duration::from_secs(4));
    daemon.printed(&["capture", "a test"])?;
    daemon.wait_for_incident(1);
    let ring = daemon.runtime.join("ring");
    for file in files(&ring) {
        // The oldest round may be removed meanwhile.
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(!holds(&bytes), "{}", file.display());
    }
    let kept = daemon.directory(1);
    let mut recordings: Vec<PathBuf> =
        files(&kept).into_iter().filter(|file| file.ends_with("recording.json")).collect();
    recordings.iter_mut().for_each(|recording| {
        recording.pop();
    });
    assert!(!recordings.is_empty(), "{:?}", files(&kept));
    let recordings: Vec<&Path> = recordings.iter().map(PathBuf::as_path).collect();
    expect_none(&daemon.state, &recordings)?;
    assert!(!holds(daemon.log().as_bytes()), "its log");
    drop(running);
    Ok(())
}
