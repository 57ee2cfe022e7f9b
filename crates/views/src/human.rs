//! Numbers of tables: those of every screen and sentence ([`iowhy_model::quantities`]) in the style
//! of the terminal, and milliseconds as iostat has them.

use crate::style::Style;
use iowhy_model::figures::noun_for;
use iowhy_model::quantities;

pub use iowhy_model::quantities::{bytes, count, percent, rate};

/// A duration, given in nanoseconds: `631 µs`, `1.20 ms`, `16.7 min`.
pub fn time(nanoseconds: f64, style: &Style) -> String {
    quantities::time(nanoseconds).replace('µ', style.either("µ", "u"))
}

/// `1 request`, `13,920 requests`, `2 processes`.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), noun_for(number, noun))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fit_the_terminal() {
        assert_eq!(time(1_000.0, &Style::plain(80)), "1.00 µs");
        let waits = [0.0, 100.0, 83_400.0, 631_000.0, 999_600.0, 12_000_000.0].map(milliseconds);
        assert_eq!(waits, ["0", "<0.001", "0.083", "0.631", "1.00", "12.0"]);
    }
}
