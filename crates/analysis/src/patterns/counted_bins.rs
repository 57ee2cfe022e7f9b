//! The bins of a device's timeline, scaled to what the kernel counted in each: recorded windows are
//! few, and more of them may lie in one bin than in the next.
//!
//! What does not belong here: bins of programs, which only rows have (see [`super::owners`]).

use crate::summary::patterns::Bin;
use crate::summary::{ByDirection, Direction};
use crate::sums::counter_curve::CountedOverTime;

/// Requests, bytes and times of the reads or the writes of a bin.
#[derive(Clone, Copy, Default)]
struct BinPart {
    requests: u64,
    bytes: u64,
    d2c_ns: u64,
    q2c_ns: u64,
}

impl BinPart {
    fn reads(bin: &Bin) -> BinPart {
        let (d2c_ns, q2c_ns) = (bin.read_d2c_ns, bin.read_q2c_ns);
        BinPart { requests: bin.reads, bytes: bin.read_bytes, d2c_ns, q2c_ns }
    }

    /// With the time of flushes and discards, which have no sum of their own.
    fn writes(bin: &Bin) -> BinPart {
        BinPart {
            requests: bin.writes,
            bytes: bin.write_bytes,
            d2c_ns: bin.d2c_ns.saturating_sub(bin.read_d2c_ns),
            q2c_ns: bin.q2c_ns.saturating_sub(bin.read_q2c_ns),
        }
    }

    fn add(&mut self, other: BinPart) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.d2c_ns = self.d2c_ns.saturating_add(other.d2c_ns);
        self.q2c_ns = self.q2c_ns.saturating_add(other.q2c_ns);
    }

    /// Its share of what was counted while `group` was recorded; an even one, of which each request
    /// takes as long as usual, where nothing was.
    fn counted(self, counted: (f64, f64), group: (BinPart, usize), usual: BinPart) -> BinPart {
        let (recorded, bins) = group;
        if recorded.requests == 0 {
            let requests = counted.0 / bins.max(1) as f64;
            let each = requests / usual.requests.max(1) as f64;
            return BinPart {
                requests: requests.round() as u64,
                bytes: (counted.1 / bins.max(1) as f64).round() as u64,
                d2c_ns: scaled(usual.d2c_ns, each),
                q2c_ns: scaled(usual.q2c_ns, each),
            };
        }
        let requests = counted.0 / recorded.requests as f64;
        let bytes = counted.1 / recorded.bytes.max(1) as f64;
        BinPart {
            requests: scaled(self.requests, requests),
            bytes: scaled(self.bytes, bytes),
            d2c_ns: scaled(self.d2c_ns, requests),
            q2c_ns: scaled(self.q2c_ns, requests),
        }
    }
}

fn scaled(value: u64, ratio: f64) -> u64 {
    (value as f64 * ratio).round() as u64
}

fn sum(bins: &[Bin], part: fn(&Bin) -> BinPart) -> BinPart {
    let mut sum = BinPart::default();
    bins.iter().for_each(|bin| sum.add(part(bin)));
    sum
}

/// Scales `bins` of `bin_ns`, of which the first begins at `origin_ns`: those between two readings
/// of the counters add up to what was counted. Returns the ratio of each bin's bytes.
pub(super) fn scale(
    bins: &mut [Bin],
    (origin_ns, bin_ns): (u64, u64),
    counted: &ByDirection<Option<CountedOverTime>>,
) -> Vec<f64> {
    let before: Vec<u64> = bins.iter().map(|bin| bin.bytes).collect();
    type Part = (Direction, fn(&Bin) -> BinPart, fn(&mut Bin, BinPart, BinPart));
    let parts: [Part; 2] = [
        (Direction::Read, BinPart::reads, replace_reads),
        (Direction::Write, BinPart::writes, replace_writes),
    ];
    for (direction, part, replace) in parts {
        let Some(curve) = &counted[direction] else { continue };
        let usual = sum(bins, part);
        let count = (curve.step_ns().div_ceil(bin_ns.max(1)) as usize).max(1);
        let length_ns = (count as u64).saturating_mul(bin_ns);
        let mut from_ns = origin_ns;
        for group in bins.chunks_mut(count) {
            let to_ns = from_ns.saturating_add(length_ns);
            let now = curve.between(from_ns, to_ns.min(from_ns + group.len() as u64 * bin_ns));
            let recorded = (sum(group, part), group.len());
            for bin in group {
                let old = part(bin);
                replace(bin, old, old.counted(now, recorded, usual));
            }
            from_ns = to_ns;
        }
    }
    let ratio = |(bin, before): (&Bin, u64)| {
        if before > 0 { bin.bytes as f64 / before as f64 } else { 1.0 }
    };
    bins.iter().zip(before).map(ratio).collect()
}

/// Takes `old` out of a bin and puts `new` in.
fn replace(bin: &mut Bin, old: BinPart, new: BinPart) {
    let change =
        |sum: &mut u64, old: u64, new: u64| *sum = sum.saturating_sub(old).saturating_add(new);
    let time_ns = bin.d2c_ns;
    change(&mut bin.requests, old.requests, new.requests);
    change(&mut bin.bytes, old.bytes, new.bytes);
    change(&mut bin.d2c_ns, old.d2c_ns, new.d2c_ns);
    change(&mut bin.q2c_ns, old.q2c_ns, new.q2c_ns);
    if time_ns > 0 {
        bin.held_byte_us = scaled(bin.held_byte_us, bin.d2c_ns as f64 / time_ns as f64);
    }
}

fn replace_reads(bin: &mut Bin, old: BinPart, new: BinPart) {
    replace(bin, old, new);
    (bin.reads, bin.read_bytes) = (new.requests, new.bytes);
    (bin.read_d2c_ns, bin.read_q2c_ns) = (new.d2c_ns, new.q2c_ns);
}

fn replace_writes(bin: &mut Bin, old: BinPart, new: BinPart) {
    replace(bin, old, new);
    if old.bytes > 0 {
        bin.writeback_bytes = scaled(bin.writeback_bytes, new.bytes as f64 / old.bytes as f64);
    }
    (bin.writes, bin.write_bytes) = (new.requests, new.bytes);
}
