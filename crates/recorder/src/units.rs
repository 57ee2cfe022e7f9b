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
    /// Makes a time of `count` seconds.
    pub const fn seconds(count: u64) -> TimeSpan {
        TimeSpan(Duration::from_secs(count))
    }

    /// Makes a time of `count` minutes.
    pub const fn minutes(count: u64) -> TimeSpan {
        TimeSpan(Duration::from_secs(count * MINUTE))
    }

    /// Returns the time in nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0.as_nanos() as u64
    }

    /// Parses a time; `None` if `text` is none, or longer than a year.
    pub fn parse(text: &str) -> Option<TimeSpan> {
        time(text, None).filter(|time| *time >= Duration::from_millis(1)).map(TimeSpan)
    }
}

/// Units of time, nanoseconds each; the most common one comes first.
const TIME_UNITS: [(&str, f64); 9] = [
    ("s", 1e9),
    ("ms", 1e6),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("ns", 1.0),
    ("m", 1e9 * MINUTE as f64),
    ("min", 1e9 * MINUTE as f64),
    ("h", 1e9 * HOUR as f64),
    ("d", 1e9 * DAY as f64),
];
/// Units of size in bytes each, by their first letter; `i` (as in MiB) makes them powers of 1024.
const SIZE_UNITS: [(char, i32); 4] = [('k', 1), ('m', 2), ('g', 3), ('t', 4)];

/// Parses a length of time as people write it: `10s`, `20ms`, `1.5h`. A number alone is in
/// multiples of `unit`; without a `unit` it is not accepted. `None` for other texts, and beyond a
/// year.
///
/// Crates for this (humantime) refuse `1.5s` and a number alone, which every option of iowhy took
/// before it knew units.
pub fn time(text: &str, unit: Option<Duration>) -> Option<Duration> {
    let (number, word) = number_and_word(text)?;
    let unit_ns = match word {
        "" => unit?.as_nanos() as f64,
        word => TIME_UNITS.iter().find(|(name, _)| *name == word)?.1,
    };
    let ns = number * unit_ns;
    let is_usable = ns <= 366.0 * DAY as f64 * 1e9;
    // Whole nanoseconds, as a decimal fraction of seconds has no exact binary form.
    is_usable.then(|| Duration::from_nanos(ns.round() as u64))
}

/// Parses a size in bytes as people write it: `4k`, `64M`, `1.5GiB`. A number alone is in multiples
/// of `unit` bytes. Letters are powers of 1000, with `i` of 1024. `None` for other texts.
pub fn size(text: &str, unit: u64) -> Option<u64> {
    let (number, word) = number_and_word(text)?;
    let word = word.to_ascii_lowercase();
    let word = word.strip_suffix('b').unwrap_or(&word);
    let (letter, base) = match word.strip_suffix('i') {
        Some(letter) => (letter, 1024_f64),
        None => (word, 1000_f64),
    };
    let bytes_each = match (letter, base > 1000.0) {
        ("", false) if text.ends_with(['b', 'B']) => 1.0,
        ("", false) => unit as f64,
        (letter, _) => {
            let is_it = |(name, _): &&(char, i32)| letter.chars().eq([*name]);
            base.powi(SIZE_UNITS.iter().find(is_it)?.1)
        }
    };
    let bytes = number * bytes_each;
    (bytes < 1e18).then_some(bytes.round() as u64)
}

/// Splits `1.5h` into its number, which is not negative, and its unit.
fn number_and_word(text: &str) -> Option<(f64, &str)> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (number, word) = text.split_at(text.find(|text| !is_of_number(text)).unwrap_or(text.len()));
    Some((number.parse().ok()?, word.trim_start()))
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
    /// Makes a size of `count` megabytes.
    pub const fn mb(count: u32) -> Size {
        Size(count)
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 as u64 * 1_000_000
    }
}

/// A limit that can be `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionalLimit<T> {
    /// No limit.
    Off,
    /// The limit.
    Of(T),
}

impl<T: Copy> OptionalLimit<T> {
    /// Returns the limit, if there is one.
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
        for wrong in [
            "",
            "10",
            "m",
            "-1s",
            "0s",
            "5us",
            ".",
            "1.2.3s",
            "400d",
            "99999999999999999999s",
            "1é",
        ] {
            assert_eq!(TimeSpan::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_and_sizes_are_read_as_people_write_them() {
        let second = Some(Duration::from_secs(1));
        for (text, ms) in
            [("10", 10_000), ("0.5", 500), ("10s", 10_000), ("20ms", 20), ("1.5m", 90_000)]
        {
            assert_eq!(time(text, second), Some(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(time("250 us", None), Some(Duration::from_micros(250)));
        for wrong in ["", "-1", "1e3", "ten", "10x", "s", "inf", "nan", "400d"] {
            assert_eq!(time(wrong, second), None, "{wrong}");
        }
        for (text, bytes) in [
            ("4", 4_000_000),
            ("4k", 4_000),
            ("4KiB", 4_096),
            ("64M", 64_000_000),
            ("1.5GB", 1_500_000_000),
            ("512B", 512),
        ] {
            assert_eq!(size(text, 1_000_000), Some(bytes), "{text}");
        }
        for wrong in ["", "-4k", "4x", "iB", "4kk", "99999999999999G"] {
            assert_eq!(size(wrong, 1), None, "{wrong}");
        }
    }
}
