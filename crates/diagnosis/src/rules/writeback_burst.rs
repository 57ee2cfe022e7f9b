//! Dirty pages accumulate and are written in bursts, and readers wait behind them.

use super::*;
use facts::thresholds::{BINS_OF_BURSTS, BYTES_OF_BURSTS, SLOWER_IN_BURSTS};
use iowhy_analysis::summary::patterns::{Bin, Timeline};

/// The least number of reads in each kind of bin.
const READS: u64 = 20;

rule!(
    "writeback-burst",
    "writeback bursts",
    "Buffered writes change only memory. The kernel writes dirty pages every few seconds, or when \
     there are enough, as fast as the device takes them. During a burst its queue is full of \
     writes, and every read waits behind them. Between bursts reads are fast, so averages look \
     harmless.",
    "Reads are as slow without the writes.",
    place: Program,
    needs: [Origins, FineTime],
    trial: "vm.dirty_background_ratio=2",
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let mut found = facts
        .devices()
        .iter()
        .filter_map(|device| bursts(facts, device).map(|burst| (device, burst)));
    let Some((device, burst)) = found.next() else { return Ok(RuleVerdict::Clear) };
    let name = &device.device;
    let writer = facts.top_process(device, |row| {
        row.usage.directions[iowhy_analysis::summary::Direction::Write].bytes > 0
            && !row.subject.process.starts_with("jbd2")
    });
    let subject = facts::subject_of(name, writer);
    let reads = iowhy_analysis::summary::Direction::Read;
    let all_reads = facts::stage(device, reads, iowhy_analysis::summary::Interval::Q2c)
        .map_or(0, |it| it.sum_ns);
    let waiting = facts.waits(|group| group.device.as_deref() == Some(name));
    let sentence = format!(
        "writes reach {name} in bursts: reads take {} while data of {} is written back, {} \
         otherwise",
        words::time(burst.during_ns),
        words::who(&subject),
        words::time(burst.calm_ns),
    );
    let finding = if waiting.time_ns > 0 {
        Finding::of_blocked(facts, burst.extra_ns.min(waiting.time_ns), sentence)
    } else {
        Finding::of_device(facts, burst.extra_ns, all_reads, sentence)
    };
    Ok(finding
        .about(subject)
        .shown(
            "mean read latency during writeback",
            burst.during_ns,
            "ns",
            format!("iowhy stat -d {name} 1"),
        )
        .also("mean read latency otherwise", burst.calm_ns, "ns")
        .shown(
            "share of bytes written in bursts",
            burst.share * 100.0,
            "%",
            format!("iowhy stat -d {name}"),
        )
        .fix(
            "start writeback earlier (`sysctl vm.dirty_background_bytes=67108864`, which affects \
             the entire machine), let the writer write out as it goes (sync_file_range, O_DIRECT), \
             or let the kernel throttle it (queue/wbt_lat_usec; io.max of its cgroup, version 2 \
             only)",
        )
        .check("pause the writer: if reads stay as slow, they have another cause")
        .into())
}

struct WriteBurst {
    during_ns: f64,
    calm_ns: f64,
    share: f64,
    extra_ns: u64,
}

fn bursts(facts: &Facts<'_>, device: &DeviceSummary) -> Option<WriteBurst> {
    let timeline: &Timeline = &facts.patterns(&device.device)?.timeline;
    let written: u64 =
        timeline.bins.iter().map(|bin| bin.writeback_bytes).fold(0, u64::saturating_add);
    if written == 0 {
        return None;
    }
    let mean = written / timeline.bins.len().max(1) as u64;
    let (during, calm): (Vec<&Bin>, Vec<&Bin>) =
        timeline.bins.iter().partition(|bin| bin.writeback_bytes > mean);
    let reads = |bins: &[&Bin]| bins.iter().map(|bin| bin.reads).fold(0_u64, u64::saturating_add);
    let time =
        |bins: &[&Bin]| bins.iter().map(|bin| bin.read_d2c_ns).fold(0_u64, u64::saturating_add);
    let share = during.iter().map(|bin| bin.writeback_bytes).fold(0_u64, u64::saturating_add)
        as f64
        / written as f64;
    if reads(&during) < READS || reads(&calm) < READS || share < BYTES_OF_BURSTS {
        return None;
    }
    let during_ns = time(&during) as f64 / reads(&during) as f64;
    let calm_ns = time(&calm) as f64 / reads(&calm) as f64;
    let extra_ns = ((during_ns - calm_ns).max(0.0) * reads(&during) as f64) as u64;
    let rare = during.len() as f64 <= BINS_OF_BURSTS * timeline.bins.len() as f64;
    (rare && during_ns >= SLOWER_IN_BURSTS * calm_ns).then_some(WriteBurst {
        during_ns,
        calm_ns,
        share,
        extra_ns,
    })
}
