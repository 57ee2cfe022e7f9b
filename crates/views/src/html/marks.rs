//! Marks in charts: moments, limits that a rate stays at, the two modes of a latency.
//!
//! What does not belong here: how these are found (`iowhy_diagnosis::facts`).

use super::data::PageTexts;
use crate::human;
use crate::text::why::readable;
use iowhy_analysis::Direction;
use iowhy_analysis::summary::ChangedSetting;
use iowhy_diagnosis::facts::over_time::Level;
use iowhy_diagnosis::facts::shape::two_modes;
use iowhy_model::environment::Thinning;
use serde_json::{Value, json};

/// Changes of a device's rate that are marked, at most.
const MOST_CHANGES: usize = 12;
/// Programs with bursts that are marked, at most.
const MOST_BURSTS: usize = 4;
/// Changes of thinning that are marked, at most.
const MOST_THINNED: usize = 12;

/// Returns events at a known time: changed settings, changes of a device's rate, the first of a
/// program's periodic bursts, and from when on how much was recorded.
pub(super) fn moments(texts: &PageTexts<'_>) -> Vec<Value> {
    let page = texts.page;
    let setting = |changed_setting: &ChangedSetting| {
        let (_, by_ns) = changed_setting.between_ns?;
        let of =
            changed_setting.device.as_deref().map_or(String::new(), |device| format!("{device}: "));
        let text = format!(
            "{of}{} {} → {}",
            changed_setting.setting, changed_setting.before, changed_setting.after
        );
        Some(mark("setting", by_ns as f64 / 1e9, &texts.of(&text)))
    };
    let changes = page.diagnosis.over_time.changes.iter().take(MOST_CHANGES).map(|change| {
        let text = readable(&change.sentence, &texts.style).replace('`', "");
        mark("change", change.at_ns as f64 / 1e9, &texts.of(&text))
    });
    let bursts = page.diagnosis.over_time.bursts.iter().take(MOST_BURSTS).map(|burst| {
        let text = readable(&burst.sentence, &texts.style).replace('`', "");
        mark("burst", burst.first_ns as f64 / 1e9, &texts.of(&format!("the first burst: {text}")))
    });
    let start_ns = page.charts.start_ns;
    let thinned = levels(&page.summary.environment.thinning).take(MOST_THINNED).map(|level| {
        let at = level.from_ns.saturating_sub(start_ns) as f64 / 1e9;
        mark("thinning", at, &recorded(level))
    });
    let settings = page.summary.changed_settings.iter().filter_map(setting);
    settings.chain(changes).chain(bursts).chain(thinned).collect()
}

fn mark(kind: &str, at_s: f64, text: &str) -> Value {
    json!({ "kind": kind, "at_s": at_s.max(0.0), "text": text })
}

/// Returns the levels of thinning that differ from the level before.
fn levels(thinning: &[Thinning]) -> impl Iterator<Item = &Thinning> {
    let mut before = (1, 1, true);
    thinning.iter().filter(move |thinning| {
        let now = (thinning.requests_one_in, thinning.waits_one_in, thinning.calls);
        std::mem::replace(&mut before, now) != now
    })
}

fn recorded(level: &Thinning) -> String {
    let share = |one_in: u32, what: &str| match one_in {
        0 | 1 => format!("all {what}"),
        _ => format!("1 of {} {what}", human::count(one_in.into())),
    };
    let (requests, waits) =
        (share(level.requests_one_in, "requests"), share(level.waits_one_in, "waits"));
    let calls = if level.calls { "" } else { ", no calls on files" };
    format!("recorded from here on: {requests}, {waits}{calls}")
}

/// Round numbers of requests per second that a device stayed at.
pub(super) fn limits(texts: &PageTexts<'_>) -> Vec<Value> {
    let changes = &texts.page.diagnosis.over_time.changes;
    let mut found: Vec<(&str, &Level)> = Vec::new();
    for change in changes.iter().take(MOST_CHANGES) {
        for level in [&change.before, &change.after] {
            let is_new = !found.iter().any(|(device, known)| {
                *device == change.device
                    && (known.from_ns, known.to_ns) == (level.from_ns, level.to_ns)
            });
            if level.flat_at.is_some() && is_new {
                found.push((&change.device, level));
            }
        }
    }
    let one = |(device, level): &(&str, &Level)| {
        json!({
            "device": texts.of(device),
            "from_s": level.from_ns as f64 / 1e9,
            "to_s": level.to_ns as f64 / 1e9,
            "requests_per_s": level.flat_at,
        })
    };
    found.iter().map(one).collect()
}

/// Devices whose requests of one direction are either fast or many times slower.
pub(super) fn modes(texts: &PageTexts<'_>) -> Vec<Value> {
    let mut found = Vec::new();
    for device in &texts.page.summary.devices {
        for direction in [Direction::Read, Direction::Write] {
            let Some(modes) = two_modes(&device.directions[direction].q2c_histogram) else {
                continue;
            };
            found.push(json!({
                "device": texts.of(&device.device),
                "operation": direction.word(),
                "fast_ns": modes.fast_ns,
                "slow_ns": modes.slow_ns,
                "slow_share": modes.slow_share,
            }));
        }
    }
    found
}
