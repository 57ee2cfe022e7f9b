//! The records of the BPF programs, generated from `bpf/wire.h`.
//!
//! What does not belong here: what they mean (see [`crate::probes`]).
#![allow(
    missing_docs,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    reason = "generated from C, where the documentation is"
)]
#![allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));
include!(concat!(env!("OUT_DIR"), "/symbols.rs"));
include!(concat!(env!("OUT_DIR"), "/group_maps.rs"));
