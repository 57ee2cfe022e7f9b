//! The hook: a program of the administrator that is run when an incident is on disk. It runs as an
//! ordinary user in the daemon's group, so that it can read the incident and change nothing.
//!
//! What does not belong here: the events that it is run for.

use crate::config::HookConfig;
use iowhy_fs::rights::keep_for_now;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::CapabilitySet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time that it may run.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Capabilities of the thread that starts it: to become its user, to end its processes, to reach
/// its program.
const OF_HOOK: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Incidents that may wait for the hook.
const MOST_WAITING: usize = 16;

/// Runs the hook, one at a time, in a thread of its own: the user's entry in /etc/passwd and the
/// program may be on a disk that hangs while the kernel must be read.
#[derive(Debug)]
pub struct HookRunner {
    events: Option<SyncSender<HookEvent>>,
    failed: Sender<String>,
    /// The reasons why it could not be run, as lines for the journal.
    pub failures: Receiver<String>,
    /// The process group of the hook that runs; 0 if none does.
    running: Arc<AtomicI32>,
    thread: JoinHandle<()>,
}

/// The event that the hook is run for.
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
    /// Fails if the system has no thread for it.
    pub fn start(hook: &HookConfig) -> io::Result<HookRunner> {
        let (events, received) = sync_channel::<HookEvent>(MOST_WAITING);
        let (failed, failures) = channel();
        let (hook, reported) = (hook.clone(), failed.clone());
        let running = Arc::new(AtomicI32::new(0));
        let current = Arc::clone(&running);
        let thread = std::thread::Builder::new().name("hook".to_owned()).spawn(move || {
            keep_for_now(OF_HOOK);
            for event in received {
                if let Err(error) = run(&hook, &event, &current) {
                    let said = format!("failed to run {}: {error}", hook.program.display());
                    // At the end nobody receives it any more.
                    let _ = reported.send(said);
                }
            }
        })?;
        Ok(HookRunner { events: Some(events), failed, failures, running, thread })
    }

    /// Queues the hook for an event, after those before it. A run ends by itself or is killed after
    /// a minute.
    pub fn offer(&self, event: HookEvent) {
        let number = event.number;
        let sent = self.events.as_ref().map(|events| events.try_send(event));
        if !matches!(sent, Some(Ok(()))) {
            let said = format!("the hook is not run for incident {number}: it is still running");
            let _ = self.failed.send(said);
        }
    }

    /// Waits for the queued runs, but not longer than `patience`; a run that is not over then is
    /// killed.
    pub fn finish(&mut self, patience: Duration) {
        self.events = None;
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        end_group(self.running.load(Ordering::Relaxed));
    }
}

/// Ends the processes of a hook that are left in its process group.
fn end_group(group: i32) {
    // 0 would be the daemon's own group.
    if let Some(group) = Pid::from_raw(group).filter(|_| group > 1) {
        // The group may have no processes left.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Returns the reason why the hook cannot be run as its user, or why that user will not be able to
/// read an incident below the directory `state`; `None` if it will.
pub fn unreadable(hook: &HookConfig, state: &Path) -> Option<String> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let daemons = rustix::process::getegid().as_raw();
    let (user, group) = match identity(&passwd, &hook.user, daemons) {
        Ok(found) => found,
        Err(cause) => return Some(format!("the hook will not be run: {cause}")),
    };
    let name = &hook.user;
    if group != daemons {
        return Some(format!(
            "the hook's user {name} cannot read incidents: they are readable for root and its \
             group; set Group= in the service, which the hook then has too"
        ));
    }
    let closed = state.ancestors().find(|path| {
        std::fs::metadata(path).is_ok_and(|about| {
            let right = match (about.uid() == user, about.gid() == group) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            about.mode() & right == 0
        })
    })?;
    let closed = closed.display();
    Some(format!("the hook's user {name} cannot read incidents: {closed} is closed to it"))
}

/// Runs the hook for an event, and waits for it. Processes that it leaves in its group are killed.
fn run(hook: &HookConfig, event: &HookEvent, running: &AtomicI32) -> io::Result<()> {
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    let daemons = rustix::process::getegid().as_raw();
    let (user, group) = identity(&passwd, &hook.user, daemons).map_err(io::Error::other)?;
    let mut command = Command::new(&hook.program);
    command.arg(&event.directory).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("IOWHY_INCIDENT", event.number.to_string()).env("IOWHY_EVENT", event.event);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null());
    command.stderr(Stdio::null());
    command.current_dir("/").uid(user).gid(group).process_group(0);
    let mut child = command.spawn()?;
    let group = i32::try_from(child.id()).unwrap_or(0);
    running.store(group, Ordering::Relaxed);
    let result = wait(&mut child, group);
    running.store(0, Ordering::Relaxed);
    end_group(group);
    result
}

fn wait(child: &mut Child, group: i32) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("it ended with {status}"))),
            None if begun.elapsed() > MOST_TIME => {
                end_group(group);
                child.wait()?;
                return Err(io::Error::other("it took more than a minute and was killed"));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Returns the number and the group as which a hook of the user `name` runs: the group of the
/// daemon, or the user's own where that is root's. Neither may be root's.
fn identity(passwd: &str, name: &str, daemons: u32) -> Result<(u32, u32), String> {
    let (user, own) = find_user(passwd, name).ok_or_else(|| format!("there is no user {name}"))?;
    let group = if daemons == 0 { own } else { daemons };
    match (user, group) {
        (0, _) => Err(format!("user {name} is root")),
        (_, 0) => Err(format!("user {name} is in the group of root; name another one")),
        found => Ok(found),
    }
}

/// Returns the number and group of a user in `passwd`.
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
    fn what_a_hook_starts_ends_with_it() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can run a hook as another user");
            return;
        }
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let (program, noted) = (folder.path().join("hook"), folder.path().join("child"));
        let script = "#!/bin/sh\nsleep 3000 &\necho $! >\"$1/child\"\nexit 0\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let hook = HookConfig { program, user: "nobody".to_owned() };
        let mut runner = HookRunner::start(&hook).unwrap();
        let directory = folder.path().to_owned();
        runner.offer(HookEvent { directory, number: 1, event: "begin" });
        runner.finish(Duration::from_secs(20));
        assert_eq!(runner.failures.try_iter().collect::<Vec<_>>(), [""; 0]);
        let child = std::fs::read_to_string(noted).unwrap();
        let status = format!("/proc/{}/status", child.trim());
        let is_there =
            || std::fs::read_to_string(&status).is_ok_and(|text| !text.contains("zombie"));
        let begun = Instant::now();
        while is_there() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{} still runs", child.trim());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_hook_that_cannot_read_an_incident_is_told_of() {
        let hook = HookConfig { program: "/bin/true".into(), user: "nobody".to_owned() };
        if rustix::process::getegid().as_raw() == 0 {
            let said = unreadable(&hook, Path::new("/var/lib/iowhy")).unwrap();
            assert!(said.contains("nobody cannot read incidents"), "{said}");
        }
        let missing = HookConfig { user: "no-such-user".to_owned(), ..hook };
        // It is said at the start, not only once there is an incident.
        let said = unreadable(&missing, Path::new("/")).unwrap();
        assert!(said.contains("there is no user no-such-user"), "{said}");
    }

    #[test]
    fn a_hook_has_nothing_of_roots() {
        let passwd = "root:x:0:0::/:/bin/sh\ntoor:x:0:7::/:/bin/sh\nsync:x:4:0::/:/bin/sync\n\
                      page:x:9:8::/:/bin/sh\n";
        for (name, daemons, said) in [
            ("root", 7, "is root"),
            ("toor", 0, "is root"),
            ("sync", 0, "group of root"),
            ("nobody", 0, "no user"),
        ] {
            let refused = identity(passwd, name, daemons).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        assert_eq!(identity(passwd, "sync", 7), Ok((4, 7)));
        assert_eq!(identity(passwd, "page", 0), Ok((9, 8)));
    }

    #[test]
    fn users_are_found_by_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad\nnobody:x:65534:65533::/:/bin/false\n";
        assert_eq!(find_user(passwd, "nobody"), Some((65534, 65533)));
        assert_eq!(find_user(passwd, "root"), Some((0, 0)));
        assert_eq!(find_user(passwd, "x"), None);
    }
}
