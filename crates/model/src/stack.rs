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

/// A function without its types: `sun.nio.fs.UnixNativeDispatcher.lstat0` of `void
/// sun.nio.fs.UnixNativeDispatcher.lstat0(long, sun.nio.fs.UnixFileAttributes)`.
pub fn without_types(name: &str) -> &str {
    let bare = match name.split_once('(') {
        Some((bare, _)) if !bare.is_empty() => bare,
        _ => return name,
    };
    bare.rsplit(' ').next().unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_left_out() {
        let bare = "sun.nio.fs.UnixNativeDispatcher.lstat0";
        assert_eq!(without_types(&format!("void {bare}(long, sun.nio.fs.Attributes)")), bare);
        assert_eq!(
            without_types("rocksdb::Reader::Read(rocksdb::IOOptions const&)"),
            "rocksdb::Reader::Read"
        );
        for name in ["vfs_read", "(anonymous namespace)::f(int)", "operator new[]"] {
            assert_eq!(without_types(name), name);
        }
    }
}
