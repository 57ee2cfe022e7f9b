//! The stack that a program needs with all that it calls: kernels give 512 bytes and eight frames,
//! and older ones count each frame in steps of 32 bytes, the program's own included. How much a
//! function needs is the compiler's choice, and a newer running kernel does not tell: it counts in
//! smaller steps.
//!
//! What does not belong here: what else a kernel may refuse.

use object::{Object, ObjectSection, ObjectSymbol, Relocation, RelocationTarget, SymbolKind};
use std::collections::BTreeMap;

/// The stack that kernels give a program: bytes, and frames.
const MOST_BYTES: usize = 512;
const MOST_FRAMES: usize = 8;
/// The step in which kernels count a frame where programs are not compiled by the kernel, bytes.
const STEP: usize = 32;
/// An instruction has eight bytes.
const INSTRUCTION: usize = 8;
/// The register that points at the frame's upper end.
const FRAME: u8 = 10;
/// Classes of instructions that use memory, with their register that holds the address.
const LOAD: u8 = 0x01;
const STORES: [u8; 2] = [0x02, 0x03];
/// `x = y` and `x += number`, 64 bits.
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
/// A call, and its marks: of a helper by its number, of a function of the program.
const CALL: u8 = 0x85;
const OF_PROGRAM: u8 = 1;

/// The place of a function: its section, and its address there.
type Place = (usize, u64);

/// A function's own frame, and the functions that it calls.
#[derive(Debug, Default)]
struct Function {
    name: String,
    bytes: usize,
    calls: Vec<Place>,
}

/// Returns the programs of an object whose calls need more stack than kernels give, with their need
/// in bytes.
///
/// # Errors
/// Fails if it is no ELF object.
pub fn too_deep(object: &[u8]) -> object::Result<Vec<(String, usize)>> {
    let file = object::File::parse(object)?;
    let mut functions: BTreeMap<Place, Function> = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let Some(index) = symbol.section_index() else { continue };
        let section = file.section_by_index(index)?;
        let code = section.data_range(symbol.address(), symbol.size())?.unwrap_or_default();
        let within = symbol.address()..symbol.address() + symbol.size();
        let own = section.relocations().filter(|(at, _)| within.contains(at));
        let relocations: BTreeMap<u64, Relocation> = own.collect();
        let mut function = function(code, index.0, symbol.address(), &relocations);
        for (at, relocation) in &relocations {
            let from = usize::try_from(at - symbol.address()).unwrap_or(usize::MAX);
            function.calls.extend(called(&file, code.get(from..), relocation));
        }
        function.name = symbol.name()?.to_owned();
        functions.insert((index.0, symbol.address()), function);
    }
    let all = functions.iter().filter_map(|(place, function)| {
        let (bytes, frames) = deepest(*place, &functions, MOST_FRAMES);
        let fits = bytes <= MOST_BYTES && frames <= MOST_FRAMES;
        (!fits).then(|| (function.name.clone(), bytes))
    });
    Ok(all.collect())
}

/// The function that a relocated call leads to; `None` if it is no call within the object.
fn called(file: &object::File<'_>, code: Option<&[u8]>, relocation: &Relocation) -> Option<Place> {
    let call = code?.get(..INSTRUCTION)?;
    let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
    let symbol = file.symbol_by_index(symbol).ok()?;
    let section = symbol.section_index()?;
    if call[0] != CALL || call[1] >> 4 != OF_PROGRAM {
        return None;
    }
    // For a section, the call's constant tells the place, from the instruction before it.
    let place = match symbol.kind() {
        SymbolKind::Section => u64::try_from((constant(call) + 1) * INSTRUCTION as i64).ok()?,
        _ => symbol.address(),
    };
    Some((section.0, place))
}

/// The bytes that a function keeps in its own frame.
pub fn frame(code: &[u8]) -> usize {
    function(code, 0, 0, &BTreeMap::new()).bytes
}

/// The places that a function at `address` calls without relocation.
pub fn calls(code: &[u8], address: u64) -> Vec<u64> {
    let calls = function(code, 0, address, &BTreeMap::new()).calls;
    calls.into_iter().map(|(_, place)| place).collect()
}

/// A function's frame, and its calls within the section that need no relocation.
fn function(
    code: &[u8],
    section: usize,
    address: u64,
    relocations: &BTreeMap<u64, Relocation>,
) -> Function {
    let mut function = Function::default();
    // Registers that hold the frame's upper end.
    let mut copies = [false; FRAME as usize + 1];
    copies[usize::from(FRAME)] = true;
    for (at, instruction) in code.chunks_exact(INSTRUCTION).enumerate() {
        let (to, from) = (instruction[1] & 0x0f, instruction[1] >> 4);
        let is_frame = |register: u8| copies.get(usize::from(register)).copied().unwrap_or(false);
        let offset = i64::from(i16::from_le_bytes([instruction[2], instruction[3]]));
        let class = instruction[0] & 0x07;
        let used = match instruction[0] {
            MOVE => 0,
            ADD if to != FRAME && is_frame(to) => constant(instruction),
            _ if class == LOAD && is_frame(from) => offset,
            _ if STORES.contains(&class) && is_frame(to) => offset,
            _ => 0,
        };
        function.bytes = function.bytes.max(usize::try_from(-used).unwrap_or(0));
        let is_write = !STORES.contains(&class);
        if let Some(copy) = copies.get_mut(usize::from(to)).filter(|_| is_write && to != FRAME) {
            *copy = instruction[0] == MOVE && from == FRAME;
        }
        let place = address + (at * INSTRUCTION) as u64;
        if instruction[0] == CALL && from == OF_PROGRAM && !relocations.contains_key(&place) {
            let by = (constant(instruction) + 1) * INSTRUCTION as i64;
            function.calls.extend(place.checked_add_signed(by).map(|place| (section, place)));
        }
    }
    function
}

/// The number in an instruction.
fn constant(instruction: &[u8]) -> i64 {
    let number: Option<[u8; 4]> = instruction.get(4..).and_then(|rest| rest.try_into().ok());
    number.map_or(0, |bytes| i64::from(i32::from_le_bytes(bytes)))
}

/// The bytes and frames of a function with the deepest of its calls; `left` bounds recursion, which
/// kernels refuse anyway.
fn deepest(place: Place, functions: &BTreeMap<Place, Function>, left: usize) -> (usize, usize) {
    let Some(function) = functions.get(&place) else { return (0, 0) };
    let own = function.bytes.max(1).next_multiple_of(STEP);
    let calls = function.calls.iter().filter(|_| left > 0);
    let below = calls.map(|call| deepest(*call, functions, left - 1));
    let (bytes, frames) =
        below.fold((0, 0), |most: (usize, usize), one| (most.0.max(one.0), most.1.max(one.1)));
    (own + bytes, frames + 1)
}
