//! Stacks as flame graph programs read them (`flamegraph.pl`, inferno, speedscope): a line for each
//! stack, `process;outermost;...;innermost weight`, kernel frames after user frames.
//!
//! What does not belong here: taking stacks and naming their frames.

use super::export::{Exported, Exporter};
use super::stacks::{KeptStacks, MOST};
use crate::summary::Measure;
use crate::sums::request_times::Life;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Request};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The weight of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameWeight {
    /// Number of requests that the stack stands for.
    Requests,
    /// Bytes of these requests.
    Bytes,
    /// Time of these requests from queueing to completion, microseconds.
    Time,
}

/// The submitting process, its kernel stack and its user stack.
type Key = (Option<Name>, Option<u64>, Option<u64>);

/// Collects stacks; the lines are written at the end.
#[derive(Debug)]
pub struct Collapsed {
    weight: FrameWeight,
    stacks: KeptStacks,
    sums: CappedMap<Key, u64, MOST>,
    sampled: u64,
    exported: Exported,
}

impl Collapsed {
    /// Stacks weighed by `weight`.
    pub fn new(weight: FrameWeight) -> Collapsed {
        Collapsed {
            weight,
            stacks: KeptStacks::default(),
            sums: CappedMap::default(),
            sampled: 0,
            exported: Exported::default(),
        }
    }

    fn add(&mut self, request: &Request) {
        if request.stack_id.is_none() && request.user_stack_id.is_none() {
            return;
        }
        // The stack stands for recorded requests, each of which stands for all that it does.
        let whole_ns = Life::from_request(request).whole_ns.unwrap_or(0);
        let of_stack = u64::from(request.stack_weight.max(1));
        let sum = Measure::for_request(request, whole_ns).times(of_stack);
        let weight = match self.weight {
            FrameWeight::Requests => sum.count.saturating_mul(1_000),
            FrameWeight::Bytes => sum.bytes.saturating_mul(1_000),
            // Nanoseconds: a thousandth of the unit, as the others are.
            FrameWeight::Time => sum.time_ns,
        };
        let key = (request.process, request.stack_id, request.user_stack_id);
        let Some(sum) = self.sums.or_default(key) else {
            let meaning = "requests with one of too many different stacks";
            self.exported.left_out.add("stacks", 1, meaning, true);
            return;
        };
        self.sampled += 1;
        self.exported.rows += 1;
        *sum = sum.saturating_add(weight);
    }

    fn line(&self, key: &Key, names: &Names) -> String {
        let (process, kernel, user) = key;
        let mut line = process.map_or("[kernel]".to_owned(), |name| word(names.get(name)));
        for stack in [user, kernel] {
            let Some(id) = stack else { continue };
            match self.stacks.get(*id) {
                None => line.push_str(";[unknown stack]"),
                Some(frames) => {
                    for frame in frames.iter().rev() {
                        line.push(';');
                        line.push_str(&word(names.get(*frame)));
                    }
                }
            }
        }
        line
    }
}

/// Returns a frame's text, without the characters that separate frames and lines.
fn word(text: &str) -> String {
    let plain = |c: char| if c == ';' || c.is_whitespace() || c.is_control() { '_' } else { c };
    if text.is_empty() { "[unknown]".to_owned() } else { text.chars().map(plain).collect() }
}

impl Exporter for Collapsed {
    fn begin(&mut self, _environment: &Environment, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch, _names: &Names, _out: &mut dyn Write) -> io::Result<()> {
        self.stacks.take(batch, &mut self.exported.left_out);
        batch.requests.iter().for_each(|request| self.add(request));
        Ok(())
    }

    fn finish(&mut self, names: &Names, out: &mut dyn Write) -> io::Result<Exported> {
        // Different processes and stacks can read alike.
        let mut lines: FxHashMap<String, u64> = FxHashMap::default();
        for (key, sum) in self.sums.iter() {
            let total = lines.entry(self.line(key, names)).or_default();
            *total = total.saturating_add(*sum);
        }
        let mut lines: Vec<(String, u64)> = lines.into_iter().collect();
        lines.sort_unstable();
        for (line, sum) in lines {
            writeln!(out, "{line} {}", sum.div_ceil(1_000))?;
        }
        if self.sampled == 0 {
            self.exported.notes.push(
                "no request has a stack: a watch takes them unless --stacks is 0; imported \
                 captures have none"
                    .to_owned(),
            );
        }
        Ok(std::mem::take(&mut self.exported))
    }
}
