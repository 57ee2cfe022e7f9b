//! Messages of the kernel's log about storage: as dmesg, `journalctl -k` and syslog print them.
//!
//! What does not belong here: the meaning of a message (see `iowhy_diagnosis`).

use super::kernel_lines::LoggedLine;
use crate::book::CounterBook;
use iowhy_model::figures::counted;
use iowhy_model::health::{HostMessage, KernelMessage};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Messages about the machine that are kept: tasks that hung, servers, memory.
const MOST_TASKS: usize = 16;
/// Names that a sentence has.
const MOST_NAMED: usize = 5;
/// Functions of a task that are kept.
const MOST_FRAMES: usize = 32;

/// Different messages that are compared between the files of an archive.
const MOST_SEEN: usize = 64 << 10;

/// The number of each message in each file of an archive: dmesg, the journal and syslog have the
/// same.
#[derive(Debug, Default)]
struct SeenMessages {
    file: u32,
    /// By the hash of the text: the file, the number in it, and the most in one file.
    counts: HashMap<u64, (u32, u32, u32)>,
}

impl SeenMessages {
    /// Whether a message is one more than another file had.
    fn is_new(&mut self, text: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        text.trim().hash(&mut hasher);
        let key = hasher.finish();
        if self.counts.len() >= MOST_SEEN && !self.counts.contains_key(&key) {
            return true;
        }
        let (file, count, most) = self.counts.entry(key).or_insert((self.file, 0, 0));
        if *file != self.file {
            (*file, *count) = (self.file, 0);
        }
        *count += 1;
        let is_new = count > most;
        *most = (*most).max(*count);
        is_new
    }
}

/// The messages so far.
#[derive(Debug, Default)]
pub(super) struct KernelText {
    seen: SeenMessages,
    first_ns: Option<u64>,
    last_ns: u64,
    hung: u64,
    tasks: Vec<String>,
    host: Vec<HostMessage>,
    /// The hung task whose call trace follows.
    open: Option<usize>,
    /// Whether tasks are only counted.
    pub is_nameless: bool,
}

/// Whether a line is a message of the kernel.
pub(super) fn is_message(line: &str) -> bool {
    let text = line.trim_start();
    LoggedLine::new(line).is_some() || hung_task(text).is_some() || server(text) || is_bare(text)
}

/// Beginnings of messages about storage, which `dmesg -t` and mails show without a time.
const BEGINNINGS: &[&str] = &[
    "I/O error, dev ",
    "blk_update_request: ",
    "end_request: I/O error",
    "Buffer I/O error on ",
    "print_req_error: ",
    "critical medium error, dev ",
    "critical target error, dev ",
    "operation not supported error, dev ",
    "nvme nvme",
    "EXT4-fs ",
    "EXT4-fs (",
    "XFS (",
    "BTRFS ",
    "JBD2: ",
    "Aborting journal on device ",
    "Out of memory: Kill",
];

/// Whether a text without a time is a message of the kernel about storage: by its beginning, which
/// may be a port (`ata3.00: `) or an address (`sd 2:0:0:0: [sdx] `).
fn is_bare(text: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let of_port = |rest: &str| {
        let port = rest.split_once(": ").map(|(port, _)| port);
        port.is_some_and(|port| port.split('.').all(is_number))
    };
    let of_address = |rest: &str| {
        let address = rest.split_once(": ").map(|(address, _)| address);
        address.is_some_and(|address| address.split(':').count() == 4)
    };
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || text.strip_prefix("ata").is_some_and(of_port)
        || text.strip_prefix("sd ").is_some_and(of_address)
}

impl KernelText {
    /// Reads a line; false if it is no message.
    pub fn line(&mut self, line: &str, book: &mut CounterBook) -> bool {
        let Some(logged) = LoggedLine::new(line).or_else(|| self.bare(line)) else {
            return false;
        };
        let (logged_ns, text) = (logged.at_ns, &*logged.text);
        if let Some(at_ns) = logged_ns {
            self.first_ns.get_or_insert(at_ns);
            self.last_ns = self.last_ns.max(at_ns);
        }
        if self.trace(text) {
            return true;
        }
        let kind = KernelMessage::kind_of(text);
        let is_told = kind != KernelMessage::OTHER || is_of_machine(text);
        if !is_told || !self.seen.is_new(text) {
            return true;
        }
        self.machine(text, book);
        if kind != KernelMessage::OTHER
            && !is_harmless(text)
            && let Some(device) = device_in(text, book)
            // Links come up at each boot; after other errors, they are part of them.
            && (kind != "link" || is_slower(text) || book.has_messages(&device))
        {
            book.message(&device, KernelMessage::new(logged_ns.unwrap_or(0), text));
        }
        true
    }

    /// Begins the next file of an archive, which may have the same messages.
    pub fn next_file(&mut self) {
        self.open = None;
        self.seen.file += 1;
    }

    /// A message that was pasted without its time.
    fn bare<'a>(&self, line: &'a str) -> Option<LoggedLine<'a>> {
        let text = line.trim_start();
        let is_known = hung_task(text).is_some()
            || server(text)
            || is_bare(text)
            || self.open.is_some() && (frame(text).is_some() || is_of_trace(text));
        is_known.then(|| LoggedLine::new_text(None, text))
    }

    /// A line of a hung task's call trace.
    fn trace(&mut self, text: &str) -> bool {
        let Some(task) = self.open.and_then(|at| self.host.get_mut(at)) else { return false };
        if let Some(function) = frame(text) {
            if let Some(function) = function
                && task.frames.len() < MOST_FRAMES
            {
                task.frames.push(function.to_owned());
            }
            return true;
        }
        if let Some((_, rest)) = text.split_once("(flush-")
            && let Some((device, _)) = rest.split_once(')')
        {
            device.clone_into(&mut task.device);
        }
        if is_of_trace(text) {
            return true;
        }
        self.open = None;
        false
    }

    /// A message about the machine.
    fn machine(&mut self, text: &str, book: &CounterBook) {
        if let Some(task) = hung_task(text) {
            self.hung += 1;
            if self.tasks.len() < MOST_NAMED && !self.tasks.iter().any(|known| known == task) {
                self.tasks.push(task.to_owned());
            }
            let process = task.rsplit_once(':').map_or(task, |(name, _)| name);
            self.open = self.note("hung_task", process, text);
            // jbd2/sda1-8: the inode of the journal is behind the device.
            let named = process.rsplit_once('-').filter(|_| process.starts_with("jbd2/"));
            let named = named.map_or(process, |(device, _)| device);
            if let Some(device) = device_in(named, book)
                && let Some(task) = self.open.and_then(|at| self.host.get_mut(at))
            {
                task.device = device;
            }
        } else if server(text) {
            self.note("server_silent", "", text);
        } else if let Some(process) = killed(text) {
            self.note("out_of_memory", process, text);
        }
    }

    /// Notes a message, and where it is.
    fn note(&mut self, kind: &str, process: &str, text: &str) -> Option<usize> {
        let same =
            self.host.iter().position(|message| message.kind == kind && message.process == process);
        if let Some(at) = same {
            self.host[at].count += 1;
            // The first call trace is enough.
            return self.host[at].frames.is_empty().then_some(at);
        }
        (self.host.len() < MOST_TASKS).then(|| {
            self.host.push(HostMessage {
                kind: kind.to_owned(),
                process: process.to_owned(),
                text: text.chars().take(KernelMessage::MOST_TEXT).collect(),
                count: 1,
                ..HostMessage::default()
            });
            self.host.len() - 1
        })
    }

    /// Returns the messages about the machine.
    pub fn host_messages(&self) -> &[HostMessage] {
        &self.host
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
            "messages were logged of a task that was blocked for minutes, as tasks are when \
             storage does not answer{tasks}"
        );
        (self.hung > 0).then(|| counted(self.hung, &meaning))
    }
}

/// Whether a message is about the machine.
fn is_of_machine(text: &str) -> bool {
    hung_task(text).is_some() || server(text) || killed(text).is_some()
}

/// The task of `INFO: task jbd2/sda1-8:200 blocked for more than 120 seconds.`
fn hung_task(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("task ")?;
    let (task, rest) = rest.split_once(" blocked ")?;
    // A mail may have been wrapped there.
    (rest.contains("for more") && task.len() < 64).then_some(task)
}

/// `nfs: server fs1 not responding, still trying`.
fn server(text: &str) -> bool {
    let is_server = text.contains("server ") || text.contains("Server ");
    is_server && (text.contains("not responding") || text.contains("has not responded"))
}

/// The process of `Out of memory: Killed process 1234 (java) …`.
fn killed(text: &str) -> Option<&str> {
    let is_killed = text.contains("ut of memory: Kill");
    let (_, rest) = text.split_once('(').filter(|_| is_killed)?;
    rest.split_once(')').map(|(name, _)| name).filter(|name| name.len() < 64)
}

/// The function of a line of a call trace: of ` [<ffffffff8129>] jbd2_log_wait_commit+0x98/0x120
/// [jbd2]`; none if the kernel is not sure of it (`? name+0x…`).
fn frame(text: &str) -> Option<Option<&str>> {
    let text = text.trim_start();
    let text = match text.strip_prefix("[<") {
        Some(rest) => rest.split_once(">]")?.1.trim_start(),
        None => text,
    };
    let (name, rest) = text.trim_start_matches("? ").split_once("+0x")?;
    let is_name = !name.is_empty() && !name.contains(' ') && rest.contains("/0x");
    is_name.then(|| (!text.starts_with("? ")).then_some(name))
}

/// Lines between a message about a hung task and its call trace, and around it.
fn is_of_trace(text: &str) -> bool {
    let text = text.trim();
    let beginnings = ["Not tainted", "Tainted:", "\"echo 0 >", "Call Trace", "Call trace", "task:"];
    beginnings.iter().any(|beginning| text.starts_with(beginning))
        || text.starts_with("Workqueue:")
        || matches!(text, "<TASK>" | "</TASK>" | "<IRQ>" | "</IRQ>")
        || text.contains(" D ") && text.split_whitespace().count() <= 8
}

/// Whether a message has a word of trouble and tells of none: mount options, and links that the
/// kernel sets up.
fn is_harmless(text: &str) -> bool {
    let plain = text.replace("errors=", "").replace("error recovery", "");
    KernelMessage::kind_of(&plain) == KernelMessage::OTHER
}

/// Whether a link was made slower.
fn is_slower(text: &str) -> bool {
    text.contains("limiting SATA link") || text.contains("link is slow")
}

/// The disk that a message names.
fn device_in(text: &str, book: &CounterBook) -> Option<String> {
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    words.into_iter().find_map(|word| disk(word, book))
}

/// The disk that a word is, or is a part or the controller of.
fn disk(word: &str, book: &CounterBook) -> Option<String> {
    let letters = |prefix: &str| {
        let rest = word.strip_prefix(prefix)?;
        let stem = rest.trim_end_matches(|character: char| character.is_ascii_digit());
        let is_disk =
            (1..=3).contains(&stem.len()) && stem.bytes().all(|byte| byte.is_ascii_lowercase());
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
            .map(|digits| digits.chars().take_while(char::is_ascii_digit).collect::<String>());
        return match space.filter(|space| !space.is_empty()) {
            Some(space) => Some(format!("{controller}n{space}")),
            None if rest.is_empty() => Some(book.disk_of(&controller)),
            None => None,
        };
    }
    for prefix in ["dm-", "md", "mmcblk", "loop", "zram", "ata"] {
        if let Some((name, rest)) = numbered(prefix) {
            let is_part =
                rest.strip_prefix('p').is_some_and(|digits| digits.parse::<u32>().is_ok());
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
            .flat_map(|device| {
                device.kernel_messages.iter().map(|message| (&*device.name, &*message.kind))
            })
            .collect();
        let expected =
            [("ata3", "error"), ("nvme0n1", "timeout"), ("sda", "error"), ("sdb", "timeout")];
        assert_eq!(found, expected);
        assert_eq!(text.host_messages()[0].device, "sda");
        let said = text.limits().unwrap();
        assert!(said.contains("jbd2/sda1-8:200"), "{said}");
        assert_eq!(text.end_ns() - crate::book::BEGIN_NS, 143_000_000_000);
    }
}
