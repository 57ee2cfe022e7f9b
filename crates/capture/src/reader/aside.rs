//! The reader's process: started, queried with a timeout, abandoned.

use iowhy_fs::special::nowhere;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Poll interval for checking whether it is blocked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Bytes of the pipe to it: a stack as text, which is sent at once.
const PIPE: usize = 256 << 10;
/// Bytes of an answer: half a million open files of a process.
const MOST_ANSWER: usize = 64 << 20;
/// How long to wait for its exit when it is no longer needed.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// A process that answers questions.
#[derive(Debug)]
pub(super) struct Aside {
    child: Child,
    input: ChildStdin,
    /// Capacity of the pipe to the process, bytes.
    room: usize,
    output: ChildStdout,
    buffer: Vec<u8>,
    /// Bytes of it that hold no end of a line.
    looked: usize,
    /// Total time that we waited while it was blocked itself.
    pub blocked: Duration,
}

/// A reason why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// The process is blocked, or takes too long.
    Late,
    /// The process has exited.
    Gone,
}

/// Starts a program whose file gives it no rights: it has those of this process, and can tell by
/// that who started it.
fn spawn_without_new_rights(command: &mut Command) -> io::Result<Child> {
    // The mark is a thread's, and stays.
    let spawned = std::thread::scope(|threads| {
        let marked = || {
            rustix::thread::set_no_new_privs(true)?;
            command.spawn()
        };
        threads.spawn(marked).join()
    });
    spawned.unwrap_or_else(|_panicked| Err(io::ErrorKind::Other.into()))
}

impl Aside {
    /// Starts it, in a process group of its own, so that terminal signals do not reach it. It exits
    /// when its input is closed.
    pub fn start(mut command: Command) -> io::Result<Aside> {
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(Stdio::piped());
        command.stderr(nowhere());
        let mut child = spawn_without_new_rights(&mut command)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        let _smaller_one = fcntl_setpipe_size(&input, PIPE);
        let room = fcntl_getpipe_size(&input)?;
        Ok(Aside {
            child,
            input,
            room,
            output,
            buffer: Vec::new(),
            looked: 0,
            blocked: Duration::ZERO,
        })
    }

    /// Returns its answer, a line, unless it is blocked for longer than `most`, or takes longer
    /// than `most_time` in total. Time in which it runs or is runnable does not count as blocked.
    pub fn ask(
        &mut self,
        line: &str,
        most: Duration,
        most_time: Duration,
    ) -> Result<String, Silence> {
        // The pipe is empty while it waits for the next question.
        self.send(line)?;
        let (begun, before) = (Instant::now(), self.blocked);
        loop {
            if let Some(line) = self.buffered()? {
                return Ok(line);
            }
            let look = Instant::now();
            match poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) if self.is_running() => {}
                Ok(0) => self.blocked += look.elapsed(),
                Ok(_) => self.read()?,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Silence::Gone),
            }
            if self.blocked - before >= most || begun.elapsed() >= most_time {
                return Err(Silence::Late);
            }
        }
    }

    /// Sends lines, which have to fit into the pipe: else it would be waited for without a limit.
    pub fn send(&mut self, lines: &str) -> Result<(), Silence> {
        if lines.len() > self.room {
            return Err(Silence::Late);
        }
        self.input.write_all(lines.as_bytes()).map_err(|_gone| Silence::Gone)
    }

    /// Returns the next line of its answers, for which it waits for up to `most`; `None` if there
    /// is none yet.
    pub fn next_line(&mut self, most: Duration) -> Result<Option<String>, Silence> {
        let begun = Instant::now();
        loop {
            if let Some(line) = self.buffered()? {
                return Ok(Some(line));
            }
            let left = most.saturating_sub(begun.elapsed());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Ok(None),
                Ok(_) => self.read()?,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Silence::Gone),
            }
        }
    }

    /// A line that has been read already.
    fn buffered(&mut self) -> Result<Option<String>, Silence> {
        let mut rest = self.buffer.iter().skip(self.looked);
        let Some(end) = rest.position(|byte| *byte == b'\n') else {
            self.looked = self.buffer.len();
            return Ok(None);
        };
        let line = self.buffer.drain(..=std::mem::take(&mut self.looked) + end).collect();
        String::from_utf8(line).map(Some).map_err(|_garbage| Silence::Gone)
    }

    fn read(&mut self) -> Result<(), Silence> {
        let mut room = [0; 16 << 10];
        let read = self.output.read(&mut room).map_err(|_gone| Silence::Gone)?;
        self.buffer.extend_from_slice(&room[..read]);
        if self.buffer.len() > MOST_ANSWER {
            return Err(Silence::Late);
        }
        if read == 0 { Err(Silence::Gone) } else { Ok(()) }
    }

    fn is_running(&self) -> bool {
        let text = super::about(self.child.id(), "stat").unwrap_or_default();
        // The name before it can contain anything, even a parenthesis.
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
    }

    /// Returns the process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Abandons it. A process in an uninterruptible sleep exits when that sleep ends; nothing waits
    /// for it until then.
    pub fn give_up(mut self) -> Child {
        let _ended_already = self.child.kill();
        self.child
    }

    /// Ends it.
    pub fn end(self) {
        let Aside { mut child, input, output, .. } = self;
        drop((input, output));
        let begun = Instant::now();
        while child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < LAST_MOMENT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_end_is_given_up_before_it_fills_memory() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; echo '\"a\"'; read line; exec tr '\\0' x </dev/zero"]);
        let mut aside = Aside::start(command).unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(aside.ask("\n", minute, minute).unwrap(), "\"a\"\n");
        let begun = Instant::now();
        assert_eq!(aside.ask("\n", minute, minute), Err(Silence::Late));
        assert!(aside.buffer.len() > MOST_ANSWER && begun.elapsed() < minute);
        assert!(aside.buffer.len() <= MOST_ANSWER + (16 << 10), "{} bytes", aside.buffer.len());
        aside.give_up().kill().unwrap();
    }
}
