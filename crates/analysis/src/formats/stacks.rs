//! The stacks of what is exported, by their numbers.
//!
//! What does not belong here: how an export writes them (see [`super::collapsed`] and
//! [`super::pprof`]).

use iowhy_model::bounded_map::CappedMap;
use iowhy_model::source::Batch;
use iowhy_model::{Losses, Name};

/// Distinct stacks, and distinct rows of an export with stacks, that are kept.
pub const MOST: usize = 1 << 17;

/// The frames of stacks, the innermost first.
#[derive(Debug, Default)]
pub struct KeptStacks {
    by_id: CappedMap<u64, Box<[Name]>, MOST>,
}

impl KeptStacks {
    /// Takes a batch's stacks; those that are too many are counted in `left_out`.
    pub fn take(&mut self, batch: &Batch, left_out: &mut Losses) {
        for stack in &batch.stacks {
            if self.by_id.admits(&stack.stack_id) {
                self.by_id.insert(stack.stack_id, stack.frames.as_slice().into());
            } else {
                let meaning = "stacks whose frames are not shown, since there are too many";
                left_out.add("frames", 1, meaning, false);
            }
        }
    }

    /// The frames of a stack; `None` if it is not known.
    pub fn get(&self, id: u64) -> Option<&[Name]> {
        self.by_id.get(&id).map(|frames| &**frames)
    }
}
