//! Loops that kernels before 6.7 refuse, as instructions.

use crate::loops::falls_back;

/// w9 += -1; if w9 != 0 goto BY; exit; call; r1 = 0 ll.
const COUNT: [u8; 8] = [0x04, 0x09, 0, 0, 0xff, 0xff, 0xff, 0xff];
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];
const CALL: [u8; 8] = [0x85, 0, 0, 0, 5, 0, 0, 0];
const WIDE: [[u8; 8]; 2] = [[0x18, 1, 0, 0, 0, 0, 0, 0], [0; 8]];

fn jump(code: u8, by: i16) -> [u8; 8] {
    let [low, high] = by.to_le_bytes();
    [code, 9, low, high, 0, 0, 0, 0]
}

fn always(by: i16) -> [u8; 8] {
    jump(0x05, by)
}

fn unless_zero(by: i16) -> [u8; 8] {
    jump(0x55, by)
}

#[test]
fn a_loop_that_jumps_back_is_known_to_all_kernels() {
    assert!(!falls_back(&[COUNT, unless_zero(-2), EXIT].concat()));
    assert!(!falls_back(&[unless_zero(1), EXIT, COUNT, always(-4)].concat()));
    assert!(!falls_back(&[WIDE[0], WIDE[1], unless_zero(-3), EXIT].concat()));
}

#[test]
fn a_loop_whose_body_falls_into_its_head_is_refused() {
    // The head is behind the body: goto head; body: w9 += -1; head: if w9 != 0 goto body.
    assert!(falls_back(&[always(1), COUNT, unless_zero(-2), EXIT].concat()));
    assert!(falls_back(&[always(1), CALL, unless_zero(-2), EXIT].concat()));
    assert!(falls_back(&[always(2), WIDE[0], WIDE[1], unless_zero(-3), EXIT].concat()));
}

#[test]
fn damaged_instructions_end() {
    assert!(!falls_back(&[]));
    assert!(!falls_back(&[always(-9), EXIT].concat()));
    assert!(!falls_back(&[unless_zero(900)].concat()));
}
