//! The probe groups: each folder holds the BPF programs of a group, and the decoder of what they
//! send.
//!
//! | group | programs | decoder |
//! |---|---|---|
//! | [`block`] | requests, from their first bio to their completion | [`RequestDecoder`] |
//! | [`writeback`] | who dirties pages | [`OwnerDecoder`] |
//! | [`events`] | every single block event | [`events::decode`] |
//! | [`wait`] | threads that wait | [`WaitDecoder`] |
//! | [`mod@file`] | what programs do with files | [`UseDecoder`] |
//! | [`snapshot`] | what exists when a watch begins or ends | read by [`snapshot`] itself |
//! | `aggregate` | counts of requests without their records | read by [`crate::aggregates`] |
//! | `page_cache` | additions to the page cache and removals from it | read by [`crate::sampler`] |
//! | `symbols` | addresses of kernel functions | read by [`crate::symbols`] |
//!
//! What does not belong here: which probes a watch has (see [`crate::plan`]), how they are loaded
//! (see [`crate::session`]), and what decoders share (see [`crate::decode`]).

pub mod block;
pub mod events;
pub mod file;
pub mod snapshot;
pub mod wait;
pub mod writeback;

use crate::decode::{DecodeContext, KnownEntities};
use crate::kernel::KernelFeatures;
use crate::session::Session;
use crate::wire::{self, wire_request};
use block::decode::RequestDecoder;
use file::decode::UseDecoder;
use iowhy_model::{Environment, Losses, Names};
use snapshot::Writers;
use wait::decode::WaitDecoder;
use writeback::Dirtiers;
use writeback::decode::OwnerDecoder;
use zerocopy::FromBytes;

/// The decoder of each group, by whose record it is.
pub struct Decoders {
    /// Requests.
    pub requests: RequestDecoder,
    /// Decodes the dirtiers of the bytes that requests write.
    pub owners: OwnerDecoder,
    /// Waits, and what ends them.
    pub waits: WaitDecoder,
    /// The use of files, until it is handed over.
    pub uses: UseDecoder,
    unreadable: u64,
}

impl Decoders {
    /// For the machine that `environment` describes.
    pub fn new(facts: &KernelFeatures, environment: &Environment) -> Decoders {
        Decoders {
            requests: RequestDecoder::new(facts, environment),
            owners: OwnerDecoder::default(),
            waits: WaitDecoder::default(),
            uses: UseDecoder::default(),
            unreadable: 0,
        }
    }

    /// Notes that the programs of `session` run since `start_ns`; `chains` says whether wait chains
    /// are recorded.
    pub fn begin(
        &mut self,
        session: &Session,
        start_ns: u64,
        chains: bool,
        known: &mut KnownEntities,
    ) {
        known.stacks.copied.begin(session);
        self.requests.start_ns = start_ns;
        self.owners.writers = Writers::now(session);
        self.owners.dirtiers = Dirtiers::new(session);
        self.waits = WaitDecoder::new(session, chains);
    }

    /// Adds the rows of one record.
    pub fn record(&mut self, bytes: &[u8], cx: &mut DecodeContext<'_>) {
        let kind = u32::read_from_prefix(bytes).map_or(0, |(kind, _)| kind);
        if matches!(kind, wire::WIRE_TASK | wire::WIRE_FILE | wire::WIRE_CGROUP) {
            self.requests.forget_alike();
        }
        let understood = match kind {
            wire::WIRE_REQUEST => self.request(bytes, cx),
            wire::WIRE_OWNERS => self.owners.add(bytes),
            wire::WIRE_TASK => cx.add_task(bytes),
            wire::WIRE_FILE => cx.add_file(bytes),
            wire::WIRE_CGROUP => cx.add_cgroup(bytes),
            wire::WIRE_EVENT => events::decode::event(bytes, cx),
            wire::WIRE_WAIT => self.waits.wait(bytes, cx),
            wire::WIRE_LATE_WAIT => self.waits.late_wait(bytes, cx),
            wire::WIRE_SLACK => self.waits.slack(bytes, cx),
            wire::WIRE_DIRECTORY => self.uses.add_directory(bytes),
            wire::WIRE_CALL => self.uses.add_call(bytes),
            wire::WIRE_STACK => cx.add_stack(bytes),
            wire::WIRE_COPIED_STACK => cx.add_copied_stack(bytes),
            _ => None,
        };
        self.unreadable += u64::from(understood.is_none());
    }

    /// Adds a request, and the waits that it shows to be for storage.
    fn request(&mut self, bytes: &[u8], cx: &mut DecodeContext<'_>) -> Option<()> {
        let (request, rest) = wire_request::ref_from_prefix(bytes).ok()?;
        self.requests.add(request, rest, &mut self.owners, cx)?;
        self.waits.note_request(request, cx)
    }

    /// Adds the losses of decoding.
    pub fn losses(&self, known: &KnownEntities, names: &Names, losses: &mut Losses) {
        losses.add("records", self.unreadable, "records that iowhy does not understand", true);
        losses.add("names", names.refused(), "texts beyond those that iowhy keeps", false);
        self.owners.losses(losses);
        self.waits.losses(losses);
        known.losses(losses);
        self.uses.losses(losses);
    }
}
