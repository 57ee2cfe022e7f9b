//! Messages of the kernel's log that tell of storage: as dmesg, `journalctl -k` and syslog print
//! them.
//!
//! What does not belong here: what a message means (see `iowhy_core::diagnosis`).

use crate::book::CounterBook;
use iowhy_core::figures::counted;
use iowhy_core::model::health::KernelMessage;

/// Names that are kept of tasks that hung.
const MOST_TASKS: usize = 5;

/// The messages so far.
#[derive(Debug, Default)]
pub(super) struct KernelText {
    first_ns: Option<u64>,
    last_ns: u64,
    hung: u64,
    tasks: Vec<String>,
    /// Whether tasks are only counted.
    pub is_nameless: bool,
}

/// Whether a line is a message of the kernel.
pub(super) fn is_message(line: &str) -> bool {
    message(line).is_some()
}

/// The time in the kernel's log, ns since boot, and the text: of `[  12.5] text`, `[Wed Nov 25
/// 22:40:28 2026] text` and `Nov 25 22:40:28 host kernel: [  12.5] text`.
fn message(line: &str) -> Option<(Option<u64>, &str)> {
    let line = line.trim_start();
    let line = match line.split_once(" kernel: ") {
        Some((before, rest)) if before.len() < 64 && !rest.trim_start().starts_with('[') => {
            return Some((None, rest));
        }
        Some((before, rest)) if before.len() < 64 => rest.trim_start(),
        _ => line,
    };
    // A priority may stand before: <4>[   12.5].
    let line = match line.strip_prefix('<').and_then(|it| it.split_once('>')) {
        Some((level, rest)) if level.len() <= 3 => rest,
        _ => line,
    };
    let (stamp, text) = line.strip_prefix('[')?.split_once(']')?;
    let text = text.strip_prefix(' ')?;
    let stamp = stamp.trim();
    if let Ok(seconds) = stamp.parse::<f64>()
        && stamp.contains('.')
        && (0.0..1e10).contains(&seconds)
    {
        return Some((Some((seconds * 1e9) as u64), text));
    }
    let is_date = stamp.split_whitespace().count() == 5 && stamp.contains(':');
    is_date.then_some((None, text))
}

impl KernelText {
    /// Reads a line; false if it is no message.
    pub fn line(&mut self, line: &str, book: &mut CounterBook) -> bool {
        let Some((logged_ns, text)) = message(line) else { return false };
        if let Some(at_ns) = logged_ns {
            self.first_ns.get_or_insert(at_ns);
            self.last_ns = self.last_ns.max(at_ns);
        }
        if let Some(task) = hung_task(text) {
            self.hung += 1;
            if self.tasks.len() < MOST_TASKS && !self.tasks.iter().any(|it| it == task) {
                self.tasks.push(task.to_owned());
            }
        }
        if KernelMessage::kind_of(text) != KernelMessage::OTHER
            && let Some(device) = device_in(text, book)
        {
            book.message(&device, KernelMessage::new(logged_ns.unwrap_or(0), text));
        }
        true
    }

    /// The end of its timeline, ns.
    pub fn end_ns(&self) -> u64 {
        let length_ns = self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns));
        crate::book::BEGIN_NS + length_ns
    }

    /// A sentence on the tasks that hung.
    pub fn limits(&self) -> Option<String> {
        let tasks = match self.is_nameless {
            true => String::new(),
            false => format!(": {}", self.tasks.join(", ")),
        };
        let meaning = format!(
            "messages of the kernel say that a task was blocked for minutes, as tasks are when \
             storage does not answer{tasks}"
        );
        (self.hung > 0).then(|| counted(self.hung, &meaning))
    }
}

/// The task of `INFO: task jbd2/sda1-8:200 blocked for more than 120 seconds.`
fn hung_task(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("task ")?;
    let (task, rest) = rest.split_once(" blocked ")?;
    (rest.contains("for more than") && task.len() < 64).then_some(task)
}

/// The disk that a message names.
fn device_in(text: &str, book: &CounterBook) -> Option<String> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '-');
    words.into_iter().find_map(|word| disk(word, book))
}

/// The disk that a word is, or is a part or the controller of.
fn disk(word: &str, book: &CounterBook) -> Option<String> {
    let letters = |prefix: &str| {
        let rest = word.strip_prefix(prefix)?;
        let stem = rest.trim_end_matches(|it: char| it.is_ascii_digit());
        let is_disk =
            (1..=3).contains(&stem.len()) && stem.bytes().all(|it| it.is_ascii_lowercase());
        is_disk.then(|| format!("{prefix}{stem}"))
    };
    let numbered = |prefix: &str| {
        let rest = word.strip_prefix(prefix)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then(|| (format!("{prefix}{}", &rest[..digits]), &rest[digits..]))
    };
    if let Some((controller, rest)) = numbered("nvme") {
        let space = rest
            .strip_prefix('n')
            .map(|it| it.chars().take_while(char::is_ascii_digit).collect::<String>());
        return match space.filter(|it| !it.is_empty()) {
            Some(space) => Some(format!("{controller}n{space}")),
            None if rest.is_empty() => Some(book.disk_of(&controller)),
            None => None,
        };
    }
    for prefix in ["dm-", "md", "mmcblk", "loop", "zram", "ata"] {
        if let Some((name, rest)) = numbered(prefix) {
            let is_part = rest.strip_prefix('p').is_some_and(|it| it.parse::<u32>().is_ok());
            return (rest.is_empty() || is_part).then_some(name);
        }
    }
    ["xvd", "sd", "vd", "hd"].into_iter().find_map(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_their_devices() {
        let mut book = CounterBook::default();
        let mut text = KernelText::default();
        for line in [
            "[  100.000000] nvme nvme0: I/O 12 QID 3 timeout, aborting",
            "[Wed Nov 25 22:40:28 2026] blk_update_request: I/O error, dev sda, sector 8",
            "Nov 25 22:40:28 host kernel: [  130.5] sd 2:0:0:0: [sdb] tag#3 timing out command",
            "[  243.000000] INFO: task jbd2/sda1-8:200 blocked for more than 120 seconds.",
            "Nov 25 22:40:28 host kernel: ata3.00: exception Emask 0x0 SAct 0x0",
        ] {
            assert!(text.line(line, &mut book), "{line}");
        }
        assert!(!text.line("sda 1.00 2.00", &mut book));
        assert!(!text.line("fio-1 [000] 1.0: x", &mut book));
        let devices = book.devices();
        let found: Vec<(&str, &str)> = devices
            .iter()
            .flat_map(|it| it.kernel_messages.iter().map(|message| (&*it.name, &*message.kind)))
            .collect();
        let expected =
            [("ata3", "error"), ("nvme0n1", "timeout"), ("sda", "error"), ("sdb", "timeout")];
        assert_eq!(found, expected);
        let said = text.limits().unwrap();
        assert!(said.contains("jbd2/sda1-8:200"), "{said}");
        assert_eq!(text.end_ns() - crate::book::BEGIN_NS, 143_000_000_000);
    }
}
