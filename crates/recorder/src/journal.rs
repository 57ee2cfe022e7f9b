//! Lines for the journal with fields of their own, by journald's native protocol; where there is no
//! journald, on standard error.
//!
//! What does not belong here: the events that are logged.

use iowhy_views::escape::escape;
use iowhy_views::style::Style;
use std::os::unix::net::UnixDatagram;

/// The socket of journald.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Bytes of a field's value; a longer value is cut.
const MOST_BYTES: usize = 4096;

/// The importance of a line, numbered as in syslog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// A problem of the machine's disks, or of recording.
    Warning = 4,
    /// An event for the record.
    Info = 6,
}

/// A line with fields.
#[derive(Clone, Debug)]
pub struct JournalLine {
    priority: Priority,
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl JournalLine {
    /// Makes a line without fields of its own.
    pub fn new(priority: Priority, message: impl Into<String>) -> JournalLine {
        JournalLine { priority, message: message.into(), fields: Vec::new() }
    }

    /// Adds a field, whose name is in capitals.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> JournalLine {
        self.fields.push((name, value.into()));
        self
    }

    /// Returns the sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Formats the datagram. Names of programs and files in values cannot add a field, since every
    /// value is one line.
    pub fn datagram(&self) -> String {
        let mut text = String::new();
        let mut add = |name: &str, value: &str| {
            text.push_str(name);
            text.push('=');
            text.push_str(&one_line(value));
            text.push('\n');
        };
        add("MESSAGE", &self.message);
        add("PRIORITY", &(self.priority as u8).to_string());
        add("SYSLOG_IDENTIFIER", "iowhy");
        self.fields.iter().for_each(|(name, value)| add(name, value));
        text
    }

    /// Sends the line to journald; returns false if there is none, or it does not take it at once.
    pub fn send(&self) -> bool {
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to(self.datagram().as_bytes(), SOCKET)
        });
        sent.is_ok()
    }
}

/// Makes a value one line without anything that could deceive a reader: journalctl prints it.
fn one_line(value: &str) -> String {
    let mut line: String = value
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    line = escape(&line, &Style::plain(MOST_BYTES)).into_owned();
    let mut end = MOST_BYTES.min(line.len());
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_line_whatever_it_holds() {
        let line = JournalLine::new(Priority::Warning, "a\nPRIORITY=0\u{1b}[2J")
            .with("IOWHY_DEVICE", "é".repeat(5_000));
        let text = line.datagram();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("MESSAGE=a PRIORITY=0 [2J\nPRIORITY=4\n"), "{text}");
        assert!(text.ends_with("é\n"));
    }
}
