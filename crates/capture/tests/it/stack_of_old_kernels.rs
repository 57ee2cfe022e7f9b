//! Bytes of a frame that a function uses, as instructions.

use crate::stack::{calls, frame};

/// r1 = r10; r1 = r2; *(u64 *)(r10 - 88) = r1; r0 = *(u64 *)(r10 - 16); exit.
const FRAME_TO_R1: [u8; 8] = [0xbf, 0xa1, 0, 0, 0, 0, 0, 0];
const R2_TO_R1: [u8; 8] = [0xbf, 0x21, 0, 0, 0, 0, 0, 0];
const STORE: [u8; 8] = [0x7b, 0x1a, 0xa8, 0xff, 0, 0, 0, 0];
const LOAD: [u8; 8] = [0x79, 0xa0, 0xf0, 0xff, 0, 0, 0, 0];
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];
/// *(u64 *)(r1 - 88) = r2.
const STORE_BY_R1: [u8; 8] = [0x7b, 0x21, 0xa8, 0xff, 0, 0, 0, 0];

/// r1 += BY.
fn add(by: i32) -> [u8; 8] {
    let [a, b, c, d] = by.to_le_bytes();
    [0x07, 0x01, 0, 0, a, b, c, d]
}

#[test]
fn what_is_stored_loaded_or_pointed_at_is_in_the_frame() {
    assert_eq!(frame(&[EXIT].concat()), 0);
    assert_eq!(frame(&[STORE, LOAD, EXIT].concat()), 88);
    assert_eq!(frame(&[LOAD, EXIT].concat()), 16);
    assert_eq!(frame(&[FRAME_TO_R1, add(-120), EXIT].concat()), 120);
    assert_eq!(frame(&[FRAME_TO_R1, STORE_BY_R1, EXIT].concat()), 88);
}

#[test]
fn other_memory_is_not() {
    assert_eq!(frame(&[R2_TO_R1, add(-120), STORE_BY_R1, EXIT].concat()), 0);
    assert_eq!(frame(&[FRAME_TO_R1, R2_TO_R1, add(-300), EXIT].concat()), 0);
    assert_eq!(frame(&[0xbf, 0xa1]), 0);
}

/// call BY, of a function of the program.
fn call(by: i32) -> [u8; 8] {
    let [a, b, c, d] = by.to_le_bytes();
    [0x85, 0x10, 0, 0, a, b, c, d]
}

#[test]
fn calls_go_forward_and_back() {
    // From the instruction behind the call, as jumps do.
    assert_eq!(calls(&[call(3), EXIT].concat(), 80), [80 + 8 + 24]);
    assert_eq!(calls(&[EXIT, call(-6), EXIT].concat(), 80), [80 + 16 - 48]);
    assert!(calls(&[call(-60), EXIT].concat(), 80).is_empty(), "before the section");
    let helper = [0x85, 0, 0, 0, 5, 0, 0, 0];
    assert!(calls(&[helper, EXIT].concat(), 80).is_empty());
}
