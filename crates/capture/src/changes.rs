//! Settings of devices that change while a watch runs: when that was tells whether they can be why
//! something became slow.
//!
//! What does not belong here: whether they are (`iowhy_core::diagnosis`).

use crate::host::devices::{TUNED, directory};
use crate::host::system::now_ns;
use crate::reader::Reader;
use iowhy_core::model::Losses;
use iowhy_core::model::environment::{Device, SettingChange, chosen};
use std::collections::BTreeMap;

/// Changes that are noted of one watch: a script that turns a setting to and fro for hours shall not fill
/// the memory.
const MOST: usize = 1000;
/// The time between two looks at least, nanoseconds.
const EVERY_NS: u64 = 1_000_000_000;
/// How many times as long as a look takes nobody looks again: a hundredth of a CPU, with as many disks as
/// there may be. One takes about 30 µs for each.
const REST: u64 = 100;

/// Looks at the settings of devices now and then.
#[derive(Debug)]
pub struct Changes {
    looked_ns: u64,
    due_ns: u64,
    noted: usize,
    /// Looks after [`MOST`] changes.
    left_out: u64,
}

impl Changes {
    /// Of a watch that begins at `start_ns`, CLOCK_MONOTONIC nanoseconds, when settings were read first.
    pub fn new(start_ns: u64) -> Changes {
        Changes { looked_ns: start_ns, due_ns: start_ns + EVERY_NS, noted: 0, left_out: 0 }
    }

    /// Looks, when it is time.
    pub fn look_if_due(&mut self, devices: &mut [Device], reader: &Reader) {
        if now_ns() >= self.due_ns {
            self.look(devices, reader);
        }
    }

    /// Notes what has changed of `devices` by now. A device that is gone has changed nothing.
    pub fn look(&mut self, devices: &mut [Device], reader: &Reader) {
        let begun_ns = now_ns();
        let mut disks: Vec<&mut Device> =
            devices.iter_mut().filter(|it| it.partition_of.is_none()).collect();
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
        self.due_ns = (begun_ns + EVERY_NS).max(ended_ns + REST * (ended_ns - begun_ns));
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

    /// Adds the looks that were left out.
    pub fn losses(&self, losses: &mut Losses) {
        let meaning = "looks at devices' settings, after a thousand changes of them";
        losses.add("settings", self.left_out, meaning, false);
    }
}

/// What a setting was when it was last noted.
fn last_known<'a>(device: &'a Device, setting: &str) -> Option<&'a String> {
    let change = device.settings_changed.iter().rev().find(|it| it.setting == setting);
    change.map_or_else(|| device.settings_start.get(setting), |it| Some(&it.after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "queue/nr_requests";
    const SCHEDULER: &str = "queue/scheduler";

    /// What is noted of a setting that is `first` and then these, one look after the other.
    fn noted(setting: &str, first: &str, then: &[&str]) -> Vec<(u64, u64, String)> {
        let settings = |value: &str| [(setting.to_owned(), value.to_owned())].into();
        let mut device = Device { settings_start: settings(first), ..Device::default() };
        let mut changes = Changes::new(0);
        for (at, value) in then.iter().enumerate() {
            changes.note(at as u64 + 1, &mut device, &settings(value));
            changes.looked_ns = at as u64 + 1;
        }
        let noted = device.settings_changed.into_iter();
        noted.map(|it| (it.since_ns, it.by_ns, it.after)).collect()
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
        Changes::new(0).note(1, &mut device, &BTreeMap::new());
        assert_eq!(device.settings_changed, []);
    }

    #[test]
    fn looks_that_are_left_out_are_counted() {
        let mut changes = Changes { noted: MOST, ..Changes::new(0) };
        changes.look(&mut [], &Reader::default());
        let mut losses = Losses::default();
        changes.losses(&mut losses);
        assert_eq!(losses.items[0].count, 1);
    }
}
