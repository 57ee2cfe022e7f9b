//! blkparse's default lines, and the parts that the kernel's `blk` tracer has in common with them.

use super::{TextEvent, TextTool, Words, bracket, device, seconds};
use crate::trace::TraceRecord;
use crate::trace::action::{Action, CGROUP_FLAG, categories_of, category as c, notify};

/// `maj,min cpu sequence seconds.nanoseconds pid action rwbs …`
pub(super) fn parse(line: &str) -> Option<TextEvent> {
    let (base, mut words) = header(line)?;
    event(base, &mut words).map(|event| TextEvent { tool: TextTool::Blkparse, ..event })
}

/// Whether `line` begins as blkparse's lines do, whatever comes behind.
pub(super) fn has_header(line: &str) -> bool {
    header(line).is_some()
}

fn header(line: &str) -> Option<(TraceRecord, Words<'_>)> {
    let mut words = Words(line);
    let device = device(words.next()?)?;
    let cpu = words.next()?.parse().ok()?;
    let sequence = words.next()?.parse::<i32>().ok()? as u32;
    let time = seconds(words.next()?)?;
    let pid = words.next()?.parse().ok()?;
    Some((TraceRecord { device, cpu, sequence, time, pid, ..TraceRecord::default() }, words))
}

/// `[cgroup] action rwbs …`, the rest of a line whose beginning is in `base`.
pub(super) fn event(base: TraceRecord, words: &mut Words<'_>) -> Option<TextEvent> {
    let cgroup = words.peek().and_then(cgroup);
    if cgroup.is_some() {
        words.next();
    }
    let letters = words.next()?;
    let rwbs = words.next()?;
    if letters == "m" {
        return Some(message(base, cgroup, words.rest()));
    }
    let action = Action::ALL.iter().copied().find(|action| action.text() == letters)?;
    let record = TraceRecord { action: action as u16, ..base };
    details(action, record, categories_of(rwbs), words)
}

/// The inode and generation of a control group, in hexadecimal, as one number.
fn cgroup(text: &str) -> Option<u64> {
    let (inode, generation) = text.split_once(',')?;
    let number =
        |text: &str| u64::from_str_radix(text, 16).ok().filter(|number| *number >> 32 == 0);
    Some(number(inode)? | number(generation)? << 32)
}

fn message(base: TraceRecord, cgroup: Option<u64>, text: &str) -> TextEvent {
    let mut record = TraceRecord { categories: c::NOTIFY, action: notify::MESSAGE, ..base };
    let mut payload = Vec::new();
    if let Some(id) = cgroup {
        record.action |= CGROUP_FLAG;
        payload.extend(id.to_le_bytes());
    }
    payload.extend(text.as_bytes());
    TextEvent { record, payload, ..TextEvent::default() }
}

fn details(
    action: Action,
    mut record: TraceRecord,
    flags: u32,
    words: &mut Words<'_>,
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
            return Some(TextEvent { record, payload, process, ..TextEvent::default() });
        }
        Action::Split => {
            record.sector = words.next()?.parse().ok()?;
            words.next().filter(|slash| *slash == "/")?;
            let at = words.next()?.parse::<u64>().ok()?;
            payload = at.to_be_bytes().to_vec();
            // The line does not tell how long the bio was: at least its front part.
            record.bytes = front_bytes(record.sector, at);
        }
        _ => {
            payload = range(action, &mut record, words)?;
            if action == Action::Remap {
                words.next().filter(|arrow| *arrow == "<-")?;
                let from = device(words.next()?)?;
                payload = from.to_be_bytes().to_vec();
                payload.extend(record.device.to_be_bytes());
                payload.extend(words.next()?.parse::<u64>().ok()?.to_be_bytes());
                return Some(TextEvent { record, payload, ..TextEvent::default() });
            }
        }
    }
    let inner = bracket(words.rest())?;
    if matches!(action, Action::Complete | Action::Requeue) {
        record.error = inner.parse::<u16>().ok()?;
        return Some(TextEvent { record, payload, ..TextEvent::default() });
    }
    Some(TextEvent { record, payload, process: process(inner), ..TextEvent::default() })
}

/// Bytes from `sector` to the sector `at`; none if it is not behind.
pub(super) fn front_bytes(sector: u64, at: u64) -> u32 {
    u32::try_from(at.saturating_sub(sector).saturating_mul(512)).unwrap_or(!511)
}

/// Parses `sector + sectors`, which events without data lack; for a pass-through command, its bytes
/// and, in parentheses, the command, which is the payload.
fn range(action: Action, record: &mut TraceRecord, words: &mut Words<'_>) -> Option<Vec<u8>> {
    let is_end = matches!(action, Action::Complete | Action::Requeue);
    let first = words.peek()?;
    if first.starts_with('(') {
        record.categories = record.categories & !c::FS | c::PC;
        return command(words);
    }
    if first.starts_with('[') {
        // Data that ended at no sector is a command's; a flush ends at its sector, 0.
        if is_end {
            record.categories = record.categories & !c::FS | c::PC;
        }
        return Some(Vec::new());
    }
    let number = first.parse::<u64>().ok()?;
    words.next();
    if words.peek() == Some("+") {
        words.next();
        let sectors = words.next()?.parse::<u32>().ok()?;
        (record.sector, record.bytes) = (number, sectors.checked_mul(512)?);
    } else if is_end {
        record.sector = number;
    } else {
        record.bytes = u32::try_from(number).ok()?;
        record.categories = record.categories & !c::FS | c::PC;
        if words.peek().is_some_and(|word| word.starts_with('(')) {
            return command(words);
        }
    }
    Some(Vec::new())
}

/// `(12 00 ..)`: a command's bytes, up to where only zeroes follow.
fn command(words: &mut Words<'_>) -> Option<Vec<u8>> {
    let (inner, rest) = words.rest().strip_prefix('(')?.split_once(')')?;
    *words = Words(rest);
    let bytes = inner.split_whitespace().take_while(|byte| *byte != "..");
    bytes.map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
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
