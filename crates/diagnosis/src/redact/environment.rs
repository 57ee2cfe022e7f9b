//! Names in `recording.json`.
//!
//! What does not belong here: hardware, kernels, settings and limits, which stay.

use super::Redactor;
use iowhy_model::environment::{Device, Mount};
use iowhy_model::loss::Loss;
use iowhy_model::{Environment, Losses};

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
        let devices = environment.devices.iter().map(|device| device.name.as_str());
        let devices: Vec<&str> = devices.filter(|name| self.device_name(name) != *name).collect();
        redacted.losses = self.losses(&environment.losses, &devices);
        redacted.limits.iter_mut().for_each(|limit| *limit = self.sentence(limit, &devices));
        redacted.limits.push(REDACTED.to_owned());
        redacted
    }

    fn device(&self, device: &mut Device) {
        device.name = self.device_name(&device.name);
        device.partition_of = device.partition_of.take().map(|name| self.device_name(&name));
        device.below.iter_mut().for_each(|name| *name = self.device_name(name));
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
        // Who serves a FUSE file system names its kind: `fuse.sshfs`.
        if let Some((kind, of_program)) = mount.kind.split_once('.') {
            mount.kind = format!("{kind}.{}", self.process(of_program));
        }
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

    fn losses(&self, losses: &Losses, devices: &[&str]) -> Losses {
        let redacted =
            |loss: &Loss| Loss { meaning: self.sentence(&loss.meaning, devices), ..loss.clone() };
        Losses { items: losses.items.iter().map(redacted).collect() }
    }

    /// Redacts a sentence of iowhy: a file before a colon, parts that look like paths or files, and
    /// names of `devices` are replaced.
    fn sentence(&self, sentence: &str, devices: &[&str]) -> String {
        let of_devices = |text: &str| {
            let replaced = |text: String, name: &&str| text.replace(name, &self.device_name(name));
            devices.iter().fold(text.to_owned(), replaced)
        };
        let is_file = |text: &str| {
            let mut words = text.split(' ');
            let (first, last) = (words.next(), words.next_back());
            first.is_some_and(looks_like_file) || last.is_some_and(looks_like_file)
        };
        let (file, said) = match sentence.split_once(": ") {
            // A file's name may have spaces.
            Some((file, said)) if is_file(file) || !file.contains(' ') => {
                (format!("{}: ", self.words(file)), said)
            }
            _ => (String::new(), sentence),
        };
        let word = |word: &str| match looks_like_file(word) {
            true => self.words(word),
            false => word.to_owned(),
        };
        let said: Vec<String> = of_devices(said).split(' ').map(word).collect();
        file + &said.join(" ")
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
                "--device" => self.device_name(word),
                "--operation" | "--flags" | "--above" => word.to_owned(),
                "--process" if is_number => word.to_owned(),
                "--process" => self.process(word),
                _ => self.words(word),
            });
        }
        replaced.join(" ")
    }
}

/// Beginnings of the kernel's names of settings: `io.max`, `vm.dirty_ratio`.
const SETTINGS: &[&str] = &["io", "blkio", "memory", "cpu", "cpuset", "pids", "vm", "fs", "kernel"];

/// Whether a word of a sentence is a path, or a file's name with an extension.
fn looks_like_file(word: &str) -> bool {
    let has_letter = |part: &str| part.bytes().any(|byte| byte.is_ascii_alphabetic());
    let word = word.trim_end_matches(['.', ',', ';', ':']);
    let mut parts = word.split('.');
    let is_name = parts.next().is_some_and(|first| first.len() > 1 && !SETTINGS.contains(&first));
    word.contains('/') && word != "I/O" || is_name && parts.any(has_letter)
}
