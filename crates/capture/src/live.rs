//! A live watch as a source.
//!
//! What does not belong here: how long to watch, and what to do with the rows.

mod device_health;
mod open_rows;

use crate::budget::Controller;
use crate::changes::Changes;
use crate::confined;
use crate::counters::END_NOT_SEEN;
use crate::decode::{DecodeContext, KnownEntities};
use crate::error::WatchError;
use crate::host::own::{self, OwnUse};
use crate::host::{devices, lockdown, mounts::Mounts, system};
use crate::kernel::{self, KernelFeatures};
use crate::plan::{PROBES, Plan, ProbeGroup, RingSize, Wishes};
use crate::priority::HurriedStart;
use crate::privilege;
use crate::probes::Decoders;
use crate::probes::file::tables::Tables;
use crate::probes::snapshot::{self, InFlight, PendingRequest, ScannedDisks};
use crate::probes::wait::standing::{self, Standing};
use crate::reader::FileAsker;
use crate::sampler::{Sampler, Sampling};
use crate::session::Session;
use crate::symbols::KernelSymbols;
use crate::thinning::Thinner;
use device_health::DeviceReports;
use iowhy_model::environment::{Cost, Device};
use iowhy_model::figures::plural;
use iowhy_model::held_back::HeldBack;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Losses, Names};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Records decoded at a time: few enough that their rows are still in the CPU cache when they are
/// processed further.
const RECORDS_AT_ONCE: usize = 256;

/// The share of a watch for which iowhy's own cgroup was throttled, above which it is said.
const LEAST_THROTTLED: f64 = 0.005;

/// The options of a watch.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Devices by kernel name or path under /dev; empty for all.
    pub devices: Vec<String>,
    /// Whether command lines of processes are kept: they may contain secrets.
    pub arguments: bool,
    /// Stacks per second on each CPU; 0 for none.
    pub stacks_per_second: u32,
    /// Whether every single block event is recorded, too.
    pub events: bool,
    /// Whether the waits of threads are recorded.
    pub waits: bool,
    /// Whether to record who waited for a waiting thread; it needs `waits`.
    pub chains: bool,
    /// Whether the use of files by programs is recorded.
    pub files: bool,
    /// Whether every single open is recorded; it needs `files`.
    pub opens: bool,
    /// The cost that the watch may have, percent of the machine's CPUs; `None` to record
    /// everything, whatever that costs.
    pub budget: Option<f64>,
    /// The counters to read, and the time between two samples; none if not set.
    pub sampling: Option<Sampling>,
    /// The ring buffer's size.
    pub ring: RingSize,
    /// Time between two questions about the health of devices in a watch that runs for ever; not
    /// set: only at its beginning and end.
    pub health_every: Option<Duration>,
    /// Time between two checks of devices' settings for changes; once a second if not set.
    pub settings_every: Option<Duration>,
}

impl WatchOptions {
    /// Returns the controller that keeps to the budget; `None` without a budget.
    fn controller(&self) -> Option<Controller> {
        self.budget.map(|percent| Controller::new(percent).keep_calls(self.opens))
    }

    /// Returns the wishes that the plan is made from; `devices` are the numbers of those that were
    /// named.
    fn wishes(&self, devices: Vec<u32>) -> Wishes {
        Wishes {
            devices,
            stacks_per_second: self.stacks_per_second,
            user_stacks: true,
            events: self.events,
            waits: self.waits,
            chains: self.chains,
            files: self.files,
            opens: self.opens,
            page_cache: self.sampling.is_some_and(|sampling| sampling.page_cache),
            aggregates: self.budget.is_some(),
            ring: self.ring,
        }
    }
}

/// A watch that is running, or that has ended and is being drained.
pub struct LiveWatch {
    session: Session,
    known: KnownEntities,
    decoders: Decoders,
    reader: FileAsker,
    environment: Environment,
    stopped: bool,
    empty: bool,
    /// Everything that ended before this time has been read.
    seen_ns: u64,
    /// Whether only some devices are watched.
    limited: bool,
    held_back: HeldBack,
    in_flight: InFlight,
    at_end: ScannedDisks,
    /// Threads that were asleep when the watch began, until they are handed over.
    asleep: Vec<Vec<u8>>,
    /// Threads that waited for other threads when it ended.
    standing: Vec<Standing>,
    /// The use of files, where it is recorded.
    tables: Option<Tables>,
    /// The thinner that keeps to the budget; `None` without a budget.
    thinner: Option<Thinner>,
    /// The CPU time that iowhy itself had used when the watch began.
    own_before: OwnUse,
    /// Time at which the start was over, CLOCK_MONOTONIC nanoseconds.
    started_ns: u64,
    sampler: Option<Sampler>,
    changes: Changes,
    health: DeviceReports,
}

impl LiveWatch {
    /// Begins a watch.
    pub fn begin(options: &WatchOptions) -> Result<LiveWatch, WatchError> {
        let own_before = OwnUse::now();
        privilege::require()?;
        let _hurried = HurriedStart::begin();
        require_kernel()?;
        let mut environment = environment_now();
        let wishes = options.wishes(find_devices(&options.devices, &environment)?);
        let (in_flight, reader) = (InFlight::new(&wishes.devices), FileAsker::default());
        let facts = facts()?;
        let mut known = KnownEntities::new(&facts, &environment, &reader, options.arguments);
        let mut decoders = Decoders::new(&facts, &environment);
        keep_watched(&mut environment, &wishes.devices);
        let (limited, mut asleep) = (!wishes.devices.is_empty(), Vec::new());
        let watched = environment.devices.iter().filter(|_| limited);
        decoders.uses.disks.extend(watched.map(|device| device.name.clone()));
        let plan = plan_of(&facts, &wishes)?;
        let mut health = DeviceReports::new(options.health_every);
        let session = Session::begin(&plan, &facts, &wishes, |session, group| match group {
            ProbeGroup::Block => {
                environment.start_ns = system::now_ns();
                environment.note_start_time();
                devices::read_start(&mut environment.devices);
                health.begin(&environment.devices);
            }
            // At once: a thread that wakes before the sleepers are listed has no record.
            ProbeGroup::Wait => snapshot::sleepers(session, |record| asleep.push(record.to_vec())),
            _ => (),
        })?;
        let unlisted = in_flight.add(&session).unlisted;
        decoders.begin(&session, environment.start_ns, options.chains, &mut known);
        let tables = options.files.then(|| Tables::begin(&session, environment.start_ns));
        let thinner = options.controller().map(|controller| {
            let own_ns = own::cpu_ns() + reader.cpu_ns();
            Thinner::begin(&session, &plan, &facts, controller, own_ns)
        });
        environment.tables = tables_of(options);
        let of_kernel = limits(&plan, &session, &facts, unlisted);
        environment.limits = of_kernel.into_iter().chain(health.limit()).collect();
        Ok(LiveWatch {
            sampler: options.sampling.map(|every| Sampler::new(every, environment.start_ns)),
            changes: Changes::new(environment.start_ns, options.settings_every),
            health,
            asleep,
            session,
            known,
            decoders,
            reader,
            environment,
            stopped: false,
            empty: true,
            seen_ns: 0,
            limited,
            held_back: HeldBack::default(),
            in_flight,
            at_end: ScannedDisks::default(),
            standing: Vec::new(),
            tables,
            thinner,
            own_before,
            started_ns: 0,
        }
        .started())
    }

    /// From here on the cost is that of watching.
    fn started(mut self) -> LiveWatch {
        self.environment.cost.start_cpu_ns = self.cpu_ns();
        self.started_ns = system::now_ns();
        self
    }

    /// Gives up the rights that the rest of the watch does not need; from now on this thread writes
    /// below `places` only.
    ///
    /// # Errors
    /// Fails if the system has no thread that writes.
    pub fn give_up_rights(&self, places: Vec<PathBuf>) -> std::io::Result<()> {
        confined::limit_watch(&self.session, places).map(drop)
    }

    /// Ends the watch; `why` is written to the recording. What is in the ring buffer can still be
    /// read.
    pub fn stop(&mut self, why: &str) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.add_left_out();
        self.at_end = self.in_flight.mark(&self.session);
        self.environment.cost.map_bytes = self.session.map_bytes();
        self.environment.cost.bpf_ns = Some(Thinner::programs_ns(&self.session));
        self.session.detach();
        self.environment.losses = self.losses();
        self.environment.retried_submissions = self.session.retried_submissions();
        // Only now that nothing is recorded any more: a thread that wakes meanwhile would be
        // recorded twice.
        let waiting = self.decoders.waits.chains.waiting_processes();
        let (standing, more) = standing::now(&self.session, waiting, &self.reader);
        self.standing = standing;
        let meaning = "threads asleep at the end beyond those that iowhy checks";
        self.environment.losses.add("standing", more, meaning, false);
        self.environment.end_ns = system::now_ns();
        if let Some(thinner) = &self.thinner {
            thinner.finish(&self.session, &mut self.environment);
        }
        self.environment.limits.extend(self.own_limit());
        self.environment.ended_by = why.to_owned();
        *self.environment.settings_end = system::settings();
        devices::read_end(&mut self.environment.devices, self.limited);
        self.health.end(&mut self.environment);
        self.changes.look(&mut self.environment.devices, &self.reader);
    }

    /// A sentence, if a limit of CPU time on iowhy's own cgroup kept it from reading records.
    fn own_limit(&self) -> Option<String> {
        let throttled_ns = OwnUse::now().throttled_ns.saturating_sub(self.own_before.throttled_ns);
        let whole_ns = self.environment.end_ns.saturating_sub(self.environment.start_ns).max(1);
        let share = throttled_ns as f64 / whole_ns as f64;
        (share > LEAST_THROTTLED).then(|| {
            format!(
                "iowhy's own cgroup was throttled by its CPU limit for {:.1} % of the time: more \
                 is sampled or dropped than the machine would require; run it in another cgroup",
                share * 100.0
            )
        })
    }

    /// Updates losses and cost in the environment; after the end they are final.
    pub fn refresh(&mut self, names: &Names) {
        if self.stopped {
            return;
        }
        self.environment.losses = self.losses();
        self.environment.retried_submissions = self.session.retried_submissions();
        self.decoders.losses(&self.known, names, &mut self.environment.losses);
        self.reader.losses(&mut self.environment.losses);
        self.changes.losses(&mut self.environment.losses);
        *self.environment.cgroups = self.known.cgroups.limits();
        self.environment.cost = self.cost();
        if let Some(thinner) = &self.thinner {
            self.environment.thinning.clone_from(&thinner.history);
        }
    }

    /// Whether the last read drained the ring buffer: there is time to wait.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Time until the next work other than reading the ring buffer: until counters are due.
    pub fn idle_for(&self) -> std::time::Duration {
        self.sampler.as_ref().map_or(std::time::Duration::MAX, Sampler::due_in)
    }

    /// The time up to which rows of everything that ended have been handed over, CLOCK_MONOTONIC
    /// nanoseconds.
    pub fn seen_ns(&self) -> u64 {
        // The use of files is handed over later than the ring buffer's records.
        self.tables.as_ref().map_or(self.seen_ns, |tables| self.seen_ns.min(tables.settled_ns))
    }

    /// CPU time that the watch has cost this process so far, ns.
    pub fn cpu_ns(&self) -> u64 {
        own::cpu_ns().saturating_sub(self.own_before.cpu_ns)
            + self.reader.cpu_ns()
            + self.health.cpu_ns()
    }

    /// Returns the cost of the watch so far.
    pub fn cost(&self) -> Cost {
        let spent_ns = system::now_ns().saturating_sub(self.started_ns);
        let (cpus, cost) = (self.environment.cpus, self.environment.cost.clone());
        // The programs are gone after the end.
        let bpf_ns = match self.stopped {
            true => cost.bpf_ns,
            false => Some(Thinner::programs_ns(&self.session)),
        };
        Cost { cpu_ns: self.cpu_ns(), bpf_ns, spent_ns, cpus, ..cost }
    }

    /// Adds requests and waits that the budget left out and that have lasted for long: hanging ones
    /// are listed, whatever is sampled.
    fn add_left_out(&mut self) {
        if self.thinner.as_ref().is_none_or(|thinner| !thinner.has_left_out(&self.session)) {
            return;
        }
        self.in_flight.add_slow(&self.session);
        snapshot::sleepers(&self.session, |record| self.asleep.push(record.to_vec()));
    }

    fn drain(&mut self, batch: &mut Batch, names: &mut Names) -> usize {
        self.add_sleepers(batch, names);
        let before = batch.requests.len();
        let mut cx = DecodeContext::new(&mut self.known, batch, names);
        let read =
            self.session.read(RECORDS_AT_ONCE, |record| self.decoders.record(record, &mut cx));
        if let Some(thinner) = &mut self.thinner {
            thinner.add_recorded(batch.requests.len().saturating_sub(before));
        }
        read
    }

    /// Keeps the stacks of threads that were listed while they slept.
    fn add_sleepers(&mut self, batch: &mut Batch, names: &mut Names) {
        let mut cx = DecodeContext::new(&mut self.known, batch, names);
        for record in self.asleep.drain(..) {
            self.decoders.waits.sleeper(&record, &mut cx);
        }
    }

    /// Hands over the use of files when it is due; the names that it refers to were read before.
    fn drain_uses(&mut self, batch: &mut Batch, names: &mut Names) {
        let (Some(tables), uses) = (&mut self.tables, &mut self.decoders.uses) else { return };
        if tables.is_due(&self.session, self.empty) {
            let mut cx = DecodeContext::new(&mut self.known, batch, names);
            uses.begin(&mut cx);
            tables.take(&self.session, |used| uses.add_use(used, &mut cx));
            uses.end(tables.settled_ns, &mut cx);
        }
    }

    /// Measures the cost of the watch, and thins streams that cost too much.
    fn keep_to_budget(&mut self) {
        let free_ns = self.thinner.as_ref().map(Thinner::free_ns);
        self.known.stacks.copied.grants.grant_if_due(&self.session, free_ns);
        let Some(thinner) = &mut self.thinner else { return };
        let timed = thinner.measure_if_due(&mut self.session, || self.reader.cpu_ns());
        if thinner.is_list_due(&self.session) {
            self.in_flight.add_slow(&self.session);
        }
        if let (Some(timed), Some(tables)) = (timed, &mut self.tables) {
            tables.set_timed(&self.session, timed);
        }
    }

    /// Adds the processes whose counters were reported before the processes themselves.
    fn meet_counted(&mut self, batch: &mut Batch, names: &mut Names) -> Vec<u32> {
        let counted = self.sampler.as_mut().map(Sampler::told).unwrap_or_default();
        let mut cx = DecodeContext::new(&mut self.known, batch, names);
        counted.iter().for_each(|pid| cx.meet(*pid));
        counted
    }

    fn finish(&mut self, batch: &mut Batch, names: &mut Names) {
        let (decoders, at_end) = (&mut self.decoders, &self.at_end);
        let mut cx = DecodeContext::new(&mut self.known, batch, names);
        decoders.waits.end_ns = self.environment.end_ns;
        let mut unseen = 0;
        let mut open = Vec::new();
        self.session.pending(|record| {
            if at_end.has_ended(record) {
                unseen += 1;
            } else {
                open.extend(PendingRequest::from_record(record));
                decoders.record(record, &mut cx);
            }
        });
        let mut asleep = Vec::new();
        self.session.asleep(|record| asleep.push(record.to_vec()));
        decoders.waits.outlasting(asleep, &mut cx);
        decoders.waits.standing(std::mem::take(&mut self.standing), &mut cx);
        if let Some(tables) = &mut self.tables {
            let uses = &mut decoders.uses;
            uses.begin(&mut cx);
            tables.finish(&self.session, |used| uses.add_use(used, &mut cx));
            uses.begin(&mut cx);
            uses.end(u64::MAX, &mut cx);
        }
        if let Some(sampler) = &mut self.sampler {
            let end_ns = self.environment.end_ns;
            sampler.look(end_ns, &open, batch, names);
            sampler.look_at_page_cache(end_ns, &self.session, batch, names);
        }
        *self.environment.cgroups = self.known.cgroups.limits_at_end();
        let (place, meaning) = END_NOT_SEEN;
        self.environment.losses.add(place, unseen, meaning, true);
        self.decoders.losses(&self.known, names, &mut self.environment.losses);
        self.reader.losses(&mut self.environment.losses);
        self.changes.losses(&mut self.environment.losses);
        self.session.untold(&mut self.environment.losses);
        let memory = own::anonymous_bytes();
        self.environment.cost = self.cost();
        let cost = &mut self.environment.cost;
        (cost.copied_stacks, cost.copy_ns) = self.known.stacks.copied.copied;
        cost.memory_bytes = cost.memory_bytes.max(memory + self.reader.anonymous_bytes());
        self.environment.finished = true;
    }

    /// Returns the losses so far.
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.session.losses(&mut losses);
        losses
    }
}

impl Source for LiveWatch {
    type Error = WatchError;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, WatchError> {
        let now_ns = system::now_ns();
        let read = self.drain(batch, names);
        self.empty = read < RECORDS_AT_ONCE;
        if self.empty {
            self.seen_ns = now_ns;
        }
        if !self.stopped {
            self.keep_to_budget();
            self.drain_uses(batch, names);
            self.changes.look_if_due(&mut self.environment.devices, &self.reader);
            self.health.look(now_ns, &mut self.environment.devices);
        }
        if self.empty {
            let mut cx = DecodeContext::new(&mut self.known, batch, names);
            self.decoders.uses.settle_opens(&mut cx);
        }
        let is_over = self.stopped && read < RECORDS_AT_ONCE;
        if is_over {
            self.finish(batch, names);
        } else if let Some(sampler) = self.sampler.as_mut().filter(|_| !self.stopped) {
            // Rows that ended before must be read before: a recording is cut by the order of rows.
            sampler.look_if_due(!self.empty, &self.session, batch, names);
        }
        let counted = self.meet_counted(batch, names);
        if self.limited {
            self.held_back.exchange(batch, &counted);
        }
        Ok(if is_over { Progress::Done } else { Progress::More })
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// The machine with its devices and mounts.
fn environment_now() -> Environment {
    let (devices, mounts) = (devices::list(), Mounts::read().of_storage());
    Environment { devices: devices.into(), mounts: mounts.into(), ..system::environment() }
}

/// The probes of a watch with records.
fn plan_of(facts: &KernelFeatures, wishes: &Wishes) -> Result<Plan, WatchError> {
    let plan = Plan::new(facts, wishes);
    require_probes(&plan)?;
    Ok(plan)
}

/// The tables that a watch with these options fills.
fn tables_of(options: &WatchOptions) -> Vec<String> {
    let groups: [(bool, &[&str]); 6] = [
        (true, &["requests", "request_parts", "stacks", "processes"]),
        (options.waits, &["waits", "wait_requests"]),
        (options.waits && options.chains, &["wait_chains"]),
        (options.files, &["files"]),
        (options.sampling.is_some(), &["samples"]),
        (options.events, &["events"]),
    ];
    let wanted = groups.into_iter().filter(|(wanted, _)| *wanted);
    wanted.flat_map(|(_, names)| names).map(|name| (*name).to_owned()).collect()
}

/// Returns the features that this kernel provides for iowhy's probes.
pub fn facts() -> Result<KernelFeatures, WatchError> {
    let tracepoints: Vec<&'static str> =
        PROBES.iter().filter_map(|probe| probe.tracepoint).collect();
    kernel::probe(&tracepoints, &KernelSymbols::find()?)
}

/// Fails if a probe is missing that every watch requires.
fn require_probes(plan: &Plan) -> Result<(), WatchError> {
    match plan.first_needed_missing() {
        None => Ok(()),
        Some(probe) => Err(WatchError::Kernel {
            verb: "attach",
            object: probe.tracepoint.unwrap_or(probe.program).to_owned(),
            cause: "this kernel has no such tracepoint".to_owned(),
        }),
    }
}

/// Fails if this kernel cannot be watched whatever the privileges. Checked before anything is
/// tried, because the kernel's own errors for it are long and misleading.
fn require_kernel() -> Result<(), WatchError> {
    if !Path::new("/sys/kernel").exists() {
        return Err(WatchError::NoSys);
    }
    let hidden = lockdown::mode().is_some_and(|mode| mode == lockdown::CONFIDENTIALITY);
    if hidden { Err(WatchError::LockedDown) } else { Ok(()) }
}

fn find_devices(wanted: &[String], environment: &Environment) -> Result<Vec<u32>, WatchError> {
    let find = |wanted: &String| {
        let name = wanted.strip_prefix("/dev/").unwrap_or(wanted);
        let known = &environment.devices;
        let found = known.iter().find(|device| device.name == name)?;
        // A partition is watched through its whole disk, which has the requests.
        let disk =
            found.partition_of.as_ref().and_then(|disk| known.iter().find(|d| d.name == *disk));
        let device = disk.unwrap_or(found);
        Some(devices::number(device.major, device.minor))
    };
    wanted
        .iter()
        .map(|name| {
            find(name).ok_or_else(|| WatchError::NoDevice {
                name: name.clone(),
                known: environment
                    .devices
                    .iter()
                    .filter(|device| device.partition_of.is_none() && device.bytes > 0)
                    .map(|device| device.name.clone())
                    .collect(),
            })
        })
        .collect()
}

/// Removes the devices that are not watched, and their mounts.
fn keep_watched(environment: &mut Environment, watched: &[u32]) {
    if watched.is_empty() {
        return;
    }
    let is_watched =
        |device: &Device| watched.contains(&devices::number(device.major, device.minor));
    let disks: Vec<String> =
        environment.devices.iter().filter(|d| is_watched(d)).map(|d| d.name.clone()).collect();
    environment.devices.retain(|device| {
        is_watched(device) || device.partition_of.as_ref().is_some_and(|disk| disks.contains(disk))
    });
    let kept = &environment.devices;
    environment.mounts.retain(|mount| {
        kept.iter().any(|device| {
            (device.major, device.minor) == (mount.major, mount.minor)
                || mount.source.strip_prefix("/dev/") == Some(&device.name)
        })
    });
}

/// A sentence for each thing that is not visible to this watch.
fn limits(plan: &Plan, session: &Session, facts: &KernelFeatures, unlisted: u64) -> Vec<String> {
    let missing = plan
        .missing
        .iter()
        .map(|probe| format!("not visible: {}; this kernel has no {}", probe.gives, probe.needs()));
    let lost = session.failed.iter().filter(|(probe, _)| probe.otherwise().is_none());
    let failed = lost.map(|(probe, cause)| {
        let cause = cause.lines().next().unwrap_or_default();
        format!("not visible: {}; {} could not be used: {cause}", probe.gives, probe.program)
    });
    let hidden = facts.end_io.iter().all(|address| *address == 0).then(|| {
        "not visible: files of direct I/O, journals; /proc/kallsyms hides addresses \
         (kernel.kptr_restrict)"
            .to_owned()
    });
    let unlisted = (unlisted > 0).then(|| {
        let found = "in flight when the watch began: listed only on completion, because the \
                     kernel's list of them was not found";
        format!("{} {found}", plural(unlisted, "request"))
    });
    missing.chain(failed).chain(privilege::limits()).chain(hidden).chain(unlisted).collect()
}
