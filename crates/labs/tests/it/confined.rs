//! A watch, a recording and the daemon give up rights once they have begun: every thread of theirs,
//! and the process that reads others.

use crate::support::{finish, iowhy, trial};
use crate::top::LabTerminal;
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, machine, process};
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a start may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers of capabilities that no thread has once a watch has begun: linux/capability.h.
pub const OF_NOBODY: &[(&str, u32)] = &[
    ("CAP_CHOWN", 0),
    ("CAP_FOWNER", 3),
    ("CAP_SETPCAP", 8),
    ("CAP_NET_ADMIN", 12),
    ("CAP_NET_RAW", 13),
    ("CAP_SYS_MODULE", 16),
    ("CAP_SYS_CHROOT", 18),
    ("CAP_SYS_BOOT", 22),
    ("CAP_SYS_TIME", 25),
    ("CAP_MKNOD", 27),
];
/// Capabilities that no thread of a watch without renewal has.
const TO_LOAD: &[(&str, u32)] = &[("CAP_PERFMON", 38)];
/// Capabilities that only the thread of a hook has.
const OF_HOOK: &[(&str, u32)] = &[("CAP_KILL", 5), ("CAP_SETGID", 6), ("CAP_SETUID", 7)];

pub fn tests() -> Vec<Trial> {
    vec![
        trial("confined::a_recording", recording),
        trial("confined::a_watch_with_a_page", watch),
        trial("confined::views", views),
        trial("confined::stages_with_files_of_btt", stages),
        trial("confined::top", top),
        trial("confined::the_daemon", daemon),
    ]
}

/// A thread as the kernel describes it.
pub struct Limited {
    pub tid: u32,
    pub name: String,
    no_new_privileges: bool,
    is_filtered: bool,
    permitted: u64,
}

impl Limited {
    fn parse(tid: u32, status: &str) -> Limited {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        Limited {
            tid,
            name: field("Name:"),
            no_new_privileges: field("NoNewPrivs:") == "1",
            is_filtered: field("Seccomp:") == "2",
            permitted: u64::from_str_radix(&field("CapPrm:"), 16).unwrap_or(u64::MAX),
        }
    }

    /// Returns those of `capabilities` that it has.
    fn has(&self, capabilities: &[(&'static str, u32)]) -> Vec<&'static str> {
        let held = capabilities.iter().filter(|(_, number)| self.permitted >> number & 1 == 1);
        held.map(|(name, _)| *name).collect()
    }
}

/// All threads of a process, and of those that it started.
fn threads(pid: u32) -> Vec<Limited> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for task in tasks.map(|task| task.path()) {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        let tid = task.file_name().and_then(|name| name.to_str()?.parse().ok());
        let tid = tid.filter(|_| !status.is_empty());
        found.extend(tid.map(|tid| Limited::parse(tid, &status)));
    }
    found.extend(children(pid).into_iter().flat_map(threads));
    found
}

/// Waits until every thread is limited, and returns them; panics with those that are not.
pub fn limited(pid: u32, never: &[(&'static str, u32)]) -> Vec<Limited> {
    let begun = Instant::now();
    loop {
        let threads = threads(pid);
        let fault = |limited: &&Limited| {
            let is_hook = limited.name == "hook";
            let held = limited.has(if is_hook { OF_NOBODY } else { never });
            !held.is_empty() || !(is_hook || limited.no_new_privileges && limited.is_filtered)
        };
        let faults: Vec<String> = threads
            .iter()
            .filter(fault)
            .map(|thread| {
                format!("{}: {} {:?}", thread.name, thread.is_filtered, thread.has(never))
            })
            .collect();
        if faults.is_empty() && threads.iter().any(|thread| thread.name == "writer") {
            return threads;
        }
        assert!(begun.elapsed() < PATIENCE, "of {}: {faults:#?}", threads.len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends it as a person does, and checks that it succeeds.
pub fn end(mut child: Child) -> Result<()> {
    process::end(&mut child);
    let status = child.wait().context(|| "wait for iowhy".to_owned())?;
    assert!(status.success(), "{status}");
    Ok(())
}

fn all(of: &[&[(&'static str, u32)]]) -> Vec<(&'static str, u32)> {
    of.concat()
}

fn recording() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let place = scratch.fresh("recording");
    let mut command = iowhy(["record", "-t", "120", "-o"])?;
    command.arg(&place).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().context(|| "start iowhy".to_owned())?;
    limited(child.id(), &all(&[OF_NOBODY, OF_HOOK, TO_LOAD]));
    expect_bounded_readers(child.id());
    end(child)?;
    assert!(place.join("recording.json").is_file());
    Ok(())
}

/// What reads programs of others takes no more memory than it should, whatever is in them.
fn expect_bounded_readers(pid: u32) {
    let readers = children(pid);
    assert!(!readers.is_empty(), "nobody reads others");
    for reader in readers {
        let limits = fs::read_to_string(format!("/proc/{reader}/limits")).unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max data size"));
        let most = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        assert!(most.is_some_and(|most| most <= 512 << 20), "{reader}: {limits}");
    }
}

/// The processes that the threads of a process started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    children.collect()
}

fn watch() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let (page, place) = (scratch.fresh("page.html"), scratch.fresh("recording"));
    let mut command = iowhy(["-t", "120", "--html"])?;
    command.arg(&page).arg("-o").arg(&place).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().context(|| "start iowhy".to_owned())?;
    limited(child.id(), &all(&[OF_NOBODY, OF_HOOK, TO_LOAD]));
    end(child)?;
    assert!(page.is_file() && place.join("recording.json").is_file());
    Ok(())
}

/// Views, which print while they watch, may write nowhere else.
fn views() -> Result<()> {
    machine::need_bpf()?;
    for view in [
        &["stat", "1", "120"][..],
        &["waits", "1", "120"],
        &["snoop", "-t", "120"],
        &["events", "-t", "120"],
        &["opens", "-t", "120"],
        &["blame", "-t", "120"],
        &["stages", "-t", "120"],
        &["chains", "-t", "120"],
        &["stacks", "--folded", "120"],
        &["1", "120"],
    ] {
        let mut command = iowhy(view)?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context(|| "start iowhy".to_owned())?;
        limited(child.id(), &all(&[OF_NOBODY, OF_HOOK, TO_LOAD]));
        let mut child = child;
        process::end(&mut child);
    }
    Ok(())
}

/// What it writes when it ends goes where its prefixes and `-o` lead.
fn stages() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 << 20)?;
    let (prefixes, reports) = (scratch.fresh("prefixes"), scratch.fresh("reports"));
    for folder in [&prefixes, &reports] {
        fs::create_dir(folder).context(|| "make a folder".to_owned())?;
    }
    let mut command = iowhy(["stages", "-t", "120", "--btt-compat", "-d", device.name(), "-l"])?;
    command.arg(prefixes.join("a")).arg("-q").arg(prefixes.join("b"));
    command.arg("-o").arg(reports.join("btt")).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().context(|| "start iowhy".to_owned())?;
    limited(child.id(), &all(&[OF_NOBODY, OF_HOOK, TO_LOAD]));
    let mut read = Command::new("dd");
    read.arg(format!("if={}", device.path().display())).args(["of=/dev/null", "iflag=direct"]);
    assert!(finish(read)?.status.success());
    end(child)?;
    let names = |folder: &Path| {
        let found = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let written = names(&prefixes);
    assert!(written.len() == 2 && written[0].starts_with("a_"), "{written:?}");
    assert!(names(&reports).contains(&"btt.avg".to_owned()), "{:?}", names(&reports));
    Ok(())
}

/// Starts `iowhy top` in a folder of its own, and waits for its screen.
pub fn started_top(scratch: &Scratch) -> Result<(LabTerminal, PathBuf)> {
    machine::need_bpf()?;
    let folder = scratch.fresh("saved");
    fs::create_dir(&folder).context(|| "make a folder".to_owned())?;
    let terminal = LabTerminal::start(iowhy(["top"])?, &folder)?;
    terminal.wait_for("its screen", |screen| screen.contains("iowhy"))?;
    Ok((terminal, folder))
}

/// It saves into the directory in which it was started.
fn top() -> Result<()> {
    let scratch = Scratch::new()?;
    let (terminal, folder) = started_top(&scratch)?;
    let threads = limited(terminal.pid()?, &all(&[OF_NOBODY, OF_HOOK, TO_LOAD]));
    for name in ["iowhy", "watch", "save"] {
        assert!(threads.iter().any(|thread| thread.name == name), "no thread {name}");
    }
    terminal.press("s")?;
    terminal.wait_for("that it was saved", |screen| screen.contains("saved "))?;
    terminal.press("q")?;
    assert!(folder.join("iowhy-recording/recording.json").is_file());
    Ok(())
}

fn daemon() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let config = scratch.path().join("iowhy.toml");
    let text = "[hook]\nprogram = \"/bin/true\"\nuser = \"nobody\"\n";
    fs::write(&config, text).context(|| "write the configuration".to_owned())?;
    let (state, runtime) = (scratch.fresh("state"), scratch.fresh("runtime"));
    let mut command = iowhy(["daemon", "--config"])?;
    command.arg(&config).arg("--state").arg(&state).arg("--runtime").arg(&runtime);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().context(|| "start the daemon".to_owned())?;
    let threads = limited(child.id(), &all(&[OF_NOBODY, OF_HOOK]));
    for name in ["saver", "control", "writer", "hook"] {
        assert!(threads.iter().any(|thread| thread.name == name), "no thread {name}");
    }
    // Threads that write to disks or answer others have no access to the kernel's programs.
    for it in
        threads.iter().filter(|thread| ["saver", "control", "writer"].contains(&&*thread.name))
    {
        assert!(it.has(&[("CAP_BPF", 39), ("CAP_SYS_PTRACE", 19)]).is_empty(), "{}", it.name);
    }
    end(child)
}
