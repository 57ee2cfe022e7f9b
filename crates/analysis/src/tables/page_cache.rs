//! The page cache over the watch: its size, dirty pages and their limits, reclaim and refaults, and
//! device reads compared with read calls. `iowhy cache`.
//!
//! What does not belong here: the series themselves (see `super::series`).

use crate::summary::Summary;
use iowhy_model::{Metric, Origin};
use serde::Serialize;

/// The page cache; bytes at the end of the watch, rates per second of it. `None` if the kernel does
/// not report it; for rates also if counters were read only once.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PageCache {
    /// Whether counters were read more than once; otherwise no rate is known.
    pub are_rates_known: bool,
    /// Unused memory.
    pub free_bytes: Option<f64>,
    /// Memory available to programs.
    pub available_bytes: Option<f64>,
    /// The page cache of files, without shared memory.
    pub cached_bytes: Option<f64>,
    /// The page cache of block devices: metadata.
    pub buffers_bytes: Option<f64>,
    /// Dirty pages: the maximum of all samples.
    pub dirty_bytes: Option<f64>,
    /// Pages under writeback: the maximum of all samples.
    pub writeback_bytes: Option<f64>,
    /// Dirty pages from which background writeback runs, as the kernel computes it.
    pub background_limit_bytes: Option<f64>,
    /// Dirty pages from which writers are throttled.
    pub limit_bytes: Option<f64>,
    /// Pages made dirty.
    pub dirtied_bytes_per_s: Option<f64>,
    /// Dirty pages written.
    pub written_bytes_per_s: Option<f64>,
    /// Pages added to the page cache: exact if iowhy counted them (`are_pages_counted`), else a
    /// lower bound.
    pub added_bytes_per_s: Option<f64>,
    /// Pages removed from it: exact likewise, else the reclaimed pages, without those that were
    /// truncated, deleted or dropped on request.
    pub removed_bytes_per_s: Option<f64>,
    /// Whether these two were counted.
    pub are_pages_counted: bool,
    /// Growth of the page cache; negative if it shrank.
    pub growth_bytes_per_s: Option<f64>,
    /// File pages reclaimed.
    pub reclaimed_bytes_per_s: Option<f64>,
    /// File pages read again soon after they were reclaimed.
    pub refaulted_bytes_per_s: Option<f64>,
    /// Page faults that needed a read from a device.
    pub major_faults_per_s: Option<f64>,
    /// Bytes of device reads through the page cache, readahead included: requests of the origins
    /// read, readahead and page_fault.
    pub filled_bytes_per_s: f64,
    /// The part of them that is readahead.
    pub read_ahead_bytes_per_s: f64,
    /// Bytes that read calls returned to the processes that caused device reads.
    pub asked_bytes_per_s: Option<f64>,
    /// `asked` per byte that devices read; above 1, the page cache had the rest. Far below 1,
    /// readahead reads data that is not used. `None` without device reads.
    pub asked_per_read: Option<f64>,
}

/// The page cache from samples and requests of the watch; `None` without samples.
pub fn page_cache(summary: &Summary) -> Option<PageCache> {
    let samples = &summary.samples;
    let cached = samples.system(Metric::Cached)?;
    let last = |metric| samples.system(metric).map(|series| series.last);
    let most = |metric| samples.system(metric).and_then(|series| series.max);
    let rate = |metric| samples.system(metric).and_then(|series| series.mean);
    let growth = |metric| samples.system(metric).and_then(|series| series.change);
    let seconds = (summary.watch.duration_ns as f64 / 1e9).max(1e-9);
    let of_origin = |origin: Origin| -> f64 {
        let own = summary.origins.rows.iter().filter(|row| row.subject.origin == origin);
        // An empty sum is -0.
        own.map(|row| row.usage.bytes as f64 / seconds).fold(0.0, |sum, rate| sum + rate)
    };
    let read_ahead = of_origin(Origin::Readahead);
    let asked = asked(summary);
    let pages = pages(summary, seconds);
    let read = rate_of_readers(summary);
    Some(PageCache {
        are_rates_known: cached.change.is_some(),
        free_bytes: last(Metric::MemoryFree),
        available_bytes: last(Metric::MemoryAvailable),
        cached_bytes: last(Metric::Cached)
            .map(|all| (all - last(Metric::SharedMemory).unwrap_or(0.0)).max(0.0)),
        buffers_bytes: last(Metric::Buffers),
        dirty_bytes: most(Metric::Dirty),
        writeback_bytes: most(Metric::Writeback),
        background_limit_bytes: last(Metric::DirtyBackgroundThreshold),
        limit_bytes: last(Metric::DirtyThreshold),
        dirtied_bytes_per_s: rate(Metric::Dirtied),
        written_bytes_per_s: rate(Metric::Written),
        added_bytes_per_s: pages.map(|pages| pages.added),
        removed_bytes_per_s: pages.map(|pages| pages.removed),
        are_pages_counted: pages.is_some_and(|pages| pages.counted),
        growth_bytes_per_s: growth(Metric::FilePages).map(|change| change / seconds),
        reclaimed_bytes_per_s: rate(Metric::ReclaimedFile),
        refaulted_bytes_per_s: rate(Metric::RefaultsFile),
        major_faults_per_s: rate(Metric::MajorFaults),
        filled_bytes_per_s: read_ahead + of_origin(Origin::Read) + of_origin(Origin::PageFault),
        read_ahead_bytes_per_s: read_ahead,
        asked_bytes_per_s: asked,
        asked_per_read: asked.zip(read).map(|(asked, read)| asked / read),
    })
}

/// Pages added to and removed from the page cache, bytes per second.
#[derive(Clone, Copy)]
struct CacheFlow {
    added: f64,
    removed: f64,
    counted: bool,
}

/// Counted individually if requested. The kernel itself only counts reclaimed pages; added pages
/// are at least these plus the growth, and not less than the refaults or the reads into the cache.
fn pages(summary: &Summary, seconds: f64) -> Option<CacheFlow> {
    let samples = &summary.samples;
    let rate = |metric| samples.system(metric).and_then(|series| series.mean);
    if let Some((added, removed)) = rate(Metric::PageCacheAdded).zip(rate(Metric::PageCacheRemoved))
    {
        return Some(CacheFlow { added, removed, counted: true });
    }
    let change = |metric| samples.system(metric).map_or(0.0, |series| series.grown() / seconds);
    let inodes = [Metric::InodesReclaimed, Metric::InodesReclaimedBackground];
    let inodes: f64 = inodes.into_iter().filter_map(rate).sum();
    let removed = rate(Metric::ReclaimedFile)? + inodes;
    let growth = change(Metric::FilePages) - change(Metric::SharedMemory);
    let back = rate(Metric::RefaultsFile).unwrap_or(0.0);
    Some(CacheFlow { added: (growth + removed).max(back), removed, counted: false })
}

/// Bytes that read calls returned to the processes that caused device reads; `None` without such
/// processes.
fn asked(summary: &Summary) -> Option<f64> {
    let samples = &summary.samples;
    let readers = samples.of(Metric::CausedRead).iter().filter(|series| series.grown() > 0.0);
    let given = readers.filter_map(|reader| samples.get(Metric::LogicalRead, &reader.subject));
    given.filter_map(|series| series.mean).reduce(|all, one| all + one)
}

/// The device reads that they caused.
fn rate_of_readers(summary: &Summary) -> Option<f64> {
    let readers = summary.samples.of(Metric::CausedRead).iter();
    readers.filter_map(|series| series.mean).reduce(|all, one| all + one).filter(|sum| *sum > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::Sample;
    use iowhy_model::script::{START_NS, Script};

    /// The page cache of a watch whose counters were read at these times, nanoseconds after it
    /// began.
    fn read_at(times: &[u64]) -> PageCache {
        let mut script = Script::new(1);
        for (index, at) in times.iter().enumerate() {
            for metric in
                [Metric::Cached, Metric::FilePages, Metric::Dirtied, Metric::ReclaimedFile]
            {
                script.batch.samples.push(Sample {
                    time_ns: START_NS + at,
                    scope: metric.info().scope,
                    subject: script.names.intern(""),
                    metric: script.names.intern(metric.info().word),
                    value: index as f64 * 4096.0,
                });
            }
        }
        page_cache(&script.summary()).unwrap()
    }

    #[test]
    fn what_was_read_once_has_no_rate() {
        let once = read_at(&[20_000_000]);
        assert_eq!((once.cached_bytes, once.are_rates_known), (Some(0.0), false));
        assert_eq!((once.dirtied_bytes_per_s, once.growth_bytes_per_s), (None, None));
        assert_eq!((once.added_bytes_per_s, once.reclaimed_bytes_per_s), (None, None));
        let twice = read_at(&[20_000_000, 900_000_000]);
        assert_eq!((twice.dirtied_bytes_per_s, twice.are_rates_known), (Some(4096.0), true));
        assert_eq!(twice.growth_bytes_per_s, Some(4096.0));
    }
}
