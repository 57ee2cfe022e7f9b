//! `iowhy-fleet report --html`: the page of the fleet in one file: findings, slow drives and
//! batches, writers, a heat map of racks over time, and the hosts to examine with their incidents.
//!
//! It needs no script and no network; every name is escaped by the markup's macro.
//!
//! What does not belong here: the findings.

use crate::clock::{HOUR_S, minute_text};
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{AnswerSection, safe};
use crate::questions::cells::{DriveHour, DriveHours};
use crate::questions::outliers::{OutlierReport, rack_hours};
use crate::questions::robust::median;
use crate::questions::silent::Attendance;
use crate::questions::writers::{WriterGroup, WriterOrder, writers};
use crate::questions::{findings, host, silent, slower};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

/// Slow drives on the page.
const MOST_DRIVES: usize = 50;
/// Hosts that are shown in full.
const MOST_HOSTS: usize = 10;
/// Programs that write most.
const MOST_WRITERS: usize = 15;
/// Rows of the heat map; the slowest.
const MOST_RACKS: usize = 60;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;\
padding:0 1rem;color:#1b1f24;background:#fff}h1{font-size:1.5rem}\
h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem}\
table{border-collapse:collapse;font-size:.85rem}th,td{padding:.2rem .5rem;\
text-align:left;border-bottom:1px solid #e3e6ea;overflow-wrap:anywhere}.n{text-align:right;\
font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}.note{color:#57606a;font-size:.85rem}\
.heat td{padding:0;width:1.1rem;height:1.1rem;border:1px solid #fff}\
.heat th{font-weight:400;border:0}\
@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#15181c}th,td{border-color:#30363d}\
.note{color:#9aa4af}.heat td{border-color:#15181c}}";

/// The page.
///
/// # Errors
/// Fails if a query fails.
pub async fn page(engine: &FleetEngine) -> Result<String> {
    let (data, outliers) = slower::compare(engine).await?;
    let findings = findings::findings(engine).await?;
    let written = writers(engine, WriterGroup::Program, WriterOrder::Written, MOST_WRITERS).await?;
    let map = HeatMap::new(&data);
    let attendance = silent::attendance(engine, silent::SILENT_AFTER_S).await?;
    let hosts = hosts_to_look_at(engine, &data, &outliers).await?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "iowhy: the fleet" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The fleet" }
                p.note { (slower::time_line(engine)?) ". " (attendance_text(&attendance, &data)) }
                (section(&slower::drives(&data, &outliers, MOST_DRIVES)))
                (section(&slower::batches(&data, &outliers)))
                (section(&findings))
                @if !attendance.silent.is_empty() { (section(&silent::section(&attendance))) }
                (section(&written))
                (map.markup())
                @if !hosts.is_empty() { h2 { "Hosts to look at" } }
                @for (id, at_s, sections) in &hosts {
                    details id=(format!("host-{}", safe(id))) {
                        summary { (host_title(sections, id)) " at " (minute_text(*at_s)) " UTC" }
                        @for part in sections { (section(part)) }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// Returns the hosts of slow drives with all of their data: identity, time, sections.
async fn hosts_to_look_at(
    engine: &FleetEngine,
    data: &DriveHours,
    outliers: &OutlierReport,
) -> Result<Vec<(String, i64, Vec<AnswerSection>)>> {
    let mut names: Vec<(String, i64)> = Vec::new();
    let (_, until_s) = engine.time()?;
    for slow in &outliers.drives {
        let Some(drive) = data.drives.get(slow.drive as usize) else { continue };
        let drive_host = drive.host_id;
        let id = data.names.text(drive_host).to_owned();
        if names.len() < MOST_HOSTS && !names.iter().any(|known| known.0 == id) {
            // Its last hour, if it is slow all the time: it may be silent since.
            let of_host = |hour: &&DriveHour| {
                let drive = data.drives.get(hour.drive as usize);
                drive.is_some_and(|other| other.host_id == drive_host)
            };
            let last = || data.hours.iter().filter(of_host).map(|hour| hour.hour).max();
            let at = slow.excess.since.or_else(last);
            names.push((id, at.map_or(until_s - HOUR_S, |hour| i64::from(hour) * HOUR_S)));
        }
    }
    let mut hosts = Vec::new();
    for (id, at_s) in &names {
        // A host without data must not hide the others.
        let sections = match host::host(engine, id, *at_s).await {
            Ok(sections) => sections,
            Err(error) if error.is_transient => return Err(error),
            Err(error) => vec![AnswerSection {
                name: "host",
                title: error.message,
                ..AnswerSection::default()
            }],
        };
        hosts.push((id.clone(), *at_s, sections));
    }
    Ok(hosts)
}

fn host_title(sections: &[AnswerSection], id: &str) -> String {
    let first =
        sections.first().and_then(|section| section.rows.first()).and_then(|row| row.first());
    safe(first.map_or(id, |cell| cell.text.as_str()))
}

fn section(section: &AnswerSection) -> Markup {
    html! {
        h2 { (safe(&section.title)) }
        @if !section.rows.is_empty() {
            div.scroll { table {
                tr { @for column in &section.columns {
                    th.n[column.is_number] scope="col" { (column.heading) }
                } }
                @for row in &section.rows { tr {
                    @for (cell, column) in row.iter().zip(&section.columns) {
                        td.n[column.is_number] { (safe(&cell.text)) }
                    }
                } }
            } }
        }
        @for note in &section.notes { p.note { (safe(note)) } }
    }
}

fn attendance_text(attendance: &Attendance, data: &DriveHours) -> String {
    format!(
        "{} hosts with {} drives have reported, the last ten minutes at {} UTC; {} are silent; \
         {} requests have no record.",
        attendance.hosts,
        data.drives.len(),
        minute_text(attendance.last_s),
        attendance.silent.len(),
        attendance.lost_requests
    )
}

/// The factor by which each rack is slower than equal drives of the fleet, in each hour.
struct HeatMap {
    hours: BTreeSet<i64>,
    /// By rack, the factor by which its drives are slower in each hour.
    racks: Vec<(String, BTreeMap<i64, f64>)>,
    more: usize,
}

impl HeatMap {
    fn new(data: &DriveHours) -> HeatMap {
        let racks = rack_hours(data).into_iter().map(|(rack, hours)| {
            let ratio = |(hour, excess): (i32, f64)| (i64::from(hour), excess.exp());
            (data.names.text(rack).to_owned(), hours.into_iter().map(ratio).collect())
        });
        HeatMap::from_racks(racks.collect())
    }

    /// The slowest racks first: by the median of their hours.
    fn from_racks(mut racks: Vec<(String, BTreeMap<i64, f64>)>) -> HeatMap {
        let hours = racks.iter().flat_map(|(_, hours)| hours.keys().copied()).collect();
        let worst = |hours: &BTreeMap<i64, f64>| {
            let mut ratios: Vec<f64> = hours.values().copied().collect();
            median(&mut ratios).unwrap_or(0.0)
        };
        racks.sort_by(|a, b| worst(&b.1).total_cmp(&worst(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let more = racks.len().saturating_sub(MOST_RACKS);
        racks.truncate(MOST_RACKS);
        HeatMap { hours, racks, more }
    }

    fn markup(&self) -> Markup {
        html! {
            h2 { "Racks over time" }
            p.note {
                "How much slower each rack's drives are, by their median, than drives of the same \
                 model, firmware and kernel at equal load in that hour: pale is usual, dark is \
                 three times as long. The slowest racks come first."
            }
            div.scroll { table.heat {
                @for (rack, hours) in &self.racks { tr {
                    th scope="row" { (safe(if rack.is_empty() { "no rack" } else { rack })) }
                    @for hour in &self.hours {
                        @match hours.get(hour) {
                            Some(ratio) => td style=(format!("background:{}", colour(*ratio)))
                                title=(format!("{}: {ratio:.2}x", minute_text(hour * 3600))) {},
                            None => td title="no figures" {},
                        }
                    }
                } }
            } }
            @if self.more > 0 { p.note { (self.more) " more racks are not shown." } }
        }
    }
}

/// From pale at the usual latency to dark at three times of it.
fn colour(ratio: f64) -> String {
    let share = (ratio.max(1.0).ln() / 3.0_f64.ln()).clamp(0.0, 1.0);
    format!("hsl({:.0} 75% {:.0}%)", 45.0 - 40.0 * share, 92.0 - 52.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{AnswerCell, text_column};

    #[test]
    fn names_are_text_on_the_page() {
        let part = AnswerSection {
            name: "x",
            title: "<script>alert(1)</script>".to_owned(),
            notes: vec!["<b>".to_owned()],
            columns: vec![text_column("host", "host")],
            rows: vec![vec![AnswerCell::text("<img src=x onerror=alert(1)>\x1b")]],
        };
        let page = section(&part).into_string();
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b>"));
        assert!(page.contains("&lt;img"));
    }

    #[test]
    fn the_slowest_racks_come_first() {
        let rack = |name: &str, ratio: f64| (name.to_owned(), BTreeMap::from([(5, ratio)]));
        let map = HeatMap::from_racks(vec![rack("a", 1.0), rack("b", 2.0), rack("c", 0.5)]);
        let order: Vec<&str> = map.racks.iter().map(|rack| rack.0.as_str()).collect();
        assert_eq!(order, ["b", "a", "c"]);
        assert!(colour(1.0) != colour(3.0) && colour(3.0) == colour(9.0));
    }
}
