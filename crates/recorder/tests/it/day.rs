//! A day in scripted time, with twenty incidents of different causes between hours of a healthy
//! load: which of them are kept, and whether the planted cause is found first.
//!
//! The table is part of docs/recorder.md: `IOWHY_BLESS=1 cargo test -p iowhy-recorder --test it`
//! writes it.

use crate::causes::CAUSES;
use crate::host::{ALONE, HOUR_S, KeptIncident, ScriptedHost, healthy};
use std::fmt::Write;
use std::path::Path;
use std::sync::PoisonError;

/// The time in which a cause is planted, seconds into its hour.
const PLANTED_S: std::ops::Range<u64> = 1_200..1_230;
/// The delay with which an incident of a cause may begin, in seconds.
const LATE_S: u64 = 30;
const START: &str =
    "<!-- day: written by IOWHY_BLESS=1 cargo test -p iowhy-recorder --test it -->\n";
const END: &str = "<!-- end of day -->\n";

/// The incident that a cause planted in `hour` began.
fn incident_of(kept: &[KeptIncident], hour: usize) -> Option<&KeptIncident> {
    let planted_s = hour as u64 * HOUR_S + PLANTED_S.start;
    kept.iter().find(|incident| (planted_s..=planted_s + LATE_S).contains(&incident.begun_s))
}

fn first(incident: &KeptIncident) -> &str {
    incident.record.findings.first().map_or("none", |finding| finding.cause.as_str())
}

fn table(kept: &[KeptIncident]) -> (String, usize) {
    let mut text = String::from(
        "\n| planted for 30 s | incident begun after | found first |\n|---|---:|---|\n",
    );
    let mut right = 0;
    for (hour, (cause, _)) in CAUSES.iter().enumerate() {
        let (after, found) = match incident_of(kept, hour) {
            None => ("-".to_owned(), "not kept"),
            Some(incident) => {
                let planted_s = hour as u64 * HOUR_S + PLANTED_S.start;
                (format!("{} s", incident.begun_s - planted_s), first(incident))
            }
        };
        right += usize::from(found == *cause);
        let _ = writeln!(text, "| `{cause}` | {after} | `{found}` |");
    }
    let others =
        kept.len() - (0..CAUSES.len()).filter(|cause| incident_of(kept, *cause).is_some()).count();
    let _ = writeln!(
        text,
        "\n{right} of {} are kept with the right finding first; other incidents: {others}.\n",
        CAUSES.len()
    );
    (text, right)
}

/// Holds that the page has the table between two marks, or writes it.
pub fn check_table((start, end): (&str, &str), table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recorder.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{start}{table}{end}{after}");
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    } else {
        assert!(page == wanted, "docs/recorder.md is old: run this with IOWHY_BLESS=1\n{table}");
    }
}

#[test]
fn twenty_incidents_of_a_day_are_kept_with_their_causes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut host = ScriptedHost::new(folder.path());
    for hour in 0..24_u64 {
        let planted = CAUSES.get(hour as usize);
        let mut fill = |script: &mut iowhy_model::script::Script, window: u64| {
            healthy(script, window);
            let is_planted = window == u64::MAX || PLANTED_S.contains(&(window.wrapping_mul(10)));
            if let Some((_, add)) = planted.filter(|_| is_planted) {
                add(script);
            }
        };
        host.watch(hour * HOUR_S, HOUR_S / 10, &mut fill);
    }
    let (table, right) = table(&host.kept);
    assert!(right >= 19, "{table}\n{:#?}", host.kept);
    assert!(host.kept.len() - right <= 2, "{table}\n{:#?}", host.kept);
    check_table((START, END), &table);
}
