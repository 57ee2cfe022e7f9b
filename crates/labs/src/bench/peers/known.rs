//! I/O with known counts, to compare tools with.

use crate::devices::{BlockDevice, FileSystemKind, GivenDevice, LabFileSystem};
use crate::error::Context;
use crate::fio::{Engine, FioAccess, Job};
use crate::scratch::Scratch;
use crate::{Result, command};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Reads that fio makes past the page cache, none next to another.
pub const REQUESTS: u64 = 199;
/// Files that are created, opened again, queried with stat and removed.
pub const FILES: u64 = 37;
/// Reads of each of these files.
pub const READS: u64 = 8;
/// Pages of the file that is read while none of it is cached.
pub const PAGES: u64 = 1024;
/// The prefix of the files' names.
pub const NAME: &str = "known-";

/// A program that makes and writes, opens and reads, stats and removes each file, and nothing else.
const SCRIPT: &str = include_str!("../../../programs/known_requests.pl");

/// The disks on which the I/O is done.
#[derive(Debug)]
pub struct KnownIoDisk {
    scratch: Arc<Scratch>,
    disk: GivenDevice,
    files: LabFileSystem,
}

/// The kind of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownIo {
    /// [`REQUESTS`] direct reads of a disk.
    Disk,
    /// Calls on [`FILES`] files.
    Files,
    /// One file, of which nothing is cached, read in order.
    Cold,
}

impl KnownIoDisk {
    /// Makes a disk for requests, and another with a file system for files.
    pub fn new(
        scratch: &Arc<Scratch>,
        disk: GivenDevice,
        files: GivenDevice,
    ) -> Result<KnownIoDisk> {
        let files = LabFileSystem::new(scratch, files, FileSystemKind::Ext4)?;
        let known = KnownIoDisk { scratch: Arc::clone(scratch), disk, files };
        crate::fio::prepare(&known.cold(), PAGES * 4096)?;
        Ok(known)
    }

    /// The disk that is read.
    pub fn disk(&self) -> &GivenDevice {
        &self.disk
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> PathBuf {
        self.files.path().to_owned()
    }

    fn cold(&self) -> PathBuf {
        self.folder().join("cold")
    }

    /// Preparations before any tool runs.
    pub fn prepare(&self, load: KnownIo) -> Result<()> {
        if load == KnownIo::Cold { self.files.remount() } else { Ok(()) }
    }

    /// Does the I/O.
    pub fn run(&self, load: KnownIo) -> Result<()> {
        match load {
            KnownIo::Disk => {
                let job =
                    Job::strided(self.disk.path(), Engine::Libaio, FioAccess::Read, REQUESTS, 4096);
                job.run(&self.scratch.fresh("fio.json")).map(drop)
            }
            KnownIo::Files => {
                let folder = self.folder().display().to_string();
                let (files, reads) = (FILES.to_string(), READS.to_string());
                command::run("perl", ["-e", SCRIPT, &folder, &files, &reads]).map(drop)
            }
            KnownIo::Cold => {
                let cold = self.cold();
                fs::read(&cold).map(drop).context(|| format!("read {}", cold.display()))
            }
        }
    }
}
