//! The match of a diagnosis with a label.
//!
//! What does not belong here: the label itself (see [`super::label`]).

use super::label::Label;
use crate::labs::outcome::FoundCause;
use serde::{Deserialize, Serialize};

/// The layer of a finding that names the waiting threads and the place, and no mechanism.
const BOTTLENECK: &str = "bottleneck";

/// The match of the findings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreMark {
    /// The first finding is the right answer; of a healthy scene, there is none.
    Right,
    /// The right answer comes later, or the first finding only names who waits for what.
    InPart,
    /// Another finding comes first.
    Wrong,
    /// Nothing about the scene is worth a warning, although it is in trouble.
    Silent,
    /// Something about a healthy scene is worth a warning.
    CriedWolf,
}

impl ScoreMark {
    /// All marks, the best first.
    pub const ALL: [ScoreMark; 5] = [
        ScoreMark::Right,
        ScoreMark::InPart,
        ScoreMark::Wrong,
        ScoreMark::Silent,
        ScoreMark::CriedWolf,
    ];

    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            ScoreMark::Right => "right",
            ScoreMark::InPart => "in part",
            ScoreMark::Wrong => "wrong",
            ScoreMark::Silent => "silent",
            ScoreMark::CriedWolf => "cried wolf",
        }
    }
}

/// Returns the findings that count: above "info", and about the scene.
pub fn counted<'a>(label: &Label, findings: &'a [FoundCause]) -> Vec<&'a FoundCause> {
    let is_worth = |found_cause: &&FoundCause| {
        found_cause.severity != "info" && !label.is_elsewhere(found_cause)
    };
    findings.iter().filter(is_worth).collect()
}

/// Returns how well findings, in their order, match a label.
pub fn mark(label: &Label, findings: &[FoundCause]) -> ScoreMark {
    let counted = counted(label, findings);
    let Some(first) = counted.first() else {
        return if label.healthy { ScoreMark::Right } else { ScoreMark::Silent };
    };
    if label.healthy {
        return ScoreMark::CriedWolf;
    }
    let is_bottleneck = first.layer == BOTTLENECK;
    let is_named = label.causes.contains(&first.cause) || is_bottleneck;
    match first {
        first if label.is_ruled_out(first) => ScoreMark::Wrong,
        first if label.is_right(first) => ScoreMark::Right,
        first if is_named && label.names_somebody(first) => ScoreMark::InPart,
        _ if counted.iter().any(|finding| label.is_right(finding)) => ScoreMark::InPart,
        _ => ScoreMark::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labs::outcome::FoundSubject;

    fn found(cause: &str, severity: &str, device: &str, sentence: &str) -> FoundCause {
        FoundCause {
            cause: cause.to_owned(),
            severity: severity.to_owned(),
            layer: if cause.starts_with("slow-") { BOTTLENECK } else { "cause" }.to_owned(),
            sentence: sentence.to_owned(),
            subject: FoundSubject { device: Some(device.to_owned()), ..FoundSubject::default() },
            ..FoundCause::default()
        }
    }

    fn label() -> Label {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Label {
            victims: words(&["etcd"]),
            culprits: words(&["backup"]),
            causes: words(&["noisy-neighbour"]),
            says: vec![words(&["backup", "tar"])],
            must_not: words(&["flush-cost"]),
            devices: words(&["sda"]),
            busy: true,
            ..Label::default()
        }
    }

    #[test]
    fn the_first_finding_about_the_scene_decides() {
        let right = found("noisy-neighbour", "critical", "sda", "Backup delays etcd");
        let elsewhere = found("swap-io", "critical", "sdb", "rustc swaps");
        let busy = found("cpu-starvation", "critical", "sda", "rustc waits for a CPU");
        let victim = found("slow-sync", "warning", "sda", "etcd waits in fdatasync");
        let stranger = found("slow-sync", "warning", "sda", "mysqld waits");
        let vague = found("noisy-neighbour", "critical", "sda", "somebody delays etcd");
        let false_one = found("flush-cost", "critical", "sda", "etcd waits for flushes");
        let info = found("noisy-neighbour", "info", "sda", "backup delays etcd");
        for (findings, expected) in [
            (vec![elsewhere, busy, right.clone()], ScoreMark::Right),
            (vec![victim.clone(), right.clone()], ScoreMark::InPart),
            (vec![victim], ScoreMark::InPart),
            (vec![vague], ScoreMark::InPart),
            (vec![stranger.clone(), right.clone()], ScoreMark::InPart),
            (vec![stranger], ScoreMark::Wrong),
            (vec![false_one, right], ScoreMark::Wrong),
            (vec![info], ScoreMark::Silent),
        ] {
            assert_eq!(mark(&label(), &findings), expected, "{findings:?}");
        }
    }

    #[test]
    fn a_healthy_scene_is_silent() {
        let label = Label { healthy: true, causes: Vec::new(), ..label() };
        let info = found("slow-sync", "info", "sda", "etcd waits");
        assert_eq!(mark(&label, std::slice::from_ref(&info)), ScoreMark::Right);
        let warning = FoundCause { severity: "warning".to_owned(), ..info };
        assert_eq!(mark(&label, &[warning]), ScoreMark::CriedWolf);
    }
}
