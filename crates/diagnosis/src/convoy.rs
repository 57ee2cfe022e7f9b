//! Threads that wait for another one, which waits for storage: how long, behind whom, and for what.
//!
//! What does not belong here: what they wait for by itself, a lock or a row (see the rules).

use super::claims::Claims;
use super::facts::{Facts, Waited};
use super::finding::{Finding, ImpactOf};
use super::subject::Subject;
use super::words;
use iowhy_analysis::summary::{ChainRow, ChainStep};
use iowhy_model::WaitClass;
use iowhy_model::compact_sort::CompactSort;

/// Chains of threads that wait for the same thing.
pub(super) struct Convoy<'a> {
    /// The chains, the one with the most time first.
    rows: Vec<&'a ChainRow>,
    /// Their time, nanoseconds.
    pub time_ns: u64,
}

impl<'a> Convoy<'a> {
    /// Returns a convoy of these chains; `None` if there are none.
    pub fn new(mut rows: Vec<&'a ChainRow>) -> Option<Convoy<'a>> {
        rows.compact_sort_by_key(|row| std::cmp::Reverse(row.time_ns));
        let time_ns = rows.iter().map(|row| row.time_ns).fold(0, u64::saturating_add);
        (!rows.is_empty()).then_some(Convoy { rows, time_ns })
    }

    /// The chain with the most time.
    pub fn most(&self) -> &'a ChainRow {
        self.rows[0]
    }

    /// The threads that wait, in the chain with the most time.
    pub fn sleepers(&self) -> Option<&'a ChainStep> {
        self.most().steps.first()
    }

    /// The number of threads that wait: the chains of different holders have the same ones.
    pub fn threads(&self) -> u64 {
        let threads = self.rows.iter().filter_map(|row| Some(row.steps.first()?.threads));
        threads.max().unwrap_or(0).max(1)
    }

    /// The share of the watch that each of them waits; of those only that wait longest, if others
    /// wait a little.
    pub fn part(&self, facts: &Facts<'_>) -> f64 {
        let each_ns = |time_ns: u64, threads: u64| time_ns as f64 / threads.max(1) as f64;
        let of_most =
            self.sleepers().map_or(0.0, |sleepers| each_ns(self.most().time_ns, sleepers.threads));
        let each_ns = each_ns(self.time_ns, self.threads()).max(of_most);
        (each_ns / facts.duration_ns().max(1) as f64).min(1.0)
    }

    /// Returns a finding that claims their time. What the holder waits for has causes of its own.
    pub fn finding(&self, facts: &Facts<'_>, subject: Subject, sentence: String) -> Finding {
        let chained_ns = facts.summary().chains.as_ref().map_or(0, |chains| chains.time_ns);
        let all_ns = facts.blocked_ns().saturating_add(chained_ns).max(1);
        let part = self.part(facts);
        let is_of = |row: &ChainRow| self.rows.iter().any(|own| std::ptr::eq(*own, row));
        let claims = Claims::of_chains(facts, is_of);
        let longest_ns = self.rows.iter().map(|row| row.longest_ns).max().unwrap_or(0);
        let chains = format!("iowhy chains{}", words::flags(&subject));
        let impact = self.time_ns as f64 / all_ns as f64;
        Finding::of_share(ImpactOf::BlockedTime, impact, part, sentence)
            .claiming(claims)
            .holding(part)
            .about(subject)
            .shown("threads that wait", self.threads() as f64, "threads", &*chains)
            .also("their time behind the holder", self.time_ns as f64, "ns")
            .also("share of each thread's time", part * 100.0, "%")
            .also("longest wait behind the holder", longest_ns as f64, "ns")
    }
}

/// Returns `cat (8694), which waits for pages of /data/img on sda`: who holds what others wait for,
/// and what the last of the chain waits for.
pub(super) fn holder(row: &ChainRow) -> String {
    let steps = row.steps.iter().skip(1).map(|step| match step.thread == step.process {
        true if step.processes > 1 => format!("another {}", step.process),
        true => words::process(&step.process, Some(step.pid), None),
        false => format!("thread {} of {}", named(step), step.process),
    });
    let file = row.files.first().map(|(file, _)| format!(" of {file}")).unwrap_or_default();
    let device = row.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    let end = format!("{}{file}{device}", what(row.class));
    let mut steps: Vec<String> = steps.chain([end]).collect();
    // Two threads of one process that have its name are one for the reader.
    steps.dedup();
    steps.join(", which waits for ")
}

/// Returns `sftp-server (7), which waits for requests of /srv/film on sda`: what the server of the
/// first of these waits for, if that is another program.
pub(super) fn served_by(facts: &Facts<'_>, waited: &Waited<'_>) -> Option<String> {
    let first = waited.groups.iter().find(|group| group.class == WaitClass::Fuse)?;
    let mount = facts.mount_of_file(first.file.as_deref()?)?;
    let server = mount.server.as_deref()?;
    let row = passed_on(facts, server)?;
    Some(format!("{server} serves it and waits for {}", holder(row)))
}

/// Returns the chain of threads in which a server waits for another program most.
pub(super) fn passed_on<'a>(facts: &Facts<'a>, server: &str) -> Option<&'a ChainRow> {
    let rows = facts.chains();
    let own = rows.filter(|row| {
        let first = row.steps.first();
        let is_server = |chain_step: &ChainStep| {
            words::process(&chain_step.process, Some(chain_step.pid), None) == server
        };
        let is_other = row.steps.last().map(|step| step.pid) != first.map(|first| first.pid);
        first.is_some_and(is_server) && is_other
    });
    // The shortest says most: a thread of the server may wait for another one that does.
    own.min_by_key(|row| row.steps.len())
}

/// A thread of a chain as sentences name it: `worker (4711)`.
pub(super) fn named(step: &ChainStep) -> String {
    let name = if step.thread.is_empty() { "without a name" } else { &step.thread };
    step.tid.map_or_else(|| name.to_owned(), |tid| format!("{name} ({tid})"))
}

/// Returns what a thread waits for, as sentences name it.
pub(super) fn what(class: &str) -> &'static str {
    match class {
        "device" | "queue" => "requests",
        "journal_commit" | "journal_space" => "the journal after a write",
        "dirty_throttle" => "the dirty page limit",
        "page_read" | "page_fault" => "pages",
        "cgroup_throttle" => "its cgroup's I/O limit",
        _ => "writes",
    }
}
