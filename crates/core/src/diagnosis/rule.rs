//! What a rule is: a cause, how to judge it, and the page that explains it.

use super::facts::Facts;
use super::finding::Finding;
use super::missing::Missing;
use super::needs::Need;

/// What a rule answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The data would show the cause, and does not.
    Clear,
    /// It is there.
    Finding(Box<Finding>),
    /// The data cannot tell, for this reason.
    NotEnough(String),
}

impl From<Finding> for Verdict {
    fn from(finding: Finding) -> Verdict {
        if finding.impact < super::finding::LEAST_IMPACT {
            return Verdict::Clear;
        }
        Verdict::Finding(Box::new(finding))
    }
}

/// How a rule says early that it cannot judge: `?` on what it needs.
pub type Judged = Result<Verdict, Missing>;

impl From<Missing> for Verdict {
    fn from(missing: Missing) -> Verdict {
        Verdict::NotEnough(missing.0)
    }
}

/// One cause.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id: an interface.
    pub cause: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// How it makes things slow, in a few sentences.
    pub mechanism: &'static str,
    /// What would change the verdict.
    pub changes: &'static str,
    /// Judges it.
    pub judge: fn(&Facts<'_>) -> Verdict,
    /// What it takes to rule it out, beyond requests with their times.
    pub(super) needs: &'static [Need],
    /// What else shows when it is there: a finding of these on the same device is its symptom.
    pub symptoms: &'static [&'static str],
    /// The same of what is about one file: only of the same one.
    pub symptoms_of_file: &'static [&'static str],
}

/// The rule of a file under `rules/`, whose function is `judge`. `needs`, `symptoms`
/// and `symptoms_of_file` may be left out.
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
