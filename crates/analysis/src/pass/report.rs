//! The last step: combines sums and the environment into a [`Summary`].

use super::summarizer::Summarizer;
use crate::device::changed_settings;
use crate::device::kernel_counters;
use crate::device::totals::DeviceTotals;
use crate::patterns::NamedDevice;
use crate::summary::patterns::Patterns;
use crate::summary::{
    Breakdown, ByDirection, DEVICE_ROWS, DEVICE_USERS, DeviceSummary, DirectionSummary,
    InScheduler, Measure, STALLED_NS, Samples, Summary, Usage, UsedRow, WatchSummary, Writers,
};
use crate::sums::counter_curve::counted_over_time;
use crate::sums::device_layer::{DeviceLayer, RequestLayer};
use crate::sums::own_io::is_own_name;
use crate::sums::usage_by_key::Used;
use crate::sums::watch_window::WatchWindow;
use crate::tables::fold::{ShareTotals, fold, sum};
use crate::tables::row_maker::RowMaker;
use crate::tables::{breakdown, writers};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::environment::Device;
use iowhy_model::{Environment, Metric, Names};

/// The summary of `all`.
pub(crate) fn summary(
    all: &Summarizer,
    environment: &Environment,
    names: &Names,
    window: WatchWindow,
) -> Summary {
    let report = Reporter { all, environment, names, window };
    let (counted, whole) = report.counted();
    let rows = RowMaker { charged: &all.charged, names, counted: &counted, whole };
    let (devices, idle_devices) = report.devices(&rows);
    let (samples, ledger) = (all.samples.series(window, names), all.waits.ledger(names));
    let patterns = report.patterns(&rows, &samples);
    let work = all.work.finish(names);
    Summary {
        watch: report.watch(&counted, whole),
        losses: environment.losses.clone(),
        identities: rows.identities(&samples, ledger.as_ref()),
        ledger,
        chains: all.chains.chains(&environment.architecture, &work, names),
        work,
        blame: None,
        activity: all.files.activity(names),
        samples,
        devices,
        idle_devices,
        processes: rows.processes(),
        programs: rows.programs(),
        containers: rows.containers(),
        files: rows.files(),
        origins: rows.origins(),
        code_paths: rows.code_paths(),
        breakdown: report.breakdown(&rows),
        writers: report.writers(&rows),
        changed_settings: changed_settings::changed(environment),
        patterns,
        environment: environment.clone(),
    }
}

struct Reporter<'a> {
    all: &'a Summarizer,
    environment: &'a Environment,
    names: &'a Names,
    window: WatchWindow,
}

impl Reporter<'_> {
    fn patterns(&self, rows: &RowMaker, samples: &Samples) -> Patterns {
        let device = |slot: usize| {
            let tally = self.all.devices.get(slot);
            let name = tally.map(|tally| self.name(tally)).unwrap_or_default();
            // A filter for processes leaves out what the kernel counts.
            let tally =
                tally.filter(|tally| tally.is_thinned() && !self.environment.hides_others());
            let counted = tally.map(|tally| counted_over_time(samples, &name, &tally.counts()));
            NamedDevice {
                counted: counted.unwrap_or_default(),
                code_paths: rows.code_paths_of(slot),
                name,
            }
        };
        let stacks = &self.all.charged.stacks;
        let found = self.all.patterns.finish(self.names, stacks, self.window.end_ns, device);
        Patterns { awaited: self.all.critical.finish(), ..found }
    }

    fn breakdown(&self, rows: &RowMaker) -> Option<Breakdown> {
        let name = |slot: usize| self.all.devices.get(slot).map(|tally| self.name(tally));
        let tally = self.all.charged.breakdown.as_ref()?;
        Some(breakdown::breakdown(tally, rows, |slot| name(slot).unwrap_or_default()))
    }

    fn writers(&self, rows: &RowMaker) -> Option<Writers> {
        let name = |slot: usize| self.all.devices.get(slot).map(|tally| self.name(tally));
        let tally = self.all.charged.writers.as_ref()?;
        Some(writers::writers(tally, rows, |slot| name(slot).unwrap_or_default()))
    }

    fn name(&self, tally: &DeviceTotals) -> String {
        match tally.name {
            Some(name) => self.names.get(name).to_owned(),
            None => "(further devices)".to_owned(),
        }
    }

    /// The slots that count for processes, files and origins, and their sums: requests submitted by
    /// anything but the block layer. Requests of upper devices count if none of these was watched;
    /// requests that the kernel issued on behalf of others count if there is nothing else.
    fn counted(&self) -> (Vec<bool>, ShareTotals) {
        let lower = |tally: &DeviceTotals| match tally.name {
            Some(_) => tally.lower > 0 && !self.is_below_watched(&self.name(tally)),
            None => false,
        };
        let layers = |tally: &DeviceTotals| [true, lower(tally), false, false];
        let mut counted: Vec<bool> = self.all.devices.iter().flat_map(layers).collect();
        let mut all = self.sum(&counted);
        if all.all().count + all.open.count == 0 {
            let helpers = counted.iter_mut().skip(RequestLayer::Helper as usize);
            helpers.step_by(DeviceLayer::LAYERS).for_each(|helper| *helper = true);
            all = self.sum(&counted);
        }
        (counted, ShareTotals::from_used(&all))
    }

    fn sum(&self, counted: &[bool]) -> Used {
        let counts = |device_layer: DeviceLayer| counted[device_layer.index()];
        sum(&fold(&self.all.charged.origins, counts, |origin| origin))
    }

    /// iowhy's own requests.
    fn own(&self, counted: &[bool]) -> Measure {
        let mut sum = Measure::default();
        let programs = self.all.charged.programs.rows().iter();
        let own = programs.filter(|row| is_own_name(Some(row.key.name), self.names));
        own.filter(|row| counted[row.device_layer.index()])
            .for_each(|row| sum.add(&row.used.all()));
        sum
    }

    /// Whether an upper device of `device` was watched.
    fn is_below_watched(&self, device: &str) -> bool {
        let stack = DeviceStack { devices: &self.environment.devices };
        let above = stack.above(device);
        let has_own = |tally: &DeviceTotals| tally.requests() > tally.lower;
        self.all.devices.iter().any(|tally| {
            let name = self.name(tally);
            match above.is_empty() {
                true => name != device && has_own(tally),
                false => above.contains(&name.as_str()),
            }
        })
    }

    fn watch(&self, counted: &[bool], whole: ShareTotals) -> WatchSummary {
        let Environment { cost, cpus, .. } = self.environment;
        let devices = &self.all.devices;
        let sum = |count: fn(&DeviceTotals) -> u64| {
            devices.iter().map(count).fold(0_u64, u64::saturating_add)
        };
        let own = self.own(counted);
        let hidden =
            devices.iter().zip(counted.chunks(DeviceLayer::LAYERS)).filter(|pair| !pair.1[1]);
        WatchSummary {
            duration_ns: self.window.duration_ns(),
            finished: self.environment.finished,
            requests: self.all.requests,
            open_requests: sum(DeviceTotals::open),
            begun_before_requests: sum(|tally| tally.begun_before),
            helper_requests: sum(|tally| tally.helpers),
            lower_requests: hidden.map(|(tally, _)| tally.lower).fold(0, u64::saturating_add),
            unlinked_requests: sum(DeviceTotals::unlinked_requests),
            lost_requests: self.environment.losses.requests(),
            left_out_requests: self.all.left_out.0,
            left_out_waits: self.all.left_out.1,
            time_ns: whole.time_ns,
            bytes: whole.bytes,
            own_requests: own.count,
            own_bytes: own.bytes,
            own_waits: self.all.own_waits,
            cost_share: cost.steady_share(self.window.duration_ns(), *cpus),
            start_cpu_ns: cost.start_cpu_ns,
        }
    }

    /// The devices to show, and the number of others.
    fn devices(&self, rows: &RowMaker) -> (Vec<DeviceSummary>, u64) {
        let tallies = self.all.devices.iter().enumerate();
        let mut devices: Vec<DeviceSummary> =
            tallies.map(|(index, tally)| self.device(index, tally, rows)).collect();
        devices.compact_sort_by(|a, b| {
            time_of(&b.origins).cmp(&time_of(&a.origins)).then_with(|| a.device.cmp(&b.device))
        });
        let mut idle = 0;
        for device in self.environment.devices.iter().filter(|device| device.partition_of.is_none())
        {
            if devices.iter().any(|shown| shown.device == device.name) {
                continue;
            }
            if self.is_worth_showing(device) {
                devices.push(self.counted_device(device));
            } else {
                idle += 1;
            }
        }
        (devices, idle)
    }

    /// Whether to show a device without records: one that hangs, one whose settings changed, and
    /// without any records (no privilege) each one with I/O.
    fn is_worth_showing(&self, device: &Device) -> bool {
        let unseen = self.all.requests == 0 && self.environment.filter.is_empty();
        let counters = kernel_counters::counters(device, self.window);
        let is_told_of = device.health_end.is_some() || !device.kernel_messages.is_empty();
        kernel_counters::is_hung(device, self.window)
            || changed_settings::has_changed(self.environment, device)
            || (unseen && counters.is_some_and(|counters| kernel_counters::is_used(&counters)))
            || (self.environment.is_imported() && is_told_of)
    }

    fn device(&self, index: usize, tally: &DeviceTotals, rows: &RowMaker) -> DeviceSummary {
        let name = self.name(tally);
        let known = self.environment.devices.iter().find(|device| device.name == name);
        let origins = rows.origins_of(index);
        let described = self.described(name, known);
        let users = rows.processes_of(index, DEVICE_USERS);
        DeviceSummary {
            major: tally.major,
            minor: tally.minor,
            directions: tally.directions(self.window),
            aqu_sz: tally.aqu_sz(self.window),
            in_flight_mean: self.in_flight_mean(tally, time_of(&origins)),
            util_share: tally
                .util_share(self.window)
                .or(described.kernel.and_then(|kernel| kernel.util_share)),
            busy_depth_mean: tally.busy_depth_mean(),
            begun_before_requests: tally.begun_before,
            open_requests: tally.open(),
            overtaken_requests: tally.overtaken,
            oldest_open_ns: tally.oldest_open(self.window),
            in_scheduler: tally.in_scheduler(),
            is_oldest_overdue: tally
                .oldest_open(self.window)
                .is_some_and(|age| age >= STALLED_NS && age > tally.longest_ns()),
            stalled_ns: described.stalled_ns.or(tally.stalled(self.window)),
            lower_requests: tally.lower,
            helper_requests: tally.helpers,
            unlinked: tally.unlinked(self.names),
            errors: tally.errors(),
            origins,
            processes: users.iter().take(DEVICE_ROWS).cloned().collect(),
            users,
            ..described
        }
    }

    /// Mean number of requests in flight: their time within the watch by its length. Requests in
    /// flight without a row are known by their age at both ends, if there are samples of it.
    fn in_flight_mean(&self, tally: &DeviceTotals, time_ns: u64) -> f64 {
        let grown = tally.name.and_then(|name| self.all.samples.change(Metric::UnderWayAge, name));
        let time_ns = match grown {
            Some(grown) => {
                (tally.within_ns as f64 + tally.before_ns as f64 + grown).max(0.0) as u64
            }
            None => time_ns,
        };
        self.window.share(time_ns).unwrap_or(0.0)
    }

    /// A device as the environment describes it, without requests.
    fn described(&self, name: String, known: Option<&Device>) -> DeviceSummary {
        let in_flight =
            |pair: Option<(u64, u64)>| pair.map(|(reads, writes)| reads.saturating_add(writes));
        let unknown = Device::default();
        let device = known.unwrap_or(&unknown);
        DeviceSummary {
            device: name,
            major: device.major,
            minor: device.minor,
            model: device.model.clone(),
            transport: device.transport.clone(),
            size_bytes: (device.bytes > 0).then_some(device.bytes),
            bio_based: device.bio_based,
            below: device.below.clone(),
            backing_file: device.backing_file.clone(),
            settings: device.settings_start.clone(),
            health_start: device.health_start.clone(),
            health_end: device.health_end.clone(),
            kernel_messages: device.kernel_messages.clone(),
            directions: ByDirection::<()>::default().map(|()| DirectionSummary::default()),
            aqu_sz: None,
            in_flight_mean: 0.0,
            util_share: None,
            busy_depth_mean: None,
            begun_before_requests: 0,
            open_requests: 0,
            kernel_in_flight_start: in_flight(device.in_flight_start),
            kernel_in_flight_end: in_flight(device.in_flight_end),
            overtaken_requests: 0,
            oldest_open_ns: None,
            is_oldest_overdue: false,
            in_scheduler: InScheduler::default(),
            stalled_ns: known
                .filter(|device| kernel_counters::is_hung(device, self.window))
                .map(|_| self.window.duration_ns()),
            lower_requests: 0,
            helper_requests: 0,
            unlinked: Vec::new(),
            errors: Vec::new(),
            origins: Vec::new(),
            processes: Vec::new(),
            users: Vec::new(),
            kernel: kernel_counters::counters(device, self.window),
            is_kernel_counted: false,
        }
    }

    /// A device without records: the kernel's counters.
    fn counted_device(&self, device: &Device) -> DeviceSummary {
        let described = self.described(device.name.clone(), Some(device));
        let Some(counters) = described.kernel else {
            // Of a drive's health or its messages alone no count is known.
            let is_kernel_counted = self.all.requests == 0;
            return DeviceSummary { is_kernel_counted, ..described };
        };
        DeviceSummary {
            directions: kernel_counters::directions(&counters, self.window),
            aqu_sz: counters.aqu_sz,
            in_flight_mean: counters.aqu_sz.unwrap_or(0.0),
            util_share: counters.util_share,
            is_kernel_counted: true,
            ..described
        }
    }
}

fn time_of<R>(rows: &[UsedRow<R>]) -> u64 {
    rows.iter().map(|row| &row.usage).map(Usage::all_time_ns).fold(0, u64::saturating_add)
}

/// Upper devices by lower device.
struct DeviceStack<'a> {
    devices: &'a [Device],
}

impl<'a> DeviceStack<'a> {
    /// Every upper device of `device`, direct or indirect.
    fn above(&self, device: &str) -> Vec<&'a str> {
        let mut above: Vec<&str> = Vec::new();
        loop {
            let found = self.devices.iter().filter(|upper| {
                let stands_on = |lower: &String| {
                    let disk = self.disk(lower);
                    disk == device || above.contains(&disk)
                };
                !above.contains(&upper.name.as_str()) && upper.below.iter().any(stands_on)
            });
            let found: Vec<&str> = found.map(|upper| upper.name.as_str()).collect();
            if found.is_empty() {
                return above;
            }
            above.extend(found);
        }
    }

    /// The whole disk that `name` is, or is a partition of.
    fn disk<'b>(&'b self, name: &'b str) -> &'b str {
        let partition = self.devices.iter().find(|device| device.name == name);
        partition.and_then(|device| device.partition_of.as_deref()).unwrap_or(name)
    }
}
