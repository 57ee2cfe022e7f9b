//! Kinds of work: programs that somebody waits for, and work in the background.
//!
//! What does not belong here: who waits for whom within a program (see `analysis::waits::chains`).

use super::thresholds::{BUSY, MOST, WARNING_SHARE};
use super::{Facts, Waited};
use crate::programs::{self, FileRole};
use crate::{Subject, words};
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_analysis::summary::{ChainRow, ChainStep, DeviceSummary, Direction, DirectionSummary};
use iowhy_model::Metric;
use std::collections::{BTreeMap, BTreeSet};

/// The largest mean number of others' blocked threads beside a program that has its device to
/// itself: as for a warning.
const ALONE: f64 = super::WARNING_THREADS;

/// Less than any sound disk takes of large requests in order, bytes per second. Chosen: just below
/// what USB 2 and a network of 100 Mbit/s carry, and above what cheap flash and shingled disks
/// write.
const SLOW_BULK_PER_S: f64 = 10.0 * 1024.0 * 1024.0;
/// Requests of which a disk that seeks for each of them takes more than that, bytes. Chosen: 100
/// seeks a second take 25 MiB.
const LARGE: f64 = 256.0 * 1024.0;

/// The least share of a program's waits that are one process's for it to stand for the program.
/// Chosen.
const NEARLY_ALL: f64 = 0.9;

/// The low rate of a device that takes little of large requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlowBulk {
    /// The rate, bytes per second.
    pub per_s: f64,
    /// The mean size of a request, bytes.
    pub size: f64,
}

impl SlowBulk {
    /// Returns the end of a sentence about the subject's device.
    pub fn words(&self, subject: &Subject) -> String {
        format!(
            "; {} takes only {} a second, in requests of {}",
            subject.device.as_deref().unwrap_or("the device"),
            words::bytes(self.per_s),
            words::bytes(self.size),
        )
    }
}

/// How many times as long others wait for one thread as it waits itself, for several of them to
/// wait at once. Chosen.
const AT_ONCE: f64 = 1.5;

/// Another program that waits for a process which waits for storage.
#[derive(Clone, PartialEq, Debug)]
pub struct WaiterBehind {
    /// It, as sentences name it.
    pub who: String,
    /// Their verb.
    pub verb: &'static str,
    /// How many of its threads wait for one thread at once; 1 also if that is not known.
    pub threads: u64,
    /// How long it waits, nanoseconds, of all of its threads together.
    pub time_ns: u64,
}

impl Facts<'_> {
    /// Returns the device that a finding is about.
    pub fn device_of(&self, subject: &Subject) -> Option<&DeviceSummary> {
        self.devices().iter().find(|device| Some(&device.device) == subject.device.as_ref())
    }

    /// Returns what a busy device takes of large requests if no sound disk is so slow.
    pub fn slow_bulk(&self, device: &DeviceSummary) -> Option<SlowBulk> {
        let sum = |of: fn(&DirectionSummary) -> u64| {
            device.directions.0.iter().map(of).fold(0, u64::saturating_add) as f64
        };
        let (requests, bytes) =
            (sum(|direction| direction.requests), sum(|direction| direction.bytes));
        let slow = SlowBulk { per_s: bytes / self.seconds(), size: bytes / requests.max(1.0) };
        let is_slow = slow.per_s < SLOW_BULK_PER_S && slow.size >= LARGE;
        (is_slow && device.util_share.unwrap_or(0.0) >= BUSY).then_some(slow)
    }

    /// Whether a program copies as much as its device takes, and nobody else waits for it, but for
    /// background work: a copy
    /// or a backup is as fast as the device, which is no trouble. A database is not such a program.
    pub fn is_copied_by(&self, device: &DeviceSummary, process: &str, file: Option<&str>) -> bool {
        let rows = device.processes.iter().filter(|row| row.subject.process == process);
        let moved: u64 = rows.map(|row| row.usage.bytes).fold(0, u64::saturating_add);
        let sum = |of: fn(&DirectionSummary) -> u64| {
            device.directions.0.iter().map(of).fold(0, u64::saturating_add)
        };
        let others = self.waits(|wait| {
            let is_other = wait.process != process && !self.is_background(wait);
            is_other && wait.device.as_deref() == Some(&device.device)
        });
        let is_alone = (others.time_ns as f64) < ALONE * self.duration_ns() as f64;
        let is_most = moved.saturating_mul(2) >= sum(|direction| direction.bytes);
        let in_order = sum(|direction| direction.sequential_bytes).saturating_mul(2);
        let is_known = programs::is_store(process, file) || self.store_file(process).is_some();
        let is_bulk = moved as f64 / self.seconds() >= super::BULK_PER_S;
        let is_in_order = in_order >= sum(|direction| direction.bytes);
        let is_sound = self.slow_bulk(device).is_none();
        !is_known && is_alone && is_most && is_in_order && is_bulk && is_sound
    }

    /// Returns a file that only a store has and that a program works with, whatever its name: it
    /// syncs it, or writes it as the log of a file that it reads. Who copies such files does
    /// neither.
    pub fn store_file(&self, process: &str) -> Option<&str> {
        let rows = self.summary().activity.iter().flat_map(|report| &report.rows);
        let own: Vec<_> = rows.filter(|row| row.process.as_deref() == Some(process)).collect();
        let is_read = |base: &str| {
            own.iter().any(|row| row.file.as_deref() == Some(base) && row.counts.reads > 0)
        };
        own.iter().find_map(|row| {
            let file = row.file.as_deref()?;
            let is_synced = row.counts.fsyncs > 0;
            let base = file.rsplit_once('-').map(|(base, _)| base);
            let is_beside = row.counts.writes > 0 && base.is_some_and(is_read);
            let role = (is_synced || is_beside).then(|| programs::role_of(None, file)).flatten()?;
            let is_of_store = match role {
                FileRole::WriteAheadLog => true,
                FileRole::Compaction => is_synced,
                _ => false,
            };
            is_of_store.then_some(file)
        })
    }

    /// Whether these waits are of programs that write in bulk, work for no clients, and wait less
    /// than half of the time: large files that are copied now and then reach a sound device at that
    /// time or later.
    pub fn is_bulk_now_and_then(&self, device: &DeviceSummary, waited: &Waited<'_>) -> bool {
        let is_own = |name: &str| waited.groups.iter().any(|group| group.process == name);
        let rows = device.processes.iter().filter(|row| is_own(&row.subject.process));
        let written = rows.map(|row| row.usage.directions[Direction::Write].bytes);
        let written = written.fold(0, u64::saturating_add);
        let is_bulk = written as f64 >= super::BULK_PER_S * self.seconds();
        let is_of_clients = |group: &WaitGroup| {
            self.is_serving(group.pid) || programs::is_store(&group.process, group.file.as_deref())
        };
        is_bulk
            && self.slow_bulk(device).is_none()
            && (waited.time_ns as f64) < MOST * self.duration_ns() as f64
            && !waited.groups.iter().any(|group| is_of_clients(group))
    }

    /// Whether a finding is about a program that copies so.
    pub fn is_about_copy(&self, subject: &Subject) -> bool {
        let process = subject.process.as_deref().unwrap_or_default();
        let device = self.device_of(subject);
        device.is_some_and(|device| self.is_copied_by(device, process, subject.file.as_deref()))
    }

    /// Whether a program works in the background, as a backup or a database's snapshot does: nobody
    /// waits for it, so its own waits hold nobody up.
    pub fn is_background(&self, group: &WaitGroup) -> bool {
        let role =
            group.file.as_deref().and_then(|file| programs::role_of(Some(&group.process), file));
        let is_aside = |file: &str| programs::is_merged_aside(&group.process, file);
        let is_merge = self.is_sync(group) && group.file.as_deref().is_some_and(is_aside);
        let is_held = self.holds_itself_up(group) || self.stops_answering(group);
        let is_snapshot = role == Some(FileRole::Snapshot) && !is_held;
        let is_own_work =
            is_snapshot || is_merge && !self.is_waited_for_within(group.pid, |_| true);
        let is_named =
            programs::is_maintenance(&group.process) || is_own_work || self.serves_device(group);
        let is = is_named || self.is_seen_in_background(group.pid, group.device.as_deref());
        is && !self.is_waited_for(group.pid)
    }

    /// Whether a process serves a file system (FUSE) that holds the file of a loop device: what it
    /// waits for is in the requests of that device.
    fn serves_device(&self, group: &WaitGroup) -> bool {
        let own = words::process(&group.process, Some(group.pid), None);
        let environment = &self.summary().environment;
        let files = environment.devices.iter().filter_map(|device| device.backing_file.as_deref());
        files.filter_map(|file| self.mount_of_file(file)).any(|it| it.server.as_ref() == Some(&own))
    }

    /// Whether other threads of a process that works for clients wait until these waits end, as
    /// where all of them are stopped until one has written a dump.
    pub fn holds_itself_up(&self, group: &WaitGroup) -> bool {
        let pid = group.pid;
        let is_behind =
            |row: &ChainRow| row.class == group.class.word() && row.device == group.device;
        self.is_serving(pid) && self.is_waited_for_within(pid, is_behind)
    }

    /// Whether the main thread of a process that takes clients in waits so most of the time: a
    /// server that answers all of them in one thread answers nobody meanwhile.
    fn stops_answering(&self, group: &WaitGroup) -> bool {
        self.has_had(Metric::WorkListeners, group.pid)
            && group.is_main_foremost
            && group.foremost_ns as f64 >= MOST * self.duration_ns() as f64
    }

    /// Whether threads of a process wait for another one of it that waits for storage, as where
    /// compaction has to catch up before more is taken.
    fn is_waited_for_within(&self, pid: u32, is_meant: impl Fn(&ChainRow) -> bool) -> bool {
        self.is_felt(self.chains().filter(|row| {
            let is_own = |step: Option<&ChainStep>| step.is_some_and(|step| step.pid == pid);
            let is_within = is_own(row.steps.first()) && is_own(row.steps.last());
            is_within && row.steps.len() > 1 && is_meant(row)
        }))
    }

    /// Returns who dumps a database through processes of a finding's program, as sentences name it,
    /// with the verb, and what to do about it, if it waits for them for half of the watch and more;
    /// for `pid` alone, if the finding is about that one.
    pub fn dumped_by(
        &self,
        subject: &Subject,
        pid: Option<u32>,
    ) -> Option<(String, &'static str, &'static str)> {
        let is_server = |row: &ChainRow, step: &ChainStep| match pid {
            Some(pid) => step.pid == pid && step.processes <= 1,
            None => {
                let is_there = subject.device.is_none() || row.device == subject.device;
                is_there && Some(&step.process) == subject.process.as_ref()
            }
        };
        let mut dumps: BTreeMap<&str, (u64, BTreeSet<u32>, &'static str)> = BTreeMap::new();
        for row in self.chains() {
            // Other processes of the server may lie between.
            let Some((first, behind)) = row.steps.split_first() else { continue };
            let advice = programs::dump_advice(&first.process);
            let Some(advice) = advice.filter(|_| behind.iter().any(|step| is_server(row, step)))
            else {
                continue;
            };
            let known = dumps.entry(&first.process).or_insert((0, BTreeSet::new(), advice));
            known.0 = known.0.saturating_add(row.time_ns);
            known.1.insert(first.pid);
        }
        let most = dumps.into_iter().max_by_key(|(_, (time_ns, ..))| *time_ns);
        let (name, (time_ns, pids, advice)) = most?;
        let (who, verb) = match pids.len() {
            0 | 1 => (words::process(name, pids.first().copied(), None), "dumps"),
            several => (format!("{several} processes of {name}"), "dump"),
        };
        (time_ns.saturating_mul(2) >= self.duration_ns()).then_some((who, verb, advice))
    }

    /// Returns the chains in which other programs wait for a process that waits for storage, with
    /// the first of them.
    fn waiters_behind(&self, pid: u32) -> impl Iterator<Item = (&ChainRow, &ChainStep)> {
        let chains = self.chains();
        chains.filter_map(move |row| {
            let place = row.steps.iter().position(|step| step.pid == pid && step.processes <= 1)?;
            let (before, own) = (row.steps.get(..place)?, row.steps.get(place)?);
            // Other processes of its own program may lie between.
            let other = before.iter().rposition(|step| step.process != own.process)?;
            (other == 0).then_some((row, before.first()?))
        })
    }

    /// Returns the process that a finding is about, or the one of its program that waits for nearly
    /// all of the time.
    pub fn main_pid(&self, subject: &Subject) -> Option<u32> {
        if subject.pid.is_some() {
            return subject.pid;
        }
        let waited = self.waits(|group| {
            let is_here = subject.device.is_none() || group.device == subject.device;
            is_here && Some(&group.process) == subject.process.as_ref()
        });
        let pid = waited.groups.first()?.pid;
        let own = waited.groups.iter().filter(|group| group.pid == pid);
        let own_ns = own.map(|group| group.time_ns).fold(0, u64::saturating_add);
        (own_ns as f64 >= NEARLY_ALL * waited.time_ns as f64).then_some(pid)
    }

    /// Returns the other program that waits longest for a process which waits for storage.
    pub fn longest_behind(&self, pid: u32) -> Option<WaiterBehind> {
        let (row, first) = self.waiters_behind(pid).max_by_key(|(row, _)| row.time_ns)?;
        let own_ns = self.waits(|group| group.pid == pid).time_ns;
        // Several wait at once if they wait for longer than the one thread does.
        let is_one = row.steps.last().is_some_and(|last| last.pid == pid && last.tid.is_some());
        let are_many = is_one && row.time_ns as f64 >= AT_ONCE * own_ns as f64;
        let (who, verb) = match first.processes {
            0 | 1 => (words::process(&first.process, Some(first.pid), None), "waits"),
            several => (format!("{several} processes of {}", first.process), "wait"),
        };
        // A thread of the kernel has no clients of its own.
        let serves = self.has_had(Metric::WorkClients, pid);
        let threads = if are_many && serves && first.processes <= 1 { first.threads } else { 1 };
        Some(WaiterBehind { who, verb, threads, time_ns: row.time_ns })
    }

    /// Whether several other processes wait for one that works for clients, each for half of the
    /// watch and more.
    pub fn holds_clients_up(&self, pid: u32) -> bool {
        let mut clients: BTreeMap<u32, u64> = BTreeMap::new();
        for (row, first) in self.waiters_behind(pid) {
            let processes = first.processes.max(1);
            // The time is that of all of them together.
            if row.time_ns.saturating_mul(2) / processes >= self.duration_ns() {
                let known = clients.entry(first.pid).or_default();
                *known = processes.max(*known);
            }
        }
        self.is_serving(pid) && clients.values().copied().fold(0, u64::saturating_add) >= 2
    }

    /// Whether other programs wait for a process, for a tenth of the watch in all. Chosen: as for a
    /// warning.
    fn is_waited_for(&self, pid: u32) -> bool {
        let chains = self.chains();
        let behind = chains.filter(|row| {
            let is_other = row.steps.first().is_some_and(|step| step.pid != pid);
            is_other && row.steps.iter().skip(1).any(|step| step.pid == pid)
        });
        self.is_felt(behind)
    }

    /// Whether sleeps in such chains take a tenth of the watch.
    fn is_felt<'a>(&self, rows: impl Iterator<Item = &'a ChainRow>) -> bool {
        let slept_ns = rows.map(|row| row.time_ns).fold(0, u64::saturating_add);
        slept_ns as f64 >= WARNING_SHARE * self.duration_ns() as f64
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::file::Counts;
    use iowhy_model::metric::process_subject;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Metric, WaitClass};

    #[test]
    fn the_longest_of_those_behind_a_process_is_named() {
        let mut script = Script::new(10);
        script.wait((1, "db"), WaitClass::Device, 9000 * MS, 9000 * MS, 0);
        script.chain(&[(2, "client"), (1, "db")], 1000 * MS, 1000 * MS);
        script.chain(&[(3, "batch"), (1, "db")], 3000 * MS, 3000 * MS);
        script.chain(&[(4, "far"), (3, "batch"), (1, "db")], 5000 * MS, 5000 * MS);
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, row.thread);
        }
        let summary = script.summary();
        let behind = Facts::new(&summary).longest_behind(1).unwrap();
        let waiter = (behind.who.as_str(), behind.verb, behind.threads, behind.time_ns);
        assert_eq!(waiter, ("batch (3)", "waits", 1, 3000 * MS));
        assert_eq!(Facts::new(&summary).longest_behind(2), None);
    }

    #[test]
    fn merges_are_in_the_background_until_threads_wait_for_them() {
        let is_background = |file: &str, behind_ms: u64| {
            let mut script = Script::new(10);
            script.wait((7, "influxd"), WaitClass::Fsync, 5000 * MS, 5000 * MS, 0);
            script.waited_on("sda", file, 74);
            if behind_ms > 0 {
                script.chain(&[(8, "writer"), (7, "influxd")], behind_ms * MS, behind_ms * MS);
            }
            for row in &mut script.batch.wait_chains {
                (row.pid, row.process) = (7, script.batch.waits[0].process);
            }
            let summary = script.summary();
            let facts = Facts::new(&summary);
            facts.is_background(&facts.summary().patterns.waits[0])
        };
        assert!(is_background("/srv/data/db/1/000000001-000000002.tsm", 0));
        assert!(!is_background("/srv/data/db/1/000000001-000000002.tsm", 2000));
        assert!(!is_background("/srv/wal/db/1/_00001.wal", 0));
    }

    #[test]
    fn a_snapshot_that_the_main_thread_of_a_server_writes_holds_its_clients_up() {
        let is_background = |tid: u32, listens: bool| {
            let mut script = Script::new(10);
            script.wait((7, "redis-server"), WaitClass::Device, 7000 * MS, 7000 * MS, 0);
            script.batch.waits[0].tid = tid;
            script.waited_on("sda", "/srv/redis/temp-7.rdb", 277);
            let server = process_subject(7, "redis-server");
            script.sample(1, Metric::WorkClients, &server, 3.0);
            script.sample(1, Metric::WorkListeners, &server, f64::from(u8::from(listens)));
            let summary = script.summary();
            let facts = Facts::new(&summary);
            facts.is_background(&facts.summary().patterns.waits[0])
        };
        assert!(!is_background(7, true));
        assert!(is_background(9, true), "a thread of its own");
        assert!(is_background(7, false), "a child, with the connections of its parent");
    }

    #[test]
    fn a_store_in_any_program_copies_nothing() {
        let found = |fsyncs: u64| {
            let mut script = Script::new(10);
            for index in 0..300_u64 {
                let write = script.write("sda", 1 << 20).by(7, "python3").sector(index * 2048);
                write.at((index * 33 * MS) as i64).direct(500, 500, 30 * MS).add();
            }
            let counts = Counts { writes: 9, write_bytes: 300 << 20, fsyncs, ..Counts::default() };
            script.did((7, "python3"), "/srv/db/000007.ldb", counts);
            let summary = script.summary();
            let facts = Facts::new(&summary);
            facts.is_copied_by(&facts.devices()[0], "python3", Some("/srv/db"))
        };
        assert!(found(0) && !found(9));
    }

    #[test]
    fn who_writes_the_log_of_a_file_that_it_reads_works_with_a_database() {
        let found = |log: &str| {
            let mut script = Script::new(10);
            let reads = Counts { reads: 9, ..Counts::default() };
            script.did((7, "python3"), "/srv/app.db", reads);
            script.did((7, "python3"), log, Counts { writes: 9, ..Counts::default() });
            let summary = script.summary();
            Facts::new(&summary).store_file("python3").map(str::to_owned)
        };
        assert_eq!(found("/srv/app.db-wal").as_deref(), Some("/srv/app.db-wal"));
        assert_eq!(found("/backup/app.db-wal"), None, "a copy");
    }

    #[test]
    fn a_worker_is_named_by_its_function_and_clients_wait_behind_its_siblings() {
        let mut script = Script::new(10);
        script.wait((1, "postgres"), WaitClass::Device, 9000 * MS, 9000 * MS, 0);
        script.chain(&[(3, "shop"), (2, "postgres"), (1, "postgres")], 8000 * MS, 8000 * MS);
        let stack = script.stack_of(&["fdatasync", "WalReceiverMain"], true);
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, row.thread);
            row.user_stack_id = stack.filter(|_| row.tid == 1);
        }
        let found = diagnose(&script.summary()).findings.remove(0);
        let said = "postgres (1) is the WAL receiver of a standby: it waits ";
        assert!(found.sentence.starts_with(said), "{}", found.sentence);
        assert!(found.sentence.ends_with("; shop (3) waits for postgres"), "{}", found.sentence);
        assert!(found.fix.contains("ANY 1 (a, b)"), "{}", found.fix);
    }

    #[test]
    fn clients_that_wait_at_once_for_one_thread_are_counted() {
        let found = |ms: u64| {
            let mut script = Script::new(10);
            script.wait((1, "shop-api"), WaitClass::PageRead, 8000 * MS, 8000 * MS, 0);
            script.sample(1, Metric::WorkClients, &process_subject(1, "shop-api"), 1.0);
            for client in 0..4 {
                let steps = [(20 + client, "wrk"), (1, "shop-api")];
                script.chain(&steps, ms * MS, ms * MS);
            }
            for row in &mut script.batch.wait_chains {
                (row.pid, row.process) = (row.tid, row.thread);
                row.pid = row.pid.min(20);
            }
            diagnose(&script.summary()).findings.remove(0)
        };
        let many = found(6000);
        let said = "; 4 threads of wrk (20) wait for one of shop-api";
        assert!(many.sentence.ends_with(said), "{}", many.sentence);
        assert!(many.fix.starts_with("let other threads do"), "{}", many.fix);
        let by_turns = found(2000);
        assert!(
            by_turns.sentence.ends_with("; wrk (20) waits for shop-api"),
            "{}",
            by_turns.sentence
        );
    }

    #[test]
    fn a_servers_only_worker_that_reads_all_the_time_is_worth_a_warning() {
        let severity = |clients: u32, waited_ms: u64| {
            let mut script = Script::new(10);
            for _ in 0..waited_ms / 5 {
                script.wait((1, "shop-api"), WaitClass::PageRead, 5 * MS, 5 * MS, 0);
            }
            script.sample(1, Metric::WorkClients, &process_subject(1, "shop-api"), 1.0);
            for client in 0..clients {
                script.chain(&[(20 + client, "curl"), (1, "shop-api")], 8000 * MS, 8000 * MS);
            }
            for row in &mut script.batch.wait_chains {
                (row.pid, row.process) = (row.tid, row.thread);
            }
            let found = diagnose(&script.summary()).findings;
            found.into_iter().find(|finding| finding.cause == "slow-reads").unwrap().severity
        };
        assert_eq!(severity(2, 9800), Severity::Warning);
        assert_eq!(severity(1, 9800), Severity::Info, "who asks for much waits for it");
        assert_eq!(severity(2, 6000), Severity::Info, "it has time to answer");
    }

    #[test]
    fn who_dumps_a_database_is_named_with_what_to_do() {
        let mut script = Script::new(10);
        script.wait((1, "mariadbd"), WaitClass::Device, 9000 * MS, 9000 * MS, 0);
        script.chain(&[(2, "mariadb-dump"), (1, "mariadbd")], 9000 * MS, 9000 * MS);
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, row.thread);
        }
        let found = diagnose(&script.summary()).findings.remove(0);
        let said = "; mariadbd works for mariadb-dump (2), which dumps the database";
        assert!(found.sentence.ends_with(said), "{}", found.sentence);
        assert!(found.fix.starts_with("with --single-transaction"), "{}", found.fix);
    }

    #[test]
    fn of_several_processes_some_work_for_those_that_dump() {
        let mut script = Script::new(10);
        for (server, dump) in [(1, 11), (2, 12), (3, 0)] {
            script.wait((server, "postgres"), WaitClass::Device, 9000 * MS, 9000 * MS, 0);
            if dump > 0 {
                script.chain(&[(dump, "pg_dump"), (server, "postgres")], 9000 * MS, 9000 * MS);
            }
        }
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, row.thread);
        }
        let found = diagnose(&script.summary()).findings.remove(0);
        let said = "; some processes of postgres work for 2 processes of pg_dump, which dump the \
                    database";
        assert!(found.sentence.ends_with(said), "{}", found.sentence);
    }
}
