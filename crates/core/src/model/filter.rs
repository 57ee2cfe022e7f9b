//! Which requests the user wants to see. One definition for live watches and recordings.

use super::file::FileActivity;
use super::names::{Name, Names};
use super::request::{Request, RequestPart};
use super::wait::{Wait, WaitChain};

/// What to say of waits that do not tell what a filter asks for; nothing where there are none.
pub fn silent_waits(count: u64) -> Option<String> {
    (count > 0)
        .then(|| format!("{count} waits left out: they do not tell what the filter asks for"))
}

/// What a request must be to be kept; an empty filter keeps everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Devices by kernel name.
    pub devices: Vec<String>,
    /// Processes by number or by name; the submitter or an owner of its bytes.
    pub processes: Vec<String>,
    /// cgroup paths; a path keeps those below it too.
    pub cgroups: Vec<String>,
    /// The beginning of a file's path.
    pub files: Vec<String>,
    /// Operations.
    pub operations: Vec<super::Operation>,
    /// Letters of which rwbs must hold every one.
    pub flags: String,
    /// Q2C of at least so many nanoseconds; what has not completed is kept.
    pub latency_ns: u64,
}

impl Filter {
    /// Whether it keeps everything.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether `request`, made of `parts`, is kept.
    pub fn keeps(&self, request: &Request, parts: &[RequestPart], names: &Names) -> bool {
        let text = |name: Name| names.get(name);
        let rwbs = text(request.rwbs);
        any_or_empty(&self.devices, |device| *device == text(request.device))
            && any_or_empty(&self.operations, |operation| *operation == request.operation)
            && self.flags.chars().all(|flag| rwbs.contains(flag))
            && request.q2c_ns.is_none_or(|q2c| q2c >= self.latency_ns)
            && any_or_empty(&self.processes, |wanted| is_process(wanted, request, parts, names))
            && any_or_empty(&self.cgroups, |wanted| is_cgroup(wanted, request, parts, names))
            && any_or_empty(&self.files, |wanted| {
                parts.iter().filter_map(|part| part.file).any(|file| text(file).starts_with(wanted))
            })
    }

    /// Whether `wait` tells all that the filter asks for.
    pub fn can_tell(&self, wait: &Wait) -> bool {
        (self.devices.is_empty() || wait.device.is_some())
            && (self.files.is_empty() || wait.file.is_some())
            && self.operations.is_empty()
            && self.flags.is_empty()
    }

    /// Whether `wait` is kept. What asks for a kind of request keeps no waits: they may be for many.
    pub fn keeps_wait(&self, wait: &Wait, names: &Names) -> bool {
        let text = |name: Option<Name>| name.map(|name| names.get(name));
        self.operations.is_empty()
            && self.flags.is_empty()
            && wait.duration_ns >= self.latency_ns
            && any_or_empty(&self.devices, |device| text(wait.device) == Some(device))
            && any_or_empty(&self.processes, |wanted| {
                is_named(wanted, Some(wait.pid), wait.process, names)
            })
            && any_or_empty(&self.cgroups, |wanted| is_within(wanted, wait.cgroup, names))
            && any_or_empty(&self.files, |wanted| {
                text(wait.file).is_some_and(|file| file.starts_with(wanted))
            })
    }

    /// Whether a path of a chain is kept: its processes are all of those on it. It
    /// tells no cgroup.
    pub fn keeps_chain(&self, path: &[WaitChain], names: &Names) -> bool {
        let Some(last) = path.last() else { return false };
        let text = |name: Option<Name>| name.map(|name| names.get(name));
        self.operations.is_empty()
            && self.flags.is_empty()
            && self.cgroups.is_empty()
            && last.duration_ns >= self.latency_ns
            && any_or_empty(&self.devices, |device| text(last.device) == Some(device))
            && any_or_empty(&self.processes, |wanted| {
                path.iter().any(|hop| is_named(wanted, Some(hop.pid), hop.process, names))
            })
            && any_or_empty(&self.files, |wanted| {
                text(last.file).is_some_and(|file| file.starts_with(wanted))
            })
    }

    /// Whether what a process did with a file is kept. What asks for a kind of request keeps none.
    pub fn keeps_file(&self, activity: &FileActivity, names: &Names) -> bool {
        self.operations.is_empty()
            && self.flags.is_empty()
            && self.latency_ns == 0
            && any_or_empty(&self.devices, |device| {
                activity.device.is_some_and(|name| names.get(name) == device)
            })
            && any_or_empty(&self.processes, |wanted| {
                is_named(wanted, Some(activity.pid), activity.process, names)
            })
            && any_or_empty(&self.cgroups, |wanted| is_within(wanted, activity.cgroup, names))
            && any_or_empty(&self.files, |wanted| {
                activity.file.is_some_and(|file| names.get(file).starts_with(wanted))
            })
    }
}

fn any_or_empty<T>(wanted: &[T], matches: impl FnMut(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(matches)
}

fn is_process(wanted: &str, request: &Request, parts: &[RequestPart], names: &Names) -> bool {
    is_named(wanted, request.pid, request.process, names)
        || parts.iter().any(|part| is_named(wanted, part.owner_pid, part.owner, names))
}

fn is_named(wanted: &str, pid: Option<u32>, name: Option<Name>, names: &Names) -> bool {
    match wanted.parse::<u32>() {
        Ok(number) => pid == Some(number),
        Err(_) => name.is_some_and(|name| names.get(name) == wanted),
    }
}

fn is_cgroup(wanted: &str, request: &Request, parts: &[RequestPart], names: &Names) -> bool {
    is_within(wanted, request.cgroup, names)
        || parts.iter().any(|part| is_within(wanted, part.owner_cgroup, names))
}

fn is_within(wanted: &str, cgroup: Option<Name>, names: &Names) -> bool {
    let rest = cgroup.and_then(|name| names.get(name).strip_prefix(wanted.trim_end_matches('/')));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
