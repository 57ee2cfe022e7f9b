//! Since when a device is as slow as it is.
//!
//! What does not belong here: the levels themselves (see [`super::over_time`]).

use super::Facts;
use super::over_time::ChangeKind;
use crate::words;

/// The least share of the watch that the last level of a device lasts, to have its begin named: a
/// shorter one is an episode. Chosen.
const LASTING: f64 = 0.2;

impl Facts<'_> {
    /// Returns the moment since which a device is slower or has more to do, in words; `None` if it
    /// was so when the watch began.
    pub fn since(&self, device: &str) -> Option<String> {
        let changes = self.over_time().changes.iter();
        let last =
            changes.filter(|change| change.device == device).max_by_key(|change| change.at_ns)?;
        let is_worse = matches!(last.kind, ChangeKind::Slower | ChangeKind::AskedMore);
        let left_ns = self.duration_ns().saturating_sub(last.at_ns) as f64;
        let lasts = left_ns >= LASTING * self.duration_ns() as f64;
        (is_worse && lasts).then(|| words::moment(self.summary(), last.at_ns))
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    /// Returns what is said of a reader whose reads take `before` for five seconds, and then
    /// `after`.
    fn said(before: u64, after: u64) -> (Option<String>, String) {
        let mut script = Script::new(10);
        let mut at = 0;
        while at < 9_900 * MS {
            let takes = if at < 5_000 * MS { before } else { after };
            let read = script.read("sda", 4096).by(7, "db").at(at as i64);
            read.sector(at % (1 << 26)).direct(500, 500, takes).add();
            at += takes + MS / 10;
        }
        script.wait((7, "db"), WaitClass::PageRead, 9_500 * MS, 9_500 * MS, 0);
        script.waited_on("sda", "/db/t", 0);
        let first = diagnose(&script.summary()).findings.remove(0);
        (first.since, first.sentence)
    }

    #[test]
    fn what_began_within_the_watch_has_its_moment() {
        let (since, sentence) = said(4 * MS, 30 * MS);
        assert!(since.unwrap().contains("after the watch began"), "{sentence}");
        assert!(sentence.contains("; since "), "{sentence}");
    }

    #[test]
    fn what_was_so_before_the_watch_has_none() {
        let (since, sentence) = said(30 * MS, 30 * MS);
        assert_eq!(since, None);
        assert!(!sentence.contains("since"), "{sentence}");
    }
}
