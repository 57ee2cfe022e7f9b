//! A rule: a cause, its judgement and its explanation.

use super::facts::Facts;
use super::finding::Finding;
use super::missing::Missing;
use super::needs::Need;
use super::place::Place;

/// The result of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleVerdict {
    /// The cause is not detected, and the data would show it.
    Clear,
    /// The cause is detected.
    Finding(Box<Finding>),
    /// It is detected in several places, such as on several devices.
    Findings(Vec<Finding>),
    /// The data is insufficient, for this reason.
    NotEnough(String),
}

impl From<Finding> for RuleVerdict {
    fn from(finding: Finding) -> RuleVerdict {
        RuleVerdict::Finding(Box::new(finding))
    }
}

/// Lets a rule return early with `?` if data that it needs is missing.
pub type Judged = Result<RuleVerdict, Missing>;

impl From<Missing> for RuleVerdict {
    fn from(missing: Missing) -> RuleVerdict {
        RuleVerdict::NotEnough(missing.0)
    }
}

/// One cause.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id, which is an interface.
    pub cause: &'static str,
    /// A short noun phrase.
    pub title: &'static str,
    /// How it slows things down, in a few sentences.
    pub mechanism: &'static str,
    /// What would change the verdict.
    pub changes: &'static str,
    /// Judges whether it is present.
    pub judge: fn(&Facts<'_>) -> RuleVerdict,
    /// The data needed to rule it out, beyond requests with their times.
    pub(super) needs: &'static [Need],
    /// Where it acts, which decides what it may explain.
    pub(super) place: Place,
    /// The setting that takes it away, as `iowhy verify --with` has it; `None` if none does.
    pub trial: Option<&'static str>,
    /// The least of a capture from which it is judged.
    pub least: LeastData,
}

/// What a capture must hold at least for a cause to be judged. Data of counters and live watches
/// are long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeastData {
    /// Requests of all devices.
    pub requests: u64,
    /// Nanoseconds from the first event to the last.
    pub time_ns: u64,
}

impl LeastData {
    /// A single event: a device that does not answer, or says that it is ill.
    pub const EVENT: LeastData = LeastData { requests: 1, time_ns: 0 };
    /// A rate, a share or a mean: ten requests of a disk take longer than a millisecond. Chosen.
    pub const RATE: LeastData = LeastData { requests: 10, time_ns: 1_000_000 };

    /// A figure of so many requests.
    pub const fn for_requests(requests: u64) -> LeastData {
        LeastData { requests, ..LeastData::RATE }
    }

    /// A figure that changes over so many nanoseconds.
    pub const fn for_time(time_ns: u64) -> LeastData {
        LeastData { time_ns, ..LeastData::RATE }
    }
}

/// Returns the first of an optional part of a rule.
pub(super) const fn first(parts: &[&'static str]) -> Option<&'static str> {
    match parts {
        [] => None,
        [first, ..] => Some(*first),
    }
}

/// Returns the part of a rule that says how much data it needs, or the usual.
pub(super) const fn least(parts: &[LeastData]) -> LeastData {
    match parts {
        [] => LeastData::RATE,
        [.., last] => *last,
    }
}

/// The rule of a file under `rules/`, whose function is `judge`. `needs`, `trial` and `least` are
/// optional; without the last one it judges a rate, a share or a mean.
macro_rules! rule {
    (
        $cause:literal, $title:literal, $mechanism:literal, $changes:literal
        , place: $place:ident
        $(, needs: [$($need:ident),+ $(,)?])?
        $(, trial: $trial:literal)?
        $(, least: $least:expr)?
        $(,)?
    ) => {
        /// The rule.
        pub const RULE: $crate::diagnosis::Rule = $crate::diagnosis::Rule {
            cause: $cause,
            title: $title,
            mechanism: $mechanism,
            changes: $changes,
            judge: |facts| judge(facts).unwrap_or_else(|missing| missing.into()),
            needs: &[$($($crate::diagnosis::needs::Need::$need),+)?],
            place: $crate::diagnosis::place::Place::$place,
            trial: $crate::diagnosis::rule::first(&[$($trial)?]),
            least: $crate::diagnosis::rule::least(&[$($least)?]),
        };
    };
}
pub(super) use rule;
