//! Functions of programs that wait for a lock, and of those that wait for work: by them a thread that
//! waits for its turn is distinguished from an idle one.
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

/// Parts of names of functions in which a thread waits for work. Sources: Go's scheduler (a parked M
/// has no goroutine to run), java.util.concurrent's pools and queues, HotSpot's own threads, tokio.
const OF_IDLE: &[&str] = &[
    "runtime.stopm",
    "runtime.mPark",
    "runtime.notesleep",
    "runtime.notetsleep",
    "runtime.findRunnable",
    "ThreadPoolExecutor.getTask",
    "LinkedBlockingQueue.take",
    "LinkedBlockingQueue.poll",
    "ArrayBlockingQueue.take",
    "SynchronousQueue",
    "DelayedWorkQueue.take",
    "ForkJoinPool.awaitWork",
    "ForkJoinPool.runWorker",
    "Object.wait",
    "ObjectMonitor::wait",
    "Monitor::wait",
    "tokio::runtime::park",
    "multi_thread::worker",
];

/// Whether the functions of a stack say that the thread waits for work.
pub fn is_idle<'a>(frames: impl IntoIterator<Item = &'a str>) -> bool {
    frames.into_iter().any(|frame| OF_IDLE.iter().any(|part| frame.contains(part)))
}

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
        assert!(is_idle(["runtime.futex", "runtime.stopm"]));
        assert!(is_idle(["os::PlatformEvent::park()", "Monitor::wait(long)"]));
        assert!(!is_idle(["__lll_lock_wait", "pthread_mutex_lock"]));
    }
}
