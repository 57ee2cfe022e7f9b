//! Threads wait for the process that serves a FUSE file system, or for the virtiofs host.

use super::super::convoy::passed_on;
use super::network_filesystem::{mount_of, severity_of};
use super::*;
use crate::programs::{self, Topic};
use facts::Waited;
use facts::calls::LOOKUP;
use iowhy_analysis::summary::ChainRow;
use iowhy_model::environment::Mount;
use std::collections::BTreeMap;

/// The part that it claims of the server's own waits: enough to stand above who says only that the
/// server waits, too little to hide why. Chosen: between a third and a half.
const OF_SERVER: f64 = 0.4;
/// The most threads of a server that waits for one request after another, and the least threads
/// that wait for it meanwhile, on average: two, less what they do themselves. Chosen.
const ONE: f64 = 1.1;
const SEVERAL: f64 = 1.5;

rule!(
    "fuse-server",
    "FUSE file system latency",
    "On a FUSE file system (sshfs, s3fs, rclone, gcsfuse, mergerfs, GlusterFS ...) every uncached \
     read, write and lookup is a request to a local process, which may in turn wait for the \
     network or a disk; on virtiofs it is a request to the hypervisor. The caller sleeps until it \
     is answered. No block device shows any of it.",
    "The waits take less than a millisecond, or the server is idle meanwhile.",
    place: KernelWork,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    // A cached read waits in the page cache's functions alone: its file tells.
    let is_served = |group: &WaitGroup| {
        let mount = group.file.as_deref().and_then(|file| facts.mount_of_file(file));
        group.device.is_none() && mount.is_some_and(|mount| is_fuse(&mount.kind))
    };
    let waited = facts.waits(|group| group.class == WaitClass::Fuse || is_served(group));
    clear_if(waited.time_ns == 0)?;
    let mount = mount_of(facts, &waited.groups, is_fuse);
    let server = mount.and_then(|mount| mount.server.as_deref());
    let is_host = mount.is_some_and(|mount| mount.kind == "virtiofs");
    let own = server.map_or_else(Waited::default, |server| waits_of(facts, server));
    // What the server waits for in another program has causes of its own there.
    let passed_on = server.and_then(|server| passed_on(facts, server));
    let behind = ServerWaits::new(facts, &waited, &own, passed_on);
    let held_up = behind.as_ref().and_then(|behind| behind.held_up(&waited));
    let seen = held_up.as_ref().unwrap_or(&waited);
    let subject = Subject { device: None, ..seen.subject() };
    let sentence = format!(
        "{} waits for {}, {} on average{}",
        words::who(&subject),
        who_serves_what(mount, is_host, behind.is_none()),
        words::time(seen.mean_ns()),
        behind.as_ref().map(ServerWaits::words).unwrap_or_default(),
    );
    let per_s = waited.waits as f64 / facts.seconds();
    let passed_ns = passed_on.map_or(0, |row| row.time_ns);
    let its = Claims::of_class(&waited).limited_to(waited.class_ns.saturating_sub(passed_ns));
    let claims = its.and(&Claims::of_waits(&own).scaled(OF_SERVER));
    let mut finding = Finding::of_class(facts, &waited, sentence)
        .claiming(claims)
        .about(subject)
        .sure(Confidence::Certain)
        .at_most(severity_of(waited.mean_ns(), per_s))
        .shown("blocked time for the server", waited.class_ns as f64, "ns", "iowhy waits")
        .also("waits for the server", per_s, "1/s")
        .also("longest wait", waited.longest_ns() as f64, "ns");
    if own.time_ns > 0 {
        finding = finding.shown(
            "the server's own waits for storage",
            own.time_ns as f64,
            "ns",
            "iowhy waits --by process",
        );
    }
    Ok(finding
        .fix(own_advice(facts, seen) + &fix(is_host, behind.as_ref()))
        .check(
            "while the program waits, the server is working or waiting itself (`top -H`, `iowhy \
             waits`); if it is idle in fuse_dev_do_read, it has no requests",
        )
        .into())
}

/// Returns `sshfs (812) that serves /mnt`, with `(fuse.sshfs, host:/srv)` if nothing else is said
/// of the server.
fn who_serves_what(mount: Option<&Mount>, is_host: bool, says_kind: bool) -> String {
    let whom = match mount.and_then(|mount| mount.server.as_deref()) {
        Some(server) => server,
        None if is_host => "the hypervisor",
        None => "the process",
    };
    let place = mount.map_or_else(
        || "a FUSE file system".to_owned(),
        |mount| match says_kind {
            true => format!("{} ({}, {})", mount.path, mount.kind, mount.source),
            false => mount.path.clone(),
        },
    );
    format!("{whom} that serves {place}")
}

/// Returns the waits for a server that passes what it is asked for on to a program that waits so.
pub(super) fn clients<'a>(facts: &Facts<'a>, waited: &Waited<'_>) -> Waited<'a> {
    let is_behind = |server: &str| {
        let last = passed_on(facts, server).and_then(|row| row.steps.last());
        last.is_some_and(|last| waited.groups.iter().any(|group| group.pid == last.pid))
    };
    facts.waits(|group| {
        let mount = group.file.as_deref().and_then(|file| facts.mount_of_file(file));
        let server = mount.and_then(|mount| mount.server.as_deref());
        group.device.is_none() && server.is_some_and(is_behind)
    })
}

/// Whether file systems of this type use the FUSE protocol.
fn is_fuse(kind: &str) -> bool {
    kind == "fuse" || kind == "fuseblk" || kind == "virtiofs" || kind.starts_with("fuse.")
}

/// Returns the waits for storage of the server itself, such as `sshfs (812)`.
fn waits_of<'a>(facts: &Facts<'a>, server: &str) -> Waited<'a> {
    let is_own = |name: &str, pid: u32| words::process(name, Some(pid), None) == server;
    facts.waits(|group| is_own(&group.process, group.pid))
}

/// The storage that a server itself waits for while others wait for it.
struct ServerWaits {
    /// The program that the server asks in turn, if that is what waits.
    program: Option<String>,
    device: String,
    call: &'static str,
    file: Option<String>,
    mean_ns: f64,
    /// Whether it waits for one request after another, although several threads wait for it.
    is_serial: bool,
    /// The program whose file it waits for, as sentences name it.
    asked_by: Option<(String, u32)>,
}

impl ServerWaits {
    /// Returns what a server waits for most, if that is half of the time of those who wait for it,
    /// or half of the watch.
    fn new(
        facts: &Facts<'_>,
        waited: &Waited<'_>,
        own: &Waited<'_>,
        passed_on: Option<&ChainRow>,
    ) -> Option<ServerWaits> {
        let last = passed_on.and_then(|row| row.steps.last());
        let of_last = last.map(|last| facts.waits(|group| group.pid == last.pid));
        let (own, last) = match &of_last {
            Some(of_last) if of_last.time_ns > own.time_ns => (of_last, last),
            _ => (own, None),
        };
        if 2 * own.time_ns < waited.time_ns.min(facts.duration_ns()) {
            return None;
        }
        let mut devices: BTreeMap<&str, Vec<&WaitGroup>> = BTreeMap::new();
        for group in &own.groups {
            let on = group.device.as_deref().unwrap_or_default();
            devices.entry(on).or_default().push(group);
        }
        devices.remove("");
        let devices = devices.into_iter().map(|(name, groups)| (name, Waited::from_groups(groups)));
        let (device, most) = devices.max_by_key(|(_, waits)| waits.time_ns)?;
        let first = most.groups.first()?;
        let mean_threads =
            |waits: &Waited<'_>| waits.time_ns as f64 / facts.duration_ns().max(1) as f64;
        let askers = waited.groups.iter().filter(|group| is_same_file(&group.file, &first.file));
        let askers = Waited::from_groups(askers.copied().collect());
        let is_known = askers.time_ns > 0 && askers.time_ns < waited.time_ns;
        Some(ServerWaits {
            program: last.map(|last| words::process(&last.process, Some(last.pid), None)),
            device: device.to_owned(),
            call: facts.call_name(first.syscall).unwrap_or("a call"),
            file: first.file.clone(),
            mean_ns: most.mean_ns(),
            is_serial: mean_threads(own) <= ONE && mean_threads(waited) >= SEVERAL,
            asked_by: askers
                .groups
                .first()
                .filter(|_| is_known)
                .map(|asker| (words::process(&asker.process, Some(asker.pid), None), asker.pid)),
        })
    }

    /// Returns the waits of those that wait behind another program's file, because the server
    /// handles one request at a time; `None` if that is not so.
    fn held_up<'a>(&self, waited: &Waited<'a>) -> Option<Waited<'a>> {
        let (_, asker) = self.asked_by.as_ref().filter(|_| self.is_serial)?;
        let others = waited.groups.iter().filter(|group| group.pid != *asker);
        Some(Waited::from_groups(others.copied().collect())).filter(|others| others.time_ns > 0)
    }

    fn words(&self) -> String {
        let serial = if self.is_serial { "handles one request at a time, and " } else { "" };
        let of = self.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
        let asked_by = self.asked_by.as_ref().filter(|_| self.is_serial);
        let asked_by = asked_by.map(|(who, _)| format!(", probably for {who},"));
        let asked_by = asked_by.unwrap_or_default();
        let whom = match &self.program {
            Some(program) => format!("it waits for {program}, which"),
            None => "the server".to_owned(),
        };
        format!(
            "; {whom} {serial}itself waits{asked_by} in {}{of} on {}, {} each",
            self.call,
            self.device,
            words::time(self.mean_ns),
        )
    }
}

/// Whether both files have the same name: a server has a folder of its own for what it serves.
fn is_same_file(one: &Option<String>, other: &Option<String>) -> bool {
    let name = |file: &Option<String>| {
        let file = file.as_deref()?;
        Some(file.rsplit('/').next().unwrap_or(file).to_owned())
    };
    name(one).is_some() && name(one) == name(other)
}

/// Returns what the program itself can do where most of its waits look up names, as the beginning
/// of the advice.
fn own_advice(facts: &Facts<'_>, waited: &Waited<'_>) -> String {
    let lookups = waited.groups.iter().filter(|group| facts.is_call(group.syscall, LOOKUP));
    let lookups_ns = lookups.map(|group| group.time_ns).fold(0, u64::saturating_add);
    let is_known = lookups_ns.saturating_mul(2) > waited.time_ns;
    let subject = waited.subject();
    let program = programs::of(subject.process.as_deref(), None).filter(|_| is_known);
    let advice = program.and_then(|program| program.advice(Topic::Lookups));
    advice.map_or_else(String::new, |advice| format!("{advice}; else "))
}

fn fix(is_host: bool, behind: Option<&ServerWaits>) -> String {
    match behind {
        _ if is_host => "check the host: its disk, and whether virtiofsd has enough CPUs and \
                         threads; keep hot data on a disk of the guest"
            .to_owned(),
        Some(ServerWaits { program: Some(program), device, .. }) => format!(
            "give bulk work a mount, that is a connection, of its own: {program} answers all of \
             this one; or look after {device}, for which it waits: `iowhy -d {device}`",
        ),
        Some(behind) if behind.is_serial => format!(
            "let the server handle several requests at once (multithreaded: without the option \
             -s; bindfs: `--multithreaded`): {} then serves them together",
            behind.device,
        ),
        Some(behind) => format!(
            "look after {}, for which the server waits: `iowhy -d {0}`; take it out of the pool, \
             or give the server, and its cache, a faster device",
            behind.device,
        ),
        None => "check what the server waits for: its own storage, the network, a single CPU; let \
                 the kernel cache more if the server allows it (attr_timeout, entry_timeout, \
                 kernel_cache); keep hot data on a local disk"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    fn found(waits: u64, each: u64, kind: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.mounts.push(Mount {
            path: "/mnt/bucket".to_owned(),
            kind: kind.to_owned(),
            source: "bucket".to_owned(),
            server: (kind != "virtiofs").then(|| "s3fs (812)".to_owned()),
            ..Mount::default()
        });
        for _ in 0..waits {
            script.wait((7, "cat"), WaitClass::Fuse, each, 0, 0);
        }
        script.wait((812, "s3fs"), WaitClass::PageRead, 90 * MS, 90 * MS, 0);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "fuse-server")
    }

    #[test]
    fn mount_and_server_are_named() {
        let found = found(100, 95 * MS, "fuse.s3fs").unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
        for message in ["cat (7)", "s3fs (812)", "/mnt/bucket"] {
            assert!(found.sentence.contains(message), "{}", found.sentence);
        }
        assert!(found.evidence.iter().any(|it| it.what.starts_with("the server's own")));
    }

    #[test]
    fn behind_virtiofs_there_is_the_host() {
        assert!(found(100, 95 * MS, "virtiofs").unwrap().sentence.contains("the hypervisor"));
    }

    #[test]
    fn a_fast_server_is_no_trouble() {
        assert_eq!(found(1000, MS / 5, "fuse.mergerfs").unwrap().severity, Severity::Info);
        assert_eq!(found(0, 0, "fuse.mergerfs"), None);
    }

    #[test]
    fn who_asks_at_its_own_pace_is_not_held_up() {
        let mut script = Script::new(10);
        script.mount("/mnt/bucket", "fuse.s3fs", "bucket");
        for (apart, severity) in [(50, Severity::Info), (13, Severity::Warning)] {
            script.batch.waits.clear();
            for round in 0..150 {
                script.wait((7, "web"), WaitClass::Fuse, 12 * MS, 0, 0);
                script.batch.waits.last_mut().unwrap().start_ns += round * apart * MS;
            }
            let findings = diagnose(&script.summary()).findings;
            let found =
                findings.into_iter().find(|finding| finding.cause == "fuse-server").unwrap();
            assert_eq!(found.severity, severity, "{found:?}");
        }
    }

    /// Four threads wait 9 s each for a server whose own threads wait for sda.
    fn behind(server_threads: u32) -> Finding {
        let mut script = Script::new(10);
        script.mount("/mnt/pool", "fuse.pool", "pool");
        script.environment.mounts[0].server = Some("pool (812)".to_owned());
        for tid in 0..4 {
            script.wait((7, "cat"), WaitClass::Fuse, 9000 * MS, 0, 0);
            script.batch.waits.last_mut().unwrap().tid = 20 + tid;
        }
        for tid in 0..server_threads {
            script.wait((812, "pool"), WaitClass::PageRead, 9000 * MS, 9000 * MS, 0);
            script.waited_on("sda", "/pool/a", 0);
            script.batch.waits.last_mut().unwrap().tid = 900 + tid;
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "fuse-server").unwrap()
    }

    #[test]
    fn who_asked_for_what_a_serial_server_waits_for_is_not_the_victim() {
        let mut script = Script::new(10);
        script.mount("/mnt/pool", "fuse.pool", "pool");
        script.environment.mounts[0].server = Some("pool (812)".to_owned());
        for (pid, program, file) in
            [(7, "cp", "/mnt/pool/film.iso"), (8, "web", "/mnt/pool/index.html")]
        {
            script.wait((pid, program), WaitClass::Fuse, 9000 * MS, 0, 0);
            let file = script.names.intern(file);
            script.batch.waits.last_mut().unwrap().file = Some(file);
        }
        script.wait((812, "pool"), WaitClass::PageRead, 9000 * MS, 9000 * MS, 0);
        script.waited_on("sda", "/srv/disk/film.iso", 0);
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|it| it.cause == "fuse-server").unwrap();
        assert!(found.sentence.starts_with("web (8) waits for pool (812)"), "{}", found.sentence);
        let said = "handles one request at a time, and itself waits, probably for cp (7), in \
                    read of /srv/disk/film.iso on sda";
        assert!(found.sentence.contains(said), "{}", found.sentence);
        assert!(found.fix.contains("several requests at once"), "{}", found.fix);
    }

    #[test]
    fn what_the_server_waits_for_is_named() {
        let serial = behind(1);
        let said = "the server handles one request at a time, and itself waits in read of /pool/a \
                    on sda, 9.00 s each";
        assert!(serial.sentence.contains(said), "{}", serial.sentence);
        assert!(serial.fix.contains("several requests at once"), "{}", serial.fix);
        let wide = behind(4);
        assert!(wide.sentence.contains("; the server itself waits in read"), "{}", wide.sentence);
        assert!(wide.fix.starts_with("look after sda"), "{}", wide.fix);
    }

    #[test]
    fn the_program_that_a_server_asks_in_turn_is_named() {
        let mut script = Script::new(10);
        script.mount("/mnt/nas", "fuse.sshfs", "nas:/srv");
        script.environment.mounts[0].server = Some("sshfs (812)".to_owned());
        for (pid, program, file) in
            [(7, "cp", "/mnt/nas/film.iso"), (8, "cat", "/mnt/nas/index.html")]
        {
            script.wait((pid, program), WaitClass::Fuse, 9000 * MS, 0, 0);
            let file = script.names.intern(file);
            script.batch.waits.last_mut().unwrap().file = Some(file);
        }
        script.wait((900, "sftp-server"), WaitClass::PageRead, 9000 * MS, 9000 * MS, 0);
        script.waited_on("sda", "/srv/film.iso", 0);
        script.chain(&[(812, "sshfs"), (900, "sftp-server")], 5000 * MS, 5000 * MS);
        for row in &mut script.batch.wait_chains {
            (row.pid, row.process) = (row.tid, row.thread);
        }
        let findings = diagnose(&script.summary()).findings;
        let found = findings.into_iter().find(|it| it.cause == "fuse-server").unwrap();
        let said = "cat (8) waits for sshfs (812) that serves /mnt/nas, 9.00 s on average; it \
                    waits for sftp-server (900), which handles one request at a time, and itself \
                    waits, probably for cp (7), in read of /srv/film.iso on sda, 9.00 s each";
        assert_eq!(found.sentence, said);
        assert!(found.fix.contains("a mount, that is a connection, of its own"), "{}", found.fix);
    }
}
