//! Metrics of node_exporter as Prometheus' text has them: a copy of the kernel's counters.
//!
//! What does not belong here: queries and other exporters' metrics, which are passed over.

use super::columns::PAGE;
use super::copies::CounterCopies;
use iowhy_model::Metric;

/// Metrics of a disk, their column in `/proc/diskstats`, and the factor to its unit.
const OF_DISK: &[(&str, usize, f64)] = &[
    ("reads_completed_total", 0, 1.0),
    ("reads_merged_total", 1, 1.0),
    ("read_bytes_total", 2, 1.0 / 512.0),
    ("read_time_seconds_total", 3, 1e3),
    ("writes_completed_total", 4, 1.0),
    ("writes_merged_total", 5, 1.0),
    ("written_bytes_total", 6, 1.0 / 512.0),
    ("write_time_seconds_total", 7, 1e3),
    ("io_now", 8, 1.0),
    ("io_time_seconds_total", 9, 1e3),
    ("io_time_weighted_seconds_total", 10, 1e3),
    ("discards_completed_total", 11, 1.0),
    ("discards_merged_total", 12, 1.0),
    ("discarded_sectors_total", 13, 1.0),
    ("discard_time_seconds_total", 14, 1e3),
    ("flush_requests_total", 15, 1.0),
    ("flush_requests_time_seconds_total", 16, 1e3),
];

/// Metrics of the machine, and the factor to the metric's unit.
const OF_MACHINE: &[(&str, Metric, f64)] = &[
    ("procs_blocked", Metric::Blocked, 1.0),
    ("procs_running", Metric::Running, 1.0),
    ("vmstat_pswpin", Metric::SwappedIn, PAGE),
    ("vmstat_pswpout", Metric::SwappedOut, PAGE),
    ("vmstat_pgpgin", Metric::PagedIn, 1024.0),
    ("vmstat_pgpgout", Metric::PagedOut, 1024.0),
    ("vmstat_pgmajfault", Metric::MajorFaults, 1.0),
    ("memory_MemFree_bytes", Metric::MemoryFree, 1.0),
    ("memory_MemAvailable_bytes", Metric::MemoryAvailable, 1.0),
    ("memory_Cached_bytes", Metric::Cached, 1.0),
    ("memory_Dirty_bytes", Metric::Dirty, 1.0),
    ("memory_Writeback_bytes", Metric::Writeback, 1.0),
    ("pressure_io_waiting_seconds_total", Metric::PressureIoSome, 1e9),
    ("pressure_io_stalled_seconds_total", Metric::PressureIoFull, 1e9),
    ("pressure_memory_waiting_seconds_total", Metric::PressureMemorySome, 1e9),
    ("pressure_memory_stalled_seconds_total", Metric::PressureMemoryFull, 1e9),
];

/// A metric's name behind `node_`, its labels and its value.
pub(super) struct NodeMetric<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> NodeMetric<'a> {
    /// The metric of a line; `None` if it is none of node_exporter's.
    pub fn new(line: &'a str) -> Option<NodeMetric<'a>> {
        let rest = line.strip_prefix("node_")?;
        let end =
            rest.find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))?;
        let (name, rest) = rest.split_at(end);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(inside) => inside.rsplit_once('}')?,
            None => ("", rest),
        };
        let value: f64 = value.split_whitespace().next()?.parse().ok()?;
        Some(NodeMetric { name, labels, value })
    }

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&'a str> {
        let (_, rest) = self.labels.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    }

    /// Whether the copy has it already, so that the next one begins.
    pub fn is_next(&self, copies: &CounterCopies) -> bool {
        let column = self.disk_column().map(|(column, _)| column);
        column.zip(self.label("device")).is_some_and(|(column, name)| copies.has(name, column))
    }

    fn disk_column(&self) -> Option<(usize, f64)> {
        let name = self.name.strip_prefix("disk_")?;
        OF_DISK.iter().find(|(known, ..)| *known == name).map(|(_, column, unit)| (*column, *unit))
    }

    /// Adds it to a copy.
    pub fn take(&self, copies: &mut CounterCopies) {
        if let (Some((column, unit)), Some(device)) = (self.disk_column(), self.label("device")) {
            copies.column(device, column, self.value * unit);
            return;
        }
        match self.name {
            "time_seconds" => copies.times(Some(self.value), None),
            "boot_time_seconds" => copies.times(None, Some(self.value)),
            "cpu_seconds_total" => {
                let metric = match self.label("mode") {
                    Some("user" | "nice") => Metric::CpuUser,
                    Some("system" | "irq" | "softirq") => Metric::CpuSystem,
                    Some("idle") => Metric::CpuIdle,
                    Some("iowait") => Metric::CpuIoWait,
                    Some("steal") => Metric::CpuSteal,
                    _ => return,
                };
                copies.other(metric, self.value * 1e9);
            }
            name => {
                if let Some((_, metric, unit)) =
                    OF_MACHINE.iter().find(|(known, ..)| *known == name)
                {
                    copies.other(*metric, self.value * unit);
                }
            }
        }
    }
}
