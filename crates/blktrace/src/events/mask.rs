//! Action masks by blktrace's words (`-a`).

use crate::trace::category as c;

/// blktrace's words and the categories that they stand for.
pub const WORDS: &[(&str, u32)] = &[
    ("read", c::READ),
    ("write", c::WRITE),
    ("flush", c::FLUSH),
    ("barrier", c::FLUSH),
    ("sync", c::SYNC),
    ("queue", c::QUEUE),
    ("requeue", c::REQUEUE),
    ("issue", c::ISSUE),
    ("complete", c::COMPLETE),
    ("fs", c::FS),
    ("pc", c::PC),
    ("notify", c::NOTIFY),
    ("ahead", c::AHEAD),
    ("meta", c::META),
    ("discard", c::DISCARD),
    ("drv_data", c::DRIVER_DATA),
    ("fua", c::FUA),
    ("zone_append", c::ZONE_APPEND),
    ("zone_reset", c::ZONE_RESET),
    ("zone_reset_all", c::ZONE_RESET_ALL),
    ("zone_finish", c::ZONE_FINISH),
    ("zone_open", c::ZONE_OPEN),
    ("zone_close", c::ZONE_CLOSE),
];

/// The category of a word, in any case.
pub fn parse(word: &str) -> Option<u32> {
    let word = word.to_ascii_lowercase();
    WORDS.iter().find(|(name, _)| *name == word).map(|(_, mask)| *mask)
}
