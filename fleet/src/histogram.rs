//! Latency histograms as the recorder keeps them: bins of half an octave, named by their shortest
//! time. They can be added over any time and any hosts.
//!
//! What does not belong here: SQL.

/// A bin: its shortest time in nanoseconds, and requests.
pub type LatencyBin = (u64, u64);

/// Returns the bin of a latency, as its shortest time: half octaves from 4 ns on.
pub const fn bin_of(nanoseconds: u64) -> u64 {
    if nanoseconds < 4 {
        return 0;
    }
    let start = 1_u64 << nanoseconds.ilog2();
    if nanoseconds - start >= start / 2 { start + start / 2 } else { start }
}

/// Returns the end of a bin, nanoseconds.
pub const fn bin_end(from_ns: u64) -> u64 {
    if from_ns < 4 {
        return 4;
    }
    from_ns.saturating_add((1_u64 << from_ns.ilog2()) / 2)
}

/// Adds `other` to `bins`; both are in the order of their times, with each bin once.
pub fn add_bins(bins: &mut Vec<LatencyBin>, other: &[LatencyBin]) {
    for (from_ns, requests) in other {
        match bins.binary_search_by_key(from_ns, |bin| bin.0) {
            Ok(at) => {
                if let Some(bin) = bins.get_mut(at) {
                    bin.1 = bin.1.saturating_add(*requests);
                }
            }
            Err(at) => bins.insert(at, (*from_ns, *requests)),
        }
    }
}

/// The time that this share of the requests took at most, nanoseconds: interpolated within its bin,
/// and so wrong by less than half of the time. `None` without requests.
pub fn percentile(bins: &[LatencyBin], share: f64) -> Option<u64> {
    let total: u64 = bins.iter().map(|bin| bin.1).fold(0, u64::saturating_add);
    if total == 0 {
        return None;
    }
    let wanted = share.clamp(0.0, 1.0) * total as f64;
    let mut sum = 0.0;
    for (from_ns, requests) in bins.iter().filter(|bin| bin.1 > 0) {
        let inside = *requests as f64;
        if sum + inside >= wanted {
            let width = bin_end(*from_ns).saturating_sub(*from_ns) as f64;
            let part = ((wanted - sum) / inside).clamp(0.0, 1.0);
            return Some((*from_ns as f64 + width * part) as u64);
        }
        sum += inside;
    }
    bins.iter().rev().find(|bin| bin.1 > 0).map(|bin| bin_end(bin.0))
}

/// The time of all requests together, nanoseconds, each taken as the middle of its bin.
pub fn time_ns(bins: &[LatencyBin]) -> u64 {
    let middle = |from_ns: u64| from_ns / 2 + bin_end(from_ns) / 2;
    bins.iter().map(|bin| middle(bin.0).saturating_mul(bin.1)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_of_the_recorder() {
        for (latency, bin) in [(0, 0), (3, 0), (4, 4), (5, 4), (6, 6), (8, 8), (11, 8), (12, 12)] {
            assert_eq!(bin_of(latency), bin, "{latency}");
        }
        for latency in [4, 1000, 123_456_789, u64::MAX / 2] {
            let bin = bin_of(latency);
            assert!(bin <= latency && latency < bin_end(bin), "{latency}");
            assert_eq!(bin_of(bin), bin);
        }
        assert_eq!(bin_end(bin_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn a_sum_has_all_requests_whatever_the_order() {
        let parts: [&[LatencyBin]; 3] = [&[(4, 1), (1024, 5)], &[(0, 2), (1024, 7)], &[(6, 1)]];
        let mut forward = Vec::new();
        parts.iter().for_each(|part| add_bins(&mut forward, part));
        let mut backward = Vec::new();
        parts.iter().rev().for_each(|part| add_bins(&mut backward, part));
        assert_eq!(forward, backward);
        assert_eq!(forward, [(0, 2), (4, 1), (6, 1), (1024, 12)]);
    }

    #[test]
    fn a_percentile_lies_in_its_bin() {
        let bins = [(1024, 90), (1_048_576, 10)];
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[(4, 0)], 0.5), None);
        let median = percentile(&bins, 0.5).unwrap();
        assert!((1024..1536).contains(&median));
        let p99 = percentile(&bins, 0.99).unwrap();
        assert!((1_048_576..1_572_864).contains(&p99));
        assert!(percentile(&bins, 1.0).unwrap() <= 1_572_864);
        assert!(percentile(&bins, 0.0).unwrap() >= 1024);
    }
}
