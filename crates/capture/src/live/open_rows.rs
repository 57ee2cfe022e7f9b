//! Rows of what is in flight now, while the watch goes on: what a flight recorder keeps of a device
//! that has not completed anything yet.
//!
//! What does not belong here: the same at the end of a watch (see [`super::LiveWatch::stop`]).

use super::LiveWatch;
use crate::decode::DecodeContext;
use crate::host::system;
use crate::probes::snapshot;
use crate::wire::{self, wire_wait};
use iowhy_model::Names;
use iowhy_model::source::Batch;
use zerocopy::FromBytes;

impl LiveWatch {
    /// Adds a row for each request in flight and for each thread that waits now, as they would be
    /// recorded if the watch ended. Their final rows come when they end, with the same request ids:
    /// these rows must not be put into the same recording.
    ///
    /// Returns the time that they speak of, CLOCK_MONOTONIC nanoseconds.
    pub fn open_rows(&mut self, batch: &mut Batch, names: &mut Names) -> u64 {
        let now_ns = system::now_ns();
        self.add_left_out();
        let ended = self.in_flight.mark(&self.session);
        self.add_sleepers(batch, names);
        let (session, decoders) = (&self.session, &mut self.decoders);
        let mut cx = DecodeContext::new(&mut self.known, batch, names);
        let before = decoders.waits.begin_open_rows(now_ns);
        snapshot::pending_records(session, |record| {
            if !ended.has_ended(record) {
                decoders.record(record, &mut cx);
            }
        });
        session.asleep(|record| {
            // The thread that another one waits for is looked up only when the watch ends.
            if !is_for_thread(record) {
                decoders.waits.wait(record, &mut cx);
            }
        });
        decoders.waits.end_open_rows(before);
        now_ns
    }
}

fn is_for_thread(record: &[u8]) -> bool {
    let wait = wire_wait::read_from_prefix(record);
    wait.is_ok_and(|(wait, _)| wait.flags & wire::WAIT_FOR_THREAD != 0)
}
