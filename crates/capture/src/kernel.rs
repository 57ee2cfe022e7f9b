//! Facts about the running kernel, queried once from the kernel itself, never derived from its
//! version number.
//!
//! What does not belong here: deciding anything from them (see [`crate::plan`]).

use crate::error::WatchError;
use crate::loader::keep_warnings;
use crate::symbols::KernelSymbols;
use libbpf_rs::btf::types::{Enum, Enum64, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};
use rustc_hash::FxHashSet;
use std::path::Path;
use std::sync::OnceLock;

/// The features of the running kernel that a watch depends on.
#[derive(Clone, Debug, Default)]
pub struct KernelFeatures {
    /// Tracepoints known to iowhy that the kernel's BTF describes, with the arguments that are
    /// needed.
    pub tracepoints: FxHashSet<&'static str>,
    /// Whether request tracepoints carry the queue before the request (until 5.11).
    pub rq_events_have_queue: bool,
    /// Whether bio tracepoints carry the queue before the bio (until 5.12).
    pub bio_events_have_queue: bool,
    /// Whether merge tracepoints carry queue and request before the bio (until 5.11).
    pub merge_events_have_request: bool,
    /// Whether a completion's status is a `blk_status_t`, not an error number.
    pub status_is_blk_status: bool,
    /// The kernel's operations and flags of a request.
    pub operations: KernelOperations,
    /// Whether `sched_switch` carries the previous task's state as its fourth argument (from 5.19).
    pub switch_has_state: bool,
    /// Whether BPF programs on tracepoints are preemptible (from 7.x) and may disable preemption.
    pub programs_are_preemptible: bool,
    /// Whether programs may use atomic instructions other than adding (from 5.12). A kernel's
    /// compiler for another architecture may still refuse them.
    pub may_have_atomics: bool,
    /// The way in which the kernel reports the result of an io_uring request.
    pub uring_result: UringResult,
    /// Whether the kernel's types show which request of a loop device a request of the disk below
    /// serves.
    pub loops_are_described: bool,
    /// Page size, bytes.
    pub page_size: u32,
    /// Addresses of the bio completion functions, by their position in the wire's list.
    pub end_io: Vec<u64>,
}

/// The tracepoint of io_uring's completions.
pub const URING: &str = "io_uring_complete";

/// The part of the result that [`URING`] carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UringResult {
    /// The result without its request (until 5.16), so that the file is not known.
    #[default]
    Alone,
    /// The request, and the result as an argument.
    Argument,
    /// The request, and its completion entry (from 6.13 on).
    Entry,
}

/// The kernel's numbers for operations and flags of a request.
#[derive(Clone, Debug, Default)]
pub struct KernelOperations {
    /// `REQ_OP_*` by number, without the prefix and in lower case.
    pub names: Vec<(u32, String)>,
    /// `__REQ_*`: the bit of each flag by name, without the prefix and in lower case.
    pub flags: Vec<(u32, String)>,
}

impl KernelOperations {
    /// The mask of a flag; 0 where this kernel has none of that name.
    pub fn mask(&self, flag: &str) -> u32 {
        self.flags.iter().find(|(_, name)| name == flag).map_or(0, |(bit, _)| 1u32 << bit)
    }
}

/// Queries the kernel. `tracepoints` are the names to check.
pub fn probe(
    tracepoints: &[&'static str],
    symbols: &KernelSymbols,
) -> Result<KernelFeatures, WatchError> {
    let btf = types().map_err(|cause| WatchError::NoBtf { cause: cause.to_string() })?;
    let first_is_queue = |tracepoint: &str| {
        tracepoint_arguments(&btf, tracepoint)
            .first()
            .is_some_and(|name| name.as_deref() == Some("request_queue"))
    };
    let uring_result = uring_result(&btf);
    // Without its request, a completion does not identify a file.
    let is_mute = |name: &str| name == URING && uring_result == UringResult::Alone;
    let is_there = |name: &&str| tracepoint(&btf, name).is_some() && !is_mute(name);
    Ok(KernelFeatures {
        tracepoints: tracepoints.iter().copied().filter(is_there).collect(),
        rq_events_have_queue: first_is_queue("block_rq_issue"),
        bio_events_have_queue: first_is_queue("block_bio_queue"),
        merge_events_have_request: first_is_queue("block_bio_backmerge"),
        status_is_blk_status: status_is_blk_status(&btf),
        operations: operations(&btf),
        switch_has_state: switch_has_state(&btf),
        programs_are_preemptible: symbols.tracepoints_have_srcu() && may_hold_cpu(&btf),
        may_have_atomics: has_helper(&btf, "BPF_FUNC_check_mtu"),
        uring_result,
        loops_are_described: loops_are_described(&btf),
        page_size: rustix::param::page_size() as u32,
        end_io: symbols.end_io().to_vec(),
    })
}

/// The kernel's types. Libbpf's own words, where there are none, are not printed.
fn types() -> libbpf_rs::Result<Btf<'static>> {
    keep_warnings();
    Btf::from_vmlinux()
}

/// Whether BPF maps are charged as locked memory, which RLIMIT_MEMLOCK limits. Since 5.11 they are
/// charged to the memory cgroup. No type shows this; a helper that came with the change does, as in
/// libbpf.
pub fn maps_are_locked_memory() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let Ok(btf) = types() else { return false };
        !has_helper(&btf, "BPF_FUNC_ktime_get_coarse_ns")
    })
}

/// Whether programs may call a helper. It also stands for what came with it and shows in no type:
/// `BPF_FUNC_check_mtu` for atomic instructions (91c960b00566, 5.12).
fn has_helper(btf: &Btf<'_>, name: &str) -> bool {
    enumerators(btf, "bpf_func_id").iter().any(|(_, known)| known == name)
}

fn tracepoint<'a>(btf: &'a Btf<'_>, name: &str) -> Option<FuncProto<'a>> {
    let typedef: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{name}"))?;
    let pointer = Ptr::try_from(typedef.next_type()?).ok()?;
    FuncProto::try_from(pointer.next_type()?).ok()
}

/// The struct names that a tracepoint's arguments point to, without the first argument, which is
/// private.
fn tracepoint_arguments(btf: &Btf<'_>, name: &str) -> Vec<Option<String>> {
    let Some(proto) = tracepoint(btf, name) else { return Vec::new() };
    proto.iter().skip(1).map(|argument| pointee(btf.type_by_id(argument.ty))).collect()
}

fn pointee(argument: Option<BtfType<'_>>) -> Option<String> {
    let pointer = Ptr::try_from(argument?).ok()?;
    let target = Struct::try_from(pointer.next_type()?).ok()?;
    Some(target.name()?.to_str()?.to_owned())
}

fn switch_has_state(btf: &Btf<'_>) -> bool {
    let arguments = tracepoint_arguments(btf, "sched_switch");
    let task = |place: usize| arguments.get(place).is_some_and(Option::is_some);
    arguments.len() == 4 && task(1) && task(2)
}

fn status_is_blk_status(btf: &Btf<'_>) -> bool {
    tracepoint(btf, "block_rq_complete")
        .and_then(|proto| {
            proto.iter().skip(1).find_map(|argument| {
                let argument: BtfType<'_> = btf.type_by_id(argument.ty)?;
                Typedef::try_from(argument).ok()?.name()?.to_str().map(str::to_owned)
            })
        })
        .is_some_and(|name| name == "blk_status_t")
}

/// Whether a program with preemption disabled may call global functions: the verifier tracks which
/// of them sleep since 6.15. Before 6.13 tracepoints used SRCU too, with preemption disabled.
fn may_hold_cpu(btf: &Btf<'_>) -> bool {
    let subprogram: Option<Struct<'_>> = btf.type_by_name("bpf_subprog_info");
    subprogram.is_some_and(|found| {
        found.iter().any(|member| member.name.is_some_and(|name| name == "might_sleep"))
    })
}

fn uring_result(btf: &Btf<'_>) -> UringResult {
    let arguments = tracepoint_arguments(btf, URING);
    match arguments.get(2) {
        Some(Some(name)) if name == "io_uring_cqe" => UringResult::Entry,
        // Context, request, number, result, flags and two more.
        _ if arguments.len() >= 7 => UringResult::Argument,
        _ => UringResult::Alone,
    }
}

/// The loop driver may be a module; modules have BTF since 5.11.
fn loops_are_described(btf: &Btf<'_>) -> bool {
    btf.type_by_name::<Struct<'_>>("loop_cmd").is_some()
        || Path::new("/sys/kernel/btf/loop").exists()
}

fn operations(btf: &Btf<'_>) -> KernelOperations {
    let strip = |values: Vec<(i64, String)>, prefix: &str| {
        values
            .into_iter()
            .filter_map(|(value, name)| {
                Some((u32::try_from(value).ok()?, name.strip_prefix(prefix)?.to_lowercase()))
            })
            .collect()
    };
    // `enum req_opf` became `enum req_op` in 6.0.
    let mut names = enumerators(btf, "req_op");
    if names.is_empty() {
        names = enumerators(btf, "req_opf");
    }
    KernelOperations {
        names: strip(names, "REQ_OP_"),
        flags: strip(enumerators(btf, "req_flag_bits"), "__REQ_"),
    }
}

fn enumerators(btf: &Btf<'_>, name: &str) -> Vec<(i64, String)> {
    let text = |name: Option<&std::ffi::OsStr>| Some(name?.to_str()?.to_owned());
    if let Some(found) = btf.type_by_name::<Enum<'_>>(name) {
        return found
            .iter()
            .filter_map(|member| Some((member.value, text(member.name)?)))
            .collect();
    }
    let Some(found) = btf.type_by_name::<Enum64<'_>>(name) else { return Vec::new() };
    found.iter().filter_map(|member| Some((member.value as i64, text(member.name)?))).collect()
}
