//! `iowhy stages` within the terminal, whatever its width.

use crate::scenes;
use crate::screens::{compare, fits};
use iowhy_analysis::stages::summary::device_name;
use iowhy_analysis::stages::{RequestStages, StagesSummary};
use iowhy_model::Losses;
use iowhy_model::script::Script;
use iowhy_views::stages;
use iowhy_views::style::Style;
use serde_json::Value;

fn figures(script: &Script) -> StagesSummary {
    let mut stages = RequestStages::default();
    stages.take(&script.batch, &script.names);
    stages.finish();
    stages.summary(&device_name)
}

#[test]
fn stages_fit_the_terminal() {
    let notes = ["lost: 12,345 requests that have no record".to_owned()];
    let figures = figures(&scenes::jenkins());
    for width in [80, 120] {
        let found = stages::render(&figures, &notes, &Style::plain(width));
        compare(&format!("tests/it/screens/views/stages-{width}.txt"), &found);
    }
    for width in (40..220).step_by(7) {
        for unicode in [true, false] {
            let style = Style { unicode, ..Style::plain(width) };
            fits("stages", &stages::render(&figures, &notes, &style), width);
        }
    }
}

#[test]
fn hostile_names_break_no_table() {
    let figures = figures(&scenes::hostile());
    let found = stages::render(&figures, &["\x1b[2J".to_owned()], &Style::plain(80));
    fits("stages", &found, 80);
    assert!(found.chars().all(|char| char == '\n' || !char.is_control()), "{found:?}");
    let text = stages::json(&figures, &["\x1b[2J".to_owned()], &Losses::default());
    assert!(text.chars().all(|char| char == '\n' || !char.is_control()));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["notes"][0], "\x1b[2J");
    assert_eq!(json["format"], 1);
}

#[test]
fn what_requests_do_not_tell_is_not_zero() {
    let mut script = Script::new(1);
    script.read("sda", 4096).direct(1_000, 1_000, 8_000).add();
    let figures = figures(&script);
    let found = stages::render(&figures, &[], &Style::plain(120));
    let periods: Vec<&str> =
        found.lines().skip_while(|line| !line.starts_with("PERIODS")).collect();
    assert!(periods[1].split_whitespace().any(|word| word == "?"), "{found}");
    let json = stages::json(&figures, &[], &Losses::default());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["devices"][0]["plugs"].is_null());
    assert_eq!(json["devices"][0]["shares"]["d2c_share"], 0.8);
    assert_eq!(json["stages"]["q2c"]["count"], 1);
}
