//! `iowhy check`: what iowhy can collect on this machine.

use crate::args;
use crate::failure::Failure;
use crate::output;
use iowhy_capture::survey::{Availability, ProgramCheck, Survey, survey};
use iowhy_views::check::{self, CheckRow};
use serde_json::{Value, json};

/// Checks the kernel and prints the result.
pub fn run(check: &args::Check) -> Result<(), Failure> {
    let Survey { can_watch, items, programs, grant } = survey();
    let rows: Vec<CheckRow> = items
        .into_iter()
        .map(|item| CheckRow {
            what: item.what.to_owned(),
            state: match item.state {
                Availability::Yes => check::CheckState::Yes,
                Availability::Partly => check::CheckState::Partly,
                Availability::No => check::CheckState::No,
                Availability::Unknown => check::CheckState::Unknown,
            },
            value: item.value,
            lost_without: item.lost,
        })
        .collect();
    if check.json {
        let programs: Vec<Value> = programs.iter().map(program).collect();
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let all = json!({
            "can_watch": can_watch, "rows": rows, "programs": programs, "grant": grant,
        });
        return output::print(&iowhy_views::json::escaped(format!("{all:#}\n")));
    }
    output::print(&check::render(can_watch, &rows, grant.as_deref(), &output::style()))
}

fn row(row: &CheckRow) -> Value {
    json!({
        "what": row.what,
        "there": row.state.word(),
        "found": row.value,
        "lost": row.lost_without,
    })
}

fn program(program: &ProgramCheck) -> Value {
    json!({
        "program": program.probe.program,
        "tracepoint": program.probe.tracepoint,
        "gives": program.probe.gives,
        "usable": program.usable.is_ok(),
        "reason": program.usable.as_ref().err(),
        "verified_instructions": program.verified,
    })
}
