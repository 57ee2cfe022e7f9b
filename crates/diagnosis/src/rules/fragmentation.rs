//! Files are fragmented across the device.

use super::*;
use iowhy_analysis::summary::patterns::FilePattern;
use iowhy_model::command::shell_word;

/// The least share of a file's sequential requests that are not contiguous on the device. Large
/// files of a healthy file system have extents of up to 128 MiB, for hundreds of requests each.
/// Chosen.
const SCATTERED: f64 = 0.3;
/// The largest mean request of a file whose pieces cost a request each, bytes. Chosen: a file in
/// few extents is read in requests of 128 KiB and more.
const SMALL: f64 = 32_768.0;
/// The least mean time of such a request, nanoseconds: below it a device takes thousands per
/// second.
const SLOW_NS: f64 = 300_000.0;
/// The least number of sequential requests to judge.
const REQUESTS: u64 = 30;

rule!(
    "fragmentation",
    "fragmented files",
    "A file that grew a little at a time, or on a nearly full file system, has many small extents. \
     A sequential read of it then seeks across the device, requests stay small, and finding free \
     space for the next extent takes time before the first request is queued.",
    "The file is read at random: its requests seek however it is laid out.",
    place: Setting,
    needs: [Files],
    least: LeastData::for_requests(REQUESTS),
);

const DEFRAGMENT: &str = "keep 10 % of the file system free; allocate files at once (fallocate); \
                          defragment existing files off-peak: e4defrag, xfs_fsr, or `btrfs \
                          filesystem defragment`, which duplicates extents shared with snapshots";
/// A file of btrfs that is changed in place: defragmented, it becomes as it was.
const COPY_ON_WRITE: &str = "btrfs writes each change elsewhere: for files that are changed in \
                             place (databases, disk images, journals) set `chattr +C` on their \
                             directory and copy them there anew, which ends their checksums and \
                             compression; else `btrfs filesystem defragment`, which duplicates \
                             extents shared with snapshots, again and again";
const ON_FLASH: &str = "nothing for the device, which does not seek; many extents cost the file \
                        system CPU time: allocate files at once (fallocate)";

/// Returns the device whose fragmented files take most time, and these files.
fn worst<'a>(facts: &Facts<'a>) -> Option<(&'a str, Vec<&'a FilePattern>)> {
    let scattered = |file: &&FilePattern| {
        file.sequential >= REQUESTS && file.scattered as f64 >= SCATTERED * file.sequential as f64
    };
    let devices = facts.summary().patterns.devices.iter().map(|patterns| {
        let files: Vec<&FilePattern> = patterns.access.files.iter().filter(scattered).collect();
        (patterns.device.as_str(), files)
    });
    let time = |files: &[&FilePattern]| {
        files.iter().map(|file| file.time_ns).fold(0_u64, u64::saturating_add)
    };
    let found = devices.filter(|(_, files)| !files.is_empty());
    found.max_by_key(|(_, files)| time(files))
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_files()?;
    let Some((name, files)) = worst(facts) else { return Ok(RuleVerdict::Clear) };
    let device = facts.devices().iter().find(|device| device.device == name).ok_or(Clear)?;
    let sum = |of: fn(&FilePattern) -> u64| {
        files.iter().map(|file| of(file)).fold(0_u64, u64::saturating_add)
    };
    let share = sum(|file| file.scattered) as f64 / sum(|file| file.sequential).max(1) as f64;
    let names: Vec<&str> = files.iter().map(|file| file.file.as_str()).collect();
    let pattern = words::pattern(&names);
    let rotates = facts.setting(device, "queue/rotational") != Some("0");
    let each = sum(|file| file.bytes) as f64 / sum(|file| file.requests).max(1) as f64;
    let each_ns = sum(|file| file.time_ns) as f64 / sum(|file| file.requests).max(1) as f64;
    let is_small = each <= SMALL && each_ns >= SLOW_NS;
    let example = names.first().copied().unwrap_or("FILE");
    let sentence = format!(
        "{} is fragmented on {name}: {} of its sequential requests are not contiguous on the \
         device, {} each",
        pattern.clone().unwrap_or_else(|| "a file".to_owned()),
        words::percent(share),
        words::bytes(each),
    );
    let time = (sum(|file| file.time_ns) as f64 * share) as u64;
    Ok(Finding::of_device(facts, time, facts::device_time_ns(device), sentence)
        .about(Subject {
            file: pattern.clone(),
            ..facts::subject_of(name, facts.top_process(device, |_| true))
        })
        .shown(
            "sequential requests that are not contiguous",
            share * 100.0,
            "%",
            format!("iowhy snoop -d {name}"),
        )
        .shown(
            "requests for these files",
            sum(|file| file.requests) as f64,
            "requests",
            "iowhy files",
        )
        .upper_bound()
        .sure(Confidence::Certain)
        // A disk that seeks pays for each discontinuity; any other one for each small request.
        .at_most(if rotates || is_small { Severity::Critical } else { Severity::Info })
        .fix(match facts.file_system(name) {
            Some("btrfs") if rotates || is_small => COPY_ON_WRITE,
            _ if rotates || is_small => DEFRAGMENT,
            _ => ON_FLASH,
        })
        .check(format!(
            "`filefrag -v {}`: many extents below a megabyte confirm it; few large ones refute it",
            shell_word(example)
        ))
        .into())
}
