//! A message of the kernel's log in a line: as dmesg with its options, journalctl and syslog print
//! it.
//!
//! What does not belong here: the meaning of messages (see [`super::kernel`]).

use serde::Deserialize;
use std::borrow::Cow;

/// Bytes before ` kernel: ` in syslog: date and host.
const MOST_BEFORE: usize = 64;
/// Bytes of the facility that `dmesg -x` prints before a message, and of its level.
const MOST_WORD: usize = 8;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LoggedLine<'a> {
    /// Time of the message, ns since boot; `None` if the line does not tell it.
    pub at_ns: Option<u64>,
    /// Its text.
    pub text: Cow<'a, str>,
}

/// The fields of `journalctl -o json` that are read.
#[derive(Deserialize)]
struct JournalEntry<'a> {
    #[serde(borrow, rename = "MESSAGE")]
    message: Cow<'a, str>,
    #[serde(borrow, rename = "_TRANSPORT")]
    transport: Cow<'a, str>,
    #[serde(borrow, default, rename = "__MONOTONIC_TIMESTAMP")]
    monotonic_us: Option<Cow<'a, str>>,
}

impl<'a> LoggedLine<'a> {
    /// The message in a line: of `[  12.5] text`, of the forms that options of dmesg give it
    /// (`kern  :err   : [  12.5] text`, `<3>[  12.5] text`, `[  12.5 <    0.1>] text`,
    /// `[Nov25 22:40] text`, `[  +0.000012] text`, `[Wed Nov 25 22:40:28 2026] text`,
    /// `2026-11-25T22:40:28,123456+00:00 text`, `"msg": "text"`), of
    /// `Nov 25 22:40:28 host kernel: [  12.5] text`, and of a line of `journalctl -o json`.
    pub fn new(line: &'a str) -> Option<LoggedLine<'a>> {
        let line = line.trim_start();
        if line.starts_with('{') {
            return LoggedLine::of_journal(line);
        }
        if let Some(text) = line.strip_prefix("\"msg\":") {
            let text = serde_json::from_str(text.trim().trim_end_matches(',')).ok()?;
            return Some(LoggedLine { at_ns: None, text: Cow::Owned(text) });
        }
        match line.split_once(" kernel: ").filter(|(before, _)| before.len() < MOST_BEFORE) {
            Some((_, rest)) => match stamped(rest.trim_start()) {
                Some((at_ns, text)) => Some(LoggedLine::new_text(at_ns, text)),
                None => Some(LoggedLine::new_text(None, rest)),
            },
            None => {
                let (at_ns, text) = match decoded(line) {
                    Some(rest) => stamped(rest.trim_start()).unwrap_or((None, rest)),
                    None => stamped(line)?,
                };
                Some(LoggedLine::new_text(at_ns, text))
            }
        }
    }

    /// Makes a message of a text as it is in the line.
    pub fn new_text(at_ns: Option<u64>, text: &'a str) -> LoggedLine<'a> {
        LoggedLine { at_ns, text: Cow::Borrowed(text) }
    }

    fn of_journal(line: &'a str) -> Option<LoggedLine<'a>> {
        let entry: JournalEntry<'_> = serde_json::from_str(line).ok()?;
        let at_us: Option<u64> = entry.monotonic_us.and_then(|time| time.parse().ok());
        (entry.transport == "kernel").then(|| LoggedLine {
            at_ns: at_us.map(|us| us.saturating_mul(1000)),
            text: Cow::Owned(entry.message.into_owned()),
        })
    }
}

/// The text after facility and level: `kern  :err   : text`.
fn decoded(line: &str) -> Option<&str> {
    let (facility, rest) = line.split_once(':')?;
    let (level, rest) = rest.split_once(": ")?;
    let is_word = |text: &str| {
        let word = text.trim_end();
        (1..=MOST_WORD).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    // dmesg pads both to a common width.
    let is_padded = facility.ends_with(' ') || level.ends_with(' ');
    (is_padded && is_word(facility) && is_word(level)).then_some(rest)
}

/// Time and text of `[  12.5] text` and `2026-11-25T22:40:28,123456+00:00 text`.
fn stamped(line: &str) -> Option<(Option<u64>, &str)> {
    // A priority may stand before: <4>[   12.5].
    let line = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((level, rest)) if level.len() <= 3 => rest,
        _ => line,
    };
    let Some(bracketed) = line.strip_prefix('[') else {
        let (stamp, text) = line.split_once(' ')?;
        let is_iso = stamp.as_bytes().get(10) == Some(&b'T')
            && stamp.as_bytes().get(19) == Some(&b',')
            && stamp.starts_with(|character: char| character.is_ascii_digit());
        return is_iso.then_some((None, text));
    };
    let (stamp, text) = bracketed.split_once(']')?;
    let text = text.strip_prefix(' ')?;
    // The time since the message before: [   12.5 <    0.1>].
    let (stamp, has_delta) = match stamp.split_once('<') {
        Some((stamp, delta)) => (stamp.trim(), delta.ends_with('>')),
        None => (stamp.trim(), false),
    };
    let seconds = stamp.parse::<f64>().ok().filter(|_| stamp.contains('.'));
    if stamp.starts_with('+') && seconds.is_some() || stamp.is_empty() && has_delta {
        return Some((None, text));
    }
    if let Some(seconds) = seconds.filter(|seconds| (0.0..1e10).contains(seconds)) {
        return Some((Some((seconds * 1e9) as u64), text));
    }
    let words = stamp.split_whitespace().count();
    let begins_with_letter = stamp.starts_with(|character: char| character.is_ascii_uppercase());
    let is_date = words == 5 || words == 2 && begins_with_letter;
    (is_date && stamp.contains(':')).then_some((None, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_the_same_text() {
        let text = "nvme nvme0: I/O 12 QID 3 timeout, aborting";
        let at_ns = Some(11_500_000_000);
        for (before, at_ns) in [
            ("[   11.500000] ", at_ns),
            ("<3>[   11.500000] ", at_ns),
            ("kern  :err   : [   11.500000] ", at_ns),
            ("[   11.500000 <    0.100000>] ", at_ns),
            ("Nov 26 22:43:25 host kernel: [   11.500000] ", at_ns),
            ("Nov 26 22:43:25 host kernel: ", None),
            ("2026-11-26T22:43:25+0000 host kernel: ", None),
            ("[   11.500000] host kernel: ", None),
            ("[Thu Nov 26 22:43:25 2026] ", None),
            ("kern  :err   : [Thu Nov 26 22:43:25 2026] ", None),
            ("[Thu Nov 26 22:43:25 2026 <    0.100000>] ", None),
            ("[<  111.184000>] ", None),
            ("[Nov26 22:43] ", None),
            ("[  +0.000063] ", None),
            ("kern  :warn  : [  +0.000063] ", None),
            ("2026-11-26T22:43:25,100000+00:00 ", None),
            ("kern  :err   : 2026-11-26T22:43:25,100000+00:00 ", None),
            ("kern  :err   : ", None),
        ] {
            let line = format!("{before}{text}");
            let expected = LoggedLine { at_ns, text: Cow::Borrowed(text) };
            assert_eq!(LoggedLine::new(&line), Some(expected), "{line}");
        }
        let said = |line: &str| LoggedLine::new(line).map(|logged| logged.text.into_owned());
        assert_eq!(said("         \"msg\": \"a \\\"b\\\"\""), Some("a \"b\"".to_owned()));
        let journal = "{\"_TRANSPORT\":\"kernel\",\"__MONOTONIC_TIMESTAMP\":\"11500000\",\
                       \"MESSAGE\":\"a\",\"PRIORITY\":\"6\"}";
        let logged = LoggedLine::new(journal).unwrap();
        assert_eq!((logged.at_ns, &*logged.text), (at_ns, "a"));
        for line in [
            "sda 1.00 2.00",
            "fio-1 [000] 1.0: x",
            "name: value: text",
            "[4/4] building",
            "{\"_TRANSPORT\":\"syslog\",\"MESSAGE\":\"a\"}",
            "{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":null}",
            "\"msg\": 5",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
