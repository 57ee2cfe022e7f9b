//! A cgroup's I/O limit delays bios before they become requests.

#[path = "cgroup_throttle/journal.rs"]
mod journal;

use super::*;
use crate::facts::thresholds::WARNING_SHARE;
use facts::Waited;
use iowhy_model::cgroup::{Cgroup, IoLimit};
use iowhy_model::command::shell_word;

/// Functions that queue a throttled bio.
const DISPATCH: &[&str] = &["blk_throtl_dispatch_work_fn", "throtl_pd_offline"];
/// Functions in which a thread waits off its cgroup's debt: io.latency of a neighbour, or io.cost
/// (blkcg_schedule_throttle). A limit of io.max never makes a thread wait there.
const OF_DEBT: &[&str] =
    &["blkcg_maybe_throttle_current", "__blkcg_maybe_throttle_*", "blkcg_iolatency_throttle"];
/// The one of them that only io.latency uses.
const OF_LATENCY: &[&str] = &["blkcg_iolatency_throttle"];
/// The least share of the requests' time, queued by the throttle worker, to blame the limit without
/// waits (asynchronous programs). Chosen.
const DISPATCHED: f64 = 0.3;
/// From this share of a limit on, a device does as much as it allows, and beyond its inverse more:
/// then the limit is another program's. Chosen: merged requests and the ends of the watch are in
/// the rate.
const REACHED: f64 = 0.85;
/// The least share of its limit that a cgroup uses, for long waits to be for the limit. Chosen.
const USED: f64 = 0.4;
/// A wait for pages that is so many times longer than the 99th percentile of requests, from
/// queueing to completion, is not for the device. Chosen.
const TIMES_REQUEST: f64 = 10.0;
/// The largest share of time with requests in flight of a device that could do more. Chosen.
const IDLE: f64 = 0.5;

rule!(
    "cgroup-throttle",
    "cgroup I/O throttling",
    "A limit on a cgroup (io.max, or blkio.throttle.* of version 1) makes the kernel hold bios \
     until the cgroup may submit more. They are not queued yet, so iostat, blktrace and the device \
     show short requests and an idle disk, while the program waits many times longer. A kernel \
     worker (blk_throtl_dispatch_work_fn) queues them later, which identifies the limit. \
     io.latency throttles the neighbours of a cgroup that misses its target, and io.cost a cgroup \
     in debt for swap or metadata: their threads wait in the kernel.",
    "The same program waits without the worker, or waits as long after the limit was raised.",
    place: Limit,
    trial: "limits=none",
    picture: Limit,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let waited = facts.waits_for(WaitClass::CgroupThrottle);
    let dispatched = facts.path_share(DISPATCH);
    let held_ns = waited.class_ns;
    // A thread that syncs waits for pages whose bios are held, not in the limit itself.
    let bound = bound(facts).filter(|bound| bound.waited.class_ns > held_ns);
    if let Some(finding) = bound.and_then(|bound| of_bound(facts, &bound)) {
        let sure = if held_ns > 0 { Confidence::Certain } else { Confidence::Likely };
        return Ok(finding.sure(sure).into());
    }
    if held_ns == 0 && dispatched < DISPATCHED {
        if let Some(reached) = reached(facts) {
            return Ok(reached.into());
        }
        if facts.need_waits().is_err() {
            facts.need_stacks()?;
        }
        return Ok(RuleVerdict::Clear);
    }
    let mut subject = waited.subject();
    let behind = journal::behind_thread(facts, &subject);
    let finding = if behind.time_ns > 0 {
        let claims = Claims::of_class(&waited).and(&Claims::of_waits(&behind));
        Finding::of_blocked(facts, held_ns + behind.time_ns, String::new()).claiming(claims)
    } else if held_ns > 0 {
        Finding::of_blocked(facts, held_ns, String::new())
    } else {
        // The worker's name does not say which process is throttled.
        let held = |device: &&DeviceSummary| !facts.paths_on(&device.device, DISPATCH).is_empty();
        subject.device = facts.devices().iter().find(held).map(|device| device.device.clone());
        Finding::of_share(ImpactOf::DeviceTime, dispatched, 1.0, String::new())
    };
    let by = Throttle::new(facts);
    let known = subject.device.as_deref().and_then(|device| only_limit(facts, device));
    let pid = words::pid(&subject);
    let mut finding = finding
        .saying(by.sentence(&subject, known.as_ref()) + &journal::behind_words(&behind))
        .about(subject)
        .sure(if held_ns > 0 { Confidence::Certain } else { Confidence::Likely })
        .fix(by.fix(&pid, known.as_ref()))
        .check(format!(
            "without the limit the waits end and the device gets busier; if they stay, the limit \
             is not the cause{}",
            words::tried("limits=none"),
        ));
    // Either sign may be missing: programs that do not wait themselves, or no stack of the worker.
    if held_ns > 0 {
        finding = finding
            .shown("throttled before the request was queued", held_ns as f64, "ns", "iowhy waits")
            .also("longest wait", waited.longest_ns() as f64, "ns");
    }
    if dispatched > 0.0 {
        finding = finding.shown(
            "share of request time queued by the throttle worker",
            dispatched * 100.0,
            "%",
            "iowhy stacks",
        );
    }
    Ok(finding.into())
}

/// A limit that is known.
struct KnownLimit {
    /// The cgroup.
    path: String,
    /// `60 writes/s`.
    limit: String,
    /// The same as numbers.
    io: IoLimit,
    /// The command that removes it, below the cgroup's folder.
    removal: String,
}

/// The only limit of a cgroup on a device; `None` if several have one, or none that is known.
fn only_limit(facts: &Facts<'_>, device: &str) -> Option<KnownLimit> {
    let device = facts.devices().iter().find(|it| it.device == device)?;
    let number = (device.major, device.minor);
    let cgroups = facts.summary().environment.cgroups.iter();
    let mut limited = cgroups.filter_map(|cgroup| {
        let io = cgroup.io_limits().remove(&number)?;
        let (limit, removal) = (words::io_limit(&io), removal(cgroup, number));
        Some(KnownLimit { path: cgroup.path.clone(), limit, io, removal })
    });
    limited.next().filter(|_| limited.next().is_none())
}

/// A cgroup that does as much on a device as its limit allows, and the waits of its programs.
struct BoundCgroup<'a> {
    device: &'a DeviceSummary,
    known: KnownLimit,
    waited: facts::Waited<'a>,
    /// The use that it makes of its limit, as a share.
    share: f64,
    /// Whether its waits are much longer than requests take.
    is_held: bool,
}

/// Returns the cgroup at its limit whose programs wait longest.
fn bound<'a>(facts: &Facts<'a>) -> Option<BoundCgroup<'a>> {
    let cgroups = &facts.summary().environment.cgroups;
    let limits = cgroups.iter().flat_map(|cgroup| {
        cgroup.io_limits().into_iter().map(move |(number, io)| (cgroup, number, io))
    });
    let bound = limits.filter_map(|(cgroup, number, io)| {
        let device =
            facts.devices().iter().find(|device| (device.major, device.minor) == number)?;
        let rows = facts.summary().containers.rows.iter();
        let own: Vec<_> = rows.filter(|row| is_within(&row.subject.cgroup, &cgroup.path)).collect();
        let share = own.iter().map(|row| share_of(facts, &io, &row.usage)).fold(0.0, f64::max);
        let waited = facts.waits(|group| {
            let inside = group.cgroup.as_deref().is_some_and(|own| is_within(own, &cgroup.path));
            inside && group.device.as_ref().is_none_or(|on| *on == device.device)
        });
        let (limit, removal) = (words::io_limit(&io), removal(cgroup, number));
        let known = KnownLimit { path: cgroup.path.clone(), limit, io, removal };
        let is_reached = (REACHED..=1.0 / REACHED).contains(&share) && waited.time_ns > 0;
        let is_held = (own.is_empty() || share >= USED) && is_held_above(device, &waited);
        (is_reached || is_held).then_some(BoundCgroup { device, known, waited, share, is_held })
    });
    bound.max_by_key(|bound| bound.waited.time_ns)
}

/// Whether threads wait for pages to be written for much longer than nearly all of the device's
/// requests take, from queueing to completion: the kernel holds back what they wait for.
fn is_held_above(device: &DeviceSummary, waited: &Waited<'_>) -> bool {
    let pages = [WaitClass::Fsync, WaitClass::PageLock];
    let of_pages = waited.groups.iter().filter(|group| pages.contains(&group.class));
    let of_pages = Waited::from_groups(of_pages.copied().collect());
    let is_most = of_pages.class_ns.saturating_mul(2) > waited.time_ns;
    is_most && is_far_longer(device, of_pages.mean_ns())
}

/// Whether a wait is much longer than nearly all of the device's writes take.
fn is_far_longer(device: &DeviceSummary, wait_ns: f64) -> bool {
    let request = facts::stage(device, Direction::Write, Interval::Q2c);
    request.is_some_and(|stage| stage.p99_ns > 0 && wait_ns >= TIMES_REQUEST * stage.p99_ns as f64)
}

/// Whether a cgroup is another one or below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the largest share of one of the limits that this usage is.
fn share_of(facts: &Facts<'_>, io: &IoLimit, usage: &iowhy_analysis::summary::Usage) -> f64 {
    let per_s = |count: u64| count as f64 / facts.seconds();
    let (reads, writes) = (&usage.directions[Direction::Read], &usage.directions[Direction::Write]);
    let shares = [
        (io.read_bytes, reads.bytes),
        (io.write_bytes, writes.bytes),
        (io.reads, reads.requests),
        (io.writes, writes.requests),
    ];
    let known = shares.into_iter().filter_map(|(limit, used)| Some((limit?, used)));
    known.map(|(limit, used)| per_s(used) / limit.max(1) as f64).fold(0.0, f64::max)
}

fn of_bound(facts: &Facts<'_>, bound: &BoundCgroup<'_>) -> Option<Finding> {
    let name = &bound.device.device;
    let programs = facts.by_program(&bound.waited);
    let (first, others) = programs.split_first()?;
    let subject = first.waited.subject();
    let subject = Subject { device: Some(name.clone()), pid: first.pid(), ..subject };
    let (who, wait) = first.named();
    let call = first.waited.groups.first().and_then(|group| facts.call_name(group.syscall));
    let why = match bound.is_held {
        true => "requests of the device are much faster".to_owned(),
        false => {
            format!("the cgroup does {} of what it allows", words::percent(bound.share))
        }
    };
    // Who has a share of the same limit, and so of the others' time.
    let least_ns = WARNING_SHARE * facts.duration_ns() as f64;
    let beside = others.iter().find(|other| other.waited.time_ns as f64 >= least_ns);
    let beside = beside.map(|other| {
        let (who, wait) = other.named();
        let time = words::time(other.waited.time_ns as f64);
        format!("; {who} in the same cgroup {wait} {time}")
    });
    let behind = behind_journal(facts, bound);
    let limit = format!("the I/O limit of cgroup {} ({})", bound.known.path, bound.known.limit);
    let sentence = match behind.time_ns {
        0 => format!(
            "{limit} on {name} throttles {who}, which {wait} {} in {}, {} each, and {why}{}",
            words::time(first.waited.time_ns as f64),
            call.unwrap_or("I/O"),
            words::time(first.waited.mean_ns()),
            beside.as_deref().unwrap_or_default(),
        ),
        _ => format!("{limit} on {name} throttles {who}{}", journal::behind_words(&behind)),
    };
    let pid = words::pid(&subject);
    // Time at the device is the device's: a limit acts before a request exists.
    let claims = Claims::of_class(&bound.waited).and(&Claims::of_waits(&behind));
    let blocked_ns = bound.waited.class_ns.saturating_add(behind.time_ns);
    let finding = Finding::of_blocked(facts, blocked_ns, sentence).claiming(claims).about(subject);
    // Of a thinned watch its requests may be missing.
    let finding = match bound.share > 0.0 {
        true => finding.shown("what it does of its limit", bound.share * 100.0, "%", "iowhy proc"),
        false => finding,
    };
    let fix = Throttle::Limit.fix(&pid, Some(&bound.known));
    let fix = match beside {
        _ if behind.time_ns > 0 => format!("{fix}; or {}", journal::OWN_FILE_SYSTEM),
        Some(_) => format!("{fix}; or give programs that need not share it cgroups of their own"),
        None => fix,
    };
    let finding = finding
        .shown("blocked time", bound.waited.time_ns as f64, "ns", "iowhy waits")
        .fix(fix)
        .check(format!(
            "without the limit the waits end and the device gets busier{}",
            words::tried("limits=none"),
        ));
    Some(finding)
}

/// Returns the waits of others for the journal that the limit holds up.
fn behind_journal<'a>(facts: &Facts<'a>, bound: &BoundCgroup<'_>) -> Waited<'a> {
    let is_limited = |group: &WaitGroup| {
        group.cgroup.as_deref().is_some_and(|own| is_within(own, &bound.known.path))
    };
    let is_far_longer = |wait_ns| is_far_longer(bound.device, wait_ns);
    journal::behind_data(facts, bound.device, is_limited, is_far_longer)
}

/// A finding about a device that does as much as the only limit on it allows, while it is mostly
/// idle and threads wait: for dirty pages to be written, for a commit.
fn reached(facts: &Facts<'_>) -> Option<Finding> {
    let idle = facts
        .devices()
        .iter()
        .filter(|device| device.util_share.is_some_and(|util_share| util_share < IDLE));
    let mut bound = idle.filter_map(|device| {
        let known = only_limit(facts, &device.device)?;
        let of = |direction| &device.directions[direction];
        let (reads, writes) = (of(Direction::Read), of(Direction::Write));
        let limits = [
            (known.io.read_bytes, reads.bytes_per_s),
            (known.io.write_bytes, writes.bytes_per_s),
            (known.io.reads, reads.requests_per_s),
            (known.io.writes, writes.requests_per_s),
        ];
        let is_reached = |(limit, rate): &(Option<u64>, f64)| {
            limit.is_some_and(|limit| {
                let share = *rate / limit.max(1) as f64;
                (REACHED..=1.0 / REACHED).contains(&share)
            })
        };
        limits.iter().any(is_reached).then_some((device, known))
    });
    let (device, known) = bound.next()?;
    let waited = facts.waits(|it| it.device.as_deref() == Some(device.device.as_str()));
    let subject = Subject { device: Some(device.device.clone()), ..waited.subject() };
    let sentence = format!(
        "{} does as much as the I/O limit of cgroup {} allows ({}), and {} waits",
        device.device,
        known.path,
        known.limit,
        words::who(&subject),
    );
    let pid = words::pid(&subject);
    (waited.class_ns > 0).then(|| {
        Finding::of_class(facts, &waited, sentence)
            .about(subject)
            .sure(Confidence::Likely)
            .shown("time with requests in flight", device.util_share.unwrap_or(0.0) * 100.0, "%", {
                format!("iowhy stat -d {}", device.device)
            })
            .shown("blocked time", waited.class_ns as f64, "ns", "iowhy waits")
            .fix(Throttle::Limit.fix(&pid, Some(&known)))
            .check(format!(
                "without the limit the waits end and the device gets busier{}",
                words::tried("limits=none"),
            ))
    })
}

/// Version 1 has a file for each kind of limit, in which 0 means none.
fn removal(cgroup: &Cgroup, (major, minor): (u32, u32)) -> String {
    let number = format!("{major}:{minor}");
    let is_set = |text: &str| {
        let mut lines = text.split(';').filter_map(|line| line.trim().split_once(' '));
        lines.any(|(device, limit)| device == number && limit != "0")
    };
    let mut files = cgroup.settings_start.iter();
    match files.find(|(name, text)| name.starts_with("blkio.throttle.") && is_set(text)) {
        Some((file, _)) => format!("echo \"{number} 0\" > {}", shell_word(file)),
        None => format!("echo \"{number} rbps=max wbps=max riops=max wiops=max\" > io.max"),
    }
}

/// The controller that throttles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Throttle {
    /// io.max, or version 1's blkio.throttle.
    Limit,
    /// io.latency.
    Latency,
    /// io.latency or io.cost: the kernel makes a thread wait for both in the same function.
    Debt,
}

impl Throttle {
    fn new(facts: &Facts<'_>) -> Throttle {
        let of_class = |functions: &[&str]| {
            let fits = |functions: &[&str], stack: &[String]| facts::has_function(stack, functions);
            let known = facts.waits_with(|it| {
                it.class == WaitClass::CgroupThrottle && fits(functions, &it.functions)
            });
            known.0
        };
        let (debt, latency) = (of_class(OF_DEBT), of_class(OF_LATENCY));
        let all = facts.waits_for(WaitClass::CgroupThrottle).time_ns;
        if debt == 0 || debt * 2 < all {
            Throttle::Limit
        } else if latency * 2 >= debt {
            Throttle::Latency
        } else {
            Throttle::Debt
        }
    }

    fn sentence(self, subject: &Subject, known: Option<&KnownLimit>) -> String {
        let (who, on) = (words::who(subject), words::on(subject));
        match (self, known) {
            (Throttle::Limit, Some(KnownLimit { path, limit, .. })) => {
                format!("the I/O limit of cgroup {path} ({limit}) throttles {who}{on}")
            }
            (Throttle::Limit, None) => {
                format!("the I/O limit of its cgroup throttles {who}{on}")
            }
            (Throttle::Latency, _) => format!(
                "io.latency throttles {who}{on}: a neighbour of its cgroup misses its target"
            ),
            (Throttle::Debt, _) => format!(
                "{who}{on} is throttled for its cgroup's debt: io.latency of a neighbour, or \
                 io.cost"
            ),
        }
    }

    fn fix(self, pid: &str, known: Option<&KnownLimit>) -> String {
        match self {
            Throttle::Limit => match known {
                Some(KnownLimit { path, removal, .. }) => format!(
                    "raise or remove the limit of cgroup {path}, unless it is meant to protect \
                     others: `{removal}` in its folder. systemd (IOReadIOPSMax= and the like) or \
                     the container's settings may set it again"
                ),
                None => format!(
                    "raise or remove the limit of its cgroup (`cat /proc/{pid}/cgroup`) or of one \
                     above it, unless it is meant to protect others: `echo \"MAJ:MIN rbps=max \
                     wbps=max riops=max wiops=max\" > io.max` (version 1: blkio.throttle.*). \
                     systemd (IOReadIOPSMax= and the like) or the container's settings may set it \
                     again"
                ),
            },
            Throttle::Latency | Throttle::Debt => format!(
                "raise the target in io.latency of the neighbours of its cgroup (`cat \
                 /proc/{pid}/cgroup`), or remove it; if `cat /sys/fs/cgroup/io.cost.qos` shows \
                 enable=1, raise io.weight of its cgroup, or set a model that fits the device \
                 (io.cost.model)"
            ),
        }
    }
}

#[cfg(test)]
#[path = "cgroup_throttle/tests.rs"]
mod tests;
