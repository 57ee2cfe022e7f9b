//! A setting changed during the watch.

use super::*;
use facts::moment::{Around, MomentPart, WorkMeasure};
use facts::thresholds::{SAME_LOAD, SAME_READS};
use iowhy_analysis::summary::ChangedSetting;
use iowhy_model::environment::chosen;

/// The least factor by which the same load takes longer since the change. Chosen.
const SLOWER: f64 = 1.3;
/// The most requests in flight before the change for a device with spare capacity: a load with
/// about the same rate since has not filled it. Chosen.
const IDLE: f64 = 0.8;
const AS_OFTEN: f64 = 0.1;
/// Bins longer than this hide what happened shortly before the change, nanoseconds.
const COARSE_NS: u64 = 5_000_000_000;
/// Settings that can make requests smaller: then only bytes can be compared.
const OF_SIZES: &[&str] = &[READ_AHEAD, "queue/max_sectors_kb", NO_MERGES];
const READ_AHEAD: &str = "queue/read_ahead_kb";
const NO_MERGES: &str = "queue/nomerges";

rule!(
    "config-regression",
    "changed setting",
    "The same load behaves differently with another scheduler, queue length, readahead, mount \
     option or kernel. Within one watch iowhy polls device settings about once a second and \
     compares the times before and after a change; between two hosts, or before and after an \
     update, iowhy diff A B shows which settings and which stages differ.",
    "The times changed at another moment than the setting, or with the load.",
    place: Fault,
    needs: [Settings],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let changed = &facts.summary().changed_settings;
    let found = changed.iter().filter_map(|change| slower(facts, change));
    // The first of those seen at once: a new scheduler sets its own nr_requests.
    let worst = found.reduce(|a, b| if b.share > a.share { b } else { a });
    Ok(worst.map_or_else(|| only_changes(changed), |worst| regression(facts, &worst).into()))
}

/// A change that is not known to have made anything slower.
fn only_changes(changed: &[ChangedSetting]) -> RuleVerdict {
    let Some(first) = changed.iter().find(|it| it.device.is_some()).or(changed.first()) else {
        return RuleVerdict::Clear;
    };
    let of = first.device.as_deref().unwrap_or("the machine");
    let (was, is) = (chosen(&first.before), chosen(&first.after));
    let sentence =
        format!("{} of {of} changed during the watch, from {was} to {is}", first.setting);
    let impact = super::super::finding::LEAST_IMPACT;
    Finding::of_share(ImpactOf::DeviceTime, impact, 0.0, sentence)
        .about(Subject { device: first.device.clone(), ..Subject::default() })
        .sure(Confidence::Certain)
        .at_most(super::super::finding::Severity::Info)
        .shown("settings changes", changed.len() as f64, "changes", "iowhy diff A B")
        .fix(
            "find what changed it (a tuning daemon, udev, a script), and revert it if the times \
              got worse",
        )
        .check(
            "`iowhy diff BEFORE AFTER` with a recording from before and one from after: if no \
                stage differs, the change does not matter",
        )
        .into()
}

/// A load that takes longer since a settings change.
struct SlowerSince<'a> {
    device: &'a DeviceSummary,
    change: &'a ChangedSetting,
    /// Approximate time of the change, nanoseconds since the watch began.
    at_ns: u64,
    work: WorkMeasure,
    before: MomentPart,
    since: MomentPart,
    /// The share of the device's time that the same load would not have taken before.
    share: f64,
    confidence: Confidence,
}

fn slower<'a>(facts: &Facts<'a>, change: &'a ChangedSetting) -> Option<SlowerSince<'a>> {
    let (name, (since_ns, by_ns)) = (change.device.as_ref()?, change.between_ns?);
    let device = facts
        .devices()
        .iter()
        .find(|device| device.device == *name && device.stalled_ns.is_none())?;
    let around = Around::new(facts.patterns(name)?, since_ns, by_ns)?;
    let of_sizes = OF_SIZES.contains(&change.setting.as_str());
    let work = if of_sizes { WorkMeasure::Bytes } else { WorkMeasure::Requests };
    let (before, since) = (around.before, around.since);
    let is_slower = around.is_step(SLOWER, work) && since.cost(work) >= SLOWER * before.cost(work);
    let is_comparable = match work {
        WorkMeasure::Bytes => cuts(change, &before, &since),
        WorkMeasure::Requests => is_alike(&before, &since),
    };
    let is_asked_as_much = is_same_load(&before, &since, work) && !around.is_another_program();
    (is_slower && is_comparable && is_asked_as_much).then(|| SlowerSince {
        device,
        change,
        at_ns: since_ns.midpoint(by_ns),
        work,
        before,
        since,
        share: around.extra_share(work),
        confidence: match around.bin_ns() > COARSE_NS {
            true => Confidence::Possible,
            false => Confidence::Likely,
        },
    })
}

fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME_LOAD * a.max(b)
}

/// Whether requests have the same mix and sizes, and take longer.
fn is_alike(before: &MomentPart, since: &MomentPart) -> bool {
    (before.read_share() - since.read_share()).abs() <= SAME_READS
        && alike(before.size(), since.size())
        && since.times_as_long_as(before) >= SLOWER
}

/// Whether the change makes requests smaller, and they became smaller.
fn cuts(change: &ChangedSetting, before: &MomentPart, since: &MomentPart) -> bool {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (Some(was), Some(is)) = (number(&change.before), number(&change.after)) else {
        return false;
    };
    let is_less = if change.setting == NO_MERGES { is > was } else { is < was };
    let is_concerned = change.setting != READ_AHEAD || before.read_share() > 0.5;
    is_less && is_concerned && since.size() < (1.0 - SAME_LOAD) * before.size()
}

/// Whether the load is the same since. At a greater depth requests take longer at the same
/// throughput (Little's law), so either fewer complete at the same depth, or the device had spare
/// capacity and the rate is the same.
fn is_same_load(before: &MomentPart, since: &MomentPart, work: WorkMeasure) -> bool {
    let (had, has) = (before.pace(work), since.pace(work));
    let waits_as_many =
        work == WorkMeasure::Bytes || since.depth() >= (1.0 - SAME_LOAD) * before.depth();
    let is_held_up = has * SLOWER <= had && waits_as_many;
    let is_paced = before.depth() < IDLE && (has - had).abs() <= AS_OFTEN * had;
    is_held_up || is_paced
}

fn regression(facts: &Facts<'_>, slower: &SlowerSince<'_>) -> Finding {
    let SlowerSince { device, change, before, since, .. } = slower;
    let (name, setting, was) = (&device.device, &change.setting, chosen(&change.before));
    let (figure, unit) = match slower.work {
        WorkMeasure::Bytes => ("throughput", "bytes"),
        WorkMeasure::Requests => ("mean request time", "ns"),
    };
    let whole = facts::device_time_ns(device);
    let extra_ns = slower.share * whole as f64;
    Finding::of_device(facts, extra_ns as u64, whole, sentence(facts, slower))
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(slower.confidence)
        .shown(
            format!("{figure} before"),
            slower.figure(before),
            unit,
            format!("iowhy stat -d {name} 1"),
        )
        .also(format!("{figure} since"), slower.figure(since), unit)
        .also("mean requests in flight before", before.depth(), "requests")
        .also("mean requests in flight since", since.depth(), "requests")
        .fix(match is_plain(was) && is_plain(setting) {
            true => format!(
                "`echo {was} > /sys/block/{name}/{setting}`, and find what changed \
                             it (a tuning daemon, udev, a script)"
            ),
            false => {
                "revert it, and find what changed it (a tuning daemon, udev, a script)".to_owned()
            }
        })
        .check(format!(
            "`iowhy stat -d {name} 1` while it is reverted: if nothing becomes faster at once, \
                        something else changed at the same moment"
        ))
}

/// Whether it is safe in a shell without quoting: a recording is untrusted.
fn is_plain(text: &str) -> bool {
    text.chars().all(|character| character.is_ascii_alphanumeric() || "-_ /".contains(character))
        && !text.is_empty()
}

fn sentence(facts: &Facts<'_>, slower: &SlowerSince<'_>) -> String {
    let (name, change) = (&slower.device.device, slower.change);
    let (now, then) = (slower.figure(&slower.since), slower.figure(&slower.before));
    let what = match slower.work {
        WorkMeasure::Bytes => {
            format!(
                "{name} moves {} instead of {} per second",
                words::bytes(now),
                words::bytes(then)
            )
        }
        WorkMeasure::Requests => {
            format!("requests of {name} take {} instead of {}", words::time(now), words::time(then))
        }
    };
    let at_once = |changed_setting: &&ChangedSetting| {
        changed_setting.device == change.device
            && changed_setting.between_ns == change.between_ns
            && changed_setting.setting != change.setting
    };
    let others = facts.summary().changed_settings.iter().filter(at_once);
    let others: Vec<&str> = others.map(|it| it.setting.as_str()).collect();
    let with = match others.is_empty() {
        true => String::new(),
        false => format!(" (and with it {})", others.join(", ")),
    };
    let (was, is) = (chosen(&change.before), chosen(&change.after));
    format!(
        "{what} since {}{with} was changed from {was} to {is}, about {}",
        change.setting,
        words::moment(facts.summary(), slower.at_ns),
    )
}

impl SlowerSince<'_> {
    /// Returns the figure that is compared: bytes a second, or the mean time of a request,
    /// nanoseconds.
    fn figure(&self, part: &MomentPart) -> f64 {
        match self.work {
            WorkMeasure::Bytes => part.bytes_per_s(),
            WorkMeasure::Requests => part.mean_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::Operation;
    use iowhy_model::environment::{Device, SettingChange};
    use iowhy_model::script::{MS, START_NS, Script};

    const READ: Operation = Operation::Read;
    const WRITE: Operation = Operation::Write;

    /// Requests that are submitted together: operation, bytes, nanoseconds, program.
    type Sent = Vec<(Operation, u64, u64, &'static str)>;

    /// A setting that changed between these seconds.
    fn change(setting: &str, between_s: (u64, u64), before: &str, after: &str) -> SettingChange {
        SettingChange {
            setting: setting.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            since_ns: START_NS + between_s.0 * 1000 * MS,
            by_ns: START_NS + between_s.1 * 1000 * MS,
        }
    }

    fn scheduler(between_s: (u64, u64)) -> SettingChange {
        change("queue/scheduler", between_s, "[none] bfq", "none [bfq]")
    }

    /// The finding for a change; `next` returns what is submitted at a time of the watch, and the
    /// time until its next call.
    fn finding_for(
        seconds: u64,
        changed: SettingChange,
        next: impl Fn(u64) -> (u64, Sent),
    ) -> Option<Finding> {
        let mut script = Script::new(seconds);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            settings_changed: vec![changed],
            ..Device::default()
        });
        let (mut at, mut sector) = (0, 0);
        while at < (seconds * 1000 - 100) * MS {
            let (step, requests) = next(at);
            for (operation, bytes, ns, process) in requests {
                let sent = script.request("sda", operation).bytes(bytes).by(7, process);
                sent.at(at as i64).sector(sector).direct(1000, 1000, ns).add();
                sector = (sector + 7919 * 8) % (1 << 24);
            }
            at += step.max(1);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "config-regression")
    }

    /// The same, if the change is blamed.
    fn blamed(
        seconds: u64,
        changed: SettingChange,
        next: impl Fn(u64) -> (u64, Sent),
    ) -> Option<Finding> {
        finding_for(seconds, changed, next).filter(|it| it.sentence.contains(" instead of "))
    }

    /// A batch of this size, the next when it completes.
    fn alike(count: usize, operation: Operation, bytes: u64, ns: u64) -> (u64, Sent) {
        (ns, vec![(operation, bytes, ns, "db"); count])
    }

    /// One load for five seconds, then the other.
    fn then<T>(at: u64, before: T, since: T) -> T {
        if at < 5000 * MS { before } else { since }
    }

    /// Reads that become slower in the middle of ten seconds.
    fn slower(at: u64) -> (u64, Sent) {
        alike(4, READ, 4096, then(at, 5 * MS, 20 * MS))
    }

    #[test]
    fn what_takes_longer_since_a_change_is_its_doing() {
        let found = blamed(10, scheduler((5, 6)), slower).unwrap();
        assert!(
            found.severity > Severity::Info && (0.3..0.5).contains(&found.impact),
            "{found:#?}"
        );
        let end = "since queue/scheduler was changed from none to bfq, about 5.50 s after the \
                   watch began";
        assert!(found.sentence.ends_with(end), "{found:#?}");
        assert!(
            found.fix.starts_with("`echo none > /sys/block/sda/queue/scheduler`"),
            "{found:#?}"
        );
    }

    #[test]
    fn what_was_slow_before_or_became_so_later_is_named() {
        for between_s in [(2, 3), (7, 8)] {
            let found = finding_for(10, scheduler(between_s), slower).unwrap();
            assert_eq!(found.severity, Severity::Info, "{found:#?}");
        }
    }

    #[test]
    fn what_could_be_chosen_besides_is_no_change() {
        let listed =
            change("queue/scheduler", (5, 6), "none [mq-deadline]", "none [mq-deadline] bfq");
        assert_eq!(finding_for(10, listed, slower), None);
    }

    #[test]
    fn another_load_is_not_its_doing() {
        let loads: [(&str, [(u64, Sent); 2]); 5] = [
            ("more at once", [alike(4, READ, 4096, 5 * MS), alike(16, READ, 4096, 20 * MS)]),
            ("somewhat more", [alike(4, READ, 4096, 5 * MS), alike(6, READ, 4096, 8 * MS)]),
            ("fewer", [alike(4, READ, 4096, 5 * MS), alike(1, READ, 4096, 10 * MS)]),
            ("larger", [alike(4, READ, 4096, 5 * MS), alike(4, READ, 65_536, 20 * MS)]),
            (
                "more often",
                [
                    (10 * MS, alike(1, READ, 4096, 5 * MS).1),
                    (7 * MS, alike(1, READ, 4096, 8 * MS).1),
                ],
            ),
        ];
        for (what, [before, since]) in loads {
            let found = blamed(10, scheduler((5, 6)), |at| then(at, before.clone(), since.clone()));
            assert_eq!(found, None, "{what}");
        }
    }

    #[test]
    fn another_program_is_another_load() {
        let found = blamed(10, scheduler((5, 6)), |at| {
            let (ns, who) = then(at, (5 * MS, "db"), (20 * MS, "scan"));
            (ns, vec![(READ, 4096, ns, who); 4])
        });
        assert_eq!(found, None);
    }

    #[test]
    fn more_reads_among_quick_writes_are_another_load() {
        let found = blamed(10, scheduler((5, 6)), |at| {
            let is_read = (at / MS).is_multiple_of(then(at, 50, 9));
            let (operation, ns) = if is_read { (READ, 10 * MS) } else { (WRITE, MS / 10) };
            (MS, vec![(operation, 4096, ns, "db")])
        });
        assert_eq!(found, None);
    }

    #[test]
    fn who_asks_as_often_of_an_idle_device_is_slowed() {
        let found = blamed(10, scheduler((5, 6)), |at| {
            (20 * MS, vec![(READ, 4096, then(at, 5 * MS, 15 * MS), "db")])
        });
        assert!(found.is_some_and(|it| it.severity > Severity::Info));
    }

    #[test]
    fn what_grows_all_the_time_is_nobodys_doing() {
        let found =
            blamed(10, scheduler((5, 6)), |at| alike(4, READ, 4096, 5 * MS + at * 3 / 2000));
        assert_eq!(found, None);
    }

    #[test]
    fn what_became_slow_while_nothing_was_asked_is_not_known() {
        let found = blamed(58, scheduler((5, 6)), |at| match at / MS {
            0..5000 => alike(4, READ, 4096, 5 * MS),
            5000..50_000 => (45_000 * MS, Vec::new()),
            _ => alike(4, READ, 4096, 20 * MS),
        });
        assert_eq!(found, None);
    }

    #[test]
    fn long_bins_tell_little_of_when() {
        let changed = scheduler((18_000, 18_001));
        let found = blamed(36_000, changed, |at| {
            let ns = if at < 17_925_000 * MS { 5 * MS } else { 20 * MS };
            (5000 * MS, vec![(READ, 4096, ns, "db")])
        });
        assert!(found.is_none_or(|it| it.confidence == Confidence::Possible));
    }

    #[test]
    fn the_share_ends_with_the_load() {
        let found = blamed(59, scheduler((20, 21)), |at| match at / MS {
            0..20_000 => alike(4, READ, 4096, 5 * MS),
            20_000..30_000 => alike(4, READ, 4096, 8 * MS),
            _ => (50 * MS, vec![(READ, 4096, 8 * MS, "db")]),
        });
        assert!(found.as_ref().is_some_and(|it| it.impact < 0.3), "{found:#?}");
    }

    #[test]
    fn smaller_requests_are_compared_by_their_bytes() {
        let changed =
            |before: &str, after: &str| change("queue/read_ahead_kb", (5, 6), before, after);
        let smaller = |at| then(at, alike(2, READ, 131_072, 5 * MS), alike(1, READ, 4096, 2 * MS));
        let found = blamed(10, changed("128", "4"), smaller);
        assert!(
            found.is_some_and(|it| it.sentence.contains("per second since queue/read_ahead_kb"))
        );
        // More readahead makes no request smaller, and writes are not read ahead.
        assert_eq!(blamed(10, changed("128", "4096"), smaller), None);
        let writes = |at| then(at, alike(2, WRITE, 131_072, 5 * MS), alike(1, WRITE, 4096, 2 * MS));
        assert_eq!(blamed(10, changed("128", "4"), writes), None);
    }

    #[test]
    fn who_gets_more_bytes_than_before_lost_none() {
        let changed = change("queue/max_sectors_kb", (5, 6), "1280", "64");
        let found = blamed(10, changed, |at| {
            then(at, alike(2, READ, 131_072, 5 * MS), alike(8, READ, 65_536, 6 * MS))
        });
        assert_eq!(found, None);
    }

    #[test]
    fn what_no_shell_takes_is_not_advised() {
        let changed = change("queue/scheduler", (5, 6), "0; rm -rf ~", "bfq");
        assert!(blamed(10, changed, slower).is_some_and(|it| !it.fix.contains("echo")));
    }

    #[test]
    fn hostile_numbers_do_no_harm() {
        let times = [
            (0, u64::MAX),
            (u64::MAX, u64::MAX),
            (0, START_NS + 1),
            (START_NS + 9_000 * MS, START_NS + 1000 * MS),
            (START_NS + 5000 * MS, u64::MAX),
        ];
        for (since_ns, by_ns) in times {
            let changed = SettingChange { since_ns, by_ns, ..scheduler((5, 6)) };
            assert_eq!(blamed(10, changed, slower), None);
        }
        blamed(10, scheduler((5, 6)), |at| alike(4, READ, u64::MAX / 8, then(at, 5 * MS, 20 * MS)));
    }
}
