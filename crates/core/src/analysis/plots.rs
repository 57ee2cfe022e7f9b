//! Data of plots: counts by latency and by time, and offsets of requests on the device. One pass
//! and bounded memory, for any number of requests and any length of the watch.
//!
//! What does not belong here: drawing.

use super::axes::Direction;
use super::latency::Latencies;
use super::life::{Life, Stand};
use crate::model::{Environment, Name, Names, Request};
use crate::source::Batch;

/// Maximum number of devices, in order of first occurrence; requests of others are counted.
pub const MAX_DEVICES: usize = 32;
/// Maximum number of time columns; beyond it pairs are merged.
const COLUMNS: usize = 512;
/// The first width of a column, nanoseconds.
const FIRST_WIDTH: u64 = 1_000_000;
/// Latency bins per power of two.
const PER_OCTAVE: usize = 8;
/// Octaves of latency from 1 ns; longer times (18 minutes) are in the last bin.
const OCTAVES: usize = 40;
/// Latency bins.
const BINS: usize = PER_OCTAVE * OCTAVES;
/// Maximum number of points per device and direction; of more, a random sample of this size is
/// drawn.
const POINTS: usize = 6_000;

/// The two directions that are drawn.
pub const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

/// Requests, bytes and latencies in a column of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotColumn {
    /// Requests that completed, by direction.
    pub requests: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// Requests by latency: bin and count, by bin.
    pub latencies: Vec<(u16, u32)>,
}

impl PlotColumn {
    fn add(&mut self, direction: usize, bytes: u64, bin: usize, times: u64) {
        self.requests[direction] += times;
        let bytes = bytes.saturating_mul(times);
        self.bytes[direction] = self.bytes[direction].saturating_add(bytes);
        self.count(bin as u16, u32::try_from(times).unwrap_or(u32::MAX));
    }

    fn count(&mut self, bin: u16, count: u32) {
        match self.latencies.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(at) => self.latencies[at].1 = self.latencies[at].1.saturating_add(count),
            Err(at) => self.latencies.insert(at, (bin, count)),
        }
    }

    fn absorb(&mut self, other: PlotColumn) {
        for direction in 0..DIRECTIONS.len() {
            self.requests[direction] += other.requests[direction];
            self.bytes[direction] = self.bytes[direction].saturating_add(other.bytes[direction]);
        }
        other.latencies.into_iter().for_each(|(bin, count)| self.count(bin, count));
    }
}

/// A request as a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When it was queued, nanoseconds after the beginning.
    pub time_ns: u64,
    /// Its offset on the device, bytes.
    pub offset: u64,
}

/// Points of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// All of them, or a sample if there are more than can be drawn.
    pub points: Vec<Point>,
    /// Their total number.
    pub all: u64,
}

/// The data of one device.
#[derive(Clone, Debug)]
pub struct DevicePlots {
    name: Name,
    /// The device's name.
    pub device: String,
    /// Requests by latency bin, by direction.
    pub histogram: [Vec<u64>; 2],
    /// Latency by direction: percentiles are those of other views.
    pub latencies: [Latencies; 2],
    /// Columns of time, [`Plots::column_ns`] wide each.
    pub columns: Vec<PlotColumn>,
    /// Offsets of reads and writes.
    pub offsets: [Points; 2],
}

impl DevicePlots {
    /// Merges columns into at most `count` of the same width, and returns that width.
    pub fn in_columns(&self, column_ns: u64, length_ns: u64, count: u64) -> (Vec<PlotColumn>, u64) {
        let needed = length_ns.div_ceil(column_ns.max(1)).max(self.columns.len() as u64);
        let together = needed.div_ceil(count.max(1)).max(1);
        let mut wide = vec![PlotColumn::default(); needed.div_ceil(together).max(1) as usize];
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(into) = wide.get_mut(index / together as usize) {
                into.absorb(column.clone());
            }
        }
        (wide, column_ns.saturating_mul(together))
    }
}

/// The data of a plot.
#[derive(Clone, Debug)]
pub struct Plots {
    /// When the first column begins, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// How wide a column is.
    pub column_ns: u64,
    /// The end of the watch, or the last completion if that is later; ns after the beginning.
    pub length_ns: u64,
    /// By device, the busiest first once finished.
    pub devices: Vec<DevicePlots>,
    /// Censored reads and writes, whose latency is not known.
    pub censored: u64,
    /// Reads and writes of devices beyond [`MAX_DEVICES`].
    pub left_out: u64,
    random: u64,
}

/// The beginning of a latency bin, nanoseconds.
pub fn bin_from_ns(bin: usize) -> f64 {
    (bin as f64 / PER_OCTAVE as f64).exp2()
}

fn bin_of(nanoseconds: u64) -> usize {
    let bin = (nanoseconds.max(1) as f64).log2() * PER_OCTAVE as f64;
    (bin as usize).min(BINS - 1)
}

impl Plots {
    /// Empty data of a watch with `environment`.
    pub fn new(environment: &Environment) -> Plots {
        Plots {
            start_ns: environment.start_ns,
            column_ns: FIRST_WIDTH,
            length_ns: 0,
            devices: Vec::new(),
            censored: 0,
            left_out: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Adds rows.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        if self.start_ns == 0 {
            let first = batch.requests.iter().map(|request| request.start_ns).min();
            self.start_ns = first.unwrap_or(0);
        }
        batch.requests.iter().for_each(|request| self.request(request, names));
    }

    fn request(&mut self, request: &Request, names: &Names) {
        let direction = Direction::from(request.operation);
        let Some(direction) = DIRECTIONS.iter().position(|one| *one == direction) else { return };
        let Some(device) = self.device(request.device, names) else {
            self.left_out += 1;
            return;
        };
        let life = Life::of(request);
        let time_ns = life.queued_ns.saturating_sub(self.start_ns);
        let point = Point { time_ns, offset: request.sector.saturating_mul(512) };
        self.point(device, direction, point);
        let (Stand::Whole, Some(whole)) = (life.stand, life.whole_ns) else {
            self.censored += request.stands_for();
            return;
        };
        let ended = life.ended_ns().saturating_sub(self.start_ns);
        let column = self.column(ended);
        let bin = bin_of(whole);
        let device = &mut self.devices[device];
        let times = request.stands_for();
        device.histogram[direction][bin] += times;
        device.latencies[direction].record_many(whole, times);
        if device.columns.len() <= column {
            device.columns.resize(column + 1, PlotColumn::default());
        }
        device.columns[column].add(direction, request.bytes, bin, times);
    }

    fn device(&mut self, name: Name, names: &Names) -> Option<usize> {
        let known = self.devices.iter().position(|device| device.name == name);
        if known.is_some() || self.devices.len() >= MAX_DEVICES {
            return known;
        }
        self.devices.push(DevicePlots {
            name,
            device: names.get(name).to_owned(),
            histogram: [vec![0; BINS], vec![0; BINS]],
            latencies: Default::default(),
            columns: Vec::new(),
            offsets: [Points::default(), Points::default()],
        });
        Some(self.devices.len() - 1)
    }

    /// The column of a time; columns are merged until it fits.
    fn column(&mut self, time_ns: u64) -> usize {
        self.length_ns = self.length_ns.max(time_ns);
        while time_ns / self.column_ns >= COLUMNS as u64 {
            self.column_ns = self.column_ns.saturating_mul(2);
            self.devices.iter_mut().for_each(|device| halve(&mut device.columns));
        }
        (time_ns / self.column_ns) as usize
    }

    /// Every point is kept with the same probability (Vitter's algorithm R).
    fn point(&mut self, device: usize, direction: usize, point: Point) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let points = &mut self.devices[device].offsets[direction];
        points.all += 1;
        if points.points.len() < POINTS {
            points.points.push(point);
        } else if let Some(slot) = points.points.get_mut((self.random % points.all) as usize) {
            *slot = point;
        }
    }

    /// Puts the busiest devices first, and sets the end of the time axis.
    pub fn finish(mut self, environment: &Environment) -> Plots {
        let watched = environment.end_ns.saturating_sub(self.start_ns);
        self.length_ns = self.length_ns.max(watched);
        self.devices.sort_by_key(|device| {
            let all: u64 = device.offsets.iter().map(|points| points.all).sum();
            std::cmp::Reverse(all)
        });
        self
    }
}

fn halve(columns: &mut Vec<PlotColumn>) {
    let mut wide: Vec<PlotColumn> = Vec::with_capacity(COLUMNS / 2);
    for (index, column) in columns.drain(..).enumerate() {
        match wide.last_mut().filter(|_| index % 2 == 1) {
            Some(last) => last.absorb(column),
            None => wide.push(column),
        }
    }
    *columns = wide;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Operation;
    use crate::script::Script;

    fn plots(script: &Script) -> Plots {
        let mut plots = Plots::new(&script.environment);
        plots.add(&script.batch, &script.names);
        plots.finish(&script.environment)
    }

    #[test]
    fn every_request_is_in_one_column_and_one_bin() {
        let mut script = Script::new(3600);
        for number in 0..20_000_i64 {
            let at = number * 170_000_000;
            script
                .read("sda", 4096)
                .sector(number as u64)
                .at(at)
                .bio(100_000 + number as u64)
                .add();
        }
        script.write("sdb", 512).at(5).bio(1).add();
        script.request("sdb", Operation::Flush).at(5).bio(1).add();
        let plots = plots(&script);
        let [first, second] = &plots.devices[..] else { panic!("two devices") };
        assert_eq!((first.device.as_str(), second.device.as_str()), ("sda", "sdb"));
        assert_eq!(first.histogram[0].iter().sum::<u64>(), 20_000);
        assert!(first.columns.len() <= COLUMNS && first.columns.len() > COLUMNS / 4);
        assert_eq!(first.columns.iter().map(|column| column.requests[0]).sum::<u64>(), 20_000);
        let in_bins = first.columns.iter().flat_map(|column| &column.latencies);
        assert_eq!(in_bins.map(|(_, count)| u64::from(*count)).sum::<u64>(), 20_000);
        assert_eq!((first.offsets[0].all, first.offsets[0].points.len()), (20_000, POINTS));
        assert_eq!(second.histogram[1][0], 1);
        assert_eq!(plots.length_ns, 3_600_000_000_000);
    }

    #[test]
    fn a_latency_lies_in_its_bin() {
        for latency in [1, 2, 3, 1_000, 999_999, 1 << 39, u64::MAX] {
            let bin = bin_of(latency);
            assert!(bin_from_ns(bin) <= latency as f64 * 1.000_001, "{latency}");
            assert!(bin == BINS - 1 || bin_from_ns(bin + 1) > latency as f64 * 0.999_999);
        }
    }
}
