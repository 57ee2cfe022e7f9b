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
    /// Whether a single event is enough: a device that does not answer, or says that it is ill.
    pub(super) is_once: bool,
}

/// Returns the first of an optional part of a rule.
pub(super) const fn first(parts: &[&'static str]) -> Option<&'static str> {
    match parts {
        [] => None,
        [first, ..] => Some(*first),
    }
}

/// The rule of a file under `rules/`, whose function is `judge`. `needs`, `trial` and `once` are
/// optional.
macro_rules! rule {
    (
        $cause:literal, $title:literal, $mechanism:literal, $changes:literal
        , place: $place:ident
        $(, needs: [$($need:ident),+ $(,)?])?
        $(, trial: $trial:literal)?
        $(, once: $once:literal)?
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
            is_once: false $(|| $once)?,
        };
    };
}
pub(super) use rule;
