//! Symbolised stacks, each kept once.

use super::names::Name;
use crate::table;

table! {
    /// One row for each distinct stack.
    pub struct Stack in "stacks" {
        stack_id: u64 [None] "Identifies the stack in this recording.",
        user: bool [None] "Whether these are user-space frames, not the kernel's.",
        frames: Vec<Name> [None] "The functions, innermost first.",
        complete: bool [None] "Whether the stack reaches its root; false if frames are missing or \
                               could not be symbolized.",
        reason: Option<Name> [None] "Why it is incomplete; null if it is complete.",
        unwound_by: Option<Name> [None] "How a user stack was unwound: `frame pointers` or \
                                         `.eh_frame`; null for kernel stacks.",
    }
}
