//! `iowhy stacks`: which functions submitted the requests, as perf report lists them.

use super::IntervalView;
use crate::style::Paint;
use crate::text::{Screen, code_paths};
use iowhy_analysis::Summary;

/// `iowhy stacks`.
pub const STACKS: IntervalView<Summary> = IntervalView {
    name: "stacks",
    draw,
    json: |summary| serde_json::to_value(&summary.code_paths).unwrap_or_default(),
};

fn draw(summary: &Summary, screen: &mut Screen<'_>) {
    if summary.code_paths.sampled_requests == 0 {
        screen.prose("no request with a stack", 0, Paint::Faint);
    }
    code_paths(summary, screen);
}
