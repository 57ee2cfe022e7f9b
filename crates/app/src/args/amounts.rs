//! Times and sizes as people write them: `10s`, `20ms`, `64M`. A number alone has the unit that the
//! option had before it knew others.
//!
//! What does not belong here: what a unit means (see [`iowhy_recorder::units`]).

use iowhy_recorder::units;
use std::time::Duration;

/// Bytes of a MB.
const MB: u64 = 1_000_000;

/// Parses a time, of seconds where it has no unit.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match time(text, Duration::from_secs(1))? {
        time if time < Duration::from_millis(1) => Err("shorter than a millisecond".to_owned()),
        time => Ok(time),
    }
}

/// Parses a time after a beginning, of seconds where it has no unit: it may be 0.
pub fn moment(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => time(text, Duration::from_secs(1)),
    }
}

/// Parses a time, of milliseconds where it has no unit.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_millis(1))
}

/// Parses a size as whole MB, of MB where it has no unit.
pub fn megabytes(text: &str) -> Result<u64, String> {
    match units::size(text, MB) {
        None => Err("not a size: expected 64M, 1.5G or a number of MB".to_owned()),
        Some(bytes) if bytes < MB => Err("less than 1 MB".to_owned()),
        Some(bytes) => Ok(bytes / MB),
    }
}

/// The same within the range of the recorder's sizes, at least `least` MB.
pub fn megabytes_from(least: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| match u32::try_from(megabytes(text)?) {
        Ok(size) if size >= least => Ok(size),
        Ok(_) => Err(format!("less than {least} MB")),
        Err(_) => Err("too large".to_owned()),
    }
}

fn time(text: &str, unit: Duration) -> Result<Duration, String> {
    units::time(text, Some(unit)).ok_or_else(|| {
        "not a time of at most a year: expected 10s, 20ms, 1.5h or a number".to_owned()
    })
}
