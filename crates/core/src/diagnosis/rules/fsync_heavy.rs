//! Many small writes, each made durable on its own.

use super::*;
use crate::analysis::Direction;
use crate::diagnosis::programs::{self, Role, Topic};
use facts::calls::SYNC_FILE;

/// Bytes for each flush up to which the durability costs more than the data: 4 KiB written and
/// synced one by one were 8 KiB with their journal (facts measured on ext4); a group commit of a busy
/// database is above. Chosen.
const BYTES_PER_SYNC: f64 = 32_768.0;
/// Syncs a second from which on it is a habit, not a save now and then. Chosen.
const SYNCS_PER_S: f64 = 20.0;
/// The share of the blocked time, beside that of other devices. Chosen.
const SHARE: f64 = 0.2;

rule!(
    "fsync-heavy",
    "many small writes made durable one by one",
    "Each fsync writes the data, the file system's journal and its commit record, and waits for the \
     device to empty its cache, once or twice. For a few kilobytes of data that is \
     several requests and flushes one after another, and no other thread's fsync of the same file \
     system gets ahead of it.",
    "Larger or fewer syncs that take the same share of the time: then the device's flush is slow \
     (flush-cost), or the journal is busy with others' data (journal-commit).",
    needs: [Waits],
    symptoms: ["journal-commit", "small-writes", "serial-reads"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits(|group| facts.is_call(group.syscall, SYNC_FILE));
    let subject = waited.subject();
    let calls = Calls::of(facts, &waited);
    let syncs = if calls.syncs > 0 { calls.syncs } else { waited.waits };
    let rate = syncs as f64 / facts.seconds();
    let near = subject.device.as_deref().map_or(facts.blocked_ns(), |it| facts.blocked_near(it));
    let share = waited.time_ns as f64 / near.max(1) as f64;
    if rate < SYNCS_PER_S || share < SHARE {
        return Ok(Verdict::Clear);
    }
    let Some(device) = facts.devices().iter().find(|it| Some(&it.device) == subject.device.as_ref()) else {
        return Err(Missing("the device that fsync waits for is not in the data".to_owned()));
    };
    let bytes = calls.bytes_per_sync().unwrap_or_else(|| {
        facts::of(device, Direction::Write).bytes as f64 / syncs.max(1) as f64
    });
    if bytes > BYTES_PER_SYNC {
        return Ok(Verdict::Clear);
    }
    let flags = words::flags(&subject);
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let program = programs::of(process, file);
    let own = program.and_then(|it| it.advice(Topic::Sync));
    let log = file.and_then(|it| programs::role_of(process, it)).map(Role::phrase);
    let file = match (log, file) {
        (Some(log), Some(file)) => format!(" of the {log} {file}"),
        (None, Some(file)) => format!(" of {file}"),
        _ => String::new(),
    };
    let sentence = format!(
        "{} waits for fsync{file}: {} a second, with {} written for each",
        words::who(&subject),
        words::number(rate),
        words::bytes(bytes),
    );
    Ok(Finding::of_blocked(facts, waited.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("syncs", rate, "1/s", format!("iowhy files{flags}"))
        .shown("mean wait", waited.mean_ns(), "ns", format!("iowhy waits{flags}"))
        .shown("written for each sync", bytes, "bytes", format!("iowhy files{flags}"))
        .fix(own.unwrap_or(
            "commit several changes with one fsync (group commit, larger transactions); put the log on \
             its own device, one with protection against power loss",
        ))
        .check("on a copy of the data, the same writes without fsync, or ten with one: if the waits stay, something else is slow")
        .into())
}

/// What the programs that wait in a sync did with the files that they sync.
struct Calls {
    syncs: u64,
    bytes: u64,
}

impl Calls {
    fn of(facts: &Facts<'_>, waited: &facts::Waited<'_>) -> Calls {
        let rows = facts.summary().activity.iter().flat_map(|it| &it.rows);
        let own = rows.filter(|row| {
            row.counts.fsyncs > 0 && waited.groups.iter().any(|group| group.pid == row.pid)
        });
        own.fold(Calls { syncs: 0, bytes: 0 }, |sum, row| Calls {
            syncs: sum.syncs.saturating_add(row.counts.fsyncs),
            bytes: sum.bytes.saturating_add(row.counts.write_bytes),
        })
    }

    /// Written into these files for each sync; `None` where it is not known.
    fn bytes_per_sync(&self) -> Option<f64> {
        (self.syncs > 0 && self.bytes > 0).then(|| self.bytes as f64 / self.syncs as f64)
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Finding, diagnose};
    use crate::model::WaitClass;
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// A log that is synced fifty times a second, 2 ms each, beside ten threads that wait for `device`.
    fn found(device: Option<&str>) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..500 {
            let write = script.write("sdb", 4096).by(7, "log").at((index * 20 * MS) as i64);
            write.sector(index * 8).direct(500, 500, MS).add();
            script.wait((7, "log"), WaitClass::Fsync, 2 * MS, MS, 0);
            let sdb = script.names.intern("sdb");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device) = (Some(74), Some(sdb));
        }
        for pid in 100..110 {
            script.wait((pid, "app"), WaitClass::PageFault, 9000 * MS, 9000 * MS, 0);
            let device = device.map(|name| script.names.intern(name));
            script.batch.waits.last_mut().unwrap().device = device;
        }
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "fsync-heavy")
    }

    #[test]
    fn a_device_is_judged_by_its_own_waits() {
        let found = found(Some("sda")).unwrap();
        assert_eq!(found.subject.device.as_deref(), Some("sdb"));
    }

    #[test]
    fn waits_that_may_be_for_the_same_device_count() {
        assert_eq!(found(None), None);
        assert_eq!(found(Some("sdb")), None);
    }
}
