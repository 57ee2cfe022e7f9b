//! Reading makes writes: times of access.

use super::*;
use crate::command::shell_word;
use crate::analysis::Direction;
use crate::analysis::summary::DeviceSummary;
use crate::model::Origin;

/// The share of the writes' time that is for the file system's own blocks and its journal, where
/// nobody writes data. Chosen.
const OWN: f64 = 0.9;
/// The share of the device's time that these writes take.
const SHARE: f64 = 0.1;
/// Reads for each file that is made, renamed or removed, below which those changes are the reason. Chosen.
const READS: u64 = 5;
const TOUCH: &[&str] = &["touch_atime", "atime_needs_update"];

rule!(
    "atime-updates",
    "times of access that are written",
    "With strictatime each read changes the file's inode, which must go through the journal and to its \
     place. A load that only reads then writes, one inode for each file. relatime, the default, writes \
     once a day, or once after each change of the file.",
    "Writes of data by the same programs.",
    needs: [Settings, Origins],
    symptoms: ["journal-commit"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let strict = |device: &DeviceSummary| {
        let keeps = |options: &str| {
            let mut words = options.split(',');
            !words.any(|word| matches!(word, "relatime" | "noatime" | "ro"))
        };
        facts.mounts(device).into_iter().find(|mount| keeps(&mount.options))
    };
    let fits = |device: &DeviceSummary| {
        let Writes { own_ns, data_ns, unknown_ns } = Writes::of(device);
        let (own, whole) = (own_ns as f64, facts::device_time_ns(device).max(1) as f64);
        let of_known = own >= OWN * (own_ns + data_ns) as f64;
        strict(device).is_some() && of_known && own_ns >= unknown_ns && own >= SHARE * whole
    };
    let Some(device) = facts.busiest(fits) else { return Ok(Verdict::Clear) };
    let time_ns = Writes::of(device).own_ns;
    let name = &device.device;
    // Who reads may do so from memory: the device does not see it.
    let activity = facts.summary().activity.as_ref();
    let total = activity.map(|it| it.total).unwrap_or_default();
    if activity.is_some() && total.reads < READS * (total.creates + total.unlinks + total.renames) {
        return Ok(Verdict::Clear);
    }
    let reader = activity.and_then(|it| it.rows.iter().max_by_key(|row| row.counts.reads));
    let mut subject = facts::subject_of(name, None);
    if let Some(row) = reader {
        subject.process = row.process.clone();
        subject.pid = Some(row.pid);
        subject.container = row.container.clone();
    }
    let reads = total.reads;
    // The writes themselves come from the journal's thread; who touches an inode waits for room in it.
    let touching = facts.waits_in(TOUCH).0 + facts.kernel_waits_in(TOUCH).0;
    let seen = touching > 0 || facts.path_share(TOUCH) > 0.0;
    let sentence = format!(
        "{name} is mounted with strictatime: reading files makes writes of inodes, {} of its time",
        words::percent(time_ns as f64 / facts::device_time_ns(device).max(1) as f64),
    );
    let point = strict(device).map_or("MOUNTPOINT", |mount| mount.path.as_str());
    Ok(Finding::of_device(facts, time_ns, facts::device_time_ns(device), sentence)
        .about(subject)
        .sure(if seen { Confidence::Certain } else { Confidence::Likely })
        .shown("writes of inodes and journal", time_ns as f64, "ns", format!("iowhy -d {name}"))
        .shown("reads of programs", reads as f64 / facts.seconds(), "1/s", "iowhy files")
        .fix(format!("relatime instead of strictatime in /etc/fstab (or noatime, where nobody asks for these times), and now `mount -o remount,nostrictatime,relatime {}`", shell_word(point)))
        .check("with noatime the writes end; if not, somebody changes files")
        .into())
}

/// The time of a device's writes, nanoseconds.
#[derive(Default)]
struct Writes {
    /// Of the file system's own blocks and its journal, with the flushes for them.
    own_ns: u64,
    data_ns: u64,
    /// Mostly queued before the watch: a commit takes long, and one of a few would decide.
    unknown_ns: u64,
}

impl Writes {
    fn of(device: &DeviceSummary) -> Writes {
        let mut sums = Writes::default();
        for row in &device.origins {
            let writes_ns = row.usage.directions[Direction::Write].time_ns;
            match row.subject.origin {
                Origin::Metadata | Origin::Journal | Origin::Flush => {
                    sums.own_ns += writes_ns + row.usage.directions[Direction::Flush].time_ns;
                }
                Origin::Unknown => sums.unknown_ns += writes_ns,
                _ => sums.data_ns += writes_ns,
            }
        }
        sums
    }
}
