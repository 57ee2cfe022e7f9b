//! A rule: a cause, its judgement and its explanation.

use super::facts::Facts;
use super::finding::Finding;
use super::missing::Missing;
use super::needs::Need;

/// The result of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleVerdict {
    /// The cause is not detected, and the data would show it.
    Clear,
    /// The cause is detected.
    Finding(Box<Finding>),
    /// The data is insufficient, for this reason.
    NotEnough(String),
}

impl From<Finding> for RuleVerdict {
    fn from(finding: Finding) -> RuleVerdict {
        if finding.impact < super::finding::LEAST_IMPACT {
            return RuleVerdict::Clear;
        }
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
    /// The causes that it imitates: a finding of one of these on the same device is its symptom.
    pub symptoms: &'static [&'static str],
    /// The same for causes about one file: only findings about the same file are symptoms.
    pub symptoms_of_file: &'static [&'static str],
}

/// The rule of a file under `rules/`, whose function is `judge`. `needs`, `symptoms` and
/// `symptoms_of_file` are optional.
macro_rules! rule {
    (
        $cause:literal, $title:literal, $mechanism:literal, $changes:literal
        $(, needs: [$($need:ident),+ $(,)?])?
        $(, symptoms: [$($symptom:literal),+ $(,)?])?
        $(, symptoms_of_file: [$($of_file:literal),+ $(,)?])?
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
            symptoms: &[$($($symptom),+)?],
            symptoms_of_file: &[$($($of_file),+)?],
        };
    };
}
pub(super) use rule;
