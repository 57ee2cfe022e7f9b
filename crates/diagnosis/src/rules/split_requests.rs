//! Large requests are split into small ones.

use super::*;

/// The largest limit at which splitting costs more than it protects: the kernel's own default is
/// 1280 KiB and more.
const SMALL_KB: f64 = 128.0;
/// The least share of requests that continue a split one. Chosen.
const PIECES: f64 = 0.4;
/// The least share of requests of exactly the limit's size.
const FULL: f64 = 0.4;
/// The least share of full requests, and of bytes in order, that show a split without its pieces:
/// whole windows of read-ahead come in such requests. Chosen.
const NEARLY_ALL: f64 = 0.8;
/// The boundary that no request may cross, in sectors.
const CHUNK: &str = "queue/chunk_sectors";

rule!(
    "split-requests",
    "split requests",
    "A request may not be larger than queue/max_sectors_kb, and may not cross a stripe or chunk. \
     Larger I/O is split, and each piece is a request of its own that must complete before the I/O \
     does: more work for the kernel and the device, and the slowest piece decides.",
    "The hardware's own limit (max_hw_sectors_kb) causes the split. The gain depends on the \
     device: if each request costs the same, nearly all of the time after the first piece; if it \
     serves all pieces in parallel, or only bytes count, next to nothing.",
    place: Setting,
    needs: [Settings],
    trial: "max_sectors_kb=1280",
    bound: [
        "of the time from queueing to the last piece: what passes after the first piece has \
         completed",
        "one request of all bytes takes as long as the first piece, or as all; on a device that \
         works on all pieces at once the bound itself is near zero",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let limit = |device: &DeviceSummary| limit_of(facts, device);
    let shares = |device: &DeviceSummary| shares_of(facts, device);
    // Striping splits at each stripe on purpose, so that several disks serve one request.
    let is_striped = |device: &DeviceSummary| !device.below.is_empty();
    let fits = |device: &DeviceSummary| {
        let hardware = facts.number(device, "queue/max_hw_sectors_kb").unwrap_or(f64::MAX);
        limit(device).is_some_and(|(it, _)| it <= SMALL_KB && it < hardware)
            && !(is_striped(device) && limit(device).is_some_and(|(_, setting)| setting == CHUNK))
            && shares(device).is_some_and(|(pieces, full)| {
                pieces >= PIECES && full >= FULL
                    || full >= NEARLY_ALL && in_order(device) >= NEARLY_ALL
            })
    };
    let device = facts.busiest(fits).ok_or(Clear)?;
    let (pieces, full) = shares(device).unwrap_or((0.0, 0.0));
    let (limit, setting) = limit(device).unwrap_or_default();
    let name = &device.device;
    let subject = facts::subject_of(name, facts.top_process(device, |_| true));
    let sentence = format!(
        "requests of {} to {name} are split into pieces of {limit:.0} KiB ({}): {} of all \
         requests are of that size",
        words::who(&subject),
        setting.trim_start_matches("queue/"),
        words::percent(full),
    );
    let (pieces_ns, wholes_ns) = lost_of(facts, device, (pieces, full));
    let after = pieces_ns as f64 / wholes_ns.max(1) as f64;
    let snoop = || format!("iowhy snoop -d {name}");
    Ok(Finding::of_device(facts, pieces_ns, wholes_ns, sentence)
        .about(subject)
        .upper_bound()
        // A drive reports a boundary (NVMe's NOIOB) because crossing it costs the drive more.
        .at_most(if setting == CHUNK { Severity::Info } else { Severity::Critical })
        .sure(Confidence::Certain)
        .shown("share of requests that continue a split one", pieces * 100.0, "%", snoop())
        .also("share of requests as large as the limit", full * 100.0, "%")
        .also("share of the time after the first piece", after * 100.0, "%")
        .shown(
            "largest request size (max_sectors_kb, or the chunk)",
            limit,
            "KiB",
            match setting {
                CHUNK => format!("cat /sys/block/{name}/queue/chunk_sectors"),
                _ => format!("cat /sys/block/{name}/queue/max_sectors_kb"),
            },
        )
        .fix(fix(name, setting))
        .check(
            "with a higher limit requests get larger and fewer; if not, the program submits small \
             ones",
        )
        .into())
}

fn fix(name: &str, setting: &str) -> String {
    match setting {
        CHUNK => "nothing, as a rule: the drive prefers requests that do not cross this boundary"
            .to_owned(),
        _ => format!(
            "`cat /sys/block/{name}/queue/max_hw_sectors_kb > \
             /sys/block/{name}/queue/max_sectors_kb`"
        ),
    }
}

/// Returns the time after the first pieces, and that of the whole requests, nanoseconds: a single
/// request would not complete before the first piece does.
fn lost_of(facts: &Facts<'_>, device: &DeviceSummary, (pieces, full): (f64, f64)) -> (u64, u64) {
    if pieces >= PIECES {
        let access = facts.patterns(&device.device).map(|pattern| &pattern.access);
        return access.map_or((0, 0), |access| (access.pieces_ns, access.wholes_ns));
    }
    // Which pieces are of one whole is not known: at most all of their time.
    let all_ns = facts::device_time_ns(device);
    ((all_ns as f64 * full) as u64, all_ns)
}

/// The share of bytes in order, of reads or of writes, whichever are more.
fn in_order(device: &DeviceSummary) -> f64 {
    let most = device.directions.0.iter().max_by_key(|it| it.bytes);
    most.and_then(|it| it.sequential_share).unwrap_or(0.0)
}

/// The limit of a request's size in KiB, and the setting that holds it.
fn limit_of(facts: &Facts<'_>, device: &DeviceSummary) -> Option<(f64, &'static str)> {
    let of = |setting: &'static str, by: f64| {
        let set = facts.number(device, setting).filter(|it| *it > 0.0);
        set.map(|it| (it / by, setting))
    };
    let limits = [of(CHUNK, 2.0), of("queue/max_sectors_kb", 1.0)];
    limits.into_iter().flatten().min_by(|one, other| one.0.total_cmp(&other.0))
}

/// The shares of requests that continue a split one, and that are as large as the limit.
fn shares_of(facts: &Facts<'_>, device: &DeviceSummary) -> Option<(f64, f64)> {
    let access = &facts.patterns(&device.device)?.access;
    let limit = (limit_of(facts, device)?.0 * 1024.0) as u64;
    let all: u64 =
        access.sizes.iter().map(|(_, count)| count).copied().fold(0, u64::saturating_add);
    let full = access.sizes.iter().find(|(size, _)| *size == limit).map_or(0, |(_, count)| *count);
    let of = |count: u64| count as f64 / all.max(1) as f64;
    (all >= 50).then(|| (of(access.pieces), of(full)))
}

#[cfg(test)]
mod tests {
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::Script;

    /// Reads of 16 pieces of 16 KiB each, split by a setting; `below` lists the lower devices.
    fn severity(setting: &str, value: &str, below: &[&str]) -> Option<Severity> {
        let mut script = Script::new(10);
        let settings = [("queue/max_hw_sectors_kb", "1024"), (setting, value)];
        script.environment.devices.push(Device {
            name: "nvme0n1".to_owned(),
            below: below.iter().map(|it| (*it).to_owned()).collect(),
            settings_start: settings.map(|(name, value)| (name.into(), value.into())).into(),
            ..Device::default()
        });
        for index in 0..1600_u64 {
            let (whole, piece) = (index / 16, index % 16);
            let at = (whole * 90_000_000 + piece * 1000) as i64;
            let read = script.read("nvme0n1", 16_384).by(7, "dd").at(at).sector(index * 32);
            read.direct(0, 0, 1_000_000 * (1 + piece)).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings
            .into_iter()
            .find(|finding| finding.cause == "split-requests")
            .map(|finding| finding.severity)
    }

    #[test]
    fn a_drive_s_boundary_and_a_stripe_are_meant() {
        assert!(severity("queue/max_sectors_kb", "16", &[]) > Some(Severity::Info));
        assert_eq!(severity("queue/chunk_sectors", "32", &[]), Some(Severity::Info));
        assert_eq!(severity("queue/chunk_sectors", "32", &["sda", "sdb"]), None);
    }
}
