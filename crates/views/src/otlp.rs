//! OpenTelemetry's form of a watch (OTLP as JSON, two lines): devices' figures as metrics, findings
//! as log records. The collector's `otlpjsonfile` receiver reads it, and so does any OTLP endpoint,
//! a line for each.
//!
//! Names are iowhy's own: OpenTelemetry has no convention for latencies of disks.
//!
//! What does not belong here: stacks, which a profile has (see `iowhy_analysis::formats::pprof`),
//! and sending anything.

use crate::json::escaped;
use iowhy_analysis::summary::{DeviceSummary, DirectionSummary, StageTime};
use iowhy_analysis::{Direction, Interval, Summary};
use iowhy_diagnosis::{Diagnosis, Finding, Severity};
use iowhy_model::Environment;
use serde_json::{Value, json};

/// `AGGREGATION_TEMPORALITY_DELTA`: a watch tells of itself, not of what was before.
const DELTA: u8 = 1;
/// The name of the instrumentation scope of these figures.
const SCOPE: &str = "iowhy";

/// The watch as OTLP's JSON: a line of metrics and a line of logs.
pub fn lines(summary: &Summary, diagnosis: &Diagnosis) -> String {
    let span = WatchSpan::new(&summary.environment);
    let resource = resource(&summary.environment);
    let scope = json!({"name": SCOPE, "version": env!("CARGO_PKG_VERSION")});
    let metrics = json!({"resourceMetrics": [{
        "resource": &resource,
        "scopeMetrics": [{"scope": &scope, "metrics": metrics(&summary.devices, &span)}],
    }]});
    let records: Vec<Value> =
        diagnosis.findings.iter().map(|finding| record(finding, &span)).collect();
    let logs = json!({"resourceLogs": [{
        "resource": resource,
        "scopeLogs": [{"scope": scope, "logRecords": records}],
    }]});
    format!("{}\n{}\n", escaped(metrics.to_string()), escaped(logs.to_string()))
}

/// Begin and end of the watch, nanoseconds since 1970, as OTLP writes 64-bit numbers.
struct WatchSpan {
    start: String,
    end: String,
}

impl WatchSpan {
    fn new(environment: &Environment) -> WatchSpan {
        let at = |ns: u64| {
            let since_1970 = i128::from(ns) + i128::from(environment.realtime_offset_ns);
            u64::try_from(since_1970).unwrap_or(0).to_string()
        };
        WatchSpan { start: at(environment.start_ns), end: at(environment.end_ns) }
    }
}

/// A text with its name; nothing if it is empty.
fn attribute(key: &str, text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"key": key, "value": {"stringValue": text}}))
}

fn resource(environment: &Environment) -> Value {
    let attributes: Vec<Value> = [
        attribute("service.name", SCOPE),
        attribute("host.name", &environment.host),
        attribute("host.arch", &environment.architecture),
        attribute("os.type", "linux"),
        attribute("os.version", &environment.kernel),
        attribute("iowhy.source", &environment.source),
    ]
    .into_iter()
    .flatten()
    .collect();
    json!({"attributes": attributes})
}

/// The data points of every metric.
fn metrics(devices: &[DeviceSummary], span: &WatchSpan) -> Vec<Value> {
    let each = |point: &dyn Fn(&DeviceSummary) -> Option<Value>| -> Vec<Value> {
        devices.iter().filter_map(point).collect()
    };
    let by_direction = |point: &dyn Fn(&DirectionSummary, Vec<Value>) -> Option<Value>| {
        let ways = [Direction::Read, Direction::Write, Direction::Discard, Direction::Flush];
        let points = devices.iter().flat_map(|device| ways.iter().map(move |way| (device, *way)));
        let points = points.filter_map(|(device, way)| {
            let figures = &device.directions[way];
            point(figures, named(device, Some(way))).filter(|_| figures.requests > 0)
        });
        points.collect::<Vec<Value>>()
    };
    let gauge = |value: f64, attributes: Vec<Value>| {
        json!({"timeUnixNano": &span.end, "startTimeUnixNano": &span.start,
            "asDouble": value, "attributes": attributes})
    };
    let count = |value: u64, attributes: Vec<Value>| {
        json!({"timeUnixNano": &span.end, "startTimeUnixNano": &span.start,
            "asInt": value.to_string(), "attributes": attributes})
    };
    let sum = |name: &str, unit: &str, points: Vec<Value>| {
        json!({"name": name, "unit": unit, "sum": {"aggregationTemporality": DELTA,
            "isMonotonic": true, "dataPoints": points}})
    };
    vec![
        json!({"name": "iowhy.device.busy", "unit": "1", "description": SHARE, "gauge": {
            "dataPoints": each(&|device| Some(gauge(device.util_share?, named(device, None))))}}),
        json!({"name": "iowhy.device.in_flight", "unit": "{request}", "gauge": {
        "dataPoints": each(&|device| {
            Some(gauge(device.in_flight_mean, named(device, None)))
        })}}),
        sum(
            "iowhy.device.requests",
            "{request}",
            by_direction(&|figures, attributes| Some(count(figures.requests, attributes))),
        ),
        sum(
            "iowhy.device.bytes",
            "By",
            by_direction(&|figures, attributes| Some(count(figures.bytes, attributes))),
        ),
        json!({"name": "iowhy.device.request.time", "unit": "s", "description": ISSUED,
        "summary": {"dataPoints": by_direction(&|figures, attributes| {
            Some(quantiles(&figures.intervals[Interval::D2c]?, span, attributes))
        })}}),
    ]
}

const SHARE: &str = "Share of the watch with at least one request at the driver.";
const ISSUED: &str = "Time from issue to completion (D2C).";

fn named(device: &DeviceSummary, way: Option<Direction>) -> Vec<Value> {
    let way = way.and_then(|way| attribute("disk.io.direction", way.word()));
    attribute("system.device", &device.device).into_iter().chain(way).collect()
}

fn quantiles(stage: &StageTime, span: &WatchSpan, attributes: Vec<Value>) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let at = |quantile: f64, ns: u64| json!({"quantile": quantile, "value": seconds(ns)});
    json!({
        "timeUnixNano": &span.end,
        "startTimeUnixNano": &span.start,
        "count": stage.requests.to_string(),
        "sum": seconds(stage.sum_ns),
        "quantileValues": [at(0.5, stage.p50_ns), at(0.9, stage.p90_ns), at(0.99, stage.p99_ns),
            at(0.999, stage.p999_ns), at(1.0, stage.max_ns)],
        "attributes": attributes,
    })
}

/// A finding as a log record.
fn record(finding: &Finding, span: &WatchSpan) -> Value {
    let (number, text) = match finding.severity {
        Severity::Info => (9, "INFO"),
        Severity::Warning => (13, "WARN"),
        Severity::Critical => (17, "ERROR"),
    };
    let subject = &finding.subject;
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut attributes: Vec<Value> = [
        attribute("iowhy.cause", finding.cause),
        attribute("iowhy.severity", finding.severity.word()),
        attribute("iowhy.confidence", finding.confidence.word()),
        attribute("iowhy.fix", &finding.fix),
        attribute("iowhy.check", &finding.check),
        attribute("system.device", &known(&subject.device)),
        attribute("process.executable.name", &known(&subject.process)),
        attribute("container.name", &known(&subject.container)),
        attribute("file.path", &known(&subject.file)),
    ]
    .into_iter()
    .flatten()
    .collect();
    attributes.push(json!({"key": "iowhy.impact", "value": {"doubleValue": finding.impact}}));
    if let Some(pid) = subject.pid {
        let value = json!({"intValue": pid.to_string()});
        attributes.push(json!({"key": "process.pid", "value": value}));
    }
    json!({
        "timeUnixNano": &span.end,
        "observedTimeUnixNano": &span.end,
        "severityNumber": number,
        "severityText": text,
        "eventName": "iowhy.finding",
        "body": {"stringValue": finding.sentence},
        "attributes": attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_diagnosis::diagnose;
    use iowhy_model::script::Script;

    #[test]
    fn names_move_no_cursor() {
        let mut script = Script::new(10);
        script.environment.host = "a\u{9b}2J\u{202e}b".to_owned();
        let summary = script.summary();
        let text = lines(&summary, &diagnose(&summary));
        assert!(text.contains("\\u009b2J\\u202e"), "{text}");
        assert!(!text.contains(['\u{9b}', '\u{202e}']), "{text}");
    }

    #[test]
    fn both_lines_are_otlp() {
        let mut script = Script::new(10);
        for index in 0..1000_i64 {
            script
                .read("sda", 4096)
                .by(7, "db")
                .at(index * 9_000_000)
                .direct(0, 0, 8_000_000)
                .add();
        }
        let summary = script.summary();
        let text = lines(&summary, &diagnose(&summary));
        let [metrics, logs] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let metrics: Value = serde_json::from_str(metrics).unwrap();
        let of = &metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let requests = &of[2]["sum"]["dataPoints"][0];
        assert_eq!(requests["asInt"], "1000", "64-bit numbers are texts in OTLP");
        let logs: Value = serde_json::from_str(logs).unwrap();
        let records = &logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
        assert!(records.is_array());
    }
}
