//! `iowhy diff`: what differs between two watches, or between two devices of one.

use super::page::NewPage;
use crate::args::Only;
use crate::args::diff::Diff;
use crate::failure::{Failure, USAGE};
use crate::last_watch::{self, KeptWatch};
use crate::output;
use crate::redaction;
use crate::summaries::{self, ReadSource};
use iowhy_diagnosis::diagnose;
use iowhy_diagnosis::diff::{DiffSide, UnknownDevice, compare};
use iowhy_views::style::Style;
use std::path::{Path, PathBuf};

/// Compares two sources, and prints the differences or writes a page.
pub fn run(args: &Diff) -> Result<(), Failure> {
    let page = args.html.as_deref().map(NewPage::check).transpose()?;
    let (path_a, path_b) = compared(args)?;
    let a = read(&path_a, page.is_some())?;
    let b = path_b.as_deref().map(|path| read(path, page.is_some())).transpose()?;
    let (path, b) = match (&path_b, &b) {
        (Some(path), Some(b)) => (path, b),
        _ => (&path_a, &a),
    };
    let diagnoses = [&a, b].map(|side| diagnose(&side.summaries.shown));
    let names = match redaction::is_wanted() {
        true => ["A".to_owned(), "B".to_owned()],
        false => [path_a.display().to_string(), path.display().to_string()],
    };
    let both = [&a, b];
    let sides = [0, 1].map(|at| DiffSide {
        name: &names[at],
        summary: &both[at].summaries.shown,
        diagnosis: &diagnoses[at],
    });
    let comparison = compare(sides, &args.devices)?;
    if let Some(page) = page {
        page.write_diff(&comparison, &sides, both)?;
    }
    let text = match args.json {
        true => iowhy_views::json::diff(&comparison),
        false => iowhy_views::diff::render(&comparison, &style(args.width)),
    };
    output::print(&text)
}

/// The watches to compare; the second is none where devices of the first are compared.
fn compared(args: &Diff) -> Result<(PathBuf, Option<PathBuf>), Failure> {
    let are_siblings = args.devices.iter().any(|(a, b)| a != b);
    let pair = match (&args.a, &args.b) {
        (Some(a), Some(b)) => (a.clone(), Some(b.clone())),
        (Some(a), None) if !args.devices.is_empty() => (a.clone(), None),
        (Some(a), None) => (a.clone(), Some(last_watch::kept(KeptWatch::Last)?)),
        (None, _) if are_siblings => (last_watch::kept(KeptWatch::Last)?, None),
        (None, _) => {
            let before = last_watch::kept(KeptWatch::Before)?;
            (before, Some(last_watch::kept(KeptWatch::Last)?))
        }
    };
    let canonical = |path: &Path| path.canonicalize().ok();
    let are_same = pair
        .1
        .as_deref()
        .is_some_and(|b| canonical(b).is_some_and(|b| canonical(&pair.0) == Some(b)));
    if are_same && args.devices.is_empty() {
        output::note("note: both are the same recording, so nothing can differ");
    }
    Ok(pair)
}

fn read(path: &Path, charts: bool) -> Result<ReadSource, Failure> {
    summaries::read_with(&[path.to_owned()], &Only::default(), charts)
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
