//! `iowhy-fleet findings`: causes with their hosts and times, and the attributes that those hosts
//! have in common and the others lack.
//!
//! What does not belong here: findings themselves, which each host made.

use super::cells::{NamedColumns, text_at};
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{AnswerCell, AnswerSection, number_column, text_column};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::TimestampMillisecondType;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A value is named when at least this share of the affected hosts has it …
const LEAST_SHARE: f64 = 0.8;
/// … and it is so many times as frequent among them as among all.
const LEAST_LIFT: f64 = 2.0;
/// Fewer affected hosts have nothing in common that could not be chance.
const LEAST_HOSTS: usize = 3;
/// Hosts that are named.
const NAMED_HOSTS: usize = 3;

const ATTRIBUTES: [&str; 4] = ["kernel", "rack", "model", "firmware"];

/// Hosts with a cause.
#[derive(Default)]
struct CauseHosts {
    hosts: BTreeMap<String, (String, i64)>,
    critical: bool,
    first_ms: i64,
    last_ms: i64,
    /// Hosts by attribute and value.
    values: HashMap<(usize, String), HashSet<String>>,
}

/// Returns the causes with their hosts and times.
///
/// # Errors
/// Fails if the queries fail.
pub async fn findings(engine: &FleetEngine) -> Result<AnswerSection> {
    let found = engine
        .query(
            "SELECT cause, host_id, kernel, rack, model, firmware, MIN(host) AS host, \
             MAX(CASE WHEN severity = 'critical' THEN 1 ELSE 0 END) AS critical, \
             SUM(minutes) AS minutes, MIN(time) AS first, MAX(time) AS last \
             FROM findings GROUP BY cause, host_id, kernel, rack, model, firmware",
        )
        .await?;
    let fleet = engine
        .query(
            "SELECT host_id, kernel, rack, model, firmware FROM flows \
             GROUP BY host_id, kernel, rack, model, firmware",
        )
        .await?;
    let fleet = attribute_hosts(&fleet.rows)?;
    let mut causes: Vec<(String, CauseHosts)> = collect(&found.rows)?.into_iter().collect();
    causes.sort_by(|(_, a), (_, b)| {
        (b.critical, b.hosts.len())
            .cmp(&(a.critical, a.hosts.len()))
            .then(a.first_ms.cmp(&b.first_ms))
    });
    let rows = causes.iter().map(|(cause, hosts)| row(cause, hosts, &fleet)).collect();
    let columns = vec![
        text_column("severity", "severity"),
        text_column("cause", "cause"),
        number_column("hosts", "hosts"),
        text_column("first", "first_s"),
        text_column("last", "last_s"),
        number_column("minutes", "minutes"),
        text_column("in common", "common"),
        text_column("most on", "most"),
    ];
    let title = match causes.is_empty() {
        true => "No host has a finding at warning or above".to_owned(),
        false => "Findings".to_owned(),
    };
    let notes = match causes.is_empty() {
        true => Vec::new(),
        false => {
            vec!["iowhy-fleet host NAME shows one host; iowhy explain CAUSE a cause.".to_owned()]
        }
    };
    Ok(AnswerSection { name: "findings", title, notes, columns, rows })
}

fn collect(rows: &RecordBatch) -> Result<BTreeMap<String, CauseHosts>> {
    let columns = NamedColumns::from_batch(rows);
    let (causes, host_ids, hosts) =
        (columns.texts("cause")?, columns.texts("host_id")?, columns.texts("host")?);
    let (critical, minutes) = (columns.numbers("critical")?, columns.numbers("minutes")?);
    let time = |name: &str, row: usize| {
        let column = rows.column_by_name(name);
        let column =
            column.and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
        column.filter(|column| column.is_valid(row)).map_or(0, |column| column.value(row))
    };
    let mut found: BTreeMap<String, CauseHosts> = BTreeMap::new();
    for row in 0..rows.num_rows() {
        let (first_ms, last_ms) = (time("first", row), time("last", row));
        let cause = found.entry(text_at(causes, row).to_owned()).or_insert_with(|| CauseHosts {
            first_ms,
            last_ms,
            ..CauseHosts::default()
        });
        cause.first_ms = cause.first_ms.min(first_ms);
        cause.last_ms = cause.last_ms.max(last_ms);
        cause.critical |= critical.value(row) > 0;
        let host_id = text_at(host_ids, row).to_owned();
        for (at, name) in ATTRIBUTES.into_iter().enumerate() {
            let value = text_at(columns.texts(name)?, row).to_owned();
            cause.values.entry((at, value)).or_default().insert(host_id.clone());
        }
        let host = cause.hosts.entry(host_id).or_default();
        text_at(hosts, row).clone_into(&mut host.0);
        host.1 += minutes.value(row);
    }
    Ok(found)
}

/// Hosts of the whole fleet, and by attribute and value.
struct FleetHosts {
    all: HashSet<String>,
    values: HashMap<(usize, String), HashSet<String>>,
}

fn attribute_hosts(rows: &RecordBatch) -> Result<FleetHosts> {
    let columns = NamedColumns::from_batch(rows);
    let host_ids = columns.texts("host_id")?;
    let mut fleet = FleetHosts { all: HashSet::new(), values: HashMap::new() };
    for row in 0..rows.num_rows() {
        let host_id = text_at(host_ids, row);
        fleet.all.insert(host_id.to_owned());
        for (at, name) in ATTRIBUTES.into_iter().enumerate() {
            let value = text_at(columns.texts(name)?, row).to_owned();
            fleet.values.entry((at, value)).or_default().insert(host_id.to_owned());
        }
    }
    Ok(fleet)
}

/// Returns the attributes that the affected hosts have in common and the others lack, as `kernel
/// 6.12.57`.
fn common(cause: &CauseHosts, fleet: &FleetHosts) -> String {
    if cause.hosts.len() < LEAST_HOSTS {
        return String::new();
    }
    let mut found = Vec::new();
    for ((at, value), hosts) in &cause.values {
        let share = hosts.len() as f64 / cause.hosts.len() as f64;
        let everywhere = fleet.values.get(&(*at, value.clone())).map_or(0, HashSet::len);
        let usual = everywhere as f64 / fleet.all.len().max(1) as f64;
        if !value.is_empty() && share >= LEAST_SHARE && share >= LEAST_LIFT * usual {
            found.push((*at, format!("{} {value} ({:.0} %)", ATTRIBUTES[*at], share * 100.0)));
        }
    }
    found.sort();
    found.into_iter().map(|found| found.1).collect::<Vec<_>>().join(", ")
}

fn row(name: &str, cause: &CauseHosts, fleet: &FleetHosts) -> Vec<AnswerCell> {
    let mut hosts: Vec<&(String, i64)> = cause.hosts.values().collect();
    hosts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let minutes = hosts.iter().map(|host| host.1).sum::<i64>();
    let named: Vec<&str> = hosts.iter().take(NAMED_HOSTS).map(|host| host.0.as_str()).collect();
    vec![
        AnswerCell::text(if cause.critical { "critical" } else { "warning" }),
        AnswerCell::text(name),
        AnswerCell::count(cause.hosts.len() as u64),
        AnswerCell::time(cause.first_ms.div_euclid(1000)),
        AnswerCell::time(cause.last_ms.div_euclid(1000)),
        AnswerCell::count(minutes.max(0) as u64),
        AnswerCell::text(common(cause, fleet)),
        AnswerCell::text(named.join(", ")),
    ]
}
