//! The hook: a program of the administrator that is run when an incident is on disk. It runs as an
//! ordinary user in the daemon's group, so that it can read the incident and change nothing.
//!
//! What does not belong here: when it is run.

use crate::config::HookConfig;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it may run.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Runs the hook, one at a time.
#[derive(Clone, Debug, Default)]
pub struct HookRunner {
    is_running: Arc<AtomicBool>,
}

/// What the hook is told.
#[derive(Clone, Copy, Debug)]
pub struct HookEvent<'a> {
    /// The incident's directory: its only argument.
    pub directory: &'a Path,
    /// The incident's number: `IOWHY_INCIDENT` in its environment.
    pub number: u32,
    /// `begin` or `end`: `IOWHY_EVENT`.
    pub event: &'static str,
}

impl HookRunner {
    /// Starts it; it ends by itself or is killed after a minute.
    ///
    /// # Errors
    /// When the user does not exist, the program cannot be started, or the one before still runs.
    pub fn start(&self, hook: &HookConfig, event: HookEvent<'_>) -> io::Result<()> {
        let passwd = std::fs::read_to_string("/etc/passwd")?;
        let (user, own_group) = find_user(&passwd, &hook.user)
            .ok_or_else(|| io::Error::other(format!("there is no user {}", hook.user)))?;
        if user == 0 {
            return Err(io::Error::other(format!("user {} is root", hook.user)));
        }
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other("the one before still runs"));
        }
        let group = match rustix::process::getegid().as_raw() {
            0 => own_group,
            group => group,
        };
        let mut command = Command::new(&hook.program);
        command.arg(event.directory).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("IOWHY_INCIDENT", event.number.to_string()).env("IOWHY_EVENT", event.event);
        command.stdin(Stdio::null());
        command.stdout(Stdio::null());
        command.stderr(Stdio::null());
        command.current_dir("/").uid(user).gid(group).process_group(0);
        let is_running = Arc::clone(&self.is_running);
        let started = std::thread::Builder::new()
            .name("hook".to_owned())
            .spawn(move || run(command, &is_running));
        started.map(|_| ()).inspect_err(|_| self.is_running.store(false, Ordering::Release))
    }
}

fn run(mut command: Command, is_running: &AtomicBool) {
    if let Ok(mut child) = command.spawn() {
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > MOST_TIME {
                // It ended between both calls, or it is gone now.
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    is_running.store(false, Ordering::Release);
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
    fn users_are_found_by_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad\nnobody:x:65534:65533::/:/bin/false\n";
        assert_eq!(find_user(passwd, "nobody"), Some((65534, 65533)));
        assert_eq!(find_user(passwd, "root"), Some((0, 0)));
        assert_eq!(find_user(passwd, "x"), None);
    }
}
