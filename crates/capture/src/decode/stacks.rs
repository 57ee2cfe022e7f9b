//! Sampled stacks: each distinct one is symbolized once.

use super::RowOutput;
use super::copied_stacks::{CopiedStack, CopiedStacks, reason_of};
use super::kernel_names::KernelNames;
use crate::reader::{FileAsker, FrameName, LATE, UnwindEnd};
use crate::wire;
use iowhy_model::bounded_map::RestartingMap;
use iowhy_model::{Losses, Name, Names, Stack};
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

/// Distinct kernel stacks kept, and as many user stacks: a program whose code path is never the
/// same twice must not displace the kernel stacks that show why threads wait. Further stacks are
/// counted, and their requests have none.
const MOST_STACKS: usize = 20_000;
/// Samples whose requests have not arrived yet; those of a full map were lost.
const MOST_PENDING: usize = 65_536;

/// The reason for unnamed functions whose names could be read.
const UNREAD: &str =
    "not all named: the symbols are not in memory, and reading them would load the disk";

/// Reasons why a user stack does not reach its root.
const EARLY: &str = "ends early: the program uses no frame pointers";
/// Why a user stack that reaches its root is not whole.
const LEFT_OUT: &str = "callers are left out: the program uses no frame pointers";
const NAMELESS: &str = "code without names: a stripped program, or a JIT without perf map";

/// Methods by which a user stack was unwound.
const BY_FRAME_POINTERS: &str = "frame pointers";
const BY_TABLES: &str = ".eh_frame";

/// The reason for a stack without any names.
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
    kernel_names: KernelNames,
    reader: FileAsker,
    /// Stacks of programs without frame pointers.
    pub copied: CopiedStacks,
    known: FxHashMap<KnownFrames, u64>,
    /// Number of known stacks that are the kernel's.
    kernel: usize,
    named: FxHashMap<Content, u64>,
    /// Of user stacks: whether they are complete, and how many frames they have.
    shapes: FxHashMap<u64, (bool, usize)>,
    pending: RestartingMap<u32, Sampled, MOST_PENDING>,
    refused: u64,
}

/// The origin of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum StackOrigin {
    Kernel,
    /// A process, along frame pointers.
    Walked(u32),
    /// A process, by tables, and why the stack ends there.
    Unwound(u32, UnwindEnd),
}

impl StackOrigin {
    fn process(self) -> Option<u32> {
        match self {
            StackOrigin::Kernel => None,
            StackOrigin::Walked(process) | StackOrigin::Unwound(process, _) => Some(process),
        }
    }

    fn unwound_by(self) -> Option<&'static str> {
        match self {
            StackOrigin::Kernel => None,
            StackOrigin::Walked(_) => Some(BY_FRAME_POINTERS),
            StackOrigin::Unwound(..) => Some(BY_TABLES),
        }
    }
}

type KnownFrames = (StackOrigin, Box<[u64]>);

/// The content of a stack in the recording: stacks with equal content are the same.
type Content = (Option<&'static str>, Option<&'static str>, Vec<Name>);

impl SeenStacks {
    /// Without stacks; `reader` reads programs.
    pub fn new(reader: FileAsker) -> SeenStacks {
        SeenStacks {
            kernel_names: KernelNames::default(),
            reader,
            copied: CopiedStacks::default(),
            known: FxHashMap::default(),
            kernel: 0,
            named: FxHashMap::default(),
            shapes: FxHashMap::default(),
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
            kernel: self.id(StackOrigin::Kernel, kernel_frames, out),
            user: self.id(StackOrigin::Walked(tgid), user_frames, out),
        };
        self.pending.insert(sample, sampled);
        Some(())
    }

    /// Adds a `wire_copied_stack`, which arrives after the `wire_stack` of its sample, and before
    /// its request or wait.
    pub fn add_copied(&mut self, bytes: &[u8], out: &mut RowOutput<'_>) -> Option<()> {
        let (copy, stack) = CopiedStack::parse(bytes)?;
        self.copied.copied.0 += 1;
        self.copied.copied.1 += u64::from(copy.took_ns);
        // A process that has ended is described by the walk along its frame pointers, as is one
        // whose memory cannot be read in time.
        let Ok(Some(unwound)) = copy.unwind(stack, &self.reader) else { return Some(()) };
        if unwound.end == UnwindEnd::TooDeep {
            self.copied.note_deep(copy.process);
        }
        let origin = StackOrigin::Unwound(copy.process, unwound.end);
        let found = self.id(origin, &unwound.frames, out);
        if copy.sample == 0 {
            found.into_iter().for_each(|id| self.copied.add_of_wait(copy.wait, id));
        } else if let Some(sampled) = self.pending.remove(&copy.sample) {
            let user = self.better(sampled.user, found);
            self.pending.insert(copy.sample, Sampled { user, ..sampled });
        }
        Some(())
    }

    /// Of the same stack along frame pointers and by tables: frame pointers if they lead to the
    /// beginning, else the one that does, else the longer one.
    pub fn better(&self, walked: Option<u64>, unwound: Option<u64>) -> Option<u64> {
        let shape = |id: Option<u64>| id.and_then(|id| self.shapes.get(&id));
        let is_whole = shape(walked).is_some_and(|(is_complete, _)| *is_complete);
        if !is_whole && shape(unwound) > shape(walked) { unwound } else { walked }
    }

    /// Returns the stacks of `sample` and removes them.
    pub fn take(&mut self, sample: u32) -> Sampled {
        self.pending.remove(&sample).unwrap_or_default()
    }

    /// The number of a kernel stack that is not a sample.
    pub fn kernel(&mut self, frames: &[u64], out: &mut RowOutput<'_>) -> Option<u64> {
        self.id(StackOrigin::Kernel, frames, out)
    }

    /// The number of a process's stack that is not a sample.
    pub fn user(&mut self, process: u32, frames: &[u64], out: &mut RowOutput<'_>) -> Option<u64> {
        self.id(StackOrigin::Walked(process), frames, out)
    }

    /// The functions at `frames` of a process, without adding a stack.
    pub fn functions(&mut self, process: u32, frames: &[u64], names: &mut Names) -> Vec<Name> {
        if frames.is_empty() {
            return Vec::new();
        }
        self.name(StackOrigin::Walked(process), frames, names).0
    }

    /// The functions of the stack with that number, innermost first.
    pub fn frames_of(&self, stack_id: u64) -> Option<&[Name]> {
        let found = self.named.iter().find(|(_, id)| **id == stack_id);
        found.map(|((_, _, frames), _)| frames.as_slice())
    }

    fn id(&mut self, origin: StackOrigin, frames: &[u64], out: &mut RowOutput<'_>) -> Option<u64> {
        if frames.is_empty() {
            return None;
        }
        let key = (origin, frames.into());
        if let Some(id) = self.known.get(&key) {
            return Some(*id);
        }
        let is_kernel = origin == StackOrigin::Kernel;
        let kept = if is_kernel { self.kernel } else { self.known.len() - self.kernel };
        if kept >= MOST_STACKS {
            self.refused += 1;
            return None;
        }
        self.kernel += usize::from(is_kernel);
        let (texts, reason) = self.name(origin, frames, out.names);
        if let (StackOrigin::Walked(process), Some(EARLY | LEFT_OUT | NAMELESS)) = (origin, reason)
        {
            self.copied.note_process(process);
        }
        let content = (origin.unwound_by(), reason, texts);
        let next = self.named.len() as u64 + 1;
        let id = *self.named.entry(content.clone()).or_insert(next);
        self.known.insert(key, id);
        if !is_kernel {
            self.shapes.insert(id, (reason.is_none(), content.2.len()));
        }
        if id == next {
            out.batch.stacks.push(Stack {
                stack_id: id,
                user: !is_kernel,
                frames: content.2,
                complete: reason.is_none(),
                reason: reason.map(|reason| out.names.intern(reason)),
                unwound_by: origin.unwound_by().map(|way| out.names.intern(way)),
            });
        }
        Some(id)
    }

    /// The names of the frames, and why they are not the complete stack.
    fn name(
        &mut self,
        origin: StackOrigin,
        frames: &[u64],
        names: &mut Names,
    ) -> (Vec<Name>, Option<&'static str>) {
        let functions = match origin.process() {
            None => Ok(self.kernel_names.of(frames)),
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
        let reason =
            incomplete(origin, frames.len(), end).or_else(|| self.left_out(origin, frames));
        (texts, if is_unread { Some(UNREAD) } else { reason })
    }

    /// Why a walk that reaches its root is not the whole stack. On x86-64 code without frame
    /// pointers uses the register for something else, and a walk ends there; on aarch64 it mostly
    /// leaves it alone, and a walk goes on with an outer function's.
    fn left_out(&self, origin: StackOrigin, frames: &[u64]) -> Option<&'static str> {
        let StackOrigin::Walked(process) = origin else { return None };
        let is_left_out =
            cfg!(target_arch = "aarch64") && self.reader.leaves_out(process, frames) == Ok(true);
        is_left_out.then_some(LEFT_OUT)
    }

    /// Adds the stacks that were dropped.
    pub fn losses(&self, losses: &mut Losses) {
        losses.add("stacks", self.refused, "stacks beyond those that iowhy keeps", false);
    }
}

/// Kinds of an outermost frame, as far as they tell whether its stack is complete.
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
    if texts.is_empty() && is_own(name) {
        return Frame::Own;
    }
    for inlined in inlined {
        texts.push(names.intern(inlined));
    }
    texts.push(names.intern(name));
    if is_root(name) { Frame::Root } else { Frame::Named }
}

/// Whether the kernel came from a tracepoint to the program in this function. Which of them leave a
/// frame depends on the processor: what is a jump on x86-64 is a call on aarch64.
fn is_own(name: &str) -> bool {
    const OWN: &[&str] = &["bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"];
    OWN.iter().any(|start| name.starts_with(start))
}

fn is_root(name: &str) -> bool {
    const ROOTS: &[&str] = &[
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        // glibc's on aarch64, where clone calls it.
        "thread_start",
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

/// Returns the reason why a stack is incomplete. A walk along frame pointers is trusted only if it
/// reaches a function that threads start in: without them it ends early, or anywhere.
fn incomplete(origin: StackOrigin, frames: usize, end: Frame) -> Option<&'static str> {
    let (most, user) = match origin {
        StackOrigin::Kernel => (wire::WIRE_KERNEL_FRAMES, false),
        StackOrigin::Walked(_) => (wire::WIRE_USER_FRAMES, true),
        StackOrigin::Unwound(_, why) => {
            return if end == Frame::Root { None } else { reason_of(why) };
        }
    };
    match end {
        // Without frame pointers a walk can go round in the heap.
        Frame::Wild if user => Some(EARLY),
        _ if frames >= most as usize => Some("deeper than iowhy reads"),
        Frame::Root => None,
        _ if !user => None,
        Frame::Nameless => Some(NAMELESS),
        Frame::Named | Frame::Wild | Frame::Own => Some(EARLY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> FrameName {
        FrameName::Named { name: name.to_owned(), inlined: Vec::new() }
    }

    /// Returns the frames that remain of a stack, the innermost first.
    fn left(frames: &[&str]) -> String {
        let (mut texts, mut names) = (Vec::new(), Names::new());
        for frame in frames {
            push(&named(frame), 0, &mut texts, &mut names);
        }
        let texts: Vec<&str> = texts.iter().map(|name| names.get(*name)).collect();
        texts.join(" < ")
    }

    #[test]
    fn the_way_to_the_program_is_no_part_of_a_stack() {
        let expected = "submit_bio_noacct_nocheck < submit_bio";
        for own in [
            &["bpf_prog_1b4e_on_queue", "bpf_trace_run1"][..],
            // aarch64, and where another program is attached, too.
            &["bpf_prog_1b4e_on_queue", "bpf_trace_run1", "__bpf_trace_block_bio"],
            &["__bpf_trace_block_bio", "__traceiter_block_bio_queue"],
            &[],
        ] {
            let frames = [own, &["submit_bio_noacct_nocheck", "submit_bio"]].concat();
            assert_eq!(left(&frames), expected);
        }
        // Further out it is another program's.
        let nested = ["vfs_read", "bpf_trace_run1", "submit_bio"];
        assert_eq!(left(&nested), "vfs_read < bpf_trace_run1 < submit_bio");
    }
}
