//! I/O whose counts are known beforehand, for tools to be held against.

use crate::devices::{BlockDevice, FileSystem, Given, Kind};
use crate::error::Context;
use crate::fio::{Access, Engine, Job};
use crate::scratch::Scratch;
use crate::{Result, command};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Reads that fio makes past the page cache, none next to another.
pub const REQUESTS: u64 = 199;
/// Files that are made, opened once more, looked at and removed.
pub const FILES: u64 = 37;
/// Reads of each of these files.
pub const READS: u64 = 8;
/// Pages of the file that is read while none of it is cached.
pub const PAGES: u64 = 1024;
/// What the names of the files begin with.
pub const NAME: &str = "known-";

/// Each file: made and written, opened and read, asked about, removed; nothing else is done to it.
const SCRIPT: &str = r#"for my $i (1 .. $ARGV[1]) {
    my $file = "$ARGV[0]/known-$i";
    open(my $out, ">", $file) or die $!;
    syswrite($out, "x" x 4096);
    close $out;
    open(my $in, "<", $file) or die $!;
    sysread($in, my $data, 512) for 1 .. $ARGV[2];
    close $in;
    my @about = stat $file;
    unlink $file;
}"#;

/// Where the I/O is done.
#[derive(Debug)]
pub struct Known {
    scratch: Arc<Scratch>,
    disk: Given,
    files: FileSystem,
}

/// Which I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// [`REQUESTS`] direct reads of a disk.
    Disk,
    /// Calls on [`FILES`] files.
    Files,
    /// One file, of which nothing is cached, read in order.
    Cold,
}

impl Known {
    /// A disk for requests, and another with a file system for files.
    pub fn new(scratch: &Arc<Scratch>, disk: Given, files: Given) -> Result<Known> {
        let files = FileSystem::new(scratch, files, Kind::Ext4)?;
        let known = Known { scratch: Arc::clone(scratch), disk, files };
        crate::fio::prepare(&known.cold(), PAGES * 4096)?;
        Ok(known)
    }

    /// The disk that is read.
    pub fn disk(&self) -> &Given {
        &self.disk
    }

    /// Where files lie.
    pub fn folder(&self) -> PathBuf {
        self.files.path().to_owned()
    }

    fn cold(&self) -> PathBuf {
        self.folder().join("cold")
    }

    /// What must be done before anybody looks.
    pub fn prepare(&self, load: Load) -> Result<()> {
        if load == Load::Cold { self.files.remount() } else { Ok(()) }
    }

    /// Does it.
    pub fn run(&self, load: Load) -> Result<()> {
        match load {
            Load::Disk => {
                let job =
                    Job::strided(self.disk.path(), Engine::Libaio, Access::Read, REQUESTS, 4096);
                job.run(&self.scratch.fresh("fio.json")).map(drop)
            }
            Load::Files => {
                let folder = self.folder().display().to_string();
                let (files, reads) = (FILES.to_string(), READS.to_string());
                command::run("perl", ["-e", SCRIPT, &folder, &files, &reads]).map(drop)
            }
            Load::Cold => {
                let cold = self.cold();
                fs::read(&cold).map(drop).context(|| format!("read {}", cold.display()))
            }
        }
    }
}
