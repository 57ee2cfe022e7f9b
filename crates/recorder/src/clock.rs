//! Times of day as people write them.
//!
//! What does not belong here: times within a recording (`iowhy_model::clock`).

use crate::incidents::record::local_time;
use iowhy_capture::host::time_zone;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::fmt;

/// A time, nanoseconds since 1970, of the host's local time zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime(pub i64);

impl LocalTime {
    /// Parses a time; a time of day is the latest one that is not in the future.
    pub fn parse(text: &str) -> Option<LocalTime> {
        LocalTime::parse_from(text, &now())
    }

    /// Parses a time of day or a day: as [`LocalTime::parse`], or the midnight of `today`,
    /// `yesterday` or a date.
    pub fn parse_day(text: &str) -> Option<LocalTime> {
        let midnight = |days: i64| {
            let day = now().checked_sub(days.days()).ok()?.start_of_day().ok()?;
            Some(LocalTime::of_seconds(day.timestamp().as_second()))
        };
        match text.trim() {
            "today" => midnight(0),
            "yesterday" => midnight(1),
            other => LocalTime::parse(other),
        }
    }

    fn parse_from(text: &str, now: &Zoned) -> Option<LocalTime> {
        let text = text.trim();
        let zoned = match text.parse::<DateTime>() {
            Ok(time) => time.to_zoned(now.time_zone().clone()).ok()?,
            Err(_) => {
                let time: Time = text.parse().ok()?;
                let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok()?;
                if today > *now { today.checked_sub(1.day()).ok()? } else { today }
            }
        };
        i64::try_from(zoned.timestamp().as_nanosecond()).ok().map(LocalTime)
    }

    /// Returns the seconds since 1970 at this moment.
    pub fn now_s() -> i64 {
        Timestamp::now().as_second()
    }

    /// Converts seconds since 1970.
    pub fn of_seconds(seconds: i64) -> LocalTime {
        LocalTime(seconds.saturating_mul(1_000_000_000))
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = local_zone();
        f.write_str(&local_time(self.0, &zone))
    }
}

fn local_zone() -> TimeZone {
    time_zone::local().unwrap_or(TimeZone::UTC)
}

fn now() -> Zoned {
    Timestamp::now().to_zoned(local_zone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_latest_one() {
        let now: Timestamp = "2026-11-24T08:30:00Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::UTC);
        let at = |text: &str| {
            let time = LocalTime::parse_from(text, &now)?;
            Some(local_time(time.0, &TimeZone::UTC))
        };
        assert_eq!(at("08:12").as_deref(), Some("2026-11-24 08:12:00"));
        assert_eq!(at("09:35").as_deref(), Some("2026-11-23 09:35:00"));
        assert_eq!(at("07:05:09").as_deref(), Some("2026-11-24 07:05:09"));
        assert_eq!(at("2026-11-20 09:35").as_deref(), Some("2026-11-20 09:35:00"));
        assert_eq!(at("2026-11-20T09:35:01").as_deref(), Some("2026-11-20 09:35:01"));
        for wrong in ["", "25:00", "yesterday", "9", "2026-13-01 00:00"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
