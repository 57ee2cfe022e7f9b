//! One file is used past the page cache and through it at once.

use super::*;
use crate::analysis::patterns::FilePattern;

/// Requests of each kind that a file must have.
const BOTH: u64 = 20;
/// Functions that clean the page cache before direct I/O.
const CLEAN: &[&str] =
    &["kiocb_invalidate_pages", "invalidate_inode_pages2_range", "filemap_write_and_wait_range", "kiocb_write_and_wait"];

rule!(
    "direct-buffered-mix",
    "direct and buffered I/O on one file",
    "Direct I/O has to keep the page cache honest: before it touches a range, dirty pages there are \
     written and waited for, and cached ones are thrown away. A file that one program uses directly and \
     another through the cache pays for both, each time.",
    "Different files, or one way after the other.",
    needs: [Files],
    symptoms: ["inode-lock", "journal-commit", "writeback-burst", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    if facts.summary().files.is_absent() && facts.summary().watch.requests > 0 {
        return Err(Missing("files are not in the data".to_owned()));
    }
    let mixed = |file: &&FilePattern| file.direct >= BOTH && file.cached + file.faults >= BOTH;
    let found = facts.summary().patterns.devices.iter().filter_map(|patterns| {
        let file = patterns.access.files.iter().filter(mixed).max_by_key(|file| file.time_ns)?;
        Some((patterns.device.as_str(), file))
    });
    let Some((name, file)) = found.max_by_key(|(_, file)| file.time_ns) else { return Ok(Verdict::Clear) };
    let Some(device) = facts.devices().iter().find(|it| it.device == name) else { return Ok(Verdict::Clear) };
    let (cleaning_ns, _) = facts.waits_in(CLEAN);
    let sentence = format!(
        "{} is used past the page cache and through it: {} direct and {} cached requests",
        file.file,
        words::count(file.direct),
        words::count(file.cached + file.faults),
    );
    Ok(Finding::of_device(facts, file.time_ns, facts::device_time_ns(device), sentence)
        .about(Subject { file: Some(file.file.clone()), ..facts::subject_of(name, facts.top_process(device, |_| true)) })
        .sure(if cleaning_ns > 0 { Confidence::Certain } else { Confidence::Likely })
        .shown("direct requests", file.direct as f64 / facts.seconds(), "1/s", "iowhy files")
        .shown("requests of the page cache", (file.cached + file.faults) as f64 / facts.seconds(), "1/s", "iowhy files")
        .shown("waits for the cache to be cleaned", cleaning_ns as f64, "ns", "iowhy waits")
        .fix("use the file one way: both programs with O_DIRECT, or both without; a backup of a database's files through its own interface")
        .check("stop the program that uses the cache: direct I/O gets faster; if not, the mix was not the cost")
        .into())
}
