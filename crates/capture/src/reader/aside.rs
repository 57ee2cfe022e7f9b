//! The reader's process: started, asked with a limit, given up.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether it waits.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// How long it may take for one answer, whatever it does.
const MOST_TIME: Duration = Duration::from_secs(5);
/// How long it is waited for when it is no longer needed.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// A process that can be asked.
#[derive(Debug)]
pub(super) struct Aside {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    buffer: Vec<u8>,
    /// How long it has been waited for while it waited itself.
    pub blocked: Duration,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// It waits for something, or takes too long.
    Late,
    /// It has ended.
    Gone,
}

impl Aside {
    /// Starts it. What is typed at the terminal does not reach it: it ends when nobody asks any more.
    pub fn start(mut command: Command) -> io::Result<Aside> {
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Aside { child, input, output, buffer: Vec::new(), blocked: Duration::ZERO })
    }

    /// The line that it answers, unless it waits for longer than `most`. Time in which it runs, or would
    /// if a CPU were free, is no waiting.
    pub fn ask(&mut self, line: &str, most: Duration) -> Result<String, Silence> {
        // The process that waits for the next question has room for it.
        self.input.write_all(line.as_bytes()).map_err(|_gone| Silence::Gone)?;
        let (begun, before) = (Instant::now(), self.blocked);
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.drain(..=end).collect();
                return String::from_utf8(line).map_err(|_garbage| Silence::Gone);
            }
            let look = Instant::now();
            match poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) if self.is_running() => {}
                Ok(0) => self.blocked += look.elapsed(),
                Ok(_) => self.read()?,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Silence::Gone),
            }
            if self.blocked - before >= most || begun.elapsed() >= MOST_TIME {
                return Err(Silence::Late);
            }
        }
    }

    fn read(&mut self) -> Result<(), Silence> {
        let mut room = [0; 16 << 10];
        let read = self.output.read(&mut room).map_err(|_gone| Silence::Gone)?;
        self.buffer.extend_from_slice(&room[..read]);
        if read == 0 { Err(Silence::Gone) } else { Ok(()) }
    }

    fn is_running(&self) -> bool {
        let text = super::about(self.child.id(), "stat").unwrap_or_default();
        // The name before it may hold anything, also a parenthesis.
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets go of it. One that waits uninterruptibly ends when what it waits for does; until then
    /// nobody waits for it.
    pub fn give_up(mut self) -> Child {
        let _ended_already = self.child.kill();
        self.child
    }

    /// Has it end.
    pub fn end(self) {
        let Aside { mut child, input, output, .. } = self;
        drop((input, output));
        let begun = Instant::now();
        while child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < LAST_MOMENT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
