//! The functions that a sleeping thread is in, as far as its stack memory shows. The kernel walks
//! the stacks of running threads only.
//!
//! A thread sleeps in a function of libc, which keeps no frame pointer, so the innermost frame
//! record is searched for: two words of which the first points to the next record and the second
//! into code. Remains of earlier functions on the stack can look like one, so the result is a hint
//! at what a thread waits for and never a stack that is shown.
//!
//! What does not belong here: names (see [`crate::decode::stacks`]).

use super::code::{Code, is_in};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a stack that are read.
const MOST_BYTES: usize = 64 << 10;
/// Words in which the first record is searched.
const FIRST_WORDS: usize = 256;
/// Fewer consecutive records are not accepted as a stack.
const LEAST_FRAMES: usize = 4;
/// Frames that are read: more are not needed to find out for which lock or event a thread waits.
const MOST_FRAMES: usize = 64;

/// Return addresses above `stack_pointer`, the innermost first; none where there is no such row.
pub fn frames(process: u32, stack_pointer: u64, code: &mut Code) -> Vec<u64> {
    let Some(words) = words_from(process, stack_pointer) else { return Vec::new() };
    let code = code.ranges(process);
    let starts = 0..FIRST_WORDS.min(words.len());
    let mut rows =
        starts.map(|start| row(&words, stack_pointer, start, |address| is_in(code, address)));
    rows.find(|row| row.len() >= LEAST_FRAMES).unwrap_or_default()
}

/// The return addresses of the chain of records from `start` on.
fn row(words: &[u64], base: u64, start: usize, is_code: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut found = Vec::new();
    let mut at = start;
    while let (Some(next), Some(back)) = (words.get(at), words.get(at + 1)) {
        if !is_code(*back) || found.len() >= MOST_FRAMES {
            break;
        }
        found.push(*back);
        // Frames are at increasing addresses.
        let offset = next.wrapping_sub(base);
        let place = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        if !offset.is_multiple_of(8) || place <= at {
            break;
        }
        at = place;
    }
    found
}

fn words_from(process: u32, address: u64) -> Option<Vec<u64>> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let mut bytes = vec![0; MOST_BYTES];
    // At the end of the mapping it reads less.
    let length = memory.read_at(&mut bytes, address).ok()?;
    let (words, _) = bytes[..length].as_chunks::<8>();
    Some(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x1000;

    #[test]
    fn records_are_followed_upwards_only() {
        let base = 0x8000;
        let place = |word: u64| base + word * 8;
        //               0  1  2         3     4         5         6         7
        let words = [7, 9, place(4), CODE, place(6), CODE + 1, place(2), CODE + 2];
        let is_code = |address: u64| (CODE..CODE + 16).contains(&address);
        assert_eq!(row(&words, base, 2, is_code), [CODE, CODE + 1, CODE + 2]);
        assert!(row(&words, base, 0, is_code).is_empty());
        assert!(row(&words, base, 7, is_code).is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_no_stack() {
        assert!(frames(u32::MAX, 0x1000, &mut Code::default()).is_empty());
    }
}
