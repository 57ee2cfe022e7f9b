//! `iowhy-labs`: the command line of the labs (`cargo lab ...`).
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use iowhy_labs::devices::{
    Backing, BlockDevice as _, Cgroup, FileSystem, Kind, LoopDevice, Served, Zram,
};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::{self, Scratch};
use iowhy_labs::workload::Workload;
use iowhy_labs::{
    Result, bench, bench_blktrace, bench_peers, bench_views, classes, demo, kernels, labs, screens,
    vm,
};
use std::io::Write;
use std::process::ExitCode;

/// Scratch devices, workloads and benchmarks for iowhy.
#[derive(Parser)]
#[command(name = "iowhy-labs", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a real workload on a loop device and shows what iowhy says about it.
    Demo(demo::Settings),
    /// Measures what watching costs, beside perf and bpftrace.
    BenchCapture(bench::Settings),
    /// Reads and analyses generated captures, beside blkparse and btt.
    BenchBlktrace(bench_blktrace::Settings),
    /// Writes a generated capture into a folder, for trying things by hand.
    Capture(bench_blktrace::Capture),
    /// Measures `iowhy locate` beside debugfs.
    BenchLocate(bench::locate::Settings),
    /// Measures what a system call costs while iowhy looks at it.
    BenchCalls(bench::calls::Settings),
    /// Compares the views with the tools that they replace.
    BenchViews(bench_views::Settings),
    /// Compares blktrace and libbpf-tools with iowhy, in guests with other kernels.
    BenchPeers(bench_peers::Settings),
    /// The part of it that runs in a guest.
    #[command(hide = true)]
    PeersInside,
    /// Makes each wait class happen, and compares what iowhy says.
    BenchWaits(classes::table::Settings),
    /// Runs a command in a guest with another kernel.
    Vm(vm::command::Settings),
    /// Asks each kernel in a guest what it gives, and writes docs/kernels.md.
    KernelsPage(kernels::Settings),
    /// Runs one lab: makes a cause happen and compares what iowhy says.
    Run(labs::run::Settings),
    /// Runs all labs and prints what was found, missed and false.
    Matrix(labs::matrix::Settings),
    /// Writes the first screens of kept recordings into docs/screens.md.
    Screens(screens::Settings),
    /// Removes what killed labs left: programs, settings, mounts, loop and zram devices, cgroups, files.
    Clean,
    /// Makes devices, says where, and keeps them until it is killed; for the test of `clean`.
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
            // There is nowhere left to say that standard error is closed.
            let _closed = writeln!(std::io::stderr(), "iowhy-labs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Demo(settings) => demo::run(settings, &mut say).map(done),
        Command::BenchCapture(settings) => {
            bench::run(settings, &mut say).map(|part| say(&part)).map(done)
        }
        Command::BenchBlktrace(settings) => bench_blktrace::run(settings, &mut say).map(done),
        Command::Capture(capture) => capture.write().map(done),
        Command::BenchLocate(settings) => bench::locate::run(settings, &mut say).map(done),
        Command::BenchCalls(settings) => bench::calls::run(settings, &mut say).map(done),
        Command::BenchViews(settings) => bench_views::run(settings, &mut say).map(done),
        Command::BenchPeers(settings) => bench_peers::run(settings, &mut say).map(done),
        Command::PeersInside => bench_peers::inside(&mut say).map(done),
        Command::BenchWaits(settings) => classes::table::run(settings, &mut say).map(done),
        Command::Vm(settings) => vm::command::run(settings, &mut say),
        Command::KernelsPage(settings) => kernels::run(settings, &mut say).map(done),
        Command::Run(settings) => labs::run::run(settings, &mut say).map(done),
        Command::Matrix(settings) => labs::matrix::run(settings, &mut say).map(done),
        Command::Screens(settings) => screens::run(settings).map(done),
        Command::Clean => scratch::remove_dead().map(|removed| say(&removed.to_string())).map(done),
        Command::Hold => hold().map(done),
        Command::Workload(workload) => workload.run().map(done),
    }
}

fn say(line: &str) {
    // A closed terminal does not end a measurement.
    let _closed = writeln!(std::io::stdout(), "{line}");
}

/// A setting of a device that it keeps for its next user.
fn setting_of(device: &LoopDevice) -> std::path::PathBuf {
    format!("/sys/block/{}/queue/read_ahead_kb", device.name()).into()
}

fn hold() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 << 20)?;
    let _zram = Zram::new(&scratch, 1 << 20);
    let _cgroup = Cgroup::block(&scratch);
    let _served = Served::new(&scratch, 1 << 20)?;
    scratch.set(&setting_of(&device), "64")?;
    let mut program = std::process::Command::new("sleep");
    scratch.mark(program.arg("600"));
    let _program = program.spawn().context(|| "start a program".to_owned())?;
    let _disk = FileSystem::new(&scratch, device, Kind::Ext4)?;
    let said = writeln!(std::io::stdout(), "{}", scratch.path().display());
    said.context(|| "say where the devices are".to_owned())?;
    loop {
        std::thread::park();
    }
}
