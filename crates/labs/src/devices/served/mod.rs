//! A block device whose bytes this process serves: a loop device over the one file of a file system
//! in user space. The causes of its slowness lie outside the kernel that iowhy watches, like a
//! provider's limits and a disk's defects: no cgroup has a limit and no other block device is
//! involved. When the lab is killed, the kernel ends every request with an error and nothing stays
//! limited.
//!
//! What does not belong here: devices that the kernel itself slows down ([`super::LabCgroup`]).

mod pace;

use super::user_space::{FILE, FOREVER, about, mount};
use super::{BlockDevice, LoopDevice};
use crate::scratch::Scratch;
use crate::{LabError, Result};
use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use pace::{Pace, RequestClass};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use pace::DeviceSpeed;

/// The file's name.
const NAME: &str = "disk";
/// Requests at once: more than any queue in front of it holds.
const MOST_AT_ONCE: u16 = 2048;

/// The device. Its fields are dropped in their order.
#[derive(Debug)]
pub struct ServedDevice {
    device: LoopDevice,
    hand: Hand,
    timer: Option<JoinHandle<()>>,
    // Unmounts the file system.
    _session: BackgroundSession,
}

/// A handle that changes the speed of a [`ServedDevice`] while it is used.
#[derive(Clone, Debug)]
pub struct Hand(Arc<ServedShared>);

#[derive(Debug)]
struct ServedShared {
    bytes: Mutex<Vec<u8>>,
    state: Mutex<ServedState>,
    changed: Condvar,
}

#[derive(Debug)]
struct ServedState {
    pace: Pace,
    waiting: BinaryHeap<Reverse<DueReply>>,
    arrived: u64,
    ended: bool,
}

/// An answer and the time at which it is due. Of two at the same time, the earlier one is first.
#[derive(Debug)]
struct DueReply {
    due: Instant,
    number: u64,
    what: ServedWork,
}

#[derive(Debug)]
enum ServedWork {
    Read { offset: usize, bytes: usize, reply: ReplyData },
    Written { bytes: u32, reply: ReplyWrite },
    Flushed(ReplyEmpty),
}

impl PartialEq for DueReply {
    fn eq(&self, other: &DueReply) -> bool {
        self.number == other.number
    }
}

impl Eq for DueReply {}

impl PartialOrd for DueReply {
    fn partial_cmp(&self, other: &DueReply) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DueReply {
    fn cmp(&self, other: &DueReply) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl ServedDevice {
    /// A device of `bytes`, as fast as this process can be.
    pub fn new(scratch: &Arc<Scratch>, bytes: u64) -> Result<ServedDevice> {
        let now = Instant::now();
        let state = ServedState {
            pace: Pace::new(now),
            waiting: BinaryHeap::new(),
            arrived: 0,
            ended: false,
        };
        let shared = Arc::new(ServedShared {
            bytes: Mutex::new(vec![0; bytes as usize]),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let disk = ServedRoot(Arc::clone(&shared));
        let (folder, session) = mount(scratch, "served", disk, &[MountOption::DefaultPermissions])?;
        let device = LoopDevice::over(scratch, &folder.join(NAME))?;
        let answering = Arc::clone(&shared);
        let timer = std::thread::spawn(move || answering.answer_in_time());
        Ok(ServedDevice { device, hand: Hand(shared), timer: Some(timer), _session: session })
    }

    /// Returns the handle that changes its speed.
    pub fn hand(&self) -> Hand {
        self.hand.clone()
    }
}

impl BlockDevice for ServedDevice {
    fn path(&self) -> &Path {
        self.device.path()
    }
}

impl Drop for ServedDevice {
    fn drop(&mut self) {
        self.hand.open();
        // The kernel lets go of the loop device once nothing is in flight.
        let _gone = self.device.detach();
        self.hand.0.state().ended = true;
        self.hand.0.changed.notify_all();
        if let Some(timer) = self.timer.take() {
            let _panicked = timer.join();
        }
    }
}

impl Hand {
    /// Sets its speed from now on.
    pub fn set(&self, speed: DeviceSpeed) {
        self.0.state().pace.set(speed, Instant::now());
    }

    /// Limits reads and writes together to so many a second.
    pub fn iops(&self, iops: u64) -> Result<()> {
        self.set(DeviceSpeed { iops, ..DeviceSpeed::default() });
        Ok(())
    }

    /// Sets one limit, `what`: write_iops, read_bps or write_bps; the others stay.
    pub fn limit(&self, what: &str, value: u64) -> Result<()> {
        let mut state = self.0.state();
        let mut speed = state.pace.speed();
        match what {
            "iops" => speed.iops = value,
            "write_iops" => speed.write_iops = value,
            "read_bps" => speed.read_bps = value,
            "write_bps" => speed.write_bps = value,
            _ => {
                return Err(LabError::missing(format!("a limit called {what}"), "see Hand::limit"));
            }
        }
        state.pace.set(speed, Instant::now());
        Ok(())
    }

    /// Sets the latency of each request, at any depth.
    pub fn latency(&self, latency: Duration) {
        self.set(DeviceSpeed { latency, ..DeviceSpeed::default() });
    }

    /// Sets the latency of each discard, for which later requests wait; the limits stay.
    pub fn discard(&self, discard: Duration) {
        let mut state = self.0.state();
        let speed = DeviceSpeed { discard, ..state.pace.speed() };
        state.pace.set(speed, Instant::now());
    }

    /// Stops answering for a time, also to requests that already wait.
    pub fn stall(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.0.state();
        state.pace.stall(until);
        let waiting = std::mem::take(&mut state.waiting).into_iter();
        let later =
            waiting.map(|Reverse(reply)| Reverse(DueReply { due: reply.due.max(until), ..reply }));
        state.waiting = later.collect();
    }

    /// Removes every limit, and answers the requests that wait.
    pub fn open(&self) {
        let now = Instant::now();
        let mut state = self.0.state();
        state.pace = Pace::new(now);
        let waiting = std::mem::take(&mut state.waiting).into_iter();
        state.waiting =
            waiting.map(|Reverse(reply)| Reverse(DueReply { due: now, ..reply })).collect();
        self.0.changed.notify_all();
    }
}

impl ServedShared {
    fn state(&self) -> MutexGuard<'_, ServedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers now or at its time.
    fn promise(&self, kind: RequestClass, bytes: u64, what: ServedWork) {
        let now = Instant::now();
        let mut state = self.state();
        let due = state.pace.due(kind, bytes, now);
        if due <= now {
            drop(state);
            return self.answer(what);
        }
        state.arrived += 1;
        let answer = DueReply { due, number: state.arrived, what };
        let is_next = state.waiting.peek().is_none_or(|Reverse(next)| due < next.due);
        state.waiting.push(Reverse(answer));
        if is_next {
            self.changed.notify_all();
        }
    }

    fn answer(&self, what: ServedWork) {
        match what {
            ServedWork::Read { offset, bytes, reply } => {
                match self.bytes().get(offset..offset.saturating_add(bytes)) {
                    Some(data) => reply.data(data),
                    None => reply.error(Errno::EIO),
                }
            }
            ServedWork::Written { bytes, reply } => reply.written(bytes),
            ServedWork::Flushed(reply) => reply.ok(),
        }
    }

    /// Answers requests at their time until the device is removed.
    fn answer_in_time(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            match state.waiting.peek().map(|Reverse(next)| next.due) {
                None if state.ended => return,
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Some(due) if due > now => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    let next = state.waiting.pop();
                    drop(state);
                    if let Some(Reverse(answer)) = next {
                        self.answer(answer.what);
                    }
                    state = self.state();
                }
            }
        }
    }
}

/// The file system: a folder with one file.
struct ServedRoot(Arc<ServedShared>);

impl ServedRoot {
    fn about(&self, inode: INodeNo) -> FileAttr {
        about(inode, self.0.bytes().len() as u64)
    }
}

impl Filesystem for ServedRoot {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without it the loop device would do one request after the other.
        let _older_kernels_lack_it = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _clamped = config.set_max_background(MOST_AT_ONCE);
        Ok(())
    }

    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&FOREVER, &self.about(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.about(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
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
        let end = self.0.bytes().len() as u64;
        let bytes = u64::from(size).min(end.saturating_sub(offset));
        let what = ServedWork::Read { offset: offset as usize, bytes: bytes as usize, reply };
        self.0.promise(RequestClass::Read, bytes, what);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let start = offset as usize;
        match self.0.bytes().get_mut(start..start.saturating_add(data.len())) {
            Some(place) => place.copy_from_slice(data),
            None => return reply.error(Errno::ENOSPC),
        }
        let bytes = data.len() as u32;
        self.0.promise(RequestClass::Write, u64::from(bytes), ServedWork::Written { bytes, reply });
    }

    /// Discarded data is lost, as on a device that reports this.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        let start = offset as usize;
        if let Some(place) = self.0.bytes().get_mut(start..start.saturating_add(length as usize)) {
            place.fill(0);
        }
        self.0.promise(RequestClass::Discard, 0, ServedWork::Flushed(reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        self.0.promise(RequestClass::Flush, 0, ServedWork::Flushed(reply));
    }
}
