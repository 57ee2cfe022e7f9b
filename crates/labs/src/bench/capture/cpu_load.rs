//! Loads without I/O whose cost is that of system calls and context switches: threads of this
//! process.
//!
//! What does not belong here: fio's reads (see [`crate::bench::load`]).

use crate::bench::load::{LoadWindow, MeasuredLoad, WindowBegin};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result};
use rustix::pipe::pipe;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Calls between two checks of the stop flag.
const CALLS_AT_ONCE: u64 = 1000;

/// The work of the threads, without a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuLoad {
    /// One thread calls getppid(2), the cheapest system call.
    GetPpid,
    /// One thread reads a byte that is in the page cache.
    CachedRead,
    /// Two threads on one CPU pass a byte to each other through two pipes: two context switches a
    /// round. On two CPUs the speed would be that of waking an idle CPU.
    PipePingPong,
}

impl CpuLoad {
    pub const ALL: [CpuLoad; 3] = [CpuLoad::GetPpid, CpuLoad::CachedRead, CpuLoad::PipePingPong];

    pub fn name(self) -> &'static str {
        match self {
            CpuLoad::GetPpid => "getppid(2) in a loop",
            CpuLoad::CachedRead => "pread(2) of a cached byte in a loop",
            CpuLoad::PipePingPong => "two threads on one CPU that pass a byte through pipes",
        }
    }

    /// Starts it.
    pub fn run(self, scratch: &Scratch) -> Result<RunningCpuLoad> {
        let mut running = RunningCpuLoad::default();
        match self {
            CpuLoad::GetPpid => running.repeat(|| {
                let _parent = rustix::process::getppid();
                true
            }),
            CpuLoad::CachedRead => {
                let path = scratch.fresh("cached");
                std::fs::write(&path, [0; 4096]).context(|| "write a file".to_owned())?;
                let file = File::open(&path).context(|| "open a file".to_owned())?;
                let mut byte = [0];
                running.repeat(move || rustix::io::pread(&file, &mut byte, 0).is_ok());
            }
            CpuLoad::PipePingPong => {
                let new = || pipe().map_err(std::io::Error::from);
                let (there, back) = (
                    new().context(|| "make a pipe".to_owned())?,
                    new().context(|| "make a pipe".to_owned())?,
                );
                running.echo(there.0, back.1);
                let mut is_placed = false;
                running.repeat(move || {
                    is_placed = is_placed || stay_on_first_cpu();
                    passes_on(&there.1, &back.0)
                });
            }
        }
        Ok(running)
    }
}

/// Keeps the calling thread on the first CPU.
fn stay_on_first_cpu() -> bool {
    let mut first = CpuSet::new();
    first.set(0);
    // If it is not permitted, the load runs on two CPUs.
    let _ = sched_setaffinity(None, &first);
    true
}

/// Writes a byte to `to` and waits for one from `from`. Returns whether both went well.
fn passes_on(to: &OwnedFd, from: &OwnedFd) -> bool {
    let mut byte = [0];
    rustix::io::write(to, &byte).is_ok() && rustix::io::read(from, &mut byte).is_ok_and(|n| n > 0)
}

/// The threads; ended on drop.
#[derive(Default)]
pub struct RunningCpuLoad {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningCpuLoad {
    /// Repeats `call` in a thread, and counts, until it returns false or the load ends.
    fn repeat(&mut self, mut call: impl FnMut() -> bool + Send + 'static) {
        let (done, stop) = (Arc::clone(&self.done), Arc::clone(&self.stop));
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) && (0..CALLS_AT_ONCE).all(|_| call()) {
                done.fetch_add(CALLS_AT_ONCE, Ordering::Relaxed);
            }
        }));
    }

    /// Returns each byte of a pipe through another, until the first is closed.
    fn echo(&mut self, from: OwnedFd, to: OwnedFd) {
        self.threads.push(std::thread::spawn(move || {
            stay_on_first_cpu();
            let mut byte = [0];
            while rustix::io::read(&from, &mut byte).is_ok_and(|n| n > 0)
                && rustix::io::write(&to, &byte).is_ok()
            {}
        }));
    }
}

impl MeasuredLoad for RunningCpuLoad {
    fn window(&mut self, seconds: u64) -> Result<LoadWindow> {
        let begin = WindowBegin::now();
        let before = self.done.load(Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        let done = self.done.load(Ordering::Relaxed) - before;
        match done {
            0 => Err(LabError::failed("keep a CPU busy", "the load's thread ended")),
            _ => Ok(begin.end(done)),
        }
    }
}

impl Drop for RunningCpuLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The last one closes the pipe of the one before it.
        for thread in self.threads.drain(..).rev() {
            let _panicked = thread.join();
        }
    }
}
