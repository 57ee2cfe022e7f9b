//! Names in `recording.json`.
//!
//! What does not belong here: hardware, kernels, settings and limits, which stay.

use super::Redactor;
use crate::model::environment::{Device, Mount};
use crate::model::loss::Loss;
use crate::model::{Environment, Losses};

/// The limit that a redacted watch states, beside those of the original.
const REDACTED: &str = "names are replaced by placeholders (--redact)";

impl Redactor {
    /// The environment without names; one that is redacted already stays.
    pub(super) fn environment(&self, environment: &Environment) -> Environment {
        let mut redacted = environment.clone();
        if environment.redacted {
            return redacted;
        }
        redacted.redacted = true;
        redacted.host = self.whole("host", &environment.host);
        redacted.filter = self.flags(&environment.filter);
        redacted.devices.iter_mut().for_each(|device| self.device(device));
        redacted.mounts.iter_mut().for_each(|mount| self.mount(mount));
        redacted.cgroups.iter_mut().for_each(|cgroup| cgroup.path = self.words(&cgroup.path));
        for message in &mut redacted.host_messages {
            message.process = self.process(&message.process);
            message.text = self.words(&message.text);
        }
        redacted.losses = self.losses(&environment.losses);
        redacted.limits.iter_mut().for_each(|limit| *limit = self.sentence(limit));
        redacted.limits.push(REDACTED.to_owned());
        redacted
    }

    fn device(&self, device: &mut Device) {
        device.backing_file = device.backing_file.take().map(|file| self.words(&file));
        // Drivers write names of volumes and targets into the kernel's log.
        for message in &mut device.kernel_messages {
            message.text = self.words(&message.text);
        }
    }

    fn mount(&self, mount: &mut Mount) {
        mount.root = self.words(&mount.root);
        mount.path = self.words(&mount.path);
        mount.source = self.words(&mount.source);
        let options: Vec<String> =
            mount.options.split(',').map(|option| self.mount_option(option)).collect();
        mount.options = options.join(",");
        mount.server = mount.server.take().map(|server| self.numbered(&server));
    }

    /// Options are the kernel's words, and numbers are settings; other values and addresses are
    /// names.
    fn mount_option(&self, option: &str) -> String {
        match option.split_once('=') {
            None if option.contains(['/', '.', ':', ' ']) => self.words(option),
            None => option.to_owned(),
            Some((_, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                option.to_owned()
            }
            Some((key, value)) => format!("{key}={}", self.words(value)),
        }
    }

    fn losses(&self, losses: &Losses) -> Losses {
        let redacted = |loss: &Loss| Loss { meaning: self.sentence(&loss.meaning), ..loss.clone() };
        Losses { items: losses.items.iter().map(redacted).collect() }
    }

    /// Redacts a sentence of iowhy: parts that look like paths are replaced.
    fn sentence(&self, sentence: &str) -> String {
        let word = |word: &str| match word.contains('/') {
            true => self.words(word),
            false => word.to_owned(),
        };
        sentence.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Redacts a filter as on a command line: flags and devices stay, and their values are
    /// replaced.
    fn flags(&self, filter: &str) -> String {
        let mut flag = "";
        let mut replaced = Vec::new();
        for word in filter.split(' ') {
            let is_flag = word.starts_with("--");
            if is_flag {
                flag = word;
            }
            let is_number = word.parse::<u32>().is_ok();
            replaced.push(match flag {
                _ if is_flag => self.words(word),
                "--device" | "--operation" | "--flags" | "--above" => word.to_owned(),
                "--process" if is_number => word.to_owned(),
                "--process" => self.process(word),
                _ => self.words(word),
            });
        }
        replaced.join(" ")
    }
}
