//! Converts times of a watch to the host's local time of day.
//!
//! What does not belong here: durations, and clocks of other captures.

use super::Environment;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// Turns CLOCK_MONOTONIC times of one watch into local times of its host.
#[derive(Clone, Debug)]
pub struct WallClock {
    realtime_offset_ns: i64,
    zone: TimeZone,
}

impl WallClock {
    /// The wall clock of the watch's host; in UTC if its offset is not known. `None` if only the
    /// capture's own clock is known.
    pub fn from_environment(environment: &Environment) -> Option<WallClock> {
        if environment.realtime_offset_ns == 0 {
            return None;
        }
        let offset = environment.utc_offset_s.and_then(|s| Offset::from_seconds(s).ok());
        let zone = TimeZone::fixed(offset.unwrap_or(Offset::UTC));
        Some(WallClock { realtime_offset_ns: environment.realtime_offset_ns, zone })
    }

    /// `17:32:05`, the time of day at `at_ns`, CLOCK_MONOTONIC nanoseconds.
    pub fn time(&self, at_ns: u64) -> String {
        self.format(at_ns, "%H:%M:%S")
    }

    /// `17:32:05.019185`, with `digits` of the second's fraction, at most 9.
    pub fn precise_time(&self, at_ns: u64, digits: u8) -> String {
        self.format(at_ns, &format!("%H:%M:%S.%{}f", digits.clamp(1, 9)))
    }

    /// `2026-11-20 17:32:05 +01:00`.
    pub fn date_time(&self, at_ns: u64) -> String {
        self.format(at_ns, "%Y-%m-%d %H:%M:%S %:z")
    }

    /// `2026-11-20T17:32:05.019185231+01:00`, as RFC 3339 defines it.
    pub fn rfc3339(&self, at_ns: u64) -> String {
        self.format(at_ns, "%Y-%m-%dT%H:%M:%S.%9f%:z")
    }

    /// `+01:00`, the offset from UTC.
    pub fn offset(&self) -> String {
        self.format(0, "%:z")
    }

    /// A recording may contain any time: one outside the calendar is shown as `-`.
    fn format(&self, at_ns: u64, format: &str) -> String {
        let ns = i128::from(at_ns) + i128::from(self.realtime_offset_ns);
        Timestamp::from_nanosecond(ns).map_or_else(
            |_| "-".to_owned(),
            |time| time.to_zoned(self.zone.clone()).strftime(format).to_string(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(utc_offset_s: Option<i32>) -> WallClock {
        // 2026-11-20 16:32:05.019185 UTC, 5 s after the machine started.
        let realtime_offset_ns = 1_795_192_320_019_185_000;
        let environment =
            Environment { realtime_offset_ns, utc_offset_s, ..Environment::default() };
        WallClock::from_environment(&environment).unwrap()
    }

    #[test]
    fn times_are_local() {
        let at = 5_000_000_000;
        assert_eq!(clock(Some(3600)).date_time(at), "2026-11-20 17:32:05 +01:00");
        assert_eq!(clock(Some(-12_600)).date_time(at), "2026-11-20 13:02:05 -03:30");
        assert_eq!(clock(Some(3600)).precise_time(at, 3), "17:32:05.019");
        assert_eq!(clock(Some(3600)).precise_time(at, 6), "17:32:05.019185");
        assert_eq!(clock(None).rfc3339(at), "2026-11-20T16:32:05.019185000+00:00");
        assert_eq!(clock(None).time(at), "16:32:05");
        assert_eq!(clock(Some(3600)).offset(), "+01:00");
    }

    #[test]
    fn nonsense_is_no_panic() {
        assert_eq!(clock(Some(i32::MAX)).offset(), "+00:00");
        let far = Environment { realtime_offset_ns: i64::MIN, ..Environment::default() };
        let far = WallClock::from_environment(&far).unwrap();
        assert!(!far.date_time(0).is_empty() && !far.date_time(u64::MAX).is_empty());
        assert!(WallClock::from_environment(&Environment::default()).is_none());
    }
}
