//! Which requests the user wants to see. One definition for live watches and recordings.

use super::names::{Name, Names};
use super::request::{Request, RequestPart};

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
}

fn any_or_empty<T>(wanted: &[T], matches: impl FnMut(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(matches)
}

fn is_process(wanted: &str, request: &Request, parts: &[RequestPart], names: &Names) -> bool {
    let same = |pid: Option<u32>, name: Option<Name>| match wanted.parse::<u32>() {
        Ok(number) => pid == Some(number),
        Err(_) => name.is_some_and(|name| names.get(name) == wanted),
    };
    same(request.pid, request.process) || parts.iter().any(|part| same(part.owner_pid, part.owner))
}

fn is_cgroup(wanted: &str, request: &Request, parts: &[RequestPart], names: &Names) -> bool {
    let within = |name: Option<Name>| {
        let rest = name.and_then(|name| names.get(name).strip_prefix(wanted.trim_end_matches('/')));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(request.cgroup) || parts.iter().any(|part| within(part.owner_cgroup))
}
