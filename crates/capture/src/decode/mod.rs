//! Turns wire records into the model's rows.
//!
//! | where | what |
//! |---|---|
//! | [`request`] | a request with its stages, and its parts |
//! | [`alike`] | a cache of the last requests' rows, for similar ones |
//! | [`event`] | a single block event |
//! | [`waits`] | a thread's wait, and what it waited for |
//! | [`cpu_waits`] | a thread's run-queue time between two sleeps |
//! | [`undecided`] | waits that no request has shown to be for storage yet |
//! | [`chains`] | wait chains: a thread that waited for one that waited for storage |
//! | [`uses`] | what a process did with a file |
//! | [`operation`] | the kernel's operation and flags: operation, rwbs |
//! | [`origin`] | why a request exists, and why a part has no file |
//! | [`dirtiers`] | why the dirtier of written pages is not known |
//! | [`files`], [`tasks`], [`cgroups`], [`stacks`] | what requests refer to, kept when first seen |
//!
//! What does not belong here: reading the ring buffer (see [`crate::session`]).

pub mod alike;
pub mod cgroups;
pub mod chains;
pub mod cpu_waits;
pub mod dirtiers;
pub mod event;
pub mod files;
pub mod operation;
pub mod origin;
pub mod request;
pub mod stacks;
pub mod tasks;
pub mod undecided;
pub mod uses;
pub mod waits;

use crate::host::cgroup::Roots;
use crate::host::devices::{DeviceNames, uppers};
use crate::host::mounts::Mounts;
use crate::kernel::Facts;
use crate::reader::Reader;
use crate::snapshot::Writers;
use crate::wire;
use cgroups::Cgroups;
use chains::Chains;
use dirtiers::Dirtiers;
use files::Files;
use iowhy_core::model::environment::Device;
use iowhy_core::model::{Environment, Losses, Name, Names};
use iowhy_core::source::Batch;
use operation::Operations;
use rustc_hash::FxHashMap;
use stacks::Stacks;
use tasks::Tasks;
use uses::Uses;
use waits::Waits;
use zerocopy::FromBytes;

/// Requests whose dirtiers are kept until the request arrives.
const MOST_OWNED: usize = 65_536;

/// Everything that records refer to, and what was handed over so far.
pub struct Decoder {
    devices: DeviceNames,
    mounts: Mounts,
    mounts_read_ns: u64,
    operations: Operations,
    files: Files,
    tasks: Tasks,
    /// Cgroups and their limits.
    pub cgroups: Cgroups,
    stacks: Stacks,
    owners: FxHashMap<u64, Vec<wire::wire_owners>>,
    ids: request::Ids,
    alike: alike::LastSeen,
    swaps: Vec<origin::Swap>,
    errors_are_blk_status: bool,
    device_names: FxHashMap<u32, Name>,
    unreadable: u64,
    /// Why a disk's requests are not tied to a request of an upper device.
    uppers: FxHashMap<u32, String>,
    /// When the watch began.
    pub start_ns: u64,
    /// State for decoding waits and what ends them.
    pub waits: Waits,
    /// Wait chains.
    pub chains: Chains,
    /// The use of files, until it is handed over.
    pub uses: Uses,
    /// Hints at who dirtied the pages that were dirty before the watch.
    pub writers: Writers,
    /// Whether dirtiers can have been missed.
    pub dirtiers: Dirtiers,
}

impl Decoder {
    /// A decoder for the machine that `environment` describes; `arguments` says whether command
    /// lines are read.
    pub fn new(
        facts: &Facts,
        environment: &Environment,
        reader: &Reader,
        arguments: bool,
    ) -> Decoder {
        Decoder {
            devices: DeviceNames::of(&environment.devices),
            mounts: Mounts::read(),
            mounts_read_ns: 0,
            operations: Operations::new(&facts.operations),
            files: Files::default(),
            tasks: Tasks::new(arguments.then(|| reader.clone())),
            cgroups: Cgroups::new(Roots::find()),
            stacks: Stacks::new(reader.clone()),
            owners: FxHashMap::default(),
            ids: request::Ids::default(),
            alike: alike::LastSeen::default(),
            swaps: origin::Swap::all(),
            errors_are_blk_status: facts.status_is_blk_status,
            device_names: FxHashMap::default(),
            unreadable: 0,
            uppers: no_parents(&environment.devices, facts.loops_are_described),
            start_ns: 0,
            waits: Waits::default(),
            chains: Chains::default(),
            uses: Uses::default(),
            writers: Writers::default(),
            dirtiers: Dirtiers::default(),
        }
    }

    /// Adds the content of one record to `batch`.
    pub fn record(&mut self, bytes: &[u8], batch: &mut Batch, names: &mut Names) {
        let kind = u32::read_from_prefix(bytes).map_or(0, |(kind, _)| kind);
        if matches!(kind, wire::WIRE_TASK | wire::WIRE_FILE | wire::WIRE_CGROUP) {
            self.alike.forget();
        }
        let understood = match kind {
            wire::WIRE_REQUEST => self.request(bytes, batch, names),
            wire::WIRE_OWNERS => self.add_owners(bytes),
            wire::WIRE_TASK => self.tasks.add(bytes, &self.files, &self.cgroups, batch, names),
            wire::WIRE_FILE => self.add_file(bytes, names),
            wire::WIRE_CGROUP => self.cgroups.add(bytes, names),
            wire::WIRE_EVENT => self.event(bytes, batch, names),
            wire::WIRE_WAIT => self.wait(bytes, batch, names),
            wire::WIRE_DIRECTORY => self.add_place(bytes),
            wire::WIRE_CALL => self.add_call(bytes),
            wire::WIRE_STACK => self.stacks.add(bytes, batch, names),
            _ => None,
        };
        self.unreadable += u64::from(understood.is_none());
    }

    /// Adds a process that no record has described yet.
    pub fn meet(&mut self, pid: u32, batch: &mut Batch, names: &mut Names) {
        self.tasks.meet(pid, batch, names);
    }

    fn add_owners(&mut self, bytes: &[u8]) -> Option<()> {
        let (owners, _) = wire::wire_owners::read_from_prefix(bytes).ok()?;
        if self.owners.len() >= MOST_OWNED {
            // Owners come just before their requests: these requests were lost.
            self.owners.clear();
        }
        self.owners.entry(owners.request).or_default().push(owners);
        Some(())
    }

    fn add_file(&mut self, bytes: &[u8], names: &mut Names) -> Option<()> {
        let file = files::parse(bytes)?;
        let (major, minor) = (file.inode.device >> 20, file.inode.device & 0xf_ffff);
        if !self.mounts.knows(major, minor) {
            self.read_mounts_again();
        }
        let device = self.devices.get(file.inode.device);
        self.files.add(&file, &self.mounts, device, names);
        Some(())
    }

    /// File systems can be mounted during the watch; read at most once a second.
    fn read_mounts_again(&mut self) {
        let now = crate::host::system::now_ns();
        if now.saturating_sub(self.mounts_read_ns) > 1_000_000_000 {
            self.mounts_read_ns = now;
            self.mounts = Mounts::read();
        }
    }

    fn device_name(&mut self, device: u32, names: &mut Names) -> Name {
        match self.device_names.get(&device) {
            Some(name) => *name,
            None => {
                let name = names.intern(self.devices.get(device));
                self.device_names.insert(device, name);
                name
            }
        }
    }

    /// Adds the losses of decoding.
    pub fn losses(&self, names: &Names, losses: &mut Losses) {
        losses.add("records", self.unreadable, "records that iowhy does not understand", true);
        losses.add("names", names.refused(), "texts beyond those that iowhy keeps", false);
        losses.add("writers", self.writers.dropped, "files whose writers are not kept", false);
        self.dirtiers.losses(losses);
        self.waits.losses(losses);
        self.stacks.losses(losses);
        self.files.losses(losses);
        self.uses.losses(losses);
    }
}

fn no_parents(devices: &[Device], loops_are_described: bool) -> FxHashMap<u32, String> {
    let reason = |names: String| {
        format!("may serve {names}: the kernel does not record which of its requests")
    };
    let uppers = uppers(devices, loops_are_described);
    uppers.into_iter().map(|(disk, names)| (disk, reason(names))).collect()
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
