//! Threads wait for the process that serves a FUSE file system, or for the virtiofs host.

use super::network_filesystem::{mount_of, severity_of};
use super::*;
use crate::analysis::patterns::WaitGroup;
use crate::model::WaitClass;

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
    if waited.time_ns == 0 {
        return Ok(RuleVerdict::Clear);
    }
    let mount = mount_of(facts, &waited.groups, is_fuse);
    let subject = Subject { device: None, ..waited.subject() };
    let server = mount.and_then(|it| it.server.as_deref());
    let is_host = mount.is_some_and(|it| it.kind == "virtiofs");
    let whom = match server {
        Some(server) => server.to_owned(),
        None if is_host => "the hypervisor".to_owned(),
        None => "the process".to_owned(),
    };
    let place = mount.map_or_else(
        || "a FUSE file system".to_owned(),
        |it| format!("{} ({}, {})", it.path, it.kind, it.source),
    );
    let sentence = format!(
        "{} waits for {whom} that serves {place}, {} on average",
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    let own = server.map_or(0, |server| waits_of(facts, server));
    let per_s = waited.waits as f64 / facts.seconds();
    let mut finding = Finding::of_class(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .at_most(severity_of(waited.mean_ns(), per_s))
        .shown("blocked time for the server", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("waits for the server", per_s, "1/s", "iowhy waits")
        .shown("longest wait", waited.longest_ns() as f64, "ns", "iowhy waits");
    if own > 0 {
        finding = finding.shown(
            "the server's own waits for storage",
            own as f64,
            "ns",
            "iowhy waits --by process",
        );
    }
    let fix = if is_host {
        "check the host: its disk, and whether virtiofsd has enough CPUs and threads; keep hot \
         data on a disk of the guest"
    } else {
        "check what the server waits for: its own storage, the network, a single CPU; let the \
         kernel cache more if the server allows it (attr_timeout, entry_timeout, kernel_cache); \
         keep hot data on a local disk"
    };
    Ok(finding
        .fix(fix)
        .check(
            "while the program waits, the server is working or waiting itself (`top -H`, `iowhy \
             waits`); if it is idle in fuse_dev_do_read, it has no requests",
        )
        .into())
}

/// Whether file systems of this type use the FUSE protocol.
fn is_fuse(kind: &str) -> bool {
    kind == "fuse" || kind == "fuseblk" || kind == "virtiofs" || kind.starts_with("fuse.")
}

/// Returns the time that the server, such as `sshfs (812)`, waited for storage itself, nanoseconds.
fn waits_of(facts: &Facts<'_>, server: &str) -> u64 {
    let is_own = |name: &str, pid: u32| words::process(name, Some(pid), None) == server;
    facts.waits(|group| is_own(&group.process, group.pid)).time_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Severity, diagnose};
    use crate::model::environment::Mount;
    use crate::script::{MS, Script};

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
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "fuse-server")
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
}
