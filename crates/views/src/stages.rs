//! `iowhy stages`: where requests spent their time, as btt shows it.
//!
//! What does not belong here: the figures (see `iowhy_analysis::stages`), and btt's own
//! report.

use crate::escape::escape;
use crate::human::{self, plural};
use crate::json;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, explained, number};
use crate::text::Screen;
use iowhy_analysis::stages::StagesSummary;
use iowhy_analysis::stages::summary::{
    Active, DeviceFigures, PlugFigures, ProcessFigures, Seeks, Shares, StageFigures,
};
use iowhy_model::Losses;
use serde::Serialize;

/// Maximum number of listed processes.
const PROCESSES: usize = 20;

/// A stage, or the device whose stages follow.
#[derive(Clone, PartialEq, Debug)]
pub struct StageLine {
    /// The name of the stage or device, escaped.
    name: String,
    figures: Option<StageFigures>,
}

/// The shares of Q2C of a device or a process.
#[derive(Clone, PartialEq, Debug)]
pub struct ShareRow {
    /// The name of the device or process, escaped.
    name: String,
    shares: Shares,
}

/// The seek distances of one device.
#[derive(Clone, PartialEq, Debug)]
pub struct SeekRow {
    /// The device, escaped.
    name: String,
    /// The kind of distance: Q2Q or D2D.
    kind: &'static str,
    seeks: Seeks,
}

const fn name<R>(
    heading: &'static str,
    sentence: &'static str,
    value: fn(&R, &Style) -> TableCell,
) -> Column<R> {
    let (align, room) = (Align::Left, Room::CutEnd);
    Column { heading, unit: "", align, room, sentence, legend: "", value }
}

/// A time of a stage; empty in a device's row.
fn time(row: &StageLine, style: &Style, of: fn(&StageFigures) -> Option<f64>) -> TableCell {
    let known = |figures| of(figures).map_or_else(|| "?".to_owned(), |ns| human::time(ns, style));
    row.figures.as_ref().map(known).unwrap_or_default().into()
}

fn whole(nanoseconds: Option<u64>) -> Option<f64> {
    nanoseconds.map(|nanoseconds| nanoseconds as f64)
}

/// The stages.
pub const STAGES: Definition<StageLine> = Definition {
    title: "iowhy stages",
    sentence: "For all devices together and for each device, the stages of its requests, and those \
               of bios, as btt counts them.",
    columns: &[
        explained(
            "Q queued, G got a request, I in the scheduler, D at the driver, C completed, M merged",
            name(
                "STAGES",
                "the device; below it the stage: Q queued, G got a request, I inserted into the \
                 scheduler, D issued to the driver, C completed, M merged into a request. Stages \
                 are \
                 those of requests where nothing else is said",
                |row, _| TableCell {
                    text: row.name.clone(),
                    paint: if row.figures.is_some() { Paint::Plain } else { Paint::Heading },
                },
            ),
        ),
        number("N", "", 0, "number of samples", |row: &StageLine, _| {
            let count = row.figures.map(|figure| human::count(figure.count));
            count.unwrap_or_default().into()
        }),
        number("min", "time", 4, "the shortest", |row, style| {
            time(row, style, |figures| Some(figures.min_ns as f64))
        }),
        number("avg", "time", 1, "the mean", |row, style| {
            time(row, style, |figures| Some(figures.mean_ns))
        }),
        number("p50", "time", 0, "median", |row, style| {
            time(row, style, |figures| whole(figures.p50_ns))
        }),
        number("p90", "time", 3, "90th percentile", |row, style| {
            time(row, style, |figures| whole(figures.p90_ns))
        }),
        number("p99", "time", 0, "99th percentile", |row, style| {
            time(row, style, |figures| whole(figures.p99_ns))
        }),
        number("p99.9", "time", 2, "99.9th percentile", |row, style| {
            time(row, style, |figures| whole(figures.p999_ns))
        }),
        number("max", "time", 0, "the longest", |row, style| {
            time(row, style, |figures| Some(figures.max_ns as f64))
        }),
    ],
};

/// A stage's share of Q2C; none if no request went through it.
fn share(share: f64) -> TableCell {
    let text = if share > 0.0 { human::percent(share) } else { "-".to_owned() };
    text.into()
}

const REQUESTS: Column<ShareRow> =
    number("requests", "requests", 2, "requests of which Q2C is known", |row, _| {
        human::count(row.shares.requests).into()
    });
const MEAN: Column<ShareRow> =
    number("Q2C avg", "time", 0, "the mean time of a request", |row, style| {
        human::time(row.shares.q2c_mean_ns, style).into()
    });
const Q2G: Column<ShareRow> =
    number("%Q2G", "%", 0, "limits and tags", |row, _| share(row.shares.q2g_share));
const G2I: Column<ShareRow> =
    number("%G2I", "%", 0, "the plug", |row, _| share(row.shares.g2i_share));
const I2D: Column<ShareRow> =
    number("%I2D", "%", 0, "the scheduler", |row, _| share(row.shares.i2d_share));
const G2D: Column<ShareRow> =
    number("%G2D", "%", 0, "plug and dispatch, where there is no I", |row, _| {
        share(row.shares.g2d_share)
    });
const D2C: Column<ShareRow> =
    number("%D2C", "%", 0, "the driver and the device", |row, _| share(row.shares.d2c_share));

const OTHER: Column<ShareRow> = explained(
    "a flush of the cache before the data, or requeues by the driver",
    number(
        "%other",
        "%",
        1,
        "a flush of the cache before the data (`preflush_share` in JSON), and the time from the \
         first D to the last, if the driver requeued the request (`requeue_share`)",
        |row, _| share(row.shares.preflush_share + row.shares.requeue_share),
    ),
);

/// The columns of shares; the first column differs.
const fn by(first: Column<ShareRow>) -> [Column<ShareRow>; 9] {
    [first, REQUESTS, MEAN, Q2G, G2I, I2D, G2D, OTHER, D2C]
}

/// Shares by device.
pub const DEVICE_SHARES: Definition<ShareRow> = Definition {
    title: "iowhy stages: shares by device",
    sentence: "The share of each stage in the time of a device's requests (Q2C).",
    columns: &by(name("BY DEVICE", "the device", |row, _| row.name.clone().into())),
};

/// Shares by process.
pub const PROCESS_SHARES: Definition<ShareRow> = Definition {
    title: "iowhy stages: shares by process",
    sentence: "The same by the process that queued the requests; most time first.",
    columns: &by(name("BY PROCESS", "the process and its number", |row, _| {
        row.name.clone().into()
    })),
};

fn device(row: &DeviceFigures, style: &Style) -> String {
    escape(&row.device, style).into_owned()
}

/// A count, or a mark that the data do not tell it.
fn counted(count: Option<u64>) -> TableCell {
    count.map_or_else(|| "?".to_owned(), human::count).into()
}

/// Requests and bytes.
pub const TRAFFIC: Definition<DeviceFigures> = Definition {
    title: "iowhy stages: traffic",
    sentence: "The load of each device.",
    columns: &[
        name("TRAFFIC", "the device", |row, style| device(row, style).into()),
        number("queued", "bios", 3, "bios queued", |row, _| counted(row.queued)),
        number("merged", "bios", 5, "bios merged into requests", |row, _| counted(row.merged)),
        number("issued", "requests", 4, "requests issued, again after a requeue too", |row, _| {
            counted(row.issued)
        }),
        number("requeued", "requests", 6, "requests that the driver requeued", |row, _| {
            counted(row.requeues)
        }),
        number("reads", "requests", 0, "reads that completed", |row, _| {
            human::count(row.reads.requests).into()
        }),
        number("read", "bytes", 0, "their bytes", |row, _| {
            human::bytes(row.reads.bytes as f64).into()
        }),
        number(
            "writes",
            "requests",
            0,
            "writes, discards and zone commands that completed",
            |row, _| human::count(row.writes.requests).into(),
        ),
        number("written", "bytes", 0, "their bytes", |row, _| {
            human::bytes(row.writes.bytes as f64).into()
        }),
        number("flushes", "requests", 2, "flushes that completed", |row, _| {
            human::count(row.flushes.requests).into()
        }),
        number("errors", "requests", 1, "requests that completed with an error", |row, _| {
            let errors = row.reads.errors + row.writes.errors + row.flushes.errors;
            human::count(errors).into()
        }),
    ],
};

/// Distances on the device.
pub const SEEKS: Definition<SeekRow> = Definition {
    title: "iowhy stages: seeks",
    sentence: "Distances between successive bios (Q2Q) and requests (D2D).",
    columns: &[
        name("SEEKS", "the device", |row, _| row.name.clone().into()),
        Column {
            align: Align::Left,
            ..number("of", "", 0, "from Q to Q, or from D to D", |row, _| {
                row.kind.to_owned().into()
            })
        },
        number("N", "", 1, "how many", |row, _| human::count(row.seeks.count).into()),
        number(
            "%adjacent",
            "%",
            0,
            "the share that follows directly on the previous one",
            |row, _| human::percent(row.seeks.adjacent_share).into(),
        ),
        explained(
            "distances in sectors of 512 bytes",
            number("median", "sectors", 0, "the median distance", |row, _| {
                human::count(row.seeks.median_sectors).into()
            }),
        ),
        number("p90", "sectors", 3, "90th percentile of the distances that are not 0", |row, _| {
            row.seeks.p90_sectors.map_or_else(|| "-".to_owned(), human::count).into()
        }),
        number("mean", "sectors", 2, "the mean distance", |row, _| {
            human::rate(row.seeks.mean_sectors).into()
        }),
    ],
};

/// A figure about plugs; not known without single events.
fn plugged(row: &DeviceFigures, of: fn(&PlugFigures) -> String) -> TableCell {
    row.plugs.as_ref().map_or_else(|| "?".to_owned(), of).into()
}

/// Periods in which devices were active or plugged.
pub const PERIODS: Definition<DeviceFigures> = Definition {
    title: "iowhy stages: periods",
    sentence: "Periods in which a request was at the device, and in which it was plugged.",
    columns: &[
        name("PERIODS", "the device", |row, style| device(row, style).into()),
        number("active", "periods", 0, "periods in which a request was at the device", |row, _| {
            counted(row.active.map(|active| active.periods))
        }),
        number("avg", "time", 1, "their mean length", |row, style| {
            let mean = |active: &Active| active.mean_ns.map(|ns| human::time(ns, style));
            let shown = row.active.as_ref().map(|it| mean(it).unwrap_or_else(|| "-".to_owned()));
            shown.unwrap_or_else(|| "?".to_owned()).into()
        }),
        number(
            "%active",
            "%",
            0,
            "their share of the time from the device's first event to its last",
            |row, _| {
                let share = row.active.map(|active| human::percent(active.time_share));
                share.unwrap_or_else(|| "?".to_owned()).into()
            },
        ),
        number("plugs", "periods", 0, "periods in which it was plugged", |row, _| {
            plugged(row, |plugs| human::count(plugs.periods))
        }),
        number("by timer", "periods", 4, "of these ended by a timer or the scheduler", |row, _| {
            plugged(row, |plugs| human::count(plugs.by_timer))
        }),
        number("%plugged", "%", 2, "their share of the same time", |row, _| {
            plugged(row, |plugs| human::percent(plugs.time_share))
        }),
        number("I/Os each", "requests", 3, "requests released at the end of each", |row, _| {
            plugged(row, |plugs| plugs.mean_requests.map_or_else(|| "-".to_owned(), human::rate))
        }),
    ],
};

/// The complete text; `notes` come before any figure.
pub fn render(stages: &StagesSummary, notes: &[String], style: &Style) -> String {
    let mut screen = Screen::new(style);
    let unmatched = stages.unmatched.items.iter().map(|loss| loss.sentence());
    let missing = stages.missing.iter().map(|&sentence| sentence.to_owned());
    for sentence in notes.iter().cloned().chain(missing).chain(unmatched) {
        screen.prose(&escape(&sentence, style), 0, Paint::Plain);
    }
    if stages.devices.is_empty() {
        screen.prose("no requests", 0, Paint::Plain);
        return screen.text;
    }
    screen.table(&STAGES, &stage_rows(stages, style));
    let shares =
        |row: &DeviceFigures| Some(ShareRow { name: device(row, style), shares: row.shares? });
    let devices: Vec<ShareRow> = stages.devices.iter().filter_map(shares).collect();
    let shown = stages.processes.iter().take(PROCESSES);
    let processes: Vec<ShareRow> = shown.map(|row| process(row, style)).collect();
    screen.tables(&[(&DEVICE_SHARES, &devices), (&PROCESS_SHARES, &processes)]);
    let more = stages.processes.len() - processes.len();
    if more > 0 {
        screen.prose(&format!("{} not shown", plural(more as u64, "process")), 2, Paint::Faint);
    }
    screen.table(&TRAFFIC, &stages.devices);
    let seeks: Vec<SeekRow> = stages.devices.iter().flat_map(|row| seek_rows(row, style)).collect();
    screen.table(&SEEKS, &seeks);
    screen.table(&PERIODS, &stages.devices);
    screen.legend();
    screen.text
}

/// All devices together, then each device if there are several.
fn stage_rows(stages: &StagesSummary, style: &Style) -> Vec<StageLine> {
    let group = |name: String, figures: &[StageFigures]| {
        let row = |stage_figures: &StageFigures| StageLine {
            name: format!("  {}", stage_figures.stage.name()),
            figures: Some(*stage_figures),
        };
        let mut rows = vec![StageLine { name, figures: None }];
        rows.extend(figures.iter().map(row));
        rows
    };
    let mut rows = group("all devices".to_owned(), &stages.stages);
    if stages.devices.len() > 1 {
        rows.extend(
            stages
                .devices
                .iter()
                .flat_map(|figures| group(device(figures, style), &figures.stages)),
        );
    }
    rows
}

/// `java (30603)`.
fn process(row: &ProcessFigures, style: &Style) -> ShareRow {
    let process = row.process.as_deref().map(|name| escape(name, style));
    let name = match row.pid {
        None => "(more processes than kept)".to_owned(),
        Some(pid) => format!("{} ({pid})", process.as_deref().unwrap_or("(no name)")),
    };
    ShareRow { name, shares: row.shares }
}

fn seek_rows(row: &DeviceFigures, style: &Style) -> Vec<SeekRow> {
    let seeks = [("Q2Q", row.queue_seeks), ("D2D", row.issue_seeks)];
    let known = seeks.into_iter().filter_map(|(kind, seeks)| Some((kind, seeks?)));
    known.map(|(kind, seeks)| SeekRow { name: device(row, style), kind, seeks }).collect()
}

/// Returns the stages as JSON like that of [`json::render`], with notes and losses.
pub fn json(stages: &StagesSummary, notes: &[String], losses: &Losses) -> String {
    #[derive(Serialize)]
    struct StagesJson<'a> {
        notes: &'a [String],
        losses: &'a Losses,
        #[serde(flatten)]
        stages: &'a StagesSummary,
    }
    json::document(StagesJson { notes, losses, stages })
}
