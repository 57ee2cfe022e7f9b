//! `iowhy files`: filetop and filelife.

use super::IntervalView;
use crate::style::Paint;
use crate::text::{Screen, activity};
use iowhy_analysis::summary::ActivityReport;

/// `iowhy files`.
pub const FILES: IntervalView<Option<ActivityReport>> = IntervalView {
    name: "files",
    draw,
    json: |activity| serde_json::to_value(activity).unwrap_or_default(),
};

fn draw(activity: &Option<ActivityReport>, screen: &mut Screen<'_>) {
    match activity {
        Some(all) if !all.rows.is_empty() => activity::whole(all, screen),
        _ => screen.prose("no file activity in this source", 0, Paint::Faint),
    }
}
