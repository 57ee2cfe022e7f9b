//! `iowhy-labs`: the command line of the labs (`cargo lab ...`).
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use iowhy_labs::devices::{
    Backing, BlockDevice as _, FileSystemKind, LabCgroup, LabFileSystem, LoopDevice, ServedDevice,
    Zram,
};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::{self, Scratch};
use iowhy_labs::workload::Workload;
use iowhy_labs::{Result, bench, classes, demo, kernels, labs, score, vm};
use std::io::Write;
use std::process::ExitCode;

/// Scratch devices, workloads and benchmarks for iowhy.
#[derive(Parser)]
#[command(name = "iowhy-labs", version)]
struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Runs a real workload on a loop device and shows iowhy's report on it.
    Demo(demo::DemoSettings),
    /// Measures the overhead of a watch, compared with perf and bpftrace.
    BenchCapture(bench::capture::CostSettings),
    /// Reads and analyses generated captures, compared with blkparse and btt.
    BenchBlktrace(bench::blktrace::BlktraceSettings),
    /// Measures how long the report of a sosreport of 100 MB takes.
    BenchSources(bench::sources::SourcesSettings),
    /// Writes a generated capture into a folder, for manual tests.
    Capture(bench::blktrace::MadeCapture),
    /// Compares the speed of `iowhy locate` with debugfs.
    BenchLocate(bench::locate::LocateSettings),
    /// Measures the cost of a system call while iowhy traces it.
    BenchCalls(bench::calls::CallSettings),
    /// Measures what a watch loses while other programs want all CPUs.
    BenchBusy(bench::busy::BusySettings),
    /// Measures what watches of ten seconds cost, beside their budget.
    BenchBudget(bench::budget::BudgetSettings),
    /// Measures what the flight recorder costs, and how soon an incident is on disk.
    BenchRecorder(bench::recorder::RecorderSettings),
    /// Soaks the flight recorder in churn and trouble, and shows what it holds on to.
    Soak(bench::soak::SoakSettings),
    /// Compares the views with the tools that they replace.
    BenchViews(bench::views::ViewSettings),
    /// Measures what drawing `iowhy top` costs, and how soon commands answer.
    BenchScreens(bench::screens::DrawingSettings),
    /// Reproduces labs from their recordings, and compares.
    BenchReproduce(bench::reproduce::ReproduceSettings),
    /// Measures how punctual a replay is, compared with fio's.
    BenchReplay(bench::replay::ReplaySettings),
    /// Compares blktrace and libbpf-tools with iowhy, in guests with other kernels.
    BenchPeers(bench::peers::PeerSettings),
    /// Measures the HTML report: writing it, drawing it in a browser.
    BenchHtml(bench::html::PageSettings),
    /// Measures reading large recordings.
    BenchReport(bench::report::ReadingSettings),
    /// The part of `bench-peers` that runs in a guest.
    #[command(hide = true)]
    PeersInside,
    /// Produces each wait class, and compares iowhy's figures.
    BenchWaits(classes::table::ClassSettings),
    /// Runs a command in a guest with another kernel.
    Vm(vm::command::GuestSettings),
    /// Runs `iowhy check` on each kernel in a guest, and writes docs/kernels.md.
    KernelsPage(kernels::KernelPageSettings),
    /// Runs one lab: produces a cause and compares iowhy's findings.
    Run(labs::run::LabSettings),
    /// Runs all labs and prints which causes were found, missed and false.
    Matrix(labs::matrix::MatrixSettings),
    /// Judges labelled recordings and counts how often the first finding is the right answer.
    Score(score::ScoreSettings),
    /// Removes what killed labs left behind: programs, settings, mounts, loop and zram devices,
    /// cgroups, files.
    Clean,
    /// Creates devices, prints their folder, and keeps them until it is killed; for the test of
    /// `clean`.
    #[command(hide = true)]
    Hold,
    /// Does the I/O of a test.
    #[command(subcommand, hide = true)]
    Workload(Workload),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(code) => code,
        Err(error) => {
            // There is nowhere left to report that standard error is closed.
            let _closed = writeln!(std::io::stderr(), "iowhy-labs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &LabCommand) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        LabCommand::Demo(settings) => demo::run(settings, &mut say).map(done),
        LabCommand::BenchCapture(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchBlktrace(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchSources(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::Capture(capture) => capture.write().map(done),
        LabCommand::BenchLocate(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchBudget(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchBusy(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchRecorder(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::Soak(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchCalls(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchScreens(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchViews(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchHtml(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchReproduce(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchReplay(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchPeers(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::BenchReport(settings) => bench::run(settings, &mut say).map(done),
        LabCommand::PeersInside => bench::peers::inside(&mut say).map(done),
        LabCommand::BenchWaits(settings) => classes::table::run(settings, &mut say).map(done),
        LabCommand::Vm(settings) => vm::command::run(settings, &mut say),
        LabCommand::KernelsPage(settings) => kernels::run(settings, &mut say).map(done),
        LabCommand::Run(settings) => labs::run::run(settings, &mut say).map(done),
        LabCommand::Matrix(settings) => labs::matrix::run(settings, &mut say).map(done),
        LabCommand::Score(settings) => score::run(settings, &mut say),
        LabCommand::Clean => {
            scratch::remove_dead().map(|removed| say(&removed.to_string())).map(done)
        }
        LabCommand::Hold => hold().map(done),
        LabCommand::Workload(workload) => workload.run().map(done),
    }
}

fn say(line: &str) {
    // A closed terminal does not end a measurement.
    let _closed = writeln!(std::io::stdout(), "{line}");
}

/// A setting of a device that persists for its next user.
fn setting_of(device: &LoopDevice) -> std::path::PathBuf {
    format!("/sys/block/{}/queue/read_ahead_kb", device.name()).into()
}

fn hold() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 << 20)?;
    let _zram = Zram::new(&scratch, 1 << 20);
    let _cgroup = LabCgroup::block(&scratch);
    let _served = ServedDevice::new(&scratch, 1 << 20)?;
    scratch.set(&setting_of(&device), "64")?;
    let mut program = std::process::Command::new("sleep");
    scratch.mark(program.arg("600"));
    let _program = program.spawn().context(|| "start a program".to_owned())?;
    let _disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let said = writeln!(std::io::stdout(), "{}", scratch.path().display());
    said.context(|| "print the folder of the devices".to_owned())?;
    loop {
        std::thread::park();
    }
}
