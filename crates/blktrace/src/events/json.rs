//! An event as one line of JSON. Keys are those of the table of events of a recording where it has
//! them.
//!
//! What does not belong here: a capture's names and messages (see [`super::ProcessNames`]).

use super::line::EventLine;
use super::steps::HostTime;
use serde_json::json;

/// Appends `event`, which blkparse shows as `letters`, and a newline. `since_first_ns` counts from
/// the capture's first event; `time` is RFC 3339 with the host's offset from UTC, null where the
/// capture has no wall clock.
pub fn write(event: &EventLine<'_>, letters: &str, out: &mut Vec<u8>) {
    let record = event.record;
    let zone = event.local.unwrap_or(HostTime::at(None));
    let time = event.wall.and_then(|wall| zone.rfc3339(wall));
    let process = event.names.known(record.pid).map(String::from_utf8_lossy);
    let message = record.is_message().then(|| message(event));
    let line = json!({
        "since_first_ns": record.time,
        "time": time,
        "device": format!("{}:{}", record.device >> 20, record.device & 0xf_ffff),
        "cpu": record.cpu,
        "sequence": record.sequence,
        "action": letters,
        "rwbs": record.rwbs().as_str(),
        "sector": record.sector,
        "bytes": record.bytes,
        "pid": record.pid,
        "process": process,
        "error": record.error,
        "message": message,
    });
    // Characters that could break a terminal are never in the line themselves.
    for character in line.to_string().chars() {
        match character {
            ' '..='~' => out.push(character as u8),
            other => other
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out.extend_from_slice(format!("\\u{unit:04x}").as_bytes())),
        }
    }
    out.push(b'\n');
}

fn message(event: &EventLine<'_>) -> String {
    let text = event.batch.payload(event.record);
    let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::ProcessNames;
    use super::*;
    use crate::trace::{RecordBatch, TraceRecord};
    use serde_json::Value;

    #[test]
    fn an_event_is_one_line_of_ascii() {
        let mut names = ProcessNames::default();
        names.names.insert(7, super::super::ShortName::new("a\u{202e}\n\"b".as_bytes()));
        let record = TraceRecord {
            time: 1_500,
            device: (8 << 20) | 1,
            pid: 7,
            sector: 4096,
            bytes: 512,
            ..TraceRecord::default()
        };
        let batch = RecordBatch::default();
        let event = EventLine {
            batch: &batch,
            record: &record,
            names: &names,
            compatible: false,
            elapsed: None,
            wall: Some(1_795_192_325_019_185_231),
            local: Some(HostTime::at(Some(3600))),
        };
        let mut out = Vec::new();
        write(&event, "Q", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.ends_with("}\n")
                && text.trim_end().chars().all(|character| (' '..='~').contains(&character))
        );
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["process"], "a\u{202e}\n\"b");
        assert_eq!(line["time"], "2026-11-20T17:32:05.019185231+01:00");
        assert_eq!((&line["device"], &line["bytes"]), (&Value::from("8:1"), &Value::from(512)));
        assert_eq!((&line["action"], &line["message"]), (&Value::from("Q"), &Value::Null));
    }
}
