//! Rows of a scripted watch other than requests: waits with their stacks, chains, what processes do
//! with files, counters, devices, mounts.
//!
//! What does not belong here: requests (see [`super`]).

use super::{START_NS, Script, span_of};
use crate::environment::{Device, Mount};
use crate::table::Table;
use crate::wait::class::{StackVerdict, verdict};
use crate::wait::split::{Span, split};
use crate::{
    FileActivity, KnownBy, Metric, Name, Sample, Wait, WaitChain, WaitClass, WaitRequest,
    file::Counts,
};

impl Script {
    /// A block device, and settings of it by their names under /sys/block/NAME.
    pub fn device(&mut self, name: &str, settings: &[(&str, &str)]) -> &mut Device {
        let devices: &mut Vec<Device> = &mut self.environment.devices;
        let all = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        devices.push(Device {
            name: name.to_owned(),
            major: 8,
            minor: 16 * devices.len() as u32,
            settings_start: all.collect(),
            ..Device::default()
        });
        let last = devices.len() - 1;
        &mut devices[last]
    }

    /// A file system of `kind`, of what `source` names, at `path`, with the options that most have.
    pub fn mount(&mut self, path: &str, kind: &str, source: &str) {
        self.environment.mounts.push(Mount {
            root: "/".to_owned(),
            path: path.to_owned(),
            kind: kind.to_owned(),
            source: source.to_owned(),
            options: "rw,relatime".to_owned(),
            ..Mount::default()
        });
    }

    /// A counter's value, `at` nanoseconds after the watch began.
    pub fn sample(&mut self, at: u64, metric: Metric, subject: &str, value: f64) {
        let info = metric.info();
        let (subject, metric) = (self.names.intern(subject), self.names.intern(info.word));
        let time_ns = START_NS + at;
        self.batch.samples.push(Sample { time_ns, scope: info.scope, subject, metric, value });
    }

    /// Adds a process's uses of a file, or of all files of a pattern, as far as they are counted.
    pub fn did(&mut self, who: (u32, &str), file: &str, counts: Counts) -> &mut FileActivity {
        let row = FileActivity {
            process: Some(self.names.intern(who.1)),
            file: Some(self.names.intern(file)),
            ..FileActivity::of(START_NS, who.0, &counts)
        };
        self.batch.files.push(row);
        let last = self.batch.files.len() - 1;
        &mut self.batch.files[last]
    }

    /// Begins a wait of `ns` nanoseconds, `at` nanoseconds after the watch began; nothing of it
    /// counts until [`ScriptedSleep::add`].
    pub fn sleep(&mut self, who: (u32, &str), at: u64, ns: u64) -> ScriptedSleep<'_> {
        let blank = self.blank_wait(who, ns);
        let wait = Wait { start_ns: START_NS + at, ..blank };
        ScriptedSleep { script: self, wait, links: Vec::new() }
    }

    /// Adds a chain: `waiters` threads of a process, the first of which has the number `tid` and
    /// all of which have the same name and user stack, slept in futex(2) for the thread whose wait
    /// was added last, for as long as that wait.
    pub fn behind(&mut self, tid: u32, waiters: u32, thread: &str, user: &[&str], known: KnownBy) {
        let Some(last) = self.batch.waits.last().cloned() else { return };
        let stack = self.stack_of(user, true);
        let (first, holder) = (self.names.intern(thread), last.process);
        for index in 0..waiters {
            let chain_id = self.batch.wait_chains.last().map_or(1, |row| row.chain_id + 1);
            let row = WaitChain {
                chain_id,
                path: 0,
                hop: 0,
                start_ns: last.start_ns,
                duration_ns: last.duration_ns,
                storage_ns: last.duration_ns,
                censored: last.censored,
                known_by: None,
                pid: last.pid,
                tid: tid + index,
                process: last.process,
                thread: Some(first),
                // futex
                syscall: Some(202),
                user_stack_id: stack,
                ..Table::blank()
            };
            self.batch.wait_chains.push(row.clone());
            self.batch.wait_chains.push(WaitChain {
                hop: 1,
                known_by: Some(known),
                tid: last.tid,
                thread: holder,
                syscall: last.syscall,
                class: Some(last.class),
                device: last.device,
                file: last.file,
                waits: Some(1),
                wait_id: Some(last.wait_id),
                stack_id: last.stack_id,
                user_stack_id: last.user_stack_id,
                ..row
            });
        }
    }
}

/// A wait that is being built.
#[derive(Debug)]
pub struct ScriptedSleep<'a> {
    script: &'a mut Script,
    /// The wait; every column may be set.
    pub wait: Wait,
    links: Vec<WaitRequest>,
}

impl ScriptedSleep<'_> {
    /// The number of the system call.
    pub fn call(mut self, number: u32) -> Self {
        self.wait.syscall = Some(number);
        self
    }

    /// The thread, where it is not the process's first.
    pub fn thread(mut self, tid: u32) -> Self {
        self.wait.tid = tid;
        self
    }

    /// The file that the call was given.
    pub fn file(mut self, file: &str) -> Self {
        self.wait.file = Some(self.script.names.intern(file));
        self
    }

    /// The disk.
    pub fn device(mut self, device: &str) -> Self {
        self.wait.device = Some(self.script.names.intern(device));
        self
    }

    /// The container of its process.
    pub fn container(mut self, container: &str) -> Self {
        self.wait.container = Some(self.script.names.intern(container));
        self
    }

    /// Marks the wait as begun before the watch, or as longer than it.
    pub fn censored(mut self) -> Self {
        self.wait.censored = true;
        self
    }

    /// The thread is the kernel's own.
    pub fn of_kernel(mut self) -> Self {
        self.wait.kernel_thread = true;
        self
    }

    /// Sets the kernel stack, innermost function first; the class is what a live watch makes of it.
    pub fn stack(mut self, frames: &[&str]) -> Self {
        self.wait.stack_id = self.script.stack_of(frames, false);
        self.wait.class = match verdict(frames.iter().copied()) {
            StackVerdict::Storage(class) => class,
            StackVerdict::Elsewhere | StackVerdict::Unknown => WaitClass::Unknown,
        };
        self
    }

    /// Sets the user stack, innermost function first.
    pub fn user_stack(mut self, frames: &[&str]) -> Self {
        self.wait.user_stack_id = self.script.stack_of(frames, true);
        self
    }

    /// Sets the time at its end in which the thread was awake and waited for a CPU, nanoseconds.
    pub fn late(mut self, ns: u64) -> Self {
        self.wait.run_queue_ns = ns;
        self
    }

    /// Ties the wait to these requests, which were added: their stages split it.
    pub fn requests(mut self, requests: &[u64]) -> Self {
        let (start_ns, end_ns) = (self.wait.start_ns, self.wait.start_ns + self.wait.duration_ns);
        let all = &self.script.batch.requests;
        // Numbers count from 1.
        let own = requests.iter().filter_map(|id| all.get(*id as usize - 1));
        let own: Vec<(u64, Name, Span)> =
            own.map(|request| (request.request_id, request.device, span_of(request))).collect();
        let spans: Vec<Span> = own.iter().map(|(.., span)| *span).collect();
        let split = split(start_ns, 0, end_ns, &spans);
        (self.wait.device_ns, self.wait.queue_ns) = (split.device_ns, split.queue_ns);
        self.wait.device = own.last().map(|(_, device, _)| *device).or(self.wait.device);
        let wait_id = self.wait.wait_id;
        self.links = own
            .into_iter()
            .map(|(request_id, _, span)| WaitRequest {
                wait_id,
                request_id,
                overlap_ns: span
                    .completed_ns
                    .min(end_ns)
                    .saturating_sub(span.queued_ns.max(start_ns)),
            })
            .collect();
        self
    }

    /// Adds it to the script.
    pub fn add(self) {
        self.script.batch.waits.push(self.wait);
        self.script.batch.wait_requests.extend(self.links);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_the_class_of_its_stack_and_the_stages_of_its_requests() {
        let mut script = Script::new(10);
        let id = script.write("sda", 4096).direct(0, 1_000, 4_000).add();
        let stack = ["schedule", "jbd2_log_wait_commit", "ext4_sync_file"];
        script.sleep((7, "db"), 0, 6_000).call(74).stack(&stack).requests(&[id]).add();
        script.behind(8, 2, "worker", &["pthread_mutex_lock"], KnownBy::Owner);
        let [wait] = &script.batch.waits[..] else { panic!("one wait") };
        assert_eq!(wait.class, WaitClass::JournalCommit);
        assert_eq!((wait.device_ns, wait.queue_ns), (4_000, 1_000));
        assert_eq!(wait.device, Some(script.names.intern("sda")));
        assert_eq!(script.batch.wait_chains.len(), 4);
    }
}
