//! A table as it is shown: its rows in their order, without those that the filter leaves out, and
//! what is behind each.

use super::columns::{OPENED_BY, TopUsedRow, TopWaitedRow, WAITED_BY};
use super::state::{TopState, TopTable};
use crate::escape::escape;
use crate::interval::proc::processes_table;
use crate::style::Style;
use crate::table::{Definition, draw};
use crate::text::{DEVICES, STAGES, StageRow, WAITS, process_name, stage_rows};
use iowhy_analysis::Direction;
use iowhy_analysis::processes::ProcessActivity;
use iowhy_analysis::summary::{BreakdownAxis, BreakdownSubject};
use iowhy_analysis::summary::{ClassRow, CodePathRow, DeviceSummary, ProcessRow};
use iowhy_diagnosis::moments::Moment;
use iowhy_model::WaitClass;
use iowhy_model::compact_sort::CompactSort;
use std::ops::Range;

/// An order: its name, and the figure by which rows are ordered, the largest first.
type Order<R> = (&'static str, fn(&R) -> f64);

/// A table that is shown.
pub(super) trait ShownTable {
    /// Returns the number of rows.
    fn len(&self) -> usize;
    /// Returns the name of a row, for the filter and to find it again in the next second.
    fn id(&self, index: usize) -> String;
    /// Returns the subject behind a row.
    fn subject(&self, index: usize) -> Option<BreakdownSubject>;
    /// The heading and the lines of some rows.
    fn lines(&self, rows: Range<usize>, style: &Style) -> Vec<String>;
    /// The orders that it has.
    fn orders(&self) -> Vec<&'static str>;
}

struct Rows<R: 'static> {
    definition: &'static Definition<R>,
    /// None where rows are in groups, whose first alone has their name.
    orders: &'static [Order<R>],
    rows: Vec<(String, Option<BreakdownSubject>, R)>,
}

impl<R: Clone> ShownTable for Rows<R> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn id(&self, index: usize) -> String {
        self.rows.get(index).map(|row| row.0.clone()).unwrap_or_default()
    }

    fn subject(&self, index: usize) -> Option<BreakdownSubject> {
        self.rows.get(index)?.1.clone()
    }

    fn lines(&self, rows: Range<usize>, style: &Style) -> Vec<String> {
        let shown: Vec<R> =
            self.rows.get(rows).unwrap_or_default().iter().map(|row| row.2.clone()).collect();
        draw(self.definition, &shown, style).lines().collect()
    }

    fn orders(&self) -> Vec<&'static str> {
        self.orders.iter().map(|(name, _)| *name).collect()
    }
}

impl<R: Clone + 'static> Rows<R> {
    /// The rows as the user wants to see them.
    fn shown(mut self, state: &TopState) -> Box<dyn ShownTable> {
        let filter = state.filter.to_lowercase();
        if !filter.is_empty() {
            self.rows.retain(|(id, ..)| id.to_lowercase().contains(&filter));
        }
        if state.hides_idle && !self.orders.is_empty() {
            self.rows.retain(|(_, _, row)| self.orders.iter().any(|(_, by)| by(row) > 0.0));
        }
        let place = state.order().min(self.orders.len().saturating_sub(1));
        if let Some((_, by)) = self.orders.get(place) {
            self.rows.compact_sort_by(|a, b| by(&b.2).total_cmp(&by(&a.2)));
            if state.is_reversed() {
                self.rows.reverse();
            }
        }
        Box::new(self)
    }
}

/// The table that the user chose, of a moment.
pub(super) fn table(state: &TopState, moment: &Moment, style: &Style) -> Box<dyn ShownTable> {
    if let Some(axis) = state.axis() {
        return match state.is_of_waits() {
            true => waited(state, moment, axis, style),
            false => used(state, moment, axis, style),
        };
    }
    match state.table {
        TopTable::Devices => devices(moment, style).shown(state),
        TopTable::Processes => processes(moment, style).shown(state),
        TopTable::Files => used(state, moment, BreakdownAxis::File, style),
        TopTable::Waits => classes(moment).shown(state),
        TopTable::Stages => stages(moment, style).shown(state),
        TopTable::Units => used(state, moment, BreakdownAxis::Unit, style),
    }
}

fn devices(moment: &Moment, style: &Style) -> Rows<DeviceSummary> {
    const ORDERS: &[Order<DeviceSummary>] = &[
        ("time", |device| device.in_flight_mean),
        ("%util", |device| device.util_share.unwrap_or(0.0)),
        ("r/s", |device| device.directions[Direction::Read].requests_per_s),
        ("w/s", |device| device.directions[Direction::Write].requests_per_s),
        ("read/s", |device| device.directions[Direction::Read].bytes_per_s),
        ("write/s", |device| device.directions[Direction::Write].bytes_per_s),
        ("r_await", |device| device.directions[Direction::Read].await_ns.unwrap_or(0.0)),
        ("w_await", |device| device.directions[Direction::Write].await_ns.unwrap_or(0.0)),
    ];
    let row = |device: &DeviceSummary| {
        let subject = BreakdownSubject::Device(device.device.clone());
        (escape(&device.device, style).into_owned(), Some(subject), device.clone())
    };
    Rows { definition: &DEVICES, orders: ORDERS, rows: moment.devices.iter().map(row).collect() }
}

fn processes(moment: &Moment, style: &Style) -> Rows<ProcessActivity> {
    const ORDERS: &[Order<ProcessActivity>] = &[
        ("bytes", |process| {
            let counted =
                process.read_bytes_per_s.unwrap_or(0.0) + process.write_bytes_per_s.unwrap_or(0.0);
            counted.max(process.device_bytes_per_s)
        }),
        ("%blocked", |process| process.blocked_share.unwrap_or(0.0)),
        ("kB_rd/s", |process| process.read_bytes_per_s.unwrap_or(0.0)),
        ("kB_wr/s", |process| process.write_bytes_per_s.unwrap_or(0.0)),
        ("dev r/s", |process| process.device_reads_per_s),
        ("dev w/s", |process| process.device_writes_per_s),
    ];
    let row = |process: &ProcessActivity| {
        let subject = BreakdownSubject::Process(ProcessRow {
            pid: Some(process.pid),
            process: process.process.clone(),
            executable: None,
            user: process.user.clone(),
            io_class: None,
            container: process.container.clone(),
        });
        (
            format!("{} {}", escape(&process.process, style), process.pid),
            Some(subject),
            process.clone(),
        )
    };
    Rows {
        definition: processes_table(&moment.processes),
        orders: ORDERS,
        rows: moment.processes.iter().map(row).collect(),
    }
}

fn classes(moment: &Moment) -> Rows<ClassRow> {
    const ORDERS: &[Order<ClassRow>] = &[
        ("time", |class| class.time_ns as f64),
        ("waits", |class| class.waits as f64),
        ("longest", |class| class.longest_ns as f64),
    ];
    let row = |class: &ClassRow| {
        let phrase = WaitClass::phrase_of(class.class).to_owned();
        (phrase, Some(BreakdownSubject::Class(class.class)), class.clone())
    };
    let classes = moment.ledger.iter().flat_map(|ledger| &ledger.classes);
    Rows { definition: &WAITS, orders: ORDERS, rows: classes.map(row).collect() }
}

fn stages(moment: &Moment, style: &Style) -> Rows<StageRow> {
    // All stages of a device are adjacent.
    const ORDERS: &[Order<StageRow>] = &[];
    let of_device = |device: &DeviceSummary| {
        let mut group = String::new();
        let rows: Vec<_> = stage_rows(device, style)
            .into_iter()
            .map(|row| {
                if !row.group.is_empty() {
                    group.clone_from(&row.group);
                }
                let id = format!("{group} {}", row.stage_word());
                (id, Some(BreakdownSubject::Device(device.device.clone())), row)
            })
            .collect();
        rows
    };
    Rows {
        definition: &STAGES,
        orders: ORDERS,
        rows: moment.devices.iter().flat_map(of_device).collect(),
    }
}

/// Returns the position of an axis among the tables behind a line.
fn place(axis: BreakdownAxis) -> usize {
    match axis {
        BreakdownAxis::File => 1,
        BreakdownAxis::CodePath => 2,
        BreakdownAxis::Unit => 3,
        _ => 0,
    }
}

fn used(
    state: &TopState,
    moment: &Moment,
    axis: BreakdownAxis,
    style: &Style,
) -> Box<dyn ShownTable> {
    const ORDERS: &[Order<TopUsedRow>] = &[
        ("%time", |row| row.usage.all_time_ns() as f64),
        ("r/s", |row| row.usage.directions[Direction::Read].requests as f64),
        ("w/s", |row| row.usage.directions[Direction::Write].requests as f64),
        ("read/s", |row| row.usage.directions[Direction::Read].bytes as f64),
        ("write/s", |row| row.usage.directions[Direction::Write].bytes as f64),
    ];
    let seconds = (moment.duration_ns() as f64 / 1e9).max(1e-9);
    let rows = moment.breakdown.used(&state.opened, axis).into_iter().map(|row| {
        let (name, is_rest) = name(&row.subject, style);
        let subject = row.subject;
        (name.clone(), Some(subject), TopUsedRow { name, usage: row.usage, seconds, is_rest })
    });
    Rows { definition: &OPENED_BY[place(axis)], orders: ORDERS, rows: rows.collect() }.shown(state)
}

fn waited(
    state: &TopState,
    moment: &Moment,
    axis: BreakdownAxis,
    style: &Style,
) -> Box<dyn ShownTable> {
    const ORDERS: &[Order<TopWaitedRow>] = &[
        ("time", |row| row.waited.time_ns as f64),
        ("waits", |row| row.waited.waits as f64),
        ("longest", |row| row.waited.longest_ns as f64),
    ];
    let rows = moment.breakdown.waited(&state.opened, axis).into_iter().map(|waited| {
        let (name, is_rest) = name(&waited.subject, style);
        let subject = Some(waited.subject.clone());
        (name.clone(), subject, TopWaitedRow { name, waited, is_rest })
    });
    Rows { definition: &WAITED_BY[place(axis)], orders: ORDERS, rows: rows.collect() }.shown(state)
}

/// Returns the name of a subject, escaped, and whether it is none.
pub(super) fn name(subject: &BreakdownSubject, style: &Style) -> (String, bool) {
    let name = match subject {
        BreakdownSubject::Class(class) => WaitClass::phrase_of(class).to_owned(),
        BreakdownSubject::Device(device) => escape(device, style).into_owned(),
        BreakdownSubject::Unit(unit) => escape(unit, style).into_owned(),
        BreakdownSubject::Process(row) => process_name(row, style),
        BreakdownSubject::File { file, deleted: false } => escape(file, style).into_owned(),
        BreakdownSubject::File { file, deleted: true } => {
            format!("{} (deleted)", escape(file, style))
        }
        BreakdownSubject::CodePath(path) => functions(path, style).join(" < "),
        BreakdownSubject::None(_, reason) => return (format!("({})", escape(reason, style)), true),
    };
    (name, false)
}

/// The functions of a code path, the kernel's innermost first, then the program's.
pub(super) fn functions(path: &CodePathRow, style: &Style) -> Vec<String> {
    let cut = |complete: bool, any: bool| (any && !complete).then(|| style.either("…", "..."));
    let kernel = path.kernel.iter().map(String::as_str);
    let user = path.user.iter().map(String::as_str);
    let all = kernel
        .chain(cut(path.kernel_complete, !path.kernel.is_empty()))
        .chain(user)
        .chain(cut(path.user_complete, !path.user.is_empty()));
    all.map(|name| escape(name, style).into_owned()).collect()
}
