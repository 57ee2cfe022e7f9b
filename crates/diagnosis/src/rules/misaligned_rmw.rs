//! Writes of parts of blocks, which must be read first.

use super::*;
use facts::thresholds::MOST;
use iowhy_analysis::summary::{CodePathRow, UsedRow};

/// The least share of writes whose block is read just before. Chosen.
const READ_FIRST: f64 = 0.3;
/// The least number of writes, or of reads, to judge.
const WRITES: u64 = 50;
/// Functions that read a page because a part of it is to be written. The page itself is written
/// half a minute later, so a watch may contain no write at all.
const BEFORE_WRITE: &[&str] = &[
    "iomap_write_begin*",
    "__iomap_write_begin*",
    "ext4_write_begin*",
    "ext4_da_write_begin*",
    "ext4_block_write_begin*",
    "block_write_begin*",
    "__block_write_begin*",
    "blkdev_write_begin*",
    "prepare_uptodate_*",
];

/// Functions of a program's own reads.
const READS: &[&str] = &[
    "vfs_read",
    "ksys_read",
    "ksys_pread64",
    "vfs_readv",
    "do_readv",
    "do_preadv",
    "filemap_read",
    "generic_file_read_iter",
    "generic_file_buffered_read",
    "filemap_fault",
    "aio_read",
    "io_read",
];

rule!(
    "misaligned-rmw",
    "read-modify-write of partial blocks",
    "A page of the page cache, a sector of a disk with 4096-byte sectors and a stripe of a RAID \
     can only be written as a whole. To change a part of one, it is read, modified and written: a \
     write costs a read, and the program waits for both.",
    "The reads are of other locations than the writes.",
    place: Setting,
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let shares = |device: &DeviceSummary| {
        let access = &facts.patterns(&device.device)?.access;
        let of = |count: u64| count as f64 / access.data_writes.max(1) as f64;
        (access.data_writes >= WRITES)
            .then(|| (of(access.writes_after_read), of(access.unaligned_writes)))
    };
    let physical =
        |device: &DeviceSummary| facts.number(device, "queue/physical_block_size").unwrap_or(512.0);
    let fits = |device: &DeviceSummary| {
        shares(device).is_some_and(|(read_first, unaligned)| {
            read_first >= READ_FIRST && !reads_itself(facts, device)
                || (unaligned >= MOST && physical(device) >= 4096.0)
        })
    };
    let Some(device) = facts.busiest(fits) else { return Ok(before_write(facts)) };
    let (read_first, unaligned) = shares(device).unwrap_or((0.0, 0.0));
    let name = &device.device;
    let top = facts.top_process(device, |row| row.usage.directions[Direction::Write].requests > 0);
    let subject = facts::subject_of(name, top);
    let sum =
        |direction| facts::stage(device, direction, Interval::Q2c).map_or(0, |stage| stage.sum_ns);
    let (reads, writes) = (sum(Direction::Read), sum(Direction::Write));
    let part = match read_first >= READ_FIRST {
        true => format!("{} of the writes read their block first", words::percent(read_first)),
        false => format!("{} of the writes begin or end within a block", words::percent(unaligned)),
    };
    let sentence = format!("{} writes parts of blocks on {name}: {part}", words::who(&subject));
    let rmw = if read_first >= READ_FIRST { reads } else { writes };
    Ok(Finding::of_device(facts, rmw, reads + writes, sentence)
        .about(subject)
        // The data does not show whether the kernel reads it for the write, or the program itself.
        .sure(if facts.summary().code_paths.sampled_requests == 0 {
            Confidence::Possible
        } else {
            Confidence::Likely
        })
        .shown(
            "share of writes whose block was read just before",
            read_first * 100.0,
            "%",
            format!("iowhy snoop -d {name}"),
        )
        .also("share of writes not aligned to 4096 bytes", unaligned * 100.0, "%")
        .shown(
            "physical block size",
            physical(device),
            "bytes",
            format!("cat /sys/block/{name}/queue/physical_block_size"),
        )
        .fix(
            "write whole blocks at multiples of 4096 bytes (of the stripe on RAID); align \
             partitions to them, too (`lsblk -o NAME,ALIGNMENT` shows 0). A program that reads a \
             page to change it (a database with a small cache) needs more memory instead",
        )
        .check("with whole, aligned blocks the reads stop; if not, something else reads")
        .into())
}

/// Whether the program itself reads what it then writes: a database that changes pages, an editor.
/// Whole blocks do not help there. `false` without stacks, which show it.
fn reads_itself(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let of_files = [Origin::Read, Origin::Readahead, Origin::PageFault];
    let time = |rows: &[&UsedRow<CodePathRow>]| -> f64 {
        let own = rows.iter().filter(|row| of_files.contains(&row.subject.origin));
        own.map(|row| row.usage.time_share).sum()
    };
    let own = time(&facts.paths_on(&device.device, READS));
    own > time(&facts.paths_on(&device.device, BEFORE_WRITE))
}

/// Returns the device within a file of this one whose writes are whole blocks: in the file they
/// are not, since it begins elsewhere there.
fn shifted<'a>(facts: &Facts<'a>, name: &str) -> Option<&'a str> {
    let mut files = facts.devices().iter().filter(|it| it.backing_file.is_some());
    let upper = files.find(|it| it.below.iter().any(|below| below == name))?;
    let access = &facts.patterns(&upper.device)?.access;
    let is_whole = (access.unaligned_writes as f64) < MOST * access.data_writes as f64;
    is_whole.then_some(upper.device.as_str())
}

const PARTS: &str = "write whole pages at multiples of 4096 bytes: align records to them, or batch \
                     changes of the same page; with enough memory the file's pages stay cached";
const SHIFTED: &str = "align the device with its file: an image's partitions, and a loop device's \
                       offset (`losetup --list` shows it), must be multiples of 4096 bytes \
                       (sector 2048, not 63)";

/// Reads by the kernel within write(2).
fn before_write(facts: &Facts<'_>) -> RuleVerdict {
    let of_files = [Origin::Read, Origin::Readahead];
    let mut paths = facts.paths(BEFORE_WRITE);
    paths.retain(|row| of_files.contains(&row.subject.origin));
    let requests: u64 = paths.iter().map(|row| row.usage.requests).fold(0, u64::saturating_add);
    let time_ns: u64 = paths.iter().map(|row| row.usage.all_time_ns()).fold(0, u64::saturating_add);
    let reads = |device: &DeviceSummary| facts::of(device, Direction::Read).requests;
    let Some(device) = facts.busiest(|device| reads(device) >= requests && requests >= WRITES)
    else {
        return RuleVerdict::Clear;
    };
    let name = &device.device;
    let whole = facts::device_time_ns(device);
    if (time_ns as f64) < READ_FIRST * whole as f64 {
        return RuleVerdict::Clear;
    }
    let submitter = paths.first().and_then(|row| row.subject.process.clone());
    let top = facts.top_process(device, |row| Some(&row.subject.process) == submitter.as_ref());
    let files = facts.patterns(name).map_or(&[][..], |it| &it.access.files);
    let file = files.first().filter(|file| file.requests * 2 > requests);
    let subject =
        Subject { file: file.map(|file| file.file.clone()), ..facts::subject_of(name, top) };
    let shifted = shifted(facts, name);
    let (who, fix) = match shifted {
        Some(upper) => (format!("{} ({upper})", words::who(&subject)), SHIFTED),
        None => (words::who(&subject), PARTS),
    };
    let sentence = format!(
        "{who} writes parts of pages on {name}: {} pages per second must be read before they are \
         changed",
        words::number(requests as f64 / facts.seconds()),
    );
    let flags = words::flags(&subject);
    Finding::of_device(facts, time_ns, whole, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown(
            "reads within write calls",
            requests as f64 / facts.seconds(),
            "1/s",
            format!("iowhy stacks{flags}"),
        )
        .also("their share of the device's time", time_ns as f64 / whole.max(1) as f64 * 100.0, "%")
        .fix(fix)
        .check("with whole, aligned pages the reads stop; if not, something else reads")
        .into()
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    /// Each page is read through a kernel function, and written 5 ms later.
    fn found(function: Option<&str>) -> Option<Confidence> {
        let mut script = Script::new(10);
        for index in 0..300_u64 {
            let at = (index * 30 * MS) as i64;
            let read = script.read("sda", 4096).by(7, "sqlite3").at(at).sector(index * 800);
            let read = read.direct(500, 500, 4 * MS);
            match function {
                Some(function) => read.stacks(&[function], &["main"], 1).add(),
                None => read.add(),
            };
            let at = at + 5_000_000;
            let write = script.write("sda", 4096).by(7, "sqlite3").at(at).sector(index * 800);
            write.direct(500, 500, 4 * MS).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings
            .into_iter()
            .find(|finding| finding.cause == "misaligned-rmw")
            .map(|finding| finding.confidence)
    }

    #[test]
    fn a_program_that_reads_what_it_changes_needs_no_whole_blocks() {
        assert_eq!(found(Some("vfs_read")), None);
        assert!(found(Some("ext4_da_write_begin")).is_some());
        assert_eq!(found(None), Some(Confidence::Possible));
    }
}
