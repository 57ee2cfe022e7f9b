//! Functions of programs that wait for a lock: by them a thread that waits for its turn is told from
//! one that waits for work.
//!
//! What does not belong here: functions of the kernel (see [`super::class`]).

/// Parts of names. Sources: HotSpot's, java.util.concurrent's, glibc's and parking_lot's own code.
const OF_LOCKS: &[&str] = &[
    "ObjectMonitor::enter",
    "ObjectMonitor::EnterI",
    "ObjectSynchronizer::enter",
    "complete_monitor_locking",
    "InterpreterRuntime::monitorenter",
    "AbstractQueuedSynchronizer.acquire",
    "ReentrantLock.lock",
    "pthread_mutex_lock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "__lll_lock_wait",
    "raw_mutex::RawMutex::lock_slow",
    "raw_rwlock::RawRwLock::lock_",
];

/// Whether the functions of a stack say that the thread waits for a lock.
pub fn is_lock<'a>(frames: impl IntoIterator<Item = &'a str>) -> bool {
    frames.into_iter().any(|frame| OF_LOCKS.iter().any(|part| frame.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_from_work() {
        assert!(is_lock(["os::PlatformEvent::park()", "ObjectMonitor::enter(JavaThread*)"]));
        assert!(!is_lock(["os::PlatformEvent::park()", "Monitor::wait(long)"]));
        assert!(!is_lock(["runtime.futex", "runtime.stopm"]));
    }
}
