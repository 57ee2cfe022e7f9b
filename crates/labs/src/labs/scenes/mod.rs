//! The scenarios.

use super::Lab;
use super::stage::{LabStage, NEVER_MS, given};
use crate::devices::{Backing, BlockDevice, FileSystemKind, LabCgroup, Limit};
use crate::fio::{self, Engine, FioAccess, Job};
use crate::{LabError, Result};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub mod blind;
pub mod caching;
pub mod cases;
pub mod controls;
pub mod guests;
pub mod journals;
pub mod limits;
pub mod missing;
pub mod pairs;
pub mod programs;
pub mod quest_db;
pub mod settings;

/// Every scenario.
pub const ALL: &[&[Lab]] = &[
    cases::LABS,
    quest_db::LABS,
    limits::LABS,
    settings::LABS,
    caching::LABS,
    journals::LABS,
    missing::LABS,
    pairs::LABS,
    controls::LABS,
    guests::behind::LABS,
    guests::copies::LABS,
    guests::inside::LABS,
    guests::stacks::LABS,
    blind::devices::LABS,
    blind::files::LABS,
    programs::postgres::LABS,
    programs::databases::LABS,
    programs::embedded::LABS,
    programs::languages::LABS,
    programs::system::LABS,
];

const MIB: u64 = 1 << 20;

/// Runs a Python program to its end.
fn script(program: &str, folder: &std::path::Path) -> Result<()> {
    let program = std::ffi::OsStr::new(program);
    crate::command::run("python3", ["-c".as_ref(), program, folder.as_os_str()]).map(drop)
}

/// The time that a program of a lab may take to be ready: its files may have to be read first.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until a condition is true.
fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return Err(LabError::failed(format!("wait until {what}"), "it took too long"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Whether a process listens on a port of this machine.
fn is_served(port: u64) -> bool {
    TcpStream::connect(("127.0.0.1", port as u16)).is_ok()
}
