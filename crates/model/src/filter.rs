//! Filters: which rows are kept. One definition for live watches and recordings.

use super::device::Device;
use super::file::FileActivity;
use super::names::{Name, Names};
use super::open::Open;
use super::request::{Request, RequestPart};
use super::wait::{Wait, WaitChain};
use super::workload::WorkloadFilter;
use crate::figures::plural;

/// Numbers of waits that a filter left out because they lack the data that it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SilentWaits {
    /// Waits without a known device.
    pub no_device: u64,
    /// Waits with a known device, but without a known file.
    pub no_file: u64,
    /// Waits left out because the filter selects a kind of request.
    pub no_kind: u64,
}

impl SilentWaits {
    /// Adds the numbers of another batch.
    pub fn add(&mut self, other: SilentWaits) {
        self.no_device += other.no_device;
        self.no_file += other.no_file;
        self.no_kind += other.no_kind;
    }

    /// A sentence for each number above 0.
    pub fn sentences(self) -> impl Iterator<Item = String> {
        [
            (self.no_device, "device not known, as for devices that are not watched"),
            (self.no_file, "file not known"),
            (self.no_kind, "they have no kind of request, which --operation and --flags select"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{} left out: {why}", plural(count, "wait")))
    }
}

/// The conditions that a request must meet; an empty filter keeps everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Devices by kernel name.
    pub devices: Vec<String>,
    /// Processes by PID or name: the submitter or an owner of its bytes.
    pub processes: Vec<String>,
    /// Cgroup paths; their descendants are kept too.
    pub cgroups: Vec<String>,
    /// Workloads of the cgroup: pods, namespaces, systemd units.
    pub workloads: WorkloadFilter,
    /// Prefixes of file paths.
    pub files: Vec<String>,
    /// Volumes that files are on.
    pub volumes: Vec<String>,
    /// Operations.
    pub operations: Vec<super::Operation>,
    /// Letters that rwbs must all contain.
    pub flags: String,
    /// Minimum of the known part of Q2C, nanoseconds.
    pub latency_ns: u64,
}

impl std::fmt::Display for Filter {
    /// The flags of a command line that has this filter.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let many = |flag: &str, values: &[String]| -> Vec<String> {
            values.iter().map(|value| format!("{flag} {value}")).collect()
        };
        let mut words = many(DEVICE, &self.devices);
        words.extend(many("--process", &self.processes));
        words.extend(many("--cgroup", &self.cgroups));
        words.extend(many("--pod", &self.workloads.pods));
        words.extend(many("--namespace", &self.workloads.namespaces));
        words.extend(many("--unit", &self.workloads.units));
        words.extend(many("--file", &self.files));
        words.extend(many("--volume", &self.volumes));
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

/// The flag that selects devices.
const DEVICE: &str = "--device";

/// Whether a filter, given as text, leaves out some requests of the devices that it keeps.
pub(super) fn hides_others(text: &str) -> bool {
    text.split_whitespace().any(|word| word.starts_with("--") && word != DEVICE)
}

impl Filter {
    /// Whether it keeps everything.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// The filter with only its devices.
    pub fn of_devices(&self) -> Filter {
        Filter { devices: self.devices.clone(), ..Filter::default() }
    }

    /// Returns that filter with disks instead of partitions, since requests are those of disks.
    pub fn on_disks(&self, devices: &[Device]) -> Filter {
        let disk = |wanted: &String| {
            let found = devices.iter().find(|device| device.name == *wanted);
            found.and_then(|device| device.partition_of.as_ref()).unwrap_or(wanted).clone()
        };
        Filter { devices: self.devices.iter().map(disk).collect(), ..self.clone() }
    }

    /// Whether `request` with its `parts` is kept; a request in flight has its age at `until_ns`.
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
            && self.keeps_workload(request, parts, names)
            && any_or_empty(&self.files, |wanted| {
                parts.iter().filter_map(|part| part.file).any(|file| text(file).starts_with(wanted))
            })
            && any_or_empty(&self.volumes, |wanted| {
                parts.iter().filter_map(|part| part.volume).any(|volume| text(volume) == wanted)
            })
    }

    /// Whether the submitter or an owner of the data is kept.
    fn keeps_workload(&self, request: &Request, parts: &[RequestPart], names: &Names) -> bool {
        let wanted = &self.workloads;
        wanted.is_empty()
            || wanted.keeps(request.cgroup, request.pod, request.namespace, names)
            || parts.iter().any(|part| {
                wanted.keeps(part.owner_cgroup, part.owner_pod, part.owner_namespace, names)
            })
    }

    /// Counts `wait` if it lacks data that the filter needs and meets all other conditions.
    pub fn note_silent(&self, wait: &Wait, names: &Names, silent: &mut SilentWaits) {
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

    /// Whether `wait` is kept. A filter for a kind of request keeps no waits, which may be for
    /// several kinds.
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
            && self.workloads.keeps(wait.cgroup, wait.pod, wait.namespace, names)
    }

    /// Whether the wait's device is kept; `None` if the filter has devices and the wait's is not
    /// known.
    fn wait_device(&self, wait: &Wait, names: &Names) -> Option<bool> {
        if self.devices.is_empty() {
            return Some(true);
        }
        let device = names.get(wait.device?);
        Some(self.devices.iter().any(|wanted| wanted == device))
    }

    fn wait_file(&self, wait: &Wait, names: &Names) -> Option<bool> {
        if self.files.is_empty() && self.volumes.is_empty() {
            return Some(true);
        }
        let file = names.get(wait.file?);
        let volume = wait.volume.map(|volume| names.get(volume));
        Some(
            any_or_empty(&self.files, |wanted| file.starts_with(wanted))
                && any_or_empty(&self.volumes, |wanted| volume == Some(wanted)),
        )
    }

    /// Whether a path of a wait chain is kept: one of its threads must match.
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
            && (self.workloads.is_empty()
                || path
                    .iter()
                    .any(|hop| self.workloads.keeps(hop.cgroup, hop.pod, hop.namespace, names)))
            && any_or_empty(&self.volumes, |wanted| text(last.volume) == Some(wanted))
            && any_or_empty(&self.files, |wanted| {
                text(last.file).is_some_and(|file| file.starts_with(wanted))
            })
    }

    /// Whether an open is kept, by its disk, its process and its path.
    pub fn keeps_open(&self, open: &Open, names: &Names) -> bool {
        any_or_empty(&self.devices, |device| {
            open.device.is_some_and(|name| names.get(name) == device)
        }) && any_or_empty(&self.processes, |wanted| {
            is_named(wanted, Some(open.pid), open.process, names)
        }) && any_or_empty(&self.files, |wanted| names.get(open.file).starts_with(wanted))
    }

    /// Whether a row of file activity is kept. A filter for a kind of request keeps none.
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
            && self.workloads.keeps(activity.cgroup, activity.pod, activity.namespace, names)
            && any_or_empty(&self.volumes, |wanted| {
                activity.volume.is_some_and(|volume| names.get(volume) == wanted)
            })
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
        let message = |filter: Filter| -> Vec<String> {
            script.batch.clone().retain(&filter, &script.names, 0).sentences().collect()
        };
        let (devices, files) = (vec!["sda".to_owned()], vec!["/srv".to_owned()]);
        let processes = vec!["cat".to_owned()];
        let found = message(Filter { devices, files, processes, ..Filter::default() });
        let device = "1 wait left out: device not known, as for devices that are not watched";
        assert_eq!(found, [device, "1 wait left out: file not known"]);
        let found = message(Filter { flags: "M".to_owned(), ..Filter::default() });
        let kind = "3 waits left out: they have no kind of request, which --operation and --flags \
            select";
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
        // The kernel's own flushes are not queued; the start of the second one is not known either.
        let flush = script.request("sda", Operation::Flush).issued(10 * MS).add();
        script.request("sda", Operation::Flush).add();
        let waiting = script.read("sda", 512).status(Status::InFlight).add();
        script.read("sda", 512).at(5 * MS as i64).status(Status::InFlight).add();
        let filter = Filter { latency_ns: 10 * MS, ..Filter::default() };
        script.batch.retain(&filter, &script.names, START_NS + 12 * MS);
        let kept: Vec<u64> =
            script.batch.requests.iter().map(|request| request.request_id).collect();
        assert_eq!(kept, [long, flush, waiting]);
    }

    #[test]
    fn an_open_is_kept_for_its_disk() {
        let mut names = Names::new();
        let mut open = |device| Open {
            time_ns: 1,
            pid: 7,
            tid: 7,
            process: None,
            file: names.intern("/srv/a"),
            device,
            fd: Some(3),
            error: None,
            duration_ns: None,
        };
        let (unknown, known) = (open(None), open(None));
        let known = Open { device: Some(names.intern("sda")), ..known };
        let keeps = |devices: &[&str], open| {
            let devices = devices.iter().map(|device| (*device).to_owned()).collect();
            Filter { devices, ..Filter::default() }.keeps_open(open, &names)
        };
        assert!(keeps(&["sdb", "sda"], &known) && keeps(&[], &unknown));
        assert!(!keeps(&["sdb"], &known) && !keeps(&["sda"], &unknown));
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
