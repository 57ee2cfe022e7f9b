//! The pass over a source.

use super::cells::{self, CellKey, CellSums, Cells, NO_LATENCY};
use super::flames::{FlameKey, FlameStacks, FlameTally};
use super::points::{Choice, ChosenRequest, ChosenRequests};
use super::{ChartKind, ChartLayer, ChartOwner, Charts};
use crate::summary::Measure;
use crate::sums::device_layer::RequestLayer;
use crate::sums::own_io::is_own_name;
use crate::sums::request_times::{Life, Stand};
use crate::sums::row_consumers::BatchConsumer;
use crate::sums::slots::{Slots, largest, renumbered};
use crate::sums::wait_parts::parts_of;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Operation, Origin, Request, RequestPart, Wait};
use rustc_hash::FxHashMap;

/// Columns of time: when they are used up, each two become one.
const COLUMNS: u64 = 1_200;
/// The first width of a column where the end of the watch is not known, nanoseconds.
const FIRST_WIDTH: u64 = 1 << 18;
/// Numbers of devices, owners, files and kinds while a source is read.
const SLOTS: (usize, usize, usize, usize) = (63, 1_000, 8_000, 200);
/// Owners and files that a result distinguishes.
const LISTED: (usize, usize) = (60, 100);
/// Owners and files that it distinguishes where there would be too many cells.
const LEAST_LISTED: u16 = 8;
/// Cells of each sort that a result should have at most.
const MOST_CELLS: usize = 50_000;
/// Columns that a result has at least, unless the fewest owners and files still need too many
/// cells.
const LEAST_COLUMNS: u64 = 150;
/// Columns that a result then has at least, unless it has more than twice [`MOST_CELLS`].
const FEWEST_COLUMNS: u64 = 40;
/// Time of a column for each request that a recorded one stands for, nanoseconds: four windows of
/// 4 ms, so that even a single CPU has recorded some of them.
const WINDOWS_NS: u64 = 16_000_000;
/// Columns become no wider because of that, nanoseconds.
const WIDEST_FOR_WINDOWS_NS: u64 = 1_000_000_000;
/// Processes whose container is kept.
const MOST_PROCESSES: usize = 1 << 16;

/// Makes [`Charts`] of the batches of one source, in bounded memory.
#[derive(Clone, Debug)]
pub struct ChartTally {
    start_ns: u64,
    latest_ns: u64,
    column_ns: u64,
    devices: Slots<Option<Name>>,
    owners: Slots<ChartOwner>,
    files: Slots<Option<Name>>,
    kinds: Slots<ChartKind>,
    containers: FxHashMap<u32, Name>,
    requests: Cells,
    in_flight: Cells,
    waits: Cells,
    choice: Choice,
    all_requests: u64,
    /// Requests without an end, when they began and how many each stands for: how long they were
    /// in flight is known once the watch has ended.
    open: Vec<(u64, u64, CellKey)>,
    open_requests: u64,
    is_estimated: bool,
    stacks: FlameStacks,
    blocked_flames: FlameTally,
    request_flames: FlameTally,
}

/// From here on a sector is none: a request without one has the largest number.
const NO_SECTOR: u64 = 1 << 44;
/// Open requests of which it is kept when they began.
const MOST_OPEN: usize = 1 << 14;

impl BatchConsumer for ChartTally {
    fn take(&mut self, batch: &Batch, names: &Names) {
        self.add(batch, names);
    }
}

impl ChartTally {
    /// Nothing yet, of a watch that began with `environment`.
    pub fn new(environment: &Environment) -> ChartTally {
        let (devices, owners, files, kinds) = SLOTS;
        ChartTally {
            start_ns: environment.start_ns,
            latest_ns: 0,
            column_ns: first_width(environment),
            devices: Slots::new(devices),
            owners: Slots::new(owners),
            files: Slots::new(files),
            kinds: Slots::new(kinds),
            containers: FxHashMap::default(),
            requests: Cells::default(),
            in_flight: Cells::default(),
            waits: Cells::default(),
            choice: Choice::new(),
            all_requests: 0,
            open: Vec::new(),
            open_requests: 0,
            is_estimated: false,
            stacks: FlameStacks::default(),
            blocked_flames: FlameTally::default(),
            request_flames: FlameTally::default(),
        }
    }

    /// Adds rows, whose texts are in `names`: the same table for every batch and the end.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        if self.start_ns == 0 {
            let first = batch.requests.iter().map(|request| request.start_ns).min();
            self.start_ns = first.unwrap_or(0);
        }
        batch.stacks.iter().for_each(|stack| self.stacks.add(stack, names));
        for process in &batch.processes {
            if let Some(container) = process.container
                && self.containers.len() < MOST_PROCESSES
            {
                self.containers.insert(process.pid, container);
            }
        }
        for (request, parts) in batch.requests_with_parts() {
            self.request(request, parts, names);
        }
        for wait in &batch.waits {
            if !wait.kernel_thread && !is_own_name(wait.process, names) {
                self.wait(wait);
            }
        }
        while self.requests.is_full() || self.in_flight.is_full() || self.waits.is_full() {
            self.coarsen();
        }
        for flames in [&mut self.blocked_flames, &mut self.request_flames] {
            flames.make_room();
        }
    }

    fn request(&mut self, request: &Request, parts: &[RequestPart], names: &Names) {
        self.all_requests += 1;
        let (life, times) = (Life::from_request(request), request.stands_for());
        self.widen(times);
        let main = parts.iter().rev().max_by_key(|part| part.bytes);
        let kind = ChartKind {
            operation: request.operation,
            origin: request.origin,
            layer: match RequestLayer::for_request(request, names) {
                RequestLayer::Top => ChartLayer::Top,
                RequestLayer::Lower => ChartLayer::Lower,
                RequestLayer::Helper => ChartLayer::Helper,
            },
        };
        let mut key = CellKey {
            column: 0,
            device: self.devices.of(Some(request.device)),
            owner: self.owner(request, main),
            file: self.files.of(main.and_then(|part| part.file)),
            kind: self.kinds.of(kind) as u8,
            latency: NO_LATENCY,
            size: 0,
        };
        let time_ns = life.whole_ns.unwrap_or(0);
        let start_ns = life.queued_ns.saturating_sub(self.start_ns);
        self.choose(request, main, &key, &life, start_ns);
        if life.stand == Stand::Open {
            self.open_requests += times;
            if self.open.len() < MOST_OPEN {
                self.open.push((start_ns, times, key));
            }
            return;
        }
        let end_ns = life.ended_ns().saturating_sub(self.start_ns);
        self.spread(start_ns, end_ns, times, key);
        key.column = self.column(end_ns);
        if kind.layer == ChartLayer::Top {
            self.flame(request, &key, time_ns);
        }
        key.size = if request.bytes == 0 { 0 } else { request.bytes.ilog2() as u8 };
        if life.stand == Stand::Whole && life.whole_ns.is_some() {
            key.latency = cells::bin_of(time_ns);
        }
        self.requests.add(key, &CellSums::for_request(request, time_ns));
    }

    /// Makes columns wide enough for several windows of which one in `times` was recorded: else
    /// those without any look like pauses.
    #[inline]
    fn widen(&mut self, times: u64) {
        if times > 1 {
            self.is_estimated = true;
            let least_ns = WINDOWS_NS.saturating_mul(times).min(WIDEST_FOR_WINDOWS_NS);
            while self.column_ns < least_ns {
                self.widen_columns();
                self.blocked_flames.keep_width();
                self.request_flames.keep_width();
            }
        }
    }

    fn owner(&mut self, request: &Request, main: Option<&RequestPart>) -> u16 {
        let part = main.filter(|part| part.owner.is_some());
        let process = part.map_or(request.process, |part| part.owner);
        let pid = part.map_or(request.pid, |part| part.owner_pid);
        let container = match pid == request.pid {
            true => request.container,
            false => pid.and_then(|pid| self.containers.get(&pid).copied()),
        };
        self.owners.of(ChartOwner { process, container })
    }

    fn choose(
        &mut self,
        request: &Request,
        main: Option<&RequestPart>,
        key: &CellKey,
        life: &Life,
        start_ns: u64,
    ) {
        let chosen = ChosenRequest {
            sequence: self.all_requests,
            start_ns,
            time_ns: life.whole_ns,
            stages: request.stages_ns(),
            device: key.device,
            owner: key.owner,
            file: key.file,
            kind: key.kind,
            bytes: request.bytes,
            offset: if request.sector < NO_SECTOR { request.sector * 512 } else { 0 },
            file_offset: main.and_then(|part| part.file_offset),
            pid: request.pid.unwrap_or(0),
            cpu: request.cpu,
            stands_for: request.stands_for() as f64,
        };
        self.choice.add(&chosen, life.stand == Stand::Whole);
    }

    fn flame(&mut self, request: &Request, key: &CellKey, time_ns: u64) {
        if request.stack_weight == 0 {
            return;
        }
        let flame = FlameKey {
            process: request.process,
            device: key.device,
            owner: key.owner,
            file: key.file,
            kind: key.kind,
            column: key.column / self.request_flames.every(),
            kernel: request.stack_id,
            user: request.user_stack_id,
        };
        // A stack stands for recorded requests, each of which stands for all that it does.
        let weight = u64::from(request.stack_weight).saturating_mul(request.stands_for());
        self.request_flames.add(flame, time_ns.saturating_mul(weight));
    }

    fn wait(&mut self, wait: &Wait) {
        let key = CellKey {
            column: 0,
            device: self.devices.of(wait.device),
            owner: self.owners.of(ChartOwner { process: wait.process, container: wait.container }),
            file: self.files.of(wait.file),
            kind: 0,
            latency: NO_LATENCY,
            size: 0,
        };
        let times = wait.stands_for();
        self.widen(times);
        self.blocked_flame(wait, &key, times);
        // In which order the parts of a wait came is not in the data: the class first, since a
        // thread waits for its requests behind whatever kept it from submitting them.
        let mut begin = wait.start_ns.saturating_sub(self.start_ns);
        let mut parts: Vec<_> = parts_of(wait).collect();
        // A wait of no length has no parts.
        let last = parts.len().min(1);
        parts.rotate_right(last);
        for (class, time_ns) in parts {
            let end = begin.saturating_add(time_ns);
            self.spread_waits(begin, end, times, CellKey { kind: class as u8, ..key });
            begin = end;
        }
    }

    fn blocked_flame(&mut self, wait: &Wait, key: &CellKey, times: u64) {
        let flame = FlameKey {
            process: wait.process,
            device: key.device,
            owner: key.owner,
            file: key.file,
            kind: 0,
            column: 0,
            kernel: wait.stack_id,
            user: wait.user_stack_id,
        };
        let begin = wait.start_ns.saturating_sub(self.start_ns);
        let end = begin.saturating_add(wait.duration_ns);
        let (last, every) = (self.column(end), self.blocked_flames.every());
        let width_ns = self.column_ns.saturating_mul(every.into());
        each_column(begin, end, last / every, width_ns, |column, time_ns| {
            self.blocked_flames.add(FlameKey { column, ..flame }, time_ns.saturating_mul(times));
        });
    }

    /// The column of a time; all columns are made wider until there is one.
    #[inline]
    fn column(&mut self, time_ns: u64) -> u16 {
        self.latest_ns = self.latest_ns.max(time_ns);
        while time_ns / self.column_ns >= COLUMNS {
            self.coarsen();
        }
        (time_ns / self.column_ns) as u16
    }

    fn coarsen(&mut self) {
        self.widen_columns();
        self.blocked_flames.halve();
        self.request_flames.halve();
    }

    fn widen_columns(&mut self) {
        self.column_ns = self.column_ns.saturating_mul(2);
        for cells in [&mut self.requests, &mut self.in_flight, &mut self.waits] {
            cells.rekey(|key| CellKey { column: key.column / 2, ..key });
        }
    }

    /// Adds the time in flight to each column that it lies in.
    #[inline]
    fn spread(&mut self, begin_ns: u64, end_ns: u64, times: u64, key: CellKey) {
        let last = self.column(end_ns);
        each_column(begin_ns, end_ns, last, self.column_ns, |column, time_ns| {
            let measure = Measure { time_ns, ..Measure::default() }.times(times);
            self.in_flight.add(CellKey { column, ..key }, &CellSums::from_measure(measure));
        });
    }

    fn spread_waits(&mut self, begin_ns: u64, end_ns: u64, times: u64, key: CellKey) {
        let last = self.column(end_ns);
        let mut count = 1;
        each_column(begin_ns, end_ns, last, self.column_ns, |column, time_ns| {
            let measure = Measure { count, time_ns, ..Measure::default() }.times(times);
            self.waits.add(CellKey { column, ..key }, &CellSums::from_measure(measure));
            count = 0;
        });
    }

    /// The charts of all that was added.
    pub fn finish(mut self, environment: &Environment, names: &Names) -> Charts {
        let end_ns = environment.end_ns.saturating_sub(self.start_ns).max(self.latest_ns);
        for (begin_ns, times, key) in std::mem::take(&mut self.open) {
            self.spread(begin_ns, end_ns.max(begin_ns), times, key);
        }
        for cells in [&mut self.requests, &mut self.in_flight, &mut self.waits] {
            cells.settle();
        }
        // Devices stay in the order of first sight.
        let devices: Vec<u16> = (0..self.devices.numbers() as u16).collect();
        let mut owners = largest(&self.weights(|key| key.owner, self.owners.numbers()), LISTED.0);
        let mut files = largest(&self.weights(|key| key.file, self.files.numbers()), LISTED.1);
        self.rename(&owners, &files);
        self.fit();
        self.narrow(&mut owners, &mut files);
        let chosen = renamed(self.choice.finish(), &owners, &files);
        let listed = |numbers: &[u16]| numbers.iter().copied().max().unwrap_or(0);
        let mut owner_list = vec![None; usize::from(listed(&owners)) + 1];
        let mut file_list = vec![None; usize::from(listed(&files)) + 1];
        // The last one stands for all further ones, whichever came to it.
        for (old, new) in owners.iter().enumerate().filter(|(_, new)| **new < listed(&owners)) {
            owner_list[usize::from(*new)] = self.owners.get(old as u16);
        }
        for (old, new) in files.iter().enumerate().filter(|(_, new)| **new < listed(&files)) {
            file_list[usize::from(*new)] = self.files.get(old as u16).flatten();
        }
        let left_out = self.requests.left_out;
        let blank = ChartKind {
            operation: Operation::Other,
            origin: Origin::Unknown,
            layer: ChartLayer::Top,
        };
        Charts {
            start_ns: self.start_ns,
            length_ns: end_ns,
            column_ns: self.column_ns,
            devices: devices.iter().map(|slot| self.devices.get(*slot).flatten()).collect(),
            owners: owner_list,
            files: file_list,
            kinds: (0..self.kinds.numbers() as u16)
                .map(|slot| self.kinds.get(slot).unwrap_or(blank))
                .collect(),
            requests: self.requests.finish(),
            in_flight: self.in_flight.finish(),
            waits: self.waits.finish(),
            counted: Vec::new(),
            chosen,
            all_requests: self.all_requests,
            open_requests: self.open_requests,
            is_estimated: self.is_estimated,
            left_out,
            blocked_flames: self.blocked_flames.finish(&self.stacks, names, &owners, &files),
            request_flames: self.request_flames.finish(&self.stacks, names, &owners, &files),
        }
    }

    /// The time of each number of one axis.
    fn weights(&self, number: impl Fn(&CellKey) -> u16, numbers: usize) -> Vec<u64> {
        let mut weights = vec![0_u64; numbers];
        let all = self.requests.iter().chain(self.in_flight.iter()).chain(self.waits.iter());
        for (key, sums) in all {
            if let Some(weight) = weights.get_mut(usize::from(number(key))) {
                let Measure { count, time_ns, .. } = sums.measure;
                *weight = weight.saturating_add(time_ns).saturating_add(count);
            }
        }
        weights
    }

    fn rename(&mut self, owners: &[u16], files: &[u16]) {
        for cells in [&mut self.requests, &mut self.in_flight, &mut self.waits] {
            cells.rekey(|key| CellKey {
                owner: renumbered(owners, key.owner),
                file: renumbered(files, key.file),
                ..key
            });
        }
    }

    /// The cells of the sort that has the most.
    fn cells(&self) -> usize {
        self.requests.len().max(self.in_flight.len()).max(self.waits.len())
    }

    /// Makes columns wider until there are few enough cells.
    fn fit(&mut self) {
        while self.cells() > MOST_CELLS && self.latest_ns / self.column_ns > 2 * LEAST_COLUMNS {
            self.coarsen();
        }
    }

    /// The fewest columns: with twice as many cells as there should be, time is what goes.
    fn fewest_columns(&self) -> u64 {
        if self.cells() > 2 * MOST_CELLS { 1 } else { FEWEST_COLUMNS }
    }

    /// Lists fewer files and owners where columns are as wide as they should be at most, and there
    /// are still too many cells; then makes columns wider. Numbers are by rank, so that the last
    /// half of a list becomes one with the last.
    fn narrow(&mut self, owners: &mut [u16], files: &mut [u16]) {
        let last = |numbers: &[u16]| numbers.iter().copied().max().unwrap_or(0);
        while self.cells() > MOST_CELLS {
            let (most_owners, most_files) = (last(owners) / 2, last(files) / 2);
            let shorten = |numbers: &mut [u16], most: u16| {
                numbers.iter_mut().for_each(|number| *number = (*number).min(most));
            };
            if most_files >= LEAST_LISTED {
                shorten(files, most_files);
            } else if most_owners >= LEAST_LISTED {
                shorten(owners, most_owners);
            } else if self.latest_ns / self.column_ns > self.fewest_columns() {
                self.coarsen();
                continue;
            } else {
                return;
            }
            let (owner, file) = (last(owners), last(files));
            for cells in [&mut self.requests, &mut self.in_flight, &mut self.waits] {
                cells.rekey(|key| CellKey {
                    owner: key.owner.min(owner),
                    file: key.file.min(file),
                    ..key
                });
            }
        }
    }
}

/// The width of columns at first: that of the end, if the end of the watch is known.
fn first_width(environment: &Environment) -> u64 {
    let length_ns = environment.end_ns.saturating_sub(environment.start_ns);
    let mut width_ns = FIRST_WIDTH;
    while length_ns / width_ns >= COLUMNS {
        width_ns *= 2;
    }
    width_ns
}

fn renamed(chosen: ChosenRequests, owners: &[u16], files: &[u16]) -> ChosenRequests {
    let one = |chosen_request: ChosenRequest| ChosenRequest {
        owner: renumbered(owners, chosen_request.owner),
        file: renumbered(files, chosen_request.file),
        ..chosen_request
    };
    ChosenRequests {
        by_chance: chosen.by_chance.into_iter().map(one).collect(),
        slowest: chosen.slowest.into_iter().map(one).collect(),
        of: chosen.of,
    }
}

/// Gives each column from `begin_ns` to the `last` one, where `end_ns` lies, and the time in it.
#[inline]
fn each_column(
    begin_ns: u64,
    end_ns: u64,
    last: u16,
    column_ns: u64,
    mut each: impl FnMut(u16, u64),
) {
    let first = ((begin_ns / column_ns) as u16).min(last);
    if first == last {
        return each(last, end_ns.saturating_sub(begin_ns));
    }
    let edge = |column: u16| u64::from(column) * column_ns;
    each(first, edge(first + 1).saturating_sub(begin_ns));
    for column in first + 1..last {
        each(column, column_ns);
    }
    if end_ns > edge(last) {
        each(last, end_ns - edge(last));
    }
}
