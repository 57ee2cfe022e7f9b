//! Threads wait for the server of a network file system.

use super::*;
use crate::bottleneck::bound::{FELT_NS, SLOW_NS};
use iowhy_model::command::shell_word;
use iowhy_model::environment::Mount;

/// The least waits per second of a program that sends requests all the time, however fast the
/// server answers. Chosen: a server on the same network answers in 0.2 to 0.5 ms, so a thread with
/// 1,000 waits per second hardly does anything else.
const STORM_PER_S: f64 = 1000.0;

rule!(
    "network-filesystem",
    "network file system latency",
    "Reads, writes, lookups and syncs on NFS, SMB, Ceph, 9p and the like are requests to a server. \
     No local block device is involved, so iostat shows nothing. Their latency is that of the \
     network, the server and its disk; every open and stat of an uncached name adds one more.",
    "The client's cache serves the calls, or the waits take less than a millisecond.",
    place: KernelWork,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::NetworkFs);
    clear_if(waited.time_ns == 0)?;
    let mount = mount_of(facts, &waited.groups, is_network);
    let subject = Subject { device: None, ..waited.subject() };
    let place = mount.map_or_else(
        || "a network file system".to_owned(),
        |mount| format!("{} ({} from {})", mount.path, mount.kind, mount.source),
    );
    let sentence = format!(
        "{} waits for the server of {place}, {} on average",
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    let per_s = waited.waits as f64 / facts.seconds();
    let most = severity_of(waited.mean_ns(), per_s);
    let point = shell_word(mount.map_or("MOUNTPOINT", |mount| mount.path.as_str()));
    Ok(Finding::of_class(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .at_most(most)
        .shown("blocked time for the server", waited.class_ns as f64, "ns", "iowhy waits")
        .also("waits for the server", per_s, "1/s")
        .also("longest wait", waited.longest_ns() as f64, "ns")
        .fix(fix_of(mount.map(|mount| mount.kind.as_str())))
        .check(format!(
            "`ping` the server, and run iowhy on it to check its disks; NFS: `mountstats {point}` \
             separates RTT (network and server) from the local queue: if both are short, the \
             program only sends many requests"
        ))
        .into())
}

/// Returns the highest severity of waits for a server: fast answers matter only if there are very
/// many.
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
            "find which side is slow (check); send fewer requests: longer attribute caching \
             (actimeo=, if seconds-old attributes do no harm), nconnect= for more connections; \
             keep databases, logs and build directories on a local disk; do not mount with `soft` \
             or export with `async`: both can lose data"
        }
        Some("cifs" | "smb3") => {
            "find which side is slow (check); use longer attribute caching (actimeo=) if \
             seconds-old attributes do no harm, multichannel if server and network support it; \
             keep hot data on a local disk"
        }
        Some("ceph") => {
            "`ceph health detail` and `ceph osd perf` on the cluster: they name slow OSDs and slow \
             metadata servers; keep hot data on a local disk"
        }
        _ => {
            "find which side is slow, the server or the network path; keep hot data on a local disk"
        }
    }
}

/// Whether this file system type has a remote server.
pub(super) fn is_network(kind: &str) -> bool {
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "ocfs2", "gfs2"].contains(&kind)
}

/// Returns the mount that the waits are for: the one that contains the file, else the only one of
/// its type.
pub(super) fn mount_of<'a>(
    facts: &Facts<'a>,
    groups: &[&WaitGroup],
    is_of_kind: fn(&str) -> bool,
) -> Option<&'a Mount> {
    let mounts = &facts.summary().environment.mounts;
    let fitting: Vec<&Mount> = mounts.iter().filter(|mount| is_of_kind(&mount.kind)).collect();
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
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    /// `waits` waits of `each` for an NFS server, and one of a second for a disk.
    fn found(waits: u64, each: u64) -> Option<Finding> {
        found_at("/srv/data", waits, each)
    }

    fn found_at(path: &str, waits: u64, each: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.mounts.push(Mount {
            path: path.to_owned(),
            kind: "nfs4".to_owned(),
            source: "10.0.0.7:/export".to_owned(),
            ..Mount::default()
        });
        for _ in 0..waits {
            script.wait((7, "cadvisor"), WaitClass::NetworkFs, each, 0, 0);
        }
        script.wait((8, "cat"), WaitClass::PageRead, 1000 * MS, 1000 * MS, 0);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "network-filesystem")
    }

    #[test]
    fn the_mount_and_its_server_are_named() {
        let found = found(200, 45 * MS).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        for message in ["/srv/data", "nfs4", "10.0.0.7:/export", "cadvisor"] {
            assert!(found.sentence.contains(message), "{}", found.sentence);
        }
        assert!(found.subject.device.is_none());
    }

    #[test]
    fn a_shell_reads_the_mount_as_one_word() {
        let found = found_at("/srv/$(id)", 200, 45 * MS).unwrap();
        assert!(found.check.contains("`mountstats '/srv/$(id)'`"), "{}", found.check);
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
