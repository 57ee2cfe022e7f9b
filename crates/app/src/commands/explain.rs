//! `iowhy explain`: the mechanism of a cause, and its evidence in a source.

use crate::args::Only;
use crate::args::explain::Explain;
use crate::failure::Failure;
use crate::last_watch;
use crate::near;
use crate::output;
use crate::sources;
use iowhy_diagnosis::{Diagnosis, Rule, all, diagnose, rule_of};
use iowhy_reproduce::settings::fix_of;
use iowhy_views::explain::{self, SeenCause};
use std::path::PathBuf;

/// Prints the page of a cause or a finding, or the list of causes.
pub fn run(args: &Explain) -> Result<(), Failure> {
    let (what, mut paths) = meant(args);
    // The number of a finding without a source is one of the watch that was just seen.
    if paths.is_empty() && what.is_some_and(|what| what.parse::<usize>().is_ok()) {
        paths = last_watch::or_last(&paths)?;
    }
    let summary = match paths.is_empty() {
        true => None,
        false => Some(crate::summaries::read(&paths, &Only::default())?.shown),
    };
    let diagnosis = summary.as_ref().map(diagnose);
    let source = sources::words(&paths);
    let seen = summary.as_ref().zip(diagnosis.as_ref());
    let seen = seen.map(|(summary, diagnosis)| SeenCause { summary, diagnosis, source: &source });
    let rule = what.map(|what| find(what, diagnosis.as_ref())).transpose()?;
    output::print(&match (rule, args.json) {
        (None, true) => explain::json(&all().collect::<Vec<_>>(), seen),
        (Some(rule), true) => explain::json(&[rule], seen),
        (None, false) => explain::causes(seen, &output::style()),
        (Some(rule), false) => explain::cause(rule, seen, &output::style()),
    })?;
    let findings = diagnosis.iter().flat_map(|diagnosis| &diagnosis.findings);
    let found = rule.filter(|rule| {
        !args.json && findings.into_iter().any(|finding| finding.cause == rule.cause)
    });
    if let Some(fix) = found.and_then(|rule| fix_of(rule.cause)) {
        output::note(&format!(
            "try a fix on a reproduction: `iowhy reproduce {source} -o case`, then `iowhy verify \
             case --on EMPTY_DIRECTORY --with {fix}`"
        ));
    }
    Ok(())
}

/// Separates the cause from the source: an argument that is not a cause and exists as a path is a
/// source.
fn meant(args: &Explain) -> (Option<&str>, Vec<PathBuf>) {
    let what = args.what.as_deref();
    let path = what.map(PathBuf::from);
    match (what, path) {
        (Some(what), Some(path)) if rule_of(what).is_none() && path.exists() => {
            (None, std::iter::once(path).chain(args.paths.iter().cloned()).collect())
        }
        _ => (what, args.paths.clone()),
    }
}

fn find(what: &str, diagnosis: Option<&Diagnosis>) -> Result<&'static Rule, Failure> {
    if let Some(rule) = rule_of(what) {
        return Ok(rule);
    }
    let number = what.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match (number, diagnosis) {
        (Some(number), Some(diagnosis)) => {
            let found = diagnosis.findings.get(number).and_then(|finding| rule_of(finding.cause));
            found.ok_or_else(|| {
                let there = match diagnosis.findings.len() {
                    0 => match &diagnosis.unjudged {
                        Some(why) => why.trim_end_matches('.').to_owned(),
                        None => "there are no findings".to_owned(),
                    },
                    1 => "there is only one".to_owned(),
                    count => format!("there are {count}"),
                };
                Failure::new(
                    format!("failed to explain finding {what}: {there}"),
                    Some("`iowhy explain CAUSE SOURCE` shows why a cause was not found".to_owned()),
                )
            })
        }
        _ => {
            let meant = near::question(what, all().map(|rule| rule.cause));
            Err(Failure::new(
                format!("failed to explain {what}: no cause has that name"),
                Some(meant.unwrap_or_else(|| "`iowhy explain` lists the causes".to_owned())),
            ))
        }
    }
}
