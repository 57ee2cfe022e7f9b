//! A call that closes or replaces a file writes all of it back.

use super::*;
use crate::programs::{self, FileRole, Topic};
use facts::calls::{CLOSE, RENAME};

/// Functions that start writeback when a file is closed or renamed over another.
const FUNCTIONS: &[&str] = &[
    "ext4_alloc_da_blocks",
    "ext4_release_file",
    "filemap_flush",
    "btrfs_release_file",
    "xfs_release",
    "xfs_file_release",
];
/// Functions of any writeback, for a call that is known to be close.
const WRITEBACK: &[&str] = &[
    "do_writepages",
    "ext4_writepages",
    "ext4_bio_write_folio",
    "xfs_vm_writepages",
    "btrfs_writepages",
    "iomap_writepages",
];

rule!(
    "close-writeback",
    "writeback when a file is closed",
    "ext4 (auto_da_alloc), XFS and btrfs write a file back when it is closed after it had been \
     truncated, or renamed over another file: programs that overwrite files without fsync would \
     otherwise lose both versions in a crash. close(2) or rename(2) then takes as long as the \
     device needs for the file.",
    "The file is new, and no other one is replaced; or the program syncs it itself.",
    place: Program,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let closing = |call| facts.is_call(call, CLOSE) || facts.is_call(call, RENAME);
    let stacked = facts.stacked_where(|stack| {
        let starts = facts::has_function(&stack.functions, FUNCTIONS);
        starts || facts::has_function(&stack.functions, WRITEBACK)
    });
    let mut stacks = stacked.stacks.iter().filter(|stack| closing(stack.syscall));
    let first = stacks.next().ok_or(Clear)?;
    let waited = facts.waits(|group| {
        closing(group.syscall)
            && Some(&group.process) == first.process.as_ref()
            && group.class != WaitClass::FsLock
    });
    clear_if(waited.time_ns == 0)?;
    let of_waits = waited.subject();
    let file = of_waits.file.clone().or_else(|| first.file.clone());
    let subject = Subject {
        file,
        device: of_waits.device.clone().or_else(|| first.device.clone()),
        ..of_waits
    };
    let call = facts.call_name(first.syscall).unwrap_or("close");
    let checkpoint = checkpoint_of(facts, &subject);
    let sentence = format!(
        "{} waits {} in {call} until {} is written back to {}: {}",
        words::who(&subject),
        words::time(waited.time_ns as f64),
        subject.file.as_deref().unwrap_or("the file"),
        subject.device.as_deref().unwrap_or("its device"),
        match &checkpoint {
            Some((log, _)) => format!("a checkpoint of {log}"),
            None => "the file replaces older contents".to_owned(),
        },
    );
    let flags = words::flags(&subject);
    // What is copied must reach the device some time, at close or later: that is trouble only for
    // who does little else.
    let is_occasional =
        facts.device_of(&subject).is_some_and(|device| facts.is_bulk_now_and_then(device, &waited));
    let is_copied = facts.is_about_copy(&subject) || is_occasional;
    Ok(Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .at_most(if is_copied { Severity::Info } else { Severity::Critical })
        .shown("time in these calls", waited.time_ns as f64, "ns", format!("iowhy waits{flags}"))
        .also("longest", waited.longest_ns() as f64, "ns")
        .fix(checkpoint.map_or(
            "write to a new file instead of over an existing one, and remove the old one; or \
             mount with noauto_da_alloc (ext4) if the program syncs what must survive: without it \
             a crash soon after may leave the file empty",
            |(_, advice)| advice,
        ))
        .check(
            "the same copy to a name that does not exist returns at once; if it does not, the \
             writer waits for the dirty page limit or the device",
        )
        .into())
}

/// Returns the write-ahead log that is most of what is written to the subject's device, and its
/// program's advice on checkpoints: a database in the program's own process is written back when it
/// closes.
fn checkpoint_of(facts: &Facts<'_>, subject: &Subject) -> Option<(String, &'static str)> {
    let patterns = facts.patterns(subject.device.as_deref()?)?;
    let most = patterns.access.files.iter().max_by_key(|file| file.written)?;
    let program = programs::of(None, Some(&most.file))?;
    let is_log = program.role(&most.file) == Some(FileRole::WriteAheadLog);
    Some((most.file.clone(), program.advice(Topic::Checkpoint).filter(|_| is_log)?))
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{S, Script};

    fn found(call: u32, frames: &[&str]) -> Option<Finding> {
        closed(call, frames, 4, 1)
    }

    /// A file is closed for `seconds` while its device writes so many MiB.
    fn closed(call: u32, frames: &[&str], seconds: u64, mib: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for _ in 0..mib {
            script.write("sda", 1 << 20).by(7, "cp").direct(500, 500, S / mib).add();
        }
        script.wait((7, "cp"), WaitClass::Wbt, seconds * S, 0, 0);
        script.stacked(frames);
        script.waited_on("sda", "/srv/image", call);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "close-writeback")
    }

    #[test]
    fn closing_an_overwritten_file_is_named_with_the_file() {
        let frames =
            ["wbt_wait", "ext4_writepages", "filemap_flush", "ext4_release_file", "__fput"];
        let found = found(3, &frames).unwrap();
        assert!(found.sentence.contains("4.00 s in close until /srv/image"), "{}", found.sentence);
        assert_eq!(self::found(1, &["wbt_wait", "ext4_writepages"]), None, "write");
        let severity = |seconds: u64, mib: u64| closed(3, &frames, seconds, mib).unwrap().severity;
        assert!(severity(4, 1) > Severity::Info, "small files");
        assert_eq!(severity(4, 100), Severity::Info, "a large copy now and then");
        assert!(severity(9, 100) > Severity::Info, "it does little else");
        assert_eq!(self::found(3, &["wbt_wait", "blk_mq_submit_bio"]), None, "no writeback");
    }
}
