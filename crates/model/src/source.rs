//! The common interface of live, recorded, imported and scripted data: a [`Source`] fills
//! [`Batch`]es, and the analysis does not depend on their origin.

use crate::filter::SilentWaits;
use crate::table::Table;
use crate::{
    Environment, Event, FileActivity, Filter, Metric, Name, Names, Open, Process, Request,
    RequestPart, Sample, Stack, Wait, WaitChain, WaitRequest,
};
use rustc_hash::FxHashSet;

/// Rows that arrived together. Rows that a row refers to (a process, a stack) are in the same batch
/// or in an earlier one; parts are in the order of their requests.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Requests.
    pub requests: Vec<Request>,
    /// The parts of `requests`: those of one request are adjacent, in the order of `requests`.
    pub parts: Vec<RequestPart>,
    /// Waits of threads.
    pub waits: Vec<Wait>,
    /// The requests of waits.
    pub wait_requests: Vec<WaitRequest>,
    /// Wait chains.
    pub wait_chains: Vec<WaitChain>,
    /// File activity.
    pub files: Vec<FileActivity>,
    /// Single opens, if a live watch collects them; recordings have none.
    pub opens: Vec<Open>,
    /// Processes seen for the first time.
    pub processes: Vec<Process>,
    /// Stacks seen for the first time.
    pub stacks: Vec<Stack>,
    /// Counters.
    pub samples: Vec<Sample>,
    /// Single block events.
    pub events: Vec<Event>,
}

impl Batch {
    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.parts.clear();
        self.waits.clear();
        self.wait_requests.clear();
        self.wait_chains.clear();
        self.files.clear();
        self.opens.clear();
        self.processes.clear();
        self.stacks.clear();
        self.samples.clear();
        self.events.clear();
    }

    /// Takes every row of `other` behind its own.
    pub fn append(&mut self, other: &mut Batch) {
        self.requests.append(&mut other.requests);
        self.parts.append(&mut other.parts);
        self.waits.append(&mut other.waits);
        self.wait_requests.append(&mut other.wait_requests);
        self.wait_chains.append(&mut other.wait_chains);
        self.files.append(&mut other.files);
        self.opens.append(&mut other.opens);
        self.processes.append(&mut other.processes);
        self.stacks.append(&mut other.stacks);
        self.samples.append(&mut other.samples);
        self.events.append(&mut other.events);
    }

    /// Whether there is no row of any kind.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.parts.is_empty()
            && self.waits.is_empty()
            && self.wait_requests.is_empty()
            && self.wait_chains.is_empty()
            && self.files.is_empty()
            && self.opens.is_empty()
            && self.processes.is_empty()
            && self.stacks.is_empty()
            && self.samples.is_empty()
            && self.events.is_empty()
    }

    /// Replaces every name.
    pub fn rename(&mut self, by: &mut impl FnMut(Name) -> Name) {
        fn rows<T: Table>(rows: &mut [T], by: &mut impl FnMut(Name) -> Name) {
            rows.iter_mut().for_each(|row| row.rename(&mut |_, name| by(name)));
        }
        rows(&mut self.requests, by);
        rows(&mut self.parts, by);
        rows(&mut self.waits, by);
        rows(&mut self.wait_requests, by);
        rows(&mut self.wait_chains, by);
        rows(&mut self.files, by);
        rows(&mut self.processes, by);
        rows(&mut self.stacks, by);
        rows(&mut self.samples, by);
        rows(&mut self.events, by);
        for open in &mut self.opens {
            open.file = by(open.file);
            open.process = open.process.map(&mut *by);
            open.device = open.device.map(&mut *by);
        }
    }

    /// Each request with its parts.
    pub fn requests_with_parts(&self) -> impl Iterator<Item = (&Request, &[RequestPart])> {
        let mut rest = self.parts.as_slice();
        self.requests.iter().map(move |request| {
            let count =
                rest.iter().take_while(|part| part.request_id == request.request_id).count();
            let (own, after) = rest.split_at(count);
            rest = after;
            (request, own)
        })
    }

    /// The stacks that rows refer to.
    pub fn referred_stacks(&self) -> FxHashSet<u64> {
        let requests =
            self.requests.iter().flat_map(|request| [request.stack_id, request.user_stack_id]);
        let waits = self.waits.iter().flat_map(|wait| [wait.stack_id, wait.user_stack_id]);
        let chains = self
            .wait_chains
            .iter()
            .flat_map(|wait_chain| [wait_chain.stack_id, wait_chain.user_stack_id]);
        requests.chain(waits).chain(chains).flatten().collect()
    }

    /// The processes and threads that rows refer to, by number.
    pub fn referred(&self) -> FxHashSet<u32> {
        let requests = self.requests.iter().flat_map(|request| [request.pid, request.tid]);
        let owners = self.parts.iter().map(|part| part.owner_pid);
        let waits =
            self.waits.iter().flat_map(|wait| [Some(wait.pid), Some(wait.tid), wait.waker_tid]);
        let chains = self
            .wait_chains
            .iter()
            .flat_map(|wait_chain| [Some(wait_chain.pid), Some(wait_chain.tid)]);
        let files = self.files.iter().map(|file| Some(file.pid));
        let events = self.events.iter().map(|event| Some(event.pid));
        requests
            .chain(owners)
            .chain(waits)
            .chain(chains)
            .chain(files)
            .chain(events)
            .flatten()
            .collect()
    }

    /// Keeps only the requests that `filter` keeps, with their parts, and likewise waits and file
    /// activity; samples are kept, except those derived from all requests. Requests in flight have
    /// their age at `until_ns`. Returns the waits that were left out because they lack the data
    /// that the filter needs.
    pub fn retain(&mut self, filter: &Filter, names: &Names, until_ns: u64) -> SilentWaits {
        if filter.is_empty() {
            return SilentWaits::default();
        }
        let mut requests = Vec::new();
        let mut parts = Vec::new();
        for (request, own) in self.requests_with_parts() {
            if filter.keeps(request, own, names, until_ns) {
                requests.push(request.clone());
                parts.extend_from_slice(own);
            }
        }
        self.requests = requests;
        self.parts = parts;
        // Those of a device that is kept whole are of its own requests.
        let is_whole = |device: &str| {
            *filter == filter.of_devices() && filter.devices.iter().any(|kept| kept == device)
        };
        self.samples.retain(|sample| {
            let metric = Metric::find(sample.scope, names.get(sample.metric));
            !metric.is_some_and(Metric::is_of_all_requests) || is_whole(names.get(sample.subject))
        });
        let mut silent = SilentWaits::default();
        self.waits.iter().for_each(|wait| filter.note_silent(wait, names, &mut silent));
        self.retain_waits(filter, names);
        self.files.retain(|file| filter.keeps_file(file, names));
        self.opens.retain(|open| filter.keeps_open(open, names));
        silent
    }

    /// Keeps only the waits that `filter` keeps, with their requests, and all requests.
    pub fn retain_waits(&mut self, filter: &Filter, names: &Names) {
        let mut gone = FxHashSet::default();
        self.waits.retain(|wait| {
            let kept = filter.keeps_wait(wait, names);
            if !kept {
                gone.insert(wait.wait_id);
            }
            kept
        });
        // A recording yields them before their waits.
        self.wait_requests.retain(|link| !gone.contains(&link.wait_id));
        let all = std::mem::take(&mut self.wait_chains);
        let paths = all.chunk_by(|a, b| (a.chain_id, a.path) == (b.chain_id, b.path));
        for path in paths.filter(|path| filter.keeps_chain(path, names)) {
            self.wait_chains.extend_from_slice(path);
        }
    }
}

/// Whether a source may have more rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The source may have more.
    More,
    /// The source has no more.
    Done,
}

/// A source of batches: a live watch, a recording, an imported capture, a script.
pub trait Source {
    /// The source's own error type.
    type Error;

    /// Adds the rows that have arrived to `batch`, whose texts are in `names`. A live source does
    /// not wait for rows: an empty batch means that nothing has arrived yet.
    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, Self::Error>;

    /// The environment of the watch; complete once [`Source::fill`] has returned `Done`.
    fn environment(&self) -> &Environment;
}

/// A source with given rows, for tests and scripted scenarios.
#[derive(Debug, Default)]
pub struct Scripted {
    /// The batches to yield, in order.
    pub batches: std::collections::VecDeque<Batch>,
    /// The result of [`Source::environment`].
    pub environment: Environment,
}

impl Source for Scripted {
    type Error = std::convert::Infallible;

    fn fill(&mut self, batch: &mut Batch, _names: &mut Names) -> Result<Progress, Self::Error> {
        if let Some(mut next) = self.batches.pop_front() {
            batch.append(&mut next);
        }
        Ok(if self.batches.is_empty() { Progress::Done } else { Progress::More })
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}
