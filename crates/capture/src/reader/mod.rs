//! Reads that may hang: other processes' memory, their programs' files, their open files, and
//! whatever their own view of the file system has under `/tmp`; the files of container engines; and
//! devices' settings, which others may be changing. On a sick disk such a read waits for that disk,
//! or for a lock of the process that waits for it, and cannot be interrupted. A hostile file system
//! in user space may never answer. A thread of iowhy that waits like this could not exit, so a
//! separate process reads: the same program, queried over a pipe. When it takes too long it is
//! abandoned, a new one is started, and the process that the question was about is not read again.
//! A file that shrinks while it is read kills that process, not iowhy.
//!
//! | where | what |
//! |---|---|
//! | `question` | the questions and answers |
//! | `aside` | the process: started, queried with a timeout, abandoned |
//! | `serve` | what it does |
//! | `health` | asks devices for their health, with a process of its own |
//! | `allowance` | how much of programs' files it may read from disk |
//! | `perf_map` | names of JIT-compiled functions |
//! | `go_names` | names of functions of Go programs, stripped ones too |
//! | `sleeping_stack` | the functions that a sleeping thread is in |
//! | `unwind` | the functions of copied stacks, by the tables of `unwind_tables` |
//!
//! What does not belong here: files that the kernel generates without involving a process or a
//! disk, such as `/proc/PID/stat`.

mod allowance;
mod aside;
mod code;
mod go_names;
pub mod health;
mod perf_map;
mod question;
mod serve;
mod sleeping_stack;
mod unwind;
mod unwind_tables;

use crate::confined::RightsHolder;
use crate::host::held::HeldFiles;
use crate::host::workload::Workload;
use aside::{Aside, Silence};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use iowhy_model::Losses;
use question::{Lookup, Question};
use rustc_hash::FxHashSet;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use question::{CopiedRegisters, FrameName, UnwindEnd, UnwoundStack, WORDS};
pub use serve::serve;

/// The program's only argument when it is started as the reader.
const ARGUMENT: &str = "--answer-what-is-asked-on-standard-input";

/// The reader's second argument when it only asks devices.
const ABOUT_DEVICES: &str = "devices";

/// Timeout of one answer.
const MOST_WAIT: Duration = Duration::from_millis(200);
/// Total time that answers may block; for a longer watch, this fraction of it.
const MOST_WAIT_IN_ALL: Duration = Duration::from_secs(2);
const PART_OF_WATCH: u32 = 50;
/// Timeout of one answer, even if the reader computes.
const MOST_TIME: Duration = Duration::from_secs(5);
/// Timeout of unwinding a stack, which takes some hundred microseconds: the tables that lead
/// through it are the program's, and may be a loop.
const MOST_UNWINDING: Duration = Duration::from_millis(500);
/// The ring buffer fills up while a stack is unwound: so long at once, and then for one in so many
/// parts of the time. Chosen: a ring buffer that fills up in less is read too late anyway.
const AT_ONCE: Duration = Duration::from_millis(50);
const PART_OF_TIME: u32 = 10;
/// Abandoned readers that have not exited yet.
const MOST_GIVEN_UP: usize = 4;

/// The process number of a question that is not about a process.
const NO_PROCESS: u32 = 0;

/// The number that stands for the files that name containers: no process has it.
const NAMES: u32 = u32::MAX;

/// The reason why a stack was not read.
pub const LATE: &str = "the process's memory or its programs' files could not be read in time";

/// Whether this process was started to [`serve`].
pub fn is_asked_for() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// The rights that this process has a use for, which was started to [`serve`].
pub fn role() -> RightsHolder {
    match std::env::args_os().nth(2).is_some_and(|argument| argument == ABOUT_DEVICES) {
        true => RightsHolder::HealthAsker,
        false => RightsHolder::Reader,
    }
}

/// Queries the reader's process. Clones query the same one.
#[derive(Clone, Debug)]
pub struct FileAsker(Rc<RefCell<Asker>>);

#[derive(Debug)]
struct Asker {
    command: fn() -> Command,
    begun: Instant,
    aside: Option<Aside>,
    given_up: Vec<Child>,
    /// Processes that are not queried any more.
    left: FxHashSet<u32>,
    /// Total time that abandoned readers blocked.
    blocked: Duration,
    /// The CPU time of abandoned readers, ns.
    cost_ns: u64,
    /// Number of abandoned readers.
    hung: u64,
    unanswered: u64,
    /// Total time that unwinding took.
    unwinding: Duration,
    /// Stacks that were not unwound for that reason.
    not_unwound: u64,
}

/// No answer, and none will come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unanswered;

impl Default for FileAsker {
    fn default() -> FileAsker {
        FileAsker::with(reader_command)
    }
}

/// Starts this program as the reader.
fn reader_command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(ARGUMENT);
    command
}

/// Starts this program to ask devices.
fn health_command() -> Command {
    let mut command = reader_command();
    command.arg(ABOUT_DEVICES);
    command
}

impl FileAsker {
    fn with(command: fn() -> Command) -> FileAsker {
        FileAsker(Rc::new(RefCell::new(Asker {
            command,
            begun: Instant::now(),
            aside: None,
            given_up: Vec::new(),
            left: FxHashSet::default(),
            blocked: Duration::ZERO,
            cost_ns: 0,
            hung: 0,
            unanswered: 0,
            unwinding: Duration::ZERO,
            not_unwound: 0,
        })))
    }

    /// The functions at `addresses` of a process; `None` if it has exited.
    pub fn functions(
        &self,
        process: u32,
        addresses: &[u64],
    ) -> Result<Option<Vec<FrameName>>, Unanswered> {
        self.ask(process, Lookup::Functions(addresses.to_vec()))
    }

    /// Return addresses on the stack of a sleeping thread, innermost first; see `sleeping_stack`.
    pub fn sleeping_stack(&self, process: u32, stack_pointer: u64) -> Vec<u64> {
        self.ask(process, Lookup::Stack { stack_pointer }).unwrap_or_default()
    }

    /// Unwinds a copied stack, whose bytes begin at the stack pointer; `None` if the process has
    /// exited.
    pub fn unwind(
        &self,
        process: u32,
        registers: CopiedRegisters,
        stack: &[u8],
    ) -> Result<Option<UnwoundStack>, Unanswered> {
        let begun = Instant::now();
        if !self.0.borrow_mut().may_unwind() {
            return Err(Unanswered);
        }
        let stack = STANDARD.encode(stack);
        let answer = self.ask_for(process, Lookup::Unwind { registers, stack }, MOST_UNWINDING);
        self.0.borrow_mut().unwinding += begun.elapsed();
        answer
    }

    /// Whether a walk along frame pointers, the innermost address first, has passed a function that
    /// keeps none, as far as tables tell: it went on with its caller's, and left the caller out.
    pub fn leaves_out(&self, process: u32, frames: &[u64]) -> Result<bool, Unanswered> {
        self.ask(process, Lookup::LeavesOut(frames.to_vec()))
    }

    /// Words of a process's memory.
    pub fn words(&self, process: u32, address: u64) -> Option<[u32; WORDS]> {
        self.ask(process, Lookup::Words { address }).ok().flatten()
    }

    /// A process's command line.
    pub fn arguments(&self, process: u32) -> Option<String> {
        self.ask(process, Lookup::Arguments).ok().flatten()
    }

    /// The open files of a process whose path begins with one of `prefixes`; all of them if empty.
    pub fn held(&self, process: u32, prefixes: &[String]) -> Result<HeldFiles, Unanswered> {
        self.ask(process, Lookup::Held { prefixes: prefixes.to_vec() })
    }

    /// Returns the workload of the cgroup with this path, from files of the node.
    pub fn workload(&self, cgroup: &str) -> Option<Workload> {
        self.ask(NAMES, Lookup::Workload { cgroup: cgroup.to_owned() }).ok()
    }

    /// Settings of the devices in these directories, which can change while the device is in use. A
    /// process that changes the scheduler of a hung disk waits for its requests, and on older
    /// kernels holds a lock meanwhile that readers need, too.
    pub fn settings(
        &self,
        directories: Vec<PathBuf>,
    ) -> Result<Vec<BTreeMap<String, String>>, Unanswered> {
        self.ask(NO_PROCESS, Lookup::Settings { directories })
    }

    fn ask<T: DeserializeOwned>(&self, process: u32, what: Lookup) -> Result<T, Unanswered> {
        self.ask_for(process, what, MOST_TIME)
    }

    /// Asks, and waits for an answer for up to `most_time`, even if the reader computes.
    fn ask_for<T: DeserializeOwned>(
        &self,
        process: u32,
        what: Lookup,
        most_time: Duration,
    ) -> Result<T, Unanswered> {
        let mut asker = self.0.borrow_mut();
        let answer = asker.ask(&Question { process, what }, most_time);
        let answer = answer.and_then(|line| serde_json::from_str(&line).ok());
        asker.unanswered += u64::from(answer.is_none());
        answer.ok_or(Unanswered)
    }

    /// CPU time of the reads so far, ns.
    pub fn cpu_ns(&self) -> u64 {
        let asker = self.0.borrow();
        asker.cost_ns + asker.aside.as_ref().map_or(0, |aside| cpu_ns_of(aside.pid()))
    }

    /// Memory of the reader that is resident now, bytes.
    pub fn anonymous_bytes(&self) -> u64 {
        let asker = self.0.borrow();
        let status = asker.aside.as_ref().and_then(|aside| about(aside.pid(), "status"));
        crate::host::own::anonymous_in(&status.unwrap_or_default())
    }

    /// Adds the reads that failed.
    pub fn losses(&self, losses: &mut Losses) {
        let asker = self.0.borrow();
        let meaning = "reads of stacks, locks, command lines, containers or device settings that \
                       timed out";
        losses.add("unread", asker.unanswered, meaning, false);
        let meaning = "reads of processes or device settings abandoned: hung or failed";
        losses.add("readers", asker.hung, meaning, false);
        let meaning = "stacks without frame pointers not unwound: it took too long in total";
        losses.add("unwinding", asker.not_unwound, meaning, false);
    }
}

impl Asker {
    /// Returns the answer, one line.
    fn ask(&mut self, question: &Question, most_time: Duration) -> Option<String> {
        let most = self.may_wait();
        if most.is_zero() || self.left.contains(&question.process) {
            return None;
        }
        let line = format!("{}\n", serde_json::to_string(question).ok()?);
        let mut aside = match self.aside.take() {
            Some(aside) => aside,
            None => Aside::start((self.command)()).ok()?,
        };
        match aside.ask(&line, most, most_time) {
            Ok(answer) => {
                self.aside = Some(aside);
                Some(answer)
            }
            Err(Silence::Late | Silence::Gone) => {
                self.hung += 1;
                self.left.insert(question.process);
                self.blocked += aside.blocked;
                self.cost_ns += cpu_ns_of(aside.pid());
                self.given_up.push(aside.give_up());
                None
            }
        }
    }

    /// Whether there is time left to unwind a stack.
    fn may_unwind(&mut self) -> bool {
        let elapsed = self.begun.elapsed();
        let most = MOST_WAIT_IN_ALL.max(elapsed / PART_OF_WATCH);
        let may = self.unwinding < most.min(AT_ONCE + elapsed / PART_OF_TIME);
        self.not_unwound += u64::from(!may);
        may
    }

    /// Returns the longest time to wait for the next answer.
    fn may_wait(&mut self) -> Duration {
        self.given_up.retain_mut(|child| child.try_wait().is_ok_and(|ended| ended.is_none()));
        if self.given_up.len() >= MOST_GIVEN_UP {
            return Duration::ZERO;
        }
        let most = MOST_WAIT_IN_ALL.max(self.begun.elapsed() / PART_OF_WATCH);
        let blocked =
            self.blocked + self.aside.as_ref().map_or(Duration::ZERO, |aside| aside.blocked);
        most.saturating_sub(blocked).min(MOST_WAIT)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(aside) = self.aside.take() {
            aside.end();
        }
    }
}

/// Reads a file of `/proc/PID`, of a process of iowhy's own.
fn about(pid: u32, file: &str) -> Option<String> {
    crate::host::read_text(format!("/proc/{pid}/{file}"))
}

fn cpu_ns_of(pid: u32) -> u64 {
    let text = about(pid, "schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn lost(reader: &FileAsker) -> Vec<u64> {
        let mut losses = Losses::default();
        reader.losses(&mut losses);
        losses.items.iter().map(|loss| loss.count).collect()
    }

    #[test]
    fn what_is_answered_is_taken() {
        let reader = FileAsker::with(|| shell("while read line; do echo '\"a b\"'; done"));
        assert_eq!(reader.arguments(1).as_deref(), Some("a b"));
        assert_eq!(reader.words(1, 0), None);
        assert_eq!(reader.arguments(2).as_deref(), Some("a b"));
        assert_eq!(lost(&reader), [1]);
    }

    #[test]
    fn who_never_answers_is_given_up() {
        let reader = FileAsker::with(|| shell("read line; exec sleep 1000"));
        let begun = Instant::now();
        for process in [1, 1, 2, 1] {
            assert_eq!(reader.arguments(process), None);
        }
        let took = begun.elapsed();
        assert!(took >= 2 * MOST_WAIT && took < 10 * MOST_WAIT, "{took:?}");
        assert_eq!(lost(&reader), [4, 2]);
        for process in 3..100 {
            assert_eq!(reader.functions(process, &[1]), Err(Unanswered));
        }
        assert!(begun.elapsed() < 2 * MOST_WAIT_IN_ALL, "{:?}", begun.elapsed());
    }

    #[test]
    fn who_computes_is_waited_for() {
        let reader = FileAsker::with(|| {
            // Half a second of CPU time, however long that takes: fields 14 and 15, after a name
            // without spaces.
            shell(
                "read line; used=0; while [ $used -lt 50 ]; do read -r all </proc/self/stat; \
                 set -- $all; used=$((${14} + ${15})); done; echo '\"x\"'",
            )
        });
        let begun = Instant::now();
        assert_eq!(reader.arguments(1).as_deref(), Some("x"), "{:?}", begun.elapsed());
        assert!(begun.elapsed() > MOST_WAIT, "too fast to tell: {:?}", begun.elapsed());
    }

    #[test]
    fn who_ends_is_not_asked_again_about_the_same() {
        let reader = FileAsker::with(|| shell("read line; kill -BUS $$"));
        assert_eq!(reader.arguments(1), None);
        assert_eq!(reader.arguments(1), None);
        assert_eq!(lost(&reader), [2, 1]);
    }
}
