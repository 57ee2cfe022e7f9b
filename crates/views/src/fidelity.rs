//! A reproduction and its original: the table of figures, and whether the same finding comes
//! first.
//!
//! What does not belong here: the comparison (see [`iowhy_diagnosis::fidelity`]).

use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, number};
use crate::text::Screen;
use iowhy_diagnosis::fidelity::{Fidelity, FidelityRow, FidelityUnit};

/// The columns of a reproduction's fidelity.
pub const FIDELITY: Definition<FidelityRow> = Definition {
    title: "iowhy reproduce: fidelity",
    sentence: "The figures of a reproduction and of its original.",
    columns: &[
        Column {
            heading: "FIDELITY",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the figure, and the disk if there are several",
            legend: "",
            value: |row, _| row.what.clone().into(),
        },
        number("original", "as the row says", 0, "its value in the recording", |row, style| {
            figure(row.unit, row.original, style).into()
        }),
        number("now", "as the row says", 0, "its value in the reproduction", |row, style| {
            figure(row.unit, row.now, style).into()
        }),
        number("differs", "%", 0, "by how much; percentages by points", |row, _| {
            difference(row).into()
        }),
        Column {
            heading: "agrees",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "`yes` if the difference is within the figure's tolerance: 10 % for rates, \
                       sizes and mixes, 30 % for times, 15 points for shares",
            legend: "within 10 % for rates and sizes, 30 % for times, 15 points for shares",
            value: |row, _| match row.agrees {
                true => "yes".to_owned().into(),
                false => TableCell { text: "no".to_owned(), paint: Paint::Alert },
            },
        },
    ],
};

/// A figure with its unit.
pub(crate) fn figure(unit: FidelityUnit, value: Option<f64>, style: &Style) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match unit {
        FidelityUnit::PerSecond => format!("{}/s", human::rate(value)),
        FidelityUnit::Bytes => human::bytes(value),
        FidelityUnit::Nanoseconds => human::time(value, style),
        FidelityUnit::Percent => format!("{} %", human::percent(value / 100.0)),
        FidelityUnit::Number => human::rate(value),
    }
}

fn difference(row: &FidelityRow) -> String {
    match (row.difference, row.unit) {
        (None, _) => "-".to_owned(),
        (Some(points), FidelityUnit::Percent) => format!("{points:+.0} points"),
        (Some(share), _) => format!("{:+.0} %", share * 100.0),
    }
}

/// The verdict and the table.
pub fn render(fidelity: &Fidelity, style: &Style) -> String {
    let mut screen = Screen::new(style);
    let name = |cause: &Option<String>| cause.clone().unwrap_or_else(|| "none".to_owned());
    let [original, now] = [&fidelity.findings[0], &fidelity.findings[1]].map(name);
    let (text, paint) = match fidelity.same_finding {
        true => (format!("The same finding comes first: {original}."), Paint::Heading),
        false => (format!("Another finding comes first: {now}; it was {original}."), Paint::Alert),
    };
    screen.prose(&text, 0, paint);
    let (agree, all) = (fidelity.agreeing(), fidelity.rows.len());
    screen.prose(&format!("{agree} of {all} figures agree."), 0, Paint::Plain);
    screen.table(&FIDELITY, &fidelity.rows);
    screen.legend();
    screen.text
}
