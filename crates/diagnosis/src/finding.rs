//! A named cause: subject, impact, confidence, evidence, fix and check.

use super::claims::Claims;
use super::facts::thresholds::WARNING_SHARE;
use super::facts::{Facts, Gain, OtherWork, Waited, device_time_ns};
use super::place::Place;
use super::programs;
use super::subject::Subject;
use iowhy_analysis::summary::patterns::WaitGroup;
use serde::Serialize;

/// The least share for a critical finding: more than everything else together.
pub const CRITICAL_SHARE: f64 = 0.50;
/// Findings below this share are not reported.
pub const LEAST_IMPACT: f64 = 0.01;

/// How much it matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Worth acting on.
    Warning,
    /// The reason why things are slow.
    Critical,
}

impl Severity {
    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// How sure iowhy is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The signs fit, but others could explain them, too.
    Possible,
    /// The signs fit, and no other known cause does.
    Likely,
    /// The mechanism itself was observed.
    Certain,
}

impl Confidence {
    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Certain => "certain",
        }
    }

    /// Returns the next lower confidence.
    pub const fn weaker(self) -> Confidence {
        match self {
            Confidence::Certain => Confidence::Likely,
            _ => Confidence::Possible,
        }
    }
}

/// A figure that speaks for the cause, and where to see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The label of the figure.
    pub what: String,
    /// The figure.
    pub figure: f64,
    /// Its unit: `%`, `ns`, `bytes`, `1/s`, or a noun; empty for a plain number.
    pub unit: &'static str,
    /// The command that shows it.
    pub command: String,
}

/// What [`Finding::impact`] is a share of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ImpactOf {
    /// The time that threads of programs were blocked.
    BlockedTime,
    /// The time of the device's requests.
    DeviceTime,
    /// Nothing: the source tells that it happens, and not for how long. The impact only orders
    /// findings then, and is not shown.
    Unknown,
}

/// What a finding claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FindingLayer {
    /// Why: a mechanism.
    Cause,
    /// Where: who waits in which call for what.
    Bottleneck,
}

/// A named cause, or a bottleneck that no cause explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The cause's or the bottleneck's id.
    pub cause: &'static str,
    /// Whether it is a cause or a bottleneck.
    pub layer: FindingLayer,
    /// How much it matters.
    pub severity: Severity,
    /// The share of the time that it explains, 0 to 1.
    pub impact: f64,
    /// Which time.
    pub impact_of: ImpactOf,
    /// Whether `impact` is an upper bound of the gain: the data does not show how much of that time
    /// would remain without the cause.
    pub impact_at_most: bool,
    /// Who would gain how much without it; `None` if no program that somebody waits for is held up,
    /// or waits are not in the data.
    pub gain: Option<Gain>,
    /// How sure iowhy is.
    pub confidence: Confidence,
    /// Who and what.
    pub subject: Subject,
    /// The cause in one sentence.
    pub sentence: String,
    /// Since when, if that is within the watch; `None` if it was so when the watch began, or if its
    /// beginning is not known.
    pub since: Option<String>,
    /// Who waits where because of it, in one sentence: the bottleneck that it explains; `None` if
    /// it explains none, or is one itself.
    pub waits: Option<String>,
    /// Figures that support it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub fix: String,
    /// What would refute it.
    pub check: String,
    /// Other detected causes that are its effects.
    pub symptoms: Vec<&'static str>,
    /// Bottlenecks whose time it explains.
    pub bottlenecks: Vec<&'static str>,
    /// What to do about the program's own settings, if that is in `fix`.
    #[serde(skip)]
    pub(super) advice: Option<&'static str>,
    /// The mean number of threads that it blocks over the watch; of a device, of its requests.
    #[serde(skip)]
    threads: f64,
    /// The time that it explains.
    #[serde(skip)]
    pub(super) claims: Claims,
    /// All of the time that it causes: what it explains, and what nobody would gain, such as a
    /// neighbour's own waits.
    #[serde(skip)]
    pub(super) caused: Claims,
    /// The place at which it acts.
    #[serde(skip)]
    pub(super) place: Place,
    /// The share of its own time that its program loses, where its rule says it.
    #[serde(skip)]
    held: Option<f64>,
    /// The lowest severity that its rule allows.
    #[serde(skip)]
    least: Severity,
    /// Whether its impact is a share of the time of a device's requests, which matters only as far
    /// as the device is busy.
    #[serde(skip)]
    is_of_device: bool,
    /// The highest severity that its rule allows.
    #[serde(skip)]
    most: Severity,
    /// Whether it is of a device that did nothing for long: what others count is then a result of
    /// that.
    #[serde(skip)]
    pub(super) is_of_stall: bool,
    /// Whether it may be none: those whose time it claims may only be idle.
    #[serde(skip)]
    pub(super) is_doubtful: bool,
    /// The confidence without losses. Losses lower the confidence of all findings alike, and do not
    /// affect which explains which.
    #[serde(skip)]
    pub(super) unlost: Confidence,
}

impl Finding {
    /// Returns a finding that explains `time_ns` of the blocked time.
    pub fn of_blocked(facts: &Facts<'_>, time_ns: u64, sentence: String) -> Finding {
        let share = time_ns as f64 / facts.blocked_ns().max(1) as f64;
        let threads = time_ns as f64 / facts.duration_ns().max(1) as f64;
        Finding::of_share(ImpactOf::BlockedTime, share, threads, sentence)
    }

    /// Returns a finding that explains all of these waits.
    pub fn of_waits(facts: &Facts<'_>, waited: &Waited<'_>, sentence: String) -> Finding {
        Finding::of_blocked(facts, waited.time_ns, sentence).claiming(Claims::of_waits(waited))
    }

    /// Returns a finding that explains the part of these waits that their class takes.
    pub fn of_class(facts: &Facts<'_>, waited: &Waited<'_>, sentence: String) -> Finding {
        Finding::of_blocked(facts, waited.class_ns, sentence).claiming(Claims::of_class(waited))
    }

    /// Returns a finding that explains `time_ns` of the `whole_ns` that a device's requests took.
    pub fn of_device(facts: &Facts<'_>, time_ns: u64, whole_ns: u64, sentence: String) -> Finding {
        let share = time_ns as f64 / whole_ns.max(1) as f64;
        let threads = time_ns as f64 / facts.duration_ns().max(1) as f64;
        let finding = Finding::of_share(ImpactOf::DeviceTime, share, threads, sentence);
        Finding { is_of_device: true, ..finding }
    }

    /// Returns a finding with a given share of the time and mean number of blocked threads.
    pub fn of_share(impact_of: ImpactOf, impact: f64, threads: f64, sentence: String) -> Finding {
        Finding {
            cause: "",
            layer: FindingLayer::Cause,
            severity: Severity::Info,
            impact: impact.clamp(0.0, 1.0),
            impact_of,
            impact_at_most: false,
            gain: None,
            confidence: Confidence::Likely,
            subject: Subject::default(),
            sentence,
            since: None,
            waits: None,
            evidence: Vec::new(),
            fix: String::new(),
            check: String::new(),
            symptoms: Vec::new(),
            bottlenecks: Vec::new(),
            advice: None,
            threads,
            claims: Claims::default(),
            caused: Claims::default(),
            place: Place::Pattern,
            held: None,
            most: Severity::Critical,
            least: Severity::Info,
            is_of_device: false,
            is_of_stall: false,
            is_doubtful: false,
            unlost: Confidence::Likely,
        }
    }

    /// The time that it explains, if it is not all that its subject waits for.
    #[must_use]
    pub fn claiming(mut self, claims: Claims) -> Finding {
        self.claims = claims;
        self
    }

    /// The time that it also causes, without holding anybody up by it.
    #[must_use]
    pub fn causing(mut self, claims: Claims) -> Finding {
        self.caused = claims;
        self
    }

    /// Says which share of its own time its program loses, where the claimed waits do not show it:
    /// beside its waits, or behind the thread whose waits they are.
    #[must_use]
    pub fn holding(mut self, share: f64) -> Finding {
        self.held = Some(share);
        self
    }

    /// The cause in one sentence.
    #[must_use]
    pub fn saying(mut self, sentence: String) -> Finding {
        self.sentence = sentence;
        self
    }

    /// Sets its subject.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Finding {
        self.subject = subject;
        self
    }

    /// Sets its confidence.
    #[must_use]
    pub fn sure(mut self, confidence: Confidence) -> Finding {
        (self.confidence, self.unlost) = (confidence, confidence);
        self
    }

    /// Marks its impact as an upper bound, since the remainder is not in the data.
    #[must_use]
    pub fn upper_bound(mut self) -> Finding {
        self.impact_at_most = true;
        self
    }

    /// Marks its impact as a mere weight: nothing tells of what time it is a share.
    #[must_use]
    pub(super) fn without_share(mut self) -> Finding {
        self.impact_of = ImpactOf::Unknown;
        self
    }

    /// Turns the share of a part of the blocked time into one of the whole.
    pub(super) fn of_a_part(mut self, of_whole: f64) -> Finding {
        if self.impact_of == ImpactOf::BlockedTime {
            self.impact *= of_whole.clamp(0.0, 1.0);
        }
        self
    }

    /// Caps the severity.
    #[must_use]
    pub fn at_most(mut self, severity: Severity) -> Finding {
        self.most = self.most.min(severity);
        self
    }

    /// Raises the highest severity that its rule allows.
    pub(super) fn allow(&mut self, severity: Severity) {
        self.most = self.most.max(severity);
    }

    /// Sets the least severity, however little of the time it takes: one such event is too many.
    #[must_use]
    pub fn at_least(mut self, severity: Severity) -> Finding {
        self.least = self.least.max(severity);
        self
    }

    /// Marks it as of a device that completed nothing for long: critical however much of the watch
    /// that is, and first among what is as severe. Shares, rates and means of such a device show
    /// what it kept waiting.
    #[must_use]
    pub fn of_stall(mut self) -> Finding {
        self.is_of_stall = true;
        self.at_least(Severity::Critical)
    }

    /// Says whether those whose time it claims may only be idle: it comes after what was seen.
    #[must_use]
    pub fn doubtful(self, is_doubtful: bool) -> Finding {
        Finding { is_doubtful, ..self }
    }

    /// Of work that goes on while others wait for the same device: at most its share of their time;
    /// where nobody waits, it is information.
    pub(super) fn of_work(
        facts: &Facts<'_>,
        work: &OtherWork<'_>,
        victims: &Waited<'_>,
        sentence: String,
    ) -> Finding {
        if victims.time_ns == 0 {
            let whole = device_time_ns(work.device);
            let time_ns = (work.share * whole as f64) as u64;
            return Finding::of_device(facts, time_ns, whole, sentence).at_most(Severity::Info);
        }
        let time_ns = (victims.time_ns as f64 * work.share) as u64;
        let claims = Claims::of_waits(victims).scaled(work.share);
        Finding::of_blocked(facts, time_ns, sentence).claiming(claims).upper_bound()
    }

    /// A figure that speaks for it, and the command that shows it. `iowhy` without a view means all
    /// of its sections: the first page shows what there is room for.
    #[must_use]
    pub fn shown(
        self,
        what: impl Into<String>,
        figure: f64,
        unit: &'static str,
        command: impl Into<String>,
    ) -> Finding {
        let mut command = command.into();
        let rest = command.strip_prefix("iowhy");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" -")) {
            command.push_str(" --full");
        }
        self.evident(what.into(), figure, unit, command)
    }

    /// A figure that the same command shows as the one before.
    #[must_use]
    pub fn also(self, what: impl Into<String>, figure: f64, unit: &'static str) -> Finding {
        let command = self.evidence.last().map(|shown| shown.command.clone()).unwrap_or_default();
        self.evident(what.into(), figure, unit, command)
    }

    fn evident(
        mut self,
        what: String,
        figure: f64,
        unit: &'static str,
        command: String,
    ) -> Finding {
        // The sum of nothing is -0.
        let figure = figure + 0.0;
        self.evidence.push(Evidence { what, figure, unit, command });
        self
    }

    /// Sets what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    /// Puts advice before what else there is to do, unless it is there.
    pub(super) fn advise_first(&mut self, advice: &'static str) {
        self.advice = Some(advice);
        if !self.fix.contains(advice) {
            self.fix = format!("{advice}; else {}", self.fix);
        }
    }

    /// Sets what to do about the program's own settings.
    #[must_use]
    pub(super) fn advising(self, advice: Option<&'static str>) -> Finding {
        Finding { advice, ..self }
    }

    /// Sets what would refute it.
    #[must_use]
    pub fn check(mut self, check: impl Into<String>) -> Finding {
        self.check = check.into();
        self
    }

    /// Says since when, unless its sentence does.
    pub(super) fn dated(mut self, facts: &Facts<'_>) -> Finding {
        let device = self.subject.device.as_deref();
        self.since = device.and_then(|device| facts.since(device));
        let is_worth = self.severity > Severity::Info && !self.sentence.contains(" since ");
        if let Some(since) = self.since.as_ref().filter(|_| is_worth) {
            self.sentence = format!("{}; since {since}", self.sentence);
        }
        self
    }

    /// Takes over the waits of a bottleneck that it explains: who waits, and where.
    pub(super) fn explain(&mut self, bottleneck: &Finding) {
        self.bottlenecks.push(bottleneck.cause);
        // Waits of others are reported only if they matter.
        let is_own = bottleneck.subject.process == self.subject.process
            && bottleneck.subject.pid == self.subject.pid;
        let is_worth = bottleneck.severity > Severity::Info || is_own;
        if self.waits.is_some() || !is_worth && self.subject.process.is_some() {
            return;
        }
        // A volume at its limit says nothing of how its program can ask for less.
        let is_alone = self.subject.process.is_none() || is_own;
        if let Some(advice) = bottleneck.advice.filter(|_| self.place == Place::Volume && is_alone)
        {
            self.advise_first(advice);
        }
        self.waits = Some(bottleneck.sentence.clone());
        let (own, its) = (&mut self.subject, &bottleneck.subject);
        if own.process.is_none() {
            own.process.clone_from(&its.process);
            (own.pid, own.container) = (its.pid, its.container.clone());
        }
        if own.file.is_none() && own.process == its.process {
            own.file.clone_from(&its.file);
        }
    }

    /// Returns the time that it explains where its rule does not say: the requests of its device,
    /// or the waits of its program, up to its share.
    fn usual_claims(&self, facts: &Facts<'_>) -> Claims {
        let name = self.subject.device.as_deref();
        if self.impact_of != ImpactOf::BlockedTime {
            // What a program does by itself it does to itself; whom else it delays is blame's.
            let is_own = matches!(self.place, Place::Program | Place::Calls | Place::Pattern);
            let all = name.map_or_else(Claims::default, |name| {
                Claims::of_device_for(facts, name, |group| !is_own || self.is_about(group))
            });
            return all.scaled(self.impact);
        }
        let is_near = |group: &WaitGroup| {
            name.is_none() || group.device.is_none() || group.device.as_deref() == name
        };
        let time_ns = (self.impact * facts.blocked_ns() as f64) as u64;
        let mut waits = facts.waits(|group| is_near(group) && self.is_about(group));
        if waits.time_ns < time_ns {
            // The subject is one of several processes of a program, such as those of a script.
            let process = self.subject.process.as_ref();
            waits = facts.waits(|group| is_near(group) && process == Some(&group.process));
        }
        Claims::of_waits(&waits).limited_to(time_ns)
    }

    /// Whether a wait is of its subject's process; of any if that is not known.
    fn is_about(&self, group: &WaitGroup) -> bool {
        let process = self.subject.process.as_deref();
        let pid = self.subject.pid.filter(|pid| *pid > 0);
        process.is_none_or(|process| process == group.process)
            && pid.is_none_or(|pid| pid == group.pid)
    }

    /// Returns the severity by what the programs lose that it holds up; by the device's time where
    /// waits are not in the data.
    fn by_loss(&self, facts: &Facts<'_>) -> Severity {
        let nobody_is_known = self.is_of_device && self.claims.waited_ns() == 0;
        let share = match facts.need_waits() {
            Ok(()) if !nobody_is_known => self.gained_share(),
            _ => self.impact.min(self.threads),
        };
        match share {
            share if share >= CRITICAL_SHARE => Severity::Critical,
            share if share >= WARNING_SHARE => Severity::Warning,
            _ => Severity::Info,
        }
    }

    /// Returns the highest severity for a share of a device's time: all of the time of a nearly
    /// idle device is little.
    fn by_use(&self, facts: &Facts<'_>) -> Severity {
        let name = self.subject.device.as_ref();
        let device = facts.devices().iter().find(|row| Some(&row.device) == name);
        match device.and_then(|row| row.util_share) {
            Some(util) if util < WARNING_SHARE => Severity::Info,
            Some(util) if util < CRITICAL_SHARE => Severity::Warning,
            _ => Severity::Critical,
        }
    }

    /// Adds what is the same for every rule: the severity from what is lost, the confidence from
    /// what the watch has lost.
    pub(super) fn complete(mut self, layer: FindingLayer, facts: &Facts<'_>) -> Finding {
        self.layer = layer;
        if self.claims.is_empty() {
            self.claims = self.usual_claims(facts);
        }
        self.caused = self.caused.and(&self.claims);
        self.say_what_is_around(facts);
        // A pace is a program's own; a limit or a neighbour that acts on it is not.
        let is_at_own_pace = |group: &WaitGroup| {
            let is_served = matches!(self.place, Place::KernelWork | Place::Program);
            let is_own = is_served && self.subject.process.is_some() && self.is_about(group);
            (is_own || self.place >= Place::Flush && facts.is_sync(group)) && facts.is_paced(group)
        };
        self.gain = match self.held {
            Some(share) => Some(Gain::new(facts, self.subject.process.as_deref(), share, 0)),
            // How a program of maintenance syncs is its own doing.
            None => self.claims.gain(facts, |group| {
                let is_own_doing = programs::is_maintenance(&group.process)
                    && self.place >= Place::Flush
                    && facts.is_sync(group);
                let is_background = facts.is_background(group) && !is_own_doing;
                !(is_background || is_at_own_pace(group))
            }),
        };
        let severity = self.by_loss(facts);
        let severity = if self.is_of_device { severity.min(self.by_use(facts)) } else { severity };
        self.severity = severity.min(self.most).max(self.least);
        let of_waits = self.impact_of == ImpactOf::BlockedTime && facts.loses_waits();
        for _ in 0..facts.doubts() + usize::from(of_waits) {
            self.confidence = self.confidence.weaker();
        }
        self
    }

    /// Returns the largest share of its own time that one program loses because of it.
    pub(super) fn gained_share(&self) -> f64 {
        self.gain.as_ref().map_or(0.0, |gain| gain.share)
    }

    /// Whether it is worth a line: one hundredth of the blocked time, or a program is held up.
    pub(super) fn matters(&self) -> bool {
        let is_held_up = self.gained_share() >= WARNING_SHARE;
        self.impact >= LEAST_IMPACT || is_held_up || self.severity > Severity::Info
    }
}
