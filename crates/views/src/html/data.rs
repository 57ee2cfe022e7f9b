//! The charts' data: a length, JSON with names and the list of columns, then the columns' bytes;
//! all of it compressed, as base64. `web/src/data.ts` reads it, and a test of each side holds the
//! schema.

use super::columns::Encoding::{Delta, Plain};
use super::columns::{ColumnWriter, Definition, WrittenTable};
use super::{PageInput, marks};
use crate::escape::{escape, fit};
use crate::style::Style;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use iowhy_analysis::charts::ChartLayer;
use iowhy_analysis::charts::cells::{self, CellKey, CellSums};
use iowhy_analysis::charts::counted::CountedCell;
use iowhy_analysis::charts::flames::{FlameLeaf, FlameTree};
use iowhy_analysis::charts::points::ChosenRequest;
use iowhy_analysis::summary::{BlameSummary, ChainRow, Series};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::metric::{Shape, Unit};
use iowhy_model::{Name, Scope, WaitClass};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The version of the data's layout; a reader refuses others.
pub const SCHEMA: u32 = 3;

/// Characters of a name, at most: of a longer one the middle is left out.
const MOST_TEXT: usize = 240;
/// Points of a counter's series, at most.
const MOST_POINTS: usize = 400;
/// Threads in the matrix of blame, at most.
const MOST_BLAMED: usize = 12;
/// Chains that are drawn.
const MOST_CHAINS: usize = 12;

type Cell = (CellKey, CellSums);

/// The columns of a table of cells.
const CELLS: &[Definition<Cell>] = &[
    ("column", Delta, |(key, _)| key.column.into()),
    ("device", Plain, |(key, _)| key.device.into()),
    ("owner", Plain, |(key, _)| key.owner.into()),
    ("file", Plain, |(key, _)| key.file.into()),
    ("kind", Plain, |(key, _)| key.kind.into()),
    ("count", Plain, |(_, sums)| sums.measure.count),
    ("time_ns", Plain, |(_, sums)| sums.measure.time_ns),
];

/// The columns of requests. Stages are shares of the time, in 255ths.
const REQUESTS: &[Definition<Cell>] = &[
    ("column", Delta, |(key, _)| key.column.into()),
    ("device", Plain, |(key, _)| key.device.into()),
    ("owner", Plain, |(key, _)| key.owner.into()),
    ("file", Plain, |(key, _)| key.file.into()),
    ("kind", Plain, |(key, _)| key.kind.into()),
    ("latency", Delta, |(key, _)| key.latency.into()),
    ("size", Plain, |(key, _)| key.size.into()),
    ("count", Plain, |(_, sums)| sums.measure.count),
    ("bytes", Plain, |(_, sums)| sums.measure.bytes),
    ("time_us", Plain, |(_, sums)| sums.measure.time_ns / 1_000),
    ("q2g", Plain, |(_, sums)| share(sums, 0)),
    ("g2i", Plain, |(_, sums)| share(sums, 1)),
    ("i2d", Plain, |(_, sums)| share(sums, 2)),
    ("g2d", Plain, |(_, sums)| share(sums, 3)),
    ("d2c", Plain, |(_, sums)| share(sums, 4)),
];

fn share(sums: &CellSums, stage: usize) -> u64 {
    let share = sums.stages[stage] as f64 / sums.measure.time_ns.max(1) as f64;
    (share.min(1.0) * 255.0).round() as u64
}

/// The columns of single requests. Times are microseconds; a time that is not known is 0, others
/// are one more.
const POINTS: &[Definition<ChosenRequest>] = &[
    ("start_us", Delta, |request| request.start_ns / 1_000),
    ("time_us", Plain, |request| request.time_ns.map_or(0, |time| time / 1_000 + 1)),
    ("device", Plain, |request| request.device.into()),
    ("owner", Plain, |request| request.owner.into()),
    ("file", Plain, |request| request.file.into()),
    ("kind", Plain, |request| request.kind.into()),
    ("bytes", Plain, |request| request.bytes),
    ("sector", Delta, |request| request.offset / 512),
    ("file_page", Delta, |request| request.file_offset.map_or(0, |offset| offset / 4_096 + 1)),
    ("pid", Delta, |request| request.pid.into()),
    ("cpu", Plain, |request| request.cpu.into()),
    ("d2c_us", Plain, |request| request.stages[4] / 1_000),
    ("stands_for_100ths", Plain, |request| (request.stands_for * 100.0).round() as u64),
];

/// The columns of the kernel's counts: `operation` is a position among reads, writes, flushes,
/// discards and others, `lower` is 1 for requests that serve another device or request.
const COUNTED: &[Definition<CountedCell>] = &[
    ("column", Delta, |cell| cell.column.into()),
    ("device", Plain, |cell| cell.device.into()),
    ("operation", Plain, |cell| cell.direction as u64),
    ("lower", Plain, |cell| u64::from(cell.layer != ChartLayer::Top)),
    ("count", Plain, |cell| cell.count),
    ("bytes", Plain, |cell| cell.bytes),
];

const LEAVES: &[Definition<FlameLeaf>] = &[
    ("node", Delta, |leaf| leaf.node.into()),
    ("device", Plain, |leaf| leaf.device.into()),
    ("owner", Plain, |leaf| leaf.owner.into()),
    ("file", Plain, |leaf| leaf.file.into()),
    ("kind", Plain, |leaf| leaf.kind.into()),
    ("column", Delta, |leaf| leaf.column.into()),
    ("time_ns", Plain, |leaf| leaf.time_ns),
];

/// The data of one watch, or of two that are compared.
#[derive(Serialize)]
struct PageData {
    schema: u32,
    sides: Vec<Value>,
}

/// The data of pages, each with its name where there are two.
///
/// # Errors
/// Fails if the data cannot be compressed.
pub(super) fn encode(pages: &[(Option<&str>, &PageInput<'_>)]) -> io::Result<String> {
    let mut writer = ColumnWriter::default();
    let sides = pages.iter().map(|(name, page)| side(*name, page, &mut writer)).collect();
    let head = serde_json::to_vec(&PageData { schema: SCHEMA, sides })?;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::new(6));
    zlib.write_all(&(head.len() as u32).to_le_bytes())?;
    zlib.write_all(&head)?;
    zlib.write_all(&writer.bytes)?;
    Ok(STANDARD.encode(zlib.finish()?))
}

/// Texts as a page can bear them.
pub(super) struct PageTexts<'a> {
    pub page: &'a PageInput<'a>,
    pub style: Style,
}

impl PageTexts<'_> {
    /// Returns a text without characters that could deceive a reader, and not too long.
    pub fn of(&self, text: &str) -> String {
        fit(&escape(text, &self.style), MOST_TEXT, &self.style)
    }

    fn name(&self, name: Option<Name>) -> Option<String> {
        name.map(|name| self.of(self.page.names.get(name)))
    }
}

fn side(name: Option<&str>, page: &PageInput<'_>, writer: &mut ColumnWriter) -> Value {
    let (charts, environment) = (page.charts, &page.summary.environment);
    let texts = PageTexts { page, style: super::style() };
    let owner = |owner: &Option<_>| {
        owner.map(|owner: iowhy_analysis::charts::ChartOwner| {
            let (process, container) = (texts.name(owner.process), texts.name(owner.container));
            json!({ "process": process, "container": container })
        })
    };
    let kinds = charts
        .kinds
        .iter()
        .map(|kind| (kind.operation.word(), kind.origin.phrase(), kind.layer.word()));
    let mut tables: BTreeMap<&str, WrittenTable> = BTreeMap::new();
    let order =
        ["requests", "in_flight", "waits", "points", "slowest", "blocked", "code", "counted"];
    tables.insert(order[0], writer.table(&charts.requests, REQUESTS));
    tables.insert(order[1], writer.table(&charts.in_flight, CELLS));
    tables.insert(order[2], writer.table(&charts.waits, CELLS));
    tables.insert(order[3], writer.table(&charts.chosen.by_chance, POINTS));
    tables.insert(order[4], writer.table(&charts.chosen.slowest, POINTS));
    tables.insert(order[5], writer.table(&charts.blocked_flames.leaves, LEAVES));
    tables.insert(order[6], writer.table(&charts.request_flames.leaves, LEAVES));
    tables.insert(order[7], writer.table(&charts.counted, COUNTED));
    let classes: Vec<_> =
        WaitClass::ALL.iter().map(|class| (class.word(), class.phrase())).collect();
    let is_timed = environment.realtime_offset_ns != 0;
    let start = i128::from(charts.start_ns) + i128::from(environment.realtime_offset_ns);
    json!({
        "name": name.map(|name| texts.of(name)),
        "start_unix_ms": is_timed.then_some((start / 1_000_000) as i64),
        "utc_offset_s": environment.utc_offset_s.unwrap_or(0),
        "length_ns": charts.length_ns,
        "column_ns": charts.column_ns,
        "latency": { "per_octave": cells::PER_OCTAVE, "first_octave": cells::FIRST_OCTAVE,
            "none": cells::NO_LATENCY },
        "devices": charts.devices.iter().map(|device| texts.name(*device)).collect::<Vec<_>>(),
        "owners": charts.owners.iter().map(owner).collect::<Vec<_>>(),
        "files": charts.files.iter().map(|file| texts.name(*file)).collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "classes": classes,
        "chosen_of": charts.chosen.of,
        "estimated": charts.is_estimated,
        "open_requests": charts.open_requests,
        "order": order,
        "tables": tables,
        "blocked": flames(&charts.blocked_flames, &texts),
        "code": flames(&charts.request_flames, &texts),
        "series": series(&texts),
        "marks": marks::moments(&texts),
        "limits": marks::limits(&texts),
        "modes": marks::modes(&texts),
        "chains": chains(&texts),
        "blame": page.summary.blame.as_ref().map(|blame| matrix(blame, &texts)),
    })
}

fn flames(tree: &FlameTree, texts: &PageTexts<'_>) -> Value {
    let text = |name: &_| texts.of(name);
    json!({
        "time_ns": tree.time_ns,
        "every": tree.every,
        "by_file": tree.by_file,
        "parents":
            tree.nodes.iter().map(|node| node.parent.map_or(0, |at| at + 1)).collect::<Vec<_>>(),
        "kernel": tree.nodes.iter().map(|node| u8::from(node.kernel)).collect::<Vec<_>>(),
        "texts": tree.nodes.iter().map(|node| text(&node.text)).collect::<Vec<_>>(),
    })
}

/// The machine's counters over time.
fn series(texts: &PageTexts<'_>) -> Vec<Value> {
    let start_ns = texts.page.charts.start_ns;
    let rows = &texts.page.summary.samples.rows;
    let one = |row: &Series| {
        let info = row.metric.info();
        let step = row.points.len().div_ceil(MOST_POINTS).max(1);
        let points: Vec<(f64, f64)> = row
            .points
            .iter()
            .step_by(step)
            .map(|(at, value)| ((*at as f64 - start_ns as f64) / 1e9, *value))
            .collect();
        json!({
            "metric": info.word,
            "sentence": info.sentence,
            "unit": match info.unit {
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "ns",
                _ => "",
            },
            "counter": info.shape == Shape::Counter,
            "points": points,
        })
    };
    let is_shown = |row: &&Series| row.metric.info().scope == Scope::System && row.points.len() > 1;
    rows.iter().filter(is_shown).map(one).collect()
}

/// Returns the chains of waits for a graph: who waited for whom.
fn chains(texts: &PageTexts<'_>) -> Vec<Value> {
    let Some(chains) = &texts.page.summary.chains else { return Vec::new() };
    let one = |row: &ChainRow| {
        let steps: Vec<Value> = row
            .steps
            .iter()
            .map(|step| {
                let own = format!("{} ({})", texts.of(&step.process), step.pid);
                json!({
                    "process": own,
                    "thread": texts.of(&step.thread),
                    "threads": step.threads,
                    "known_by": step.known_by,
                })
            })
            .collect();
        json!({
            "time_ns": row.time_ns,
            "steps": steps,
            "class": WaitClass::phrase_of(row.class),
            "device": row.device.as_deref().map(|device| texts.of(device)),
            "file": row.files.first().map(|(file, _)| texts.of(file)),
        })
    };
    chains.rows.iter().take(MOST_CHAINS).map(one).collect()
}

/// Time by waiter and by whose requests were served meanwhile.
fn matrix(blame: &BlameSummary, texts: &PageTexts<'_>) -> Value {
    let named = |pid: Option<u32>, process: &str| match pid {
        Some(pid) => format!("{} ({pid})", texts.of(process)),
        None => texts.of(process),
    };
    let mut culprits: BTreeMap<String, u64> = BTreeMap::new();
    let mut rows: Vec<(String, u64, BTreeMap<String, u64>)> = Vec::new();
    for waiter in blame.waiters.iter().take(MOST_BLAMED) {
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        for behind in &waiter.behind {
            let text = match (&behind.process, &behind.reason) {
                (Some(process), _) => named(behind.pid, process),
                (None, Some(reason)) => texts.of(reason),
                (None, None) => "unknown".to_owned(),
            };
            *times.entry(text.clone()).or_default() += behind.time_ns;
            *culprits.entry(text).or_default() += behind.time_ns;
        }
        rows.push((named(waiter.pid, &waiter.process), waiter.shares.waited_ns, times));
    }
    let mut order: Vec<(String, u64)> = culprits.into_iter().collect();
    order.compact_sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    order.truncate(MOST_BLAMED);
    let times = |row: &(String, u64, BTreeMap<String, u64>)| -> Vec<u64> {
        order.iter().map(|(name, _)| row.2.get(name).copied().unwrap_or(0)).collect()
    };
    json!({
        "waiters": rows.iter().map(|row| &row.0).collect::<Vec<_>>(),
        "waited_ns": rows.iter().map(|row| row.1).collect::<Vec<_>>(),
        "culprits": order.iter().map(|culprit| &culprit.0).collect::<Vec<_>>(),
        "times_ns": rows.iter().map(times).collect::<Vec<_>>(),
    })
}
