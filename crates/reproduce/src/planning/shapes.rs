//! Sizes and places of operations, in the percentages that fio takes.
//!
//! What does not belong here: which operations (see [`super::from_stream`]).

use iowhy_model::compact_sort::CompactSort;
use rustc_hash::FxHashMap;

/// Sizes with a smaller share are left to the nearest larger one. Chosen.
const LEAST_PERCENT: u32 = 3;
/// Maximum number of sizes.
const MOST_SIZES: usize = 8;
/// Parts of the range for which the share of accesses is counted.
const ZONES: usize = 10;
/// An even load has ten percent in each; beyond these it is skewed. Chosen.
const EVEN: std::ops::RangeInclusive<u32> = 5..=17;
/// Offsets below which nothing is said about their places.
const LEAST_OFFSETS: usize = 200;

/// The sizes with their percentages, which add up to 100; sizes are rounded up to `unit` bytes.
pub fn sizes(counts: &FxHashMap<u64, u64>, unit: u64) -> Vec<(u64, u32)> {
    let mut rounded: FxHashMap<u64, u64> = FxHashMap::default();
    for (size, count) in counts {
        *rounded.entry((*size).max(1).next_multiple_of(unit.max(1))).or_default() += count;
    }
    let all: u64 = rounded.values().sum();
    if all == 0 {
        return Vec::new();
    }
    let mut shares: Vec<(u64, f64)> = rounded
        .into_iter()
        .map(|(size, count)| (size, count as f64 * 100.0 / all.max(1) as f64))
        .collect();
    let mean = shares.iter().map(|(size, share)| *size as f64 * share / 100.0).sum::<f64>();
    shares.compact_sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let rest = shares.split_off(shares.len().min(MOST_SIZES));
    let (few, kept): (Vec<_>, Vec<_>) =
        shares.into_iter().partition(|(_, share)| *share < f64::from(LEAST_PERCENT));
    let mut kept: Vec<(u64, f64)> = kept;
    // The rest as one size, so that the mean stays.
    let left: Vec<(u64, f64)> = rest.into_iter().chain(few).collect();
    let share: f64 = left.iter().map(|part| part.1).sum();
    if share >= 1.0 || kept.is_empty() {
        let bytes = left.iter().map(|part| part.0 as f64 * part.1).sum::<f64>() / share.max(1e-9);
        let bytes = if left.is_empty() { mean } else { bytes };
        kept.push(((bytes as u64).max(1).next_multiple_of(unit.max(1)), share));
    }
    in_whole_percent(&kept)
}

/// Whole percentages that add up to 100.
fn in_whole_percent(shares: &[(u64, f64)]) -> Vec<(u64, u32)> {
    let sum: f64 = shares.iter().map(|share| share.1).sum();
    let mut whole: Vec<(u64, u32)> = Vec::new();
    for (size, share) in shares {
        let percent = (share * 100.0 / sum.max(1e-9)).round() as u32;
        match whole.iter_mut().find(|part| part.0 == *size) {
            Some(known) => known.1 += percent,
            None => whole.push((*size, percent)),
        }
    }
    let total: u32 = whole.iter().map(|part| part.1).sum();
    if let Some(most) = whole.iter_mut().max_by_key(|part| part.1) {
        most.1 = (most.1 + 100).saturating_sub(total);
    }
    whole.retain(|whole| whole.1 > 0);
    whole.sort_unstable();
    whole
}

/// Returns the distribution of the offsets below `end`: percent of accesses and of the range; empty
/// if they are even.
pub fn zones(offsets: &[u64], end: u64) -> Vec<(u32, u32)> {
    if offsets.len() < LEAST_OFFSETS || end == 0 {
        return Vec::new();
    }
    let mut counts = [0_u64; ZONES];
    for offset in offsets {
        let at = (u128::from(*offset) * ZONES as u128 / u128::from(end)) as usize;
        counts[at.min(ZONES - 1)] += 1;
    }
    let all = offsets.len() as u64;
    let percent = |count: u64| (count * 100 / all) as u32;
    if counts.iter().all(|count| EVEN.contains(&percent(*count))) {
        return Vec::new();
    }
    let mut zones: Vec<(u32, u32)> =
        counts.iter().map(|count| (percent(*count), 100 / ZONES as u32)).collect();
    let total: u32 = zones.iter().map(|zone| zone.0).sum();
    if let Some(most) = zones.iter_mut().max_by_key(|zone| zone.0) {
        most.0 += 100 - total;
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(u64, u64)]) -> FxHashMap<u64, u64> {
        counts.iter().copied().collect()
    }

    #[test]
    fn percentages_add_up_and_keep_the_mean() {
        assert_eq!(sizes(&of(&[(4096, 10)]), 512), [(4096, 100)]);
        assert_eq!(sizes(&of(&[(4096, 70), (8192, 30)]), 512), [(4096, 70), (8192, 30)]);
        let many: Vec<(u64, u64)> = (1..200).map(|at| (at * 512, 1)).collect();
        let split = sizes(&of(&many), 512);
        assert_eq!(split.iter().map(|part| part.1).sum::<u32>(), 100);
        let mean: u64 = split.iter().map(|part| part.0 * u64::from(part.1)).sum::<u64>() / 100;
        assert!((45_000..58_000).contains(&mean), "{split:?}: {mean}");
        assert_eq!(sizes(&of(&[]), 512), []);
    }

    #[test]
    fn skew_is_seen_and_even_loads_have_no_zones() {
        let even: Vec<u64> = (0..1000).map(|at| at * 7919 % 1000 * 4096).collect();
        assert_eq!(zones(&even, 1000 * 4096), []);
        let skewed: Vec<u64> =
            (0..1000).map(|at| if at % 2 == 0 { 0 } else { at * 4096 }).collect();
        let found = zones(&skewed, 1000 * 4096);
        assert_eq!(found.iter().map(|part| part.0).sum::<u32>(), 100);
        assert_eq!(found.iter().map(|part| part.1).sum::<u32>(), 100);
        assert!(found[0].0 > 50, "{found:?}");
    }
}
