//! Mistakes of users, and hostile contents of machines: a clear message, never a panic, and no
//! written data is lost.

use crate::recording::Recording;
use crate::support::{finish, iowhy, labs_program, printed, refused, trial, watch};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine};
use libtest_mimic::Trial;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("bad_input::unknown_device", unknown_device),
        trial("bad_input::unknown_option", unknown_option),
        trial("bad_input::output_exists", output_exists),
        trial("bad_input::output_cannot_be_made", output_cannot_be_made),
        trial("bad_input::command_is_not_there", command_is_not_there),
        trial("bad_input::command_cannot_run", command_cannot_run),
        trial("bad_input::not_a_recording", not_a_recording),
        trial("bad_input::newer_recording", newer_recording),
        trial("bad_input::damaged_recording", damaged_recording),
        trial("bad_input::disk_full", disk_full),
        trial("bad_input::device_vanishes", device_vanishes),
        trial("bad_input::hostile_names", hostile_names),
        trial("bad_input::broken_pipe", broken_pipe),
    ]
}

fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().context(|| "make a folder".to_owned())
}

fn unknown_device() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    for device in ["nosuchdisk9", "../../etc", "", "loop0\u{1b}[31m"] {
        let mut record = iowhy(["record", "-t", "1", "-d", device, "-o"])?;
        record.arg(folder.path().join("recording"));
        let (_, text) = refused(record)?;
        assert!(!text.contains('\u{1b}'), "the terminal's escape is escaped: {text:?}");
    }
    let (_, text) = refused(iowhy(["record", "-t", "1", "-d", "nosuchdisk9"])?)?;
    assert!(text.contains("nosuchdisk9"), "{text}");
    Ok(())
}

fn unknown_option() -> Result<()> {
    for arguments in [&["--nonsense"][..], &["record", "-t", "-1"], &["record", "-t", "nan"]] {
        let output = finish(iowhy(arguments)?)?;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", printed(&output));
    }
    Ok(())
}

fn output_exists() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    fs::write(folder.path().join("precious"), "data").context(|| "make a file".to_owned())?;
    let mut record = iowhy(["record", "-t", "1", "-o"])?;
    record.arg(folder.path());
    let (_, text) = refused(record)?;
    assert!(text.contains("hint: "), "{text}");
    let left: Vec<_> = fs::read_dir(folder.path()).into_iter().flatten().flatten().collect();
    assert_eq!(left.len(), 1, "nothing was added beside the file");
    Ok(())
}

fn output_cannot_be_made() -> Result<()> {
    machine::need_bpf()?;
    refused(iowhy(["record", "-t", "1", "-o", "/proc/nowhere/recording"])?)?;
    refused(iowhy(["record", "-t", "1", "-o", "/dev/null/recording"])?)?;
    Ok(())
}

fn command_is_not_there() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    let mut record = iowhy(["record", "-o"])?;
    record.arg(folder.path().join("recording")).args(["--", "/no/such/program"]);
    let (_, text) = refused(record)?;
    assert!(text.contains("/no/such/program"), "{text}");
    Ok(())
}

/// A file that is no program leaves no recording, whether that shows before the watch or at its
/// start.
fn command_cannot_run() -> Result<()> {
    machine::need_bpf()?;
    let folder = folder()?;
    let file = |name: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, "#!/no/such/interpreter\n").context(|| "make a file".to_owned())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .context(|| "set its mode".to_owned())?;
        Ok(path)
    };
    let cases = [
        (file("data", 0o644)?, "cannot be executed", "chmod +x"),
        (folder.path().to_owned(), "is a directory", "the program to run"),
        (file("script", 0o755)?, "No such file", "interpreter"),
    ];
    for (program, cause, hint) in cases {
        let output = folder.path().join("recording");
        let mut record = iowhy(["record", "-o"])?;
        record.arg(&output).arg("--").arg(&program);
        let (_, text) = refused(record)?;
        assert!(text.contains(&*program.to_string_lossy()) && text.contains(cause), "{text}");
        assert!(text.contains("hint: ") && text.contains(hint), "{text}");
        assert!(!output.exists(), "no recording of nothing: {text}");
    }
    Ok(())
}

fn report(path: &Path) -> Result<Command> {
    let mut command = iowhy(["report"])?;
    command.arg(path);
    Ok(command)
}

fn not_a_recording() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("file");
    fs::write(&file, "text").context(|| "make a file".to_owned())?;
    refused(report(&file)?)?;
    refused(report(&folder.path().join("nothing"))?)?;
    refused(report(folder.path())?)?;
    let deep = "[".repeat(1 << 20);
    for content in ["", "{", "[]", "null", "{\"format\": \"one\"}", &deep] {
        fs::write(folder.path().join("recording.json"), content).context(|| "write".to_owned())?;
        refused(report(folder.path())?)?;
    }
    Ok(())
}

fn newer_recording() -> Result<()> {
    let folder = folder()?;
    let content = r#"{"format": 4000000000, "version": "99.0", "source": "live"}"#;
    fs::write(folder.path().join("recording.json"), content).context(|| "write".to_owned())?;
    let (_, text) = refused(report(folder.path())?)?;
    assert!(text.contains("4000000000") && text.contains("99.0"), "{text}");
    Ok(())
}

/// A recording of a few reads, and the folder that holds it.
fn small_recording(scratch: &std::sync::Arc<Scratch>) -> Result<PathBuf> {
    let device = LoopDevice::new(scratch, Backing::Tmpfs, 16 * MIB)?;
    let output = scratch.fresh("recording");
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 97, 4096);
    watch(&device, &output, &job.command(&scratch.fresh("fio.json"))?)?;
    Ok(output)
}

fn segments(recording: &Path) -> Vec<PathBuf> {
    let tables = fs::read_dir(recording).into_iter().flatten().flatten();
    let files = tables.flat_map(|table| fs::read_dir(table.path()).into_iter().flatten().flatten());
    files.map(|entry| entry.path()).collect()
}

/// Each segment in turn is cut short, emptied, or overwritten in the middle: a report names it, or
/// does without what it cannot need.
fn damaged_recording() -> Result<()> {
    let scratch = Scratch::new()?;
    let recording = small_recording(&scratch)?;
    for segment in segments(&recording) {
        let whole = fs::read(&segment).context(|| "read a segment".to_owned())?;
        let mut scribbled = whole.clone();
        let middle = scribbled.len() / 3..scribbled.len() / 2;
        scribbled[middle].fill(0xff);
        for damaged in [&whole[..whole.len() / 2], &whole[..whole.len() - 1], &[], &scribbled] {
            fs::write(&segment, damaged).context(|| "damage a segment".to_owned())?;
            let output = finish(report(&recording)?)?;
            let text = printed(&output);
            assert!(!text.contains("panicked"), "{}: {text}", segment.display());
            let name = segment.file_name().unwrap_or_default().to_string_lossy();
            assert!(
                output.status.success() || text.contains(&*name),
                "{name} is not named: {text}"
            );
        }
        fs::write(&segment, &whole).context(|| "mend a segment".to_owned())?;
    }
    Ok(())
}

/// The disk that the recording goes to fills up: the watch stops, says so, and keeps what is whole.
/// It has room for the segments of some ten seconds.
fn disk_full() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let small = scratch.fresh("small");
    fs::create_dir(&small).context(|| "make a folder".to_owned())?;
    command::run("mount", ["-ttmpfs", "-osize=16m", "iowhy-labs", &small.to_string_lossy()])?;
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 4096);
    let job = job.direct().with("iodepth", "16").with("size", "64m").timed(60);
    let fio = job.command(&scratch.fresh("fio.json"))?;
    let output = small.join("recording");
    let mut record = iowhy(["record", "-d", device.name(), "-o"])?;
    record.arg(&output).arg("--").arg(fio.get_program()).args(fio.get_args());
    let result = finish(record)?;
    let text = printed(&result);
    assert!(!text.contains("panicked"), "{text}");
    assert!(text.contains("No space left") || text.contains("full"), "{text}");
    let kept = Recording::open(&output)?;
    assert!(!kept.requests.is_empty(), "everything written before is intact");
    let shown = finish(report(&output)?)?;
    assert!(shown.status.success(), "{}", printed(&shown));
    command::run("umount", [&small]).map(drop)
}

fn device_vanishes() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 * MIB)?;
    let output = scratch.fresh("recording");
    let script = format!(
        "dd if={0} of=/dev/null bs=64k count=64 iflag=direct status=none; losetup --detach {0}; \
         sleep 1",
        device.path().display()
    );
    let mut record = iowhy(["record", "-d", device.name(), "-o"])?;
    record.arg(&output).args(["--", "/bin/sh", "-c", &script]);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    recording.expect_count("reads before it vanished", recording.requests.len(), 64);
    Ok(())
}

/// Names that would break a terminal or a parser are shown escaped, and are found again as they
/// are.
fn hostile_names() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let names: [&[u8]; 5] = [
        b"new\nline",
        b"esc\x1b]0;owned\x07\x1b[31m",
        b"bad\xff\xfeutf8",
        b"csi\xc2\x9b31m",
        b"<b>&'\"\t",
    ];
    let mut script = Command::new("/bin/sh");
    script.args([
        "-c",
        r#"program=$1; shift; for file in "$@"; do "$program" workload read "$file"; done"#,
        "sh",
    ]);
    // The process gets its name from the file that is executed.
    let program = scratch.path().join(OsStr::from_bytes(b"p\x1b[31m\n\xff"));
    std::os::unix::fs::symlink(labs_program(), &program).context(|| "make a link".to_owned())?;
    script.arg(&program);
    for name in names {
        script.arg(iowhy_labs::fio::prepare(&disk.path().join(OsStr::from_bytes(name)), 4096)?);
    }
    disk.remount()?;
    let output = scratch.fresh("recording");
    let recording = watch(disk.device(), &output, &script)?;
    let reads = recording.pairs().filter(|(_, part)| part.file.is_some()).count();
    recording.expect_count("reads of hostile names", reads, names.len() as u64);
    for arguments in [&["report"][..], &["report", "--json"]] {
        let mut command = iowhy(arguments)?;
        let shown = finish({
            command.arg(&output);
            command
        })?;
        assert!(shown.status.success(), "{}", printed(&shown));
        let text = String::from_utf8(shown.stdout).expect("what iowhy prints is UTF-8");
        let raw = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(raw, None, "{arguments:?} prints a control character:\n{text:?}");
        assert!(!text.contains("new\nline"), "{arguments:?} prints a newline of a name:\n{text}");
    }
    Ok(())
}

fn broken_pipe() -> Result<()> {
    let scratch = Scratch::new()?;
    let recording = small_recording(&scratch)?;
    for option in ["--json", "--"] {
        let mut command = iowhy(["report", option])?;
        command.arg(&recording).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context(|| "start iowhy".to_owned())?;
        drop(child.stdout.take());
        let output = child.wait_with_output().context(|| "wait for iowhy".to_owned())?;
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "with {option}");
    }
    Ok(())
}
