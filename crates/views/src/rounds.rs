//! Rounds without and with a change: the table of `iowhy verify`.
//!
//! What does not belong here: the comparison (see [`iowhy_diagnosis::rounds`]).

use crate::fidelity::figure;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, number};
use crate::text::Screen;
use iowhy_diagnosis::rounds::RoundsRow;

/// The columns of `iowhy verify`.
pub const ROUNDS: Definition<RoundsRow> = Definition {
    title: "iowhy verify",
    sentence: "The means of interleaved rounds without and with a change, and their difference.",
    columns: &[
        Column {
            heading: "ROUNDS",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the figure; times are the longest of all disks",
            legend: "",
            value: |row, _| row.what.clone().into(),
        },
        number("without", "as the row says", 0, "the mean of rounds without", |row, style| {
            figure(row.unit, Some(row.compared.means[0]), style).into()
        }),
        number("with", "as the row says", 0, "the mean of rounds with the change", |row, style| {
            figure(row.unit, Some(row.compared.means[1]), style).into()
        }),
        number("difference", "%", 0, "how much more with the change", |row, _| {
            percent(row, row.compared.difference).into()
        }),
        number("95 % interval", "%", 0, "the confidence interval of the difference", |row, _| {
            let [low, high] = row.compared.interval.map(|interval| percent(row, interval));
            format!("{low} to {high}").into()
        }),
        Column {
            heading: "clear",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "`yes` if the interval excludes zero",
            legend: "the interval excludes zero",
            value: |row, _| match row.compared.is_clear {
                true => TableCell { text: "yes".to_owned(), paint: Paint::Heading },
                false => "no".to_owned().into(),
            },
        },
    ],
};

/// A share of the mean without the change.
fn percent(row: &RoundsRow, value: f64) -> String {
    let [without, _] = row.compared.means;
    match without.abs() > f64::EPSILON {
        true => format!("{:+.0} %", value / without * 100.0),
        false => "-".to_owned(),
    }
}

/// The table, below `sentences`.
pub fn render(sentences: &[String], rows: &[RoundsRow], style: &Style) -> String {
    let mut screen = Screen::new(style);
    for sentence in sentences {
        screen.prose(sentence, 0, Paint::Plain);
    }
    screen.table(&ROUNDS, rows);
    screen.legend();
    screen.text
}
