//! Stacks of real programs that are compiled here without frame pointers.

#[cfg(test)]
use super::*;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tempfile::TempDir;

/// The functions of `test.c`, in the order in which it names their addresses.
const FUNCTIONS: [&str; 6] = ["snapshot", "recursion", "variable", "on_signal", "thread", "main"];
/// None of them is longer.
const MOST_OF_FUNCTION: u64 = 1024;

/// A program that has handed over its stack and waits.
struct StoppedProgram {
    child: Child,
    _input: ChildStdin,
    registers: CopiedRegisters,
    functions: Vec<u64>,
    stack: Vec<u8>,
}

impl StoppedProgram {
    fn start(program: &Path, mode: &str) -> StoppedProgram {
        let mut command = Command::new(program);
        command.arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut bytes = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
        let word = |place: usize| word_at(&bytes, place as u64 * 8).unwrap();
        StoppedProgram {
            child,
            _input: input,
            registers: CopiedRegisters {
                instruction: word(0),
                stack_pointer: word(1),
                frame_pointer: word(2),
                link: word(3),
            },
            functions: (4..10).map(word).collect(),
            stack: bytes.split_off(80),
        }
    }

    fn unwound(&self) -> UnwoundStack {
        let mut unwinder = StackUnwinder::default();
        let mut allowance = Allowance::default();
        unwinder.unwind(self.child.id(), &self.registers, &self.stack, &mut allowance).unwrap()
    }

    /// The program's own function at an address.
    fn name(&self, frame: u64) -> Option<&'static str> {
        let known = self.functions.iter().zip(FUNCTIONS);
        let before = known.filter(|(start, _)| **start <= frame).max_by_key(|(start, _)| **start);
        before.filter(|(start, _)| frame - *start < MOST_OF_FUNCTION).map(|(_, name)| name)
    }

    /// The program's own functions in a stack, without repetitions.
    fn names(&self, unwound: &UnwoundStack) -> Vec<&'static str> {
        let mut names: Vec<_> =
            unwound.frames.iter().filter_map(|frame| self.name(*frame)).collect();
        // Beyond these is the C library, which follows directly in a static program.
        let root = names.iter().position(|name| ["main", "thread"].contains(name));
        names.truncate(root.map_or(names.len(), |root| root + 1));
        names.dedup();
        names
    }
}

impl Drop for StoppedProgram {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn compile(directory: &TempDir, options: &[&str]) -> PathBuf {
    let program = directory.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/reader/unwind/test.c");
    let mut command = Command::new("cc");
    command.args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"]).arg(&program);
    assert!(command.arg(source).args(options).status().unwrap().success());
    program
}

/// Whether mapped files can be opened here; says so if not.
fn can_run() -> bool {
    let may = rustix::process::geteuid().is_root();
    assert!(
        may || std::env::var_os("CI").is_none(),
        "only root may open the files that are mapped"
    );
    if !may {
        println!("skipped: only root may open the files that are mapped");
    }
    may
}

#[test]
fn a_function_without_frame_pointer_is_seen_in_its_table() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (option, leaves_out) in [("-fomit-frame-pointer", true), ("-fno-omit-frame-pointer", false)]
    {
        let program = compile(&directory, &[option]);
        let stopped = StoppedProgram::start(&program, "plain");
        let unwound = stopped.unwound();
        let main = |frame: &u64| stopped.name(*frame) == Some("main");
        let main = unwound.frames.iter().position(main).unwrap();
        // From the innermost to main, as a walk has them: addresses that are returned to.
        let walked: Vec<u64> = unwound.frames[..=main].iter().map(|frame| frame + 1).collect();
        assert!(walked.len() > 3, "{:x?}", unwound.frames);
        let mut unwinder = StackUnwinder::default();
        let mut allowance = Allowance::default();
        let found = unwinder.leaves_out(stopped.child.id(), &walked, &mut allowance);
        assert_eq!(found, leaves_out, "{option}: {walked:x?}");
    }
}

#[test]
fn stacks_without_frame_pointers_lead_to_their_beginning() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for options in [&[][..], &["-static"], &["-no-pie"], &["-s"], &["-O0"]] {
        let program = compile(&directory, options);
        let of = |mode: &str| {
            let stopped = StoppedProgram::start(&program, mode);
            let unwound = stopped.unwound();
            (stopped.names(&unwound), unwound.end)
        };
        let plain = ["snapshot", "variable", "recursion", "main"];
        assert_eq!(of("plain"), (plain.to_vec(), UnwindEnd::Root), "{options:?}");
        let thread = ["snapshot", "variable", "recursion", "thread"];
        assert_eq!(of("thread"), (thread.to_vec(), UnwindEnd::Root), "{options:?}");
        if cfg!(target_arch = "x86_64") {
            let signal = ["snapshot", "on_signal", "variable", "recursion", "main"];
            assert_eq!(of("signal"), (signal.to_vec(), UnwindEnd::Root), "{options:?}");
        }
    }
}

#[test]
fn a_stack_that_was_cut_says_so() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut stopped = StoppedProgram::start(&compile(&directory, &[]), "deep");
    let all = stopped.unwound();
    assert_eq!(all.end, UnwindEnd::Root);
    assert!(all.frames.len() > 100);
    stopped.stack.truncate(4096);
    let cut = stopped.unwound();
    assert_eq!(cut.end, UnwindEnd::TooDeep);
    assert!(cut.frames.len() > 10 && all.frames.starts_with(&cut.frames));
    stopped.stack.clear();
    assert_eq!(stopped.unwound().frames, all.frames[..1]);
}

#[test]
fn a_file_that_was_replaced_is_not_used() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(&directory, &[]);
    let stopped = StoppedProgram::start(&program, "plain");
    let other = directory.path().join("other");
    fs::copy("/bin/true", &other).unwrap();
    fs::rename(&other, &program).unwrap();
    let unwound = stopped.unwound();
    assert_eq!(unwound.end, UnwindEnd::Root, "the mapped file is still there");
    assert!(stopped.names(&unwound).ends_with(&["main"]));
}

/// Position and length of `.eh_frame` and of its index in a program.
fn sections(bytes: &[u8]) -> Vec<(usize, usize)> {
    use object::{Object, ObjectSection};
    let program = object::File::parse(bytes).unwrap();
    let section = |name| program.section_by_name(name).unwrap().file_range().unwrap();
    let found = [".eh_frame", ".eh_frame_hdr"].map(section);
    found.iter().map(|(from, length)| (*from as usize, *length as usize)).collect()
}

#[test]
fn hostile_tables_lead_nowhere() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(&directory, &[]);
    let good = fs::read(&program).unwrap();
    let places = sections(&good);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..40 {
        let mut bytes = good.clone();
        let (from, length) = places[round % 2];
        for place in 0..1 + round * length / 40 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = from + if round < 20 { random as usize % length } else { place };
            bytes[at] = if round % 4 < 2 { (random >> 32) as u8 } else { 0 };
        }
        let hostile = directory.path().join(format!("hostile-{round}"));
        fs::write(&hostile, &bytes).unwrap();
        fs::set_permissions(&hostile, fs::metadata(&program).unwrap().permissions()).unwrap();
        let stopped = StoppedProgram::start(&hostile, "plain");
        let unwound = stopped.unwound();
        assert!(unwound.frames.len() <= MOST_FRAMES, "round {round}");
        let code = fs::read_to_string(format!("/proc/{}/maps", stopped.child.id())).unwrap();
        let code: Vec<_> = code_in(&code).collect();
        for frame in &unwound.frames {
            let is_code = code.iter().any(|mapping| (mapping.start..mapping.end).contains(frame));
            assert!(is_code, "round {round}: {frame:#x}");
        }
    }
}

#[test]
fn a_process_that_is_gone_has_no_stack() {
    let mut unwinder = StackUnwinder::default();
    let registers = CopiedRegisters { instruction: 1, ..CopiedRegisters::default() };
    assert_eq!(unwinder.unwind(u32::MAX, &registers, &[0; 64], &mut Allowance::default()), None);
}

#[test]
fn registers_that_lead_anywhere_are_no_stack() {
    let mut unwinder = StackUnwinder::default();
    for word in [0, 1, 7, u64::MAX, u64::MAX - 7, 1 << 63] {
        let registers = CopiedRegisters {
            instruction: word,
            stack_pointer: word,
            frame_pointer: word,
            link: word,
        };
        let own = std::process::id();
        let unwound = unwinder.unwind(own, &registers, &[0xff; 64], &mut Allowance::default());
        assert_eq!(unwound, Some(UnwoundStack { frames: Vec::new(), end: UnwindEnd::Lost }));
    }
}
