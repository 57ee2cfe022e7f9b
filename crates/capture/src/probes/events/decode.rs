//! A single block event, as in blktrace.

use crate::decode::DecodeContext;
use crate::decode::operation::OperationNames;
use crate::wire::{self, wire_event};
use iowhy_model::Event;
use iowhy_model::event::category;
use zerocopy::FromBytes;

/// Adds a `wire_event`.
pub fn event(bytes: &[u8], cx: &mut DecodeContext<'_>) -> Option<()> {
    let (event, _) = wire_event::ref_from_prefix(bytes).ok()?;
    let known = &mut *cx.known;
    let rwbs = known.operations.meaning(event.operation, cx.out.names).rwbs;
    let flags = if carries_operation(event.action) {
        known.operations.categories(event.operation, is_of_request(event.action))
    } else {
        // blktrace gives them operation 0, which is a read.
        category::READ
    };
    let remapped = event.action == wire::EVENT_REMAP;
    let has_payload = matches!(
        event.action,
        wire::EVENT_SPLIT | wire::EVENT_REMAP | wire::EVENT_UNPLUG_IO | wire::EVENT_UNPLUG_TIMER
    );
    let row = Event {
        time_ns: event.time_ns,
        sequence: u64::from(event.sequence),
        cpu: event.cpu,
        action: (category_of(event.action) | flags) << 16 | event.action,
        major: event.device >> 20,
        minor: event.device & 0xf_ffff,
        device: cx.device_name(event.device),
        sector: event.sector,
        bytes: u64::from(event.bytes),
        rwbs,
        error: cx.known.statuses.errno(event.error).unwrap_or(0),
        pid: event.tid,
        process: Some(cx.name(&crate::host::text_of(&event.comm))),
        payload: has_payload.then_some(event.payload),
        payload_major: remapped.then_some(event.payload_device >> 20),
        payload_minor: remapped.then_some(event.payload_device & 0xf_ffff),
    };
    cx.out.batch.events.push(row);
    Some(())
}

/// Plugging concerns a queue, not an operation.
fn carries_operation(action: u32) -> bool {
    !matches!(action, wire::EVENT_PLUG | wire::EVENT_UNPLUG_IO | wire::EVENT_UNPLUG_TIMER)
}

fn is_of_request(action: u32) -> bool {
    matches!(
        action,
        wire::EVENT_INSERT | wire::EVENT_ISSUE | wire::EVENT_REQUEUE | wire::EVENT_COMPLETE
    )
}

fn category_of(action: u32) -> u32 {
    match action {
        wire::EVENT_REQUEUE => category::REQUEUE,
        wire::EVENT_ISSUE => category::ISSUE,
        wire::EVENT_COMPLETE => category::COMPLETE,
        wire::EVENT_SPLIT => 0,
        _ => category::QUEUE,
    }
}

impl OperationNames {
    /// The categories that follow from an operation's flags, as the kernel's `__blk_add_trace`
    /// and `blk_add_trace_rq` add them.
    fn categories(&self, flags: u32, of_request: bool) -> u32 {
        let masks = self.masks();
        let name = self.name(flags);
        let mut found = if flags & 1 != 0 { category::WRITE } else { category::READ };
        for (mask, category) in [
            (masks.sync, category::SYNC),
            (masks.readahead, category::AHEAD),
            (masks.meta, category::META),
            (masks.preflush, category::FLUSH),
            (masks.fua, category::FUA),
        ] {
            if flags & mask != 0 {
                found |= category;
            }
        }
        match name {
            "discard" | "secure_erase" => found |= category::DISCARD,
            "flush" => found |= category::FLUSH,
            _ => {}
        }
        if of_request {
            let private = name.starts_with("drv_") || name.starts_with("scsi_");
            found |= if private { category::PC } else { category::FS };
        }
        found
    }
}
