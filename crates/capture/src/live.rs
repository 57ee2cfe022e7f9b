//! A live watch as a source.
//!
//! What does not belong here: how long to watch, and what to do with the rows.

use crate::changes::Changes;
use crate::counters::END_NOT_SEEN;
use crate::decode::Decoder;
use crate::decode::dirtiers::Dirtiers;
use crate::decode::waits::Waits;
use crate::error::Error;
use crate::host::{devices, lockdown, mounts::Mounts, own, system};
use crate::kernel::{self, Facts};
use crate::plan::{Group, PROBES, Plan, Wishes};
use crate::privilege;
use crate::reader::Reader;
use crate::sampler::{Sampler, Sampling};
use crate::session::Session;
use crate::snapshot::{self, InFlight, LookedAt, Pending, Writers};
use crate::standing::{self, Standing};
use crate::symbols::KernelSymbols;
use crate::uses::Tables;
use iowhy_core::figures::plural;
use iowhy_core::held_back::HeldBack;
use iowhy_core::model::environment::Device;
use iowhy_core::model::{Environment, Losses, Names};
use iowhy_core::source::{Batch, Progress, Source};
use std::path::Path;

/// Records decoded at a time: few enough that their rows are still in the CPU cache when they are
/// processed further.
const RECORDS_AT_ONCE: usize = 256;

/// The options of a watch.
#[derive(Clone, Debug, Default)]
pub struct Options {
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
    /// System calls per second on each CPU above which they are no longer recorded.
    pub most_calls: u64,
    /// Which counters are read, and how often; none if not set.
    pub sampling: Option<Sampling>,
}

impl Options {
    /// The default of [`Options::most_calls`]: each call costs about 100 ns, whatever it does, so
    /// this is 4 % of a CPU.
    pub const MOST_CALLS: u64 = 400_000;

    /// What the plan is made from; `devices` are the numbers of those that were named.
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
        }
    }
}

/// A watch that is running, or that has ended and is being drained.
pub struct Live {
    session: Session,
    decoder: Decoder,
    reader: Reader,
    environment: Environment,
    stopped: bool,
    empty: bool,
    /// Everything that ended before this time has been read.
    seen_ns: u64,
    /// Whether only some devices are watched.
    limited: bool,
    held_back: HeldBack,
    in_flight: InFlight,
    at_end: LookedAt,
    /// Threads that were asleep when the watch began, until they are handed over.
    asleep: Vec<Vec<u8>>,
    /// Threads that waited for other threads when it ended.
    standing: Vec<Standing>,
    /// The use of files, where it is recorded.
    tables: Option<Tables>,
    cpu_before_ns: u64,
    sampler: Option<Sampler>,
    changes: Changes,
}

impl Live {
    /// Begins a watch.
    pub fn begin(options: &Options) -> Result<Live, Error> {
        let cpu_before_ns = own::cpu_ns();
        privilege::require()?;
        require_kernel()?;
        let mut environment = system::environment();
        environment.devices = devices::list();
        environment.mounts = Mounts::read().of_storage();
        let wishes = options.wishes(find_devices(&options.devices, &environment)?);
        let in_flight = InFlight::of(&wishes.devices);
        let facts = facts()?;
        let reader = Reader::default();
        let mut decoder = Decoder::new(&facts, &environment, &reader, options.arguments);
        keep_watched(&mut environment, &wishes.devices);
        if !wishes.devices.is_empty() {
            decoder.uses.disks = environment.devices.iter().map(|it| it.name.clone()).collect();
        }
        let plan = Plan::new(&facts, &wishes);
        require_probes(&plan)?;
        let limited = !wishes.devices.is_empty();
        let mut asleep = Vec::new();
        let session = Session::begin(&plan, &facts, &wishes, |session, group| match group {
            Group::Block => {
                environment.start_ns = system::now_ns();
                devices::read_start(&mut environment.devices);
            }
            // At once: who wakes before the sleepers are listed would be seen by nobody.
            Group::Wait => snapshot::sleepers(session, |record| asleep.push(record.to_vec())),
            _ => (),
        })?;
        let unlisted = in_flight.add(&session).unlisted;
        tell(&mut decoder, &session, environment.start_ns);
        decoder.chains.wanted = options.chains;
        let tables = options
            .files
            .then(|| Tables::begin(&session, environment.start_ns, options.most_calls));
        environment.tables = tables_of(options);
        environment.limits = limits(&plan, &session, &facts, unlisted);
        let start_ns = environment.start_ns;
        Ok(Live {
            sampler: options.sampling.map(|sampling| Sampler::new(sampling, start_ns)),
            changes: Changes::new(start_ns),
            asleep,
            session,
            decoder,
            reader,
            environment,
            stopped: false,
            empty: true,
            seen_ns: 0,
            limited,
            held_back: HeldBack::default(),
            in_flight,
            at_end: LookedAt::default(),
            standing: Vec::new(),
            tables,
            cpu_before_ns,
        })
    }

    /// Ends the watch; `why` is written to the recording. What is in the ring buffer can still be
    /// read.
    pub fn stop(&mut self, why: &str) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.at_end = self.in_flight.mark(&self.session);
        self.environment.cost.map_bytes = self.session.map_bytes();
        let spent: u64 = self.session.programs().iter().map(|program| program.run_time_ns).sum();
        self.environment.cost.bpf_ns = (spent > 0).then_some(spent);
        self.session.detach();
        self.environment.losses = self.losses();
        self.environment.retried_submissions = self.session.retried_submissions();
        // Only now that nothing is recorded any more: a thread that wakes meanwhile would be
        // recorded twice.
        let waiting = self.decoder.waiting_processes();
        let (standing, more) = standing::now(&self.session, waiting, &self.reader);
        self.standing = standing;
        let meaning = "threads asleep at the end beyond those that iowhy checks";
        self.environment.losses.add("standing", more, meaning, false);
        self.environment.end_ns = system::now_ns();
        self.environment.ended_by = why.to_owned();
        self.environment.settings_end = system::settings();
        devices::read_end(&mut self.environment.devices, self.limited);
        self.changes.look(&mut self.environment.devices, &self.reader);
    }

    /// Updates losses and cost in the environment; after the end they are final.
    pub fn refresh(&mut self, names: &Names) {
        if self.stopped {
            return;
        }
        self.environment.losses = self.losses();
        self.environment.retried_submissions = self.session.retried_submissions();
        self.decoder.losses(names, &mut self.environment.losses);
        self.reader.losses(&mut self.environment.losses);
        self.changes.losses(&mut self.environment.losses);
        self.environment.cgroups = self.decoder.cgroups.limits();
        self.environment.cost.cpu_ns = self.cpu_ns();
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
        own::cpu_ns().saturating_sub(self.cpu_before_ns) + self.reader.cpu_ns()
    }

    fn drain(&mut self, batch: &mut Batch, names: &mut Names) -> usize {
        let decoder = &mut self.decoder;
        for record in self.asleep.drain(..) {
            decoder.sleeper(&record, batch, names);
        }
        self.session.read(RECORDS_AT_ONCE, |record| decoder.record(record, batch, names))
    }

    /// Hands over the use of files when it is due; the names that it refers to were read before.
    fn drain_uses(&mut self, batch: &mut Batch, names: &mut Names) {
        let (Some(tables), decoder) = (&mut self.tables, &mut self.decoder) else { return };
        if tables.is_due(&mut self.session, self.empty) {
            decoder.begin_uses(names);
            tables.take(&self.session, |used| decoder.add_use(used, names));
            decoder.end_uses(tables.settled_ns, batch, names);
        }
        self.environment.limits.append(&mut tables.limits);
    }

    /// Adds the processes whose counters were reported before the processes themselves.
    fn meet_counted(&mut self, batch: &mut Batch, names: &mut Names) -> Vec<u32> {
        let counted = self.sampler.as_mut().map(Sampler::told).unwrap_or_default();
        counted.iter().for_each(|pid| self.decoder.meet(*pid, batch, names));
        counted
    }

    fn finish(&mut self, batch: &mut Batch, names: &mut Names) {
        let (decoder, at_end) = (&mut self.decoder, &self.at_end);
        decoder.waits.end_ns = self.environment.end_ns;
        let mut unseen = 0;
        let mut open = Vec::new();
        self.session.pending(|record| {
            if at_end.has_ended(record) {
                unseen += 1;
            } else {
                open.extend(Pending::of(record));
                decoder.record(record, batch, names);
            }
        });
        self.session.asleep(|record| {
            decoder.wait(record, batch, names);
        });
        decoder.standing(std::mem::take(&mut self.standing), batch, names);
        if let Some(tables) = &mut self.tables {
            decoder.begin_uses(names);
            tables.finish(&self.session, |used| decoder.add_use(used, names));
            decoder.begin_uses(names);
            decoder.end_uses(u64::MAX, batch, names);
        }
        if let Some(sampler) = &mut self.sampler {
            let end_ns = self.environment.end_ns;
            sampler.look(end_ns, &open, batch, names);
            sampler.look_at_page_cache(end_ns, &self.session, batch, names);
        }
        self.environment.cgroups = self.decoder.cgroups.limits_at_end();
        let (place, meaning) = END_NOT_SEEN;
        self.environment.losses.add(place, unseen, meaning, true);
        self.decoder.losses(names, &mut self.environment.losses);
        self.reader.losses(&mut self.environment.losses);
        self.changes.losses(&mut self.environment.losses);
        self.session.untold(&mut self.environment.losses);
        let (cpu_ns, memory) = (self.cpu_ns(), own::anonymous_bytes());
        let cost = &mut self.environment.cost;
        cost.cpus = self.environment.cpus;
        cost.cpu_ns = cpu_ns;
        cost.memory_bytes = cost.memory_bytes.max(memory + self.reader.anonymous_bytes());
        self.environment.finished = true;
    }

    /// What was lost so far.
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.session.losses(&mut losses);
        losses
    }
}

impl Source for Live {
    type Error = Error;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, Error> {
        let now_ns = system::now_ns();
        let read = self.drain(batch, names);
        self.empty = read < RECORDS_AT_ONCE;
        if self.empty {
            self.seen_ns = now_ns;
        }
        if !self.stopped {
            self.drain_uses(batch, names);
            self.changes.look_if_due(&mut self.environment.devices, &self.reader);
        }
        if self.empty {
            self.decoder.settle_opens(batch, names);
        }
        let is_over = self.stopped && read < RECORDS_AT_ONCE;
        if is_over {
            self.finish(batch, names);
        } else if let Some(sampler) = self.sampler.as_mut().filter(|_| !self.stopped) {
            // What ended before must be read before: a recording is cut by the order of rows.
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

/// The tables that a watch with these options fills.
fn tables_of(options: &Options) -> Vec<String> {
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

/// What this kernel provides for iowhy's probes.
pub fn facts() -> Result<Facts, Error> {
    let tracepoints: Vec<&'static str> =
        PROBES.iter().filter_map(|probe| probe.tracepoint).collect();
    kernel::probe(&tracepoints, &KernelSymbols::find()?)
}

/// Fails if a probe is missing that every watch requires.
fn require_probes(plan: &Plan) -> Result<(), Error> {
    match plan.first_needed_missing() {
        None => Ok(()),
        Some(probe) => Err(Error::Kernel {
            verb: "attach",
            object: probe.tracepoint.unwrap_or(probe.program).to_owned(),
            cause: "this kernel has no such tracepoint".to_owned(),
        }),
    }
}

/// Passes facts of the started session to the decoder.
fn tell(decoder: &mut Decoder, session: &Session, start_ns: u64) {
    decoder.start_ns = start_ns;
    decoder.writers = Writers::now(session);
    decoder.dirtiers = Dirtiers::of(session);
    decoder.waits = waits(session);
}

/// The decoder of waits, with the kernel's maps of their stacks.
fn waits(session: &Session) -> Waits {
    let maps = ["wait_stacks", "wait_stacks_2"];
    let stacks = maps.iter().filter_map(|map| session.handle(map)).collect();
    Waits::with(stacks, session.handle("wait_user_stacks"))
}

/// Fails on what no privilege helps against. Checked before anything is tried, because the kernel's
/// own errors for it are long and misleading.
fn require_kernel() -> Result<(), Error> {
    if !Path::new("/sys/kernel").exists() {
        return Err(Error::NoSys);
    }
    let hidden = lockdown::mode().is_some_and(|mode| mode == lockdown::CONFIDENTIALITY);
    if hidden { Err(Error::LockedDown) } else { Ok(()) }
}

fn find_devices(wanted: &[String], environment: &Environment) -> Result<Vec<u32>, Error> {
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
            find(name).ok_or_else(|| Error::NoDevice {
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

/// Removes the devices that are not watched, and what is mounted from them.
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
fn limits(plan: &Plan, session: &Session, facts: &Facts, unlisted: u64) -> Vec<String> {
    let missing = plan
        .missing
        .iter()
        .map(|probe| format!("not visible: {}; this kernel has no {}", probe.gives, probe.needs()));
    let failed = session.failed.iter().map(|(probe, cause)| {
        let cause = cause.lines().next().unwrap_or_default();
        format!("not visible: {}; {} could not be used: {cause}", probe.gives, probe.program)
    });
    let hidden = facts.end_io.iter().all(|address| *address == 0).then(|| {
        "not visible: files of direct I/O, journals; /proc/kallsyms hides addresses \
         (kernel.kptr_restrict)"
            .to_owned()
    });
    let unlisted = (unlisted > 0).then(|| {
        let found = "in flight when the watch began: listed only on completion, because the kernel's \
                     list of them was not found";
        format!("{} {found}", plural(unlisted, "request"))
    });
    missing.chain(failed).chain(privilege::limits()).chain(hidden).chain(unlisted).collect()
}
