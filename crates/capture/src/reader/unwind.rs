//! Unwinds the copied stacks of programs without frame pointers by their `.eh_frame`.
//!
//! Code without such a table is unwound along its frame pointers: a JIT's may have them. What the
//! tables lead to is believed only while it is code, and is complete only if a table itself says
//! that a function has no caller; in a file without tables, if the frame pointers end with zero.
//!
//! Tables come from the very files that are mapped (`/proc/PID/map_files`), also if their paths
//! lead to others by now. The caller bounds the time: a hostile table can be a loop.
//!
//! What does not belong here: where tables are in a file (see [`super::unwind_tables`]), and names
//! (see [`super::serve`]).

use super::allowance::Allowance;
use super::question::{CopiedRegisters, UnwindEnd, UnwoundStack};
use super::unwind_tables::{FileTables, TablesOfFiles, UnwindTables};
use framehop::{
    CacheNative, Error, ExplicitModuleSectionInfo, FrameAddress, Module,
    MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative,
};
use rustc_hash::FxHashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Frames of a stack. Chosen.
const MOST_FRAMES: usize = 128;
/// Processes whose mappings are kept.
const MOST_PROCESSES: usize = 64;
/// Time for which mappings are not read again, unless an address is in none of them.
const FRESH: Duration = Duration::from_secs(1);
/// Mappings of code that are read of a process. Chosen.
const MOST_MAPPINGS: usize = 4096;

type NativeUnwinder = UnwinderNative<Rc<[u8]>, MustNotAllocateDuringUnwind>;

/// A range of memory that is mapped as code.
#[derive(Debug, PartialEq, Eq)]
struct CodeMapping {
    start: u64,
    end: u64,
    /// Offset of the mapping in its file, bytes.
    offset: u64,
    /// Inode of the file; 0 without a file.
    inode: u64,
    /// The name of its entry in `map_files`; empty without a file.
    range: String,
}

/// The kind of code in a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CodeKind {
    /// The code of a file with tables.
    Covered,
    /// The code of a program in Go, which has tables of its parts in C only.
    Go,
    /// The code of a file whose tables are not in memory.
    Unread,
    /// The code of a file without tables.
    Bare,
    /// Code without a file: compiled while the program runs, or the kernel's vdso.
    Compiled,
}

/// A process's code, and its unwinder.
struct UnwoundProcess {
    number: u32,
    read: Instant,
    /// The mappings, each with its kind, once that was needed.
    mappings: Vec<(CodeMapping, Option<CodeKind>)>,
    unwinder: NativeUnwinder,
    cache: CacheNative<MustNotAllocateDuringUnwind>,
    /// Whether a signal handler returns to an address.
    trampolines: FxHashMap<u64, bool>,
}

/// The processes unwound so far, and the tables of their files.
#[derive(Default)]
pub(super) struct StackUnwinder {
    tables: TablesOfFiles,
    processes: FxHashMap<u32, UnwoundProcess>,
}

impl StackUnwinder {
    /// Unwinds a stack of a process; `None` if it has exited. `bytes` begin at the stack pointer.
    pub fn unwind(
        &mut self,
        process: u32,
        registers: &CopiedRegisters,
        bytes: &[u8],
        allowance: &mut Allowance,
    ) -> Option<UnwoundStack> {
        let unwound = self.of_process(process, registers.instruction, |found, tables| {
            found.walk(registers, bytes, tables, allowance)
        })?;
        Some(unwound.unwrap_or(UnwoundStack { frames: Vec::new(), end: UnwindEnd::Lost }))
    }

    /// Whether a walk along frame pointers, the innermost address first, has passed a function that
    /// keeps none: the register still held an outer function's, and the callers between are left
    /// out. The innermost address is where the thread entered the kernel, the last one's caller
    /// none.
    pub fn leaves_out(&mut self, process: u32, frames: &[u64], allowance: &mut Allowance) -> bool {
        let [innermost, passed @ .., _] = frames else { return false };
        let left_out = self.of_process(process, *innermost, |found, tables| {
            passed.iter().any(|address| found.passes_on(*address, tables, allowance))
        });
        left_out.flatten().unwrap_or(false)
    }

    /// Asks about a process; `None` if it has exited, `Some(None)` if the answer is a panic.
    fn of_process<T>(
        &mut self,
        process: u32,
        instruction: u64,
        ask: impl FnOnce(&mut UnwoundProcess, &mut TablesOfFiles) -> T,
    ) -> Option<Option<T>> {
        let known = self.processes.get(&process);
        let is_fresh = known.is_some_and(|known| {
            known.read.elapsed() < FRESH && known.place(instruction).is_some()
        });
        if !is_fresh {
            self.look(process);
        }
        let StackUnwinder { tables, processes } = self;
        let found = processes.get_mut(&process).filter(|found| !found.mappings.is_empty())?;
        // A panic here is a hostile table's, and no reason to leave other processes alone.
        let answer = catch_unwind(AssertUnwindSafe(|| ask(found, tables))).ok();
        if answer.is_none() {
            self.processes.remove(&process);
        }
        Some(answer)
    }

    /// Reads the mappings of a process. What is known of it is kept if they are the same.
    fn look(&mut self, process: u32) {
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let mappings: Vec<CodeMapping> =
            code_in(&String::from_utf8_lossy(&maps)).take(MOST_MAPPINGS).collect();
        if let Some(known) = self.processes.get_mut(&process)
            && known.mappings.iter().map(|(mapping, _)| mapping).eq(&mappings)
        {
            known.read = Instant::now();
            return;
        }
        if self.processes.len() >= MOST_PROCESSES {
            self.processes.clear();
        }
        let found = UnwoundProcess {
            number: process,
            read: Instant::now(),
            mappings: mappings.into_iter().map(|mapping| (mapping, None)).collect(),
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new_in(),
            trampolines: FxHashMap::default(),
        };
        self.processes.insert(process, found);
    }
}

impl UnwoundProcess {
    /// Returns the kind of code at an address; `None` if it is no code. Tables are read when they
    /// are needed.
    fn kind(
        &mut self,
        address: u64,
        tables: &mut TablesOfFiles,
        allowance: &mut Allowance,
    ) -> Option<CodeKind> {
        let place = self.place(address)?;
        let (mapping, known) = self.mappings.get_mut(place)?;
        if let Some(kind) = known {
            return Some(*kind);
        }
        let found = tables_of(self.number, mapping, tables, allowance);
        let kind = match &found {
            Some(FileTables::Read(tables)) => match module(mapping, tables) {
                Some(module) => {
                    self.unwinder.add_module(module);
                    if tables.is_go { CodeKind::Go } else { CodeKind::Covered }
                }
                None => CodeKind::Bare,
            },
            Some(FileTables::Unread) => CodeKind::Unread,
            Some(FileTables::Without) => CodeKind::Bare,
            None => CodeKind::Compiled,
        };
        *known = Some(kind);
        Some(kind)
    }

    /// The position of the mapping that holds an address.
    fn place(&self, address: u64) -> Option<usize> {
        let after = self.mappings.partition_point(|(mapping, _)| mapping.start <= address);
        let place = after.checked_sub(1)?;
        self.mappings.get(place).filter(|(mapping, _)| address < mapping.end).map(|_| place)
    }

    /// Whether the function that is returned to at an address leaves the frame pointer's register
    /// as its caller had it, by its table. Unwinds it from an invented frame, of which everything
    /// that is read is another value.
    fn passes_on(
        &mut self,
        return_address: u64,
        tables: &mut TablesOfFiles,
        allowance: &mut Allowance,
    ) -> bool {
        const STACK: u64 = 0x10_0000;
        const FRAME: u64 = STACK + 0x1000;
        const READ: u64 = FRAME + 0x1000;
        let Some(address) = FrameAddress::from_return_address(return_address) else {
            return false;
        };
        if self.kind(address.address_for_lookup(), tables, allowance) != Some(CodeKind::Covered) {
            return false;
        }
        let invented = CopiedRegisters {
            instruction: return_address,
            stack_pointer: STACK,
            frame_pointer: FRAME,
            link: READ,
        };
        let mut regs = native(&invented, u64::MAX);
        let mut read = |_| Ok(READ);
        let next = self.unwinder.unwind_frame(address, &mut regs, &mut self.cache, &mut read);
        matches!(next, Ok(Some(_))) && frame_pointer(&regs) == FRAME
    }

    fn walk(
        &mut self,
        registers: &CopiedRegisters,
        bytes: &[u8],
        tables: &mut TablesOfFiles,
        allowance: &mut Allowance,
    ) -> UnwoundStack {
        let base = registers.stack_pointer;
        let highest_code = self.mappings.last().map_or(0, |(mapping, _)| mapping.end);
        let mut regs = native(registers, highest_code);
        let mut address = FrameAddress::from_instruction_pointer(registers.instruction);
        let mut frames = vec![registers.instruction];
        let end = loop {
            if frames.len() >= MOST_FRAMES {
                break UnwindEnd::TooDeep;
            }
            let Some(kind) = self.kind(address.address_for_lookup(), tables, allowance) else {
                // The last one is no code: what led there was wrong.
                frames.pop();
                break UnwindEnd::Lost;
            };
            if address.is_return_address() && self.is_trampoline(address.address()) {
                match interrupted(&regs, base, bytes) {
                    Some((instruction, before)) => {
                        frames.push(instruction);
                        (address, regs) =
                            (FrameAddress::from_instruction_pointer(instruction), before);
                        continue;
                    }
                    None => break UnwindEnd::TooDeep,
                }
            }
            let mut beyond = false;
            let mut read = |at: u64| {
                let found = word_at(bytes, at.wrapping_sub(base));
                beyond |= found.is_none() && at >= base;
                found.ok_or(())
            };
            let stack_pointer = regs.sp();
            let next = self.unwinder.unwind_frame(address, &mut regs, &mut self.cache, &mut read);
            match next.map(|next| next.and_then(FrameAddress::from_return_address)) {
                Ok(Some(next)) if frames.len() == 1 || regs.sp() > stack_pointer => {
                    frames.push(next.address_for_lookup());
                    address = next;
                }
                Ok(None) if matches!(kind, CodeKind::Covered | CodeKind::Go) => {
                    break UnwindEnd::Root;
                }
                // The ABI's mark of the outermost frame, which Go sets.
                Ok(None) if kind == CodeKind::Bare && frames.len() > 2 => break UnwindEnd::Root,
                // The outermost frame, too, if framehop has looked in tables that do not have the
                // function.
                Err(Error::FramepointerUnwindingMovedBackwards)
                    if kind == CodeKind::Go && frames.len() > 2 && frame_pointer(&regs) == 0 =>
                {
                    break UnwindEnd::Root;
                }
                Err(_) if beyond && matches!(kind, CodeKind::Covered | CodeKind::Go) => {
                    break UnwindEnd::TooDeep;
                }
                _ => break end_in(kind),
            }
        };
        UnwoundStack { frames, end }
    }

    /// Whether a signal handler returns to this address: the code there is the system call that
    /// ends it. framehop does not follow the expressions that describe it.
    fn is_trampoline(&mut self, address: u64) -> bool {
        if let Some(known) = self.trampolines.get(&address) {
            return *known;
        }
        let code = self.code_at(address);
        if self.trampolines.len() >= MOST_MAPPINGS {
            self.trampolines.clear();
        }
        let is_one = !TRAMPOLINE.is_empty() && code.is_some_and(|code| code == TRAMPOLINE);
        self.trampolines.insert(address, is_one);
        is_one
    }

    /// The first bytes of code of a file.
    fn code_at(&self, address: u64) -> Option<[u8; TRAMPOLINE.len()]> {
        let (mapping, _) = self.mappings.get(self.place(address)?)?;
        let file = file_of(self.number, mapping)?;
        let mut code = [0; TRAMPOLINE.len()];
        file.read_exact_at(&mut code, mapping.offset + (address - mapping.start)).ok()?;
        Some(code)
    }
}

fn end_in(kind: CodeKind) -> UnwindEnd {
    match kind {
        CodeKind::Covered => UnwindEnd::Lost,
        CodeKind::Unread => UnwindEnd::Unread,
        CodeKind::Bare | CodeKind::Go => UnwindEnd::Bare,
        CodeKind::Compiled => UnwindEnd::Compiled,
    }
}

/// `mov $15, %rax; syscall`: rt_sigreturn. arm64's is in the vdso, and its frame pointers lead
/// through it.
#[cfg(target_arch = "x86_64")]
const TRAMPOLINE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
#[cfg(not(target_arch = "x86_64"))]
const TRAMPOLINE: [u8; 0] = [];

/// Returns the instruction and registers that a signal interrupted, from the frame that the kernel
/// has put on the stack.
#[cfg(target_arch = "x86_64")]
fn interrupted(
    regs: &UnwindRegsNative,
    base: u64,
    bytes: &[u8],
) -> Option<(u64, UnwindRegsNative)> {
    // Offsets of rbp, rsp and rip in struct ucontext, which the stack pointer points to.
    let at = |offset: u64| word_at(bytes, regs.sp().wrapping_sub(base).wrapping_add(offset));
    let (frame, stack, instruction) = (at(120)?, at(160)?, at(168)?);
    Some((instruction, UnwindRegsNative::new(instruction, stack, frame)))
}

#[cfg(not(target_arch = "x86_64"))]
fn interrupted(_: &UnwindRegsNative, _: u64, _: &[u8]) -> Option<(u64, UnwindRegsNative)> {
    None
}

#[cfg(target_arch = "x86_64")]
fn native(registers: &CopiedRegisters, _highest_code: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.instruction, registers.stack_pointer, registers.frame_pointer)
}

/// Return addresses may be signed: bits above the highest address of code are not part of them.
#[cfg(target_arch = "aarch64")]
fn native(registers: &CopiedRegisters, highest_code: u64) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(highest_code);
    UnwindRegsNative::new_with_ptr_auth_mask(
        mask,
        registers.link,
        registers.stack_pointer,
        registers.frame_pointer,
    )
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.bp()
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.fp()
}

fn word_at(bytes: &[u8], at: u64) -> Option<u64> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    Some(u64::from_le_bytes(*rest.first_chunk()?))
}

/// The executable mappings in a `maps`, which are in order of their addresses.
fn code_in(maps: &str) -> impl Iterator<Item = CodeMapping> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, flags, offset) = (words.next()?, words.next()?, words.next()?);
        let inode = words.nth(1)?.parse().ok()?;
        let has_file = words.next().is_some_and(|path| path.starts_with('/'));
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        flags.get(2..3).filter(|letter| *letter == "x")?;
        let (start, end) = (number(start)?, number(end)?);
        // Unlike in `maps`, there are no zeros in front.
        let range = if has_file { format!("{start:x}-{end:x}") } else { String::new() };
        Some(CodeMapping { start, end, offset: number(offset)?, inode, range })
    })
}

/// The tables of a mapping's file; `None` if it has no file.
fn tables_of(
    process: u32,
    mapping: &CodeMapping,
    tables: &mut TablesOfFiles,
    allowance: &mut Allowance,
) -> Option<FileTables> {
    if mapping.range.is_empty() {
        return None;
    }
    let found = file_of(process, mapping).and_then(|file| {
        let about = file.metadata().ok()?;
        Some(tables.of(&file, &about, allowance))
    });
    Some(found.unwrap_or(FileTables::Without))
}

/// Opens the file that is mapped, whatever its path leads to now.
fn file_of(process: u32, mapping: &CodeMapping) -> Option<File> {
    let path = format!("/proc/{process}/map_files/{}", mapping.range);
    // Opening a device can have side effects.
    let about = fs::metadata(&path).ok()?;
    if about.is_file() { File::open(path).ok() } else { None }
}

fn module(mapping: &CodeMapping, tables: &Rc<UnwindTables>) -> Option<Module<Rc<[u8]>>> {
    let address = tables.address_of(mapping.offset, mapping.end - mapping.start)?;
    let index = tables.index.clone();
    let sections = ExplicitModuleSectionInfo {
        base_svma: address,
        eh_frame_svma: Some(tables.table_at.clone()),
        eh_frame: Some(Rc::clone(&tables.table)),
        eh_frame_hdr_svma: index.clone().map(|(_, at)| at),
        eh_frame_hdr: index.map(|(bytes, _)| bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(String::new(), mapping.start..mapping.end, mapping.start, sections))
}

#[cfg(test)]
mod tests;
