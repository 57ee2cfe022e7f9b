//! OVER TIME: when a device became slower, and who comes back in bursts.
//!
//! What does not belong here: finding it (`iowhy_core::diagnosis::facts::over_time`).

use super::Screen;
use super::why::readable;
use crate::human::plural;
use crate::style::Paint;
use iowhy_core::diagnosis::Diagnosis;
use iowhy_core::diagnosis::facts::over_time::{Burst, Change, Kind};

/// Lines that the first screen shows.
const SHOWN: usize = 4;
/// A rhythm with less of the device's bytes than this is in `--json` only.
const SHARE: f64 = 0.2;

/// What matters of it: devices that became slower or faster, and the bursts that move much.
pub(super) fn section(diagnosis: &Diagnosis, screen: &mut Screen) {
    let over_time = &diagnosis.over_time;
    let matters = |change: &&Change| matches!(change.kind, Kind::Slower | Kind::Faster);
    let changes = over_time.changes.iter().filter(matters).map(|it| (&it.sentence, Paint::Plain));
    let much = |burst: &&Burst| burst.bytes_share >= SHARE;
    let bursts = over_time.bursts.iter().filter(much).map(|it| (&it.sentence, Paint::Plain));
    let not_enough = over_time.not_enough.iter().map(|it| (it, Paint::Faint));
    let lines: Vec<(&String, Paint)> = changes.chain(bursts).chain(not_enough).collect();
    if lines.iter().all(|(_, paint)| *paint == Paint::Faint) {
        return;
    }
    screen.gap();
    let heading = screen.style.paint("OVER TIME", Paint::Heading);
    screen.line(&heading);
    for (sentence, paint) in lines.iter().take(SHOWN) {
        let text = readable(sentence, screen.style);
        screen.prose(&text, 2, *paint);
    }
    if lines.len() > SHOWN {
        let more = plural((lines.len() - SHOWN) as u64, "more line");
        screen.prose(&format!("{more} (--json)"), 2, Paint::Faint);
    }
}
