//! Which requests the user wants to see. One definition for live watches and recordings.

use super::environment::Device;
use super::file::FileActivity;
use super::names::{Name, Names};
use super::open::Open;
use super::request::{Request, RequestPart};
use super::wait::{Wait, WaitChain};
use crate::figures::plural;

/// Waits that do not tell what a filter asks for, and so are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// Those of which the device is not known.
    pub no_device: u64,
    /// Those of which the file is not known, and the device is.
    pub no_file: u64,
    /// Those that were left out because the filter asks for a kind of request.
    pub no_kind: u64,
}

impl Silent {
    /// Adds those of another batch.
    pub fn add(&mut self, other: Silent) {
        self.no_device += other.no_device;
        self.no_file += other.no_file;
        self.no_kind += other.no_kind;
    }

    /// A sentence for each kind of which there are any.
    pub fn sentences(self) -> impl Iterator<Item = String> {
        [
            (self.no_device, "device not known, as where it is not watched"),
            (self.no_file, "file not known"),
            (self.no_kind, "not of one kind of request, as --operation and --flags ask"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{} left out: {why}", plural(count, "wait")))
    }
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
    /// Q2C of at least so many nanoseconds, as far as it is known: what is not known to be as long goes.
    pub latency_ns: u64,
}

impl std::fmt::Display for Filter {
    /// The flags as the user could have written them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let many = |flag: &str, values: &[String]| -> Vec<String> {
            values.iter().map(|value| format!("{flag} {value}")).collect()
        };
        let mut words = many(DEVICE, &self.devices);
        words.extend(many("--process", &self.processes));
        words.extend(many("--cgroup", &self.cgroups));
        words.extend(many("--file", &self.files));
        words.extend(self.operations.iter().map(|op| format!("--operation {}", op.word())));
        if !self.flags.is_empty() {
            words.push(format!("--flags {}", self.flags));
        }
        if self.latency_ns > 0 {
            words.push(format!("--above {}", self.latency_ns as f64 / 1e6));
        }
        f.write_str(&words.join(" "))
    }
}

/// The flag that chooses among devices.
const DEVICE: &str = "--device";

/// Whether a filter, as it is written, leaves out requests of devices that it keeps others of.
pub(super) fn hides_others(text: &str) -> bool {
    text.split_whitespace().any(|word| word.starts_with("--") && word != DEVICE)
}

impl Filter {
    /// Whether it keeps everything.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// All of the devices that it keeps something of.
    pub fn of_devices(&self) -> Filter {
        Filter { devices: self.devices.clone(), ..Filter::default() }
    }

    /// The same of whole disks, where requests are: partitions of `devices` become theirs.
    pub fn on_disks(&self, devices: &[Device]) -> Filter {
        let disk = |wanted: &String| {
            let found = devices.iter().find(|device| device.name == *wanted);
            found.and_then(|device| device.partition_of.as_ref()).unwrap_or(wanted).clone()
        };
        Filter { devices: self.devices.iter().map(disk).collect(), ..self.clone() }
    }

    /// Whether `request`, made of `parts`, is kept; what is in flight has taken up to `until_ns` so far.
    pub fn keeps(
        &self,
        request: &Request,
        parts: &[RequestPart],
        names: &Names,
        until_ns: u64,
    ) -> bool {
        let text = |name: Name| names.get(name);
        let rwbs = text(request.rwbs);
        any_or_empty(&self.devices, |device| *device == text(request.device))
            && any_or_empty(&self.operations, |operation| *operation == request.operation)
            && self.flags.chars().all(|flag| rwbs.contains(flag))
            && (self.latency_ns == 0 || request.least_ns(until_ns) >= Some(self.latency_ns))
            && any_or_empty(&self.processes, |wanted| is_process(wanted, request, parts, names))
            && any_or_empty(&self.cgroups, |wanted| is_cgroup(wanted, request, parts, names))
            && any_or_empty(&self.files, |wanted| {
                parts.iter().filter_map(|part| part.file).any(|file| text(file).starts_with(wanted))
            })
    }

    /// Counts `wait` where it does not tell what the filter asks for, and would be kept by all that it
    /// tells.
    pub fn note_silent(&self, wait: &Wait, names: &Names, silent: &mut Silent) {
        if !self.keeps_thread(wait, names) {
            return;
        }
        let (device, file) = (self.wait_device(wait, names), self.wait_file(wait, names));
        let count = match (device, file) {
            _ if !self.operations.is_empty() || !self.flags.is_empty() => &mut silent.no_kind,
            (None, None | Some(true)) => &mut silent.no_device,
            (Some(true), None) => &mut silent.no_file,
            _ => return,
        };
        *count += 1;
    }

    /// Whether `wait` is kept. What asks for a kind of request keeps no waits: they may be for many.
    pub fn keeps_wait(&self, wait: &Wait, names: &Names) -> bool {
        self.operations.is_empty()
            && self.flags.is_empty()
            && self.keeps_thread(wait, names)
            && self.wait_device(wait, names) == Some(true)
            && self.wait_file(wait, names) == Some(true)
    }

    fn keeps_thread(&self, wait: &Wait, names: &Names) -> bool {
        wait.duration_ns >= self.latency_ns
            && any_or_empty(&self.processes, |wanted| {
                is_named(wanted, Some(wait.pid), wait.process, names)
            })
            && any_or_empty(&self.cgroups, |wanted| is_within(wanted, wait.cgroup, names))
    }

    /// Whether the wait's device is kept; `None` where one is asked for and the wait tells none.
    fn wait_device(&self, wait: &Wait, names: &Names) -> Option<bool> {
        if self.devices.is_empty() {
            return Some(true);
        }
        let device = names.get(wait.device?);
        Some(self.devices.iter().any(|wanted| wanted == device))
    }

    fn wait_file(&self, wait: &Wait, names: &Names) -> Option<bool> {
        if self.files.is_empty() {
            return Some(true);
        }
        let file = names.get(wait.file?);
        Some(self.files.iter().any(|wanted| file.starts_with(wanted)))
    }

    /// Whether a path of a chain is kept: its processes and cgroups are those of all on it.
    pub fn keeps_chain(&self, path: &[WaitChain], names: &Names) -> bool {
        let Some(last) = path.last() else { return false };
        let text = |name: Option<Name>| name.map(|name| names.get(name));
        self.operations.is_empty()
            && self.flags.is_empty()
            && last.duration_ns >= self.latency_ns
            && any_or_empty(&self.devices, |device| text(last.device) == Some(device))
            && any_or_empty(&self.processes, |wanted| {
                path.iter().any(|hop| is_named(wanted, Some(hop.pid), hop.process, names))
            })
            && any_or_empty(&self.cgroups, |wanted| {
                path.iter().any(|hop| is_within(wanted, hop.cgroup, names))
            })
            && any_or_empty(&self.files, |wanted| {
                text(last.file).is_some_and(|file| file.starts_with(wanted))
            })
    }

    /// Whether an open is kept: its process and its path are all that it tells.
    pub fn keeps_open(&self, open: &Open, names: &Names) -> bool {
        any_or_empty(&self.processes, |wanted| {
            is_named(wanted, Some(open.pid), open.process, names)
        }) && any_or_empty(&self.files, |wanted| names.get(open.file).starts_with(wanted))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    #[test]
    fn waits_that_do_not_tell_are_counted_by_what_they_do_not_tell() {
        let mut script = Script::new(10);
        for _ in 0..2 {
            script.wait((7, "cat"), super::super::WaitClass::PageRead, 100, 60, 0);
        }
        script.wait((8, "dd"), super::super::WaitClass::PageRead, 100, 60, 0);
        script.batch.waits[1].device = Some(script.names.intern("sda"));
        let said = |filter: Filter| -> Vec<String> {
            script.batch.clone().retain(&filter, &script.names, 0).sentences().collect()
        };
        let (devices, files) = (vec!["sda".to_owned()], vec!["/srv".to_owned()]);
        let processes = vec!["cat".to_owned()];
        let found = said(Filter { devices, files, processes, ..Filter::default() });
        let device = "1 wait left out: device not known, as where it is not watched";
        assert_eq!(found, [device, "1 wait left out: file not known"]);
        let found = said(Filter { flags: "M".to_owned(), ..Filter::default() });
        let kind = "3 waits left out: not of one kind of request, as --operation and --flags ask";
        assert_eq!(found, [kind]);
    }

    #[test]
    fn a_chain_is_kept_for_the_cgroup_of_any_of_its_threads() {
        let mut script = Script::new(10);
        script.chain(&[(1, "worker"), (2, "writer")], 100, 200);
        let workers = script.names.intern("/workers/a");
        script.batch.wait_chains[0].cgroup = Some(workers);
        let kept = |cgroup: &str| {
            let filter = Filter { cgroups: vec![cgroup.to_owned()], ..Filter::default() };
            filter.keeps_chain(&script.batch.wait_chains, &script.names)
        };
        assert!(kept("/workers") && kept("/workers/a"));
        assert!(!kept("/work") && !kept("/writers"));
    }

    #[test]
    fn only_what_is_known_to_be_long_is_above() {
        use super::super::{Operation, Status};
        use crate::script::START_NS;
        const MS: u64 = 1_000_000;
        let mut script = Script::new(10);
        script.read("sda", 512).direct(0, 0, 9 * MS).add();
        let long = script.read("sda", 512).direct(0, MS, 9 * MS).add();
        // Nobody queued the kernel's own flushes: of the second the beginning is not known either.
        let flush = script.request("sda", Operation::Flush).issued(10 * MS).add();
        script.request("sda", Operation::Flush).add();
        let waiting = script.read("sda", 512).status(Status::InFlight).add();
        script.read("sda", 512).at(5 * MS as i64).status(Status::InFlight).add();
        let filter = Filter { latency_ns: 10 * MS, ..Filter::default() };
        script.batch.retain(&filter, &script.names, START_NS + 12 * MS);
        let kept: Vec<u64> = script.batch.requests.iter().map(|it| it.request_id).collect();
        assert_eq!(kept, [long, flush, waiting]);
    }

    #[test]
    fn a_partition_is_asked_for_on_its_disk() {
        let part = Device {
            name: "sda1".to_owned(),
            partition_of: Some("sda".to_owned()),
            ..Device::default()
        };
        let filter =
            |device: &str| Filter { devices: vec![device.to_owned()], ..Filter::default() };
        assert_eq!(filter("sda1").on_disks(std::slice::from_ref(&part)), filter("sda"));
        assert_eq!(filter("sdb1").on_disks(&[part]), filter("sdb1"));
    }

    #[test]
    fn a_filter_reads_as_it_is_written() {
        let filter = Filter {
            devices: vec!["sda".to_owned(), "sdb".to_owned()],
            operations: vec![super::super::Operation::Read],
            latency_ns: 1_500_000,
            ..Filter::default()
        };
        assert_eq!(filter.to_string(), "--device sda --device sdb --operation read --above 1.5");
        assert!(hides_others(&filter.to_string()));
        assert!(!hides_others(&filter.of_devices().to_string()) && !hides_others(""));
    }
}
