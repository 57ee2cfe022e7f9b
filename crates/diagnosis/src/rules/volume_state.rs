//! A thin pool, snapshot, multipath device or cache reports that it is full, broken or detached.

use super::super::facts::targets;
use super::*;
use iowhy_model::environment::{Device, is_part_of};
use iowhy_model::figures::plural;
use iowhy_model::health::{BcacheState, DeviceHealth, MappedTarget};

/// The share of its space in use from which a pool or snapshot is nearly full. Chosen: LVM warns
/// from 80 % on, and what is left lasts longer than the watch.
const NEARLY_FULL: f64 = 0.95;
/// Levels of devices that are followed downwards: file system on LVM on thin pool on RAID on disks.
const LEVELS: usize = 6;

rule!(
    "volume-state",
    "thin pool, snapshot, path or cache in trouble",
    "Devices that the kernel makes of others have states of their own. A thin pool without space \
     lets writes to new blocks wait, for a minute by default, and then fail; without space for \
     metadata it becomes read-only. A snapshot that overflows is lost. With a failed path a \
     multipath device sends everything over the others, without any path its requests wait. A \
     cache that is detached or congested leaves every request to the slow device behind it. The \
     kernel reports these states; iowhy asks for them at both ends of a watch.",
    "The state was the same before the trouble began: then the slow requests have another reason.",
    place: Fault,
    bound: [
        "the time of the device's requests",
        "how much of it is due to the state is not in the data",
    ],
);

/// A trouble that a device reports, and what to do.
struct VolumeTrouble {
    said: String,
    severity: Severity,
    sure: Confidence,
    fix: &'static str,
    check: String,
    /// The used share, 0 to 1.
    full: Option<f64>,
}

fn judge(facts: &Facts<'_>) -> Judged {
    let found = facts.devices().iter().flat_map(|device| {
        let below = with_those_below(facts, device);
        below.into_iter().filter_map(move |it| Some((device, it, trouble(it)?)))
    });
    let worst = found.max_by_key(|(device, _, it)| {
        (it.severity, it.sure, facts::device_time_ns(device), device.device.clone())
    });
    Ok(worst.map_or(RuleVerdict::Clear, |(device, at, trouble)| {
        RuleVerdict::Finding(Box::new(finding(facts, device, at, &trouble)))
    }))
}

/// The device itself and all that it is made of, each once.
fn with_those_below<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> Vec<&'a Device> {
    let all = &facts.summary().environment.devices;
    let named = |name: &str| all.iter().find(|it| it.name == name);
    let mut found: Vec<&Device> = named(&device.device).into_iter().collect();
    let mut begin = 0;
    for _ in 0..LEVELS {
        let end = found.len();
        for at in begin..end {
            for name in &found[at].below {
                let disk = all.iter().find(|it| is_part_of(&it.name, name));
                let new = disk.filter(|disk| !found.iter().any(|known| known.name == disk.name));
                found.extend(new);
            }
        }
        begin = end;
    }
    found
}

fn trouble(device: &Device) -> Option<VolumeTrouble> {
    let now = device.health_end.as_ref().or(device.health_start.as_ref())?;
    let before = device.health_start.as_ref();
    let name = &device.name;
    let of_targets = now.targets.iter().enumerate().filter_map(|(at, target)| {
        let before =
            before.and_then(|it| it.targets.get(at)).filter(|it| it.target == target.target);
        match target.target.as_str() {
            "thin-pool" => thin_pool(name, target),
            "snapshot" | "snapshot-merge" => snapshot(name, target),
            "multipath" => multipath(name, before, target),
            "raid" => raid(name, target),
            _ => broken(name, target),
        }
    });
    let of_bcache = now.bcache.as_ref().and_then(|it| bcache(name, before, it));
    of_targets.chain(of_bcache).max_by_key(|of_target| (of_target.severity, of_target.sure))
}

fn certain(said: String, fix: &'static str, check: String) -> VolumeTrouble {
    let (severity, sure) = (Severity::Warning, Confidence::Certain);
    VolumeTrouble { said, severity, sure, fix, check, full: None }
}

fn status_of(name: &str) -> String {
    format!(
        "`dmsetup status --noflush /dev/{name}` shows the state again; if it is in order while \
             requests are slow, they have another reason"
    )
}

fn thin_pool(name: &str, pool: &MappedTarget) -> Option<VolumeTrouble> {
    let data = targets::fullness(pool);
    let metadata = targets::metadata_fullness(pool);
    let fullest = data.into_iter().chain(metadata).max_by(f64::total_cmp);
    let is_full = |it: Option<f64>| it.is_some_and(|it| it >= 1.0);
    let said = match pool.trouble.as_deref() {
        Some("out_of_data_space") => match pool.waits_for_space {
            Some(false) => "the thin pool {} is full: writes to new blocks fail",
            _ => "the thin pool {} is full: writes to new blocks wait for space",
        },
        Some("ro") if is_full(metadata) => {
            "the thin pool {} has no space for metadata, and takes no writes to new blocks"
        }
        Some("ro") => "the thin pool {} is read-only: writes to new blocks fail",
        Some("needs_check") => "the metadata of the thin pool {} needs a check",
        Some(_) => "the thin pool {} failed: its volumes return errors",
        None => {
            let most = fullest.filter(|fullest| *fullest >= NEARLY_FULL)?;
            let of = if data >= metadata { "" } else { " of metadata" };
            return Some(VolumeTrouble {
                said: format!("the thin pool {name} is {} full{of}", words::percent(most)),
                severity: Severity::Info,
                sure: Confidence::Possible,
                fix: EXTEND_POOL,
                check: status_of(name),
                full: Some(most),
            });
        }
    };
    let fix =
        if pool.trouble.as_deref() == Some("out_of_data_space") { EXTEND_POOL } else { REPAIR };
    Some(VolumeTrouble { full: fullest, ..certain(said.replace("{}", name), fix, status_of(name)) })
}

fn snapshot(name: &str, snapshot: &MappedTarget) -> Option<VolumeTrouble> {
    let Some(trouble) = &snapshot.trouble else {
        let full = targets::fullness(snapshot).filter(|it| *it >= NEARLY_FULL)?;
        return Some(VolumeTrouble {
            said: format!(
                "the snapshot {name} is {} full, and lost when it is",
                words::percent(full)
            ),
            severity: Severity::Info,
            sure: Confidence::Possible,
            fix: EXTEND_SNAPSHOT,
            check: status_of(name),
            full: Some(full),
        });
    };
    let said = match trouble.as_str() {
        "Merge failed" => format!("merging the snapshot {name} failed"),
        word => format!("the snapshot {name} is lost ({word}): reads of it fail"),
    };
    Some(certain(said, REMOVE_SNAPSHOT, status_of(name)))
}

fn multipath(
    name: &str,
    before: Option<&MappedTarget>,
    now: &MappedTarget,
) -> Option<VolumeTrouble> {
    let (failed, all) = targets::failed_paths(now);
    let (count, names) = (failed.len(), failed.join(", "));
    let check = "`multipath -ll` shows no failed path while requests are slow: then they have \
                 another reason"
        .to_owned();
    if all > 0 && count == all {
        return Some(certain(format!("no path of {name} works: {names} failed"), PATHS, check));
    }
    let during = before.map_or(0, |before| targets::path_failures(before, now));
    if during > 0 {
        let times = plural(during, "time");
        let still = if count > 0 { format!("; {names} failed") } else { String::new() };
        let said = format!("paths of {name} failed {times} during the watch{still}");
        return Some(certain(said, PATHS, check));
    }
    (count > 0).then(|| VolumeTrouble {
        said: format!("{count} of {} of {name} failed: {names}", plural(all as u64, "path")),
        severity: Severity::Info,
        sure: Confidence::Likely,
        fix: PATHS,
        check,
        full: None,
    })
}

fn raid(name: &str, raid: &MappedTarget) -> Option<VolumeTrouble> {
    let lost = raid.failed_members.filter(|failed_member| *failed_member > 0)?;
    Some(VolumeTrouble {
        said: format!("{} of the RAID {name} failed", plural(lost, "member")),
        severity: Severity::Info,
        sure: Confidence::Likely,
        fix: "replace the disk (`lvs -a -o name,lv_health_status,devices`, `lvconvert --repair`): \
              until then reads have fewer disks, and the next failure may lose data",
        check: status_of(name),
        full: None,
    })
}

/// A cache, a thin volume: what gave up.
fn broken(name: &str, target: &MappedTarget) -> Option<VolumeTrouble> {
    let trouble = target.trouble.as_deref()?;
    let said = format!("the {} {name} is in trouble: {trouble}", target.target);
    Some(certain(said, REPAIR, status_of(name)))
}

fn bcache(name: &str, before: Option<&DeviceHealth>, now: &BcacheState) -> Option<VolumeTrouble> {
    let check = format!(
        "`cat /sys/block/{name}/bcache/state` and the same load again with the \
                         cache: if requests are as slow, they have another reason"
    );
    let info = |said: String, fix| {
        let (severity, sure) = (Severity::Info, Confidence::Possible);
        Some(VolumeTrouble { said, severity, sure, fix, check: check.clone(), full: None })
    };
    let had_cache = before
        .and_then(|it| it.bcache.as_ref())
        .is_some_and(|before| before.state != targets::NO_CACHE);
    match now.state.as_str() {
        targets::NO_CACHE if had_cache => {
            Some(certain(format!("{name} lost its cache during the watch"), ATTACH, check.clone()))
        }
        targets::NO_CACHE => info(format!("{name} has no cache attached"), ATTACH),
        "inconsistent" => Some(certain(
            format!("{name} runs without the cache that holds its newest data"),
            ATTACH,
            check.clone(),
        )),
        _ if now.congested == Some(true) => info(
            format!("{name} sends requests past its cache, whose device is congested"),
            "relieve the cache's device; if it is fast enough, raise or switch off the limit \
             (`congested_read_threshold_us` and `congested_write_threshold_us` in \
             /sys/fs/bcache/UUID, 0 is off)",
        ),
        _ => None,
    }
}

fn finding(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    at: &Device,
    trouble: &VolumeTrouble,
) -> Finding {
    let name = &device.device;
    let time_ns = facts::device_time_ns(device).max(facts::stage_sum(device, Interval::D2c));
    let is_other = at.name != *name;
    let sentence = match is_other {
        true => format!("{name} depends on a device in trouble: {}", trouble.said),
        false => trouble.said.clone(),
    };
    let mut finding = Finding::of_device(facts, time_ns, time_ns, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(trouble.sure)
        .at_least(trouble.severity)
        .at_most(trouble.severity)
        // How much of the time is due to the state is not in the data.
        .upper_bound()
        .fix(trouble.fix)
        .check(trouble.check.clone());
    if let Some(full) = trouble.full {
        let command = format!("dmsetup status --noflush /dev/{}", at.name);
        finding = finding.shown("in use", full * 100.0, "%", command);
    }
    finding
}

const EXTEND_POOL: &str = "extend the pool now (`lvextend -L +10G VG/POOL`, for metadata \
                           `--poolmetadatasize`), remove snapshots and volumes that are not \
                           needed, `fstrim` file systems on it; have LVM do it \
                           (`thin_pool_autoextend_threshold` below 100)";
const REPAIR: &str = "read what the kernel logged (`dmesg`), stop writing, and repair it offline \
                      (`lvconvert --repair VG/LV`, `thin_check`, `cache_check`)";
const EXTEND_SNAPSHOT: &str = "extend it (`lvextend -L +1G VG/SNAPSHOT`), or remove it if it is \
                               not needed; have LVM do it (`snapshot_autoextend_threshold` below \
                               100)";
const REMOVE_SNAPSHOT: &str = "remove it (`lvremove VG/SNAPSHOT`): what it held cannot be read any \
                               more; give the next one more space";
const PATHS: &str = "find out why (`multipath -ll`, `dmesg`): cable, port, switch or the array's \
                     controller; until then the other paths carry everything";
const ATTACH: &str = "attach its cache (`echo UUID > /sys/block/bcache0/bcache/attach`), and find \
                      out why it went (`dmesg`): errors of the cache's device detach it";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::health::MultipathPath;
    use iowhy_model::script::Script;

    /// Returns the finding about `dm-1` on `dm-0` on `sda2`, where `dm-0` reported this.
    fn found(start: DeviceHealth, end: DeviceHealth) -> Option<Finding> {
        let mut script = Script::new(10);
        let mut add = |name: &str, below: &[&str], health: Option<(DeviceHealth, DeviceHealth)>| {
            let (health_start, health_end) = health.unzip();
            script.environment.devices.push(Device {
                name: name.to_owned(),
                below: below.iter().map(|it| (*it).to_owned()).collect(),
                health_start,
                health_end,
                ..Device::default()
            });
        };
        add("sda", &[], None);
        add("dm-0", &["sda2"], Some((start, end)));
        // A device that names itself does no harm.
        add("dm-1", &["dm-0", "dm-1"], None);
        for index in 0..900_i64 {
            let write = script.write("dm-1", 4096).by(7, "db").at(index * 10_000_000);
            write.direct(0, 0, 8_000_000).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "volume-state")
    }

    fn target(target: MappedTarget) -> DeviceHealth {
        DeviceHealth { targets: vec![target], ..DeviceHealth::default() }
    }

    fn pool(trouble: Option<&str>, used: u64) -> DeviceHealth {
        target(MappedTarget {
            target: "thin-pool".to_owned(),
            trouble: trouble.map(str::to_owned),
            used: Some(used),
            total: Some(1000),
            metadata_used: Some(1),
            metadata_total: Some(100),
            waits_for_space: Some(true),
            ..MappedTarget::default()
        })
    }

    fn case(start: DeviceHealth, end: DeviceHealth, said: &str, severity: Severity) {
        let it = found(start, end).expect(said);
        assert!(it.sentence.contains(said), "{}", it.sentence);
        assert_eq!(it.severity, severity, "{said}");
        assert!(it.impact_at_most);
        assert_eq!(it.subject.device.as_deref(), Some("dm-1"));
    }

    #[test]
    fn a_pool_below_that_is_full_or_broken_is_said() {
        let good = || pool(None, 500);
        assert_eq!(found(good(), good()), None);
        assert_eq!(found(good(), pool(None, 949)), None);
        let warning = Severity::Warning;
        let full = pool(Some("out_of_data_space"), 1000);
        let said = "dm-1 depends on a device in trouble: the thin pool dm-0 is full: writes to new \
                    blocks wait for space";
        case(good(), full.clone(), said, warning);
        let mut fails = full;
        fails.targets[0].waits_for_space = Some(false);
        case(good(), fails, "the thin pool dm-0 is full: writes to new blocks fail", warning);
        case(good(), pool(Some("ro"), 500), "the thin pool dm-0 is read-only", warning);
        let mut metadata = pool(Some("ro"), 500);
        metadata.targets[0].metadata_used = Some(100);
        case(good(), metadata, "has no space for metadata", warning);
        case(good(), pool(Some("Fail"), 500), "the thin pool dm-0 failed", warning);
        case(good(), pool(Some("needs_check"), 500), "needs a check", warning);
        case(good(), pool(None, 950), "the thin pool dm-0 is 95 % full", Severity::Info);
    }

    #[test]
    fn snapshots_members_and_caches_are_said() {
        let of = |name: &str, trouble: Option<&str>, used| {
            target(MappedTarget {
                target: name.to_owned(),
                trouble: trouble.map(str::to_owned),
                used: Some(used),
                total: Some(100),
                failed_members: (name == "raid").then_some(1),
                ..MappedTarget::default()
            })
        };
        let (warning, info) = (Severity::Warning, Severity::Info);
        let good = || of("snapshot", None, 50);
        assert_eq!(found(good(), good()), None);
        case(good(), of("snapshot", None, 96), "the snapshot dm-0 is 96 % full", info);
        for word in ["Invalid", "Overflow"] {
            let said = format!("the snapshot dm-0 is lost ({word})");
            case(good(), of("snapshot", Some(word), 0), &said, warning);
        }
        // A full cache is what it is for.
        assert_eq!(found(good(), of("cache", None, 100)), None);
        case(good(), of("cache", Some("Fail"), 0), "the cache dm-0 is in trouble: Fail", warning);
        case(good(), of("raid", None, 0), "1 member of the RAID dm-0 failed", info);
    }

    #[test]
    fn paths_that_fail_during_the_watch_are_more_than_those_that_had() {
        let of = |active: [bool; 2], failures: u64| {
            let path = |(device, active): (&str, bool)| MultipathPath {
                device: device.to_owned(),
                active,
                failures,
            };
            target(MappedTarget {
                target: "multipath".to_owned(),
                paths: ["sdb", "sdc"].into_iter().zip(active).map(path).collect(),
                ..MappedTarget::default()
            })
        };
        let good = || of([true, true], 3);
        assert_eq!(found(good(), good()), None, "history");
        let (warning, info) = (Severity::Warning, Severity::Info);
        let one = || of([true, false], 3);
        case(one(), one(), "1 of 2 paths of dm-0 failed: sdc", info);
        case(good(), of([true, false], 4), "failed 2 times during the watch; sdc failed", warning);
        case(good(), of([true, true], 4), "paths of dm-0 failed 2 times during the watch", warning);
        let none = || of([false, false], 3);
        case(none(), none(), "no path of dm-0 works: sdb, sdc failed", warning);
    }

    #[test]
    fn a_cache_that_goes_is_more_than_one_that_never_was() {
        let of = |state: &str, congested| {
            let state = state.to_owned();
            let bcache =
                BcacheState { state, congested: Some(congested), ..BcacheState::default() };
            DeviceHealth { bcache: Some(bcache), ..DeviceHealth::default() }
        };
        assert_eq!(found(of("clean", false), of("dirty", false)), None);
        let (warning, info) = (Severity::Warning, Severity::Info);
        case(of("clean", false), of("no cache", false), "dm-0 lost its cache", warning);
        case(of("no cache", false), of("no cache", false), "dm-0 has no cache attached", info);
        case(of("clean", false), of("dirty", true), "dm-0 sends requests past its cache", info);
        case(of("clean", false), of("inconsistent", false), "runs without the cache", warning);
    }
}
