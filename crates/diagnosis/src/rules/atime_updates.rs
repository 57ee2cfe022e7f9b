//! Reads that cause writes: access times.

use super::*;
use facts::thresholds::DEVICE_SHARE;
use iowhy_model::command::shell_word;

/// The share of the writes' time that goes to the file system's metadata and journal, if no process
/// writes data. Chosen.
const OWN: f64 = 0.9;
/// Reads per file created, renamed or removed, below which those changes cause the writes. Chosen.
const READS: u64 = 5;
const TOUCH: &[&str] = &["touch_atime", "atime_needs_update"];

rule!(
    "atime-updates",
    "access time updates",
    "With strictatime each read of a file dirties its inode, which is then written to the journal \
     and to the inode table. A read-only load writes one inode per file. relatime, the default, \
     updates the access time at most once a day, or once after each change of the file.",
    "The same programs write data.",
    place: Calls,
    needs: [Settings, Origins],
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
        let Writes { own_ns, data_ns, unknown_ns } = Writes::from_device(device);
        let (own, whole) = (own_ns as f64, facts::device_time_ns(device).max(1) as f64);
        let of_known = own >= OWN * (own_ns + data_ns) as f64;
        strict(device).is_some() && of_known && own_ns >= unknown_ns && own >= DEVICE_SHARE * whole
    };
    let device = facts.busiest(fits).ok_or(Clear)?;
    let time_ns = Writes::from_device(device).own_ns;
    let name = &device.device;
    // Reads may be served from the page cache, and then never reach the device.
    let activity = facts.summary().activity.as_ref();
    let total = activity.map(|activity| activity.total).unwrap_or_default();
    clear_if(
        activity.is_some() && total.reads < READS * (total.creates + total.unlinks + total.renames),
    )?;
    let reader =
        activity.and_then(|activity| activity.rows.iter().max_by_key(|row| row.counts.reads));
    let mut subject = facts::subject_of(name, None);
    if let Some(row) = reader {
        subject.process = row.process.clone();
        subject.pid = Some(row.pid);
        subject.container = row.container.clone();
    }
    let reads = total.reads;
    // The writes come from the journal's thread; a process that touches an inode waits for space in
    // it.
    let touching = facts.waits_in(TOUCH).0 + facts.kernel_waits_in(TOUCH).0;
    let seen = touching > 0 || facts.path_share(TOUCH) > 0.0;
    let sentence = format!(
        "{name} is mounted with strictatime: reads cause inode writes, which take {} of its time",
        words::percent(time_ns as f64 / facts::device_time_ns(device).max(1) as f64),
    );
    let point = strict(device).map_or("MOUNTPOINT", |mount| mount.path.as_str());
    Ok(Finding::of_device(facts, time_ns, facts::device_time_ns(device), sentence)
        .about(subject)
        .sure(if seen { Confidence::Certain } else { Confidence::Likely })
        .shown("time of inode and journal writes", time_ns as f64, "ns", format!("iowhy -d {name}"))
        .shown("reads by programs", reads as f64 / facts.seconds(), "1/s", "iowhy files")
        .fix(format!(
            "set relatime instead of strictatime in /etc/fstab (or noatime, if nothing uses access \
             times), and apply it now: `mount -o remount,nostrictatime,relatime {}`",
            shell_word(point)
        ))
        .check("with noatime the writes stop; if they do not, something changes files")
        .into())
}

/// The time of a device's writes, nanoseconds.
#[derive(Default)]
struct Writes {
    /// Of metadata and the journal, with their flushes.
    own_ns: u64,
    data_ns: u64,
    /// Of unknown origin, mostly queued before the watch: a commit takes long, and with few commits
    /// one of them would decide.
    unknown_ns: u64,
}

impl Writes {
    fn from_device(device: &DeviceSummary) -> Writes {
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
