//! Findings from the words of the kernel's log: errors of devices, tasks that hang, servers that do
//! not answer, memory that ran out; and arrays that rebuild.
//!
//! What does not belong here: resets and health (see the rules `device-reset` and `drive-health`,
//! which need no requests).

use super::of_messages;
use crate::facts::{self, Facts, health};
use crate::finding::{Confidence, Finding, Severity};
use crate::place::Place;
use crate::rule::Rule;
use crate::rules;
use crate::subject::Subject;
use iowhy_analysis::summary::DeviceSummary;
use iowhy_model::WaitClass;
use iowhy_model::environment::Device;
use iowhy_model::figures::plural;
use iowhy_model::health::HostMessage;
use iowhy_model::wait::class::{StackVerdict, verdict};

/// Messages that are kept of a device.
const MOST_MESSAGES: usize = 20;

pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let environment = &facts.summary().environment;
    let mut found: Vec<Finding> = facts.devices().iter().filter_map(errors).collect();
    found.extend(facts.devices().iter().filter_map(unreadable));
    found.extend(hung(&environment.host_messages));
    found.extend(servers(&environment.host_messages));
    found.extend(killed(&environment.host_messages));
    found.extend(environment.devices.iter().filter_map(array));
    found
}

/// Requests that failed.
fn errors(device: &DeviceSummary) -> Option<Finding> {
    let messages = health::messages(device, &["error"]);
    let first = messages.first()?;
    let name = &device.device;
    let many = if messages.len() >= MOST_MESSAGES { "at least " } else { "" };
    let sentence = format!(
        "{name}: the kernel logged {many}{}, first: {}",
        plural(messages.len() as u64, "error"),
        first.text,
    );
    Some(
        of_messages(
            rules::device_slow_tail::RULE.placed(Place::Fault),
            0.5,
            Severity::Warning,
            sentence,
        )
        .about(facts::subject_of(name, None))
        .sure(Confidence::Certain)
        .shown("errors", messages.len() as f64, "errors", "dmesg")
        .fix(
            "save its data first; then check its health log, cable, slot and power, of a \
             virtual disk who runs the storage behind it, of a file system its own check",
        )
        .check("`dmesg --follow` while it is slow: no message means another reason"),
    )
}

/// Sectors that a drive could not read, ever: a single reading does not tell since when.
fn unreadable(device: &DeviceSummary) -> Option<Finding> {
    let log = health::drive(device).filter(|log| log.passed != Some(false))?;
    let sectors = log.pending_sectors.unwrap_or(0) + log.uncorrectable_sectors.unwrap_or(0);
    let name = &device.device;
    let sentence = format!(
        "{name} has {} that it could not read: who reads them waits while it tries again",
        plural(sectors, "sector"),
    );
    (sectors > 0).then(|| {
        of_messages(rules::drive_health::RULE, 0.2, Severity::Warning, sentence)
            .about(facts::subject_of(name, None))
            .sure(Confidence::Possible)
            .shown("unreadable sectors", sectors as f64, "sectors", "smartctl -A")
            .fix("save its data, run `smartctl -t long`, and plan to replace it")
            .check("a count that does not grow, and sectors that nobody reads, do no harm")
    })
}

/// Tasks that were blocked for minutes.
fn hung(messages: &[HostMessage]) -> Vec<Finding> {
    let tasks: Vec<&HostMessage> =
        messages.iter().filter(|message| message.kind == "hung_task").collect();
    let Some(first) = tasks.iter().find(|task| class(task).is_some()).or(tasks.first()) else {
        return Vec::new();
    };
    let has_stack = !first.frames.is_empty();
    let class = class(first);
    // A stack without storage in it is a lock of something else.
    if has_stack && class.is_none() {
        return Vec::new();
    }
    let of_class = match class {
        Some(WaitClass::NetworkFs) => rules::network_filesystem::RULE,
        Some(WaitClass::Fuse) => rules::fuse_server::RULE,
        _ => rules::hung_io::RULE,
    };
    let count: u64 = tasks.iter().map(|task| task.count).fold(0, u64::saturating_add);
    let inside = class.map(|class| format!(" in {}", class.phrase())).unwrap_or_default();
    let others = match tasks.len() {
        1 => String::new(),
        2 => ", and so was another task".to_owned(),
        more => format!(", and so were {}", plural(more as u64 - 1, "other task")),
    };
    let on = if first.device.is_empty() { String::new() } else { format!(" on {}", first.device) };
    let sentence = format!("{} was blocked for minutes{inside}{on}{others}", process_of(first));
    vec![
        of_messages(of_class, 1.0, Severity::Critical, sentence)
            .about(subject(first))
            .sure(if has_stack { Confidence::Likely } else { Confidence::Possible })
            .shown("messages about hung tasks", count as f64, "messages", "dmesg")
            .fix(
                "find what the tasks wait for: messages about the device, its path or its server \
                 before the first of them; then `iowhy` on the machine while it happens",
            )
            .check("a host that was suspended, or a very large burst of writes, can cause it once"),
    ]
}

fn class(message: &HostMessage) -> Option<WaitClass> {
    match verdict(message.frames.iter().map(String::as_str)) {
        StackVerdict::Storage(class) => Some(class),
        StackVerdict::Elsewhere | StackVerdict::Unknown => None,
    }
}

fn process_of(message: &HostMessage) -> &str {
    if message.process.is_empty() { "a task" } else { &message.process }
}

fn subject(message: &HostMessage) -> Subject {
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    Subject {
        device: known(&message.device),
        process: known(&message.process),
        ..Subject::default()
    }
}

/// A finding about one message.
fn told(of: Rule, severity: Severity, message: &HostMessage) -> Finding {
    let sentence = format!(
        "the kernel logged {}: {}",
        plural(message.count, "time").replace("1 time", "once"),
        message.text,
    );
    of_messages(of, 0.5, severity, sentence)
        .shown("messages", message.count as f64, "messages", "dmesg")
        .about(subject(message))
        .sure(Confidence::Certain)
}

/// File servers that do not answer.
fn servers(messages: &[HostMessage]) -> Option<Finding> {
    let silent = messages.iter().find(|message| message.kind == "server_silent")?;
    Some(
        told(rules::network_filesystem::RULE, Severity::Critical, silent)
            .fix("check the server, its own disks, and the network between: `nfsstat -rc`, ping")
            .check("`mountstats` during a slow minute: retransmissions that do not grow"),
    )
}

/// Memory that ran out.
fn killed(messages: &[HostMessage]) -> Option<Finding> {
    let killed = messages.iter().find(|message| message.kind == "out_of_memory")?;
    Some(
        told(rules::memory_reclaim::RULE, Severity::Warning, killed)
            .fix(
                "find who uses the memory, limit it, or add memory: before the kernel kills, it \
                 drops and reads again pages of all programs",
            )
            .check("slowness long before or after that has another reason"),
    )
}

/// An array that reads and writes all of its disks.
fn array(device: &Device) -> Option<Finding> {
    let state = device.health_end.as_ref()?.array.as_ref()?;
    let doing = match state.action.as_str() {
        "resync" => "is being made consistent (resync)",
        "recover" | "recovery" => "is being rebuilt",
        "check" | "repair" => "is being checked",
        "reshape" => "is being reshaped",
        _ => return None,
    };
    let name = &device.name;
    let missing = match state.degraded {
        0 => String::new(),
        some => format!("; {} missing", plural(some, "member")),
    };
    let sentence =
        format!("{name} {doing}: it reads and writes all of its disks meanwhile{missing}");
    Some(
        of_messages(rules::raid_resync::RULE, 0.5, Severity::Warning, sentence)
            .about(facts::subject_of(name, None))
            .sure(Confidence::Likely)
            .shown("missing members", state.degraded as f64, "members", "cat /proc/mdstat")
            .fix(
                "let a rebuild finish; a check can wait: `echo idle > \
                 /sys/block/ARRAY/md/sync_action`; both go slower with a smaller \
                 dev.raid.speed_limit_max",
            )
            .check("`cat /proc/mdstat` while it is slow: it shows what runs"),
    )
}
