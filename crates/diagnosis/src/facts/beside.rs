//! Work that shares a device with programs that wait for it: its share of the device, and how much
//! of their waits it can explain.
//!
//! What does not belong here: the exact blame for single waits (see `analysis::blame`).

use super::{Facts, Waited, device_time_ns, has_function};
use iowhy_analysis::summary::DeviceSummary;

/// A part of the work on a device.
#[derive(Clone, Copy, Debug)]
pub struct OtherWork<'a> {
    /// The device.
    pub device: &'a DeviceSummary,
    /// The share of the device's request time.
    pub share: f64,
    /// Whether it is known by its functions; else by its thread names.
    pub by_function: bool,
}

impl<'a> Facts<'a> {
    /// Returns the device on which work of these functions, or of processes with these names, takes
    /// the most time. A trailing `*` matches any ending.
    pub fn work(&self, functions: &[&str], processes: &[&str]) -> Option<OtherWork<'a>> {
        let found = self.devices().iter().map(|device| {
            let paths = self.paths_on(&device.device, functions);
            let by_path: f64 = paths.iter().map(|row| row.usage.time_share).sum();
            let rows = device.processes.iter();
            let named = rows.filter(|row| has_name(&row.subject.process, processes));
            let time: u64 = named.map(|row| row.usage.all_time_ns()).fold(0, u64::saturating_add);
            let by_name = time as f64 / device_time_ns(device).max(1) as f64;
            // The time of named threads is exact; that of code paths rests on sampled stacks.
            let share = if by_name > 0.0 { by_name } else { by_path }.min(1.0);
            OtherWork { device, share, by_function: by_path > 0.0 }
        });
        let found = found.filter(|work| work.share > 0.0);
        found.max_by(|a, b| {
            let time = |other_work: &OtherWork<'_>| {
                other_work.share * device_time_ns(other_work.device) as f64
            };
            time(a).total_cmp(&time(b))
        })
    }

    /// Returns the waits for a device of processes that do not do the work themselves.
    pub fn victims(&self, device: &str, is_own: impl Fn(&str) -> bool) -> Waited<'a> {
        self.waits(|group| group.device.as_deref() == Some(device) && !is_own(&group.process))
    }
}

/// Whether a name is one of `names`; a trailing `*` matches any ending.
pub fn has_name(name: &str, names: &[&str]) -> bool {
    // A name is matched as a stack of one function.
    !names.is_empty() && has_function(&[name.to_owned()], names)
}
