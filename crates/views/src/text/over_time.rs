//! OVER TIME: when a device became slower, and processes with periodic bursts.
//!
//! What does not belong here: the detection (`iowhy_diagnosis::facts::over_time`).

use super::Screen;
use super::why::readable;
use crate::human::plural;
use crate::style::Paint;
use iowhy_diagnosis::Diagnosis;
use iowhy_diagnosis::facts::over_time::{Change, ChangeKind, ProgramBurst};

/// Maximum number of lines on the first screen.
const SHOWN: usize = 4;
/// Periodic bursts with a smaller share of the device's bytes are in `--json` only.
const SHARE: f64 = 0.2;

/// Devices that became slower or faster, and bursts that move many bytes.
pub(crate) fn section(diagnosis: &Diagnosis, screen: &mut Screen) {
    let over_time = &diagnosis.over_time;
    let matters = |change: &&Change| matches!(change.kind, ChangeKind::Slower | ChangeKind::Faster);
    let changes =
        over_time.changes.iter().filter(matters).map(|change| (&change.sentence, Paint::Plain));
    let much = |burst: &&ProgramBurst| burst.bytes_share >= SHARE;
    let bursts = over_time.bursts.iter().filter(much).map(|burst| (&burst.sentence, Paint::Plain));
    let not_enough = over_time.not_enough.iter().map(|sentence| (sentence, Paint::Faint));
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
