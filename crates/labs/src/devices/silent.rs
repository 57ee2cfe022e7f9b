//! A file system in user space that falls silent: it serves one file, and from some time on answers
//! neither who opens it nor who reads it, as one behind a dead network or a hostile one does.
//!
//! What does not belong here: slow disks ([`super::Served`]).

use crate::Result;
use crate::error::Context;
use crate::scratch::Scratch;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
    ReplyOpen, Request,
};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The file's number; the folder's is 1.
const FILE: INodeNo = INodeNo(2);
/// For how long the kernel may keep what it was told about the file: it never changes.
const FOREVER: Duration = Duration::from_secs(3600);

/// The file system. Every name in its folder is the one file.
#[derive(Debug)]
pub struct Silent {
    folder: PathBuf,
    shared: Arc<Shared>,
    // Unmounts the file system.
    _session: BackgroundSession,
    _scratch: Arc<Scratch>,
}

#[derive(Debug)]
struct Shared {
    bytes: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    silent: bool,
    opens: Vec<ReplyOpen>,
    reads: Vec<ReplyData>,
}

impl Silent {
    /// Serves `bytes` as a file that root may run.
    pub fn new(scratch: &Arc<Scratch>, bytes: Vec<u8>) -> Result<Silent> {
        let shared = Arc::new(Shared { bytes, state: Mutex::default() });
        let folder = scratch.fresh("silent");
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("iowhy-labs".to_owned())];
        let session = fuser::spawn_mount(OneFile(Arc::clone(&shared)), &folder, &config)
            .context(|| format!("mount a file system in user space on {}", folder.display()))?;
        Ok(Silent { folder, shared, _session: session, _scratch: Arc::clone(scratch) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Answers nobody from now on.
    pub fn silence(&self) {
        self.shared.state().silent = true;
    }

    /// How many wait for an answer.
    pub fn waiting(&self) -> usize {
        let state = self.shared.state();
        state.opens.len() + state.reads.len()
    }

    /// Fails what waits, and answers again.
    pub fn speak(&self) {
        let State { opens, reads, .. } = std::mem::take(&mut *self.shared.state());
        opens.into_iter().for_each(|reply| reply.error(Errno::EIO));
        reads.into_iter().for_each(|reply| reply.error(Errno::EIO));
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.speak();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file system: a folder with one file.
struct OneFile(Arc<Shared>);

impl OneFile {
    fn about(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        let size = if is_file { self.0.bytes.len() as u64 } else { 0 };
        let epoch = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.entry(&FOREVER, &self.about(FILE), Generation(0));
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.about(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.state();
        if state.silent {
            state.opens.push(reply);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.0.state();
        if state.silent {
            state.reads.push(reply);
            return;
        }
        let start = self.0.bytes.len().min(offset as usize);
        let end = self.0.bytes.len().min(start + size as usize);
        reply.data(&self.0.bytes[start..end]);
    }
}
