//! A volume whose blocks are slow only when they are read for the first time.

use super::*;
use facts::shape;
use facts::thresholds::FLAT;
use iowhy_analysis::summary::patterns::{DevicePatterns, Touch};

/// The least factor by which first reads are slower than repeated reads, or than writes. Chosen: a
/// cache in front of a disk makes that much difference; an object store more.
const SLOWER: f64 = 4.0;
/// The least mean time of first reads: AWS describes blocks that are fetched from S3 as
/// "single-digit to hundreds of milliseconds".
const SLOW_NS: f64 = 2_000_000.0;
/// The least number of reads of each kind, and of writes. Chosen.
const LEAST: u64 = 30;
/// Models of volumes that are restored from a snapshot in the background.
const LAZY: &[&str] = &["Amazon Elastic Block Store"];

rule!(
    "first-touch",
    "first reads of a lazily loaded volume",
    "A volume created from a snapshot (EBS, many others), a qcow2 image with a backing file or a \
     cold cache tier initially holds its data on slower storage. The first read of a block fetches \
     it from there and takes milliseconds to hundreds of milliseconds; every later read, and every \
     write, is fast. It looks like a slow disk after a restore or a start, and goes away as blocks \
     are read.",
    "Reads are as slow the second time, or the rate is flat at a limit.",
    place: Program,
    needs: [Settings],
    least: LeastData::for_requests(LEAST),
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let lazy = |device: &&DeviceSummary| {
        let patterns = facts.patterns(&device.device);
        is_remote(facts, device)
            && patterns
                .is_some_and(|patterns| is_slow_at_first(&patterns.touch) && !is_flat(patterns))
    };
    let device = facts.devices().iter().find(lazy).ok_or(Clear)?;
    let patterns = facts.patterns(&device.device).ok_or(Clear)?;
    let touch = &patterns.touch;
    let (first, again, write) = touch.means();
    let read_again = touch.again_reads >= LEAST;
    let known = if read_again { again } else { write };
    let extra_ns = ((first - known).max(0.0) * touch.first_reads as f64) as u64;
    let name = &device.device;
    let than = if read_again { "blocks accessed before" } else { "writes" };
    let sentence = format!(
        "first reads of blocks of {name} take {}, {than} {}: the volume fetches blocks when they \
         are first read",
        words::time(first),
        words::time(known),
    );
    let model = device.model.as_deref().unwrap_or_default();
    let is_lazy = LAZY.iter().any(|it| model.contains(it));
    let waited = facts.waits(|it| it.device.as_deref() == Some(name));
    let reads = facts::stage_sum(device, iowhy_analysis::summary::Interval::Q2c);
    let finding = match waited.time_ns {
        0 => Finding::of_device(facts, extra_ns, reads, sentence),
        time => Finding::of_blocked(facts, extra_ns.min(time), sentence),
    };
    // Any cache behind the device makes second reads faster, too.
    let sure = if is_lazy && read_again { Confidence::Likely } else { Confidence::Possible };
    Ok(finding
        .upper_bound()
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(sure)
        .shown("mean latency of first reads", first, "ns", format!("iowhy stages -d {name}"))
        .also(format!("mean latency for {than}"), known, "ns")
        .shown("first reads", touch.first_reads as f64, "requests", format!("iowhy -d {name}"))
        .fix(format!(
            "read the volume once before it is needed (`dd if=/dev/{name} of=/dev/null bs=1M`, \
             several parts at once; it only reads), or order an initialized one: EBS fast snapshot \
             restore or a volume initialization rate; images: copy them instead of using a backing \
             file"
        ))
        .check(
            "read the same part of a file twice with O_DIRECT (`dd iflag=direct`): if the second \
             time is as slow, blocks are not fetched lazily; was the volume created from a \
             snapshot, or is there a cache behind it?",
        )
        .into())
}

/// Whether the device's data can be remote: it is not known to be a local drive.
fn is_remote(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let is_own = facts.is_own_drive(device) || device.backing_file.is_some();
    let is_known = device.transport.is_some() || device.model.is_some();
    let rotates = facts.rotates(device);
    !is_own && is_known && (!rotates || is_virtual(facts))
}

fn is_virtual(facts: &Facts<'_>) -> bool {
    facts.summary().environment.is_virtual == Some(true)
}

fn is_slow_at_first(touch: &Touch) -> bool {
    let (first, again, write) = touch.means();
    let against = |mean: f64, count: u64| count >= LEAST && first >= SLOWER * mean;
    let is_against = match touch.again_reads >= LEAST {
        true => against(again, touch.again_reads),
        false => against(write, touch.writes),
    };
    touch.first_reads >= LEAST && first >= SLOW_NS && is_against
}

/// Whether a limit holds the rate.
fn is_flat(patterns: &DevicePatterns) -> bool {
    let timeline = patterns.timeline.coarser(5);
    let rates: Vec<f64> = timeline.bins.iter().map(|bin| timeline.per_s(bin.requests)).collect();
    rates.len() >= 4 && shape::variation(&rates) <= FLAT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    struct TouchLoad {
        model: &'static str,
        first_ns: u64,
        again: bool,
        write_ns: u64,
    }

    fn found(load: &TouchLoad) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.is_virtual = Some(true);
        script.environment.devices.push(Device {
            name: "nvme1n1".to_owned(),
            model: Some(load.model.to_owned()),
            transport: Some("pcie".to_owned()),
            settings_start: [("queue/rotational".to_owned(), "0".to_owned())].into(),
            ..Device::default()
        });
        for index in 0..200_u64 {
            let at = (index * index * 9_900 * MS / 40_000) as i64;
            let sector = index * 79_104;
            let read = |script: &mut Script, ns: u64, later: u64| {
                let read = script.read("nvme1n1", 16_384).at(at + later as i64).sector(sector);
                read.by(7, "mysqld").direct(0, 0, ns).add();
            };
            read(&mut script, load.first_ns, 0);
            if load.again {
                read(&mut script, MS / 2, load.first_ns);
            }
            if load.write_ns > 0 {
                let write = script.write("nvme1n1", 16_384).at(at).sector((1 << 30) + sector);
                write.by(7, "mysqld").direct(0, 0, load.write_ns).add();
            }
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "first-touch")
    }

    const EBS: TouchLoad = TouchLoad {
        model: "Amazon Elastic Block Store",
        first_ns: 25 * MS,
        again: true,
        write_ns: MS,
    };

    #[test]
    fn a_restored_volume_is_slow_once() {
        let likely = found(&EBS).unwrap();
        assert_eq!(likely.confidence, Confidence::Likely);
        assert!(likely.impact_at_most && likely.sentence.contains("nvme1n1"), "{likely:?}");
        // Without second reads only writes can be compared, and another model may have a cache.
        let once = found(&TouchLoad { again: false, ..EBS }).unwrap();
        assert_eq!(once.confidence, Confidence::Possible);
        let other = found(&TouchLoad { model: "QEMU NVMe Ctrl", ..EBS }).unwrap();
        assert_eq!(other.confidence, Confidence::Possible);
    }

    #[test]
    fn limits_of_slowness() {
        assert!(found(&TouchLoad { first_ns: 2 * MS, ..EBS }).is_some());
        assert_eq!(found(&TouchLoad { first_ns: 2 * MS - 1, ..EBS }), None);
    }

    #[test]
    fn a_disk_that_is_slow_each_time_fetches_nothing() {
        let mut touch = Touch { first_reads: 100, first_ns: 100 * 9 * MS, ..Touch::default() };
        (touch.again_reads, touch.again_ns) = (100, 100 * 8 * MS);
        assert!(!is_slow_at_first(&touch));
        touch.again_ns = 100 * 2 * MS;
        assert!(is_slow_at_first(&touch));
        (touch.again_reads, touch.writes, touch.write_ns) = (LEAST - 1, 100, 100 * 8 * MS);
        assert!(!is_slow_at_first(&touch), "writes are as slow");
    }
}
