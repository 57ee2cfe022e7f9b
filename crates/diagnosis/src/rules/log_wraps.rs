//! A log of fixed size is overwritten so often that its program checkpoints all the time.

use super::*;
use crate::programs::{self, FileRole, Topic};
use iowhy_analysis::summary::patterns::FilePattern;

/// The least number of times that a log is overwritten per minute. Chosen: a checkpoint of its
/// contents should take minutes.
const PER_MINUTE: f64 = 2.0;
/// The least multiple of its size that is written, so that a log that grows is none. Chosen.
const TWICE: f64 = 1.5;
/// The least number of bytes written to it, so that a few appends prove nothing.
const LEAST_BYTES: u64 = 1 << 20;
/// The least number of times that its beginning is written again: a new segment (of PostgreSQL) is
/// filled with zeros, and then written once.
const WRAPS: u64 = 2;

rule!(
    "log-wraps",
    "log that is too small",
    "Some databases write their redo log in a circle of fixed size. Before a part of it is written \
     again, the changes that it holds must be in the data files. A log that is full within seconds \
     makes the program flush data pages all the time, the same ones over and over, and commits \
     wait for that.",
    "The log is written once through in several minutes: then flushing is the program's own \
     choice.",
    place: Program,
    needs: [Files],
    bound: [
        "all waits of the program",
        "how much of the flushing a larger log saves was not tried",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let logs = facts.summary().patterns.devices.iter().flat_map(|device| {
        let files = device.access.files.iter();
        let logs = files.filter(|file| is_circle(&file.file));
        logs.map(move |file| (device.device.as_str(), file))
    });
    let turns = |file: &FilePattern| file.written as f64 / file.end.max(1) as f64;
    let most = logs.max_by(|a, b| turns(a.1).total_cmp(&turns(b.1)));
    let Some((device, log)) = most else { return Ok(RuleVerdict::Clear) };
    let per_minute = turns(log) * 60.0 / facts.seconds();
    let is_overwritten = log.wraps >= WRAPS && turns(log) >= TWICE;
    clear_if(!is_overwritten || log.written < LEAST_BYTES || per_minute < PER_MINUTE)?;
    let program = programs::of(None, Some(&log.file));
    let waits = facts.waits(|group| {
        let is_own = programs::of(Some(&group.process), None).map(|it| it.name);
        is_own.is_some() && is_own == program.map(|program| program.name)
    });
    let subject = Subject {
        device: Some(device.to_owned()),
        file: Some(log.file.clone()),
        ..waits.subject()
    };
    let sentence = format!(
        "{} has written {} to its log {} of {} within {}: it is full every {}, and data pages are \
         flushed all the time to make room",
        words::who(&subject),
        words::bytes(log.written as f64),
        log.file,
        words::bytes(log.end as f64),
        words::time(facts.duration_ns() as f64),
        words::time(60e9 / per_minute),
    );
    let pid = subject.pid;
    let behind =
        Claims::of_chains(facts, |row| row.steps.last().is_some_and(|step| Some(step.pid) == pid));
    let claims = Claims::of_waits(&waits).and(&behind);
    let advice = program.and_then(|program| program.advice(Topic::Checkpoint));
    Ok(Finding::of_blocked(facts, waits.time_ns, sentence)
        .claiming(claims)
        .about(subject)
        .upper_bound()
        .sure(Confidence::Certain)
        .shown("bytes written to the log", log.written as f64, "bytes", "iowhy files")
        .also("size of the log", log.end as f64, "bytes")
        .fix(advice.unwrap_or("enlarge the log, so that it is full after several minutes"))
        .check(
            "with a log ten times as large the writes to the data files fall; if they stay, the \
             memory for changed pages is too small",
        )
        .into())
}

/// Whether a path is that of a log which its program may write in a circle.
fn is_circle(path: &str) -> bool {
    programs::of(None, Some(path)).is_some_and(|program| {
        program.has_circular_log() && program.role(path) == Some(FileRole::WriteAheadLog)
    })
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    fn found(file: &str, writes: u64, circle: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..writes {
            let write = script.write("sda", 65_536).by(7, "mariadbd").at((index * 10 * MS) as i64);
            let offset = index % circle * 65_536;
            write.sector(offset / 512).direct(500, 500, 2 * MS).file_at(file, offset).add();
        }
        script.wait((7, "mariadbd"), WaitClass::Device, 4000 * MS, 4000 * MS, 0);
        script.waited_on("sda", "/var/lib/mysql/t.ibd", 17);
        among(&script)
    }

    fn among(script: &Script) -> Option<Finding> {
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "log-wraps")
    }

    /// Each segment is filled with zeros, and written once.
    #[test]
    fn new_segments_of_one_name_are_no_circle() {
        let segments = |of_one: usize| {
            let mut script = Script::new(10);
            for index in 0..480_u64 {
                let write = script.write("sda", 65_536).by(7, "mariadbd");
                let write = write.at((index * 10 * MS) as i64).sector(index * 128);
                let file = "/var/lib/mysql/ib_logfile0";
                write.direct(500, 500, 2 * MS).file_at(file, index % 64 * 65_536).add();
            }
            for (index, part) in script.batch.parts.iter_mut().enumerate() {
                part.inode = Some((index / of_one) as u64);
            }
            script.wait((7, "mariadbd"), WaitClass::Device, 4000 * MS, 4000 * MS, 0);
            script.waited_on("sda", "/var/lib/mysql/t.ibd", 17);
            among(&script)
        };
        assert!(segments(480).is_some(), "one file");
        assert_eq!(segments(128), None);
    }

    #[test]
    fn a_log_that_is_full_within_seconds_is_named_with_its_size() {
        let found = found("/var/lib/mysql/ib_logfile0", 160, 64).unwrap();
        assert!(found.sentence.contains("10.0 MiB to its log"), "{}", found.sentence);
        assert!(found.sentence.contains("of 4.00 MiB"), "{}", found.sentence);
        assert!(found.fix.contains("innodb_log_file_size"), "{}", found.fix);
    }

    #[test]
    fn a_log_that_grows_or_is_large_enough_is_not() {
        assert_eq!(found("/var/lib/mysql/ib_logfile0", 160, 1000), None);
        assert_eq!(found("/var/lib/mysql/t.ibd", 160, 64), None, "data pages");
        let of_segments = "/db/pg_wal/000000010000000000000001";
        assert_eq!(found(of_segments, 160, 64), None, "each segment is written once");
    }
}
