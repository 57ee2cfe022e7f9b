//! The I/O scheduler serves a program only when others leave the device idle.

use super::*;
use crate::bottleneck::bound::SLOW_NS;
use crate::facts::thresholds::WARNING_SHARE;
use crate::programs;
use facts::Waited;
use facts::behind::IDLE_CLASS;

/// The least share of a program's waits in the scheduler's queue for one that is put off, and the
/// largest of those that are served. Chosen: programs of one class wait there about as long.
const PUT_OFF: f64 = 0.5;
const SERVED: f64 = 0.2;

/// The least ratio of the times in the queue of those who are put off and of reads, if reads go
/// first. Chosen.
const BEHIND: f64 = 10.0;

/// How many times less weight makes a difference. Chosen: twice the time of the device.
const LESS: u64 = 2;

rule!(
    "io-priority",
    "low I/O priority",
    "The I/O schedulers bfq and mq-deadline order requests by the priority of their thread \
     (ionice) and by the weight of its cgroup. In the idle class, or with a small weight, requests \
     stay in the scheduler's queue as long as others keep the device busy, although the device \
     takes each of them within milliseconds.",
    "All programs wait in the queue alike: then the device is full (scheduler-overhead).",
    place: Setting,
    needs: [Waits, Settings, Queueing],
    trial: "scheduler=none",
);

/// The waits of a device's programs for requests, by what they wait for most.
struct Unequal<'a> {
    device: &'a DeviceSummary,
    scheduler: &'a str,
    put_off: Waited<'a>,
    served: Waited<'a>,
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let found = facts.devices().iter().filter_map(|device| unequal(facts, device));
    let findings: Vec<Finding> = found.map(|it| finding(facts, &it)).collect();
    Ok(findings.into())
}

/// Returns the programs that a device's scheduler puts off, and those that it serves meanwhile.
fn unequal<'a>(facts: &Facts<'a>, device: &'a DeviceSummary) -> Option<Unequal<'a>> {
    let scheduler = facts.setting(device, "queue/scheduler")?;
    let scheduler = scheduler.split_once('[')?.1.split_once(']')?.0;
    if scheduler == "none" {
        return None;
    }
    let on = |group: &WaitGroup| group.device.as_ref() == Some(&device.device);
    let is_put_off =
        |group: &WaitGroup| on(group) && queued_ns(group) >= PUT_OFF * group.time_ns as f64;
    let is_served =
        |group: &WaitGroup| on(group) && queued_ns(group) <= SERVED * group.time_ns as f64;
    let put_off = facts.waits(is_put_off);
    let process = put_off.groups.first()?.process.clone();
    let put_off = facts.waits(|group| is_put_off(group) && group.process == process);
    let is_its = |group: &WaitGroup| {
        let named = (Some(group.pid), group.process.as_str());
        put_off.groups.iter().any(|own| programs::are_of_one(named, (Some(own.pid), &own.process)))
    };
    let served = facts.waits(|group| is_served(group) && !is_its(group));
    let least_ns = WARNING_SHARE * facts.duration_ns() as f64;
    let is_much = |waited: &Waited<'_>| waited.time_ns as f64 >= least_ns;
    let is_slow = put_off.mean_ns() >= SLOW_NS && put_off.mean_ns() >= 2.0 * served.mean_ns();
    (is_much(&put_off) && is_much(&served) && is_slow).then_some(Unequal {
        device,
        scheduler,
        put_off,
        served,
    })
}

/// Returns the time of waits in the block layer's queue, nanoseconds.
fn queued_ns(group: &WaitGroup) -> f64 {
    let of_class = if group.class == WaitClass::Queue { group.class_ns() } else { 0 };
    (group.queue_ns + of_class) as f64
}

/// Returns the I/O class of the program that waits longest of these, where it has one of its own.
fn io_class<'a>(facts: &Facts<'a>, waited: &Waited<'a>) -> Option<&'a str> {
    let longest = waited.groups.first()?;
    facts.identity(longest.pid, &longest.process)?.io_class.as_deref()
}

/// The cgroup of a program and the weight of its requests for the device.
fn weighed<'a>(
    facts: &Facts<'a>,
    device: &DeviceSummary,
    waited: &Waited<'a>,
) -> Option<(&'a str, u64)> {
    let longest = waited.groups.first()?;
    let path = longest.cgroup.as_deref()?;
    let cgroup = facts.summary().environment.cgroups.iter().find(|cgroup| cgroup.path == path)?;
    Some((path, cgroup.bfq_weight((device.major, device.minor))?))
}

/// Why the scheduler treats two programs unlike, as far as their I/O classes and weights say.
struct Reason {
    /// What is said of who is put off.
    put_off: &'static str,
    /// What is said of who is served.
    served: &'static str,
    /// The end of the sentence.
    rest: String,
    fix: String,
    confidence: Confidence,
}

impl Reason {
    fn new(facts: &Facts<'_>, found: &Unequal<'_>) -> Reason {
        let classes = [&found.put_off, &found.served].map(|waited| io_class(facts, waited));
        let [put_off, served] = [&found.put_off, &found.served].map(Waited::subject);
        let [pid, other] = [&put_off, &served].map(words::pid);
        match classes {
            [Some(IDLE_CLASS), class] if class != Some(IDLE_CLASS) => Reason {
                put_off: ", which is in the idle I/O class",
                served: "",
                rest: String::new(),
                fix: format!(
                    "idle is served only while nobody else uses the device: if the program may \
                     have its share, give it the usual class: `ionice -c best-effort -n 4 -p \
                     {pid}` now, and where it is started: `ionice -c 3` or `chrt -i` before it, \
                     IOSchedulingClass= or CPUSchedulingPolicy= of its unit"
                ),
                confidence: Confidence::Certain,
            },
            [class, Some(first)] if is_realtime(first) && !class.is_some_and(is_realtime) => {
                Reason {
                    put_off: "",
                    served: ", which is in the realtime I/O class,",
                    rest: String::new(),
                    fix: format!(
                        "give {} the usual class: `ionice -c best-effort -n 4 -p {other}` now, \
                         and where it is started (`ionice -c 1`, IOSchedulingClass=)",
                        words::who(&served)
                    ),
                    confidence: Confidence::Certain,
                }
            }
            _ => Reason::of_weights(facts, found)
                .or_else(|| Reason::of_direction(facts, found))
                .unwrap_or_else(|| Reason::unknown(&pid)),
        }
    }

    fn unknown(pid: &str) -> Reason {
        Reason {
            put_off: "",
            served: "",
            rest: ", as with the idle I/O class or a small weight".to_owned(),
            fix: format!(
                "see its class with `ionice -p {pid}`: idle is served only while nobody else uses \
                 the device; give it best-effort (`ionice -c 2 -n 4 -p {pid}`; systemd: \
                 IOSchedulingClass=), or put the others into the idle class; else raise io.weight \
                 or io.bfq.weight of its cgroup"
            ),
            confidence: Confidence::Likely,
        }
    }

    /// mq-deadline serves a number of batches of reads before one of writes.
    fn of_direction(facts: &Facts<'_>, found: &Unequal<'_>) -> Option<Reason> {
        let reads = facts::stage(found.device, Direction::Read, Interval::Q2d)?;
        let reads_ns = reads.sum_ns as f64 / reads.requests.max(1) as f64;
        let own = &found.put_off;
        let of_writes = own.groups.iter().filter(|group| is_of_writes(facts, group));
        let of_writes_ns = of_writes.map(|group| group.time_ns).fold(0, u64::saturating_add);
        let are_writes = of_writes_ns.saturating_mul(2) >= own.time_ns;
        // Requests that outlast the watch are in no stage, and the waits for them are there.
        let queued: f64 = own.groups.iter().map(|group| queued_ns(group)).sum();
        let is_behind_reads = queued / own.waits.max(1) as f64 >= BEHIND * reads_ns;
        let folder = format!("/sys/block/{}/queue/iosched", found.device.device);
        let set = |setting: &str| {
            let value = facts.latest_number(found.device, &format!("queue/iosched/{setting}"))?;
            (value.abs() < 1e15).then(|| format!("{setting} is {value}"))
        };
        let settings: Vec<String> =
            ["writes_starved", "fifo_batch"].iter().filter_map(|it| set(it)).collect();
        let settings = match settings.as_slice() {
            [] => String::new(),
            settings => format!(" ({})", settings.join(", ")),
        };
        (are_writes && is_behind_reads && found.scheduler == "mq-deadline").then(|| Reason {
            put_off: "",
            served: "",
            rest: format!(
                ", since it serves reads first: writes come after writes_starved batches of \
                 reads, each of up to fifo_batch requests{settings}"
            ),
            fix: format!(
                "let writes come sooner: `echo 2 > {folder}/writes_starved` (the default; 1 is \
                 sooner), `echo 16 > {folder}/fifo_batch` (the default); or another scheduler; \
                 else fewer reads in flight"
            ),
            confidence: Confidence::Certain,
        })
    }

    /// bfq divides a device's time among cgroups of one parent by their weights.
    fn of_weights(facts: &Facts<'_>, found: &Unequal<'_>) -> Option<Reason> {
        let weighed = |waited| weighed(facts, found.device, waited);
        let ((own, weight), (other, more)) = (weighed(&found.put_off)?, weighed(&found.served)?);
        let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        let is_less = weight.saturating_mul(LESS) <= more && parent(own) == parent(other);
        (is_less && found.scheduler == "bfq").then(|| Reason {
            put_off: "",
            served: "",
            rest: format!(", because the cgroup {own} has the weight {weight}, and {other} {more}"),
            fix: format!(
                "give {own} a larger weight: io.bfq.weight (version 1: blkio.bfq.weight), which \
                 is 100 by default; IOWeight= of its unit, `docker run --blkio-weight`"
            ),
            confidence: Confidence::Certain,
        })
    }
}

/// Whether a wait is for writes: of a call that writes or syncs, or for pages and commits.
fn is_of_writes(facts: &Facts<'_>, group: &WaitGroup) -> bool {
    let classes = [WaitClass::Fsync, WaitClass::JournalCommit, WaitClass::JournalSpace];
    classes.contains(&group.class)
        || facts.is_sync(group)
        || facts.is_call(group.syscall, facts::calls::WRITE)
}

fn is_realtime(class: &str) -> bool {
    class.starts_with("realtime")
}

fn finding(facts: &Facts<'_>, found: &Unequal<'_>) -> Finding {
    let (name, scheduler) = (&found.device.device, found.scheduler);
    let subject = Subject { device: Some(name.clone()), ..found.put_off.subject() };
    let reason = Reason::new(facts, found);
    let share = |waited: &Waited<'_>| {
        let queued: f64 = waited.groups.iter().map(|group| queued_ns(group)).sum();
        queued / waited.time_ns.max(1) as f64
    };
    let sentence = format!(
        "{scheduler} puts off the requests of {}{}: they wait {} each, {} of it in its queue for \
         {name}, while those of {}{} go to the device at once{}",
        words::who(&subject),
        reason.put_off,
        words::time(found.put_off.mean_ns()),
        words::percent(share(&found.put_off)),
        words::who(&found.served.subject()),
        reason.served,
        reason.rest,
    );
    let pid = words::pid(&subject);
    let flags = words::flags(&subject);
    Finding::of_waits(facts, &found.put_off, sentence)
        .claiming(Claims::of_requests(&found.put_off))
        .about(subject)
        .sure(reason.confidence)
        .shown(
            "share of its waits in the scheduler's queue",
            share(&found.put_off) * 100.0,
            "%",
            format!("iowhy waits{flags}"),
        )
        .shown(
            "the same of programs that are served",
            share(&found.served) * 100.0,
            "%",
            format!("iowhy waits -d {name}"),
        )
        .fix(reason.fix)
        .check(format!(
            "`ionice -p {pid}` and the weights of the cgroups: if they are those of the others, \
             the scheduler has another reason; with `none` as scheduler all wait alike"
        ))
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::cgroup::Cgroup;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    fn found(scheduler: &str, queued: u64) -> Option<Finding> {
        found_beside(("web", "tar"), scheduler, queued)
    }

    /// A service waits `queued` of 200 ms in the queue for each read, beside a copy.
    fn found_beside(
        (service, copy): (&str, &str),
        scheduler: &str,
        queued: u64,
    ) -> Option<Finding> {
        of_classes([(service, ""), (copy, "")], scheduler, queued)
    }

    fn of_classes(programs: [(&str, &str); 2], scheduler: &str, queued: u64) -> Option<Finding> {
        among(&scripted(programs, scheduler, queued))
    }

    fn among(script: &Script) -> Option<Finding> {
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "io-priority")
    }

    /// Two programs with their classes, the second one served at once.
    fn scripted(
        [(service, its), (copy, other)]: [(&str, &str); 2],
        scheduler: &str,
        queued: u64,
    ) -> Script {
        let mut script = Script::new(10);
        for (pid, name, class) in [(7, service, its), (8, copy, other)] {
            script.process(pid, name, "/", "");
            let class = (!class.is_empty()).then(|| script.names.intern(class));
            script.batch.processes.last_mut().unwrap().io_class = class;
        }
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/scheduler".to_owned(), scheduler.to_owned())].into(),
            ..Device::default()
        });
        for index in 0..40_u64 {
            let read = script.read("sda", 131_072).by(8, copy).at((index * 200 * MS) as i64);
            read.sector(index * 256).direct(0, 0, 9 * MS).add();
            script.wait((7, service), WaitClass::PageRead, 200 * MS, (200 - queued) * MS, 0);
            script.waited_on("sda", "/srv/data", 17);
            script.batch.waits.last_mut().unwrap().queue_ns = queued * MS;
            script.wait((8, copy), WaitClass::PageRead, 100 * MS, 95 * MS, 0);
            script.waited_on("sda", "/srv/archive", 0);
        }
        script
    }

    #[test]
    fn who_waits_in_the_queue_alone_is_put_off() {
        let found = found("none mq-deadline [bfq]", 180).unwrap();
        assert_eq!(found.subject.process.as_deref(), Some("web"));
        assert!(found.severity > Severity::Info && found.fix.contains("ionice -p 7"), "{found:?}");
        assert!(found.sentence.contains("bfq puts off the requests of web (7)"), "{found:?}");
    }

    #[test]
    fn the_class_is_named_where_it_is_recorded() {
        let found = |service, copy| {
            let named = [("web", service), ("tar", copy)];
            let found = of_classes(named, "none mq-deadline [bfq]", 180).unwrap();
            (found.confidence, found.sentence, found.fix)
        };
        let (sure, sentence, fix) = found("idle", "");
        assert_eq!(sure, Confidence::Certain);
        assert!(
            sentence.contains("of web (7), which is in the idle I/O class: they wait"),
            "{sentence}"
        );
        assert!(fix.contains("`ionice -c best-effort -n 4 -p 7`"), "{fix}");
        let (sure, sentence, fix) = found("best-effort 4", "realtime 0");
        assert_eq!(sure, Confidence::Certain);
        assert!(
            sentence.contains("of tar (8), which is in the realtime I/O class, go"),
            "{sentence}"
        );
        assert!(fix.contains("-p 8"), "{fix}");
        for alike in ["idle", "realtime 0", "best-effort 7"] {
            assert_eq!(found(alike, alike).0, Confidence::Likely, "weights may differ: {alike}");
        }
    }

    #[test]
    fn writes_behind_reads_are_told_from_classes() {
        let mut script = scripted([("db", ""), ("fio", "")], "none [mq-deadline] bfq", 180);
        let sda = &mut script.environment.devices[0];
        sda.settings_start.extend([("queue/iosched/writes_starved".to_owned(), "900".to_owned())]);
        for wait in script.batch.waits.iter_mut().filter(|wait| wait.pid == 7) {
            (wait.class, wait.syscall) = (WaitClass::Fsync, Some(75));
        }
        for index in 0..40_u64 {
            let write = script.write("sda", 4096).by(7, "db").at((index * 200 * MS) as i64);
            write.sector(index * 8).direct(180 * MS, 180 * MS, 9 * MS).add();
        }
        let found = among(&script).unwrap();
        let said = "since it serves reads first: writes come after writes_starved batches of reads";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(found.sentence.contains("(writes_starved is 900)"), "{}", found.sentence);
        assert!(found.fix.contains("/sys/block/sda/queue/iosched/writes_starved"), "{}", found.fix);
        assert_eq!(found.confidence, Confidence::Certain);
        // Somebody else's writes are no reason why reads wait.
        for wait in script.batch.waits.iter_mut().filter(|wait| wait.pid == 7) {
            (wait.class, wait.syscall) = (WaitClass::PageFault, None);
        }
        assert!(!among(&script).unwrap().sentence.contains("serves reads first"));
    }

    #[test]
    fn weights_of_siblings_are_named() {
        let found = |of_web: &str, of_tar: &str, scheduler| {
            let mut script = scripted([("web", ""), ("tar", "")], scheduler, 180);
            let paths = [(7, of_web, "10"), (8, of_tar, "100")];
            for (pid, path, weight) in paths {
                let name = script.names.intern(path);
                let own = script.batch.waits.iter_mut().filter(|wait| wait.pid == pid);
                own.for_each(|wait| wait.cgroup = Some(name));
                let weight = ("blkio.bfq.weight".to_owned(), weight.to_owned());
                script.environment.cgroups.push(Cgroup {
                    path: path.to_owned(),
                    settings_start: [weight].into(),
                    ..Cgroup::default()
                });
            }
            among(&script).unwrap()
        };
        let of_siblings = found("/web", "/batch", "none mq-deadline [bfq]");
        assert_eq!(of_siblings.confidence, Confidence::Certain);
        let is_told =
            of_siblings.sentence.contains("the cgroup /web has the weight 10, and /batch 100");
        assert!(is_told, "{}", of_siblings.sentence);
        for (other, scheduler) in
            [("/a/batch", "none mq-deadline [bfq]"), ("/batch", "none [mq-deadline] bfq")]
        {
            assert_eq!(found("/web", other, scheduler).confidence, Confidence::Likely);
        }
    }

    #[test]
    fn two_scripts_of_one_interpreter_are_two_programs() {
        let found = |name| found_beside((name, name), "none mq-deadline [bfq]", 180);
        assert!(found("python3").is_some());
        assert_eq!(found("postgres"), None, "two processes of a server are one");
    }

    #[test]
    fn who_waits_like_the_others_is_not() {
        assert_eq!(found("none mq-deadline [bfq]", 10), None);
        assert_eq!(found("[none] mq-deadline bfq", 180), None, "nothing orders requests");
    }
}
