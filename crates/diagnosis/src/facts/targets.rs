//! Reports of the device mapper and bcache about their devices, in words.
//!
//! What does not belong here: judging it (see `rules`).

use crate::words;
use iowhy_model::figures::plural;
use iowhy_model::health::{BcacheState, DeviceHealth, MappedTarget};

/// The state of bcache without a cache.
pub const NO_CACHE: &str = "no cache";

/// Returns how full a target is: used of all; `None` if it does not report that.
pub fn fullness(target: &MappedTarget) -> Option<f64> {
    share(target.used, target.total)
}

/// The same of its metadata.
pub fn metadata_fullness(target: &MappedTarget) -> Option<f64> {
    share(target.metadata_used, target.metadata_total)
}

fn share(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0)?;
    Some(part? as f64 / whole as f64)
}

/// Returns the names of the paths that have failed, and how many there are.
pub fn failed_paths(target: &MappedTarget) -> (Vec<&str>, usize) {
    let failed = target.paths.iter().filter(|path| !path.active);
    (failed.map(|failed| failed.device.as_str()).collect(), target.paths.len())
}

/// Returns how often paths failed between two reports of one target.
pub fn path_failures(before: &MappedTarget, after: &MappedTarget) -> u64 {
    let sum = |mapped_target: &MappedTarget| {
        mapped_target.paths.iter().map(|path| path.failures).fold(0_u64, u64::saturating_add)
    };
    sum(after).saturating_sub(sum(before))
}

/// Returns what the targets and the cache of a device say, for its line.
pub fn report(health: &DeviceHealth) -> Vec<String> {
    let mut said: Vec<String> = health.targets.iter().filter_map(of_target).collect();
    said.extend(health.bcache.as_ref().map(of_bcache));
    said
}

fn of_target(target: &MappedTarget) -> Option<String> {
    let mut said = Vec::new();
    said.extend(target.trouble.as_deref().map(|trouble| trouble.to_lowercase().replace('_', " ")));
    let full = |share: f64| words::percent(share);
    let metadata = metadata_fullness(target).map(full);
    match (fullness(target).map(full), metadata) {
        (Some(data), Some(metadata)) => {
            said.push(format!("{data} of its blocks and {metadata} of its metadata in use"));
        }
        (Some(data), None) => said.push(format!("{data} in use")),
        _ => {}
    }
    let dirty = target.dirty.filter(|dirty| *dirty > 0);
    said.extend(share(dirty, target.total).map(|share| format!("{} dirty", words::percent(share))));
    said.extend(hit_share(target.hits, target.misses));
    let (failed, all) = failed_paths(target);
    match failed.len() {
        0 => said.extend((all > 0).then(|| plural(all as u64, "path"))),
        count => said.push(format!("{count} of {} failed", plural(all as u64, "path"))),
    }
    let lost = target.failed_members.filter(|failed_member| *failed_member > 0);
    said.extend(lost.map(|lost| format!("{} failed", plural(lost, "member"))));
    (!said.is_empty()).then(|| format!("{}: {}", target.target, said.join(", ")))
}

fn of_bcache(state: &BcacheState) -> String {
    let mut said = vec![state.state.clone()];
    if state.state != NO_CACHE {
        said.push(state.mode.clone());
        let dirty = state.dirty_bytes.filter(|dirty_bytes| *dirty_bytes > 0);
        said.extend(dirty.map(|dirty| format!("{} dirty", words::bytes(dirty as f64))));
        said.extend(state.congested.filter(|congested| *congested).map(|_| "congested".to_owned()));
        said.extend(hit_share(state.hits, state.misses));
    }
    format!("bcache: {}", said.join(", "))
}

/// `hits 83 %`; of few requests nothing.
fn hit_share(hits: Option<u64>, misses: Option<u64>) -> Option<String> {
    let (hits, misses) = hits.zip(misses)?;
    let all = hits.saturating_add(misses);
    (all > 0).then(|| format!("hits {}", words::percent(hits as f64 / all as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::health::MultipathPath;

    #[test]
    fn each_kind_has_its_words() {
        let pool = MappedTarget {
            target: "thin-pool".to_owned(),
            trouble: Some("out_of_data_space".to_owned()),
            used: Some(1600),
            total: Some(1600),
            metadata_used: Some(41),
            metadata_total: Some(4096),
            ..MappedTarget::default()
        };
        let path =
            |device: &str, active| MultipathPath { device: device.to_owned(), active, failures: 0 };
        let paths = MappedTarget {
            target: "multipath".to_owned(),
            paths: vec![path("sda", true), path("sdb", false)],
            ..MappedTarget::default()
        };
        let thin = MappedTarget { target: "thin".to_owned(), ..MappedTarget::default() };
        let bcache = BcacheState {
            state: "dirty".to_owned(),
            mode: "writeback".to_owned(),
            dirty_bytes: Some(1 << 20),
            hits: Some(3),
            misses: Some(1),
            ..BcacheState::default()
        };
        let health = DeviceHealth {
            targets: vec![pool, thin, paths],
            bcache: Some(bcache),
            ..DeviceHealth::default()
        };
        assert_eq!(
            report(&health),
            [
                "thin-pool: out of data space, 100 % of its blocks and 1.0 % of its metadata in \
                 use",
                "multipath: 1 of 2 paths failed",
                "bcache: dirty, writeback, 1.00 MiB dirty, hits 75 %",
            ]
        );
        let detached = BcacheState { state: NO_CACHE.to_owned(), ..BcacheState::default() };
        assert_eq!(of_bcache(&detached), "bcache: no cache");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let empty = MappedTarget { used: Some(1), total: Some(0), ..MappedTarget::default() };
        assert_eq!((fullness(&empty), metadata_fullness(&empty)), (None, None));
        assert_eq!(of_target(&empty), None);
        assert_eq!(hit_share(Some(0), Some(0)), None);
    }
}
