//! The expectations that a lab states before it runs, in addition to its cause: the device, process
//! and file that the finding must name, and the fix that it must advise.

use super::outcome::FoundCause;
use serde::{Deserialize, Serialize};

/// Expectations of the finding of a lab's first cause. Fields that are not set are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// Accepted devices.
    pub devices: Vec<String>,
    /// Accepted processes.
    pub processes: Vec<String>,
    /// A substring of the file's path.
    pub file: Option<String>,
    /// Words, in lower case; the fix must contain one of them.
    pub fix: Vec<String>,
}

impl Expected {
    /// Expects a fix that contains one of these words.
    pub fn fix(words: &[&str]) -> Expected {
        Expected { fix: words.iter().map(|&word| word.to_owned()).collect(), ..Expected::default() }
    }

    /// Expects this device; called twice, either one.
    pub fn on(mut self, device: &str) -> Expected {
        self.devices.push(device.to_owned());
        self
    }

    /// Expects this process; called twice, either one.
    pub fn by(mut self, process: &str) -> Expected {
        self.processes.push(process.to_owned());
        self
    }

    /// Expects a file whose path contains this.
    pub fn file(self, part: &str) -> Expected {
        Expected { file: Some(part.to_owned()), ..self }
    }

    /// Returns the differences of the finding from the expectations; empty if it matches.
    pub fn missing_in(&self, found: &FoundCause) -> Vec<String> {
        let none = || "nobody".to_owned();
        let mut missing = Vec::new();
        let subject = &found.subject;
        for (wanted, named) in
            [(&self.devices, &subject.device), (&self.processes, &subject.process)]
        {
            let named = named.clone().unwrap_or_else(none);
            if !wanted.is_empty() && !wanted.contains(&named) {
                missing.push(format!("it names {named}, not {}", wanted.join(" or ")));
            }
        }
        let file = subject.file.clone().unwrap_or_else(none);
        if let Some(part) = self.file.as_ref().filter(|part| !file.contains(part.as_str())) {
            missing.push(format!("it names {file}, not a file {part}"));
        }
        let fix = found.fix.to_lowercase();
        if !self.fix.is_empty() && !self.fix.iter().any(|word| fix.contains(word.as_str())) {
            missing.push(format!("its fix lacks {}", self.fix.join(", ")));
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labs::outcome::FoundSubject;

    #[test]
    fn each_part_that_was_stated_is_looked_for() {
        let subject = FoundSubject { device: Some("sda".to_owned()), ..FoundSubject::default() };
        let found =
            FoundCause { fix: "Give it more Memory.".to_owned(), subject, ..FoundCause::default() };
        let stated = Expected::fix(&["memory"]).on("sdb").on("sda");
        assert_eq!(stated.missing_in(&found), [] as [String; 0]);
        assert_eq!(Expected::default().missing_in(&found), [] as [String; 0]);
        let other = Expected::fix(&["disk"]).on("sdb").by("perl").file("/log");
        assert_eq!(other.missing_in(&found).len(), 4);
    }
}
