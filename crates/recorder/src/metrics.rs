//! Figures for Prometheus, as OpenMetrics: sums since the daemon started, and current values.
//! Labels are devices, operations, wait classes, containers and causes, never processes or files: a
//! time series for each of those would cost the monitoring more than it tells.
//!
//! What does not belong here: how they are served (see [`endpoint`]).

pub mod endpoint;

use crate::config::MetricsConfig;
use crate::error::RecorderError;
use crate::trigger::TriggerKind;
use crate::writers::{WriterRecord, WriterSums};
use endpoint::SharedText;
use iowhy_analysis::summary::DirectionSummary;
use iowhy_analysis::{Direction, Interval, Summary};
use iowhy_capture::host::own;
use iowhy_diagnosis::Diagnosis;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Devices and containers that have series of their own; further ones are `other`.
const MOST_LABELS: usize = 128;
const OTHER: &str = "other";
/// Upper ends of the latency buckets, as powers of two of a nanosecond: 16 µs to 17 s.
const BUCKETS: [u32; 11] = [14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34];

type Labels = Vec<(&'static str, String)>;

/// Latencies of one device and operation.
#[derive(Clone, Debug, Default)]
struct LatencyTotals {
    requests: u64,
    bytes: u64,
    sum_ns: u64,
    /// Requests by bucket; the last is for all that took longer.
    buckets: [u64; BUCKETS.len() + 1],
}

impl LatencyTotals {
    fn add(&mut self, of: &DirectionSummary) {
        self.requests += of.requests;
        self.bytes += of.bytes;
        self.sum_ns += of.intervals[Interval::Q2c].map_or(0, |stage| stage.sum_ns);
        for bucket in &of.q2c_histogram {
            let place = BUCKETS.iter().position(|power| bucket.to_ns <= 1 << power);
            self.buckets[place.unwrap_or(BUCKETS.len())] += bucket.requests;
        }
    }
}

/// Time and bytes of a container.
#[derive(Clone, Copy, Debug, Default)]
struct ContainerTotals {
    time_ns: u64,
    bytes: u64,
}

/// All figures.
#[derive(Clone, Debug, Default)]
pub struct MetricTotals {
    latencies: BTreeMap<(String, &'static str), LatencyTotals>,
    containers: BTreeMap<String, ContainerTotals>,
    waits: BTreeMap<&'static str, u64>,
    /// Bytes that programs wrote, and that devices wrote for them, by container and kind.
    written: BTreeMap<String, WriterSums>,
    /// Wakes of idle devices, by device and container.
    wakes: BTreeMap<(String, String), u64>,
    /// The used part of a drive's life, by device, percent.
    used_percent: BTreeMap<String, f64>,
    incidents: BTreeMap<TriggerKind, u64>,
    /// Findings of the last ten seconds: cause, device, severity.
    findings: Vec<(&'static str, String, &'static str)>,
    oldest_ns: BTreeMap<String, u64>,
    lost_requests: u64,
    rate_limited: u64,
    unsaved: u64,
    ring_bytes: u64,
    cpu_ns: u64,
    memory_bytes: u64,
}

/// Returns the label for `name`: the name itself while there is room, else `other`.
fn label<T>(known: &BTreeMap<String, T>, name: &str) -> String {
    let has_room = known.len() < MOST_LABELS || known.contains_key(name);
    if has_room { name.to_owned() } else { OTHER.to_owned() }
}

impl MetricTotals {
    /// Adds a window of ten seconds, in which `lost_requests` were lost.
    pub fn add(&mut self, summary: &Summary, diagnosis: &Diagnosis, lost_requests: u64) {
        self.lost_requests += lost_requests;
        self.oldest_ns.clear();
        let mut known: BTreeSet<String> =
            self.latencies.keys().map(|(name, _)| name.clone()).collect();
        for device in &summary.devices {
            let has_room = known.len() < MOST_LABELS || known.contains(&device.device);
            let name = if has_room { device.device.as_str() } else { OTHER };
            known.insert(name.to_owned());
            for direction in Direction::ALL {
                let of = &device.directions[direction];
                if of.requests > 0 {
                    let key = (name.to_owned(), direction.word());
                    self.latencies.entry(key).or_default().add(of);
                }
            }
            let age_ns = device.oldest_open_ns.unwrap_or(0);
            let oldest = self.oldest_ns.entry(name.to_owned()).or_default();
            *oldest = age_ns.max(*oldest);
        }
        for class in summary.ledger.iter().flat_map(|ledger| &ledger.classes) {
            *self.waits.entry(class.class).or_default() += class.time_ns;
        }
        for row in &summary.containers.rows {
            let name = label(&self.containers, &row.subject.container);
            let container = self.containers.entry(name).or_default();
            container.time_ns += row.usage.time_ns;
            container.bytes += row.usage.bytes;
        }
        self.findings = active(diagnosis);
    }

    /// Adds a minute of the account of writers; rows without a container are `other`.
    pub fn add_writers(&mut self, minute: &WriterRecord) {
        for row in &minute.rows {
            let name = match row.id.container.as_str() {
                "" => OTHER.to_owned(),
                container => label(&self.written, container),
            };
            if row.sums.wakes > 0 {
                self.add_wakes(&row.id.device, &name, row.sums.wakes);
            }
            if !row.id.is_below {
                self.written.entry(name).or_default().add(&row.sums);
            }
        }
        let drives = minute.drives.iter().take(MOST_LABELS);
        self.used_percent = drives.map(|(name, wear)| (name.clone(), wear.used_percent)).collect();
    }

    fn add_wakes(&mut self, device: &str, container: &str, wakes: u64) {
        let key = (device.to_owned(), container.to_owned());
        let has_room = self.wakes.len() < MOST_LABELS || self.wakes.contains_key(&key);
        let key = if has_room { key } else { (OTHER.to_owned(), OTHER.to_owned()) };
        *self.wakes.entry(key).or_default() += wakes;
    }

    /// Formats all figures as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("iowhy");
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        match encode(&mut text, &registry) {
            Ok(()) => text,
            // A string takes everything: this cannot happen, and nothing is better than a part.
            Err(fmt::Error) => String::new(),
        }
    }

    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let requests =
            self.latencies.iter().map(|(key, latency)| (flow_labels(key), latency.requests as f64));
        let bytes =
            self.latencies.iter().map(|(key, latency)| (flow_labels(key), latency.bytes as f64));
        counter(encoder, "requests", "Completed requests", None, requests)?;
        counter(encoder, "transferred", "Bytes of completed requests", Some(Unit::Bytes), bytes)?;
        let waits = self.waits.iter().map(|(class, ns)| (one("class", class), seconds(*ns)));
        let help = "Time that threads were blocked because of storage";
        counter(encoder, "blocked", help, Some(Unit::Seconds), waits)?;
        let time = self
            .containers
            .iter()
            .map(|(name, usage)| (one("container", name), seconds(usage.time_ns)));
        let help = "Time of requests (Q2C) by container, systemd unit or cgroup";
        counter(encoder, "container_request", help, Some(Unit::Seconds), time)?;
        let bytes = self
            .containers
            .iter()
            .map(|(name, usage)| (one("container", name), usage.bytes as f64));
        let help = "Bytes of requests by container, systemd unit or cgroup";
        counter(encoder, "container", help, Some(Unit::Bytes), bytes)?;
        let of_kinds = |(name, sums): (&String, &WriterSums)| {
            let kinds = [
                ("asked", sums.asked_bytes),
                ("data", sums.data_bytes),
                ("journal", sums.journal_bytes),
                ("metadata", sums.metadata_bytes),
            ];
            let labels = |kind: &str| vec![("container", name.clone()), ("kind", kind.to_owned())];
            kinds.map(|(kind, bytes)| (labels(kind), bytes as f64))
        };
        let written = self.written.iter().flat_map(of_kinds);
        let help = "Bytes that a container asked for, and that devices wrote for it";
        counter(encoder, "container_written", help, Some(Unit::Bytes), written)?;
        let wakes = self.wakes.iter().map(|((device, container), wakes)| {
            let labels = vec![("device", device.clone()), ("container", container.clone())];
            (labels, *wakes as f64)
        });
        let help = "Requests that woke a device after a minute without one";
        counter(encoder, "device_wakes", help, None, wakes)?;
        let kinds =
            self.incidents.iter().map(|(kind, count)| (one("trigger", kind.word()), *count as f64));
        counter(encoder, "incidents", "Incidents by what triggered them", None, kinds)?;
        for (name, help, unit, value) in [
            ("lost_requests", "Requests that have no record", None, self.lost_requests as f64),
            (
                "rate_limited_triggers",
                "Triggers beyond the hourly limit",
                None,
                self.rate_limited as f64,
            ),
            ("own_cpu", "CPU time of iowhy itself", Some(Unit::Seconds), seconds(self.cpu_ns)),
        ] {
            counter(encoder, name, help, unit, [(Labels::new(), value)])?;
        }
        Ok(())
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let findings = self.findings.iter().map(|(cause, device, severity)| {
            let labels = vec![
                ("cause", (*cause).to_owned()),
                ("device", device.clone()),
                ("severity", (*severity).to_owned()),
            ];
            (labels, 1.0)
        });
        let help = "Causes found in the last ten seconds";
        gauge(encoder, "finding_active", help, None, findings)?;
        let oldest = self.oldest_ns.iter().map(|(name, ns)| (one("device", name), seconds(*ns)));
        let used = self.used_percent.iter();
        let used = used.map(|(name, percent)| (one("device", name), percent / 100.0));
        let help = "Share of its life that a drive says is used";
        gauge(encoder, "drive_life_used", help, Some(Unit::Ratios), used)?;
        let help = "Age of the oldest request in flight";
        gauge(encoder, "oldest_request", help, Some(Unit::Seconds), oldest)?;
        for (name, help, unit, value) in [
            (
                "unsaved_tasks",
                "Writes to the state directory that wait or failed",
                None,
                self.unsaved,
            ),
            ("ring", "Size of the ring in memory", Some(Unit::Bytes), self.ring_bytes),
            (
                "own_memory",
                "Anonymous memory of iowhy itself",
                Some(Unit::Bytes),
                self.memory_bytes,
            ),
        ] {
            gauge(encoder, name, help, unit, [(Labels::new(), value as f64)])?;
        }
        Ok(())
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time of requests from queueing to completion (Q2C)";
        let unit = Unit::Seconds;
        let kind = MetricType::Histogram;
        let mut metric = encoder.encode_descriptor("request_latency", help, Some(&unit), kind)?;
        for (key, totals) in &self.latencies {
            let ends = BUCKETS.iter().map(|power| seconds(1 << power)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(totals.buckets).collect();
            let count = totals.buckets.iter().sum();
            let labels = flow_labels(key);
            let mut family = metric.encode_family(&labels)?;
            family.encode_histogram::<Labels>(seconds(totals.sum_ns), count, &buckets, None)?;
        }
        Ok(())
    }
}

impl Collector for MetricTotals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.counters(&mut encoder)?;
        self.gauges(&mut encoder)?;
        self.histograms(&mut encoder)
    }
}

/// Returns the causes at warning or above.
fn active(diagnosis: &Diagnosis) -> Vec<(&'static str, String, &'static str)> {
    use iowhy_diagnosis::Severity;
    let worth = diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info);
    let mut active: Vec<_> = worth
        .map(|finding| {
            let device = finding.subject.device.clone().unwrap_or_default();
            (finding.cause, device, finding.severity.word())
        })
        .collect();
    active.sort();
    active.dedup();
    active
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn one(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

fn flow_labels((device, operation): &(String, &'static str)) -> Labels {
    vec![("device", device.clone()), ("operation", (*operation).to_owned())]
}

/// Encodes a metric with a value for each set of labels; an empty set is a metric without any.
fn each(
    mut metric: MetricEncoder<'_>,
    values: impl IntoIterator<Item = (Labels, f64)>,
    mut put: impl FnMut(&mut MetricEncoder<'_>, f64) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in values {
        match labels.is_empty() {
            true => put(&mut metric, value)?,
            false => put(&mut metric.encode_family(&labels)?, value)?,
        }
    }
    Ok(())
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    values: impl IntoIterator<Item = (Labels, f64)>,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    let none: Option<&Exemplar<Labels, f64>> = None;
    each(metric, values, |metric, value| metric.encode_counter(&value, none))
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    values: impl IntoIterator<Item = (Labels, f64)>,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    each(metric, values, |metric, value| metric.encode_gauge(&value))
}

/// The figures, and the places that they are published at.
#[derive(Debug)]
pub struct MetricsHub {
    totals: MetricTotals,
    served: SharedText,
    is_served: bool,
    has_file: bool,
}

impl MetricsHub {
    /// Serves the figures as `config` says: nowhere by default. `log` is told of an address that is
    /// taken, which is tried again.
    ///
    /// # Errors
    /// Fails if a socket cannot be opened, or there is no thread.
    pub fn serve(config: &MetricsConfig, log: &dyn Fn(&str)) -> Result<MetricsHub, RecorderError> {
        let served = SharedText::default();
        if let Some(address) = config.listen {
            endpoint::serve_address(address, &served, log)?;
        }
        if let Some(path) = &config.socket {
            endpoint::serve_socket(path, &served)?;
        }
        let is_served = config.listen.is_some() || config.socket.is_some();
        let has_file = config.textfile.is_some();
        Ok(MetricsHub { totals: MetricTotals::default(), served, is_served, has_file })
    }

    /// Adds a window of ten seconds.
    pub fn add(&mut self, summary: &Summary, diagnosis: &Diagnosis, lost_requests: u64) {
        if self.is_served || self.has_file {
            self.totals.add(summary, diagnosis, lost_requests);
        }
    }

    /// Adds a minute of the account of writers.
    pub fn add_writers(&mut self, minute: &WriterRecord) {
        if self.is_served || self.has_file {
            self.totals.add_writers(minute);
        }
    }

    /// Counts an incident.
    pub fn count_incident(&mut self, kind: TriggerKind) {
        *self.totals.incidents.entry(kind).or_default() += 1;
    }

    /// Sets the number of triggers that exceeded the limit.
    pub fn set_rate_limited(&mut self, count: u64) {
        self.totals.rate_limited = count;
    }

    /// Sets the number of writes that wait.
    pub fn set_unsaved(&mut self, count: u64) {
        self.totals.unsaved = count;
    }

    /// Sets the size of the ring.
    pub fn set_ring_bytes(&mut self, bytes: u64) {
        self.totals.ring_bytes = bytes;
    }

    /// Publishes the figures; returns those for a file, in Prometheus' own text format.
    pub fn publish(&mut self) -> Option<String> {
        if !self.is_served && !self.has_file {
            return None;
        }
        self.totals.cpu_ns = own::cpu_ns();
        self.totals.memory_bytes = own::anonymous_bytes();
        let text = self.totals.text();
        let file = self.has_file.then(|| classic(&text));
        self.served.set(text);
        file
    }
}

/// Converts OpenMetrics text to Prometheus' own format, which node_exporter reads: a counter is
/// declared with its suffix, and there are no units and no end mark.
fn classic(text: &str) -> String {
    let mut counters = Vec::new();
    for line in text.lines() {
        let counter = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter"));
        counters.extend(counter);
    }
    let mut classic = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let declared = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("TYPE" | "HELP")), Some(name), Some(rest))
                if counters.contains(&name) =>
            {
                Some(format!("# {what} {name}_total {rest}"))
            }
            _ => None,
        };
        classic.push_str(declared.as_deref().unwrap_or(line));
        classic.push('\n');
    }
    classic
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_diagnosis::diagnose;
    use iowhy_model::script::Script;

    fn totals() -> MetricTotals {
        let mut script = Script::new(10);
        for index in 0..100 {
            script.read("sda", 4096).by(7, "cat").at(index).direct(300, 500, 80_000_000).add();
        }
        let summary = script.summary();
        let mut totals = MetricTotals::default();
        totals.add(&summary, &diagnose(&summary), 3);
        totals.add(&summary, &diagnose(&summary), 0);
        totals
    }

    #[test]
    fn sums_and_buckets_are_there() {
        let text = totals().text();
        for line in [
            "iowhy_requests_total{device=\"sda\",operation=\"read\"} 200.0",
            "iowhy_transferred_bytes_total{device=\"sda\",operation=\"read\"} 819200.0",
            "iowhy_request_latency_seconds_count{device=\"sda\",operation=\"read\"} 200",
            "iowhy_lost_requests_total 3.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        let bucket = |le: &str| {
            let of = format!("iowhy_request_latency_seconds_bucket{{le=\"{le}\"");
            let line = text.lines().find(|line| line.starts_with(&of)).unwrap_or(&text);
            line.rsplit(' ').next().unwrap_or_default().to_owned()
        };
        assert_eq!(bucket("0.067108864"), "0");
        assert_eq!(bucket("0.268435456"), "200");
        assert_eq!(bucket("+Inf"), "200");
    }

    #[test]
    fn who_writes_and_wakes_is_counted_by_container() {
        use crate::writers::{DriveWear, WriterId, WriterRow};
        let row = |container: &str, is_below: bool| WriterRow {
            id: WriterId {
                container: container.to_owned(),
                device: "sda".to_owned(),
                is_below,
                ..WriterId::default()
            },
            sums: WriterSums { data_bytes: 4096, wakes: 2, ..WriterSums::default() },
        };
        let mut minute = WriterRecord {
            rows: vec![row("a.service", false), row("", false), row("a.service", true)],
            ..WriterRecord::default()
        };
        let wear = DriveWear { used_percent: 12.5, written_bytes: None };
        minute.drives.insert("sda".to_owned(), wear);
        let mut totals = MetricTotals::default();
        (0..2).for_each(|_| totals.add_writers(&minute));
        let text = totals.text();
        for line in [
            "iowhy_container_written_bytes_total{container=\"a.service\",kind=\"data\"} 8192.0",
            "iowhy_device_wakes_total{device=\"sda\",container=\"a.service\"} 8.0",
            "iowhy_device_wakes_total{device=\"sda\",container=\"other\"} 4.0",
            "iowhy_drive_life_used_ratios{device=\"sda\"} 0.125",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        minute.rows = (0..1000).map(|at| row(&format!("c{at}"), false)).collect();
        totals.add_writers(&minute);
        assert!(totals.wakes.len() <= MOST_LABELS + 1, "{}", totals.wakes.len());
    }

    #[test]
    fn names_cannot_break_the_format() {
        let mut totals = totals();
        totals.containers.insert("evil\"\\\ncontainer".to_owned(), ContainerTotals::default());
        let text = totals.text();
        let lines = text.lines().filter(|line| line.contains("evil")).collect::<Vec<_>>();
        assert!(!lines.is_empty(), "{text}");
        for line in lines {
            assert!(line.contains(r#"container="evil\"\\\ncontainer"}"#), "{line}");
        }
    }

    #[test]
    fn a_textfile_has_counters_as_prometheus_wants_them() {
        let text = classic(&totals().text());
        assert!(text.contains("# TYPE iowhy_requests_total counter\n"), "{text}");
        assert!(text.contains("# HELP iowhy_requests_total Completed requests"), "{text}");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
        assert!(text.contains("# TYPE iowhy_request_latency_seconds histogram\n"), "{text}");
    }

    #[test]
    fn labels_are_bounded() {
        let mut known = BTreeMap::new();
        for index in 0..400 {
            known.insert(label(&known, &format!("c{index}")), ());
        }
        assert_eq!(known.len(), MOST_LABELS + 1);
        assert!(known.contains_key(OTHER));
        let mut totals = MetricTotals::default();
        let mut script = Script::new(10);
        for index in 0..200 {
            script.read(&format!("sd{index}"), 4096).direct(300, 500, 80_000).add();
        }
        let summary = script.summary();
        (0..10).for_each(|_| totals.add(&summary, &diagnose(&summary), 0));
        assert!(totals.latencies.len() <= MOST_LABELS * Direction::ALL.len() + 5);
    }
}
