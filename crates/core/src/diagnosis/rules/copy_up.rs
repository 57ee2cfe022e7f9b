//! The first write to a file of a lower layer copies the whole file.

use super::*;

/// overlayfs's copy of a file into its upper layer.
const COPY: &[&str] = &["ovl_copy_up*", "ovl_do_copy_up*"];

rule!(
    "copy-up",
    "overlayfs copy-up",
    "A container's files are stacked in layers (overlayfs). The first open for writing, chmod, \
     touch or rename of a file in a lower layer copies the whole file to the container's upper \
     layer, syncs it, and only then returns: this takes seconds for a large file, in a call that \
     changes a single byte.",
    "Later writes to the same file, by then in the upper layer, are as slow.",
    place: Program,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked(COPY);
    if stacked.time_ns == 0 {
        return Ok(RuleVerdict::Clear);
    }
    let mut subject = stacked.subject();
    let device = subject.device.clone();
    let file = device.as_deref().and_then(|device| copied(facts, device));
    subject.file = file.or(subject.file);
    let what = subject.file.clone().unwrap_or_else(|| "a file of a lower layer".to_owned());
    let sentence = format!(
        "{} waits while overlayfs copies {what} to the upper layer before its first change",
        words::who(&subject),
    );
    Ok(Finding::of_blocked(facts, stacked.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("blocked time in the copy", stacked.time_ns as f64, "ns", "iowhy waits")
        .shown("longest wait", stacked.longest_ns as f64, "ns", "iowhy waits")
        .fix(
            "keep files that change in a volume (bind mount), not in the image; if only attributes \
             change (chown, chmod, touch at start-up), change them when the image is built, or \
             mount with metacopy=on if all layers are trusted",
        )
        .check(
            "a second change of the same file takes no time; if it does, the copy is not the \
                cause",
        )
        .into())
}

/// Returns the copied files, as a pattern: those with most requests on the device.
fn copied(facts: &Facts<'_>, device: &str) -> Option<String> {
    let files = &facts.patterns(device)?.access.files;
    let all: u64 = files.iter().map(|it| it.requests).sum();
    let mut most: Vec<_> = files.iter().collect();
    most.sort_by_key(|it| std::cmp::Reverse(it.requests));
    // Half of the requests are the copy's writes, which belong to a new file.
    let (mut names, mut sum): (Vec<&str>, u64) = (Vec::new(), 0);
    for it in most {
        if 4 * sum >= all {
            break;
        }
        sum += it.requests;
        names.push(&it.file);
    }
    words::pattern(&names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Severity, diagnose};
    use crate::model::{Origin, WaitClass};
    use crate::script::{S, Script};

    fn found(frames: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..600_u64 {
            let read = script.read("sda", 1 << 20).sector(index * 2048).origin(Origin::Readahead);
            read.by(7, "touch").file("/layers/1/big.db").direct(0, 0, S / 100).add();
        }
        script.wait((7, "touch"), WaitClass::PageRead, 6 * S, 5 * S, 0);
        script.stacked(frames);
        let device = script.names.intern("sda");
        script.batch.waits[0].device = Some(device);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "copy-up")
    }

    #[test]
    fn the_lower_file_and_the_program_are_named() {
        let found =
            found(&["filemap_get_pages", "ovl_copy_up_file", "ovl_copy_up_one", "ovl_setattr"])
                .unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
        assert!(
            found.sentence.contains("touch (7)") && found.sentence.contains("/layers/1/big.db")
        );
    }

    #[test]
    fn reading_through_an_overlay_is_no_copy() {
        assert_eq!(found(&["filemap_get_pages", "filemap_read", "ovl_read_iter"]), None);
    }
}
