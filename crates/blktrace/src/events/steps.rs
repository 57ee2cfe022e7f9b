//! Values of a line that its event lacks: the time of the request's last step, and the wall clock.

use super::put;
use crate::trace::action::{Action, notify};
use crate::trace::{RecordBatch, TraceRecord};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use rustc_hash::FxHashMap;

/// The last step of each request, by device and first sector, as `blkparse -t` follows them: I
/// counts from G, D from I, C from D. A D without I counts from G, where blkparse prints garbage.
#[derive(Debug, Default)]
pub struct Steps(FxHashMap<(u32, u64), u64>);

impl Steps {
    /// Requests that are followed at once; those beyond have no elapsed time.
    const MAX: usize = 256 << 10;

    /// Returns the time since the step before `record`, ns; `None` if there is or was none.
    pub fn see(&mut self, record: &TraceRecord) -> Option<u64> {
        let key = (record.device, record.sector);
        match record.kind()? {
            Action::GetRequest => self.keep(key, record.time),
            Action::FrontMerge => {
                // The request begins at the bio that was merged before it.
                let behind = (record.device, record.end());
                let time = self.0.remove(&behind)?;
                self.keep(key, time)
            }
            Action::Insert | Action::Issue => {
                let before = self.0.get(&key).copied();
                self.keep(key, record.time);
                record.time.checked_sub(before?)
            }
            Action::Complete => record.time.checked_sub(self.0.remove(&key)?),
            _ => None,
        }
    }

    fn keep(&mut self, key: (u32, u64), time: u64) -> Option<u64> {
        if self.0.len() < Steps::MAX || self.0.contains_key(&key) {
            self.0.insert(key, time);
        }
        None
    }
}

/// The wall clock, as far as a capture tells it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureClock {
    /// A record's own time and the wall clock at that moment, ns.
    clock: Option<(u64, u64)>,
}

impl CaptureClock {
    /// A clock that was `wall` ns since 1970 at `time`.
    pub const fn new(time: u64, wall: u64) -> CaptureClock {
        CaptureClock { clock: Some((time, wall)) }
    }

    /// The largest distance of the clock from the first event, ns. blktrace writes the clock while
    /// it starts: one further away is of a dump, whose events were rebased and whose notes were
    /// not.
    const NEAR: u64 = 86_400_000_000_000;

    /// Keeps the first clock that a record tells.
    pub fn see(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        if record.action == notify::TIMESTAMP && self.clock.is_none() {
            self.clock = batch.wall_clock(record).map(|wall| (record.time, wall));
        }
    }

    /// The wall clock, ns since 1970, at `time` after the first event, which was at `genesis`.
    pub fn at(self, genesis: u64, time: u64) -> Option<u64> {
        let (clock, wall) =
            self.clock.filter(|(clock, _)| clock.abs_diff(genesis) < CaptureClock::NEAR)?;
        wall.wrapping_add(genesis).wrapping_sub(clock).checked_add(time)
    }
}

/// The local time of a host, with a fixed offset from UTC.
#[derive(Clone, Copy, Debug)]
pub struct HostTime(Offset);

impl HostTime {
    /// The time at an offset from UTC, seconds; UTC where it is not known.
    pub fn at(utc_offset_s: Option<i32>) -> HostTime {
        HostTime(utc_offset_s.and_then(|s| Offset::from_seconds(s).ok()).unwrap_or(Offset::UTC))
    }

    /// The time of day at `wall`, ns since 1970, as ns since midnight.
    pub fn of_day(self, wall: u64) -> u64 {
        const DAY: i64 = 86_400;
        let seconds = (wall / 1_000_000_000) as i64 + i64::from(self.0.seconds());
        seconds.rem_euclid(DAY) as u64 * 1_000_000_000 + wall % 1_000_000_000
    }

    /// Appends `17:32:05.019185231+01:00`. Each line of a capture has one: the columns are put
    /// together before they are copied.
    pub fn put(self, wall: u64, out: &mut Vec<u8>) {
        let of_day = self.of_day(wall);
        let seconds = of_day / 1_000_000_000;
        let minutes = u64::from(self.0.seconds().unsigned_abs()) / 60;
        let [[h, i], [m, n], [s, t]] =
            [seconds / 3600, seconds / 60 % 60, seconds % 60].map(put::pair);
        let mut digits = [b'0'; 9];
        put::right_aligned(&mut digits, of_day % 1_000_000_000);
        let sign = if self.0.is_negative() { b'-' } else { b'+' };
        let [[o, p], [q, r]] = [minutes / 60, minutes % 60].map(put::pair);
        out.extend_from_slice(&[h, i, b':', m, n, b':', s, t, b'.']);
        out.extend_from_slice(&digits);
        out.extend_from_slice(&[sign, o, p, b':', q, r]);
    }

    /// `2026-11-20T17:32:05.019185231+01:00`, as RFC 3339 defines it; nothing outside the calendar.
    pub fn rfc3339(self, wall: u64) -> Option<String> {
        let time = Timestamp::from_nanosecond(i128::from(wall)).ok()?;
        let time = time.to_zoned(TimeZone::fixed(self.0));
        Some(time.strftime("%Y-%m-%dT%H:%M:%S.%9f%:z").to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local() {
        // 2026-11-20 16:32:05.019185231 UTC.
        const WALL: u64 = 1_795_192_325_019_185_231;
        let text = |offset| {
            let mut out = Vec::new();
            HostTime::at(offset).put(WALL, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Some(3600)), "17:32:05.019185231+01:00");
        assert_eq!(text(Some(-12_600)), "13:02:05.019185231-03:30");
        assert_eq!(text(Some(9 * 3600)), "01:32:05.019185231+09:00");
        assert_eq!(text(None), "16:32:05.019185231+00:00");
        let json = HostTime::at(Some(9 * 3600)).rfc3339(WALL).unwrap();
        assert_eq!(json, "2026-11-21T01:32:05.019185231+09:00");
        // Before 1970 in local time, and far beyond.
        let mut out = Vec::new();
        HostTime::at(Some(-3600)).put(0, &mut out);
        HostTime::at(Some(i32::MAX)).put(u64::MAX, &mut out);
        assert!(out.starts_with(b"23:00:00.000000000-01:00"));
    }
}
