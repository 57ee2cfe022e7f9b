//! The devices, with iostat's columns.

use super::Screen;
use crate::escape::{escape, fit};
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, explained, number};
use iowhy_analysis::summary::{DeviceSummary, DirectionSummary, PartialDirection};
use iowhy_analysis::{Direction, Summary};
use iowhy_diagnosis::facts::health;
use iowhy_model::environment::Environment;

/// Settings that the screen shows, in this order.
const SETTINGS: &[&str] = &[
    "queue/scheduler",
    "queue/nr_requests",
    "queue/read_ahead_kb",
    "queue/wbt_lat_usec",
    "queue/write_cache",
    "queue/rotational",
];

/// The devices.
pub const DEVICES: Definition<DeviceSummary> = Definition {
    title: "DEVICES",
    sentence: "One row for each device that had requests, the one with the most time first. On a \
               bio-based device (zram, device mapper) a row counts bios.",
    columns: &[
        Column {
            heading: "DEVICES",
            unit: "",
            align: Align::Left,
            room: Room::CutMiddle,
            sentence: "the kernel's name of the device",
            legend: "",
            value: |device, style| escape(&device.device, style).into_owned().into(),
        },
        number("r/s", "1/s", 0, "reads completed per second", |device, _| {
            rate(device, Direction::Read)
        }),
        number(
            "w/s",
            "1/s",
            0,
            "writes completed per second; as in iostat, a flush request counts as an empty write",
            |device, _| rate(device, Direction::Write),
        ),
        number(
            "f/s",
            "1/s",
            4,
            "cache flushes that the device completed per second",
            |device, _| rate(device, Direction::Flush),
        ),
        number("d/s", "1/s", 9, "discards completed per second", |device, _| {
            rate(device, Direction::Discard)
        }),
        number("read/s", "bytes/s", 1, "bytes read per second", |device, _| {
            bytes(device, Direction::Read)
        }),
        number("write/s", "bytes/s", 1, "bytes written per second", |device, _| {
            bytes(device, Direction::Write)
        }),
        explained(
            AWAIT_LEGEND,
            number("r_await", "time", 2, AWAIT, |device, style| {
                wait(device, Direction::Read, style)
            }),
        ),
        explained(
            AWAIT_LEGEND,
            number("w_await", "time", 2, AWAIT, |device, style| {
                wait(device, Direction::Write, style)
            }),
        ),
        explained(
            AWAIT_LEGEND,
            number("f_await", "time", 8, FLUSH_AWAIT, |device, style| {
                wait(device, Direction::Flush, style)
            }),
        ),
        explained(
            "mean queue length as in iostat, of completed requests only",
            number(
                "aqu-sz",
                "requests",
                3,
                "mean queue length as in iostat: the time that completed requests took, per \
                 second; what has not completed is not in it",
                |device, _| known(device.aqu_sz, human::rate, true),
            ),
        ),
        explained(
            "time with a request at the driver; 100 is not the limit of a parallel device",
            number(
                "%util",
                "%",
                0,
                "share of the time with at least one request at the driver, from issue to \
                 completion, to the nanosecond (iostat's begins when a request is allocated and is \
                 rounded to clock ticks); a device that works on many at once is not full at 100",
                |device, _| known(device.util_share, human::percent, true),
            ),
        ),
        number(
            "in flight",
            "requests",
            6,
            "requests that had not completed at the end",
            |device, _| human::count(device.open_requests).into(),
        ),
        explained(
            SEQUENTIAL_LEGEND,
            number("%rseq", "%", 5, SEQUENTIAL, |device, _| sequential(device, Direction::Read)),
        ),
        explained(
            SEQUENTIAL_LEGEND,
            number("%wseq", "%", 5, SEQUENTIAL, |device, _| sequential(device, Direction::Write)),
        ),
        number("rareq-sz", "bytes", 7, "average size of a read", |device, _| {
            size(device, Direction::Read)
        }),
        number("wareq-sz", "bytes", 7, "average size of a write", |device, _| {
            size(device, Direction::Write)
        }),
        number("rrqm/s", "1/s", 10, "reads merged into others per second", |device, _| {
            human::rate(device.directions[Direction::Read].merges_per_s).into()
        }),
        number("wrqm/s", "1/s", 10, "writes merged into others per second", |device, _| {
            human::rate(device.directions[Direction::Write].merges_per_s).into()
        }),
        Column {
            heading: "top process",
            unit: "",
            align: Align::Left,
            room: Room::Rank(11),
            sentence: "the process with most of the device's time, and its share in %",
            legend: "",
            value: top_process,
        },
    ],
};

const AWAIT: &str = "mean time from getting a request to completion, as in iostat; the wait for a \
                     request (Q2G) is not in it; on bio-based devices from queueing";
const FLUSH_AWAIT: &str = "mean time from the issue of a flush to its completion; iostat's begins \
                           when the kernel decides to flush";
const AWAIT_LEGEND: &str = "mean time from G to C, as in iostat; Q2G is not in it";
const SEQUENTIAL: &str = "share of bytes that begin where an earlier request of their stream (a \
                          file's, else a process's) ended; streams may be interleaved";
const SEQUENTIAL_LEGEND: &str = "bytes that begin where an earlier request of their stream ended";

/// The devices, then the setup of each.
pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let shown = summary.devices.len().min(screen.style.rows * 2);
    let (devices, others) = summary.devices.split_at(shown);
    screen.table(&DEVICES, devices);
    for device in devices.iter().take(screen.style.rows) {
        let facts = facts(device, screen.style);
        if !facts.is_empty() {
            let name = escape(&device.device, screen.style);
            screen.prose(&format!("{name}: {facts}"), 2, Paint::Faint);
        }
        reported(device, screen);
    }
    if !others.is_empty() || summary.idle_devices > 0 {
        let idle = summary.idle_devices;
        let others = others.len();
        let text = match (others, idle) {
            (0, idle) => format!("idle devices: {idle}"),
            (others, idle) => format!("devices not shown: {others}; idle: {idle}"),
        };
        screen.prose(&text, 2, Paint::Faint);
    }
}

/// The file systems on a device and the file behind it, in one line: `loop0: ext4 at /srv, in
/// /var/disk`.
pub(super) fn place(device: &DeviceSummary, environment: &Environment, screen: &mut Screen) {
    let style = screen.style;
    let number = (device.major, device.minor);
    let mounts = environment.mounts.iter().filter(|mount| mount.is_on(&device.device, number));
    let room = style.columns() / 3;
    let name = |path: &str| fit(&escape(path, style), room, style);
    let mut facts = Vec::new();
    // A bind mount is of the same file system: the shortest path is its own.
    if let Some(first) = mounts.min_by_key(|mount| mount.path.len()) {
        facts.push(format!("{} at {}", escape(&first.kind, style), name(&first.path)));
    }
    if let Some(file) = &device.backing_file {
        facts.push(format!("in {}", name(file)));
    }
    if !facts.is_empty() {
        let text = format!("{}: {}", escape(&device.device, style), facts.join(", "));
        screen.prose(&text, 2, Paint::Faint);
    }
}

/// Writes a device's report on its health, with its model; nothing if it has none.
pub(super) fn reported(device: &DeviceSummary, screen: &mut Screen) {
    let Some(report) = health::report(device) else { return };
    let style = screen.style;
    let name = escape(&device.device, style);
    let model = device.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let model = model.map(|model| format!(" ({})", escape(model, style))).unwrap_or_default();
    screen.prose(
        &format!("{name}{model}: {}", super::why::readable(&report, style)),
        2,
        Paint::Faint,
    );
}

/// The setup of a device, as far as it is known.
fn facts(device: &DeviceSummary, style: &Style) -> String {
    let mut facts = Vec::new();
    for setting in SETTINGS {
        let value = device.settings.get(*setting).filter(|value| !value.is_empty());
        facts.extend(value.and_then(|value| setting_in_words(setting, &escape(value, style))));
    }
    if device.bio_based {
        facts.push("bio-based".to_owned());
    }
    if !device.below.is_empty() {
        facts.push(format!("on {}", escape(&device.below.join(" "), style)));
    }
    if let Some(file) = &device.backing_file {
        facts.push(format!("in {}", escape(file, style)));
    }
    facts
        .extend(device.transport.as_deref().map(|transport| escape(transport, style).into_owned()));
    let model = device.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    facts.extend(model.map(|model| escape(model, style).into_owned()));
    facts.extend(device.size_bytes.map(|size| human::bytes(size as f64)));
    facts.join(", ")
}

fn setting_in_words(setting: &str, value: &str) -> Option<String> {
    // The kernel lists all schedulers and marks the one in use: "none [mq-deadline] kyber".
    let in_use = value.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let setting = setting.strip_prefix("queue/").unwrap_or(setting);
    match (setting, value) {
        ("scheduler", _) => Some(format!("scheduler {}", in_use.map_or(value, |(name, _)| name))),
        ("rotational", "1") => Some("rotational".to_owned()),
        ("rotational", _) => None,
        ("write_cache", _) => Some(value.to_owned()),
        _ => Some(format!("{setting} {value}")),
    }
}

/// A figure; `?` if it is not known although there were requests, `-` if there were none.
fn known(figure: Option<f64>, show: fn(f64) -> String, requests: bool) -> TableCell {
    let absent = if requests { "?" } else { "-" };
    figure.map_or_else(|| absent.to_owned(), show).into()
}

fn completed(figures: &DirectionSummary) -> bool {
    figures.requests > figures.begun_before_requests
}

/// Whether the source does not tell how many requests of a direction there were.
fn is_untold(device: &DeviceSummary, direction: Direction) -> bool {
    let told = device.kernel.is_some_and(|kernel| kernel.directions[direction].is_some());
    device.is_kernel_counted && !told && direction != Direction::Other
}

/// Returns the figures of a direction of which the source does not tell all.
fn partial(device: &DeviceSummary, direction: Direction) -> PartialDirection {
    device.kernel.and_then(|kernel| kernel.partial[direction]).unwrap_or_default()
}

fn rate(device: &DeviceSummary, direction: Direction) -> TableCell {
    if is_untold(device, direction) {
        return known(partial(device, direction).requests_per_s, human::rate, true);
    }
    human::rate(device.directions[direction].requests_per_s).into()
}

fn bytes(device: &DeviceSummary, direction: Direction) -> TableCell {
    if is_untold(device, direction) {
        return known(partial(device, direction).bytes_per_s, human::bytes, true);
    }
    human::bytes(device.directions[direction].bytes_per_s).into()
}

fn wait(device: &DeviceSummary, direction: Direction, style: &Style) -> TableCell {
    let figures = &device.directions[direction];
    match figures.await_ns.or(partial(device, direction).await_ns) {
        Some(nanoseconds) => human::time(nanoseconds, style).into(),
        None => {
            let is_unknown = completed(figures) || is_untold(device, direction);
            known(None, human::rate, is_unknown)
        }
    }
}

fn sequential(device: &DeviceSummary, direction: Direction) -> TableCell {
    known(device.directions[direction].sequential_share, human::percent, false)
}

fn size(device: &DeviceSummary, direction: Direction) -> TableCell {
    known(device.directions[direction].average_bytes, human::bytes, false)
}

fn top_process(device: &DeviceSummary, style: &Style) -> TableCell {
    let Some(row) = device.processes.first() else { return "-".to_owned().into() };
    let name = super::usage::process_name(&row.subject, style);
    format!("{name} {}", human::percent(row.usage.time_share)).into()
}
