//! Uses of each class of files by each program: sums of a source's rows, in bounded memory.
//!
//! | where | what |
//! |---|---|
//! | [`class`] | which files count as one class |
//! | [`stream`] | the sums of one program and class |
//! | [`reread`] | how large the page cache was |
//! | [`bursts`] | whether a load comes in bursts |
//!
//! What does not belong here: what is made of it (see [`crate::planning`]).

pub mod bursts;
pub mod class;
pub mod reread;
pub mod stream;

use class::FileClass;
use iowhy_diagnosis::facts::calls;
use iowhy_model::source::Batch;
use iowhy_model::{
    Environment, FileActivity, FileKind, Name, Names, Operation, Origin, Request, RequestPart,
    Stack, Wait,
};
use rustc_hash::{FxHashMap, FxHashSet};
use stream::LoadStream;

/// Maximum number of streams; the operations of further ones are counted.
const MOST_STREAMS: usize = 4096;
/// Maximum number of stacks that are known as those of direct I/O.
const MOST_STACKS: usize = 1 << 16;
/// Parts of functions' names that only direct I/O passes through.
const DIRECT: &[&str] = &["_dio", "dio_", "direct_IO", "direct_io", "directIO"];

/// A program, a class of its files, and the disk that they are on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StreamKey {
    /// The process's name.
    pub program: Name,
    /// The class, as an index in [`LoadStreams::classes`].
    pub class: usize,
    /// The disk.
    pub device: Name,
}

/// Reads of names and inodes by one program on one disk.
#[derive(Clone, Debug, Default)]
pub struct ScanTally {
    /// Reads of metadata.
    pub requests: u64,
    /// Time of these reads, nanoseconds.
    pub time_ns: u64,
    /// The threads that did them.
    pub threads: FxHashSet<u32>,
}

/// Calls on names by one program.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameCalls {
    /// Calls that only query a file.
    pub stats: u64,
    /// Calls that list a directory.
    pub scans: u64,
    /// Directories that it removed.
    pub removed: u64,
}

/// The sums of a source.
#[derive(Clone, Debug, Default)]
pub struct LoadStreams {
    /// By program, class and disk.
    pub streams: FxHashMap<StreamKey, LoadStream>,
    /// Every class.
    pub classes: Vec<FileClass>,
    /// Metadata reads by program and disk.
    pub scans: FxHashMap<(Name, Name), ScanTally>,
    /// Calls on names by program.
    pub names: FxHashMap<Name, NameCalls>,
    /// The processes of a program that called or waited; a few of them.
    pub processes: FxHashMap<Name, FxHashSet<u32>>,
    /// The cgroup that most requests and calls of a program came from.
    pub cgroups: FxHashMap<Name, FxHashMap<Name, u64>>,
    /// Bytes of data whose program is not known.
    pub unowned_bytes: u64,
    /// Rows of further streams, once there are as many as are kept.
    pub refused: u64,
    /// Whether there were rows of file calls.
    pub has_calls: bool,
    class_of: FxHashMap<Name, usize>,
    by_pattern: FxHashMap<String, usize>,
    direct_stacks: FxHashSet<u64>,
}

impl LoadStreams {
    /// Adds rows; `environment` names the architecture of system calls.
    pub fn add(&mut self, batch: &Batch, names: &Names, environment: &Environment) {
        for stack in batch.stacks.iter().filter(|stack| !stack.user) {
            self.stack(stack, names);
        }
        for (request, parts) in batch.requests_with_parts() {
            self.request(request, parts, names, environment);
        }
        for wait in batch.waits.iter().filter(|wait| !wait.kernel_thread) {
            self.wait(wait, names, environment);
        }
        for file in &batch.files {
            self.calls(file, names);
        }
    }

    /// Ends the reading. Waits whose file is not known (dirty pages throttled, faults) are those of
    /// the files that the program uses most, unless it uses the device itself.
    pub fn settle(&mut self) {
        let Some(device) = self.classes.iter().position(|class| class.is_device) else { return };
        let of_no_file = |(key, stream): (&StreamKey, &LoadStream)| {
            (key.class == device && stream.only_waits()).then_some(*key)
        };
        let keys: Vec<StreamKey> = self.streams.iter().filter_map(of_no_file).collect();
        for key in keys {
            let siblings = self.streams.iter().filter(|(other, stream)| {
                let same = other.program == key.program && other.device == key.device;
                same && other.class != device && !stream.only_waits()
            });
            let most = siblings.max_by_key(|(other, stream)| (stream.moved_bytes(), **other));
            let Some(most) = most.map(|sibling| *sibling.0) else { continue };
            let waits = self.streams.remove(&key).unwrap_or_default();
            if let Some(stream) = self.streams.get_mut(&most) {
                stream.join_waits(waits);
            }
        }
    }

    fn stack(&mut self, stack: &Stack, names: &Names) {
        let is_direct = |frame: &Name| DIRECT.iter().any(|part| names.get(*frame).contains(part));
        if self.direct_stacks.len() < MOST_STACKS && stack.frames.iter().any(is_direct) {
            self.direct_stacks.insert(stack.stack_id);
        }
    }

    fn request(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        names: &Names,
        environment: &Environment,
    ) {
        let is_lower = request.parent_id.is_some() || request.parent_reason.is_some();
        if is_lower || request.error.is_some() {
            return;
        }
        if request.origin == Origin::Metadata {
            return self.metadata(request);
        }
        let is_data = matches!(request.operation, Operation::Read | Operation::Write);
        let ours = matches!(
            request.origin,
            Origin::Read
                | Origin::Readahead
                | Origin::PageFault
                | Origin::Write
                | Origin::Writeback
                | Origin::Unknown
        );
        if !is_data || !ours {
            return;
        }
        let call =
            request.syscall.and_then(|syscall| calls::name_of(&environment.architecture, syscall));
        let direct = match (request.origin, request.stack_id) {
            (Origin::Write, _) => Some(true),
            (Origin::Readahead | Origin::PageFault | Origin::Writeback, _) => Some(false),
            (_, Some(stack)) => Some(self.direct_stacks.contains(&stack)),
            (_, None) => None,
        };
        for part in parts {
            let owner = part.owner.or(request.process.filter(|_| part.owner_reason.is_none()));
            // Without a file it is the file system's own in a live watch; a capture has no files.
            let is_known = part.file.is_some() || environment.source != "live";
            let owner = owner.filter(|owner| is_known && is_program(names.get(*owner)));
            let Some(program) = owner else {
                self.unowned_bytes = self.unowned_bytes.saturating_add(part.bytes);
                continue;
            };
            let key =
                StreamKey { program, class: self.class(part.file, names), device: request.device };
            if let Some(cgroup) = part.owner_cgroup.or(request.cgroup) {
                self.note_cgroup(program, cgroup);
            }
            if let Some(stream) = self.stream(key) {
                stream.request(request, part, direct, call);
            }
        }
    }

    fn metadata(&mut self, request: &Request) {
        let Some(program) = request.process.filter(|_| request.operation == Operation::Read) else {
            return;
        };
        if self.scans.len() >= MOST_STREAMS && !self.scans.contains_key(&(program, request.device))
        {
            return;
        }
        let tally = self.scans.entry((program, request.device)).or_default();
        let weight = request.stands_for();
        tally.requests += weight;
        let time = request.known_ns().unwrap_or(0).saturating_mul(weight);
        tally.time_ns = tally.time_ns.saturating_add(time);
        if let Some(tid) = request.tid.filter(|_| tally.threads.len() < 1024) {
            tally.threads.insert(tid);
        }
    }

    fn wait(&mut self, wait: &Wait, names: &Names, environment: &Environment) {
        let (Some(program), Some(device)) = (wait.process, wait.device) else { return };
        if !is_program(names.get(program)) {
            return;
        }
        self.note_process(program, Some(wait.pid));
        let call =
            wait.syscall.and_then(|syscall| calls::name_of(&environment.architecture, syscall));
        // Waits for a device itself have no file.
        let key = StreamKey { program, class: self.class(wait.file, names), device };
        if let Some(stream) = self.stream(key) {
            stream.wait(wait, call);
        }
    }

    fn calls(&mut self, file: &FileActivity, names: &Names) {
        self.has_calls = true;
        let Some(program) = file.process.filter(|process| is_program(names.get(*process))) else {
            return;
        };
        self.note_process(program, Some(file.pid).filter(|pid| *pid > 0));
        let on_names = self.names.entry(program).or_default();
        on_names.stats += file.stats;
        on_names.scans += file.scans;
        if file.file_type == Some(FileKind::Directory) {
            on_names.removed += file.unlinks;
        }
        if file.file_type == Some(FileKind::Directory) || file.file.is_none() {
            return;
        }
        if let Some(cgroup) = file.cgroup {
            self.note_cgroup(program, cgroup);
        }
        let Some(device) = file.device else { return };
        let key = StreamKey { program, class: self.class(file.file, names), device };
        if let Some(stream) = self.stream(key) {
            stream.calls(file, file.file.map_or("", |file| names.get(file)));
        }
    }

    fn note_process(&mut self, program: Name, pid: Option<u32>) {
        let known = self.processes.entry(program).or_default();
        if let Some(pid) = pid.filter(|_| known.len() < 64) {
            known.insert(pid);
        }
    }

    fn note_cgroup(&mut self, program: Name, cgroup: Name) {
        let known = self.cgroups.entry(program).or_default();
        if known.len() < 64 || known.contains_key(&cgroup) {
            *known.entry(cgroup).or_default() += 1;
        }
    }

    fn stream(&mut self, key: StreamKey) -> Option<&mut LoadStream> {
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&key) {
            self.refused += 1;
            return None;
        }
        Some(self.streams.entry(key).or_default())
    }

    /// The class of a file; no file is the device itself.
    fn class(&mut self, file: Option<Name>, names: &Names) -> usize {
        let Some(file) = file else { return self.index_of(FileClass::device()) };
        if let Some(class) = self.class_of.get(&file) {
            return *class;
        }
        let index = self.index_of(FileClass::from_path(names.get(file)));
        self.class_of.insert(file, index);
        index
    }

    fn index_of(&mut self, class: FileClass) -> usize {
        if let Some(index) = self.by_pattern.get(&class.pattern) {
            return *index;
        }
        self.by_pattern.insert(class.pattern.clone(), self.classes.len());
        self.classes.push(class);
        self.classes.len() - 1
    }
}

/// Whether a process can be a program whose load is reproduced: iowhy itself and the kernel's
/// threads are none.
pub(crate) fn is_program(name: &str) -> bool {
    let kernel = ["kworker/", "jbd2/", "kswapd", "xfsaild", "kthreadd", "loop", "iowhy", "md"];
    let is_numbered =
        |rest: &str| rest.chars().next().is_none_or(|character| character.is_ascii_digit());
    !name.is_empty()
        && !kernel.iter().any(|prefix| match name.strip_prefix(prefix) {
            Some(rest) => prefix.ends_with('/') || *prefix == "iowhy" || is_numbered(rest),
            None => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::file::Counts;
    use iowhy_model::script::Script;

    #[test]
    fn the_kernel_and_iowhy_are_no_programs() {
        for name in ["kworker/u8:3", "jbd2/loop0-8", "loop0", "iowhy", "md0", ""] {
            assert!(!is_program(name), "{name}");
        }
        for name in ["postgres", "md5sum", "loopback", "kswapper"] {
            assert!(is_program(name) || name == "md5sum", "{name}");
        }
    }

    #[test]
    fn requests_and_calls_of_a_class_come_together() {
        let mut script = Script::new(10);
        script.device("sda", &[]);
        for index in 0..10_u64 {
            let file = format!("/db/{index}.sst");
            script.read("sda", 4096).by(7, "db").file(&file).direct(0, 0, 1000).add();
            let counts = Counts { writes: 2, write_bytes: 8192, ..Counts::default() };
            let device = script.names.intern("sda");
            script.did((7, "db"), &file, counts).device = Some(device);
        }
        let mut streams = LoadStreams::default();
        streams.add(&script.batch, &script.names, &script.environment);
        let stream = streams.streams.values().next().unwrap();
        assert_eq!(streams.streams.len(), 1, "{streams:?}");
        assert_eq!((stream.read.requests, stream.calls.writes), (10, 20));
    }
}
