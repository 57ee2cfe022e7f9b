//! Settings that a watch gives its BPF programs before they are loaded.
//!
//! What does not belong here: what the programs do with it.

use crate::calls;
use crate::error::WatchError;
use crate::file_calls;
use crate::host::mounts::Mounts;
use crate::kernel::{KernelFeatures, UringResult};
use crate::plan::Wishes;
use crate::wire;
use zerocopy::FromZeros;

/// Kernel stacks taken of waits, a second on each CPU: enough for every wait of a slow disk.
const WAIT_STACKS_PER_SECOND: u32 = 20_000;

/// Sleeps for other threads that are shorter have no row, nanoseconds.
const THREAD_SLEEP_NS: u64 = 1_000_000;

/// Waits for threads that waited for storage, told a second on each CPU.
const CHAINS_PER_SECOND: u32 = 5_000;
/// Removals and renames of files that are recorded one by one, per second and CPU; further ones are
/// counted by directory.
const CALLS_PER_SECOND: u32 = 5000;

/// Returns the settings for a kernel and the wishes for the watch.
pub(crate) fn of(
    facts: &KernelFeatures,
    wishes: &Wishes,
) -> Result<wire::wire_settings, WatchError> {
    let mut settings = wire::wire_settings::new_zeroed();
    settings.page_shift = facts.page_size.trailing_zeros();
    settings.device_count = wishes.devices.len() as u32;
    settings.stacks_per_second = wishes.stacks_per_second;
    settings.wait_stacks_per_second = WAIT_STACKS_PER_SECOND;
    calls::mark(calls::OF_FILES, &mut settings.file_calls);
    calls::mark(calls::OF_SLEEPERS, &mut settings.sleep_calls);
    if wishes.chains {
        calls::mark(calls::OF_THREAD_SLEEPERS, &mut settings.thread_calls);
        calls::mark(calls::OF_RECEIVERS, &mut settings.thread_calls);
        calls::mark(calls::OF_RECEIVERS, &mut settings.receive_calls);
        calls::mark(calls::OF_SENDERS, &mut settings.send_calls);
    }
    settings.futex_call = libc::SYS_futex as i32;
    settings.has_fuse = u32::from(Mounts::read().has_fuse());
    calls::mark(calls::OF_NAMES, &mut settings.name_calls);
    settings.thread_sleep_ns = THREAD_SLEEP_NS;
    settings.chains_per_second = CHAINS_PER_SECOND;
    if wishes.user_stacks {
        settings.wait_user_stacks_per_second = wishes.stacks_per_second;
    }
    file_calls::mark(&mut settings);
    settings.calls_per_second = CALLS_PER_SECOND;
    settings.ring_bytes = wishes.ring.bytes();
    settings.pairs_bits = wishes.ring.pairs_bits();
    settings.counts_requests = wishes.counts_requests(facts).into();
    settings.each_open = u8::from(wishes.opens);
    settings.switch_has_state = facts.switch_has_state.into();
    settings.uring_result = match facts.uring_result {
        UringResult::Alone => wire::URING_UNKNOWN,
        UringResult::Argument => wire::URING_ARGUMENT,
        UringResult::Entry => wire::URING_CQE,
    } as u8;
    settings.user_stacks = u8::from(wishes.user_stacks);
    settings.preemptible = u8::from(facts.programs_are_preemptible);
    settings.rq_events_have_queue = u8::from(facts.rq_events_have_queue);
    settings.bio_events_have_queue = u8::from(facts.bio_events_have_queue);
    settings.merge_events_have_request = u8::from(facts.merge_events_have_request);
    if wishes.devices.len() > settings.devices.len() {
        return Err(WatchError::TooManyDevices {
            count: wishes.devices.len(),
            most: settings.devices.len(),
        });
    }
    for (slot, device) in settings.devices.iter_mut().zip(&wishes.devices) {
        *slot = *device;
    }
    for (slot, address) in settings.end_io.iter_mut().zip(&facts.end_io) {
        *slot = *address;
    }
    Ok(settings)
}
