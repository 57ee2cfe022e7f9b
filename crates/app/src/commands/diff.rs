//! `iowhy diff`: what differs between two watches, or between two devices of one.

use super::report;
use crate::args::Only;
use crate::args::diff::Diff;
use crate::failure::{Failure, USAGE};
use crate::output;
use iowhy_core::analysis::Summary;
use iowhy_core::diagnosis::diagnose;
use iowhy_core::diff::{Side, UnknownDevice, compare};
use iowhy_views::style::Style;
use std::path::Path;

/// Compares, and prints.
pub fn run(args: &Diff) -> Result<(), Failure> {
    let a = read(&args.a)?;
    let b = args.b.as_deref().map(read).transpose()?;
    let (path, b) = match (&args.b, &b) {
        (Some(path), Some(b)) => (path, b),
        _ => (&args.a, &a),
    };
    let diagnoses = [diagnose(&a), diagnose(b)];
    let names = [args.a.display().to_string(), path.display().to_string()];
    let sides = [
        Side { name: &names[0], summary: &a, diagnosis: &diagnoses[0] },
        Side { name: &names[1], summary: b, diagnosis: &diagnoses[1] },
    ];
    let comparison = compare(sides, &args.devices)?;
    let text = match args.json {
        true => iowhy_views::json::diff(&comparison),
        false => iowhy_views::diff::render(&comparison, &style(args.width)),
    };
    output::print(&text)
}

fn read(path: &Path) -> Result<Summary, Failure> {
    Ok(report::read(&[path.to_owned()], &Only::default())?.shown)
}

fn style(width: Option<usize>) -> Style {
    let style = output::style();
    Style { width: width.unwrap_or(style.width), ..style }
}

impl From<UnknownDevice> for Failure {
    fn from(error: UnknownDevice) -> Failure {
        let hint = match error.known.as_slice() {
            [] => format!("{} has no request of any device", error.which.word()),
            known => format!("{} has requests of {}", error.which.word(), known.join(" ")),
        };
        Failure { code: USAGE, ..Failure::new(error, Some(hint)) }
    }
}
