//! What a lab states before it runs, beside its cause: whom the finding must name, and what it must
//! advise.

use super::outcome::Found;
use serde::{Deserialize, Serialize};

/// What the finding of a lab's first cause must say. What is not stated may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// The device; any of these.
    pub devices: Vec<String>,
    /// The process; any of these.
    pub processes: Vec<String>,
    /// What the file's path holds.
    pub file: Option<String>,
    /// Words of which the fix has one, in small letters.
    pub fix: Vec<String>,
}

impl Expected {
    /// A fix with one of these words in it.
    pub fn fix(words: &[&str]) -> Expected {
        Expected { fix: words.iter().map(|&word| word.to_owned()).collect(), ..Expected::default() }
    }

    /// On this device; said twice, on either.
    pub fn on(mut self, device: &str) -> Expected {
        self.devices.push(device.to_owned());
        self
    }

    /// By this process; said twice, by either.
    pub fn by(mut self, process: &str) -> Expected {
        self.processes.push(process.to_owned());
        self
    }

    /// About a file whose path holds this.
    pub fn file(self, part: &str) -> Expected {
        Expected { file: Some(part.to_owned()), ..self }
    }

    /// In what the finding differs, in words; empty where it says all that was stated.
    pub fn missing_in(&self, found: &Found) -> Vec<String> {
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
    use crate::labs::outcome::Subject;

    #[test]
    fn each_part_that_was_stated_is_looked_for() {
        let subject = Subject { device: Some("sda".to_owned()), ..Subject::default() };
        let found = Found { fix: "Give it more Memory.".to_owned(), subject, ..Found::default() };
        let stated = Expected::fix(&["memory"]).on("sdb").on("sda");
        assert_eq!(stated.missing_in(&found), [] as [String; 0]);
        assert_eq!(Expected::default().missing_in(&found), [] as [String; 0]);
        let other = Expected::fix(&["disk"]).on("sdb").by("perl").file("/log");
        assert_eq!(other.missing_in(&found).len(), 4);
    }
}
