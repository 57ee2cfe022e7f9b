//! From the sums of a source and its diagnosis to a [`LoadPlan`].
//!
//! | where | what |
//! |---|---|
//! | [`from_stream`] | fio's jobs of one stream |
//! | [`steps`] | what fio cannot do |
//! | [`shapes`] | sizes and places, in percentages |
//!
//! What does not belong here: reading rows (see [`crate::streams`]), and writing files (see
//! [`crate::jobs`]).

pub mod from_stream;
pub mod shapes;
pub mod steps;
#[cfg(test)]
mod tests;

use crate::plan::{DiskLimit, FORMAT, LoadPlan, PlannedDisk, PlannedJob, PlannedProgram};
use crate::replay::sequence::ReplayTally;
use crate::replay::{self, ReplayContext, ReplayText, ReplayedProgram};
use crate::streams::class::FileClass;
use crate::streams::stream::LoadStream;
use crate::streams::{LoadStreams, ScanTally, StreamKey};
use from_stream::JobContext;
use iowhy_analysis::Summary;
use iowhy_analysis::summary::ChainRow;
use iowhy_diagnosis::fidelity::WatchFigures;
use iowhy_diagnosis::{Diagnosis, Finding};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::environment::Device;
use iowhy_model::{Environment, Metric, Name, Names};
use std::collections::{BTreeMap, BTreeSet};

/// Settings of a disk that are set and given back, below /sys/block/NAME/queue. The scheduler comes
/// first: it brings a number of requests of its own.
pub const DISK_SETTINGS: [&str; 6] =
    ["scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec", "max_sectors_kb", "nomerges"];
/// Settings of the machine that matter, below /proc/sys.
pub(crate) const MACHINE_SETTINGS: [&str; 6] = [
    "vm/dirty_background_bytes",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_ratio",
    "vm/dirty_expire_centisecs",
    "vm/dirty_writeback_centisecs",
];
/// Maximum number of programs, and of jobs for each.
const MOST_PROGRAMS: usize = 12;
const MOST_JOBS: usize = 12;
/// Streams with a smaller share of bytes and of operations are left out, unless they sync.
const LEAST_SHARE: f64 = 0.005;

/// Scans with a smaller share of the largest one's time are left out.
const LEAST_SCAN: f64 = 0.05;
/// Memory that fio needs besides the page cache, bytes. An estimate.
const OWN_MEMORY: u64 = 24 << 20;
/// Jobs with fewer operations per second are left out, unless they sync or wait.
const LEAST_RATE: f64 = 0.5;

/// A source that has been read.
#[derive(Debug)]
pub struct PlanSource<'a> {
    /// The sums of its rows.
    pub streams: &'a LoadStreams,
    /// The source's texts.
    pub names: &'a Names,
    /// The source's summary.
    pub summary: &'a Summary,
    /// The source's diagnosis.
    pub diagnosis: &'a Diagnosis,
    /// Whether names of programs and files are kept.
    pub keep_names: bool,
}

/// The length of the watch.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// Nanoseconds.
    pub duration_ns: u64,
    source: &'a PlanSource<'a>,
}

impl PlanContext<'_> {
    fn ns(&self) -> f64 {
        self.duration_ns.max(1) as f64
    }

    fn seconds(&self) -> f64 {
        self.ns() / 1e9
    }
}

/// The plan of a reproduction.
pub fn plan(source: &PlanSource<'_>) -> LoadPlan {
    let (context, mut plan, shown) = outline(source);
    plan.programs = programs(&context, &shown);
    drop_unused_disks(&mut plan);
    plan.notes = notes(source, &plan);
    plan.notes.extend(load_notes(source));
    if plan.fit_buffers() {
        let note = "fewer requests are in flight than in the original: their buffers would take \
                    more than 1 GiB";
        plan.notes.push(note.to_owned());
    }
    plan.count_bytes();
    plan
}

/// The plan of a replay: the same requests at the same times.
pub fn replayed(source: &PlanSource<'_>, tally: &ReplayTally) -> (LoadPlan, Vec<ReplayText>) {
    let (context, mut plan, shown) = outline(source);
    // Direct I/O needs no page cache.
    plan.available_bytes = None;
    let program = |number: usize, text: &str| match source.keep_names {
        true => safe(text),
        false => format!("program-{}", letters(number)),
    };
    let file = |number: usize, text: &str| match source.keep_names {
        true => format!("{}-{}", FileClass::from_path(text).name(), letters(number)),
        false => format!("files-{}", letters(number)),
    };
    let period_us = context.duration_ns / 1000;
    let replay = ReplayContext::new(tally, period_us, &shown, &program, &file);
    let (programs, texts) = replay::programs(&replay, tally);
    for ReplayedProgram { mut planned, original } in programs {
        let mut named = source.streams.cgroups.keys();
        if let Some(name) = named.find(|name| source.names.get(**name) == original) {
            limits(source, *name, &shown, &mut planned);
            planned.memory_bytes = None;
        }
        plan.programs.push(planned);
    }
    drop_unused_disks(&mut plan);
    plan.notes = notes(source, &plan);
    plan.notes.extend(tally.notes());
    plan.count_bytes();
    (plan, texts)
}

/// Returns the parts that every plan has, and the original's names of its disks.
fn outline<'a>(source: &'a PlanSource<'a>) -> (PlanContext<'a>, LoadPlan, Vec<String>) {
    let duration_ns = source.summary.watch.duration_ns;
    let context = PlanContext { duration_ns, source };
    let environment = &source.summary.environment;
    let (disks, shown) = disks(source);
    let plan = LoadPlan {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        keep_names: source.keep_names,
        seconds: (context.seconds().round() as u64).clamp(2, 30),
        disks,
        available_bytes: available(source.summary),
        settings: machine_settings(environment),
        original: WatchFigures::new(source.summary, source.diagnosis, &shown),
        ..LoadPlan::default()
    };
    (context, plan, shown)
}

/// Memory that was available on average.
fn available(summary: &Summary) -> Option<u64> {
    let series = summary.samples.system(Metric::MemoryAvailable)?;
    let mean = (series.first + series.last) / 2.0;
    Some(series.max.unwrap_or(mean).min(mean) as u64)
}

fn machine_settings(environment: &Environment) -> BTreeMap<String, String> {
    let all = environment.settings_start.iter();
    let ours = all.filter(|(name, _)| MACHINE_SETTINGS.contains(&name.as_str()));
    ours.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The disks that programs use themselves, busiest first, and their original names.
fn disks(source: &PlanSource<'_>) -> (Vec<PlannedDisk>, Vec<String>) {
    let streams = source.streams;
    let keys = streams.streams.keys().map(|key| key.device);
    let used: BTreeSet<&str> = keys
        .chain(streams.scans.keys().map(|key| key.1))
        .map(|name| source.names.get(name))
        .collect();
    let own = |device: &&iowhy_analysis::summary::DeviceSummary| {
        let all: u64 = device.directions.0.iter().map(|direction| direction.requests).sum();
        used.contains(device.device.as_str()) && device.lower_requests * 2 <= all
    };
    let shown: Vec<String> =
        source.summary.devices.iter().filter(own).map(|device| device.device.clone()).collect();
    let environment = &source.summary.environment;
    let disks = shown.iter().enumerate().map(|(at, name)| {
        let device = environment.devices.iter().find(|device| device.name == *name);
        PlannedDisk {
            name: if source.keep_names { safe(name) } else { format!("disk{}", at + 1) },
            file_system: device.and_then(|device| file_system(environment, device)),
            settings: device.map(disk_settings).unwrap_or_default(),
            bytes: 0,
        }
    });
    (disks.collect(), shown)
}

fn file_system(environment: &Environment, device: &Device) -> Option<String> {
    let of_disk = |mount: &&iowhy_model::environment::Mount| {
        let parts = environment.devices.iter();
        let mut own = parts.filter(|part| {
            part.name == device.name || part.partition_of.as_deref() == Some(&device.name)
        });
        own.any(|part| (part.major, part.minor) == (mount.major, mount.minor))
    };
    let known = ["ext4", "xfs", "btrfs"];
    let mount = environment.mounts.iter().find(of_disk)?;
    known.contains(&mount.kind.as_str()).then(|| mount.kind.clone())
}

fn disk_settings(device: &Device) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let text = device.settings_start.get(&format!("queue/{name}"))?;
        // Brackets mark the current choice.
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let value = chosen.map_or(text.as_str(), |(value, _)| value).trim();
        (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    DISK_SETTINGS.into_iter().filter_map(value).collect()
}

/// `a` to `z`, then `aa`: digits would make files of several jobs one class.
fn letters(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        more => format!("{}{letter}", letters(more - 1)),
    }
}

/// A name that is safe in job files, shells and paths.
fn safe(name: &str) -> String {
    let readable = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(readable).take(40).collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

fn programs(context: &PlanContext<'_>, disks: &[String]) -> Vec<PlannedProgram> {
    let source = context.source;
    let index = |name: Name| disks.iter().position(|disk| disk == source.names.get(name));
    let mut by_program: BTreeMap<Name, Vec<(&StreamKey, &LoadStream, usize)>> = BTreeMap::new();
    for (key, stream) in &source.streams.streams {
        if let Some(disk) = index(key.device) {
            by_program.entry(key.program).or_default().push((key, stream, disk));
        }
    }
    for (program, device) in source.streams.scans.keys() {
        if index(*device).is_some() {
            by_program.entry(*program).or_default();
        }
    }
    let weight = |streams: &[(&StreamKey, &LoadStream, usize)]| -> u64 {
        streams
            .iter()
            .map(|stream| stream.1.waits.total_ns + stream.1.read.bytes + stream.1.write.bytes)
            .sum()
    };
    let mut ordered: Vec<_> = by_program.into_iter().collect();
    ordered.compact_sort_by_key(|(name, streams)| {
        (std::cmp::Reverse(weight(streams)), source.names.get(*name).to_owned())
    });
    ordered.truncate(MOST_PROGRAMS);
    let mut programs: Vec<PlannedProgram> = Vec::new();
    for (name, streams) in ordered {
        let text = source.names.get(name);
        let mut program = PlannedProgram {
            name: match source.keep_names {
                true => safe(text),
                false => format!("program-{}", letters(programs.len())),
            },
            one_process: source
                .streams
                .processes
                .get(&name)
                .is_some_and(|process| process.len() == 1),
            ..PlannedProgram::default()
        };
        fill(context, name, streams, &mut program);
        scans(context, name, &index, &mut program);
        limits(source, name, disks, &mut program);
        cached(source, name, &mut program);
        if !program.jobs.is_empty() || !program.steps.is_empty() {
            programs.push(program);
        }
    }
    programs
}

/// The jobs of one program and the steps on its files.
fn fill(
    context: &PlanContext<'_>,
    name: Name,
    mut streams: Vec<(&StreamKey, &LoadStream, usize)>,
    program: &mut PlannedProgram,
) {
    let source = context.source;
    let weight =
        |stream: &LoadStream| stream.waits.total_ns + stream.read.bytes + stream.write.bytes;
    streams.compact_sort_by_key(|(key, stream, _)| (std::cmp::Reverse(weight(stream)), **key));
    let convoy = convoy(source, source.names.get(name));
    let names = source.streams.names.get(&name).copied().unwrap_or_default();
    let created = streams.iter().map(|stream| stream.1.calls.creates);
    let most_created = created.max().unwrap_or(0);
    for (number, (key, stream, disk)) in streams.into_iter().enumerate() {
        let Some(class) = source.streams.classes.get(key.class) else { continue };
        if !matters(context, stream) || program.jobs.len() >= MOST_JOBS {
            continue;
        }
        // A few rows of what is a class of its own only by its name.
        if stream.calls.creates > 0 && stream.calls.creates * 20 < most_created {
            continue;
        }
        let held = convoy.filter(|chain| is_held(chain, class));
        if let Some(step) = held.and_then(|chain| steps::lock(context, disk, chain, stream)) {
            program.steps.push(step);
            continue;
        }
        if let Some(step) = steps::churn(context, disk, class, stream, names) {
            program.steps.push(step);
            continue;
        }
        let own = match source.keep_names && !class.is_device {
            true => class.name(),
            false => format!("{}-files-{}", program.name, letters(number)),
        };
        let job = JobContext {
            name: &own,
            disk,
            class,
            duration_ns: context.duration_ns,
            has_calls: source.streams.has_calls,
        };
        let mut jobs = from_stream::jobs(&job, stream);
        jobs.retain(|job| job.per_s >= LEAST_RATE || job.sync.is_some());
        if source.keep_names && !class.is_device {
            // Jobs of one class have files of their own.
            let kind = |job: &PlannedJob| job.name.strip_prefix(&own).map(str::to_owned);
            let path = |kind: String| format!("{}/{}", kind.trim_matches('-'), class.path());
            jobs.iter_mut().for_each(|job| job.path = kind(job).map(path));
        }
        program.jobs.extend(unique(jobs, &program.jobs));
    }
}

/// Jobs under names that others do not have: fio keeps their files by name.
fn unique(mut jobs: Vec<PlannedJob>, known: &[PlannedJob]) -> Vec<PlannedJob> {
    for job in &mut jobs {
        if known.iter().any(|known| known.name == job.name) {
            job.name = format!("{}-{}", job.name, known.len() + 1);
        }
    }
    jobs
}

/// Whether a stream is more than noise.
fn matters(context: &PlanContext<'_>, stream: &LoadStream) -> bool {
    let devices = &context.source.summary.devices;
    let directions = || devices.iter().flat_map(|device| &device.directions.0);
    let bytes: f64 = directions().map(|direction| direction.bytes as f64).sum();
    let requests: f64 = directions().map(|direction| direction.requests as f64).sum();
    let own = stream.read.bytes as f64 + stream.write.bytes as f64;
    let own = own + stream.calls.write_bytes as f64;
    let count = stream.read.requests as f64 + stream.write.requests as f64;
    own >= LEAST_SHARE * bytes.max(1.0)
        || count >= LEAST_SHARE * requests.max(1.0)
        || stream.calls.fsyncs as f64 >= context.seconds()
        || stream.waits.total_ns as f64 >= LEAST_SHARE * context.ns()
}

/// The wait chain behind a lock, if that was found to be a cause and the program has it.
fn convoy<'a>(source: &PlanSource<'a>, program: &str) -> Option<&'a ChainRow> {
    let mut rules = source.diagnosis.findings.iter().filter_map(Finding::rule);
    let found = rules.any(|rule| rule.is_convoy);
    let rows = &source.summary.chains.as_ref()?.rows;
    let own = |row: &&ChainRow| row.steps.iter().any(|step| step.process == program);
    rows.iter().filter(|_| found).filter(own).max_by_key(|row| row.time_ns)
}

fn is_held(chain: &ChainRow, class: &FileClass) -> bool {
    chain.files.iter().any(|(file, _)| FileClass::from_path(file) == *class)
}

fn scans(
    context: &PlanContext<'_>,
    name: Name,
    index: &impl Fn(Name) -> Option<usize>,
    program: &mut PlannedProgram,
) {
    let streams = context.source.streams;
    let calls = streams.names.get(&name).copied().unwrap_or_default();
    let most = streams.scans.values().map(|scan| scan.time_ns).max().unwrap_or(0) as f64;
    let ours = |(key, tally): &(&(Name, Name), &ScanTally)| {
        key.0 == name && tally.time_ns as f64 >= LEAST_SCAN * most
    };
    let mut own: Vec<_> = streams.scans.iter().filter(ours).collect();
    own.compact_sort_by_key(|(key, _)| **key);
    for ((_, device), tally) in own {
        if let Some(disk) = index(*device) {
            program.steps.extend(steps::scan(context, disk, tally, calls));
        }
    }
}

/// Memory for the page cache that a program's reads must have had, if what was read again shows
/// that it was too small: a limit that is not in the data, or memory that others used.
fn cached(source: &PlanSource<'_>, name: Name, program: &mut PlannedProgram) {
    let own = || source.streams.streams.iter().filter(|(key, _)| key.program == name);
    let reads = || own().map(|(_, stream)| &stream.read.again);
    if program.memory_bytes.is_some() || reads().all(|again| again.cache_bytes().is_none()) {
        return;
    }
    let cache: u64 = reads().map(|again| again.cache_bytes().unwrap_or(again.bytes)).sum();
    program.memory_bytes = Some(cache.saturating_add(OWN_MEMORY));
}

/// The limits of the cgroup that most of a program's rows came from, and of those above it.
fn limits(source: &PlanSource<'_>, name: Name, disks: &[String], program: &mut PlannedProgram) {
    let environment = &source.summary.environment;
    let Some(known) = source.streams.cgroups.get(&name) else { return };
    let Some((cgroup, _)) = known.iter().max_by_key(|(name, count)| (**count, **name)) else {
        return;
    };
    let path = source.names.get(*cgroup);
    let above = |cgroup: &&iowhy_model::cgroup::Cgroup| {
        let rest = path.strip_prefix(cgroup.path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || cgroup.path == "/")
    };
    for group in environment.cgroups.iter().filter(above) {
        let memory = group.memory_limit().map(|limit| limit.1);
        program.memory_bytes = [program.memory_bytes, memory].into_iter().flatten().min();
        for (number, limit) in group.io_limits() {
            let device =
                environment.devices.iter().find(|device| (device.major, device.minor) == number);
            let disk = device.and_then(|device| disks.iter().position(|disk| *disk == device.name));
            program.limits.extend(disk.map(|disk| DiskLimit::new(disk, limit)));
        }
    }
}

/// Removes disks that no job uses; indices follow.
fn drop_unused_disks(plan: &mut LoadPlan) {
    let used: Vec<bool> = (0..plan.disks.len()).map(|at| plan.uses(at) != (false, false)).collect();
    let place = |at: usize| used.iter().take(at).filter(|is_used| **is_used).count();
    for program in &mut plan.programs {
        program.jobs.iter_mut().for_each(|job| job.disk = place(job.disk));
        program.steps.iter_mut().for_each(|step| step.move_to(place(step.disk())));
        program.limits.retain(|limit| used.get(limit.disk).copied().unwrap_or(false));
        program.limits.iter_mut().for_each(|limit| limit.disk = place(limit.disk));
    }
    let mut keep = used.iter();
    plan.disks.retain(|_| keep.next().copied().unwrap_or(false));
    let mut keep = used.iter();
    plan.original.disks.retain(|_| keep.next().copied().unwrap_or(false));
}

fn notes(source: &PlanSource<'_>, plan: &LoadPlan) -> Vec<String> {
    let mut notes = Vec::new();
    let summary = source.summary;
    if plan.programs.is_empty() {
        notes.push("no program's I/O is in the data, so nothing is reproduced".to_owned());
    }
    if summary.watch.lost_requests > 0 {
        let lost = summary.watch.lost_requests;
        notes.push(format!("{lost} requests have no record: the reproduction lacks them"));
    }
    if summary.watch.duration_ns > 30_000_000_000 {
        notes.push("the reproduction is watched for 30 s, the original was for longer".to_owned());
    }
    notes
}

/// Returns notes that concern only a load that is like the original, not a replay.
fn load_notes(source: &PlanSource<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let (summary, streams) = (source.summary, source.streams);
    if !streams.has_calls {
        notes.push(
            "system calls on files are not in the data: sizes and rates of buffered I/O are those \
             of requests, and what the page cache absorbed is missing"
                .to_owned(),
        );
    }
    let bytes: u64 = summary.watch.bytes;
    if streams.unowned_bytes as f64 > 0.05 * bytes.max(1) as f64 {
        let percent = (streams.unowned_bytes as f64 * 100.0 / bytes.max(1) as f64).min(100.0);
        notes.push(format!("{percent:.0} % of the bytes have no known program and are left out"));
    }
    if streams.refused > 0 {
        let refused = streams.refused;
        notes.push(format!("{refused} rows of further programs and files are left out"));
    }
    notes
}
