//! Says so when the disk that a recording is written to does not answer. The thread that writes
//! waits in the kernel then, where no signal reaches it, so another one speaks.
//!
//! What does not belong here: the flight recorder, which never writes to a disk itself.

use crate::output;
use iowhy_fs::confined::{Role, limit_this_thread};
use rustix::thread::CapabilitySet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The longest time of a write that nobody is told of.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks of the thread.
const PAUSE: Duration = Duration::from_millis(100);
/// No write is going on.
const IDLE: u64 = u64::MAX;

/// Watches the writes of one recording.
#[derive(Debug)]
pub struct SlowDiskNotice {
    state: Arc<WriteState>,
    begun: Instant,
}

#[derive(Debug)]
struct WriteState {
    /// Time at which the present write began, milliseconds after the beginning of the watch.
    since_ms: AtomicU64,
    is_over: AtomicBool,
}

impl SlowDiskNotice {
    /// Watches writes to `path`.
    pub fn start(path: &Path) -> SlowDiskNotice {
        let path = path.display().to_string();
        SlowDiskNotice::speaking(PATIENCE, move |waits| {
            output::note(&match waits {
                Some(waited) => format!(
                    "the disk of {path} has not answered for {} s: the recording waits for it, and \
                     cannot end before it answers",
                    waited.as_secs()
                ),
                None => format!("the disk of {path} answers again"),
            });
        })
    }

    /// Watches writes with another patience; `say` is told how long a write has taken, and with
    /// `None` that it is over.
    fn speaking(
        patience: Duration,
        say: impl Fn(Option<Duration>) + Send + 'static,
    ) -> SlowDiskNotice {
        let state = WriteState { since_ms: AtomicU64::new(IDLE), is_over: AtomicBool::new(false) };
        let state = Arc::new(state);
        let (watched, begun) = (Arc::clone(&state), Instant::now());
        let watch = move || {
            limit_this_thread(&Role::Writes(Vec::new()), CapabilitySet::empty());
            let mut told = None;
            while !watched.is_over.load(Ordering::Relaxed) {
                let since_ms = watched.since_ms.load(Ordering::Relaxed);
                let since = (since_ms != IDLE).then(|| Duration::from_millis(since_ms));
                let waited = since.map(|since| begun.elapsed().saturating_sub(since));
                if told.is_some() && told != since {
                    say(None);
                    told = None;
                }
                if told.is_none() && waited.is_some_and(|waited| waited >= patience) {
                    say(waited);
                    told = since;
                }
                std::thread::sleep(PAUSE);
            }
        };
        // Without a thread nobody speaks, and the recording is the same.
        let _ = Builder::new().name("slow-disk".to_owned()).spawn(watch);
        SlowDiskNotice { state, begun }
    }

    /// Does `write`, which may have to wait for the disk.
    pub fn during<T>(&self, write: impl FnOnce() -> T) -> T {
        let since_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(0);
        self.state.since_ms.store(since_ms, Ordering::Relaxed);
        let written = write();
        self.state.since_ms.store(IDLE, Ordering::Relaxed);
        written
    }
}

impl Drop for SlowDiskNotice {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_write_that_takes_long_is_spoken_of_once_and_its_end_too() {
        let (sender, said) = channel();
        let notice = SlowDiskNotice::speaking(Duration::from_millis(300), move |waits| {
            sender.send(waits.is_some()).unwrap();
        });
        notice.during(|| ());
        std::thread::sleep(2 * PAUSE);
        assert!(said.try_recv().is_err(), "a quick write is nothing to speak of");
        notice.during(|| assert!(said.recv_timeout(Duration::from_secs(20)).unwrap()));
        assert!(!said.recv_timeout(Duration::from_secs(20)).unwrap());
        std::thread::sleep(5 * PAUSE);
        assert!(said.try_recv().is_err());
    }
}
