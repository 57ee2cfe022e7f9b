//! Commands in texts, ready to be pasted into a shell.
//!
//! What does not belong here: which command shows what (the rules), and screens.

use std::borrow::Cow;

/// Views of iowhy that also show a recording or a capture.
const VIEWS: &[&str] = &[
    "blame", "cache", "chains", "events", "explain", "files", "latency", "opens", "proc", "report",
    "snoop", "stacks", "stages", "stat", "waits",
];

/// `word` quoted so that a shell reads it as one word.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |char: char| {
        char.is_alphanumeric()
            || matches!(char, '/' | '.' | '-' | '_' | ',' | ':' | '+' | '@' | '%')
    };
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// `command`, which watches this machine, with `source` instead: `iowhy waits -d sda` is `iowhy
/// waits SOURCE -d sda`, and the first screen is `iowhy report SOURCE`. Other commands are
/// unchanged. `source` is one or several words of a shell.
pub fn of_source(command: &str, source: &str) -> String {
    let Some(rest) = command.strip_prefix("iowhy") else { return command.to_owned() };
    let rest = rest.trim_start();
    let (first, flags) = rest.split_once(' ').unwrap_or((rest, ""));
    let (view, flags) = match first {
        "" => ("report", ""),
        _ if first.starts_with('-') => ("report", rest),
        _ if VIEWS.contains(&first) => (first, flags),
        _ => return command.to_owned(),
    };
    let words = ["iowhy", view, source, flags];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        for (word, quoted) in [
            ("/srv/rec-1", "/srv/rec-1"),
            ("/srv/münchen", "/srv/münchen"),
            ("my rec", "'my rec'"),
            ("it's", r"'it'\''s'"),
            ("$(reboot)", "'$(reboot)'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }

    #[test]
    fn a_view_is_asked_of_the_source() {
        for (command, asked) in [
            ("iowhy", "iowhy report REC"),
            ("iowhy -d sda", "iowhy report REC -d sda"),
            ("iowhy waits", "iowhy waits REC"),
            ("iowhy stat -d sda 1", "iowhy stat REC -d sda 1"),
            ("iowhy explain", "iowhy explain REC"),
            ("iowhy diff A B", "iowhy diff A B"),
            ("iowhy check", "iowhy check"),
            ("cat /proc/mdstat", "cat /proc/mdstat"),
        ] {
            assert_eq!(of_source(command, "REC"), asked);
        }
    }
}
