//! `iowhy check`: what this machine lets iowhy see.

use crate::failure::Failure;
use crate::output;
use iowhy_capture::survey::{State, survey};
use iowhy_views::check::{self, Row};

/// Looks and shows.
pub fn run() -> Result<(), Failure> {
    let rows: Vec<Row> = survey()
        .into_iter()
        .map(|item| Row {
            what: item.what.to_owned(),
            state: match item.state {
                State::Yes => check::State::Yes,
                State::Partly => check::State::Partly,
                State::No => check::State::No,
                State::Unknown => check::State::Unknown,
            },
            value: item.value,
            lost_without: item.lost,
        })
        .collect();
    output::print(&check::render(&rows, &output::style()))
}
