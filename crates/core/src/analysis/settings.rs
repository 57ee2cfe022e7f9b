//! Settings and limits that were not the same at both ends of the watch.

use super::summary::ChangedSetting;
use crate::model::Environment;
use crate::model::environment::Device;
use std::collections::BTreeMap;

type Settings = BTreeMap<String, String>;

/// The machine's changed settings, then each device's and each cgroup's.
pub(super) fn changed(environment: &Environment) -> Vec<ChangedSetting> {
    let mut all = differences(None, &environment.settings_start, &environment.settings_end);
    for device in &environment.devices {
        let name = Some(device.name.as_str());
        all.extend(differences(name, &device.settings_start, &device.settings_end));
    }
    for cgroup in &environment.cgroups {
        let own = differences(None, &cgroup.settings_start, &cgroup.settings_end);
        let name = |setting: String| format!("{setting} of cgroup {}", cgroup.path);
        all.extend(own.into_iter().map(|it| ChangedSetting { setting: name(it.setting), ..it }));
    }
    all
}

pub(super) fn has_changed(device: &Device) -> bool {
    !differences(None, &device.settings_start, &device.settings_end).is_empty()
}

/// What `after` has otherwise than `before`; nothing where one of them was not read.
fn differences(device: Option<&str>, before: &Settings, after: &Settings) -> Vec<ChangedSetting> {
    if before.is_empty() || after.is_empty() {
        return Vec::new();
    }
    let absent = || "(absent)".to_owned();
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    differs
        .map(|name| ChangedSetting {
            device: device.map(str::to_owned),
            setting: name.clone(),
            before: before.get(name).cloned().unwrap_or_else(absent),
            after: after.get(name).cloned().unwrap_or_else(absent),
        })
        .collect()
}
