//! The kernel's own counters of a device, from /proc/diskstats and /sys/block/NAME/stat.

use super::totals::merged_share;
use crate::summary::{
    ByDirection, Direction, DirectionSummary, KernelCounters, KernelDirection, PartialDirection,
};
use crate::sums::watch_window::WatchWindow;
use iowhy_model::Operation;
use iowhy_model::environment::{Device, Environment, ExactCount};

/// The kernel's counts during the watch; `None` if the counters were not read.
pub(crate) fn counters(device: &Device, window: WatchWindow) -> Option<KernelCounters> {
    let window = device.stat_read_ns.map_or(window, |(start_ns, end_ns)| WatchWindow {
        start_ns,
        end_ns: end_ns.max(start_ns),
    });
    let (start, end) = (&device.stat_start, &device.stat_end);
    let is_unknown =
        |column: usize| device.stat_unknown.iter().any(|unknown| *unknown as usize == column);
    let change = |column: usize| {
        let (start, end) = (*start.get(column)?, *end.get(column)?);
        (!is_unknown(column)).then(|| end.saturating_sub(start))
    };
    let milliseconds = |column: usize| Some(change(column)?.saturating_mul(1_000_000));
    let counted = |first: usize| {
        Some(KernelDirection {
            requests: change(first)?,
            merges: change(first + 1)?,
            bytes: change(first + 2)?.saturating_mul(512),
            wait_ns: milliseconds(first + 3)?,
        })
    };
    // Counts of a time that is not known are no rates.
    let moved = |first: usize| counted(first).filter(|_| window.duration_ns() > 0);
    let flushed = || {
        let (requests, wait_ns) = (change(15)?, milliseconds(16)?);
        let flushes = KernelDirection { requests, wait_ns, ..KernelDirection::default() };
        Some(flushes).filter(|_| window.duration_ns() > 0)
    };
    let part = |first: usize| {
        let told = [change(first), change(first + 2), milliseconds(first + 3)];
        let [requests, sectors, wait_ns] = told;
        let mean = |(sum, count): (u64, u64)| (count > 0).then(|| sum as f64 / count as f64);
        told.iter().any(Option::is_some).then(|| PartialDirection {
            requests_per_s: requests.and_then(|count| window.rate(count)),
            bytes_per_s: sectors.and_then(|count| window.rate(count.saturating_mul(512))),
            await_ns: wait_ns.zip(requests).and_then(mean),
        })
    };
    let partial = |first: usize| if moved(first).is_none() { part(first) } else { None };
    if start.is_empty() || end.is_empty() {
        return None;
    }
    let told = device.stat_undirected.map(|(requests, wait_ms)| KernelDirection {
        requests,
        wait_ns: wait_ms.saturating_mul(1_000_000),
        ..KernelDirection::default()
    });
    let undirected = match window.duration_ns() {
        0 => {
            told.or_else(|| [0, 4, 11].into_iter().filter_map(counted).reduce(KernelDirection::and))
        }
        _ => told,
    };
    Some(KernelCounters {
        undirected,
        directions: ByDirection([moved(0), moved(4), flushed(), moved(11), None]),
        partial: ByDirection([partial(0), partial(4), None, partial(11), None]),
        util_share: milliseconds(9).and_then(|busy| window.share(busy)),
        aqu_sz: milliseconds(10).and_then(|waited| window.share(waited)),
    })
}

/// The kernel's counts during the watch in the form of those of iowhy's own programs, which count
/// only whole watches.
pub(crate) fn exact_counts(environment: &Environment) -> Vec<ExactCount> {
    let window = WatchWindow { start_ns: environment.start_ns, end_ns: environment.end_ns };
    let counted = environment.devices.iter().filter_map(|device| {
        let counters = counters(device, window)?;
        let operations = [Operation::Read, Operation::Write, Operation::Discard];
        Some(operations.into_iter().filter_map(move |operation| {
            let counted = counters.directions[Direction::from(operation)]?;
            Some(ExactCount {
                major: device.major,
                minor: device.minor,
                operation: operation.word().to_owned(),
                requests: counted.requests,
                bytes: counted.bytes,
                errors: None,
                timed: counted.requests,
                latency_ns: counted.wait_ns,
            })
        }))
    });
    counted.flatten().collect()
}

/// Number of requests that completed, as counted by the kernel.
pub(crate) fn completed(counters: &KernelCounters) -> u64 {
    let known = counters.directions.0.iter().flatten().chain(&counters.undirected);
    known.fold(0, |sum, direction| sum.saturating_add(direction.requests))
}

/// Whether it did anything: some sources tell how busy it was or how much it moved, but not how
/// many requests completed.
pub(crate) fn is_used(counters: &KernelCounters) -> bool {
    let mut parts = counters.partial.0.iter().flatten();
    completed(counters) > 0
        || counters.util_share.is_some_and(|share| share > 0.0)
        || parts.any(|part| part.bytes_per_s.is_some_and(|rate| rate > 0.0))
}

/// The counters in the form of figures from requests.
pub(crate) fn directions(
    counters: &KernelCounters,
    window: WatchWindow,
) -> ByDirection<DirectionSummary> {
    counters.directions.map(|counted| direction(&counted.unwrap_or_default(), window))
}

fn direction(counted: &KernelDirection, window: WatchWindow) -> DirectionSummary {
    let KernelDirection { requests, merges, bytes, wait_ns } = *counted;
    let mean = |sum: u64| (requests > 0).then(|| sum as f64 / requests as f64);
    DirectionSummary {
        requests,
        bytes,
        requests_per_s: window.per_s(requests),
        bytes_per_s: window.per_s(bytes),
        average_bytes: mean(bytes),
        merges_per_s: window.per_s(merges),
        merged_share: merged_share(merges, requests),
        await_ns: mean(wait_ns),
        ..DirectionSummary::default()
    }
}

/// Whether requests were in flight at both ends of the watch and none completed: the device hangs.
pub(crate) fn is_hung(device: &Device, window: WatchWindow) -> bool {
    let busy =
        |pair: Option<(u64, u64)>| pair.is_some_and(|(reads, writes)| reads > 0 || writes > 0);
    busy(device.in_flight_start)
        && busy(device.in_flight_end)
        && counters(device, window).is_some_and(|counters| completed(&counters) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_kernel() {
        let device =
            Device { stat_start: vec![0; 17], stat_end: (1..=17).collect(), ..Device::default() };
        let window = WatchWindow { start_ns: 0, end_ns: 1_000_000_000 };
        let counters = counters(&device, window).unwrap();
        let of = |direction: Direction| {
            let it = counters.directions[direction].unwrap();
            (it.requests, it.merges, it.bytes, it.wait_ns)
        };
        assert_eq!(of(Direction::Read), (1, 2, 3 * 512, 4_000_000));
        assert_eq!(of(Direction::Write), (5, 6, 7 * 512, 8_000_000));
        assert_eq!(of(Direction::Discard), (12, 13, 14 * 512, 15_000_000));
        assert_eq!(of(Direction::Flush), (16, 0, 0, 17_000_000));
        assert_eq!((counters.util_share, counters.aqu_sz), (Some(0.01), Some(0.011)));
        assert_eq!(completed(&counters), 1 + 5 + 12 + 16);
    }

    #[test]
    fn what_is_told_of_a_direction_is_kept() {
        let mut device =
            Device { stat_start: vec![0; 17], stat_end: (1..=17).collect(), ..Device::default() };
        // Merges and times of reads are not told, and of writes only how many bytes.
        device.stat_unknown = vec![1, 3, 4, 5, 7, 11, 12, 13, 14];
        let window = WatchWindow { start_ns: 0, end_ns: 1_000_000_000 };
        let counters = counters(&device, window).unwrap();
        assert_eq!(counters.directions.0, [None, None, counters.directions.0[2], None, None]);
        let reads = counters.partial[Direction::Read].unwrap();
        assert_eq!((reads.requests_per_s, reads.bytes_per_s), (Some(1.0), Some(1536.0)));
        assert_eq!(reads.await_ns, None);
        let writes = counters.partial[Direction::Write].unwrap();
        assert_eq!((writes.requests_per_s, writes.bytes_per_s), (None, Some(7.0 * 512.0)));
        assert_eq!(counters.partial[Direction::Discard], None);
    }

    #[test]
    fn rates_are_of_the_time_between_the_readings() {
        let mut device =
            Device { stat_start: vec![0; 17], stat_end: vec![8_000; 17], ..Device::default() };
        let window = WatchWindow { start_ns: 1_000_000_000, end_ns: 5_000_000_000 };
        assert_eq!(counters(&device, window).unwrap().util_share, Some(2.0));
        device.stat_read_ns = Some((500_000_000, 8_500_000_000));
        assert_eq!(counters(&device, window).unwrap().util_share, Some(1.0));
    }

    #[test]
    fn without_a_time_only_means_are_known() {
        let device =
            Device { stat_start: vec![0; 17], stat_end: (1..=17).collect(), ..Device::default() };
        let counters = counters(&device, WatchWindow { start_ns: 5, end_ns: 5 }).unwrap();
        assert_eq!(counters.directions.0, [None; 5]);
        let reads = counters.partial[Direction::Read].unwrap();
        assert_eq!((reads.requests_per_s, reads.await_ns), (None, Some(4_000_000.0)));
        let all = counters.undirected.unwrap();
        assert_eq!((all.requests, all.wait_ns), (1 + 5 + 12, (4 + 8 + 15) * 1_000_000));
        assert_eq!((counters.util_share, counters.aqu_sz), (None, None));
    }

    #[test]
    fn an_old_kernel_counts_less() {
        let device = Device { stat_start: vec![1; 11], stat_end: vec![3; 11], ..Device::default() };
        let counters = counters(&device, WatchWindow { start_ns: 0, end_ns: 0 }).unwrap();
        assert_eq!(counters.directions[Direction::Flush], None);
        assert_eq!((completed(&counters), counters.util_share), (4, None));
        assert!(
            super::counters(&Device::default(), WatchWindow { start_ns: 0, end_ns: 1 }).is_none()
        );
    }
}
