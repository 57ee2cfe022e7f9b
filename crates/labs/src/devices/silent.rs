//! A FUSE file system that stops answering: it serves one file, and after some time it answers no
//! open, read or lookup of certain names, like a file system on a dead network or a hostile one.
//!
//! What does not belong here: slow disks ([`super::ServedDevice`]).

use super::user_space::{FILE, FOREVER, about, mount};
use crate::Result;
use crate::scratch::Scratch;
use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The suffix of names that the kernel may not cache, so that nobody answers their lookups either.
/// The kernel marks a deleted file so, unless another one has that name.
const FORGOTTEN: &[u8] = b" (deleted)";

/// The file system. Every name in its folder is the one file.
#[derive(Debug)]
pub struct SilentServer {
    folder: PathBuf,
    shared: Arc<SilentShared>,
    // Unmounts the file system.
    _session: BackgroundSession,
    _scratch: Arc<Scratch>,
}

#[derive(Debug)]
struct SilentShared {
    bytes: Vec<u8>,
    state: Mutex<SilentState>,
}

#[derive(Debug, Default)]
struct SilentState {
    silent: bool,
    lookups: Vec<ReplyEntry>,
    opens: Vec<ReplyOpen>,
    reads: Vec<ReplyData>,
}

impl SilentServer {
    /// Serves `bytes` as a file that root may run.
    pub fn new(scratch: &Arc<Scratch>, bytes: Vec<u8>) -> Result<SilentServer> {
        let shared = Arc::new(SilentShared { bytes, state: Mutex::default() });
        let (folder, session) = mount(scratch, "silent", OneFile(Arc::clone(&shared)), &[])?;
        Ok(SilentServer { folder, shared, _session: session, _scratch: Arc::clone(scratch) })
    }

    /// Returns its mount point.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Stops answering.
    pub fn silence(&self) {
        self.shared.state().silent = true;
    }

    /// Returns the number of requests that wait for an answer.
    pub fn waiting(&self) -> usize {
        let state = self.shared.state();
        state.lookups.len() + state.opens.len() + state.reads.len()
    }

    /// Fails the requests that wait, and answers again.
    pub fn speak(&self) {
        let SilentState { lookups, opens, reads, .. } = std::mem::take(&mut *self.shared.state());
        lookups.into_iter().for_each(|reply| reply.error(Errno::EIO));
        opens.into_iter().for_each(|reply| reply.error(Errno::EIO));
        reads.into_iter().for_each(|reply| reply.error(Errno::EIO));
    }
}

impl Drop for SilentServer {
    fn drop(&mut self) {
        self.speak();
    }
}

impl SilentShared {
    fn state(&self) -> MutexGuard<'_, SilentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file system: a folder with one file.
struct OneFile(Arc<SilentShared>);

impl OneFile {
    fn about(&self, inode: INodeNo) -> FileAttr {
        about(inode, self.0.bytes.len() as u64)
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let is_forgotten = name.as_encoded_bytes().ends_with(FORGOTTEN);
        let mut state = self.0.state();
        if is_forgotten && state.silent {
            state.lookups.push(reply);
            return;
        }
        let known = if is_forgotten { Duration::ZERO } else { FOREVER };
        reply.entry(&known, &self.about(FILE), Generation(0));
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
