//! The features that iowhy can use on this machine, and what is lost without each missing one:
//! `iowhy check`.
//!
//! Claims are tested: the programs are loaded and attached briefly.

use crate::error::WatchError;
use crate::host::{lockdown, read_text};
use crate::kernel::KernelFeatures;
use crate::live;
use crate::loader::ObjectSource;
use crate::objects;
use crate::plan::{Plan, Probe, Wishes};
use crate::privilege::{self, Capability};
use crate::session::Session;
use crate::settings;
use iowhy_fs::confined::available;
use std::path::Path;
use std::time::Instant;

/// Whether a feature is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    /// Available.
    Yes,
    /// Partly available.
    Partly,
    /// Not available.
    No,
    /// Cannot be determined.
    Unknown,
}

/// A feature that a watch needs or can use.
#[derive(Clone, Debug)]
pub struct CheckItem {
    /// The feature's name.
    pub what: &'static str,
    /// Whether it is available.
    pub state: Availability,
    /// The finding, as text.
    pub value: String,
    /// The facts that are not visible without it; empty where it is available.
    pub lost: String,
}

fn item(
    what: &'static str,
    state: Availability,
    value: impl Into<String>,
    lost: &str,
) -> CheckItem {
    let lost = if state == Availability::Yes { String::new() } else { lost.to_owned() };
    CheckItem { what, state, value: value.into(), lost }
}

/// The result of loading a program on this kernel.
#[derive(Clone, Debug)]
pub struct ProgramCheck {
    /// The program.
    pub probe: Probe,
    /// Whether it could be used, else why not.
    pub usable: Result<(), String>,
    /// Instructions that the verifier processed; `None` where the kernel does not report it (before
    /// 5.16).
    pub verified: Option<u32>,
}

/// Everything that was checked.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Whether requests can be watched, not only counted by the kernel.
    pub can_watch: bool,
    /// One row per feature that a watch needs or can use.
    pub items: Vec<CheckItem>,
    /// Every program of iowhy.
    pub programs: Vec<ProgramCheck>,
    /// The command that grants every capability, where one is missing.
    pub grant: Option<String>,
}

/// Checks everything.
pub fn survey() -> Survey {
    let mut items = vec![kernel()];
    items.extend(privileges());
    items.extend([btf(), lockdown(), compiler()]);
    let mut programs = Vec::new();
    match live::facts() {
        Ok(facts) => {
            items.push(symbols(&facts));
            items.extend(probes(&facts, &mut programs));
        }
        Err(error) => items.push(item(
            "programs",
            Availability::No,
            error.to_string(),
            "all requests: only /proc/diskstats is left",
        )),
    }
    items.extend([cgroups(), pressure(), statistics(), iostats(), rights()]);
    let grant =
        privilege::missing().iter().any(|capability| capability.granted).then(privilege::granting);
    let can_watch = programs.iter().any(|check| check.usable.is_ok());
    Survey { can_watch, items, programs, grant }
}

fn kernel() -> CheckItem {
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    let value = format!("Linux {} on {}", text(uname.release()), text(uname.machine()));
    item("kernel", Availability::Yes, value, "")
}

/// One row if all capabilities are present, else a row for each that is missing.
fn privileges() -> Vec<CheckItem> {
    let missing = privilege::missing();
    if missing.is_empty() {
        let names: Vec<&str> = privilege::asked_for().map(|capability| capability.name).collect();
        let names = names.join(" ");
        if privilege::is_in_user_namespace() {
            let found = format!("in a user namespace: {names}");
            let lost = privilege::OUTSIDE_OF_NAMESPACE;
            return vec![item("capabilities", Availability::Partly, found, lost)];
        }
        return vec![item("capabilities", Availability::Yes, names, "")];
    }
    let row = |capability: &&Capability| {
        item("capability", Availability::No, format!("no {}", capability.name), capability.lost)
    };
    missing.iter().map(row).collect()
}

/// Whether the kernel can hold a watch to the rights that it keeps.
fn rights() -> CheckItem {
    let found = available();
    let (state, value) = match (found.landlock, found.seccomp) {
        (true, true) => (Availability::Yes, "landlock and seccomp"),
        (false, true) => (Availability::Partly, "seccomp, no landlock"),
        (true, false) => (Availability::Partly, "landlock, no seccomp"),
        (false, false) => (Availability::No, "no landlock, no seccomp"),
    };
    let lost =
        "nothing of a watch: its threads can do more than they need to, if one is taken over";
    item("rights given up", state, value, lost)
}

fn btf() -> CheckItem {
    let path = "/sys/kernel/btf/vmlinux";
    let there = Path::new(path).exists();
    let state = if there { Availability::Yes } else { Availability::No };
    let value = if there { path } else { "no /sys/kernel/btf/vmlinux" };
    item(
        "BTF",
        state,
        value,
        "all requests: the kernel's types are not known (CONFIG_DEBUG_INFO_BTF, /sys mounted)",
    )
}

fn lockdown() -> CheckItem {
    match lockdown::mode().as_deref() {
        Some(lockdown::CONFIDENTIALITY) => item(
            "lockdown",
            Availability::No,
            lockdown::CONFIDENTIALITY,
            "all requests: the kernel's memory cannot be read in this mode",
        ),
        Some(mode) => {
            item("lockdown", Availability::Yes, format!("{mode}: no obstacle to iowhy"), "")
        }
        None => item(
            "lockdown",
            Availability::Unknown,
            "securityfs is not mounted",
            "nothing, unless the mode is confidentiality",
        ),
    }
}

fn compiler() -> CheckItem {
    let compiler = include_str!(concat!(env!("OUT_DIR"), "/compiler"));
    let value = format!("{compiler} compiled the BPF programs; none is needed here");
    item("compiler", Availability::Yes, value, "")
}

fn symbols(facts: &KernelFeatures) -> CheckItem {
    let known = facts.end_io.iter().filter(|address| **address != 0).count();
    let state = if known > 0 { Availability::Yes } else { Availability::No };
    let value = if known > 0 {
        format!("{known} I/O completion functions found")
    } else {
        "addresses are hidden (kernel.kptr_restrict)".to_owned()
    };
    item("kernel symbols", state, value, "files of direct I/O, journals, swap")
}

/// The result of each planned program, once all are loaded.
fn outcomes(plan: &Plan, session: &Session) -> Vec<ProgramCheck> {
    let verified = session.verified();
    let missing = plan.missing.iter().map(|probe| {
        let reason = format!("this kernel has no {}", probe.needs());
        ProgramCheck { probe: *probe, usable: Err(reason), verified: None }
    });
    let planned = plan.probes.iter().map(|probe| {
        let failed = session.failed.iter().find(|(failed, _)| failed.program == probe.program);
        let cause =
            |(_, text): &(Probe, String)| text.lines().next().unwrap_or_default().to_owned();
        ProgramCheck {
            probe: *probe,
            usable: failed.map_or(Ok(()), |failed| Err(cause(failed))),
            verified: verified.get(probe.program).copied().filter(|count| *count > 0),
        }
    });
    planned.chain(missing).collect()
}

/// All that a watch may want, but for the page cache's own programs.
fn everything() -> Wishes {
    Wishes {
        events: true,
        user_stacks: true,
        stacks_per_second: 1,
        waits: true,
        chains: true,
        files: true,
        aggregates: true,
        ..Wishes::default()
    }
}

/// A program that this kernel refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedProgram {
    /// The object that it is in.
    pub object: &'static str,
    /// The name; empty if the object was refused for another reason.
    pub program: String,
    /// The system's error, and the words of libbpf and the verifier on further lines.
    pub cause: String,
}

impl RefusedProgram {
    /// Whether the kernel, or a policy, refuses the program before it looks at an instruction: then
    /// it is not the compiler's.
    pub fn is_forbidden(&self) -> bool {
        self.cause.contains("(os error 1)") && self.cause.contains("processed 0 insns")
    }
}

/// Loads the objects that another compiler made of the same sources, those that this kernel should
/// accept, and returns the programs that it refuses. `folder` holds all objects: `NAME.bpf.o`.
///
/// # Errors
/// Fails if the kernel's types or symbols cannot be read.
pub fn refused_of(folder: &Path) -> Result<Vec<RefusedProgram>, WatchError> {
    let facts = live::facts()?;
    let wishes = Wishes { page_cache: true, ..everything() };
    let settings = settings::of(&facts, &wishes)?;
    let plan = Plan::new(&facts, &wishes);
    let source = ObjectSource::Folder(folder.to_owned());
    let refused = objects::refused(&plan, &facts, &settings, &source).into_iter();
    Ok(refused.map(|(object, program, cause)| RefusedProgram { object, program, cause }).collect())
}

fn probes(facts: &KernelFeatures, programs: &mut Vec<ProgramCheck>) -> Vec<CheckItem> {
    let wishes = everything();
    let plan = Plan::new(facts, &wishes);
    let mut items: Vec<CheckItem> = plan
        .missing
        .iter()
        .map(|probe| {
            item("tracepoint", Availability::No, format!("no {}", probe.needs()), probe.gives)
        })
        .collect();
    if plan.missing.is_empty() {
        items.push(item(
            "tracepoints",
            Availability::Yes,
            format!("all {}", facts.tracepoints.len()),
            "",
        ));
    }
    let begun = Instant::now();
    match Session::begin(&plan, facts, &wishes, |_, _| ()) {
        Ok(session) => {
            let took = begun.elapsed().as_millis();
            *programs = outcomes(&plan, &session);
            let usable = plan.probes.len() - session.failed.len();
            let value = format!("{usable} load and attach in {took} ms");
            items.push(item("programs", Availability::Yes, value, ""));
            items.extend(session.failed.iter().map(|(probe, cause)| {
                let cause = cause.lines().next().unwrap_or_default();
                let value = format!("{}: {cause}", probe.program);
                match probe.otherwise() {
                    Some(way) => {
                        let lost = format!("nothing: {} is {way}", probe.gives);
                        item("program", Availability::Partly, value, &lost)
                    }
                    None => item("program", Availability::No, value, probe.gives),
                }
            }));
        }
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().to_owned();
            items.push(item(
                "programs",
                Availability::No,
                first,
                "all requests: only /proc/diskstats is left",
            ));
        }
    }
    items
}

fn cgroups() -> CheckItem {
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers");
    let lost = "the cgroup of buffered writes: v1 charges writeback to the root";
    if unified.exists() {
        let controllers = read_text(unified).unwrap_or_default();
        let has_io = controllers.split_whitespace().any(|name| name == "io");
        let state = if has_io { Availability::Yes } else { Availability::Partly };
        return item(
            "cgroups",
            state,
            format!("v2, controllers: {controllers}"),
            "the cgroup of buffered writes: no io controller",
        );
    }
    if Path::new("/sys/fs/cgroup/blkio").exists() {
        item("cgroups", Availability::Partly, "v1", lost)
    } else {
        item("cgroups", Availability::No, "not mounted", "cgroups and containers by path")
    }
}

fn pressure() -> CheckItem {
    let state =
        if read_text("/proc/pressure/io").is_some() { Availability::Yes } else { Availability::No };
    let value = if state == Availability::Yes { "/proc/pressure" } else { "no /proc/pressure/io" };
    item("PSI", state, value, "the kernel's measure of time stalled on I/O (psi=1)")
}

fn statistics() -> CheckItem {
    match read_text("/proc/sys/kernel/bpf_stats_enabled").as_deref() {
        Some("1") => item("BPF statistics", Availability::Yes, "on", ""),
        Some(_) => item(
            "BPF statistics",
            Availability::Partly,
            "off, the default: they have a small cost",
            "the share of the BPF programs in iowhy's overhead",
        ),
        None => item(
            "BPF statistics",
            Availability::Unknown,
            "cannot be read",
            "the share of the BPF programs in iowhy's overhead",
        ),
    }
}

fn iostats() -> CheckItem {
    let devices = crate::host::devices::list();
    let off: Vec<&str> = devices
        .iter()
        .filter(|device| device.settings_start.get("queue/iostats").is_some_and(|on| on == "0"))
        .map(|device| device.name.as_str())
        .collect();
    if off.is_empty() {
        item("iostats", Availability::Yes, "on for every device", "")
    } else {
        let value = format!("off for {}", off.join(" "));
        item(
            "iostats",
            Availability::Partly,
            value,
            "queue times of requests that began before the watch",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cause: &str) -> RefusedProgram {
        RefusedProgram { object: "events", program: "on_get".to_owned(), cause: cause.to_owned() }
    }

    #[test]
    fn what_is_forbidden_is_not_the_compilers() {
        let policy = "Operation not permitted (os error 1)\nprocessed 0 insns (limit 1000000)";
        assert!(refused(policy).is_forbidden());
        let looked_at = "Operation not permitted (os error 1)\nprocessed 12 insns (limit 1000000)";
        assert!(!refused(looked_at).is_forbidden());
        let verifier = "Permission denied (os error 13)\nprocessed 0 insns (limit 1000000)";
        assert!(!refused(verifier).is_forbidden());
        assert!(!refused("Operation not permitted (os error 1)").is_forbidden());
    }
}
