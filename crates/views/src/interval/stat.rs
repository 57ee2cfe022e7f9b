//! `iowhy stat`: iostat -x with nanosecond resolution, and figures that iostat lacks.

use super::IntervalView;
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, explained, number};
use crate::text::Screen;
use iowhy_analysis::summary::{DeviceSummary, DirectionSummary};
use iowhy_analysis::{Direction, Summary};

/// `iowhy stat`.
pub const STAT: IntervalView<Summary> = IntervalView {
    name: "stat",
    draw,
    json: |summary| serde_json::to_value(&summary.devices).unwrap_or_default(),
};

/// Mean number of requests at the driver while it is busy, from which a device counts as parallel.
const SEVERAL: f64 = 1.5;

/// The columns of `iowhy stat`, in iostat's order.
pub const DEVICES: Definition<DeviceSummary> = Definition {
    title: "iowhy stat",
    sentence: "One row for each device with I/O in the interval or requests in flight; the columns \
               are those of iostat -x, in its order, then figures that iostat lacks.",
    columns: &[
        Column {
            heading: "Device",
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
        number("rkB/s", "KiB/s", 2, KB, |device, _| kilobytes(device, Direction::Read)),
        number("rrqm/s", "1/s", 8, MERGED, |device, _| merged(device, Direction::Read)),
        number("%rrqm", "%", 9, MERGED_SHARE, |device, _| merged_share(device, Direction::Read)),
        explained(
            AWAIT_LEGEND,
            number("r_await", "ms", 0, AWAIT, |device, _| wait(device, Direction::Read)),
        ),
        number("rareq-sz", "KiB", 6, SIZE, |device, _| size(device, Direction::Read)),
        number("w/s", "1/s", 0, WRITES, |device, _| rate(device, Direction::Write)),
        number("wkB/s", "KiB/s", 2, KB, |device, _| kilobytes(device, Direction::Write)),
        number("wrqm/s", "1/s", 8, MERGED, |device, _| merged(device, Direction::Write)),
        number("%wrqm", "%", 9, MERGED_SHARE, |device, _| merged_share(device, Direction::Write)),
        explained(
            AWAIT_LEGEND,
            number("w_await", "ms", 0, AWAIT, |device, _| wait(device, Direction::Write)),
        ),
        number("wareq-sz", "KiB", 6, SIZE, |device, _| size(device, Direction::Write)),
        number("d/s", "1/s", 10, "discards completed per second", |device, _| {
            rate(device, Direction::Discard)
        }),
        number("dkB/s", "KiB/s", 11, KB, |device, _| kilobytes(device, Direction::Discard)),
        number("drqm/s", "1/s", 13, MERGED, |device, _| merged(device, Direction::Discard)),
        number("%drqm", "%", 13, MERGED_SHARE, |device, _| {
            merged_share(device, Direction::Discard)
        }),
        explained(
            AWAIT_LEGEND,
            number("d_await", "ms", 11, AWAIT, |device, _| wait(device, Direction::Discard)),
        ),
        number("dareq-sz", "KiB", 12, SIZE, |device, _| size(device, Direction::Discard)),
        number(
            "f/s",
            "1/s",
            4,
            "cache flushes that the device completed per second",
            |device, _| rate(device, Direction::Flush),
        ),
        explained(
            AWAIT_LEGEND,
            number("f_await", "ms", 5, FLUSH_AWAIT, |device, _| wait(device, Direction::Flush)),
        ),
        number(
            "aqu-sz",
            "requests",
            3,
            "mean queue length as in iostat: the time of the requests that completed in the \
             interval, by its length; a request that hangs is not in it",
            |device, _| device.aqu_sz.map_or_else(|| "?".to_owned(), human::rate).into(),
        ),
        explained(
            "mean number of requests queued or in flight, hung ones included",
            number(
                "in-fl",
                "requests",
                1,
                "mean number of requests queued or in flight, hung ones included: what aqu-sz is \
                 often read as",
                |device, _| human::rate(device.in_flight_mean).into(),
            ),
        ),
        explained(
            "age of the oldest request in flight at the end of the interval",
            number(
                "oldest",
                "time",
                2,
                "age of the oldest request in flight at the end of the interval",
                oldest,
            ),
        ),
        explained(
            "time with a request at the driver; +: it works on several at once, so 100 is not its \
             limit",
            number(
                "%util",
                "%",
                0,
                "share of the time with at least one request at the driver; with a + the device \
                 worked on several at once (on average more than 1.5 while it was busy), so that \
                 100 does not mean that it can do no more",
                util,
            ),
        ),
    ],
};

const KB: &str = "KiB per second; iostat's kB are KiB too";
const MERGED: &str = "requests merged into others per second, before they were queued";
const MERGED_SHARE: &str = "their share of all submitted requests";
const AWAIT: &str = "mean time from getting a request to completion; the wait for a request (Q2G) \
                     is not in it, as it is not in iostat's";
const FLUSH_AWAIT: &str = "mean time from the issue of a flush to its completion; iostat's begins \
                           when the kernel decides to flush";
const AWAIT_LEGEND: &str = "mean ms from G to C, as in iostat; Q2G is not in it";
const SIZE: &str = "average size of a request";
const WRITES: &str =
    "writes completed per second; as in iostat, a flush request counts as an empty write";

fn draw(summary: &Summary, screen: &mut Screen<'_>) {
    screen.rows(&DEVICES, &summary.devices);
    let idle = summary.idle_devices;
    match (summary.devices.is_empty(), idle) {
        (true, _) => {
            screen.prose(&format!("no requests; {}", plural(idle, "idle device")), 0, Paint::Faint)
        }
        (false, 0) => {}
        (false, idle) => screen.prose(&plural(idle, "idle device"), 2, Paint::Faint),
    }
    for device in &summary.devices {
        if let Some(stalled) = device.stalled_ns {
            let name = escape(&device.device, screen.style);
            let time = human::time(stalled as f64, screen.style);
            let text = format!("{name}: nothing has completed for {time}");
            screen.prose(&text, 2, Paint::Alert);
        }
    }
}

fn figures(device: &DeviceSummary, direction: Direction) -> &DirectionSummary {
    &device.directions[direction]
}

fn rate(device: &DeviceSummary, direction: Direction) -> TableCell {
    human::rate(figures(device, direction).requests_per_s).into()
}

fn kilobytes(device: &DeviceSummary, direction: Direction) -> TableCell {
    human::rate(figures(device, direction).bytes_per_s / 1024.0).into()
}

fn merged(device: &DeviceSummary, direction: Direction) -> TableCell {
    human::rate(figures(device, direction).merges_per_s).into()
}

fn merged_share(device: &DeviceSummary, direction: Direction) -> TableCell {
    figures(device, direction).merged_share.map_or_else(|| "-".to_owned(), human::percent).into()
}

fn wait(device: &DeviceSummary, direction: Direction) -> TableCell {
    let figures = figures(device, direction);
    let absent = if figures.requests > figures.begun_before_requests { "?" } else { "-" };
    let shown = |nanoseconds| human::milliseconds(nanoseconds);
    figures.await_ns.map_or_else(|| absent.to_owned(), shown).into()
}

fn size(device: &DeviceSummary, direction: Direction) -> TableCell {
    let size = figures(device, direction).average_bytes.map(|bytes| human::rate(bytes / 1024.0));
    size.unwrap_or_else(|| "-".to_owned()).into()
}

fn oldest(device: &DeviceSummary, style: &Style) -> TableCell {
    match device.oldest_open_ns {
        None => "-".to_owned().into(),
        Some(age) => {
            let paint = if device.is_oldest_overdue { Paint::Alert } else { Paint::Plain };
            TableCell { text: human::time(age as f64, style), paint }
        }
    }
}

fn util(device: &DeviceSummary, _style: &Style) -> TableCell {
    let Some(share) = device.util_share else { return "?".to_owned().into() };
    let several = device.busy_depth_mean.is_some_and(|depth| depth >= SEVERAL);
    format!("{}{}", human::percent(share), if several { "+" } else { "" }).into()
}
