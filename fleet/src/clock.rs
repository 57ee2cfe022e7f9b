//! Times: windows of ten minutes, hours of the layout, times as people write them.
//!
//! What does not belong here: the windows that are sent.

use crate::error::{FleetContext, FleetError, Result};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fmt;
use std::str::FromStr;

/// Length of a window, seconds: what one host uploads at once.
pub const WINDOW_S: i64 = 600;
/// Length of an hour, seconds.
pub const HOUR_S: i64 = 3600;
/// The first time that a window may have: 2020-01-01. A clock before it was never set.
pub const EARLIEST_S: i64 = 1_577_836_800;
/// Seconds ahead of the store's clock beyond which a window is refused: less than what makes a host
/// silent, or one with a wrong clock would make all others so.
pub const MOST_AHEAD_S: i64 = HOUR_S / 2;

/// An hour in UTC, as partitions are named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FleetHour(i64);

impl FleetHour {
    /// Returns the hour of a time, seconds since 1970.
    pub const fn from_seconds(time_s: i64) -> FleetHour {
        FleetHour(time_s.div_euclid(HOUR_S))
    }

    /// Returns the beginning of the hour, seconds since 1970.
    pub const fn begin_s(self) -> i64 {
        self.0 * HOUR_S
    }

    /// Returns the end of the hour, seconds since 1970.
    pub const fn end_s(self) -> i64 {
        self.begin_s() + HOUR_S
    }

    /// Days since 1970.
    pub const fn day(self) -> i32 {
        self.0.div_euclid(24) as i32
    }

    /// The hour of the day, 0 to 23.
    pub const fn of_day(self) -> i32 {
        self.0.rem_euclid(24) as i32
    }

    /// `date=2026-11-24/hour=09`.
    pub fn partition(self) -> String {
        utc(self.begin_s()).strftime("date=%Y-%m-%d/hour=%H").to_string()
    }

    /// The hour of `date=…` and `hour=…` as [`FleetHour::partition`] writes them.
    pub fn parse(date: &str, hour: &str) -> Option<FleetHour> {
        let date: jiff::civil::Date = date.strip_prefix("date=")?.parse().ok()?;
        let hour: i8 = hour.strip_prefix("hour=")?.parse().ok()?;
        let time = date.to_datetime(jiff::civil::Time::new(hour, 0, 0, 0).ok()?);
        let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Some(FleetHour::from_seconds(time.as_second()))
    }
}

impl fmt::Display for FleetHour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.partition())
    }
}

fn utc(time_s: i64) -> jiff::Zoned {
    Timestamp::from_second(time_s).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC)
}

/// `2026-11-24 09:40` in UTC.
pub fn minute_text(time_s: i64) -> String {
    utc(time_s).strftime("%Y-%m-%d %H:%M").to_string()
}

/// `2026-11-24T09:40:00Z`, as SQL takes it.
pub fn sql_time(time_s: i64) -> String {
    format!("TIMESTAMP '{}'", utc(time_s).strftime("%Y-%m-%dT%H:%M:%SZ"))
}

/// Returns the seconds since 1970 at this moment.
pub fn now_s() -> i64 {
    Timestamp::now().as_second()
}

/// A time on the command line: `2026-11-24`, `2026-11-24 09:40`, with or without seconds, in UTC,
/// or `6h` for so long ago.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GivenTime(pub i64);

impl FromStr for GivenTime {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<GivenTime> {
        if let Ok(ago) = text.parse::<GivenSpan>() {
            return Ok(GivenTime(now_s().saturating_sub(ago.0)));
        }
        let text = text.trim_end_matches('Z');
        let midnight = || text.parse::<jiff::civil::Date>().map(|day| day.at(0, 0, 0, 0));
        let time = text
            .parse::<DateTime>()
            .or_else(|_| midnight())
            .or_else(|_| DateTime::strptime("%Y-%m-%d %H:%M", text));
        let time = time.and_then(|time| time.to_zoned(TimeZone::UTC));
        time.context(|| format!("read the time {text:?}"))
            .map(|time| GivenTime(time.timestamp().as_second()))
            .map_err(|error| error.hint("2026-11-24, \"2026-11-24 09:40\" (UTC), or 6h for ago"))
    }
}

/// A length of time on the command line, in seconds: `90s`, `10m`, `6h`, `7d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GivenSpan(pub i64);

impl FromStr for GivenSpan {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<GivenSpan> {
        let wrong = || FleetError::new(format!("{text:?} is no time")).hint("90s, 10m, 6h or 7d");
        let unit = match text.chars().next_back() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => HOUR_S,
            Some('d') => 24 * HOUR_S,
            _ => return Err(wrong()),
        };
        let count: i64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        match count {
            0..=100_000 => Ok(GivenSpan(count * unit)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_read_as_it_is_written() {
        for time_s in [0, 1_763_942_399, 1_763_942_400, 4_102_444_800] {
            let hour = FleetHour::from_seconds(time_s);
            let partition = hour.partition();
            let (date, of_day) = partition.split_once('/').unwrap();
            assert_eq!(FleetHour::parse(date, of_day), Some(hour));
            assert!(hour.begin_s() <= time_s && time_s < hour.end_s());
        }
        assert_eq!(FleetHour::from_seconds(1_763_942_400).partition(), "date=2025-11-24/hour=00");
        for (date, hour) in [("date=2025-13-01", "hour=00"), ("date=2025-01-01", "hour=24")] {
            assert_eq!(FleetHour::parse(date, hour), None);
        }
    }

    #[test]
    fn times_are_read_in_every_form() {
        let midnight: GivenTime = "2025-11-24".parse().unwrap();
        assert_eq!(midnight.0, 1_763_942_400);
        for text in ["2025-11-24 09:40", "2025-11-24T09:40:00Z", "2025-11-24 09:40:00"] {
            assert_eq!(
                text.parse::<GivenTime>().unwrap().0,
                midnight.0 + 9 * 3600 + 2400,
                "{text}"
            );
        }
        for text in ["", "yesterday", "2025-11-31", "-3h", "999999999d"] {
            assert!(text.parse::<GivenTime>().is_err(), "{text}");
        }
    }
}
