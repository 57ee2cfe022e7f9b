//! Ways to spoil a file without knowing more of it than whether it is text or JSON.
//!
//! What does not belong here: rows of recordings (see [`crate::rows`]).

use crate::chance::Chance;
use crate::files::{InputEntry, InputFiles};
use serde_json::{Value, json};

pub const BITS: &str = "bits flipped";
pub const CUT: &str = "cut";
pub const END: &str = "its end changed";
pub const REPEATED: &str = "a piece repeated";
pub const NUMBERS: &str = "numbers that cannot be";
pub const WORDS: &str = "words that hurt";
pub const VALUES: &str = "values of another kind";
pub const SPECIAL: &str = "no regular file";
/// A missing file, which a command may wait for, because it may be a pipe.
pub const ABSENT: &str = "no file";

/// Bytes at the end of a Parquet file in which it is described.
const FOOTER: usize = 2_000;
/// The length to which a file is repeated at most, bytes.
const MOST_BYTES: usize = 1 << 20;
/// The depth of JSON: more than any parser follows.
const DEPTH: usize = 100_000;

/// Spoils one of the `files`.
pub fn spoil(files: &mut InputFiles, damage: &str, chance: &mut Chance) {
    let count = files.0.len();
    let fits = |entry: &InputEntry| match (damage, entry) {
        (VALUES, InputEntry::Bytes(bytes)) => serde_json::from_slice::<Value>(bytes).is_ok(),
        (NUMBERS | WORDS, InputEntry::Bytes(bytes)) => std::str::from_utf8(bytes).is_ok(),
        _ => true,
    };
    let first = chance.below(count);
    let mut turns = (first..count).chain(0..first);
    let at = turns.find(|at| files.0.get(*at).is_some_and(|(_, entry)| fits(entry)));
    let Some((_, entry)) = at.and_then(|at| files.0.get_mut(at)) else { return };
    if damage == SPECIAL || damage == ABSENT {
        *entry = match chance.below(4) {
            0 if damage == SPECIAL => InputEntry::Pipe,
            1 => InputEntry::Directory,
            2 => InputEntry::Link("/dev/zero"),
            _ => InputEntry::Link("/nowhere"),
        };
    } else if let InputEntry::Bytes(bytes) = entry {
        *bytes = spoiled(bytes, damage, chance);
    }
}

fn spoiled(bytes: &[u8], damage: &str, chance: &mut Chance) -> Vec<u8> {
    match damage {
        BITS => flipped(bytes, 0, chance),
        END => flipped(bytes, bytes.len().saturating_sub(FOOTER), chance),
        CUT => bytes.get(..chance.below(bytes.len())).unwrap_or_default().to_vec(),
        REPEATED => repeated(bytes, chance),
        NUMBERS => with_numbers(bytes, chance),
        WORDS => with_word(bytes, chance),
        VALUES => with_value(bytes, chance),
        _ => bytes.to_vec(),
    }
}

fn flipped(bytes: &[u8], first: usize, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let length = bytes.len().saturating_sub(first);
    for _ in 0..=chance.below(20) {
        let (at, mask) = (first + chance.below(length), 1 << chance.below(8));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= mask;
        }
    }
    bytes
}

fn repeated(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let from = chance.below(bytes.len());
    let piece = 1 + chance.below(bytes.len().saturating_sub(from));
    let (before, rest) = bytes.split_at(from.min(bytes.len()));
    let piece = rest.get(..piece).unwrap_or(rest);
    let times = 1 + chance.below(MOST_BYTES / piece.len().max(1));
    [before, &piece.repeat(times), rest].concat()
}

/// One to five of the numbers that the text has become others.
fn with_numbers(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut text = bytes.to_vec();
    for _ in 0..=chance.below(5) {
        let is_start = |at: &usize| {
            let before = at.checked_sub(1).and_then(|at| text.get(at));
            text.get(*at).is_some_and(u8::is_ascii_digit)
                && before.is_none_or(|byte| !byte.is_ascii_alphanumeric())
        };
        let starts: Vec<usize> = (0..text.len()).filter(is_start).collect();
        let Some(start) = starts.get(chance.below(starts.len())).copied() else { break };
        let (before, rest) = text.split_at(start);
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let after = rest.get(length..).unwrap_or_default();
        text = [before, number(chance).as_bytes(), after].concat();
    }
    text
}

/// A number as text.
fn number(chance: &mut Chance) -> String {
    match chance.below(8) {
        0 => u64::MAX.to_string(),
        1 => "1e308".to_owned(),
        2 => "nan".to_owned(),
        3 => "9".repeat(1 + chance.below(400)),
        4 => "0.000000000000000000001".to_owned(),
        _ => chance.extreme().to_string(),
    }
}

/// A word of the text becomes another.
fn with_word(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let is_word = |byte: &u8| byte.is_ascii_alphabetic();
    let is_start = |at: &usize| {
        bytes.get(*at).is_some_and(is_word)
            && at.checked_sub(1).and_then(|at| bytes.get(at)).is_none_or(|byte| !is_word(byte))
    };
    let starts: Vec<usize> = (0..bytes.len()).filter(is_start).collect();
    let start = starts.get(chance.below(starts.len())).copied().unwrap_or(0);
    let (before, rest) = bytes.split_at(start);
    let length = rest.iter().take_while(|byte| is_word(byte)).count();
    [before, chance.name().as_bytes(), rest.get(length..).unwrap_or_default()].concat()
}

/// A value of the JSON becomes one of another kind.
fn with_value(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let Ok(mut root) = serde_json::from_slice::<Value>(bytes) else { return bytes.to_vec() };
    let mut at = chance.below(count(&root));
    // A value that no parser follows cannot be built as a value.
    let deep = chance.once_in(12).then(|| "[".repeat(DEPTH));
    if let Some(value) = nth(&mut root, &mut at) {
        *value = match &deep {
            Some(_) => json!("deep"),
            None => other(value, chance),
        };
    }
    let text = root.to_string();
    deep.map_or_else(|| text.clone(), |deep| text.replacen("\"deep\"", &deep, 1)).into_bytes()
}

fn other(value: &Value, chance: &mut Chance) -> Value {
    match chance.below(9) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(u64::MAX),
        3 => json!(1e308),
        4 => json!([]),
        5 => json!({}),
        6 => json!(chance.name()),
        7 => Value::Array(vec![value.clone(); 1 + chance.below(5_000)]),
        _ => json!(chance.extreme()),
    }
}

/// Counts the value and all values in it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn nth<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, at)),
        _ => None,
    }
}
