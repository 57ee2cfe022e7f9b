//! Values of the configuration with their units: times, sizes, limits that can be off.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::time::Duration;

/// A length of time: `500ms`, `10s`, `5m`, `2h`, `7d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimeSpan(pub Duration);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl TimeSpan {
    /// So many seconds.
    pub const fn seconds(count: u64) -> TimeSpan {
        TimeSpan(Duration::from_secs(count))
    }

    /// So many minutes.
    pub const fn minutes(count: u64) -> TimeSpan {
        TimeSpan(Duration::from_secs(count * MINUTE))
    }

    /// In nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0.as_nanos() as u64
    }

    /// The time that `text` stands for; `None` if it is none, or longer than a year.
    pub fn parse(text: &str) -> Option<TimeSpan> {
        let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, unit) = text.split_at_checked(digits)?;
        let number: u64 = number.parse().ok()?;
        let duration = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(MINUTE)?),
            "h" => Duration::from_secs(number.checked_mul(HOUR)?),
            "d" => Duration::from_secs(number.checked_mul(DAY)?),
            _ => return None,
        };
        let is_usable = !duration.is_zero() && duration.as_secs() <= 366 * DAY;
        is_usable.then_some(TimeSpan(duration))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match self.0.as_secs() {
            _ if !millis.is_multiple_of(1000) => write!(f, "{millis}ms"),
            seconds if seconds.is_multiple_of(DAY) => write!(f, "{}d", seconds / DAY),
            seconds if seconds.is_multiple_of(HOUR) => write!(f, "{}h", seconds / HOUR),
            seconds if seconds.is_multiple_of(MINUTE) => write!(f, "{}m", seconds / MINUTE),
            seconds => write!(f, "{seconds}s"),
        }
    }
}

const TIMES: &str = "is not a time: write 500ms, 10s, 5m, 2h or 7d";

impl std::str::FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeSpan, String> {
        TimeSpan::parse(text).ok_or_else(|| format!("{text:?} {TIMES}"))
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TimeSpan, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A size in megabytes of 10^6 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(transparent)]
pub struct Size(u32);

impl Size {
    /// So many megabytes.
    pub const fn mb(count: u32) -> Size {
        Size(count)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0 as u64 * 1_000_000
    }
}

/// A limit that can be `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionalLimit<T> {
    /// There is none.
    Off,
    /// It is this.
    Of(T),
}

impl<T: Copy> OptionalLimit<T> {
    /// The limit, if there is one.
    pub fn value(&self) -> Option<T> {
        match self {
            OptionalLimit::Off => None,
            OptionalLimit::Of(value) => Some(*value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OptionalLimit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptionalLimit<T>, D::Error> {
        let value = toml::Value::deserialize(deserializer)?;
        match value.as_str() {
            Some("off") => Ok(OptionalLimit::Off),
            _ => T::deserialize(value)
                .map(OptionalLimit::Of)
                .map_err(|error: toml::de::Error| de::Error::custom(error.message())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_alike() {
        for text in ["500ms", "10s", "5m", "2h", "7d", "90s", "1500ms"] {
            assert_eq!(TimeSpan::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(TimeSpan::parse("60s"), Some(TimeSpan::minutes(1)));
        for wrong in ["", "10", "m", "-1s", "1.5h", "0s", "400d", "99999999999999999999s", "1é"] {
            assert_eq!(TimeSpan::parse(wrong), None, "{wrong}");
        }
    }
}
