//! `iowhy check`: what this machine lets iowhy see.

use crate::args;
use crate::failure::Failure;
use crate::output;
use iowhy_capture::survey::{Program, State, Survey, survey};
use iowhy_views::check::{self, Row};
use serde_json::{Value, json};

/// Looks and shows.
pub fn run(check: &args::Check) -> Result<(), Failure> {
    let Survey { items, programs, grant } = survey();
    let rows: Vec<Row> = items
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
    if check.json {
        let programs: Vec<Value> = programs.iter().map(program).collect();
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let all = json!({ "rows": rows, "programs": programs, "grant": grant });
        return output::print(&format!("{all:#}\n"));
    }
    output::print(&check::render(&rows, grant.as_deref(), &output::style()))
}

fn row(row: &Row) -> Value {
    json!({
        "what": row.what,
        "there": row.state.word(),
        "found": row.value,
        "lost": row.lost_without,
    })
}

fn program(program: &Program) -> Value {
    json!({
        "program": program.probe.program,
        "tracepoint": program.probe.tracepoint,
        "gives": program.probe.gives,
        "usable": program.usable.is_ok(),
        "reason": program.usable.as_ref().err(),
        "verified_instructions": program.verified,
    })
}
