//! Addresses of a process that hold code. A stack that was walked without frame pointers leads
//! through the heap.
//!
//! What does not belong here: what the code is called (see [`super::serve`]).

use rustc_hash::FxHashMap;
use std::fs;
use std::ops::Range;

/// Processes whose mappings are kept. Chosen.
const MOST_PROCESSES: usize = 256;

/// The executable mappings of the processes that were asked for.
#[derive(Debug, Default)]
pub struct Code {
    by_process: FxHashMap<u32, Vec<Range<u64>>>,
}

impl Code {
    /// Whether each address holds code. Of a process whose mappings cannot be read all do.
    ///
    /// Mappings are read again where an address is in none of those that are known: it may be new.
    pub fn holds(&mut self, process: u32, addresses: &[u64]) -> Vec<bool> {
        if !addresses.iter().all(|address| is_in(self.ranges(process), *address)) {
            self.by_process.remove(&process);
        }
        let code = self.ranges(process);
        addresses.iter().map(|address| code.is_empty() || is_in(code, *address)).collect()
    }

    /// The executable mappings of a process, in order; none where it has ended.
    pub fn ranges(&mut self, process: u32) -> &[Range<u64>] {
        if self.by_process.len() >= MOST_PROCESSES && !self.by_process.contains_key(&process) {
            self.by_process.clear();
        }
        self.by_process.entry(process).or_insert_with(|| code_of(process))
    }
}

/// Whether one of the ranges, which are in order, holds the address.
pub fn is_in(code: &[Range<u64>], address: u64) -> bool {
    let after = code.partition_point(|range| range.start <= address);
    after.checked_sub(1).and_then(|at| code.get(at)).is_some_and(|range| range.contains(&address))
}

fn code_of(process: u32) -> Vec<Range<u64>> {
    let text = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        rest.get(2..3).filter(|letter| *letter == "x")?;
        Some(number(start)?..number(end)?)
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_and_stack_hold_no_code() {
        let on_heap = Box::new(7_u64);
        let on_stack = 7_u64;
        let addresses = [
            code_of as *const () as u64,
            std::ptr::from_ref(&*on_heap) as u64,
            std::ptr::from_ref(&on_stack) as u64,
            1,
        ];
        let mut code = Code::default();
        let own = std::process::id();
        assert_eq!(code.holds(own, &addresses), [true, false, false, false]);
        assert_eq!(code.holds(own, &addresses[..1]), [true]);
    }

    #[test]
    fn nothing_is_said_of_a_process_that_is_gone() {
        assert_eq!(Code::default().holds(u32::MAX, &[1, 2]), [true, true]);
    }
}
