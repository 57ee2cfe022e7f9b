//! `iowhy-fleet outliers` as a person reads it.
//!
//! What does not belong here: the comparison (`outliers`).

use super::cells::DriveHours;
use super::outliers::{BatchKind, Excess, FALSE_ALARMS, OutlierReport, SlowBatch, find};
use crate::clock::{HOUR_S, minute_text};
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{AnswerCell, AnswerSection, number_column, size_text, text_column};

/// Reads the hours and compares them.
///
/// # Errors
/// Fails if the query fails.
pub async fn compare(engine: &FleetEngine) -> Result<(DriveHours, OutlierReport)> {
    let data = DriveHours::read(engine, "").await?;
    let report = find(&data, FALSE_ALARMS);
    Ok((data, report))
}

fn since(excess: &Excess) -> AnswerCell {
    match excess.since {
        Some(hour) => AnswerCell::time(i64::from(hour) * HOUR_S),
        None => AnswerCell { text: "all the time".to_owned(), value: serde_json::Value::Null },
    }
}

fn operations(data: &DriveHours, excess: &Excess) -> AnswerCell {
    let names = excess.operations.iter().map(|number| data.names.text(*number));
    AnswerCell::text(names.collect::<Vec<_>>().join(", "))
}

fn factor(excess: &Excess) -> AnswerCell {
    AnswerCell::number(excess.factor, format!("{:.2}x", excess.factor))
}

/// Slow drives, at most so many.
pub fn drives(data: &DriveHours, report: &OutlierReport, most: usize) -> AnswerSection {
    let text = |number: u32| AnswerCell::text(data.names.text(number));
    let rows = report.drives.iter().take(most).filter_map(|slow| {
        let drive = data.drives.get(slow.drive as usize)?;
        Some(vec![
            text(drive.host),
            text(drive.device),
            text(drive.model),
            text(drive.firmware),
            text(drive.serial),
            AnswerCell::number(drive.size_bytes as f64, size_text(drive.size_bytes as f64)),
            operations(data, &slow.excess),
            factor(&slow.excess),
            AnswerCell::duration(slow.excess.mean_ns),
            AnswerCell::duration(slow.excess.siblings_ns),
            since(&slow.excess),
            AnswerCell::number(
                slow.excess.score,
                format!("{:.1} ({:.1})", slow.excess.score, slow.excess.limit),
            ),
            AnswerCell::count(slow.siblings as u64),
        ])
    });
    let columns = vec![
        text_column("host", "host"),
        text_column("device", "device"),
        text_column("model", "model"),
        text_column("firmware", "firmware"),
        text_column("serial", "serial"),
        number_column("size", "size_bytes"),
        text_column("operation", "operations"),
        number_column("slower", "factor"),
        number_column("mean", "mean_ns"),
        number_column("siblings", "siblings_ns"),
        text_column("since", "since_s"),
        number_column("score (limit)", "score"),
        number_column("compared with", "siblings"),
    ];
    let title = match report.drives.len() {
        0 => "No drive is slower than its siblings".to_owned(),
        1 => "1 drive is slower than its siblings".to_owned(),
        count => format!("{count} drives are slower than their siblings"),
    };
    let mut notes = vec![
        format!(
            "{} drives compared with the same model, firmware, size and kernel at equal load, and \
             with the other drives of their host; {} not, because of too few siblings or hours.",
            report.compared, report.unknown
        ),
        format!(
            "False alarms: at most {0:.0} % of such reports on a healthy fleet name anything, and \
             at most {0:.0} % of what is named on another one is innocent on average.",
            FALSE_ALARMS * 100.0
        ),
    ];
    if report.drives.len() > most {
        notes.push(format!("{} more; --limit shows them.", report.drives.len() - most));
    }
    AnswerSection { name: "drives", title, notes, columns, rows: rows.collect() }
}

/// The name of a batch as people know it.
pub fn batch_name(data: &DriveHours, batch: &SlowBatch) -> String {
    let name = data.names.text(batch.name);
    match (batch.kind, batch.model) {
        (BatchKind::Host, _) => {
            let drive = data.drives.iter().find(|drive| drive.host_id == batch.name);
            data.names.text(drive.map_or(batch.name, |drive| drive.host)).to_owned()
        }
        (BatchKind::Firmware, Some(model)) => format!("{} of {}", name, data.names.text(model)),
        _ => name.to_owned(),
    }
}

/// Slow batches.
pub fn batches(data: &DriveHours, report: &OutlierReport) -> AnswerSection {
    let rows = report.batches.iter().map(|batch| {
        vec![
            AnswerCell::text(batch.kind.word()),
            AnswerCell::text(batch_name(data, batch)),
            operations(data, &batch.excess),
            factor(&batch.excess),
            AnswerCell::duration(batch.excess.mean_ns - batch.excess.siblings_ns),
            since(&batch.excess),
            AnswerCell::count(batch.drives.0 as u64),
            AnswerCell::count(batch.drives.1 as u64),
        ]
    });
    let columns = vec![
        text_column("what", "kind"),
        text_column("which", "name"),
        text_column("operation", "operations"),
        number_column("slower", "factor"),
        number_column("by", "difference_ns"),
        text_column("since", "since_s"),
        number_column("drives", "drives"),
        number_column("compared with", "others"),
    ];
    let title = match report.batches.is_empty() {
        true => "No host, rack, firmware or kernel is slower than the others".to_owned(),
        false => "Batches that are slower than the others at equal load".to_owned(),
    };
    AnswerSection { name: "batches", title, notes: Vec::new(), columns, rows: rows.collect() }
}

/// Returns the compared time in one line.
///
/// # Errors
/// Fails if a thread has failed.
pub fn time_line(engine: &FleetEngine) -> Result<String> {
    let (from_s, until_s) = engine.time()?;
    Ok(format!("{} to {} UTC", minute_text(from_s), minute_text(until_s)))
}
