//! `iowhy-fleet silent`: hosts that have sent something and send nothing any more.
//!
//! What does not belong here: hosts that never sent anything, which nothing here knows.

use super::cells::{NamedColumns, text_at};
use crate::clock::{HOUR_S, MOST_AHEAD_S, WINDOW_S, now_s};
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{AnswerCell, AnswerSection, number_column, text_column};
use datafusion::arrow::array::{AsArray, Int64Array};
use datafusion::arrow::datatypes::TimestampMillisecondType;

/// A host that is not heard of for so long is silent, seconds: six windows.
pub const SILENT_AFTER_S: i64 = HOUR_S;

// The newest window of a host with a wrong clock, and that of one that sends in time.
const _: () = assert!(SILENT_AFTER_S > MOST_AHEAD_S + 2 * WINDOW_S);

/// A host that has fallen silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentHost {
    /// Its name.
    pub host: String,
    /// Its identity.
    pub host_id: String,
    /// Its rack; empty where it is not known.
    pub rack: String,
    /// The beginning of its last ten minutes, seconds since 1970.
    pub last_s: i64,
}

/// The hosts that have reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attendance {
    /// Hosts.
    pub hosts: usize,
    /// The beginning of the last ten minutes of any host, seconds since 1970; not later than now.
    pub last_s: i64,
    /// Requests that have no record.
    pub lost_requests: u64,
    /// Hosts that send nothing any more, the longest silent first.
    pub silent: Vec<SilentHost>,
}

/// Returns the hosts of the time of the engine; those `after_s` seconds behind others are silent.
///
/// # Errors
/// Fails if the query fails.
pub async fn attendance(engine: &FleetEngine, after_s: i64) -> Result<Attendance> {
    let sql = "SELECT host_id, MIN(host) AS host, MIN(rack) AS rack, MAX(time) AS last, \
               SUM(lost_requests) AS lost FROM hosts GROUP BY host_id ORDER BY last, host_id";
    let answer = engine.query(sql).await?;
    let columns = NamedColumns::from_batch(&answer.rows);
    let (ids, hosts, racks) =
        (columns.texts("host_id")?, columns.texts("host")?, columns.texts("rack")?);
    let lost: &Int64Array = columns.numbers("lost")?;
    let last = answer.rows.column_by_name("last");
    let last = last.and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
    let Some(last) = last else { return Ok(Attendance::default()) };
    let mut found = Attendance { hosts: last.len(), ..Attendance::default() };
    found.last_s = last.iter().flatten().max().unwrap_or(0).div_euclid(1000).min(now_s());
    found.lost_requests = lost.iter().flatten().map(|count| count.max(0) as u64).sum();
    for row in 0..last.len() {
        let last_s = last.value(row).div_euclid(1000);
        if found.last_s - last_s >= after_s {
            let text = |column| text_at(column, row).to_owned();
            let (host, host_id, rack) = (text(hosts), text(ids), text(racks));
            found.silent.push(SilentHost { host, host_id, rack, last_s });
        }
    }
    Ok(found)
}

/// Silent hosts as a person reads them.
pub fn section(attendance: &Attendance) -> AnswerSection {
    let row = |host: &SilentHost| {
        vec![
            AnswerCell::text(host.host.clone()),
            AnswerCell::text(host.host_id.clone()),
            AnswerCell::text(host.rack.clone()),
            AnswerCell::time(host.last_s),
        ]
    };
    let title = match attendance.silent.len() {
        0 => format!("None of {} hosts is silent", attendance.hosts),
        count => format!("{count} of {} hosts send nothing any more", attendance.hosts),
    };
    AnswerSection {
        name: "silent",
        title,
        notes: Vec::new(),
        columns: vec![
            text_column("host", "host"),
            text_column("identity", "host_id"),
            text_column("rack", "rack"),
            number_column("last heard of", "last_s"),
        ],
        rows: attendance.silent.iter().map(row).collect(),
    }
}
