//! Histograms with the coarse bins of a screen.

use crate::summary::Bucket;

/// Aggregates the buckets of a histogram into `per_octave` bins per power of two (1, 2 or 4), from
/// the first non-empty bin to the last, empty ones in between included.
pub fn bins(buckets: &[Bucket], per_octave: u32) -> Vec<Bucket> {
    let mut bins: Vec<Bucket> = Vec::new();
    for bucket in buckets {
        let bin = bin_of(bucket.from_ns, per_octave);
        while let Some(last) = bins.last().filter(|last| last.to_ns < bin.to_ns) {
            let next = bin_of(last.to_ns, per_octave);
            bins.push(next);
        }
        match bins.last_mut() {
            Some(last) => last.requests += bucket.requests,
            None => bins.push(Bucket { requests: bucket.requests, ..bin }),
        }
    }
    bins
}

/// The bin of `nanoseconds`: an octave begins at a power of two and is divided evenly.
fn bin_of(nanoseconds: u64, per_octave: u32) -> Bucket {
    let octave = nanoseconds.max(4).ilog2();
    let (start, width) = (1_u64 << octave, (1_u64 << octave) / u64::from(per_octave));
    if nanoseconds < 4 {
        return Bucket { from_ns: 0, to_ns: 4, requests: 0 };
    }
    let from_ns = start + (nanoseconds - start) / width * width;
    Bucket { from_ns, to_ns: from_ns.saturating_add(width), requests: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_everything_between_the_ends() {
        let bucket = |from_ns: u64, requests| Bucket { from_ns, to_ns: from_ns + 1, requests };
        let buckets = [bucket(2, 1), bucket(4, 1), bucket(7, 2), bucket(40, 5), bucket(47, 1)];
        let bins = bins(&buckets, 2);
        let expected = [
            (0, 4, 1),
            (4, 6, 1),
            (6, 8, 2),
            (8, 12, 0),
            (12, 16, 0),
            (16, 24, 0),
            (24, 32, 0),
            (32, 48, 6),
        ];
        let found: Vec<_> = bins.iter().map(|bin| (bin.from_ns, bin.to_ns, bin.requests)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_longest_time_ends_too() {
        let last = Bucket { from_ns: u64::MAX - 5, to_ns: u64::MAX, requests: 1 };
        let first = Bucket { from_ns: 0, to_ns: 1, requests: 1 };
        assert_eq!(bins(&[first, last], 4).iter().map(|bin| bin.requests).sum::<u64>(), 2);
    }
}
