//! Lines of the kernel's block tracepoints, as ftrace, perf script and a dumped trace buffer print
//! them. The part before the event's name differs: `comm-pid [cpu] flags time:`, with `(tgid)`;
//! perf's `comm pid [cpu] time: block:`; a dump's `<0>[..] comm-pid 7..... microseconds:`.

use super::blkparse::phase;
use super::{TextEvent, TextTool, Words, blkparse, bracket, device, seconds};
use crate::trace::TraceRecord;
use crate::trace::action::{Action, categories_of, category as c};

const EVENTS: &[(&str, Action)] = &[
    ("block_bio_queue", Action::Queue),
    ("block_bio_backmerge", Action::BackMerge),
    ("block_bio_frontmerge", Action::FrontMerge),
    ("block_getrq", Action::GetRequest),
    ("block_sleeprq", Action::SleepRequest),
    ("block_rq_requeue", Action::Requeue),
    ("block_rq_issue", Action::Issue),
    ("block_rq_complete", Action::Complete),
    ("block_rq_error", Action::Complete),
    ("block_bio_complete", Action::Complete),
    ("block_rq_insert", Action::Insert),
    ("block_split", Action::Split),
    ("block_bio_bounce", Action::Bounce),
    ("block_bio_remap", Action::Remap),
    ("block_rq_remap", Action::Remap),
    ("block_plug", Action::Plug),
    ("block_unplug", Action::Unplug),
];

/// The kernel's other block tracepoints, which tell nothing more of a request.
const OTHERS: &[&str] =
    &["block_io_start", "block_io_done", "block_touch_buffer", "block_dirty_buffer"];

/// Whether a line is of a block tracepoint that is not needed.
pub(super) fn is_other(line: &str) -> bool {
    OTHERS.iter().any(|name| {
        // trace-cmd pads the names of events to a common width.
        let behind = line.split_once(name).and_then(|(_, rest)| rest.strip_prefix(':'));
        behind.is_some_and(|rest| {
            rest.trim_start().starts_with(|character: char| character.is_ascii_digit())
        })
    })
}

/// Reads one line.
pub(super) fn parse(line: &str) -> Option<TextEvent> {
    let (before, rest) = line.split_at(line.find("block_")?);
    let (name, rest) = rest.split_once(':')?;
    let (_, action) = EVENTS.iter().find(|(event, _)| *event == name)?;
    let before = before.trim_end();
    let is_perf = before.ends_with("block:");
    let before = before.trim_end_matches("block:").trim_end();
    let (record, process) = head(before)?;
    let record =
        TraceRecord { action: *action as u16, categories: c::FS | phase(*action), ..record };
    let event = details(*action, record, process, rest.trim())?;
    let tool = if is_perf { TextTool::Perf } else { TextTool::Ftrace };
    Some(TextEvent { tool, is_error_event: name == "block_rq_error", ..event })
}

/// Reads one line of the `blk` tracer (`echo blk > current_tracer`): ftrace's beginning, then
/// `maj,min [cgroup] action rwbs …` as blkparse prints it.
pub(super) fn parse_blk_tracer(line: &str) -> Option<TextEvent> {
    for (at, _) in line.match_indices(": ") {
        let (before, rest) = line.split_at(at + 1);
        let mut words = Words(rest);
        let Some(device) = words.next().and_then(device) else { continue };
        let (record, process) = head(before)?;
        let event = blkparse::event(TraceRecord { device, ..record }, &mut words)?;
        let process = event.process.or(Some(process)).filter(|name| is_name(name));
        return Some(TextEvent { tool: TextTool::Ftrace, process, ..event });
    }
    None
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "<...>"
}

/// Parses the process, CPU and time before the event's name.
fn head(text: &str) -> Option<(TraceRecord, String)> {
    let (before, stamp) = text.strip_suffix(':')?.trim_end().rsplit_once(char::is_whitespace)?;
    let time = match stamp.strip_suffix("us") {
        Some(microseconds) => microseconds.parse::<u64>().ok()?.checked_mul(1000)?,
        None => seconds(stamp)?,
    };
    let mut record = TraceRecord { time, ..TraceRecord::default() };
    // A dump puts its level and the time of the dump first, and no bracket around the CPU.
    let before = match before.trim_start().strip_prefix('<') {
        Some(dump) if dump.starts_with(|level: char| level.is_ascii_digit()) => {
            dump.split_once(']').map_or(before, |(_, rest)| rest)
        }
        // `<idle>` and `<...>` are processes.
        _ => before,
    };
    let who = match before.rfind(" [") {
        Some(at) if cpu_in(&before[at + 2..]).is_some() => {
            record.cpu = cpu_in(&before[at + 2..])?;
            before.get(..at)?
        }
        _ => {
            let (who, flags) = before.trim_end().rsplit_once(char::is_whitespace)?;
            let digits = flags.bytes().take_while(u8::is_ascii_digit).count();
            record.cpu = flags.get(..digits)?.parse().ok()?;
            who
        }
    };
    let who = who.trim();
    // `(tgid)` or `(-----)` may follow the pid.
    let who = match who.strip_suffix(')').and_then(|inner| inner.rsplit_once('(')) {
        Some((who, _)) => who.trim_end(),
        None => who,
    };
    let split = who.rfind(['-', ' ', '\t'])?;
    record.pid = who.get(split + 1..)?.parse().ok()?;
    Some((record, who.get(..split)?.trim().to_owned()))
}

fn cpu_in(text: &str) -> Option<u32> {
    text.split_once(']')?.0.parse().ok()
}

/// Whether a request is a command of a driver or program: of no kind (`N`), with its bytes in
/// brackets, or without a sector where it is no flush.
fn is_command(rwbs: &str, has_command: bool, record: &TraceRecord) -> bool {
    let is_flush = record.categories & c::FLUSH != 0;
    let is_without_sector = record.sector == u64::MAX && record.bytes == 0;
    rwbs.starts_with('N') || has_command || is_without_sector && !is_flush
}

fn details(
    action: Action,
    mut record: TraceRecord,
    process: String,
    text: &str,
) -> Option<TextEvent> {
    let process = Some(process).filter(|name| is_name(name));
    let mut words = Words(text);
    let mut payload = Vec::new();
    if matches!(action, Action::Plug | Action::Unplug) {
        // `[comm]` and, of an unplug, the number of requests.
        if let Some((_, count)) = text.rsplit_once(' ') {
            payload = count.parse::<u64>().unwrap_or(0).to_be_bytes().to_vec();
        }
        return Some(TextEvent { record, payload, process, ..TextEvent::default() });
    }
    record.device = device(words.next()?)?;
    let rwbs = words.next()?;
    record.categories |= categories_of(rwbs);
    // Requests state their bytes and a command; bios state neither.
    let stated = words.peek().and_then(|word| word.parse::<u32>().ok());
    let has_bytes = stated.is_some() && words.rest().contains('(');
    if has_bytes && action != Action::Remap && action != Action::Complete {
        words.next();
    }
    let mut has_command = false;
    if words.peek().is_some_and(|word| word.starts_with('(')) {
        has_command = words.peek() != Some("()");
        while !words.next()?.ends_with(')') {}
    }
    record.sector = words.next()?.parse().ok()?;
    match words.next()? {
        "+" => {
            let sectors = words.next()?.parse::<u32>().ok()?;
            record.bytes = sectors.checked_mul(512)?;
        }
        "/" => {
            let at = words.next()?.parse::<u64>().ok()?;
            payload = at.to_be_bytes().to_vec();
            record.bytes = blkparse::front_bytes(record.sector, at);
        }
        _ => return None,
    }
    if is_command(rwbs, has_command, &record) {
        record.categories = record.categories & !c::FS | c::PC;
    }
    if record.sector == u64::MAX {
        // Flushes and commands have no sector.
        record.sector = 0;
    }
    match action {
        Action::Remap => {
            words.next().filter(|arrow| *arrow == "<-")?;
            let from = device(words.next()?)?;
            payload = from.to_be_bytes().to_vec();
            payload.extend(record.device.to_be_bytes());
            payload.extend(words.next()?.parse::<u64>().ok()?.to_be_bytes());
        }
        Action::Complete => {
            let error = bracket(words.rest()).and_then(|inner| inner.parse::<i32>().ok());
            record.error = error.unwrap_or(0) as u16;
        }
        _ => {}
    }
    Some(TextEvent { record, payload, process, ..TextEvent::default() })
}
