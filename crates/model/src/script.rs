//! Scripted requests: watches with known results, for tests and scenarios.
//!
//! What does not belong here: anything random or measured.

use crate::source::{Batch, Scripted};
use crate::table::Table;
use crate::wait::split::Span;
use crate::{Environment, Name, Names, Operation, Origin, Process, Request, RequestPart};
use crate::{KnownBy, Metric, Sample, Stack, Status, Wait, WaitChain, WaitClass};

mod rows;
mod thinned;

pub use rows::ScriptedSleep;
pub use thinned::thinned;

/// A microsecond, nanoseconds.
pub const US: u64 = 1_000;
/// A millisecond, nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second, nanoseconds.
pub const S: u64 = 1_000_000_000;

/// Time at which a scripted watch begins, CLOCK_MONOTONIC nanoseconds.
pub const START_NS: u64 = 1_000_000_000_000;

/// A watch that is being built.
#[derive(Clone, Debug)]
pub struct Script {
    /// The texts of all rows.
    pub names: Names,
    /// The environment of the watch.
    pub environment: Environment,
    /// All rows so far.
    pub batch: Batch,
}

impl Script {
    /// A finished watch of `seconds` seconds on a host without devices.
    pub fn new(seconds: u64) -> Script {
        let environment = Environment {
            source: "scripted".to_owned(),
            host: "db7".to_owned(),
            kernel: "6.18.44".to_owned(),
            distribution: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            cpus: 4,
            start_ns: START_NS,
            end_ns: START_NS + seconds * 1_000_000_000,
            finished: true,
            tables: ["waits", "wait_chains", "files", "samples"].map(str::to_owned).to_vec(),
            ..Environment::default()
        };
        Script { names: Names::new(), environment, batch: Batch::default() }
    }

    /// Adds a reading of a counter or gauge, `at` nanoseconds after the watch began.
    pub fn counter(&mut self, metric: Metric, subject: &str, at: u64, value: f64) {
        let info = metric.info();
        self.batch.samples.push(Sample {
            time_ns: START_NS + at,
            scope: info.scope,
            subject: self.names.intern(subject),
            metric: self.names.intern(info.word),
            value,
        });
    }

    /// Begins a request; nothing of it counts until [`Draft::add`].
    pub fn request(&mut self, device: &str, operation: Operation) -> Draft<'_> {
        let device = self.names.intern(device);
        let rwbs = self.names.intern("R");
        let request = Request {
            request_id: self.batch.requests.len() as u64 + 1,
            start_ns: START_NS,
            operation,
            origin: origin_of(operation),
            major: 8,
            ..Request::blank(device, rwbs)
        };
        Draft { script: self, request, parts: Vec::new() }
    }

    /// Begins a read of `bytes` bytes.
    pub fn read(&mut self, device: &str, bytes: u64) -> Draft<'_> {
        self.request(device, Operation::Read).bytes(bytes)
    }

    /// Begins a write of `bytes` bytes.
    pub fn write(&mut self, device: &str, bytes: u64) -> Draft<'_> {
        self.request(device, Operation::Write).bytes(bytes)
    }

    /// Adds a process that lives in `container`.
    pub fn process(&mut self, pid: u32, process: &str, cgroup: &str, container: &str) {
        let mut name = |text: &str| self.names.intern(text);
        let process = Process {
            pid,
            tid: pid,
            start_ns: 0,
            process: name(process),
            thread: name(process),
            executable: None,
            arguments: None,
            parent_pid: 1,
            cgroup: Some(name(cgroup)),
            container: Some(name(container)),
            ..Table::blank()
        };
        self.batch.processes.push(process);
    }

    /// Adds a wait of `process` of `ns` nanoseconds, of which `device_ns` and `run_queue_ns` have a
    /// stage of their own; the rest is for `class`.
    pub fn wait(
        &mut self,
        (pid, process): (u32, &str),
        class: WaitClass,
        ns: u64,
        device_ns: u64,
        run_queue_ns: u64,
    ) {
        let wait = self.blank_wait((pid, process), ns);
        self.batch.waits.push(Wait { class, device_ns, run_queue_ns, ..wait });
    }

    /// A wait of which nothing is known but who waits, for how long, and that it began with the
    /// watch.
    fn blank_wait(&mut self, (pid, process): (u32, &str), ns: u64) -> Wait {
        Wait {
            wait_id: self.batch.waits.len() as u64 + 1,
            start_ns: START_NS,
            duration_ns: ns,
            censored: false,
            class: WaitClass::Unknown,
            device_ns: 0,
            queue_ns: 0,
            run_queue_ns: 0,
            cpu_wait_before_ns: None,
            pid,
            tid: pid,
            process: Some(self.names.intern(process)),
            kernel_thread: false,
            ..Table::blank()
        }
    }

    /// Gives the wait that was added last a kernel stack, innermost function first.
    pub fn stacked(&mut self, frames: &[&str]) {
        let id = self.stack_of(frames, false);
        if let Some(wait) = self.batch.waits.last_mut() {
            wait.stack_id = id;
        }
    }

    /// Gives the wait that was added last a device, a file and a system call.
    pub fn waited_on(&mut self, device: &str, file: &str, syscall: u32) {
        let (device, file) = (self.names.intern(device), self.names.intern(file));
        if let Some(wait) = self.batch.waits.last_mut() {
            (wait.device, wait.file) = (Some(device), Some(file));
            wait.syscall = Some(syscall);
        }
    }

    /// Adds a stack of a program or of the kernel, and returns its number; of no functions `None`.
    pub fn stack_of(&mut self, frames: &[&str], user: bool) -> Option<u64> {
        if frames.is_empty() {
            return None;
        }
        let frames: Vec<Name> = frames.iter().map(|frame| self.names.intern(frame)).collect();
        let stacks = &mut self.batch.stacks;
        let known = stacks.iter().find(|stack| stack.user == user && stack.frames == frames);
        let id = known.map_or(stacks.len() as u64 + 1, |stack| stack.stack_id);
        if known.is_none() {
            stacks.push(Stack {
                stack_id: id,
                user,
                frames,
                complete: true,
                reason: None,
                unwound_by: None,
            });
        }
        Some(id)
    }

    /// Adds a chain: the first of `threads` (numbers and names, all of process 1, `db`) slept for
    /// `slept_ns` for the second, and so on; the last waited for `/data/snap` for `storage_ns` of
    /// it.
    pub fn chain(&mut self, threads: &[(u32, &str)], storage_ns: u64, slept_ns: u64) {
        let chain_id = self.batch.wait_chains.last().map_or(1, |last| last.chain_id + 1);
        let mut name = |text: &str| Some(self.names.intern(text));
        let (process, file, device) = (name("db"), name("/data/snap"), name("sda"));
        for (hop, (tid, thread)) in threads.iter().enumerate() {
            let is_last = hop + 1 == threads.len();
            let thread = Some(self.names.intern(thread));
            self.batch.wait_chains.push(WaitChain {
                chain_id,
                path: 0,
                hop: hop as u32,
                start_ns: START_NS,
                duration_ns: slept_ns,
                storage_ns,
                censored: false,
                known_by: (hop > 0).then_some(KnownBy::Woken),
                pid: 1,
                tid: *tid,
                process,
                thread,
                class: is_last.then_some(WaitClass::Fsync),
                device: device.filter(|_| is_last),
                file: file.filter(|_| is_last),
                waits: is_last.then_some(1),
                wait_id: is_last.then_some(1),
                ..Table::blank()
            });
        }
    }

    /// Adds a wait of `process` for requests that were added, `at` nanoseconds after the watch
    /// began and `ns` long, all of it asleep. Its split is what these requests make of it.
    pub fn wait_for(&mut self, who: (u32, &str), at: u64, ns: u64, requests: &[u64]) {
        let mut sleep = self.sleep(who, at, ns).requests(requests);
        sleep.wait.class = WaitClass::Device;
        sleep.add();
    }

    /// The rows in batches of `size` requests, without the texts, which stay in `names`.
    pub fn source(&self, size: usize) -> Scripted {
        let all = &self.batch;
        let first = Batch { requests: Vec::new(), parts: Vec::new(), ..all.clone() };
        let mut batches = vec![first];
        for (index, (request, parts)) in all.requests_with_parts().enumerate() {
            if index % size.max(1) == 0 {
                batches.push(Batch::default());
            }
            if let Some(batch) = batches.last_mut() {
                batch.requests.push(request.clone());
                batch.parts.extend_from_slice(parts);
            }
        }
        Scripted { batches: batches.into(), environment: self.environment.clone() }
    }
}

/// A request that is being built, and its parts.
#[derive(Debug)]
pub struct Draft<'a> {
    script: &'a mut Script,
    /// The request; every column may be set.
    pub request: Request,
    /// The request's parts.
    pub parts: Vec<RequestPart>,
}

impl Draft<'_> {
    /// Sets the size, bytes.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.request.bytes = bytes;
        self
    }

    /// Sets the first sector.
    pub fn sector(mut self, sector: u64) -> Self {
        self.request.sector = sector;
        self
    }

    /// Sets the time of queueing, nanoseconds after the watch began (before it, if negative).
    pub fn at(mut self, nanoseconds: i64) -> Self {
        self.request.start_ns = START_NS.saturating_add_signed(nanoseconds);
        self
    }

    /// Completes the request without a scheduler: Q2G, G2D and D2C in nanoseconds.
    pub fn direct(mut self, q2g: u64, g2d: u64, d2c: u64) -> Self {
        self.request.q2g_ns = Some(q2g);
        self.request.g2d_ns = Some(g2d);
        self.request.d2c_ns = Some(d2c);
        self.request.q2c_ns = Some(q2g + g2d + d2c);
        self
    }

    /// Completes the request after a scheduler: Q2G, G2I, I2D and D2C in nanoseconds.
    pub fn scheduled(mut self, q2g: u64, g2i: u64, i2d: u64, d2c: u64) -> Self {
        self.request.q2g_ns = Some(q2g);
        self.request.g2i_ns = Some(g2i);
        self.request.i2d_ns = Some(i2d);
        self.request.d2c_ns = Some(d2c);
        self.request.q2c_ns = Some(q2g + g2i + i2d + d2c);
        self
    }

    /// Completes the request of which only the time from its issue is known: D2C in nanoseconds.
    pub fn issued(mut self, d2c: u64) -> Self {
        self.request.d2c_ns = Some(d2c);
        self
    }

    /// Completes the request as a bio of a bio-based device: Q2C in nanoseconds.
    pub fn bio(mut self, q2c: u64) -> Self {
        self.request.q2c_ns = Some(q2c);
        self
    }

    /// Sets the status at the end.
    pub fn status(mut self, status: Status) -> Self {
        self.request.status = status;
        self
    }

    /// Ends the request with an error number, negative.
    pub fn error(mut self, error: i32) -> Self {
        self.request.error = Some(error);
        self.status(Status::Error)
    }

    /// Sets the reason why the request exists.
    pub fn origin(mut self, origin: Origin) -> Self {
        self.request.origin = origin;
        self
    }

    /// The request above that it serves.
    pub fn parent(mut self, request_id: u64) -> Self {
        self.request.parent_id = Some(request_id);
        self
    }

    /// The system call that its submitter was in.
    pub fn call(mut self, number: u32) -> Self {
        self.request.syscall = Some(number);
        self
    }

    /// The operation and its flags, as blktrace writes them.
    pub fn rwbs(mut self, rwbs: &str) -> Self {
        self.request.rwbs = self.script.names.intern(rwbs);
        self
    }

    /// Sets the submitting process.
    pub fn by(mut self, pid: u32, process: &str) -> Self {
        self.request.pid = Some(pid);
        self.request.tid = Some(pid);
        self.request.process = Some(self.script.names.intern(process));
        self
    }

    /// The cgroup that it is charged to, and the container derived from it.
    pub fn cgroup(mut self, cgroup: &str, container: &str) -> Self {
        self.request.cgroup = Some(self.script.names.intern(cgroup));
        self.request.container = Some(self.script.names.intern(container));
        self
    }

    /// Adds a part with all bytes of the request, which belongs to `file` and the request's
    /// submitter.
    pub fn file(self, file: &str) -> Self {
        let (bytes, pid, process) = (self.request.bytes, self.request.pid, self.request.process);
        let mut draft = self.part(Ok(file), bytes, Err(""));
        if let Some(part) = draft.parts.last_mut() {
            (part.owner_pid, part.owner, part.owner_reason) = (pid, process, None);
        }
        draft
    }

    /// Adds that part at an offset of the file.
    pub fn file_at(self, file: &str, offset: u64) -> Self {
        let mut draft = self.file(file);
        if let Some(part) = draft.parts.last_mut() {
            part.file_offset = Some(offset);
        }
        draft
    }

    /// `bytes` of it belong to a file and an owner, or to none of them with a reason.
    pub fn part(
        mut self,
        file: Result<&str, &str>,
        bytes: u64,
        owner: Result<(u32, &str), &str>,
    ) -> Self {
        let names = &mut self.script.names;
        let mut part = RequestPart::blank(self.request.request_id, bytes);
        match file {
            Ok(file) => part.file = Some(names.intern(file)),
            Err(reason) => part.file_reason = Some(names.intern(reason)),
        }
        match owner {
            Ok((pid, name)) => {
                (part.owner_pid, part.owner) = (Some(pid), Some(names.intern(name)));
            }
            Err(reason) => part.owner_reason = Some(names.intern(reason)),
        }
        self.parts.push(part);
        self
    }

    /// The cgroup of the owner of the part that was given last.
    pub fn owner_cgroup(mut self, cgroup: &str) -> Self {
        let cgroup = self.script.names.intern(cgroup);
        if let Some(part) = self.parts.last_mut() {
            part.owner_cgroup = Some(cgroup);
        }
        self
    }

    /// Sets the stacks, innermost function first; they stand for `weight` requests.
    pub fn stacks(mut self, kernel: &[&str], user: &[&str], weight: u32) -> Self {
        self.request.stack_id = self.script.stack_of(kernel, false);
        self.request.user_stack_id = self.script.stack_of(user, true);
        self.request.stack_weight = weight;
        self
    }

    /// Adds it to the script; returns its request id.
    pub fn add(self) -> u64 {
        let id = self.request.request_id;
        self.script.batch.requests.push(self.request);
        self.script.batch.parts.extend(self.parts);
        id
    }
}

/// The times of a request, as a wait sees them.
fn span_of(request: &Request) -> Span {
    let queued_ns = request.start_ns;
    let completed_ns = request.q2c_ns.map_or(u64::MAX, |q2c| queued_ns + q2c);
    let issued_ns = request.d2c_ns.map_or(0, |d2c| completed_ns - d2c);
    Span { queued_ns, issued_ns, completed_ns }
}

fn origin_of(operation: Operation) -> Origin {
    match operation {
        Operation::Read => Origin::Read,
        Operation::Write => Origin::Write,
        Operation::Flush => Origin::Flush,
        Operation::Discard => Origin::Discard,
        _ => Origin::Unknown,
    }
}
