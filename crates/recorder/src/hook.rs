//! The hook: a program of the administrator that is run when an incident is on disk. It runs as an
//! ordinary user in the daemon's group, so that it can read the incident and change nothing.
//!
//! What does not belong here: when it is run.

use crate::config::HookConfig;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long it may run.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Incidents that may wait for the hook.
const MOST_WAITING: usize = 16;

/// Runs the hook, one at a time, in a thread of its own: neither the user's entry in /etc/passwd
/// nor the program may be on a disk that hangs while the kernel is to be read.
#[derive(Debug)]
pub struct HookRunner {
    events: Option<SyncSender<HookEvent>>,
    failed: Sender<String>,
    /// Why it could not be run, as lines for the journal.
    pub failures: Receiver<String>,
    thread: JoinHandle<()>,
}

/// What the hook is told.
#[derive(Clone, Debug)]
pub struct HookEvent {
    /// The incident's directory: its only argument.
    pub directory: PathBuf,
    /// The incident's number: `IOWHY_INCIDENT` in its environment.
    pub number: u32,
    /// `begin` or `end`: `IOWHY_EVENT`.
    pub event: &'static str,
}

impl HookRunner {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(hook: &HookConfig) -> io::Result<HookRunner> {
        let (events, received) = sync_channel::<HookEvent>(MOST_WAITING);
        let (failed, failures) = channel();
        let (hook, reported) = (hook.clone(), failed.clone());
        let thread = std::thread::Builder::new().name("hook".to_owned()).spawn(move || {
            for event in received {
                if let Err(error) = run(&hook, &event) {
                    let said = format!("failed to run {}: {error}", hook.program.display());
                    // At the end nobody listens any more.
                    let _ = reported.send(said);
                }
            }
        })?;
        Ok(HookRunner { events: Some(events), failed, failures, thread })
    }

    /// Has it run for an event, after those before it. It ends by itself or is killed after a
    /// minute.
    pub fn offer(&self, event: HookEvent) {
        let number = event.number;
        let sent = self.events.as_ref().map(|events| events.try_send(event));
        if !matches!(sent, Some(Ok(()))) {
            let said = format!("the hook is not run for incident {number}: it is still running");
            let _ = self.failed.send(said);
        }
    }

    /// Waits for those that were offered, but not longer than `patience`.
    pub fn finish(&mut self, patience: Duration) {
        self.events = None;
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs the hook for an event, and waits for it.
fn run(hook: &HookConfig, event: &HookEvent) -> io::Result<()> {
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    let (user, own_group) = find_user(&passwd, &hook.user)
        .ok_or_else(|| io::Error::other(format!("there is no user {}", hook.user)))?;
    if user == 0 {
        return Err(io::Error::other(format!("user {} is root", hook.user)));
    }
    let group = match rustix::process::getegid().as_raw() {
        0 => own_group,
        group => group,
    };
    let mut command = Command::new(&hook.program);
    command.arg(&event.directory).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("IOWHY_INCIDENT", event.number.to_string()).env("IOWHY_EVENT", event.event);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null());
    command.stderr(Stdio::null());
    command.current_dir("/").uid(user).gid(group).process_group(0);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("it ended with {status}"))),
            None if begun.elapsed() > MOST_TIME => {
                // It ended between both calls, or it is gone now.
                let _ = child.kill();
                child.wait()?;
                return Err(io::Error::other("it took more than a minute and was killed"));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// The number and group of a user in `passwd`.
fn find_user(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_named = fields.next() == Some(name);
        let user = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        is_named.then_some((user, group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_cannot_run_says_why() {
        for (program, user, said) in [
            ("/bin/true", "no-such-user", "there is no user no-such-user"),
            ("/nonexistent/hook", "nobody", "failed to run /nonexistent/hook"),
        ] {
            let hook = HookConfig { program: program.into(), user: user.to_owned() };
            let mut runner = HookRunner::start(&hook).unwrap();
            runner.offer(HookEvent { directory: "/".into(), number: 1, event: "begin" });
            let failure = runner.failures.recv_timeout(Duration::from_secs(20)).unwrap();
            assert!(failure.contains(said), "{failure}");
            runner.finish(Duration::from_secs(20));
            assert!(runner.thread.is_finished());
        }
    }

    #[test]
    fn users_are_found_by_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad\nnobody:x:65534:65533::/:/bin/false\n";
        assert_eq!(find_user(passwd, "nobody"), Some((65534, 65533)));
        assert_eq!(find_user(passwd, "root"), Some((0, 0)));
        assert_eq!(find_user(passwd, "x"), None);
    }
}
