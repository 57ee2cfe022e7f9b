//! Loops that kernels before 6.7 refuse: 10e14e9652bf made the verifier follow an instruction back
//! into a loop's head however it gets there. Before, only a jump may lead back; a program whose
//! loop's last instruction simply goes on with the head is "back-edge from insn 9154 to 9155".
//! Which of both it becomes is the compiler's choice, and the running kernel does not tell.
//!
//! What does not belong here: what else a kernel may refuse.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// An instruction has eight bytes; one with a 64-bit constant is two of them.
const INSTRUCTION: usize = 8;
const WIDE: u8 = 0x18;
/// The classes of jumps, and their operations.
const JUMPS: u8 = 0x05;
const JUMPS_32: u8 = 0x06;
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// Functions of an object with such a loop.
///
/// # Errors
/// Fails if it is no ELF object.
pub fn falling_back(object: &[u8]) -> object::Result<Vec<String>> {
    let file = object::File::parse(object)?;
    let mut found = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let Some(section) = symbol.section_index() else { continue };
        let code = file.section_by_index(section)?;
        let code = code.data_range(symbol.address(), symbol.size())?.unwrap_or_default();
        if falls_back(code) {
            found.push(symbol.name()?.to_owned());
        }
    }
    Ok(found)
}

/// Tells whether an instruction that is no jump leads back, as the verifier's check_cfg() sees it:
/// to one that it came by.
pub fn falls_back(code: &[u8]) -> bool {
    let mut state = vec![State::New; code.len() / INSTRUCTION];
    // Instructions on the way, each with the edges that are still to be followed.
    let mut way = Vec::new();
    enter(0, code, &mut state, &mut way);
    while let Some((at, edges)) = way.last_mut() {
        let Some(edge) = edges.pop() else {
            state[*at] = State::Done;
            way.pop();
            continue;
        };
        match state.get(edge.to) {
            Some(State::New) => enter(edge.to, code, &mut state, &mut way),
            Some(State::OnTheWay) if !edge.is_jump => return true,
            _ => {}
        }
    }
    false
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    OnTheWay,
    Done,
}

/// A way on from an instruction.
#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    is_jump: bool,
}

fn enter(at: usize, code: &[u8], state: &mut [State], way: &mut Vec<(usize, Vec<Edge>)>) {
    let from = at * INSTRUCTION;
    if let (Some(instruction), Some(state)) =
        (code.get(from..from + INSTRUCTION), state.get_mut(at))
    {
        *state = State::OnTheWay;
        way.push((at, edges(at, instruction)));
    }
}

fn edges(at: usize, instruction: &[u8]) -> Vec<Edge> {
    let code = instruction[0];
    let (class, operation) = (code & 0x07, code & 0xf0);
    let next = |is_jump| Edge { to: at + 1, is_jump };
    let jump = |by: i64| Edge {
        to: usize::try_from(at as i64 + 1 + by).unwrap_or(usize::MAX),
        is_jump: true,
    };
    let short = i64::from(i16::from_le_bytes([instruction[2], instruction[3]]));
    let long = i64::from(i32::from_le_bytes([
        instruction[4],
        instruction[5],
        instruction[6],
        instruction[7],
    ]));
    match (class, operation) {
        _ if code == WIDE => vec![Edge { to: at + 2, is_jump: false }],
        (JUMPS | JUMPS_32, EXIT) => Vec::new(),
        (JUMPS | JUMPS_32, CALL) => vec![next(false)],
        (JUMPS, ALWAYS) => vec![jump(short)],
        (JUMPS_32, ALWAYS) => vec![jump(long)],
        (JUMPS | JUMPS_32, _) => vec![next(true), jump(short)],
        _ => vec![next(false)],
    }
}
