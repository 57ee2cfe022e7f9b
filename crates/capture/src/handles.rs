//! Facts that the kernel reports of an open program or map of this process. They are read through
//! the own handle: a list of all programs takes CAP_SYS_ADMIN, and ends early if the kernel does
//! not report one of them.

use libbpf_rs::Object;
use rustc_hash::FxHashMap;
use std::os::fd::{AsFd, AsRawFd};

/// Runs of each loaded program that the kernel skipped, by the number of the program: BPF recursion
/// protection.
pub(crate) fn misses(objects: &[Object]) -> FxHashMap<u64, u64> {
    let loaded = objects.iter().flat_map(Object::progs).filter(|program| program.autoload());
    let misses = |program: libbpf_rs::Program<'_>| {
        let text = about(program);
        Some((number_in(&text, "prog_id:")?, number_in(&text, "recursion_misses:")?))
    };
    loaded.filter_map(misses).collect()
}

/// Instructions of a program that the verifier processed; `None` on kernels that do not report it.
pub(crate) fn verified_instructions(program: impl AsFd) -> Option<u32> {
    u32::try_from(number_in(&about(program), "verified_insns:")?).ok()
}

/// Memory that the kernel uses for a map, bytes.
pub(crate) fn memory_of(map: impl AsFd) -> u64 {
    number_in(&about(map), "memlock:").unwrap_or(0)
}

fn about(handle: impl AsFd) -> String {
    let number = handle.as_fd().as_raw_fd();
    crate::host::read_text(format!("/proc/self/fdinfo/{number}")).unwrap_or_default()
}

/// The number behind the name of a field, such as `memlock:`.
fn number_in(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}
