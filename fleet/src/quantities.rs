//! Times and sizes with their units, as `iowhy` itself shows them: three significant digits. The
//! fleet shares no crate with it, so one table of examples tests both
//! (`crates/core/tests/figures.txt`).
//!
//! What does not belong here: tables and their columns (see [`crate::output`]).

const MINUTE: f64 = 60e9;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// A time as people read it, given in nanoseconds: `12.3 ms`, with its sign.
pub fn duration_text(nanoseconds: f64) -> String {
    let sign = if nanoseconds <= -0.5 { "-" } else { "" };
    let text = match nanoseconds.abs() {
        n if n < 999.5 => format!("{} ns", n.round()),
        n if n >= 3.0 * DAY => format!("{} d", three(n / DAY)),
        n if n >= 3.0 * HOUR => format!("{} h", three(n / HOUR)),
        n if n >= 10.0 * MINUTE => format!("{} min", three(n / MINUTE)),
        n => scaled(n, 1e3, &["µs", "ms", "s"]),
    };
    format!("{sign}{text}")
}

/// A size as people read it, given in bytes: `3.64 TiB`.
pub fn size_text(bytes: f64) -> String {
    if bytes < 1023.5 {
        return format!("{} B", bytes.round().max(0.0).abs());
    }
    scaled(bytes, 1024.0, &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// Three significant digits, never fewer than the integer part.
fn three(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
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
    fn examples_are_those_of_iowhy() {
        let examples = include_str!("../../crates/core/tests/figures.txt");
        let mut read = 0;
        for line in examples.lines() {
            let [kind, value, text] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            let shown = match kind {
                "time" => duration_text(value.parse().unwrap()),
                "bytes" => size_text(value.parse().unwrap()),
                _ => continue,
            };
            assert_eq!(shown, text, "{line}");
            read += 1;
        }
        assert!(read > 20, "{read}");
    }

    #[test]
    fn a_difference_keeps_its_sign() {
        assert_eq!(duration_text(-12_340_000.0), "-12.3 ms");
        assert_eq!(duration_text(-0.2), "0 ns");
    }
}
