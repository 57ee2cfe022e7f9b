//! The first write to a file of a lower layer copies all of it, the first write to a block of an
//! image that stands on another one the whole block.

use super::*;
use iowhy_analysis::summary::ActivityRow;
use iowhy_model::compact_sort::CompactSort;

/// overlayfs's copy of a file into its upper layer.
const COPY: &[&str] = &["ovl_copy_up*", "ovl_do_copy_up*"];
/// Images that can stand on another one.
const IMAGES: &[&str] = &[".qcow2", ".qed", ".vmdk", ".vhdx"];
/// The program that converts images: it reads all of one to write another.
const CONVERTER: &str = "qemu-img";
/// The largest difference between what is read and what is written, as a share of the latter.
/// Chosen: headers and tables come on top.
const ALIKE: f64 = 0.2;

rule!(
    "copy-up",
    "overlayfs copy-up",
    "A container's files are stacked in layers (overlayfs). The first open for writing, chmod, \
     touch or rename of a file in a lower layer copies the whole file to the container's upper \
     layer, syncs it, and only then returns: this takes seconds for a large file, in a call that \
     changes a single byte. An image of a virtual machine that stands on another one (qcow2 with a \
     backing file) copies a whole cluster at the first write to it.",
    "Later writes to the same file, by then in the upper layer, are as slow.",
    place: Program,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked(COPY);
    if stacked.time_ns == 0 {
        return Ok(image(facts).map_or(RuleVerdict::Clear, RuleVerdict::from));
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
        .also("longest wait", stacked.longest_ns as f64, "ns")
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

/// Returns the finding about an image whose clusters are copied from another file.
fn image(facts: &Facts<'_>) -> Option<Finding> {
    let rows = || facts.summary().activity.iter().flat_map(|report| &report.rows);
    let is_image = |file: &str| IMAGES.iter().any(|ending| file.ends_with(ending));
    let is_copy = |from: &ActivityRow, to: &ActivityRow| {
        let (read, written) = (from.counts.read_bytes as f64, to.counts.write_bytes as f64);
        from.pid == to.pid && from.file != to.file && (read - written).abs() < ALIKE * written
    };
    let images = rows().filter(|row| {
        row.file.as_deref().is_some_and(is_image) && row.process.as_deref() != Some(CONVERTER)
    });
    let mut copies = images.filter_map(|to| Some((rows().find(|from| is_copy(from, to))?, to)));
    let (from, to) = copies.next()?;
    let waited = facts
        .waits(|group| group.pid == to.pid && (group.file == from.file || group.file == to.file));
    let written = to.counts.write_bytes as f64;
    let subject = Subject { file: to.file.clone(), ..waited.subject() };
    let sentence = format!(
        "{} copies clusters of {} to {} before their first change, {} per second",
        words::who(&subject),
        from.file.as_deref().unwrap_or("another image"),
        to.file.as_deref().unwrap_or_default(),
        words::bytes(written / facts.seconds()),
    );
    let files = format!("iowhy files{}", words::flags(&subject));
    let finding = Finding::of_waits(facts, &waited, sentence)
        .about(subject)
        .shown("read from the one", from.counts.read_bytes as f64, "bytes", files.clone())
        .also("written to the other", written, "bytes")
        .fix(
            "give the image smaller clusters (`qemu-img create -o cluster_size=64k` and \
             extended_l2=on), or make it stand alone (`qemu-img rebase -b ''`)",
        )
        .check("writes to clusters that were written before take no such time");
    Some(finding)
}

/// Returns the copied files, as a pattern: those with most requests on the device.
fn copied(facts: &Facts<'_>, device: &str) -> Option<String> {
    let files = &facts.patterns(device)?.access.files;
    let all: u64 = files.iter().map(|file| file.requests).fold(0, u64::saturating_add);
    let mut most: Vec<_> = files.iter().collect();
    most.compact_sort_by_key(|it| std::cmp::Reverse(it.requests));
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
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::FileActivity;
    use iowhy_model::file::Counts;
    use iowhy_model::script::{S, Script};

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
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "copy-up")
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

    /// A machine reads from one file and writes so much to its image.
    fn image(written: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        let names = ["/vm/base.raw", "/vm/guest.qcow2", "qemu"].map(|it| script.names.intern(it));
        for (file, read_bytes, write_bytes) in [(names[0], 1 << 27, 0), (names[1], 0, written)] {
            let counts = Counts { reads: 64, read_bytes, write_bytes, ..Counts::default() };
            let row = FileActivity::of(1, 7, &counts);
            let (file, process) = (Some(file), Some(names[2]));
            script.batch.files.push(FileActivity { file, process, files: Some(1), ..row });
        }
        script.wait((7, "qemu"), WaitClass::Device, 4 * S, 4 * S, 0);
        script.waited_on("sda", "/vm/guest.qcow2", 0);
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "copy-up")
    }

    #[test]
    fn an_image_on_another_one_copies_clusters() {
        let found = image(1 << 27).unwrap();
        assert!(found.sentence.contains("/vm/base.raw to /vm/guest.qcow2"), "{}", found.sentence);
        assert_eq!(image(1 << 20), None, "it reads what it does not write");
    }

    #[test]
    fn reading_through_an_overlay_is_no_copy() {
        assert_eq!(found(&["filemap_get_pages", "filemap_read", "ovl_read_iter"]), None);
    }
}
