//! Files that processes hold open, read process by process.
//!
//! What does not belong here: what one process holds ([`crate::host::held`]), and that it may never
//! answer ([`crate::reader`]).

use crate::host::held::HeldFiles;
use crate::host::read_text;
use crate::reader::FileAsker;
use std::fs;

/// Has `reader` look at every process that `wanted` names by number and name, and keep the files
/// whose path begins with one of `prefixes`; all without any.
pub fn read(
    reader: &FileAsker,
    wanted: impl Fn(u32, &str) -> bool,
    prefixes: &[String],
) -> HeldFiles {
    let mut found = HeldFiles::default();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(number).collect();
    pids.sort_unstable();
    for pid in pids {
        // A process that ends meanwhile holds nothing any more.
        let Some(process) = read_text(format!("/proc/{pid}/comm")) else { continue };
        if !wanted(pid, &process) {
            continue;
        }
        found.processes += 1;
        match reader.held(pid, prefixes) {
            Ok(own) => found.add(own),
            Err(_) => found.unanswered += 1,
        }
    }
    found
}
