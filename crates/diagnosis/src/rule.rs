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
    /// The cause is detected in several places, such as on several devices.
    Findings(Vec<Finding>),
    /// The data is insufficient, for this reason.
    NotEnough(String),
}

impl From<Finding> for RuleVerdict {
    fn from(finding: Finding) -> RuleVerdict {
        RuleVerdict::Finding(Box::new(finding))
    }
}

impl From<Vec<Finding>> for RuleVerdict {
    fn from(findings: Vec<Finding>) -> RuleVerdict {
        if findings.is_empty() { RuleVerdict::Clear } else { RuleVerdict::Findings(findings) }
    }
}

/// Lets a rule return early with `?`: if data that it needs is missing, or if its cause is not
/// detected.
pub type Judged = Result<RuleVerdict, RuleVerdict>;

/// Ends the judgement if there is no sign of the cause.
pub(super) const fn clear_if(is_clear: bool) -> Result<(), RuleVerdict> {
    if is_clear { Err(RuleVerdict::Clear) } else { Ok(()) }
}

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
    /// The way in which it slows things down, in a few sentences.
    pub mechanism: &'static str,
    /// The observations that would change the verdict.
    pub changes: &'static str,
    /// Judges whether it is present.
    pub judge: fn(&Facts<'_>) -> RuleVerdict,
    /// The data needed to rule it out, beyond requests with their times.
    pub(super) needs: &'static [Need],
    /// The place at which it acts, which decides what it may explain.
    pub(super) place: Place,
    /// The setting that takes it away, as `iowhy verify --with` has it; `None` if none does.
    pub trial: Option<&'static str>,
    /// The least of a capture from which it is judged.
    pub least: LeastData,
    /// The meaning of its impact, and the reason why that is an upper bound; `None` if it is time
    /// that was seen to be lost.
    pub bound: Option<[&'static str; 2]>,
    /// The picture that shows it best.
    pub picture: Picture,
    /// The findings of it that begin an incident.
    pub incident: IncidentStart,
    /// Whether a reproduction needs its wait chain: threads behind one that does I/O.
    pub is_convoy: bool,
    /// Suspicions of it that the data refutes, a sentence each.
    pub(super) refuted: fn(&Facts<'_>) -> Vec<String>,
}

impl Rule {
    /// The values of a rule that says nothing else: a rate, a share or a mean of requests with
    /// their times, which no setting takes away.
    pub(super) const USUAL: Rule = Rule {
        cause: "",
        title: "",
        mechanism: "",
        changes: "",
        judge: |_| RuleVerdict::Clear,
        needs: &[],
        place: Place::Pattern,
        trial: None,
        least: LeastData::RATE,
        bound: None,
        picture: Picture::Waits,
        incident: IncidentStart::Always,
        is_convoy: false,
        refuted: |_| Vec::new(),
    };

    /// Returns it as one that acts elsewhere, where other data than requests shows it.
    pub(super) const fn placed(self, place: Place) -> Rule {
        Rule { place, ..self }
    }
}

impl Finding {
    /// Of which rule it is.
    #[must_use]
    pub(super) fn of_rule(mut self, of: &Rule) -> Finding {
        (self.cause, self.place) = (of.cause, of.place);
        self
    }

    /// Returns the rule that it is of.
    pub fn rule(&self) -> Option<&'static Rule> {
        super::rule_of(self.cause)
    }
}

/// The least that a capture must hold for a cause to be judged. Data of counters and live watches
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

/// The picture that shows a cause best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Picture {
    /// The places where threads waited, over time.
    Waits,
    /// Bytes over time.
    Bytes,
    /// Requests over time with the rate at which they stayed flat; bytes where they did not.
    Limit,
    /// Latencies over time, or their two modes.
    Heat,
    /// The same; a histogram of them is the point of the finding.
    Tail,
    /// The wait chain.
    Chain,
}

impl Picture {
    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Picture::Waits => "waits",
            Picture::Bytes => "bytes",
            Picture::Limit => "limit",
            Picture::Heat => "heat",
            Picture::Tail => "tail",
            Picture::Chain => "chain",
        }
    }
}

/// The findings of a rule that begin an incident of the flight recorder, if they are severe enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IncidentStart {
    /// All.
    Always,
    /// Findings of a request that has ended, or that the kernel still has: its end may not have
    /// been seen.
    InFlight,
}

/// The rule of a file under `rules/`, whose function is `judge`. What stands behind `place` is
/// optional, in this order; without it, it is that of [`Rule::USUAL`].
macro_rules! rule {
    (
        $cause:literal, $title:literal, $mechanism:literal, $changes:literal
        , place: $place:ident
        $(, needs: [$($need:ident),+ $(,)?])?
        $(, trial: $trial:literal)?
        $(, least: $least:expr)?
        $(, bound: [$what:literal, $why:literal $(,)?])?
        $(, picture: $picture:ident)?
        $(, incident: $incident:ident)?
        $(, convoy: $convoy:literal)?
        $(, refuted: $refuted:ident)?
        $(,)?
    ) => {
        /// The rule.
        pub const RULE: $crate::Rule = $crate::Rule {
            cause: $cause,
            title: $title,
            mechanism: $mechanism,
            changes: $changes,
            judge: |facts| judge(facts).unwrap_or_else(|verdict| verdict),
            place: $crate::place::Place::$place,
            $(needs: &[$($crate::needs::Need::$need),+],)?
            $(trial: Some($trial),)?
            $(least: $least,)?
            $(bound: Some([$what, $why]),)?
            $(picture: $crate::rule::Picture::$picture,)?
            $(incident: $crate::rule::IncidentStart::$incident,)?
            $(is_convoy: $convoy,)?
            $(refuted: $refuted,)?
            ..$crate::Rule::USUAL
        };
    };
}
pub(super) use rule;
