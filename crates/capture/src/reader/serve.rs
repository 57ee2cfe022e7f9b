//! The reader's side: a process that answers until its input is closed.

use super::MOST_TIME;
use super::allowance::Allowance;
use super::code::Code;
use super::go_names::GoNames;
use super::perf_map::PerfMaps;
use super::question::{FrameName, Lookup, Question, WORDS};
use super::sleeping_stack;
use super::unwind::StackUnwinder;
use crate::host::devices::TUNED;
use crate::host::health;
use crate::host::held::Look;
use crate::host::read_settings;
use crate::host::workload::Workloads;
use crate::priority;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Reason, Symbolized, Symbolizer};
use blazesym::{Addr, Pid};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;

/// Memory of this process, bytes. Programs are anybody's, and an index of all that one says it has
/// in functions may be of any size; that of a browser takes some 20 MiB.
const MOST_MEMORY: u64 = 512 << 20;

/// Bytes of a command line that are kept: one may have megabytes, and every process another.
const MOST_ARGUMENTS: u64 = 16 << 10;

/// Answers questions until the input is closed.
pub fn serve(questions: impl BufRead, mut output: impl Write) -> io::Result<()> {
    // The name attributes the reader's disk reads to iowhy.
    rustix::thread::set_name(c"iowhy")?;
    priority::normal();
    // The reader is given other processes' stacks: they must not be in a core dump.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    bound_memory();
    let mut tools = Tools::default();
    for line in questions.lines() {
        let question: Question = serde_json::from_str(&line?)?;
        bound_cpu_time();
        let mut answer = serde_json::to_string(&tools.answer(&question)?)?;
        answer.push('\n');
        output.write_all(answer.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// Has the kernel refuse this process more memory than it needs: it ends then, and the program that
/// it was asked about is not read again.
fn bound_memory() {
    let now = getrlimit(Resource::Data);
    let most = |limit: Option<u64>| Some(limit.unwrap_or(MOST_MEMORY).min(MOST_MEMORY));
    let limits = Rlimit { current: most(now.current), maximum: most(now.maximum) };
    // A limit that only becomes smaller is always granted.
    let _ = setrlimit(Resource::Data, limits);
}

/// Has the kernel end this process if it computes for much longer on one answer: who asked has
/// given it up by then, and no longer has the right to end processes.
fn bound_cpu_time() {
    let used_s = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    let most =
        Rlimit { current: Some(used_s + 2 * MOST_TIME.as_secs()), ..getrlimit(Resource::Cpu) };
    // A lower limit of the system's stays.
    let _ = setrlimit(Resource::Cpu, most);
}

#[derive(Default)]
struct Tools {
    symbolizer: Symbolizer,
    allowance: Allowance,
    perf_maps: PerfMaps,
    go_names: GoNames,
    code: Code,
    unwinder: StackUnwinder,
    look: Option<Look>,
    workloads: Option<Workloads>,
}

impl Tools {
    fn answer(&mut self, question: &Question) -> serde_json::Result<Value> {
        let process = question.process;
        match &question.what {
            Lookup::Functions(addresses) => {
                serde_json::to_value(self.functions(process, addresses))
            }
            Lookup::Stack { stack_pointer } => serde_json::to_value(sleeping_stack::frames(
                process,
                *stack_pointer,
                &mut self.code,
            )),
            Lookup::Unwind { registers, stack } => {
                let bytes = STANDARD.decode(stack).unwrap_or_default();
                let allowance = &mut self.allowance;
                let unwound = self.unwinder.unwind(process, registers, &bytes, allowance);
                serde_json::to_value(unwound)
            }
            Lookup::LeavesOut(frames) => {
                let left_out = self.unwinder.leaves_out(process, frames, &mut self.allowance);
                serde_json::to_value(left_out)
            }
            Lookup::Words { address } => serde_json::to_value(words_at(process, *address)),
            Lookup::Arguments => serde_json::to_value(arguments_of(process)),
            Lookup::Settings { directories } => {
                let all = directories.iter().map(|directory| read_settings(directory, TUNED));
                serde_json::to_value(all.collect::<Vec<_>>())
            }
            Lookup::Health { device } => serde_json::to_value(health::ask(device)),
            Lookup::Workload { cgroup } => {
                let workloads = self.workloads.get_or_insert_with(Workloads::default);
                serde_json::to_value(workloads.of(cgroup))
            }
            Lookup::Held { prefixes } => {
                let look = self.look.get_or_insert_with(Look::default);
                serde_json::to_value(look.process(process, prefixes))
            }
        }
    }

    /// Returns the functions at `addresses`, as far as they may be read; `None` if the process has
    /// exited.
    fn functions(&mut self, process: u32, addresses: &[Addr]) -> Option<Vec<FrameName>> {
        self.allowance.begin();
        // Addresses behind the first one without code were never called.
        let is_code = self.code.holds(process, addresses);
        let walked = is_code.iter().take_while(|is_code| **is_code).count();
        let (walked, wild) = addresses.split_at(walked);
        let covered: Vec<bool> =
            walked.iter().map(|address| self.allowance.covers(process, *address)).collect();
        let readable = walked.iter().zip(&covered).filter(|(_, covered)| **covered);
        let readable: Vec<Addr> = readable.map(|(address, _)| *address).collect();
        let mut named = self.named(process, &readable)?.into_iter();
        let name = |covered: &bool| match covered {
            true => named.next().unwrap_or(FrameName::Nameless),
            false => FrameName::Unread,
        };
        let functions = covered.iter().map(name);
        Some(functions.chain(wild.iter().map(|_| FrameName::Wild)).collect())
    }

    fn named(&mut self, process: u32, addresses: &[Addr]) -> Option<Vec<FrameName>> {
        let source =
            Source::Process(Process { perf_map: false, ..Process::new(Pid::from(process)) });
        let Ok(symbols) = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)) else {
            return self.in_halves(process, addresses);
        };
        let (perf_maps, go_names) = (&mut self.perf_maps, &mut self.go_names);
        let named = symbols.iter().zip(addresses).map(|(symbol, address)| {
            let place = match FrameName::from_symbol(symbol) {
                FrameName::Nameless => self.allowance.place(process, *address),
                name => return name,
            };
            // Compiled code may be mapped from a file in memory.
            let of_go = place.and_then(|place| go_names.name(&place, &mut self.allowance));
            of_go.unwrap_or_else(|| {
                let name = perf_maps.name(process, *address);
                name.map_or(FrameName::Nameless, |name| FrameName::Compiled(name.into_owned()))
            })
        });
        Some(named.collect())
    }

    /// Halves the list as long as one address makes all fail, because it is in shared memory or in
    /// a file that cannot be opened: for example after a wrong stack walk.
    fn in_halves(&mut self, process: u32, addresses: &[Addr]) -> Option<Vec<FrameName>> {
        if !is_there(process) {
            return None;
        }
        if addresses.len() < 2 {
            return Some(vec![FrameName::Nameless; addresses.len()]);
        }
        let (first, rest) = addresses.split_at(addresses.len() / 2);
        let mut functions = self.named(process, first)?;
        functions.extend(self.named(process, rest)?);
        Some(functions)
    }
}

impl FrameName {
    /// Converts a symbol.
    pub fn from_symbol(symbol: &Symbolized<'_>) -> FrameName {
        match symbol {
            Symbolized::Sym(symbol) => FrameName::Named {
                name: symbol.name.to_string(),
                inlined: symbol.inlined.iter().rev().map(|one| one.name.to_string()).collect(),
            },
            Symbolized::Unknown(Reason::Unmapped | Reason::InvalidFileOffset) => FrameName::Wild,
            Symbolized::Unknown(_) => FrameName::Nameless,
        }
    }
}

/// Whether the process is alive; a zombie has no memory.
fn is_there(process: u32) -> bool {
    std::fs::read(format!("/proc/{process}/maps")).is_ok_and(|maps| !maps.is_empty())
}

fn words_at(process: u32, address: u64) -> Option<[u32; WORDS]> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let mut bytes = [0; WORDS * size_of::<u32>()];
    memory.read_exact_at(&mut bytes, address).ok()?;
    let (words, _) = bytes.as_chunks::<4>();
    let mut found = [0; WORDS];
    found.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_ne_bytes(*bytes));
    Some(found)
}

fn arguments_of(process: u32) -> Option<String> {
    let path = format!("/proc/{process}/cmdline");
    let bytes = iowhy_fs::read::beginning(path.as_ref(), MOST_ARGUMENTS);
    let line = String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ");
    (!line.is_empty()).then_some(line)
}
