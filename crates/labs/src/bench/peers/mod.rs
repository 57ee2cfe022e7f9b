//! `cargo lab bench-peers`: compares blktrace and Debian's libbpf-tools with iowhy, in guests with
//! other kernels, on I/O with known counts.
//!
//! | where | what |
//! |---|---|
//! | [`events`] | blktrace's files, read once more |
//! | [`beside`] | blktrace between two iowhys |
//! | [`known`] | the I/O that is known beforehand |
//! | [`tools`] | which tool loads, and whether it is right |
//! | `table` | what came out, as tables |
//!
//! What does not belong here: guests themselves ([`crate::vm`]).

pub mod beside;
pub mod events;
pub mod known;
mod table;
pub mod tools;

use super::{Benchmark, TableOutput};
use crate::devices::{DebugFs, GivenDevice};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::vm::{Architecture, Guest, GuestDisk, Kernel, kernel};
use crate::{LabError, Result, command};
use beside::ComparedRequests;
use known::KnownIoDisk;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tools::{TOOLS, ToolOutcome};

/// On which kernels.
#[derive(Clone, Debug, clap::Args)]
pub struct PeerSettings {
    /// A kernel: 5.10, 6.1, 6.12 or sid (may be repeated) [default: all of them].
    #[arg(long, short)]
    pub kernel: Vec<String>,
    /// A folder in which each kernel's figures are kept; those that lie there are not measured
    /// again.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// The result on one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResult {
    /// Its release: `6.1.0-56-cloud-amd64`.
    pub kernel: String,
    /// blktrace compared with iowhy.
    pub beside: ComparedRequests,
    /// Every tool.
    pub tools: Vec<ToolOutcome>,
}

/// The guest's empty disks: for requests, and for files.
const DISKS: [&str; 2] = ["requests", "files"];
const DISK_BYTES: u64 = 128 << 20;
/// The file for the results of the part that runs in a guest.
const OUT: &str = "/out/peers.json";

impl Benchmark for PeerSettings {
    const TARGET: &'static str = "bench-peers";
    const PAGE: &'static str = "docs/peers.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, _about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let native = kernel::LINES.iter().filter(|line| line.architecture == Architecture::X86_64);
        let all = native.map(|line| line.name.to_owned()).collect();
        let names = if self.kernel.is_empty() { all } else { self.kernel.clone() };
        let found: Vec<KernelResult> =
            names.iter().map(|name| kept(self, name, progress)).collect::<Result<Vec<_>>>()?;
        Ok(table::of(&found, &version("libbpf-tools"), &version("blktrace")))
    }
}

/// A Debian package's version.
fn version(package: &str) -> String {
    let asked = ["--showformat=${Version}", "--show", package];
    command::run("dpkg-query", asked).unwrap_or_else(|_| "of unknown version".to_owned())
}

/// The saved results of the folder, else new measurements.
fn kept(settings: &PeerSettings, name: &str, say: &mut dyn FnMut(&str)) -> Result<KernelResult> {
    let Some(folder) = &settings.keep else { return parsed(&on_kernel(name, say)?) };
    let path = folder.join(format!("{name}.json"));
    if !path.exists() {
        fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
        let text = on_kernel(name, say)?;
        fs::write(&path, text).context(|| format!("write {}", path.display()))?;
    }
    parsed(&fs::read_to_string(&path).context(|| format!("read {}", path.display()))?)
}

fn parsed(text: &str) -> Result<KernelResult> {
    serde_json::from_str(text).context(|| "read what a guest found".to_owned())
}

fn on_kernel(name: &str, say: &mut dyn FnMut(&str)) -> Result<String> {
    let kernel = Kernel::fetch(name, say)?;
    let own = std::env::current_exe().context(|| "find this program".to_owned())?;
    let mut guest =
        Guest::new(kernel).patience(Duration::from_secs(1800)).file("/usr/bin/iowhy-labs", own);
    for disk in DISKS {
        guest = guest.disk(GuestDisk::memory(disk, DISK_BYTES));
    }
    let mut programs: Vec<&str> = TOOLS.iter().map(|tool| tool.program).collect();
    programs.dedup();
    for program in programs.into_iter().filter(|program| *program != "iowhy") {
        let path = command::find(program)
            .map_err(|_absent| LabError::missing(program, "scripts/install-deps bench"))?;
        guest = guest.file(format!("/usr/sbin/{program}"), path);
    }
    let command = "IOWHY_BIN=/usr/bin/iowhy iowhy-labs peers-inside";
    let outcome = guest.run_saying(command, say)?;
    if outcome.status != 0 {
        return Err(LabError::failed(format!("compare on {name}"), outcome.said));
    }
    let path = outcome.out().join("peers.json");
    fs::read_to_string(&path).context(|| format!("read {}", path.display()))
}

/// The part that runs in a guest.
///
/// # Errors
/// Fails if a load or iowhy fails; tools may fail.
pub fn inside(say: &mut dyn FnMut(&str)) -> Result<()> {
    let scratch = Scratch::new()?;
    let [requests, files] = DISKS.map(GivenDevice::named);
    let (requests, files) = (requests?, files?);
    let beside = beside::measure(&scratch, &requests, known::REQUESTS)?;
    say(&format!("{beside:?}"));
    let known = KnownIoDisk::new(&scratch, requests, files)?;
    // debugfs brings tracefs, without which most tools attach nothing; iowhy does not need it.
    let _debugfs = DebugFs::new()?;
    let tools = tools::all(&scratch, &known, say)?;
    let kernel = command::run("uname", ["-r"])?.trim().to_owned();
    let found = KernelResult { kernel, beside, tools };
    let text = serde_json::to_string(&found).context(|| "write JSON".to_owned())?;
    fs::write(OUT, text).context(|| format!("write {OUT}"))
}
