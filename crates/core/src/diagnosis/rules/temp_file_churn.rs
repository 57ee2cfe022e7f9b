//! Files that live for seconds are written to disk.

use super::*;

rule!(
    "temp-file-churn",
    "files that live for seconds",
    "A program writes files, reads them back and removes them within seconds. What is removed before the \
     kernel writes it costs only memory, but creating and removing goes through the journal, and under \
     pressure or with syncs the data is written, too: work for the disk that nobody needs afterwards.",
    "Files that stay.",
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_files()?;
    Ok(Verdict::Clear)
}
