//! Changes of device settings during a watch. Their times show whether they can be the reason that
//! something became slow.
//!
//! What does not belong here: whether they are the reason (`iowhy_diagnosis`).

use crate::host::devices::{TUNED, directory};
use crate::host::system::now_ns;
use crate::reader::FileAsker;
use iowhy_model::Losses;
use iowhy_model::environment::{Device, SettingChange, chosen};
use std::collections::BTreeMap;
use std::time::Duration;

/// Changes recorded per watch: a script that toggles a setting for hours must not exhaust memory.
const MOST: usize = 1000;
/// Minimum time between two checks, if the watch does not say.
const EVERY: Duration = Duration::from_secs(1);
/// Pause after a check, as a multiple of its duration: limits the cost to a hundredth of a CPU for
/// any number of disks. A check takes about 30 µs per disk.
const REST: u64 = 100;

/// Checks the settings of devices periodically.
#[derive(Debug)]
pub struct Changes {
    every_ns: u64,
    looked_ns: u64,
    due_ns: u64,
    noted: usize,
    /// Checks skipped after [`MOST`] changes.
    left_out: u64,
}

impl Changes {
    /// For a watch that begins at `start_ns`, CLOCK_MONOTONIC nanoseconds, when settings were read
    /// first; `every` is the least time between two checks, a second if not set.
    pub fn new(start_ns: u64, every: Option<Duration>) -> Changes {
        let every_ns = every.unwrap_or(EVERY).as_nanos() as u64;
        let due_ns = start_ns.saturating_add(every_ns);
        Changes { every_ns, looked_ns: start_ns, due_ns, noted: 0, left_out: 0 }
    }

    /// Checks if it is time.
    pub fn look_if_due(&mut self, devices: &mut [Device], reader: &FileAsker) {
        if now_ns() >= self.due_ns {
            self.look(devices, reader);
        }
    }

    /// Records the changes of `devices` since the last check. A device that is gone has no changes.
    pub fn look(&mut self, devices: &mut [Device], reader: &FileAsker) {
        let begun_ns = now_ns();
        let mut disks: Vec<&mut Device> =
            devices.iter_mut().filter(|device| device.partition_of.is_none()).collect();
        let directories = disks.iter().map(|disk| directory(disk)).collect();
        if self.noted >= MOST {
            self.left_out += 1;
        } else if let Ok(settings) = reader.settings(directories) {
            let ended_ns = now_ns();
            for (disk, now) in disks.iter_mut().zip(&settings) {
                self.note(ended_ns, disk, now);
            }
            self.looked_ns = begun_ns;
        }
        let ended_ns = now_ns();
        self.due_ns = (begun_ns + self.every_ns).max(ended_ns + REST * (ended_ns - begun_ns));
    }

    fn note(&mut self, now_ns: u64, device: &mut Device, now: &BTreeMap<String, String>) {
        for &setting in TUNED {
            let (Some(before), Some(after)) = (last_known(device, setting), now.get(setting))
            else {
                continue;
            };
            if chosen(before) != chosen(after) {
                let change = SettingChange {
                    setting: setting.to_owned(),
                    before: before.clone(),
                    after: after.clone(),
                    since_ns: self.looked_ns,
                    by_ns: now_ns,
                };
                device.settings_changed.push(change);
                self.noted += 1;
            }
        }
    }

    /// Adds the checks that were skipped.
    pub fn losses(&self, losses: &mut Losses) {
        let meaning = "checks of device settings skipped: after a thousand changes";
        losses.add("settings", self.left_out, meaning, false);
    }
}

/// The last recorded value of a setting.
fn last_known<'a>(device: &'a Device, setting: &str) -> Option<&'a String> {
    let change = device.settings_changed.iter().rev().find(|change| change.setting == setting);
    change.map_or_else(|| device.settings_start.get(setting), |change| Some(&change.after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "queue/nr_requests";
    const SCHEDULER: &str = "queue/scheduler";

    /// The changes recorded of a setting that is `first` and then has these values, one per check.
    fn noted(setting: &str, first: &str, then: &[&str]) -> Vec<(u64, u64, String)> {
        let settings = |value: &str| [(setting.to_owned(), value.to_owned())].into();
        let mut device = Device { settings_start: settings(first), ..Device::default() };
        let mut changes = Changes::new(0, None);
        for (at, value) in then.iter().enumerate() {
            changes.note(at as u64 + 1, &mut device, &settings(value));
            changes.looked_ns = at as u64 + 1;
        }
        let noted = device.settings_changed.into_iter();
        noted.map(|noted| (noted.since_ns, noted.by_ns, noted.after)).collect()
    }

    #[test]
    fn to_and_fro_are_two_changes() {
        let found = noted(NUMBER, "256", &["256", "4", "4", "256"]);
        assert_eq!(found, [(1, 2, "4".to_owned()), (3, 4, "256".to_owned())]);
    }

    #[test]
    fn another_scheduler_that_could_be_chosen_is_no_change() {
        assert_eq!(noted(SCHEDULER, "[none] kyber", &["[none] kyber bfq"]), []);
        assert_eq!(noted(SCHEDULER, "[none] bfq", &["none [bfq]"]).len(), 1);
    }

    #[test]
    fn what_is_not_there_has_not_changed() {
        let mut device = Device::default();
        device.settings_start.insert(NUMBER.to_owned(), "256".to_owned());
        Changes::new(0, None).note(1, &mut device, &BTreeMap::new());
        assert_eq!(device.settings_changed, []);
    }

    #[test]
    fn looks_that_are_left_out_are_counted() {
        let mut changes = Changes { noted: MOST, ..Changes::new(0, None) };
        changes.look(&mut [], &FileAsker::default());
        let mut losses = Losses::default();
        changes.losses(&mut losses);
        assert_eq!(losses.items[0].count, 1);
    }
}
