//! The part of a watch that is about one device: what happens on another one must not hide it.
//!
//! A rule compares shares of all waits, and looks at the device with the most time. On a machine
//! with two troubles, or with work on another disk, each device is therefore judged by itself, too.
//!
//! What does not belong here: judging (see [`crate::rules`]).

use super::Facts;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_analysis::summary::{DeviceSummary, InScheduler, Summary};
use iowhy_model::compact_sort::CompactSort;
use std::collections::BTreeSet;

/// The least mean number of threads blocked over the watch to count as others that wait: the
/// kernel's documentation of pressure stall information calls 5 % of the time slight.
pub const WARNING_THREADS: f64 = 0.05;
/// The most devices that are judged by themselves.
const DEVICES: usize = 8;

impl Facts<'_> {
    /// Returns the devices for which programs wait, the longest waits first; none if that is only
    /// one, or if waits are not in the data.
    pub fn apart(&self) -> Vec<&str> {
        let waits = &self.summary.patterns.waits;
        let waited = |row: &DeviceSummary| -> u64 {
            let own = waits.iter().filter(|wait| wait.device.as_ref() == Some(&row.device));
            own.map(|group| group.time_ns).fold(0, u64::saturating_add)
        };
        let least_ns = (WARNING_THREADS * self.duration_ns() as f64) as u64;
        let mut devices: Vec<(u64, &str)> =
            self.devices().iter().map(|row| (waited(row), row.device.as_str())).collect();
        devices.retain(|(time_ns, _)| *time_ns >= least_ns.max(1));
        devices.compact_sort_by_key(|(time_ns, _)| std::cmp::Reverse(*time_ns));
        devices.truncate(DEVICES);
        if devices.len() < 2 {
            Vec::new()
        } else {
            devices.into_iter().map(|device| device.1).collect()
        }
    }

    /// Returns the watch without the requests of other devices, and without the waits for them.
    /// Waits for no known device stay if their process waits for this one.
    pub fn near(&self, device: &str) -> Summary {
        let is_near = |other: &str| {
            other == device || self.stands_on(other, device) || self.stands_on(device, other)
        };
        let is_on = |on: &Option<String>| on.as_deref().is_some_and(is_near);
        let waits = &self.summary.patterns.waits;
        let pids: BTreeSet<u32> =
            waits.iter().filter(|wait| is_on(&wait.device)).map(|wait| wait.pid).collect();
        let stays = |group: &WaitGroup| match &group.device {
            Some(on) => is_near(on),
            None => pids.contains(&group.pid),
        };
        let mut near = self.summary.clone();
        near.devices.iter_mut().filter(|row| !is_near(&row.device)).for_each(forget);
        let patterns = &mut near.patterns;
        patterns.devices.retain(|device| is_near(&device.device));
        patterns.waits.retain(&stays);
        patterns.wait_stacks.retain(|stack| match &stack.device {
            Some(on) => is_near(on),
            None => stack.pid.is_none_or(|pid| pids.contains(&pid)),
        });
        patterns.kernel_waits.retain(|group| group.device.as_deref().is_none_or(is_near));
        let blocked_ns =
            patterns.waits.iter().map(|group| group.time_ns).fold(0, u64::saturating_add);
        near.ledger.iter_mut().for_each(|ledger| ledger.blocked_ns = blocked_ns);
        near
    }
}

/// Leaves of a device its name and place only, so that the others keep theirs.
fn forget(row: &mut DeviceSummary) {
    row.directions.0.iter_mut().for_each(|direction| *direction = Default::default());
    (row.aqu_sz, row.util_share, row.busy_depth_mean) = (None, None, None);
    (row.oldest_open_ns, row.stalled_ns, row.kernel) = (None, None, None);
    (row.health_start, row.health_end) = (None, None);
    row.in_flight_mean = 0.0;
    row.in_scheduler = InScheduler::default();
    (row.open_requests, row.helper_requests, row.begun_before_requests) = (0, 0, 0);
    row.is_oldest_overdue = false;
    row.errors.clear();
    row.origins.clear();
    row.processes.clear();
    row.users.clear();
    row.kernel_messages.clear();
}
