//! A code path in three frames: the program's function, the file system's entry point, and the
//! innermost function.
//!
//! What does not belong here: whole code paths ([`super::paths`]).

use iowhy_analysis::summary::CodePathRow;

/// Prefixes of kernel functions between the system call or the page fault and the file system.
const ENTRY: &[&str] = &[
    "__x64_sys_",
    "__arm64_sys_",
    "__se_sys_",
    "__do_sys_",
    "ksys_",
    "do_",
    "__do_",
    "vfs_",
    "__vfs_",
    "new_sync_",
    "exc_page_fault",
    "handle_mm_fault",
    "__handle_mm_fault",
    "handle_pte_fault",
    "kthread",
    "ret_from_fork",
    "worker_thread",
    "process_one_work",
    "wb_",
    "__writeback",
    "writeback_sb_inodes",
    "io_submit_one",
    "io_issue_sqe",
    "__io_",
    "io_submit_sqes",
    "io_read",
    "io_write",
    "aio_",
];
/// Prefixes of C library functions that only make a system call.
const WRAPPERS: &[&str] = &["__libc_", "__GI_", "syscall", "io_submit", "io_uring_"];

/// The three frames, outermost first: the program's own, the file system's entry, the innermost.
/// Fewer if some are not known or equal.
pub(crate) fn that_matter(row: &CodePathRow) -> Vec<&str> {
    let entry = row.kernel.iter().rev().find(|name| !begins(name, ENTRY));
    let frames = [own(row), entry.map(String::as_str), row.kernel.first().map(String::as_str)];
    let mut found: Vec<&str> = frames.into_iter().flatten().collect();
    found.dedup();
    found
}

/// The program's innermost function that has a name and does more than the system call.
fn own(row: &CodePathRow) -> Option<&str> {
    let system_call = row.kernel.iter().find_map(|name| name.strip_prefix("__x64_sys_"));
    let is_wrapper = |name: &str| {
        let bare = name.trim_start_matches('_').trim_end_matches("64");
        system_call.is_some_and(|call| bare == call.trim_end_matches("64"))
            || begins(name, WRAPPERS)
    };
    let mut named = row.user.iter().map(String::as_str).filter(|name| !name.starts_with("0x"));
    named.find(|name| !is_wrapper(name))
}

fn begins(name: &str, list: &[&str]) -> bool {
    list.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::Origin;

    fn matter(kernel: &[&str], user: &[&str]) -> Vec<String> {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let row = CodePathRow {
            origin: Origin::Flush,
            process: None,
            kernel: texts(kernel),
            kernel_complete: true,
            user: texts(user),
            user_complete: true,
            user_unwound_by: None,
            samples: 0,
        };
        that_matter(&row).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_program_the_file_system_and_the_innermost_are_kept() {
        let kernel = ["blkdev_issue_flush", "ext4_sync_file", "do_fsync", "__x64_sys_fdatasync"];
        let user = ["fdatasync", "0x55fd4f3d81b4", "XLogFlush", "CommitTransactionCommand"];
        assert_eq!(matter(&kernel, &user), ["XLogFlush", "ext4_sync_file", "blkdev_issue_flush"]);
        assert_eq!(matter(&["raid1d", "md_thread", "kthread"], &[]), ["md_thread", "raid1d"]);
        assert_eq!(matter(&["do_fsync"], &[]), ["do_fsync"]);
        assert_eq!(
            matter(&["filemap_fault", "__do_fault", "exc_page_fault"], &["main"]),
            ["main", "filemap_fault"]
        );
        assert!(matter(&[], &["0x1"]).is_empty());
    }
}
