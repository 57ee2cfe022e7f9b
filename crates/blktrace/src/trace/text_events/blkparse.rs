//! blkparse's default lines.

use super::{TextEvent, Words, bracket, device, seconds};
use crate::trace::TraceRecord;
use crate::trace::action::{Action, categories_of, category as c, notify};

/// `maj,min cpu sequence seconds.nanoseconds pid action rwbs …`
pub(super) fn parse(line: &str) -> Option<TextEvent> {
    let mut words = Words(line);
    let device_number = device(words.next()?)?;
    let cpu = words.next()?.parse().ok()?;
    let sequence = words.next()?.parse::<i32>().ok()? as u32;
    let time = seconds(words.next()?)?;
    let pid = words.next()?.parse().ok()?;
    let letters = words.next()?;
    let rwbs = words.next()?;
    let base =
        TraceRecord { device: device_number, cpu, sequence, time, pid, ..TraceRecord::default() };
    if letters == "m" {
        let record = TraceRecord { categories: c::NOTIFY, action: notify::MESSAGE, ..base };
        let payload = words.rest().as_bytes().to_vec();
        return Some(TextEvent { record, payload, process: None });
    }
    let action = Action::ALL.iter().copied().find(|action| action.text() == letters)?;
    let record = TraceRecord { action: action as u16, ..base };
    details(action, record, categories_of(rwbs), words)
}

fn details(
    action: Action,
    mut record: TraceRecord,
    flags: u32,
    mut words: Words<'_>,
) -> Option<TextEvent> {
    record.categories = flags | c::FS | phase(action);
    let mut payload = Vec::new();
    match action {
        Action::Plug | Action::Unplug | Action::UnplugTimer => {
            if action != Action::Plug {
                let count = words.rest().rsplit_once(' ')?.1.parse::<u64>().ok()?;
                payload = count.to_be_bytes().to_vec();
            }
            let inner = words.rest().rsplit_once(']').map_or("", |(inner, _)| inner);
            let process = process(inner.trim_start_matches('['));
            return Some(TextEvent { record, payload, process });
        }
        Action::Split => {
            record.sector = words.next()?.parse().ok()?;
            words.next().filter(|slash| *slash == "/")?;
            payload = words.next()?.parse::<u64>().ok()?.to_be_bytes().to_vec();
        }
        _ => {
            range(&mut record, &mut words)?;
            if action == Action::Remap {
                words.next().filter(|arrow| *arrow == "<-")?;
                let from = device(words.next()?)?;
                payload = from.to_be_bytes().to_vec();
                payload.extend(record.device.to_be_bytes());
                payload.extend(words.next()?.parse::<u64>().ok()?.to_be_bytes());
                return Some(TextEvent { record, payload, process: None });
            }
        }
    }
    let inner = bracket(words.rest())?;
    if matches!(action, Action::Complete | Action::Requeue) {
        record.error = inner.parse::<u16>().ok()?;
        return Some(TextEvent { record, payload, process: None });
    }
    Some(TextEvent { record, payload, process: process(inner) })
}

/// `sector + sectors`, or nothing at all for what moves no data.
fn range(record: &mut TraceRecord, words: &mut Words<'_>) -> Option<()> {
    let first = words.peek()?;
    if first.starts_with(['[', '(']) {
        return Some(());
    }
    record.sector = first.parse().ok()?;
    words.next();
    if words.peek() == Some("+") {
        words.next();
        let sectors = words.next()?.parse::<u32>().ok()?;
        record.bytes = sectors.checked_mul(512)?;
    }
    Some(())
}

fn process(name: &str) -> Option<String> {
    (!name.is_empty() && name != "(null)").then(|| name.to_owned())
}

/// The category that the kernel gives an action itself.
pub(super) fn phase(action: Action) -> u32 {
    match action {
        Action::Queue
        | Action::BackMerge
        | Action::FrontMerge
        | Action::GetRequest
        | Action::SleepRequest
        | Action::Insert
        | Action::Remap => c::QUEUE,
        Action::Requeue => c::REQUEUE,
        Action::Issue => c::ISSUE,
        Action::Complete => c::COMPLETE,
        _ => 0,
    }
}
