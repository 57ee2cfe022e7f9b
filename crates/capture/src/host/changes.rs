//! Settings of devices that change while a watch runs: when that was tells whether they can be why
//! something became slow.
//!
//! What does not belong here: whether they are (`iowhy_core::diagnosis`).

use super::devices::{TUNED, directory};
use super::read_settings;
use super::system::now_ns;
use iowhy_core::model::Losses;
use iowhy_core::model::environment::{Device, SettingChange};
use std::collections::BTreeMap;

/// Changes that are noted of one watch: a script that turns a setting to and fro for hours shall not fill
/// the memory.
const MOST: usize = 1000;

/// Looks at the settings of devices now and then.
#[derive(Debug)]
pub struct Changes {
    looked_ns: u64,
    noted: usize,
    /// Changes beyond [`MOST`].
    left_out: u64,
}

impl Changes {
    /// Of a watch that begins at `start_ns`, CLOCK_MONOTONIC nanoseconds, when settings were read first.
    pub fn new(start_ns: u64) -> Changes {
        Changes { looked_ns: start_ns, noted: 0, left_out: 0 }
    }

    /// Notes what has changed of `devices` by now. A device that is gone has changed nothing.
    pub fn look(&mut self, devices: &mut [Device]) {
        let begun_ns = now_ns();
        for device in devices.iter_mut().filter(|it| it.partition_of.is_none()) {
            let now = read_settings(&directory(device), TUNED);
            if !now.is_empty() {
                self.note(now_ns(), device, &now);
            }
        }
        self.looked_ns = begun_ns;
    }

    fn note(&mut self, now_ns: u64, device: &mut Device, now: &BTreeMap<String, String>) {
        for &setting in TUNED {
            let (before, after) = (last_known(device, setting).cloned(), now.get(setting).cloned());
            if before == after {
                continue;
            }
            if self.noted == MOST {
                self.left_out += 1;
                continue;
            }
            self.noted += 1;
            let (setting, since_ns, by_ns) = (setting.to_owned(), self.looked_ns, now_ns);
            let change = SettingChange { setting, before, after, since_ns, by_ns };
            device.settings_changed.push(change);
        }
    }

    /// Adds the changes that were not noted.
    pub fn losses(&self, losses: &mut Losses) {
        let meaning = "times that a changed setting of a device was seen and not noted";
        losses.add("settings", self.left_out, meaning, false);
    }
}

/// What a setting was when it was last noted.
fn last_known<'a>(device: &'a Device, setting: &str) -> Option<&'a String> {
    let change = device.settings_changed.iter().rev().find(|it| it.setting == setting);
    change.map_or_else(|| device.settings_start.get(setting), |it| it.after.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: &str = "queue/nr_requests";

    fn settings(value: &str) -> BTreeMap<String, String> {
        [(SETTING.to_owned(), value.to_owned())].into()
    }

    #[test]
    fn to_and_fro_are_two_changes() {
        let mut device = Device { settings_start: settings("256"), ..Device::default() };
        let mut changes = Changes::new(10);
        for (now_ns, value) in [(20, "256"), (30, "4"), (40, "4"), (50, "256")] {
            changes.note(now_ns, &mut device, &settings(value));
            changes.looked_ns = now_ns;
        }
        let noted =
            device.settings_changed.iter().map(|it| (it.since_ns, it.by_ns, it.after.as_deref()));
        assert_eq!(noted.collect::<Vec<_>>(), [(20, 30, Some("4")), (40, 50, Some("256"))]);
    }

    #[test]
    fn what_is_not_noted_is_counted() {
        let mut device = Device { settings_start: settings("0"), ..Device::default() };
        let mut changes = Changes::new(0);
        for at in 1..=MOST + 5 {
            changes.note(at as u64, &mut device, &settings(&at.to_string()));
        }
        let mut losses = Losses::default();
        changes.losses(&mut losses);
        assert_eq!((device.settings_changed.len(), losses.items[0].count), (MOST, 5));
    }
}
