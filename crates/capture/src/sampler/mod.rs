//! Counters and gauges of the machine, its devices, processes and cgroups, read once a second.
//!
//! A value gets a row when it is first read and when it has changed. Before a change, the value of
//! the previous sample gets a row, too, so that rates are right. The I/O of processes and cgroups
//! gets its first row with its first change. Each sample has a time budget: subjects with recent
//! I/O come first, the others in turn, and those that did not fit are counted.
//!
//! What does not belong here: what the metrics mean (`iowhy_model::metric`).

mod cgroups;
mod devices;
mod limits;
mod memory;
mod processes;
mod system;
mod work;

use crate::host::cgroup::Roots;
use crate::host::system::now_ns;
use crate::probes::snapshot::{PendingRequest, pending};
use crate::session::Session;
use crate::wire;
use cgroups::CgroupSampler;
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Name, Names, Sample, Scope};
use memory::MemorySampler;
use processes::ProcessSampler;
use rustc_hash::FxHashMap;
use std::time::Duration;
use zerocopy::FromBytes;

/// Counters whose last value is kept; any further one gets a row each time.
const MOST_FOLLOWED: usize = 1 << 16;

/// The longest delay of a sample, nanoseconds, so that earlier records are read first.
const PATIENCE_NS: u64 = 300_000_000;

/// The counters that are sampled, and the time between two samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// The time between two samples.
    pub every: Duration,
    /// Whether processes and cgroups are sampled, too.
    pub processes: bool,
    /// One in so many samples has them: reading them takes most of the time.
    pub processes_one_in: u32,
    /// Whether BPF programs count additions to the page cache and removals from it: one run per
    /// folio, whose cost is in `--help`.
    pub page_cache: bool,
}

impl Default for Sampling {
    fn default() -> Sampling {
        let every = Duration::from_secs(1);
        Sampling { every, processes: true, processes_one_in: 1, page_cache: false }
    }
}

/// Samples counters when it is time.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    due_ns: u64,
    /// Samples so far.
    samples: u32,
    written: WrittenCounters,
    processes: ProcessSampler,
    memory: MemorySampler,
    cgroups: CgroupSampler,
}

impl Sampler {
    /// The first sample is due immediately.
    pub fn new(sampling: Sampling, start_ns: u64) -> Sampler {
        let roots = Roots::find();
        Sampler {
            sampling,
            due_ns: start_ns,
            samples: 0,
            written: WrittenCounters::default(),
            processes: ProcessSampler::new(start_ns, roots.clone()),
            memory: MemorySampler::new(roots.clone()),
            cgroups: CgroupSampler::new(roots),
        }
    }

    /// Time until the next sample.
    pub fn due_in(&self) -> Duration {
        Duration::from_nanos(self.due_ns.saturating_sub(now_ns()))
    }

    /// Samples if it is time; a little later while there is much else to do (`busy`).
    pub fn look_if_due(
        &mut self,
        busy: bool,
        session: &Session,
        batch: &mut Batch,
        names: &mut Names,
    ) {
        let now = now_ns();
        if now < self.due_ns + if busy { PATIENCE_NS } else { 0 } {
            return;
        }
        let every_ns = (self.sampling.every.as_nanos() as u64).max(1);
        // Missed samples are not repeated.
        self.due_ns += ((now - self.due_ns) / every_ns + 1) * every_ns;
        let pending = pending(session);
        let now_ns = now_ns();
        let one_in = self.sampling.processes_one_in.max(1);
        let has_processes = self.samples.is_multiple_of(one_in);
        self.samples = self.samples.wrapping_add(1);
        self.sample(now_ns, &pending, has_processes, batch, names);
        self.look_at_page_cache(now_ns, session, batch, names);
    }

    /// Processes that got their first rows since the last call.
    pub fn told(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.processes.told)
    }

    /// Reads the page cache counters of the BPF programs, if they are enabled.
    pub fn look_at_page_cache(
        &mut self,
        now_ns: u64,
        session: &Session,
        batch: &mut Batch,
        names: &mut Names,
    ) {
        if !self.sampling.page_cache {
            return;
        }
        let counts = session.each_cpu("page_cache");
        let counts = counts.iter().filter_map(|bytes| {
            let (counts, _) = wire::wire_page_cache::read_from_prefix(bytes).ok()?;
            Some((counts.added_bytes, counts.removed_bytes))
        });
        let sums = counts.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1));
        let Some((added, removed)) = sums else { return };
        let mut out = Out { now_ns, written: &mut self.written, batch, names };
        out.system(Metric::PageCacheAdded, added);
        out.system(Metric::PageCacheRemoved, removed);
    }

    /// Looks, whenever it is; `pending` is what was in flight at `now_ns`.
    pub fn look(
        &mut self,
        now_ns: u64,
        pending: &[PendingRequest],
        batch: &mut Batch,
        names: &mut Names,
    ) {
        self.sample(now_ns, pending, true, batch, names);
    }

    fn sample(
        &mut self,
        now_ns: u64,
        pending: &[PendingRequest],
        has_processes: bool,
        batch: &mut Batch,
        names: &mut Names,
    ) {
        let mut out = Out { now_ns, written: &mut self.written, batch, names };
        devices::look(pending, &mut out);
        system::look(&mut out);
        if self.sampling.processes && has_processes {
            self.processes.look(&mut out);
            self.memory.look(self.processes.listed(), &mut out);
            self.cgroups.look(&mut out);
        }
    }
}

/// The last row of each counter.
#[derive(Debug, Default)]
struct WrittenCounters {
    values: FxHashMap<(Metric, Name), LastValue>,
}

#[derive(Clone, Copy, Debug)]
struct LastValue {
    value: u64,
    looked_ns: u64,
    written_ns: u64,
}

/// The destination of values.
struct Out<'a> {
    now_ns: u64,
    written: &'a mut WrittenCounters,
    batch: &'a mut Batch,
    names: &'a mut Names,
}

impl Out<'_> {
    /// Writes a value of the whole machine.
    fn system(&mut self, metric: Metric, value: u64) {
        self.put(metric, Name::EMPTY, value);
    }

    /// Writes a value if it needs a row.
    fn put(&mut self, metric: Metric, subject: Name, value: u64) {
        let now_ns = self.now_ns;
        let fresh = LastValue { value, looked_ns: now_ns, written_ns: now_ns };
        let scope = metric.info().scope;
        let followed = self.written.values.len();
        let Some(last) = self.written.values.get_mut(&(metric, subject)) else {
            // The I/O of most processes and cgroups never changes.
            let is_memory = memory::OF_PROCESSES.contains(&metric);
            let is_first_told = is_memory || matches!(scope, Scope::System | Scope::Device);
            if followed < MOST_FOLLOWED {
                let written_ns = if is_first_told { now_ns } else { 0 };
                self.written.values.insert((metric, subject), LastValue { written_ns, ..fresh });
            }
            if is_first_told {
                self.row(metric, subject, value, now_ns);
            }
            return;
        };
        if last.value == value {
            last.looked_ns = now_ns;
            return;
        }
        let before = *last;
        *last = fresh;
        if before.written_ns < before.looked_ns {
            self.row(metric, subject, before.value, before.looked_ns);
        }
        self.row(metric, subject, value, now_ns);
    }

    /// Writes a value that had another value at an earlier sample, which was not written: `before`
    /// is that value and its time.
    fn put_since(&mut self, metric: Metric, subject: Name, before: (u64, u64), value: u64) {
        let (before, looked_ns) = before;
        if self.written.values.len() < MOST_FOLLOWED {
            let earlier = LastValue { value: before, looked_ns, written_ns: 0 };
            self.written.values.entry((metric, subject)).or_insert(earlier);
        }
        self.put(metric, subject, value);
    }

    fn row(&mut self, metric: Metric, subject: Name, value: u64, time_ns: u64) {
        let info = metric.info();
        let metric = self.names.intern(info.word);
        // Counters up to 2^53 are exact.
        let value = value as f64;
        let sample = Sample { time_ns, scope: info.scope, subject, metric, value };
        self.batch.samples.push(sample);
    }

    /// Drops a subject that is gone.
    fn forget(&mut self, metrics: &[Metric], subject: Name) {
        for metric in metrics {
            self.written.values.remove(&(*metric, subject));
        }
    }
}

/// The totals of a pressure file, `some` and `full`, nanoseconds.
fn pressure(text: &str) -> (Option<u64>, Option<u64>) {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(kind))?;
        let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
        total.parse::<u64>().ok()?.checked_mul(1000)
    };
    (total("some"), total("full"))
}

/// Ages of requests in flight, by device number.
type Ages = FxHashMap<u32, Age>;

/// The requests in flight on one device.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    requests: u64,
    sum_ns: u64,
    oldest_ns: u64,
    oldest_issued_ns: u64,
}

impl Age {
    fn add(&mut self, request: &PendingRequest, now_ns: u64) {
        let age = now_ns.saturating_sub(request.queue_ns);
        self.requests += 1;
        self.sum_ns = self.sum_ns.saturating_add(age);
        self.oldest_ns = self.oldest_ns.max(age);
        if request.issue_ns > 0 {
            self.oldest_issued_ns =
                self.oldest_issued_ns.max(now_ns.saturating_sub(request.issue_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::number_of;

    #[test]
    fn what_has_not_changed_is_written_once() {
        let (mut written, mut batch, mut names) =
            (WrittenCounters::default(), Batch::default(), Names::new());
        let subject = names.intern("7 cat");
        for (now_ns, device, process) in [(1, 5, 9), (2, 5, 9), (3, 5, 9), (4, 8, 11), (5, 9, 12)] {
            let mut out =
                Out { now_ns, written: &mut written, batch: &mut batch, names: &mut names };
            out.put(Metric::Reads, Name::EMPTY, device);
            out.put(Metric::ReadCalls, subject, process);
        }
        let of = |scope: Scope| -> Vec<(u64, f64)> {
            let own = batch.samples.iter().filter(|sample| sample.scope == scope);
            own.map(|sample| (sample.time_ns, sample.value)).collect()
        };
        assert_eq!(of(Scope::Device), [(1, 5.0), (3, 5.0), (4, 8.0), (5, 9.0)]);
        assert_eq!(of(Scope::Process), [(3, 9.0), (4, 11.0), (5, 12.0)]);
    }

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(number_of("MemFree:  12 kB\nDirty: 7 kB\n", "Dirty"), Some(7));
        assert_eq!(number_of("nr_dirty 5\nnr_dirtied 9\n", "nr_dirtied"), Some(9));
        assert_eq!(number_of("nr_dirty\n", "nr_dirty"), None);
        let text = "some avg10=1.59 avg60=2.87 total=845\nfull avg10=0.00 total=27\n";
        assert_eq!(pressure(text), (Some(845_000), Some(27_000)));
    }
}
