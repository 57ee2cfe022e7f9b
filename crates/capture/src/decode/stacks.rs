//! Sampled stacks: each distinct one is symbolized once.

use super::RowOutput;
use crate::reader::{FileAsker, FrameName, LATE};
use crate::wire;
use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer};
use iowhy_core::bounded_map::RestartingMap;
use iowhy_core::model::{Losses, Name, Names, Stack};
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

/// Distinct kernel stacks kept, and as many user stacks: a program whose code path is never the
/// same twice must not displace the kernel stacks that show why threads wait. Further stacks are
/// counted, and their requests have none.
const MOST_STACKS: usize = 20_000;
/// Samples whose requests have not arrived yet; those of a full map were lost.
const MOST_PENDING: usize = 65_536;

/// Why a stack has unnamed functions whose names could be read.
const UNREAD: &str =
    "not all named: the symbols are not in memory, and reading them would load the disk";

/// Why a stack has no names at all.
const ENDED: &str = "the process ended before its frames could be named";

/// The stacks of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    /// The kernel stack.
    pub kernel: Option<u64>,
    /// The user stack.
    pub user: Option<u64>,
}

/// The stacks seen so far, by content.
pub struct SeenStacks {
    symbolizer: Symbolizer,
    reader: FileAsker,
    /// By process; the kernel's have 0.
    known: FxHashMap<(u32, Box<[u64]>), u64>,
    /// How many of these are the kernel's.
    kernel: usize,
    named: FxHashMap<Content, u64>,
    pending: RestartingMap<u32, Sampled, MOST_PENDING>,
    refused: u64,
}

/// The content of a stack in the recording: stacks with equal content are the same.
type Content = (bool, Option<&'static str>, Vec<Name>);

impl SeenStacks {
    /// Without stacks; `reader` reads programs.
    pub fn new(reader: FileAsker) -> SeenStacks {
        SeenStacks {
            symbolizer: Symbolizer::new(),
            reader,
            known: FxHashMap::default(),
            kernel: 0,
            named: FxHashMap::default(),
            pending: RestartingMap::default(),
            refused: 0,
        }
    }

    /// Adds a `wire_stack`, which arrives before its request.
    pub fn add(&mut self, bytes: &[u8], out: &mut RowOutput<'_>) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire::wire_stack, frames);
        let (head, frames) = bytes.split_at_checked(HEAD)?;
        let word = |at: usize| Some(u32::read_from_prefix(head.get(at..)?).ok()?.0);
        let (sample, tgid) = (word(4)?, word(8)?);
        let (kernel, user) = (word(16)? as usize, word(20)? as usize);
        let frames: Vec<u64> = frames
            .chunks_exact(8)
            .filter_map(|chunk| Some(u64::from_ne_bytes(chunk.try_into().ok()?)))
            .take_while(|address| *address != 0)
            .collect();
        let (kernel_frames, rest) = frames.split_at(kernel.min(frames.len()));
        let user_frames = &rest[..user.min(rest.len())];
        let sampled = Sampled {
            kernel: self.id(None, kernel_frames, out),
            user: self.id(Some(tgid), user_frames, out),
        };
        self.pending.insert(sample, sampled);
        Some(())
    }

    /// Returns the stacks of `sample` and removes them.
    pub fn take(&mut self, sample: u32) -> Sampled {
        self.pending.remove(&sample).unwrap_or_default()
    }

    /// The number of a kernel stack that is not a sample.
    pub fn kernel(&mut self, frames: &[u64], out: &mut RowOutput<'_>) -> Option<u64> {
        self.id(None, frames, out)
    }

    /// The number of a process's stack that is not a sample.
    pub fn user(&mut self, process: u32, frames: &[u64], out: &mut RowOutput<'_>) -> Option<u64> {
        self.id(Some(process), frames, out)
    }

    /// The functions at `frames` of a process, without adding a stack.
    pub fn functions(&mut self, process: u32, frames: &[u64], names: &mut Names) -> Vec<Name> {
        if frames.is_empty() { Vec::new() } else { self.name(Some(process), frames, names).0 }
    }

    /// The functions of the stack with that number, innermost first.
    pub fn frames_of(&self, stack_id: u64) -> Option<&[Name]> {
        let found = self.named.iter().find(|(_, id)| **id == stack_id);
        found.map(|((_, _, frames), _)| frames.as_slice())
    }

    fn id(&mut self, process: Option<u32>, frames: &[u64], out: &mut RowOutput<'_>) -> Option<u64> {
        if frames.is_empty() {
            return None;
        }
        let key = (process.unwrap_or(0), frames.into());
        if let Some(id) = self.known.get(&key) {
            return Some(*id);
        }
        let of_programs = self.known.len() - self.kernel;
        let kept = if process.is_none() { self.kernel } else { of_programs };
        if kept >= MOST_STACKS {
            self.refused += 1;
            return None;
        }
        self.kernel += usize::from(process.is_none());
        let (texts, reason) = self.name(process, frames, out.names);
        let content = (process.is_some(), reason, texts);
        let next = self.named.len() as u64 + 1;
        let id = *self.named.entry(content.clone()).or_insert(next);
        self.known.insert(key, id);
        if id == next {
            out.batch.stacks.push(Stack {
                stack_id: id,
                user: process.is_some(),
                frames: content.2,
                complete: reason.is_none(),
                reason: reason.map(|reason| out.names.intern(reason)),
            });
        }
        Some(id)
    }

    /// The names of the frames, and why they are not the complete stack.
    fn name(
        &mut self,
        process: Option<u32>,
        frames: &[u64],
        names: &mut Names,
    ) -> (Vec<Name>, Option<&'static str>) {
        let functions = match process {
            None => self.kernel_functions(frames).ok_or(ENDED),
            Some(pid) => match self.reader.functions(pid, frames) {
                Ok(functions) => functions.ok_or(ENDED),
                Err(_unanswered) => Err(LATE),
            },
        };
        let functions = match functions {
            Ok(functions) => functions,
            Err(reason) => return (Vec::new(), Some(reason)),
        };
        let mut texts = Vec::with_capacity(frames.len());
        let mut end = Frame::Own;
        for (function, address) in functions.iter().zip(frames) {
            end = push(function, *address, &mut texts, names);
            if end == Frame::Wild {
                break;
            }
        }
        let is_unread = functions.contains(&FrameName::Unread);
        let reason = incomplete(process, frames.len(), end);
        (texts, if is_unread { Some(UNREAD) } else { reason })
    }

    fn kernel_functions(&self, frames: &[u64]) -> Option<Vec<FrameName>> {
        // A kernel image can be on the sick disk, and adds nothing to what the kernel itself
        // provides.
        let kernel = Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() };
        let symbols = self.symbolizer.symbolize(&Source::Kernel(kernel), Input::AbsAddr(frames));
        Some(symbols.ok()?.iter().map(FrameName::of).collect())
    }

    /// Adds the stacks that were dropped.
    pub fn losses(&self, losses: &mut Losses) {
        losses.add("stacks", self.refused, "stacks beyond those that iowhy keeps", false);
    }
}

/// What the outermost frame shows about its stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// A function that programs or threads start in.
    Root,
    /// A function.
    Named,
    /// Code without a symbol.
    Nameless,
    /// Not code: the stack walk went wrong.
    Wild,
    /// A frame of iowhy's BPF programs, not part of the stack.
    Own,
}

/// Adds a frame with the functions inlined into it.
fn push(function: &FrameName, address: u64, texts: &mut Vec<Name>, names: &mut Names) -> Frame {
    let (name, inlined) = match function {
        FrameName::Named { name, inlined } => (name, inlined),
        FrameName::Compiled(name) => {
            texts.push(names.intern(name));
            return Frame::Named;
        }
        FrameName::Wild => return Frame::Wild,
        FrameName::Nameless | FrameName::Unread => {
            texts.push(names.intern(&format!("{address:#x}")));
            return Frame::Nameless;
        }
    };
    let own = name.starts_with("bpf_prog_") || name.starts_with("bpf_trace_run");
    if own && texts.is_empty() {
        return Frame::Own;
    }
    for inlined in inlined {
        texts.push(names.intern(inlined));
    }
    texts.push(names.intern(name));
    if is_root(name) { Frame::Root } else { Frame::Named }
}

fn is_root(name: &str) -> bool {
    const ROOTS: &[&str] = &[
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        "clone",
        "__clone",
        "clone3",
        "__clone3",
        "thread_native_entry",
        "runtime.goexit",
    ];
    ROOTS.contains(&name.split(['@', '.']).next().unwrap_or(name))
        || name.starts_with("runtime.goexit")
}

/// Why a stack is incomplete. A user stack is trusted only if it reaches a function that threads
/// start in: without frame pointers it ends early, or anywhere.
fn incomplete(process: Option<u32>, frames: usize, end: Frame) -> Option<&'static str> {
    let (most, user) = match process {
        None => (wire::WIRE_KERNEL_FRAMES, false),
        Some(_) => (wire::WIRE_USER_FRAMES, true),
    };
    match end {
        _ if frames >= most as usize => Some("deeper than iowhy reads"),
        Frame::Root => None,
        _ if !user => None,
        Frame::Nameless => {
            Some("code without names: a stripped program, or a JIT without perf map")
        }
        Frame::Named | Frame::Wild | Frame::Own => {
            Some("ends early: the program uses no frame pointers")
        }
    }
}
