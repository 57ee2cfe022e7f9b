//! `iowhy-fleet report --html`: the page of the fleet in one file: findings, slow drives and
//! batches, a heat map of racks over time, and the hosts to look at with their incidents.
//!
//! It needs no script and no network; every name is escaped by the markup's macro.
//!
//! What does not belong here: what is found.

use crate::clock::minute_text;
use crate::engine::FleetEngine;
use crate::error::Result;
use crate::output::{AnswerSection, safe};
use crate::questions::cells::{NamedColumns, text_at};
use crate::questions::{findings, host, slower};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

/// Slow drives on the page.
const MOST_DRIVES: usize = 50;
/// Hosts that are shown in full.
const MOST_HOSTS: usize = 10;
/// Rows of the heat map; the slowest.
const MOST_RACKS: usize = 60;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;\
padding:0 1rem;color:#1b1f24;background:#fff}h1{font-size:1.5rem}\
h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem}\
table{border-collapse:collapse;font-size:.85rem}th,td{padding:.2rem .6rem;\
text-align:left;border-bottom:1px solid #e3e6ea;white-space:nowrap}.n{text-align:right;\
font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}.note{color:#57606a;font-size:.85rem}\
.heat td{padding:0;width:1.1rem;height:1.1rem;border:1px solid #fff}\
.heat th{font-weight:400;border:0}\
@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#15181c}th,td{border-color:#30363d}\
.note{color:#9aa4af}.heat td{border-color:#15181c}}";

/// The page.
///
/// # Errors
/// When a query fails.
pub async fn page(engine: &FleetEngine) -> Result<String> {
    let (data, outliers) = slower::compare(engine).await?;
    let findings = findings::findings(engine).await?;
    let map = HeatMap::read(engine).await?;
    let mut names: Vec<(String, i64)> = Vec::new();
    let (_, until_s) = engine.time()?;
    for slow in &outliers.drives {
        let Some(drive) = data.drives.get(slow.drive as usize) else { continue };
        let id = data.names.text(drive.host_id).to_owned();
        if names.len() < MOST_HOSTS && !names.iter().any(|known| known.0 == id) {
            let since_s = slow.excess.since.map(|hour| i64::from(hour) * 3600);
            names.push((id, since_s.unwrap_or(until_s - 3600)));
        }
    }
    let mut hosts = Vec::new();
    for (id, at_s) in &names {
        hosts.push((id.clone(), *at_s, host::host(engine, id, *at_s).await?));
    }
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
                p.note { (slower::time_line(engine)?) }
                (section(&slower::drives(&data, &outliers, MOST_DRIVES)))
                (section(&slower::batches(&data, &outliers)))
                (section(&findings))
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

fn host_title(sections: &[AnswerSection], id: &str) -> String {
    let first = sections.first().and_then(|it| it.rows.first()).and_then(|row| row.first());
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

/// How much slower than usual each rack is in each hour.
struct HeatMap {
    hours: BTreeSet<i64>,
    /// By rack: the mean latency of each hour as a multiple of the fleet's in that hour.
    racks: Vec<(String, BTreeMap<i64, f64>)>,
    more: usize,
}

impl HeatMap {
    async fn read(engine: &FleetEngine) -> Result<HeatMap> {
        // Of one model and operation each, so that racks of disks are not compared with racks of
        // SSDs.
        let answer = engine
            .query(
                "SELECT rack, model, operation, CAST(date AS INT) * 24 + hour AS hour_number, \
                 SUM(requests) AS requests, SUM(time_ns) AS time_ns FROM flows \
                 WHERE operation IN ('read', 'write') \
                 GROUP BY rack, model, operation, date, hour",
            )
            .await?;
        let columns = NamedColumns::of(&answer.rows);
        let (racks, models) = (columns.texts("rack")?, columns.texts("model")?);
        let operations = columns.texts("operation")?;
        let (hours, requests) = (columns.numbers("hour_number")?, columns.numbers("requests")?);
        let times = columns.numbers("time_ns")?;
        let mut whole: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
        let kind = |row: usize| (text_at(models, row), text_at(operations, row));
        for row in 0..answer.rows.num_rows() {
            let sum = whole.entry(kind(row)).or_default();
            sum.0 += requests.value(row) as f64;
            sum.1 += times.value(row) as f64;
        }
        let mut sums: BTreeMap<&str, BTreeMap<i64, (f64, f64)>> = BTreeMap::new();
        for row in 0..answer.rows.num_rows() {
            let (count, time_ns) = (requests.value(row) as f64, times.value(row) as f64);
            let usual = whole.get(&kind(row)).map_or(1.0, |it| it.1 / it.0.max(1.0));
            let rack = sums.entry(text_at(racks, row)).or_default();
            let cell = rack.entry(hours.value(row)).or_default();
            cell.0 += count;
            cell.1 += time_ns / usual.max(1.0);
        }
        Ok(HeatMap::of(&sums))
    }

    fn of(sums: &BTreeMap<&str, BTreeMap<i64, (f64, f64)>>) -> HeatMap {
        let hours = sums.values().flat_map(|hours| hours.keys().copied()).collect();
        let ratio = |(hour, sum): (&i64, &(f64, f64))| (*hour, sum.1 / sum.0.max(1.0));
        let mut racks: Vec<(String, BTreeMap<i64, f64>)> = sums
            .iter()
            .map(|(rack, hours)| ((*rack).to_owned(), hours.iter().map(ratio).collect()))
            .collect();
        let worst =
            |hours: &BTreeMap<i64, f64>| hours.values().sum::<f64>() / hours.len().max(1) as f64;
        racks.sort_by(|a, b| worst(&b.1).total_cmp(&worst(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let more = racks.len().saturating_sub(MOST_RACKS);
        racks.truncate(MOST_RACKS);
        HeatMap { hours, racks, more }
    }

    fn markup(&self) -> Markup {
        html! {
            h2 { "Racks over time" }
            p.note {
                "Mean latency of each hour against the same models and operations of the whole \
                 fleet: pale is usual, dark is three times as long. The slowest racks come first."
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
        let hours = |ratio: f64| BTreeMap::from([(5, (10.0, 10.0 * ratio))]);
        let sums = BTreeMap::from([("a", hours(1.0)), ("b", hours(2.0)), ("c", hours(0.5))]);
        let map = HeatMap::of(&sums);
        let order: Vec<&str> = map.racks.iter().map(|rack| rack.0.as_str()).collect();
        assert_eq!(order, ["b", "a", "c"]);
        assert!(colour(1.0) != colour(3.0) && colour(3.0) == colour(9.0));
    }
}
