//! Numbers as a person reads them: three significant digits and a unit.

use crate::style::Style;
use iowhy_core::figures::{grouped, noun_for, three};

const MINUTE: f64 = 60e9;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// A duration, given in nanoseconds: `631 µs`, `1.20 ms`, `16.7 min`.
pub fn time(nanoseconds: f64, style: &Style) -> String {
    match nanoseconds {
        n if n < 999.5 => format!("{} ns", n.round()),
        n if n >= 3.0 * DAY => format!("{} d", three(n / DAY)),
        n if n >= 3.0 * HOUR => format!("{} h", three(n / HOUR)),
        n if n >= 10.0 * MINUTE => format!("{} min", three(n / MINUTE)),
        n => scaled(n, 1e3, &[style.either("µs", "us"), "ms", "s"]),
    }
}

/// Bytes: `512 B`, `4.00 KiB`, `1.20 TiB`.
pub fn bytes(bytes: f64) -> String {
    if bytes < 1023.5 {
        return format!("{} B", bytes.round().max(0.0).abs());
    }
    scaled(bytes, 1024.0, &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A count: `13,920`, from ten million `12.3 M`.
pub fn count(count: u64) -> String {
    if count >= 10_000_000 {
        return scaled(count as f64 / 1e3, 1e3, &["M", "G", "T", "P", "E"]);
    }
    grouped(count)
}

/// `1 request`, `13,920 requests`, `2 processes`.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), noun_for(number, noun))
}

/// A rate without its unit: `1,391`, `12.0`, `0.10`.
pub fn rate(rate: f64) -> String {
    match rate {
        r if r <= 0.0 => "0".to_owned(),
        r if r < 0.005 => "<0.01".to_owned(),
        r if r >= 999.5 => count(r.round() as u64),
        r => three(r),
    }
}

/// A duration in nanoseconds, shown in milliseconds as in iostat: `0.631`, `12.0`.
pub fn milliseconds(nanoseconds: f64) -> String {
    match nanoseconds / 1e6 {
        ms if ms <= 0.0 => "0".to_owned(),
        ms if ms < 0.0005 => "<0.001".to_owned(),
        ms if ms < 0.9995 => format!("{ms:.3}"),
        ms => rate(ms),
    }
}

/// A share in per cent, without the sign: `87.6`, `100`, `<0.1`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0".to_owned(),
        p if p < 0.05 => "<0.1".to_owned(),
        p if p >= 99.95 => format!("{p:.0}"),
        p => format!("{p:.1}"),
    }
}

/// `value` in the first of `units` in which it is below `step`; the first unit is one step above
/// `value`'s own.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value / step;
    let mut units = units.iter();
    let mut unit = units.next();
    while value >= step - 0.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / step, Some(next));
    }
    format!("{} {}", three(value), unit.unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let time = |ns: u64| time(ns as f64, &Style::plain(80));
        let times = [0, 999, 1_000, 9_996, 999_499, 999_600, 15_000_000, 1_150_000_000];
        let read =
            ["0 ns", "999 ns", "1.00 µs", "10.0 µs", "999 µs", "1.00 ms", "15.0 ms", "1.15 s"];
        assert_eq!(times.map(time), read);
        let long =
            [163, 599, 600, 3600, 36_000, 1_000_000].map(|seconds| time(seconds * 1_000_000_000));
        assert_eq!(long, ["163 s", "599 s", "10.0 min", "60.0 min", "10.0 h", "11.6 d"]);
        let sizes =
            [0, 512, 1023, 1024, 5_693_440, 1 << 30, u64::MAX].map(|size| bytes(size as f64));
        assert_eq!(
            sizes,
            ["0 B", "512 B", "1023 B", "1.00 KiB", "5.43 MiB", "1.00 GiB", "16.0 EiB"]
        );
        let counts = [0, 999, 13_920, 9_999_999, 12_345_678].map(count);
        assert_eq!(counts, ["0", "999", "13,920", "9,999,999", "12.3 M"]);
        let rates = [0.0, 0.001, 0.1, 12.0, 999.4, 999.6, 230_411.3].map(rate);
        assert_eq!(rates, ["0", "<0.01", "0.10", "12.0", "999", "1,000", "230,411"]);
        let waits = [0.0, 100.0, 83_400.0, 631_000.0, 999_600.0, 12_000_000.0].map(milliseconds);
        assert_eq!(waits, ["0", "<0.001", "0.083", "0.631", "1.00", "12.0"]);
        let shares = [0.0, 0.0001, 0.0005, 0.876, 0.9994, 0.9996, 1.0].map(percent);
        assert_eq!(shares, ["0", "<0.1", "0.1", "87.6", "99.9", "100", "100"]);
    }
}
