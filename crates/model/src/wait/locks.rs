//! Functions of programs that wait for a lock, or for work: they distinguish a thread that waits
//! for a lock from an idle one.
//!
//! What does not belong here: functions of the kernel (see [`super::class`]).

/// Parts of names. Sources: HotSpot's, java.util.concurrent's, glibc's, parking_lot's, MariaDB's
/// and MySQL's own code.
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
    "MDL_wait::timed_wait",
    "MDL_context::acquire_lock",
    "thr_multi_lock",
    "lock_wait_suspend_thread",
];

/// Whether the functions of a stack show that the thread waits for a lock.
pub fn is_lock<'a>(frames: impl IntoIterator<Item = &'a str>) -> bool {
    frames.into_iter().any(|frame| OF_LOCKS.iter().any(|part| frame.contains(part)))
}

/// Parts of names of functions in which a thread waits for work. Sources: Go's runtime, whose locks
/// for programs never put a thread to sleep, java.util.concurrent's, HotSpot's, tokio's, Rust's
/// standard library's, libuv's and glib's own code, and PostgreSQL's processes without a client.
const OF_IDLE: &[&str] = &[
    "CheckpointerMain",
    "BackgroundWriterMain",
    "WalWriterMain",
    "AutoVacLauncherMain",
    "runtime.stopm",
    "runtime.mPark",
    "runtime.notesleep",
    "runtime.notetsleep",
    "runtime.findRunnable",
    "runtime.findrunnable",
    "runtime.stoplockedm",
    "runtime.sysmon",
    "ThreadPoolExecutor.getTask",
    "BlockingQueue.take",
    "BlockingQueue.poll",
    "BlockingDeque.take",
    "DelayedWorkQueue.take",
    "SynchronousQueue",
    "ForkJoinPool.awaitWork",
    "ForkJoinPool.runWorker",
    "Object.wait",
    "Unsafe_Park",
    "Parker::park",
    "ObjectMonitor::wait",
    "Monitor::wait",
    "WorkerThread::run",
    "GangWorker::loop",
    "tokio::runtime::",
    "std::thread::park",
    "uv_cond_wait",
    "g_async_queue_pop",
];

/// Whether the functions of a stack show that the thread waits for work. A thread that parks within
/// a lock waits for the lock.
pub fn is_idle(frames: &[String]) -> bool {
    let is_part = |frame: &String| OF_IDLE.iter().any(|part| frame.contains(part));
    frames.iter().any(is_part) && !is_lock(frames.iter().map(String::as_str))
}

/// Threads of a JVM that only wait for work, by the kernel's names, which have 15 bytes. Source:
/// HotSpot's own code.
const IDLE_THREADS: &[&str] = &[
    "C1 CompilerThre",
    "C2 CompilerThre",
    "Sweeper thread",
    "Service Thread",
    "Monitor Deflati",
    "Signal Dispatch",
    "Notification Th",
    "Attach Listener",
    "Common-Cleaner",
    "Reference Handl",
    "Finalizer",
    "VM Periodic Tas",
    "GC Thread#",
    "G1 Conc#",
    "G1 Refine#",
    "G1 Service",
    "G1 Main Marker",
];

/// Returns a thread's name with its digits as one `*`: `worker-12` is `worker-*`.
pub fn folded(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if folded.ends_with('*') => {}
            true => folded.push('*'),
            false => folded.push(letter),
        }
    }
    folded
}

/// Whether a thread of this name, or of this name with its digits folded, waits for work, unless
/// its stack shows a lock.
pub fn is_idle_thread(name: &str, frames: &[String]) -> bool {
    let is_named = IDLE_THREADS.iter().any(|idle| folded(name).starts_with(&folded(idle)));
    is_named && !is_lock(frames.iter().map(String::as_str))
}

/// Parts of names of functions in which a transaction waits for a row or a table that another one
/// has locked: PostgreSQL's proc.c, lmgr.c and heapam.c, InnoDB's lock0lock.cc and lock0wait.cc,
/// MariaDB's mdl.cc.
const OF_ROW_LOCKS: &[&str] = &[
    "ProcSleep",
    "MDL_wait::timed_wait",
    "XactLockTableWait",
    "heap_lock_tuple",
    "heap_acquire_tuplock",
    "ConditionalXactLockTableWait",
    "lock_wait(que_thr_t",
    "lock_wait_suspend_thread",
    "row_mysql_handle_errors",
];

/// Whether the functions of a stack show that a transaction waits for a locked row or table.
pub fn is_row_lock(frames: &[String]) -> bool {
    frames.iter().any(|frame| OF_ROW_LOCKS.iter().any(|part| frame.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_from_work() {
        assert!(is_lock(["os::PlatformEvent::park()", "ObjectMonitor::enter(JavaThread*)"]));
        assert!(!is_lock(["os::PlatformEvent::park()", "Monitor::wait(long)"]));
        assert!(!is_lock(["runtime.futex", "runtime.stopm"]));
        assert!(is_lock(["pthread_cond_timedwait", "MDL_wait::timed_wait(MDL_context_owner*)"]));
    }

    #[test]
    fn a_runtimes_own_threads_are_idle() {
        assert!(is_idle_thread("C2 CompilerThre", &[]));
        assert!(is_idle_thread("C* CompilerThre", &[]) && is_idle_thread("G1 Conc#12", &[]));
        assert!(!is_idle_thread("worker-1", &[]));
        assert!(!is_idle_thread("Finalizer", &["ObjectMonitor::enter(JavaThread*)".to_owned()]));
    }

    #[test]
    fn a_locked_row_shows_in_the_stack() {
        let frames = ["WaitEventSetWait", "ProcSleep", "XactLockTableWait", "heap_update"];
        assert!(is_row_lock(&frames.map(str::to_owned)));
        // Stripped servers name those functions only that other files use.
        assert!(is_row_lock(&["WaitLatch", "ProcSleep", "0x55eebe31995d"].map(str::to_owned)));
        assert!(!is_row_lock(&["WaitEventSetWait".to_owned(), "WalSndLoop".to_owned()]));
    }

    #[test]
    fn parked_threads_are_idle() {
        let frames =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for idle in [
            &["runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.stopm"][..],
            &["Parker::park(bool, long)", "Unsafe_Park", "LinkedBlockingQueue.take"],
            &["Parker::park(bool, long)", "Unsafe_Park"],
        ] {
            assert!(is_idle(&frames(idle)), "{idle:?}");
        }
        let locked = ["Parker::park(bool, long)", "Unsafe_Park", "ReentrantLock.lock()"];
        assert!(!is_idle(&frames(&locked)) && !is_idle(&frames(&["0x7f07224a3f16"])));
    }
}
