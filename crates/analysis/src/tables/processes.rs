//! I/O by process: the kernel's counters, the requests that devices completed for it, and the
//! blocked time of its threads, in one row. `iowhy proc`.
//!
//! What does not belong here: the sums themselves (see `summary`).

use crate::summary::{Direction, Summary};
use crate::sums::own_io::PROCESS;
use iowhy_model::Metric;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::metric::process_of;
use serde::Serialize;
use std::collections::BTreeMap;

/// The I/O of one process, per second of the watch.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ProcessActivity {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Its user, if it is known.
    pub user: Option<String>,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// Bytes of device reads that it caused; `None` if its counters were not read.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes of pages that it made dirty, and of direct writes.
    pub write_bytes_per_s: Option<f64>,
    /// Bytes of dirty pages that it discarded before they were written.
    pub cancelled_bytes_per_s: Option<f64>,
    /// Bytes that its read calls returned, from any source.
    pub logical_read_bytes_per_s: Option<f64>,
    /// Bytes that its write calls wrote, to any target.
    pub logical_write_bytes_per_s: Option<f64>,
    /// Page faults that needed a read from a device.
    pub major_faults_per_s: Option<f64>,
    /// Reads that devices completed for it.
    pub device_reads_per_s: f64,
    /// Writes that devices completed with its data, whichever process submitted them.
    pub device_writes_per_s: f64,
    /// Bytes of these reads and writes.
    pub device_bytes_per_s: f64,
    /// Time in which its threads were blocked for storage as a share of the watch: above 1 if
    /// several wait at once; `None` if waits were not collected.
    pub blocked_share: Option<f64>,
}

impl ProcessActivity {
    /// Whether the kernel's counters of the process were read.
    pub fn is_counted(&self) -> bool {
        self.read_bytes_per_s.is_some() || self.major_faults_per_s.is_some()
    }

    /// Whether nothing is known of it but that it was blocked: it was too short to be read twice.
    pub fn is_only_blocked(&self) -> bool {
        !self.is_counted() && self.device_reads_per_s + self.device_writes_per_s == 0.0
    }

    /// Counters of one file are read together, and have a value once they change: a missing one is
    /// zero if another one has a value. A process without waits has a blocked time of zero if waits
    /// were collected.
    fn fill(&mut self, waits: bool) {
        let io = [
            &mut self.read_bytes_per_s,
            &mut self.write_bytes_per_s,
            &mut self.cancelled_bytes_per_s,
            &mut self.logical_read_bytes_per_s,
            &mut self.logical_write_bytes_per_s,
        ];
        if io.iter().any(|counter| counter.is_some()) {
            io.into_iter().for_each(|counter| _ = counter.get_or_insert(0.0));
        }
        if waits {
            self.blocked_share.get_or_insert(0.0);
        }
    }
}

/// The I/O of all processes, those with most bytes first.
pub fn processes(summary: &Summary) -> Vec<ProcessActivity> {
    let mut rows: BTreeMap<u32, ProcessActivity> = BTreeMap::new();
    counted(summary, &mut rows);
    for row in &summary.processes.rows {
        let Some(pid) = row.subject.pid else { continue };
        let seconds = (summary.watch.duration_ns as f64 / 1e9).max(1e-9);
        let own = named(&mut rows, pid, &row.subject.process);
        own.user.clone_from(&row.subject.user);
        own.container.clone_from(&row.subject.container);
        own.device_reads_per_s += row.usage.directions[Direction::Read].requests as f64 / seconds;
        own.device_writes_per_s += row.usage.directions[Direction::Write].requests as f64 / seconds;
        own.device_bytes_per_s += row.usage.bytes as f64 / seconds;
    }
    if let Some(ledger) = &summary.ledger {
        for waiter in &ledger.processes {
            named(&mut rows, waiter.pid, &waiter.process);
        }
        let length = summary.watch.duration_ns.max(1) as f64;
        for (pid, row) in &mut rows {
            row.blocked_share = ledger.by_pid.get(pid).map(|time_ns| *time_ns as f64 / length);
        }
    }
    for row in rows.values_mut().filter(|row| row.user.is_none()) {
        if let Some(known) = summary.identities.get(&(row.pid, row.process.clone())) {
            row.user.clone_from(&known.user);
            row.container = row.container.take().or_else(|| known.container.clone());
        }
    }
    let mut rows: Vec<ProcessActivity> = rows.into_values().collect();
    // Where iowhy's own waits and counters are left out, so is the rest of its row.
    rows.retain(|row| row.process != PROCESS || row.is_counted() || row.blocked_share.is_some());
    rows.iter_mut().for_each(|row| row.fill(summary.ledger.is_some()));
    let weight = |row: &ProcessActivity| {
        let counted = row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0);
        (counted.max(row.device_bytes_per_s), row.blocked_share.unwrap_or(0.0))
    };
    rows.compact_sort_by(|a, b| {
        weight(b).0.total_cmp(&weight(a).0).then(weight(b).1.total_cmp(&weight(a).1))
    });
    rows
}

/// The kernel's counters.
fn counted(summary: &Summary, rows: &mut BTreeMap<u32, ProcessActivity>) {
    type Field = fn(&mut ProcessActivity) -> &mut Option<f64>;
    const FIELDS: [(Metric, Field); 6] = [
        (Metric::CausedRead, |row| &mut row.read_bytes_per_s),
        (Metric::CausedWrite, |row| &mut row.write_bytes_per_s),
        (Metric::CancelledWrite, |row| &mut row.cancelled_bytes_per_s),
        (Metric::LogicalRead, |row| &mut row.logical_read_bytes_per_s),
        (Metric::LogicalWrite, |row| &mut row.logical_write_bytes_per_s),
        (Metric::ProcessMajorFaults, |row| &mut row.major_faults_per_s),
    ];
    for (metric, field) in FIELDS {
        for series in summary.samples.of(metric) {
            let Some((pid, name)) = process_of(&series.subject) else { continue };
            let Some(mean) = series.mean else { continue };
            // Two processes that had the same PID in turn share a row, as in pidstat.
            let own = named(rows, pid, name);
            *field(own) = Some(field(own).unwrap_or(0.0) + mean);
        }
    }
}

fn named<'a>(
    rows: &'a mut BTreeMap<u32, ProcessActivity>,
    pid: u32,
    name: &str,
) -> &'a mut ProcessActivity {
    let row = rows.entry(pid).or_default();
    row.pid = pid;
    if row.process.is_empty() {
        name.clone_into(&mut row.process);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::{START_NS, Script};
    use iowhy_model::{Sample, Scope};

    #[test]
    fn who_made_no_request_has_a_user_too() {
        let mut script = Script::new(10);
        script.process(7, "cat", "/", "jobs.service");
        script.process(7, "sh", "/", "");
        script.batch.processes[0].user = Some(script.names.intern("www-data"));
        let subject = script.names.intern("7 cat");
        let metric = script.names.intern(Metric::CausedRead.info().word);
        for (time_ns, value) in [(START_NS, 0.0), (START_NS + 5_000_000_000, 40_960.0)] {
            let scope = Scope::Process;
            script.batch.samples.push(Sample { time_ns, scope, subject, metric, value });
        }
        let rows = processes(&script.summary());
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((row.pid, row.user.as_deref()), (7, Some("www-data")));
        assert_eq!(row.container.as_deref(), Some("jobs.service"));
        assert_eq!(row.read_bytes_per_s, Some(4096.0));
    }
}
