//! State that the decoders of all probe groups share: entities that earlier records described, and
//! the rows that are being built.
//!
//! | where | what |
//! |---|---|
//! | [`DecodeContext`] | what a record is decoded with |
//! | [`KnownEntities`] | what records refer to: [`files`], [`tasks`], [`cgroups`], [`stacks`] |
//! | [`operation`] | the kernel's operation and flags: operation, rwbs |
//! | [`status`] | the error that a request or a bio ended with |
//!
//! What does not belong here: reading the ring buffer (see [`crate::session`]), and which decoder
//! a record is for (see [`crate::probes`]).

pub mod cgroups;
pub mod copied_stacks;
pub mod files;
mod kernel_names;
pub mod operation;
pub mod stacks;
pub mod status;
pub mod tasks;

use crate::host::cgroup::Roots;
use crate::host::devices::DeviceNames;
use crate::host::mounts::Mounts;
use crate::kernel::KernelFeatures;
use crate::reader::FileAsker;
use crate::wire;
use cgroups::KnownCgroups;
use files::KnownFiles;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Losses, Name, Names};
use operation::OperationNames;
use rustc_hash::FxHashMap;
use stacks::SeenStacks;
use status::StatusCodes;
use tasks::Tasks;
use zerocopy::FromBytes;

/// The destination of decoded rows.
pub struct RowOutput<'a> {
    /// The rows that are handed over next.
    pub batch: &'a mut Batch,
    /// The texts that rows refer to.
    pub names: &'a mut Names,
}

/// The context in which a record is decoded.
pub struct DecodeContext<'a> {
    /// Entities that records refer to.
    pub known: &'a mut KnownEntities,
    /// The destination of the rows.
    pub out: RowOutput<'a>,
}

/// Entities that records refer to by number: filled by the records that describe them, which come
/// first.
pub struct KnownEntities {
    /// Threads and processes.
    pub tasks: Tasks,
    /// Files by inode.
    pub files: KnownFiles,
    /// Cgroups and their limits.
    pub cgroups: KnownCgroups,
    /// Stacks by content.
    pub stacks: SeenStacks,
    /// Disks and partitions by number.
    pub devices: DeviceNames,
    /// The mounts.
    pub mounts: Mounts,
    /// Meanings of operations and their flags.
    pub operations: OperationNames,
    /// Meanings of completion statuses.
    pub statuses: StatusCodes,
    mounts_read_ns: u64,
    device_names: FxHashMap<u32, Name>,
}

impl KnownEntities {
    /// Begins with what `environment` tells of the machine; `arguments` says whether command lines
    /// are read.
    pub fn new(
        facts: &KernelFeatures,
        environment: &Environment,
        reader: &FileAsker,
        arguments: bool,
    ) -> KnownEntities {
        KnownEntities {
            tasks: Tasks::new(arguments.then(|| reader.clone())),
            files: KnownFiles::default(),
            cgroups: KnownCgroups::new(Roots::find(), reader.clone()),
            stacks: SeenStacks::new(reader.clone()),
            devices: DeviceNames::from_devices(&environment.devices),
            mounts: Mounts::read(),
            operations: OperationNames::new(&facts.operations),
            statuses: StatusCodes::new(facts),
            mounts_read_ns: 0,
            device_names: FxHashMap::default(),
        }
    }

    /// File systems can be mounted during the watch; read at most once a second.
    fn read_mounts_again(&mut self) {
        let now = crate::host::system::now_ns();
        if now.saturating_sub(self.mounts_read_ns) > 1_000_000_000 {
            self.mounts_read_ns = now;
            self.mounts = Mounts::read();
        }
    }

    /// The kernel's name of a disk or partition.
    pub fn device_name(&mut self, device: u32, names: &mut Names) -> Name {
        match self.device_names.get(&device) {
            Some(name) => *name,
            None => {
                let name = names.intern(self.devices.get(device));
                self.device_names.insert(device, name);
                name
            }
        }
    }

    /// Adds the entities that could not be kept.
    pub fn losses(&self, losses: &mut Losses) {
        self.stacks.losses(losses);
        self.files.losses(losses);
    }
}

impl<'a> DecodeContext<'a> {
    /// Decodes into `batch`.
    pub fn new(
        known: &'a mut KnownEntities,
        batch: &'a mut Batch,
        names: &'a mut Names,
    ) -> DecodeContext<'a> {
        DecodeContext { known, out: RowOutput { batch, names } }
    }

    /// The name of a text, for a row.
    pub fn name(&mut self, text: &str) -> Name {
        self.out.names.intern(text)
    }

    /// The kernel's name of a disk or partition.
    pub fn device_name(&mut self, device: u32) -> Name {
        self.known.device_name(device, self.out.names)
    }

    /// Adds a `wire_task`.
    pub fn add_task(&mut self, bytes: &[u8]) -> Option<()> {
        let KnownEntities { tasks, files, cgroups, .. } = &mut *self.known;
        tasks.add(bytes, files, cgroups, &mut self.out)
    }

    /// Adds a process that no record has described yet.
    pub fn meet(&mut self, pid: u32) {
        self.known.tasks.meet(pid, &self.known.cgroups, &mut self.out);
    }

    /// Adds a `wire_file`.
    pub fn add_file(&mut self, bytes: &[u8]) -> Option<()> {
        let file = files::parse(bytes)?;
        let (major, minor) = (file.inode.device >> 20, file.inode.device & 0xf_ffff);
        if !self.known.mounts.knows(major, minor) {
            self.known.read_mounts_again();
        }
        let KnownEntities { files, mounts, devices, .. } = &mut *self.known;
        let device = devices.get(file.inode.device);
        files.add(&file, mounts, device, self.out.names);
        Some(())
    }

    /// Adds a `wire_cgroup`.
    pub fn add_cgroup(&mut self, bytes: &[u8]) -> Option<()> {
        self.known.cgroups.add(bytes, self.out.names)
    }

    /// Adds a `wire_stack`.
    pub fn add_stack(&mut self, bytes: &[u8]) -> Option<()> {
        self.known.stacks.add(bytes, &mut self.out)
    }

    /// Adds a `wire_copied_stack`.
    pub fn add_copied_stack(&mut self, bytes: &[u8]) -> Option<()> {
        self.known.stacks.add_copied(bytes, &mut self.out)
    }
}

/// Joins names from the leaf up to the root to a path from the root: `/a/b`.
fn path_of(names: &wire::wire_names, text: &[u8]) -> String {
    let text = &text[..text.len().min(names.bytes as usize)];
    let parts: Vec<_> = text.split(|byte| *byte == 0).filter(|part| !part.is_empty()).collect();
    let mut path = String::with_capacity(text.len() + 8);
    if names.cut != 0 {
        path.push_str("/…");
    }
    for part in parts.iter().rev() {
        path.push('/');
        path.push_str(&String::from_utf8_lossy(part));
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

/// Splits a record that ends in names: its fixed part, and the names' text.
fn split_names<const HEAD: usize>(bytes: &[u8]) -> Option<(&[u8], wire::wire_names, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (counts, text) = rest.split_at_checked(std::mem::offset_of!(wire::wire_names, text))?;
    let word = |at: usize| u32::read_from_prefix(counts.get(at..)?).ok().map(|(word, _)| word);
    let names = wire::wire_names {
        count: word(0)?,
        bytes: word(4)?,
        cut: word(8)?,
        padding: 0,
        text: [0; wire::WIRE_NAMES_LEN as usize],
    };
    Some((head, names, text))
}
