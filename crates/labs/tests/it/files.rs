//! The calls of programs on files: the counts are those of a known workload, by each interface of
//! the kernel.

use crate::chains::compiled;
use crate::recording::Recording;
use crate::support::{finish, iowhy, is_guest, labs_program, printed, trial, trial_alone, watch};
use iowhy_labs::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{self, Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::workload::{TOUCHED, Workload};
use iowhy_labs::{LabError, Result, command, machine};
use iowhy_model::file::Counts;
use iowhy_model::path_patterns::without_numbers;
use iowhy_model::{FileActivity, FileKind};
use libtest_mimic::Trial;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Files of which every removal can be listed one by one.
const MOST_LISTED: u64 = 1000;
/// Files that live for a moment, as many as take some seconds.
const SHORT_LIVED: u64 = 600;
/// Rows of files in a watch, and in each second of one in a guest, which takes longer.
const MOST_ROWS: usize = 10_000;
const MOST_ROWS_A_SECOND: usize = 2000;
/// Number of attempts while others' removals are recorded.
const ROUNDS: u32 = 5;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("files::every_call_counts_ext4", || touched(FileSystemKind::Ext4, 200)),
        trial("files::every_call_counts_xfs", || touched(FileSystemKind::Xfs, 200)),
        trial("files::very_many_files_are_patterns", || touched(FileSystemKind::Ext4, 5000)),
        trial_alone("files::short_lives_are_known", short_lives),
        trial("files::read_by_system_calls", || read_by(Engine::Psync)),
        trial("files::read_by_libaio", || read_by(Engine::Libaio)),
        trial("files::read_by_io_uring", || read_by(Engine::IoUring)),
        trial("files::read_by_io_uring_workers", || read_by(Engine::IoUringForceAsync)),
        trial("files::mapped", mapped),
        trial("files::paths_that_are_hard_to_read", hard_paths),
        trial("files::too_many_calls_switch_it_off", too_many),
        trial("files::can_be_left_out", left_out),
        trial("files::deleted_files_are_held", held),
        trial("files::each_open_is_a_line", opens),
        trial("files::each_open_by_io_uring_is_a_line", uring_opens),
    ]
}

fn disk(scratch: &Arc<Scratch>, kind: FileSystemKind) -> Result<LabFileSystem> {
    let device = LoopDevice::new(scratch, Backing::Tmpfs, 512 * MIB)?;
    LabFileSystem::new(scratch, device, kind)
}

/// Returns the program's activity on files below `folder`, row by row.
fn rows_of<'a>(recording: &'a Recording, program: &str, folder: &Path) -> Vec<&'a FileActivity> {
    let folder = folder.to_str().expect("tests name their files in UTF-8");
    // Of very many files there are only patterns.
    let pattern = without_numbers(folder);
    let is_own = |row: &&FileActivity| {
        let path = recording.text(row.file);
        let is_below = path.starts_with(folder) || path.starts_with(&pattern);
        recording.text(row.process) == program && is_below
    };
    recording.files.iter().filter(is_own).collect()
}

/// A machine that is too busy loses names, and says so: then nothing can be counted by file. Single
/// removals and renames that are not listed do not matter here: the directory's row counts them.
fn expect_names(recording: &Recording) -> Result<()> {
    match lost(recording, &["ring_details", "uses"]) {
        None => Ok(()),
        Some(loss) => Err(LabError::Unsupported {
            what: format!("time to spare: lost {loss}"),
            hint: "run it while the machine is less busy".to_owned(),
        }),
    }
}

/// Returns the losses in one of these places.
fn lost(recording: &Recording, places: &[&str]) -> Option<String> {
    let items = &recording.environment.losses.items;
    let loss = items.iter().find(|loss| places.contains(&loss.place.as_str()))?;
    Some(format!("{} {}", loss.count, loss.meaning))
}

fn sum_of(rows: &[&FileActivity]) -> Counts {
    let mut sum = Counts::default();
    rows.iter().for_each(|row| sum.add(&row.counts()));
    sum
}

fn touched(kind: FileSystemKind, files: u64) -> Result<()> {
    let workload = |folder| Workload::Touch { folder, files };
    until_listed(kind, workload, |recording, rows, each_listed| {
        expect_sums(recording, rows, files);
        if each_listed && files <= MOST_LISTED {
            expect_lives(recording, rows, files);
        }
        each_listed || files > MOST_LISTED
    })
}

/// A file may be gone before anybody has read that it was made. Alone, since others' tests make so
/// many calls that those on files are no longer looked at.
fn short_lives() -> Result<()> {
    let workload = |folder| Workload::ShortLived { folder, files: SHORT_LIVED };
    until_listed(FileSystemKind::Ext4, workload, |recording, rows, each_listed| {
        if each_listed {
            let known = rows.iter().filter(|row| row.lifetime_ns.is_some());
            expect_calls(recording, "lives", known.map(|row| row.unlinks).sum(), SHORT_LIVED);
        }
        each_listed
    })
}

/// Watches the workload until `judge` is content; it is given whether each removal was listed.
fn until_listed(
    kind: FileSystemKind,
    workload: impl Fn(PathBuf) -> Workload,
    judge: impl Fn(&Recording, &[&FileActivity], bool) -> bool,
) -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, kind)?;
    for round in 0..ROUNDS {
        let folder = disk.path().join(format!("touched{round}"));
        std::fs::create_dir(&folder).context(|| "make a folder".to_owned())?;
        let command = workload(folder.clone()).command(labs_program());
        let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
        expect_names(&recording)?;
        let rows = rows_of(&recording, "iowhy-labs", &folder);
        // Others' removals share what is listed one by one in a second: then once more.
        let each_listed = lost(&recording, &["ring_calls", "calls"]).is_none();
        if judge(&recording, &rows, each_listed) {
            return Ok(());
        }
    }
    Err(LabError::unsupported(
        "time to spare for single removals",
        "run it while the machine is less busy",
    ))
}

/// Checks that `found` is `expected` without the calls that are counted as lost, which are fewer
/// than those listed. From 7.x on a task can be preempted in a program, and calls of other tasks on
/// that CPU are only counted until it runs again. They include iowhy's own calls, which are never
/// listed.
fn expect_calls(recording: &Recording, what: &str, found: u64, expected: u64) {
    let lost = recording.lost_at("programs_calls");
    let all = recording.shortcomings();
    let listed: u64 = recording.files.iter().map(|row| calls(&row.counts())).sum();
    assert!(lost <= listed.max(100), "{lost} calls skipped, {listed} listed, {what}\n{all}");
    let most = found * 2 >= expected;
    assert!(
        most && found <= expected && found + lost >= expected,
        "{found} {what} of {expected}\n{all}"
    );
}

fn calls(counts: &Counts) -> u64 {
    counts.opens + counts.reads + counts.writes + counts.stats + counts.fsyncs + counts.unlinks
}

/// Every call is counted, listed one by one or not.
fn expect_sums(recording: &Recording, rows: &[&FileActivity], files: u64) {
    let sum = sum_of(rows);
    let expect = |what: &str, found: u64, expected: u64| {
        expect_calls(recording, &format!("{what} in {sum:?}"), found, expected);
    };
    expect("creates", sum.creates, files);
    expect("opens", sum.opens, files + 1);
    expect("writes", sum.writes, 3 * files);
    expect("writes' bytes", sum.write_bytes / TOUCHED.0, 3 * files);
    expect("reads", sum.reads, 2 * files);
    expect("reads' bytes", sum.read_bytes / TOUCHED.1, 2 * files);
    assert!(sum.write_bytes.is_multiple_of(TOUCHED.0) && sum.read_bytes.is_multiple_of(TOUCHED.1));
    expect("syncs", sum.fsyncs, files.div_ceil(10));
    // Opening a folder to list it asks about it once more, or not.
    expect("stats", sum.stats, files.max(sum.stats.min(files + 1)));
    expect("failures, of names that do not exist", sum.failures, files);
    expect("scans", sum.scans.min(2), 2);
    expect("renames", sum.renames, files.div_ceil(2));
    expect("removals", sum.unlinks, files);
    assert!(sum.timed_calls > 0 && sum.fsync_ns > 0, "{sum:?}");
    let seconds = recording.environment.duration_ns().div_ceil(1_000_000_000) as usize;
    let rows = recording.files.len();
    let most = if is_guest() { MOST_ROWS_A_SECOND * (seconds + 1) } else { MOST_ROWS };
    assert!(rows < most, "{rows} rows in {seconds} s");
}

/// Each file was made and removed, half of them under another name.
fn expect_lives(recording: &Recording, rows: &[&FileActivity], files: u64) {
    let lives: Vec<u64> = rows.iter().filter_map(|row| row.lifetime_ns).collect();
    expect_calls(recording, "lives", lives.len() as u64, files);
    assert!(lives.iter().all(|ns| *ns > 0 && *ns < recording.environment.duration_ns()));
    let removed = rows.iter().filter(|row| row.unlinks > 0);
    let renamed = removed.filter(|row| recording.text(row.file).ends_with(".new")).count();
    expect_calls(recording, "lives under another name", renamed as u64, files.div_ceil(2));
    let of = |kind: FileKind| rows.iter().filter(move |row| row.file_type == Some(kind));
    assert!(of(FileKind::File).any(|row| row.reads > 0), "{rows:?}");
    assert!(of(FileKind::File).all(|row| row.scans == 0), "{rows:?}");
    assert!(of(FileKind::Directory).any(|row| row.scans > 0), "{rows:?}");
    assert!(of(FileKind::Directory).all(|row| row.reads + row.writes == 0), "{rows:?}");
}

/// A prime number of reads gives that many, with their bytes, on the file that was read.
fn read_by(engine: Engine) -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 8 * MIB)?;
    let job = Job::strided(&file, engine, FioAccess::Read, 997, PAGE);
    for _ in 0..ROUNDS {
        let command = job.command(&scratch.fresh("fio.json"))?;
        let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
        expect_names(&recording)?;
        let rows = rows_of(&recording, "fio", &file);
        let sum = sum_of(&rows);
        let by_uring = matches!(engine, Engine::IoUring | Engine::IoUringForceAsync);
        // Before 5.17 completions of io_uring do not tell their requests: that is reported, and
        // nothing is made up.
        if by_uring && stated(&recording, NO_URING) > 0 {
            assert_eq!((sum.reads, sum.read_bytes), (0, 0), "{sum:?}");
            return Ok(());
        }
        expect_calls(&recording, "reads", sum.reads, 997);
        assert_eq!(sum.read_bytes, sum.reads * PAGE, "{rows:?}");
        assert_eq!(sum.writes, 0, "{sum:?}");
        assert!(rows.iter().all(|row| row.files == Some(1) && row.device.is_some()), "{rows:?}");
        assert!(rows.iter().all(|row| row.file_type == Some(FileKind::File)), "{rows:?}");
        if sum.opens == 1 {
            return Ok(());
        }
        // The only call may be one that iowhy's program missed; but hardly each time.
        let lost = recording.lost_at("programs_calls");
        assert!(sum.opens == 0 && lost > 0, "{lost} calls lost: {sum:?}");
    }
    panic!("fio's open was not seen in {ROUNDS} watches")
}

/// The reason why nothing is known of io_uring's activity on files.
const NO_URING: &str = "this kernel has no io_uring_complete with a request argument";

/// Returns how many limits of the watch have that reason.
fn stated(recording: &Recording, reason: &str) -> usize {
    recording.environment.limits.iter().filter(|limit| limit.contains(reason)).count()
}

fn mapped() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 8 * MIB)?;
    disk.remount()?;
    let job = Job::new(&file, Engine::Mmap, FioAccess::RandomRead, PAGE).with("size", "8M");
    let command = job.command(&scratch.fresh("fio.json"))?;
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    expect_names(&recording)?;
    let sum = sum_of(&rows_of(&recording, "fio", &file));
    // Older kernels have no tracepoint of page faults: that is reported, and nothing is made up.
    if stated(&recording, "this kernel has no mm_filemap") > 0 {
        assert_eq!(stated(&recording, "this kernel has no mm_filemap_fault"), 1);
        assert_eq!(stated(&recording, "this kernel has no mm_filemap_map_pages"), 1);
        assert_eq!((sum.faults, sum.fault_bytes), (0, 0), "{sum:?}");
        return Ok(());
    }
    let all = recording.shortcomings();
    assert!(sum.faults > 0 && sum.fault_bytes >= 8 * MIB, "{sum:?}\n{all}");
    assert_eq!(sum.reads, 0, "{sum:?}");
    Ok(())
}

/// Relative paths, paths from a folder, a changed root, paths that are too long, odd names.
fn hard_paths() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, FileSystemKind::Ext4)?;
    let script = r#"
        import os, sys
        top = sys.argv[1]
        os.makedirs(top + "/sub/deep")
        def use(path, **at):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, **at))
            os.unlink(path, **at)
        os.chdir(top + "/sub")
        use("relative")
        use("./deep/../dots")
        folder = os.open("deep", os.O_RDONLY)
        use("from-folder", dir_fd=folder)
        use(b"odd\x1b[31m\xff\nname")
        try:
            os.stat("/" + "x/" * 3000)
        except OSError:
            pass
        os.chroot(top)
        use("/sub/in-chroot")
    "#;
    let script: Vec<&str> = script.lines().map(|line| line.get(8..).unwrap_or("")).collect();
    let mut command = Command::new(command::find("python3")?);
    command.args(["-c", &script.join("\n")]).arg(disk.path());
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    expect_names(&recording)?;
    let gone: Vec<PathBuf> = recording
        .files
        .iter()
        .filter(|row| row.lifetime_ns.is_some())
        .map(|row| PathBuf::from(recording.text(row.file)))
        .collect();
    for name in ["relative", "dots", "deep/from-folder", "in-chroot"] {
        let path = disk.path().join("sub").join(name);
        assert!(gone.contains(&path), "{} is not among {gone:?}", path.display());
    }
    assert_eq!(gone.len(), 5, "{gone:?}");
    Ok(())
}

/// Calls that cost more than the budget are no longer counted, and the recording says so.
fn too_many() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let output = scratch.path().join("watched");
    let mut record = iowhy(["record", "--budget", "0.1", "-o"])?;
    record.arg(&output).args(["--", "timeout", "4", "dd", "if=/dev/zero", "of=/dev/null", "bs=1"]);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let environment = Recording::open(&output)?.environment;
    let limits = &environment.limits;
    assert!(limits.iter().any(|limit| limit.contains("were not counted")), "{limits:?}");
    assert!(environment.thinning.iter().any(|level| !level.calls), "{:?}", environment.thinning);
    Ok(())
}

fn left_out() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let output = scratch.path().join("watched");
    let mut record = iowhy(["record", "--no-files", "-t", "1", "-o"])?;
    record.arg(&output);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    assert!(Recording::open(&output)?.files.is_empty());
    Ok(())
}

/// A deleted file that is held takes its space until it is closed.
fn held() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, FileSystemKind::Ext4)?;
    let path = disk.path().join("gone\x1b");
    let file = std::fs::File::create(&path).context(|| "make a file".to_owned())?;
    file.write_all_at(&vec![1; 3 * MIB as usize], 0).context(|| "fill it".to_owned())?;
    file.sync_all().context(|| "have it written".to_owned())?;
    std::fs::remove_file(&path).context(|| "remove its name".to_owned())?;
    let look = |more: &[&str]| -> Result<String> {
        let mut command = iowhy(["opens", "--held", "-f"])?;
        command.arg(disk.path()).args(["-p", &std::process::id().to_string()]).args(more);
        let result = finish(command)?;
        assert!(result.status.success(), "{}", printed(&result));
        Ok(String::from_utf8_lossy(&result.stdout).into_owned())
    };
    let answer: serde_json::Value = serde_json::from_str(&look(&["--json"])?).expect("JSON");
    let row = &answer["held"][0];
    assert_eq!(row["file"], path.to_str().expect("UTF-8"), "{answer}");
    assert_eq!((&row["fd"], &row["mode"]), (&file.as_raw_fd().to_string().into(), &"w".into()));
    assert_eq!((&row["deleted"], &row["size"]), (&true.into(), &(3 * MIB).into()));
    assert_eq!(
        (&answer["deleted_files"], &answer["deleted_bytes"]),
        (&1.into(), &(3 * MIB).into())
    );
    let here = look(&["--json", "-d", disk.device().name()])?;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&here).expect("JSON"), answer);
    let screen = look(&[])?;
    assert!(screen.contains("gone\\x1b (deleted)") && screen.contains("3.00 MiB."), "{screen}");
    drop(file);
    assert!(look(&[])?.contains("No matching file is held open."));
    Ok(())
}

/// Opens during a watch are listed with their descriptor, or with their error.
fn uring_opens() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let path = scratch.path().join("there");
    std::fs::write(&path, "x").context(|| "make a file".to_owned())?;
    let program = compiled("uring_open.c", "uring-open")?;
    let mut command = Command::new(program);
    command.arg(&path).stdin(Stdio::piped());
    let mut opener = command.spawn().context(|| "start the program".to_owned())?;
    let mut watch = iowhy(["opens", "--json", "-t", "3", "-f"])?;
    watch.arg(scratch.path()).args(["-p", &opener.id().to_string()]);
    let result = finish(watch);
    drop(opener.stdin.take());
    let ended = opener.wait().context(|| "wait for the program".to_owned())?;
    if ended.code() == Some(77) {
        return Err(LabError::unsupported("io_uring", "sysctl kernel.io_uring_disabled=0"));
    }
    let result = result?;
    assert!(ended.success() && result.status.success(), "{ended}: {}", printed(&result));
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let is_right = |line: &serde_json::Value| {
        let file = line["file"] == path.to_str().expect("UTF-8");
        file && line["process"] == "uring-open" && line["error"].is_null() && line["fd"].is_u64()
    };
    // If the kernel does not provide them, the output says so instead.
    let unlisted = printed(&result).contains(NO_URING);
    let right = lines.iter().all(is_right) && lines.is_empty() == unlisted;
    assert!(right, "{}", printed(&result));
    Ok(())
}

fn opens() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let (there, missing) = (scratch.path().join("there"), scratch.path().join("missing"));
    std::fs::write(&there, "x").context(|| "make a file".to_owned())?;
    let mut command = iowhy(["opens", "--json", "-t", "3", "-f"])?;
    command.arg(scratch.path()).args(["-p", &std::process::id().to_string()]);
    let watch = std::thread::spawn(move || finish(command));
    let mut descriptors = Vec::new();
    while !watch.is_finished() {
        let file = std::fs::File::open(&there).context(|| "open a file".to_owned())?;
        descriptors.push(file.as_raw_fd());
        assert!(std::fs::File::open(&missing).is_err());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let result = watch.join().expect("it does not panic")?;
    assert!(result.status.success(), "{}", printed(&result));
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |path: &Path| -> Vec<_> {
        lines.iter().filter(|line| line["file"] == path.to_str().expect("UTF-8")).collect()
    };
    let (worked, failed) = (of(&there), of(&missing));
    assert!(!worked.is_empty() && !failed.is_empty(), "{}", printed(&result));
    let is_own = |line: &&serde_json::Value| {
        descriptors.iter().any(|fd| line["fd"] == *fd) && line["error"].is_null()
    };
    assert!(worked.iter().all(is_own), "{worked:?}");
    let disk = &worked[0]["device"];
    assert!(
        worked.iter().chain(&failed).all(|line| line["device"] == *disk),
        "{}",
        printed(&result)
    );
    // ENOENT
    assert!(failed.iter().all(|line| line["error"] == 2 && line["fd"].is_null()), "{failed:?}");
    Ok(())
}
