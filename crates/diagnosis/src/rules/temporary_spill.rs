//! A database sorts, hashes or builds tables on disk, since its memory for that is too small.

use super::*;
use crate::programs::{self, FileRole, Topic};
use std::collections::BTreeSet;

rule!(
    "temporary-spill",
    "sorts that spill to disk",
    "A sort, a hash table or a temporary table that is larger than the memory that the program \
     allows for it goes to temporary files: it is written, read back, and removed. The query then \
     takes as long as the disk needs for that, and the writes hold up everything else on it.",
    "The program has no temporary files, or only writes what its clients store.",
    place: Program,
    needs: [Waits, Files],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let is_temporary = |process: &str, file: &str| {
        programs::role_of(Some(process), file) == Some(FileRole::Temporary)
    };
    let rows = facts.summary().activity.iter().flat_map(|report| &report.rows);
    let spilled: Vec<(u32, &str, u64)> = rows
        .filter_map(|row| {
            let (process, file) = (row.process.as_deref()?, row.file.as_deref()?);
            let bytes = row.counts.write_bytes;
            (bytes > 0 && is_temporary(process, file)).then_some((row.pid, file, bytes))
        })
        .collect();
    let of_waits = facts.waits(|group| {
        group.file.as_deref().is_some_and(|file| is_temporary(&group.process, file))
    });
    let waiting = of_waits.groups.iter().map(|group| group.pid);
    let pids: BTreeSet<u32> = spilled.iter().map(|(pid, ..)| *pid).chain(waiting).collect();
    // Removing such a file, or waiting for the dirty pages of it, is of no file.
    let is_own = |group: &WaitGroup| match &group.file {
        Some(file) => is_temporary(&group.process, file),
        None => pids.contains(&group.pid),
    };
    let waited = facts.waits(is_own);
    clear_if(of_waits.time_ns == 0 || waited.time_ns == 0)?;
    let files: Vec<&str> =
        of_waits.groups.iter().filter_map(|group| group.file.as_deref()).collect();
    let pattern = words::pattern(&files);
    let subject = Subject { file: pattern.clone(), ..of_waits.subject() };
    let bytes: u64 = spilled.iter().map(|(.., bytes)| bytes).copied().fold(0, u64::saturating_add);
    let how_much = match bytes {
        0 => String::new(),
        bytes => format!(
            ", {} within {}",
            words::bytes(bytes as f64),
            words::time(facts.duration_ns() as f64)
        ),
    };
    let sentence = format!(
        "{} sorts or hashes in temporary files ({}){how_much}, and waits for them: its memory for \
         that is too small",
        words::who(&subject),
        pattern.as_deref().unwrap_or("several"),
    );
    let (process, file) = (subject.process.as_deref(), subject.file.as_deref());
    let own = programs::advice(process, file, Topic::Spill);
    let flags = words::flags(&subject);
    Ok(Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("written to temporary files", bytes as f64, "bytes", format!("iowhy files{flags}"))
        .shown("time it waited", waited.time_ns as f64, "ns", format!("iowhy waits{flags}"))
        .fix(own.unwrap_or(
            "give the program more memory for sorts, hashes and temporary tables, or put its \
             temporary files on another device",
        ))
        .check("with more memory for it the temporary files are gone; if not, it is another query")
        .into())
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{S, Script};

    fn found(file: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.write("sda", 1 << 20).by(7, "postgres").file(file).direct(500, 500, S).add();
        script.wait((7, "postgres"), WaitClass::DirtyThrottle, 2 * S, 0, 0);
        script.waited_on("sda", file, 18);
        script.wait((7, "postgres"), WaitClass::PageLock, 3 * S, 0, 0);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "temporary-spill")
    }

    #[test]
    fn a_sort_on_disk_is_named_with_the_setting() {
        let found = found("/db/base/pgsql_tmp/pgsql_tmp7.0").unwrap();
        assert_eq!(found.severity, Severity::Critical, "removing the files counts, too");
        assert!(found.fix.contains("work_mem"), "{}", found.fix);
        assert_eq!(self::found("/db/base/16384/2619"), None, "a table");
    }
}
