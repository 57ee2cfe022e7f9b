//! Reads blktrace's files with a separate reader, so that a defect of iowhy's shows. It reads only
//! the format of the comparison: this machine's byte order, protocol 7, no damage.

use crate::error::Context;
use crate::{LabError, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const HEADER: usize = 48;
const MAGIC: u32 = 0x6561_7407;
const NOTIFY: u32 = 1 << (10 + 16);
const CGROUP: u32 = 1 << 8;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerEvent {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The fields of the event besides its time.
    pub what: EventContent,
}

/// The fields of an event without time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventContent {
    /// The first sector.
    pub sector: u64,
    /// The action's letter.
    pub action: char,
    /// Bytes.
    pub bytes: u32,
    /// The categories: read, write, sync …
    pub categories: u32,
    /// The error that it ended with.
    pub error: u16,
}

/// Every event of a device, by time. `prefix` is the files' common part: `/tmp/vda`.
pub fn read(prefix: &Path) -> Result<Vec<PeerEvent>> {
    let mut events = Vec::new();
    for cpu in 0.. {
        let mut path = prefix.as_os_str().to_owned();
        path.push(format!(".blktrace.{cpu}"));
        let path = PathBuf::from(path);
        if !path.exists() {
            break;
        }
        let bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
        take(&bytes, &mut events).context(|| format!("read {}", path.display()))?;
    }
    if events.is_empty() {
        return Err(LabError::failed(format!("read {}", prefix.display()), "there are no events"));
    }
    events.sort_by_key(|event| event.time);
    Ok(events)
}

fn take(mut bytes: &[u8], events: &mut Vec<PeerEvent>) -> std::result::Result<(), String> {
    while !bytes.is_empty() {
        let number = |place: usize, length: usize| -> std::result::Result<u64, String> {
            let field = bytes.get(place..place + length).ok_or("a record is cut short")?;
            let mut whole = [0; 8];
            whole[..length].copy_from_slice(field);
            Ok(u64::from_le_bytes(whole))
        };
        if number(0, 4)? != u64::from(MAGIC) {
            return Err("a record has no magic number".to_owned());
        }
        let action = number(28, 4)? as u32;
        if action & NOTIFY == 0 {
            let what = EventContent {
                sector: number(16, 8)?,
                action: letter(action & 0xffff & !CGROUP),
                bytes: number(24, 4)? as u32,
                categories: action >> 16,
                error: number(44, 2)? as u16,
            };
            events.push(PeerEvent { time: number(8, 8)?, what });
        }
        let length = HEADER + number(46, 2)? as usize;
        bytes = bytes.get(length..).ok_or("a payload is cut short")?;
    }
    Ok(())
}

fn letter(action: u32) -> char {
    const LETTERS: &str = "?QMFGSRDCPUTIXBAar";
    LETTERS.chars().nth(action as usize).unwrap_or('?')
}

/// Counts the events with equal content.
pub fn counted(events: &[PeerEvent]) -> BTreeMap<EventContent, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.what).or_default() += 1;
    }
    counts
}

/// Returns the largest difference of two watchers' stamps of one event, if both saw it as often.
pub fn widest(first: &[PeerEvent], second: &[PeerEvent]) -> u64 {
    let times = |events: &[PeerEvent]| {
        let mut all: BTreeMap<EventContent, Vec<u64>> = BTreeMap::new();
        events.iter().for_each(|event| all.entry(event.what).or_default().push(event.time));
        all
    };
    let (first, second) = (times(first), times(second));
    let both = first.iter().filter_map(|(what, times)| Some((times, second.get(what)?)));
    both.filter(|(one, other)| one.len() == other.len())
        .flat_map(|(one, other)| one.iter().zip(other).map(|(one, other)| one.abs_diff(*other)))
        .max()
        .unwrap_or(0)
}

/// The times of a request's Q, G, I, D and C.
pub type Stamps = [Option<u64>; 5];
/// Their letters.
pub const STAMPED: [char; 5] = ['Q', 'G', 'I', 'D', 'C'];

/// Returns the stamps of each request by its first sector, unless two are at the same place or one
/// is merged or split: the first Q, G and I, the last D and C.
pub fn stamps(events: &[PeerEvent]) -> BTreeMap<u64, Stamps> {
    let mut all: BTreeMap<u64, Stamps> = BTreeMap::new();
    for PeerEvent { time, what } in events {
        let Some(place) = STAMPED.iter().position(|letter| *letter == what.action) else {
            continue;
        };
        let stamp = &mut all.entry(what.sector).or_default()[place];
        *stamp = if place < 3 { stamp.or(Some(*time)) } else { Some(*time) };
    }
    all
}
