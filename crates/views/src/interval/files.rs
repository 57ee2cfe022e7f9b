//! `iowhy files`: filetop and filelife.

use super::View;
use crate::style::Paint;
use crate::text::{Screen, activity};
use iowhy_core::analysis::summary::Activity;

/// `iowhy files`.
pub const FILES: View<Option<Activity>> = View {
    name: "files",
    draw,
    json: |activity| serde_json::to_value(activity).unwrap_or_default(),
};

fn draw(activity: &Option<Activity>, screen: &mut Screen<'_>) {
    match activity {
        Some(all) if !all.rows.is_empty() => activity::whole(all, screen),
        _ => screen.prose("no file was used, as far as this source tells", 0, Paint::Faint),
    }
}
