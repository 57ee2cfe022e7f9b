//! Numbers with their units, as every screen, sentence and page shows them: three significant
//! digits. The page's script has the same rules (`views/web/src/format.ts`); one table of examples
//! tests both (`model/tests/figures.txt`).
//!
//! What does not belong here: numbers without a unit, and nouns (see [`crate::figures`]).

use crate::figures::{grouped, three};

const MINUTE: f64 = 60e9;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// A duration, given in nanoseconds: `631 µs`, `1.20 ms`, `16.7 min`.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 999.5 => format!("{} ns", n.round()),
        n if n >= 3.0 * DAY => format!("{} d", three(n / DAY)),
        n if n >= 3.0 * HOUR => format!("{} h", three(n / HOUR)),
        n if n >= 10.0 * MINUTE => format!("{} min", three(n / MINUTE)),
        n => scaled(n, 1e3, &["µs", "ms", "s"]),
    }
}

/// Bytes: `512 B`, `4.00 KiB`, `1.20 TiB`; `?` for no number.
pub fn bytes(bytes: f64) -> String {
    if bytes.is_nan() {
        return "?".to_owned();
    }
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

/// A rate without its unit: `1,391`, `12.0`, `0.10`; `?` for no number.
pub fn rate(rate: f64) -> String {
    match rate {
        r if r.is_nan() => "?".to_owned(),
        r if r <= 0.0 => "0".to_owned(),
        r if r < 0.005 => "<0.01".to_owned(),
        r if r >= 999.5 => count(r.round() as u64),
        r => three(r),
    }
}

/// A share in per cent, without the sign: `87.6`, `100`, `<0.1`, `>99.9`. Only a whole is 100.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0".to_owned(),
        p if p < 0.05 => "<0.1".to_owned(),
        // Sums of many shares are a little off.
        p if (99.95..100.0 - 1e-6).contains(&p) => ">99.9".to_owned(),
        p if p >= 99.95 => format!("{p:.0}"),
        p => format!("{p:.1}"),
    }
}

/// A share that is known from so many samples of a part: with as many digits as these carry, and
/// `~`; `None` of fewer than ten.
pub fn estimated_percent(share: f64, samples: u64) -> Option<String> {
    match samples {
        0..LEAST_SAMPLES => None,
        LEAST_SAMPLES..FEW_SAMPLES if share * 100.0 >= 1.0 => {
            Some(format!("~{:.0}", (share * 100.0).min(99.0)))
        }
        _ => {
            let shown = percent(share);
            // A bound is an estimate by itself.
            Some(if shown.starts_with(['<', '>']) { shown } else { format!("~{shown}") })
        }
    }
}

/// Shares of fewer samples are not shown: of ten, a third is known to within a half of itself.
pub const LEAST_SAMPLES: u64 = 10;
/// From so many on a share is known to within about 1.5 percentage points.
const FEW_SAMPLES: u64 = 1_000;

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
    fn examples_are_those_of_the_page() {
        let examples = include_str!("../tests/figures.txt");
        let lines = examples.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut read = 0;
        for line in lines {
            let [kind, value, text] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let value: f64 = value.parse().unwrap();
            let shown = match kind {
                "time" => time(value),
                "bytes" => bytes(value),
                "count" => count(value as u64),
                "rate" => rate(value),
                "percent" => format!("{} %", percent(value)),
                other => panic!("{other}"),
            };
            assert_eq!(shown, text, "{line}");
            read += 1;
        }
        assert!(read > 40, "{read}");
    }

    #[test]
    fn estimates_have_the_digits_that_their_samples_carry() {
        let shown = |samples| estimated_percent(0.384, samples);
        assert_eq!(shown(9), None);
        assert_eq!(shown(10).unwrap(), "~38");
        assert_eq!(shown(999).unwrap(), "~38");
        assert_eq!(shown(1_000).unwrap(), "~38.4");
        assert_eq!(estimated_percent(0.9996, 50).unwrap(), "~99");
        assert_eq!(estimated_percent(0.004, 50).unwrap(), "~0.4");
        assert_eq!(estimated_percent(0.0001, 50).unwrap(), "<0.1");
    }
}
