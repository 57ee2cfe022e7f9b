//! Files that ext4 maps by indirect blocks, as ext2 and ext3 did.

use super::*;

/// Functions that read indirect blocks: to find a file's blocks, or to free them.
const INDIRECT: &[&str] = &[
    "ext4_ind_map_blocks",
    "ext4_ind_truncate",
    "ext4_ind_remove_space",
    "ext4_free_branches",
    "ext2_get_blocks*",
    "ext2_free_branches",
];
/// Those that free.
const FREES: &[&str] =
    &["ext4_ind_truncate", "ext4_ind_remove_space", "ext4_free_branches", "ext2_free_branches"];

/// Functions below them that change the file system, as they do for files with extents.
const CHANGES: &[&str] = &[
    "ext4_mb_*",
    "ext4_free_blocks",
    "ext4_ext_truncate_extend_restart",
    "do_get_write_access",
    "ext2_new_blocks",
    "ext2_free_blocks",
];

rule!(
    "indirect-blocks",
    "files without extents",
    "ext2 and ext3 list each block of a file: of large files in thousands of indirect blocks, one \
     for 4 MiB. ext4 keeps such lists for files that were made before its file system had extents, \
     or on one made without them. Each list is read by itself before the next: deleting or reading \
     a large file then takes thousands of seeks, where one with extents needs a few blocks.",
    "The files were just read, so that their indirect blocks are cached.",
    place: Setting,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked_where(|stack| {
        let has = |functions: &[&str]| facts::has_function(&stack.functions, functions);
        stack.class == WaitClass::Device && has(INDIRECT) && !has(CHANGES)
    });
    clear_if(stacked.time_ns == 0)?;
    let subject = stacked.subject();
    let is_removed = stacked.time_in(FREES).saturating_mul(2) > stacked.time_ns;
    let does = if is_removed { "removing" } else { "reading" };
    let sentence = format!(
        "{} waits for indirect blocks of the files that it is {does}{}, one after another, {} \
         each: these files have no extents",
        words::who(&subject),
        words::on(&subject),
        words::time(stacked.time_ns as f64 / stacked.waits.max(1) as f64),
    );
    let removal = "remove large files in steps and at a quiet time (`truncate --size=-1G FILE` of \
                   one that nobody needs any more, again and again); ";
    Ok(Finding::of_blocked(facts, stacked.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown(
            "time waited for indirect blocks",
            stacked.time_ns as f64,
            "ns",
            "iowhy waits --by stack",
        )
        .also("waits", stacked.waits as f64 / facts.seconds(), "1/s")
        .fix(format!(
            "{}if `tune2fs -l DEVICE` shows the feature extent, copy the files in place (`cp`, \
             then `mv`): only new ones have extents; else copy them to a new ext4 or XFS",
            if is_removed { removal } else { "" },
        ))
        .check("`lsattr FILE` shows no e (extents); a copy with extents is removed quickly")
        .into())
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    fn found(frames: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..400 {
            let read = script.read("sda", 4096).by(7, "rm").at((index * 25 * MS) as i64);
            read.direct(500, 500, 20 * MS).add();
            script.wait((7, "rm"), WaitClass::Device, 20 * MS, 20 * MS, 0);
            script.waited_on("sda", "/srv/film.mpg", 87);
            script.stacked(frames);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().next().filter(|finding| finding.cause == "indirect-blocks")
    }

    #[test]
    fn an_unlink_that_reads_lists_of_blocks_is_told_from_one_with_extents() {
        let lists = found(&["ext4_free_branches", "ext4_ind_truncate", "do_unlinkat"]).unwrap();
        assert_eq!(lists.severity, Severity::Critical);
        assert!(lists.sentence.starts_with("rm (7) waits for indirect"), "{}", lists.sentence);
        assert!(lists.sentence.contains("removing on sda"), "{}", lists.sentence);
        assert!(lists.fix.contains("truncate --size"), "{}", lists.fix);
        assert_eq!(found(&["ext4_ext_remove_space", "ext4_truncate", "do_unlinkat"]), None);
    }

    #[test]
    fn who_adds_blocks_to_such_a_file_waits_for_others() {
        let adds = ["ext4_read_block_bitmap", "ext4_mb_new_blocks", "ext4_ind_map_blocks"];
        assert_eq!(found(&adds), None);
    }

    #[test]
    fn who_reads_such_a_file_copies_it() {
        let read = found(&["ext4_ind_map_blocks", "ext4_map_blocks", "filemap_read"]).unwrap();
        assert!(read.sentence.contains("reading on sda"), "{}", read.sentence);
        assert!(read.fix.starts_with("if `tune2fs -l DEVICE`"), "{}", read.fix);
    }
}
