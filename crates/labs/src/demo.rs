//! `cargo lab demo`: a real workload on a loop device, and iowhy watching it.

use crate::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, Job};
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{LabError, Result, iowhy, machine, process};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// iowhy's exit code for a missing privilege.
const NO_PERMISSION: i32 = 77;
const MIB: u64 = 1 << 20;

/// What the demo does.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoSettings {
    /// Seconds to watch.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Keep a recording there instead of showing the screen.
    #[arg(long)]
    pub record: Option<PathBuf>,
}

/// Runs the demo. Without root or BPF, the recording of the repository is shown instead, which
/// `say` reports.
pub fn run(settings: &DemoSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    match watch(settings, say) {
        Err(LabError::Missing { what, .. } | LabError::Unsupported { what, .. })
            if settings.record.is_none() =>
        {
            let kept = kept_recording();
            say(&format!(
                "There is no {what} here, so this is the recording kept in demo/recording, \
                 not this machine."
            ));
            let mut report = Command::new(iowhy::binary()?);
            run_to_end(report.arg("report").arg(kept))
        }
        result => result,
    }
}

fn kept_recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/recording")
}

fn watch(settings: &DemoSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    machine::need_bpf()?;
    let program = iowhy::binary()?;
    // Ctrl-C reaches iowhy, too, which ends; this process stays to remove the devices.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context(|| "catch Ctrl-C".to_owned())?;
    }
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::DirectFile, 1024 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let _load = DemoLoad::start(&scratch, &disk, settings.seconds)?;
    say(&format!(
        "On {}: random reads, a writer that syncs, a scan of many small files. Watching for {} s.",
        disk.device().path().display(),
        settings.seconds
    ));
    let mut command = Command::new(program);
    if let Some(folder) = &settings.record {
        // Each request, also by a machine that is too slow for it within the budget.
        command.args(["record", "--every", "-o"]).arg(folder);
    }
    command.args(["-d", disk.device().name(), "-t", &settings.seconds.to_string()]);
    run_to_end(&mut command)
}

/// Runs iowhy on this terminal.
fn run_to_end(command: &mut Command) -> Result<()> {
    let action = format!("run {}", crate::command::shown(command));
    let status = command.status().context(|| action.clone())?;
    match status.code() {
        Some(0) => Ok(()),
        Some(NO_PERMISSION) => {
            Err(LabError::missing("permission to load BPF programs", "run it as root"))
        }
        _ => Err(LabError::failed(action, status)),
    }
}

/// The processes of the load, ended on drop.
struct DemoLoad {
    processes: Vec<Child>,
}

impl DemoLoad {
    fn start(scratch: &Scratch, disk: &LabFileSystem, seconds: u64) -> Result<DemoLoad> {
        let folder = |name: &str| disk.path().join(name);
        let database = fio::prepare(&folder("database"), 256 * MIB)?;
        let log = fio::prepare(&folder("log"), 32 * MIB)?;
        let tree = folder("tree");
        std::fs::create_dir(&tree).context(|| format!("make {}", tree.display()))?;
        Workload::Storm { folder: tree.clone(), files: 4000 }.run()?;
        disk.remount()?;
        let seconds = seconds + 5;
        let reader = Job::new(&database, Engine::IoUring, FioAccess::RandomRead, 4096)
            .direct()
            .with("size", (256 * MIB).to_string())
            .with("iodepth", "4")
            .with("rate_iops", "2000")
            .timed(seconds);
        let writer = Job::new(&log, Engine::Psync, FioAccess::Write, 8192)
            .with("size", (32 * MIB).to_string())
            .with("fsync", "1")
            .with("rate_iops", "200")
            .timed(seconds);
        let mut load = DemoLoad { processes: Vec::new() };
        load.spawn(reader.command(&scratch.fresh("fio.json"))?)?;
        load.spawn(writer.command(&scratch.fresh("fio.json"))?)?;
        let mut scan = Command::new("/bin/sh");
        let script = r#"for folder in "$1"/*; do cat "$folder"/* >/dev/null; sleep 0.2; done"#;
        scan.args(["-c", script, "sh"]).arg(&tree);
        load.spawn(scan)?;
        Ok(load)
    }

    fn spawn(&mut self, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context(|| "start the load".to_owned())?;
        self.processes.push(child);
        Ok(())
    }
}

impl Drop for DemoLoad {
    fn drop(&mut self) {
        for child in &self.processes {
            process::signal(child, Signal::INT);
        }
        for child in &mut self.processes {
            process::end(child);
        }
    }
}
