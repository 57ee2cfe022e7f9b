//! Threads wait for the server of a file system that is on no block device of this machine.

use super::*;
use crate::analysis::patterns::WaitGroup;
use crate::diagnosis::bottleneck::bound::{FELT_NS, SLOW_NS};
use crate::model::WaitClass;
use crate::model::environment::Mount;

/// Waits a second from which on a program asks its server all the time, however fast that answers.
/// Chosen: a server on the same network answers in 0.2 to 0.5 ms, so that a thread of 1,000 waits a
/// second hardly does anything else.
const STORM_PER_S: f64 = 1000.0;

rule!(
    "network-filesystem",
    "a file system on the network",
    "Reads, writes, lookups and syncs on NFS, SMB, Ceph, 9p and the like are questions to a \
     server. No block device of this machine is involved, so iostat shows nothing. What they take \
     is the network's time, the server's, and its disk's; every open and stat of a name that is \
     not cached is one more.",
    "Waits that the client's cache answers, or that take less than a millisecond.",
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::NetworkFs);
    if waited.time_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let mount = mount_of(facts, &waited.groups, is_network);
    let subject = Subject { device: None, ..waited.subject() };
    let place = mount.map_or_else(
        || "a file system on the network".to_owned(),
        |it| format!("{} ({} from {})", it.path, it.kind, it.source),
    );
    let sentence = format!(
        "{} waits for the server of {place}: {} a wait",
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    let per_s = waited.waits as f64 / facts.seconds();
    let most = severity_of(waited.mean_ns(), per_s);
    let point = mount.map_or("MOUNTPOINT", |it| it.path.as_str());
    Ok(Finding::of_blocked(facts, waited.class_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .at_most(most)
        .shown("waits for the server", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("how often", per_s, "1/s", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix(fix_of(mount.map(|it| it.kind.as_str())))
        .check(format!(
            "`ping` the server, and look at its own disks with iowhy there; NFS: `mountstats \
             {point}` parts RTT (network and server) from the queue on this machine: if both are \
             short, the program only asks often"
        ))
        .into())
}

/// How severe waits for a server can be: slow answers are; fast ones only where they are very many.
pub(super) fn severity_of(mean_ns: f64, per_s: f64) -> Severity {
    if mean_ns >= SLOW_NS {
        Severity::Critical
    } else if mean_ns >= FELT_NS || per_s >= STORM_PER_S {
        Severity::Warning
    } else {
        Severity::Info
    }
}

fn fix_of(kind: Option<&str>) -> &'static str {
    match kind {
        Some("nfs" | "nfs4") => {
            "find out which side is slow (check); fewer questions: longer attribute caching \
             (actimeo=, where seconds-old attributes do no harm), nconnect= for more connections; \
             keep databases, logs and build directories on a local disk; do not mount with `soft` \
             or export with `async`: both can lose data"
        }
        Some("cifs" | "smb3") => {
            "find out which side is slow (check); longer attribute caching (actimeo=) where \
             seconds-old attributes do no harm, multichannel where server and network have it; \
             keep what is read and written all the time on a local disk"
        }
        Some("ceph") => {
            "`ceph health detail` and `ceph osd perf` on the cluster: slow OSDs and slow metadata \
             servers are named there; keep what is read and written all the time on a local disk"
        }
        _ => {
            "find out which side is slow, the server or the way to it; keep what is read and \
             written all the time on a local disk"
        }
    }
}

/// Whether the type of a file system is one whose server is elsewhere.
pub(super) fn is_network(kind: &str) -> bool {
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "ocfs2", "gfs2"].contains(&kind)
}

/// The mount that the waits are for: the one that holds the file, else the only one of its kind.
pub(super) fn mount_of<'a>(
    facts: &Facts<'a>,
    groups: &[&WaitGroup],
    is_of_kind: fn(&str) -> bool,
) -> Option<&'a Mount> {
    let mounts = &facts.summary().environment.mounts;
    let fitting: Vec<&Mount> = mounts.iter().filter(|it| is_of_kind(&it.kind)).collect();
    let file = groups.iter().find_map(|group| group.file.as_deref());
    let holds = |mount: &&&Mount| {
        let rest = file.and_then(|file| file.strip_prefix(mount.path.trim_end_matches('/')));
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let holding = fitting.iter().filter(holds).max_by_key(|mount| mount.path.len());
    match (holding, fitting.as_slice()) {
        (Some(mount), _) => Some(*mount),
        (None, [only]) => Some(*only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::diagnose;
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// `waits` waits of `each` for an NFS server, beside one of a second for a disk.
    fn found(waits: u64, each: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.mounts.push(Mount {
            path: "/srv/data".to_owned(),
            kind: "nfs4".to_owned(),
            source: "10.0.0.7:/export".to_owned(),
            ..Mount::default()
        });
        for _ in 0..waits {
            script.wait((7, "cadvisor"), WaitClass::NetworkFs, each, 0, 0);
        }
        script.wait((8, "cat"), WaitClass::PageRead, 1000 * MS, 1000 * MS, 0);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "network-filesystem")
    }

    #[test]
    fn the_mount_and_its_server_are_named() {
        let found = found(200, 45 * MS).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        for said in ["/srv/data", "nfs4", "10.0.0.7:/export", "cadvisor"] {
            assert!(found.sentence.contains(said), "{}", found.sentence);
        }
        assert!(found.subject.device.is_none());
    }

    #[test]
    fn a_server_that_answers_fast_is_no_trouble_unless_it_is_asked_without_end() {
        assert_eq!(found(4000, MS / 2).unwrap().severity, Severity::Info);
        assert_eq!(found(12_000, MS / 2).unwrap().severity, Severity::Warning);
        assert_eq!(found(2000, MS).unwrap().severity, Severity::Warning);
        assert_eq!(found(0, 0), None);
    }

    #[test]
    fn limits_of_severity() {
        assert_eq!(severity_of(SLOW_NS, 1.0), Severity::Critical);
        assert_eq!(severity_of(SLOW_NS - 1.0, 1.0), Severity::Warning);
        assert_eq!(severity_of(FELT_NS - 1.0, STORM_PER_S - 1.0), Severity::Info);
        assert_eq!(severity_of(FELT_NS - 1.0, STORM_PER_S), Severity::Warning);
    }
}
