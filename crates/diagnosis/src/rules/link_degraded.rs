//! The link to a drive is slower than both of its ends could be, and the load fills it.

use super::*;

/// The share of a link's rate from which the link may be the limit: protocols take 10 to 20 % of
/// it. Chosen.
const FULL: f64 = 0.7;
/// Up to this rate of a lane a tenth is for two bits of eight (8b/10b), transfers per second.
const EIGHT_OF_TEN: f64 = 5e9;

rule!(
    "link-degraded",
    "slow link to the drive",
    "A drive's link is set up at the highest speed and width at which it works. After errors, with \
     a bad contact, a worn cable or in the wrong slot it comes up slower: PCIe with fewer lanes or \
     a lower generation, SATA at 1.5 or 3.0 Gbps. Small requests are as fast as before, and large \
     ones wait for the link.",
    "The load moves far less than the link can carry: then the link is slow, but not the limit. A \
     slot that has only these lanes cannot be faster.",
    place: Fault,
    least: LeastData::EVENT,
    bound: ["the time at the device", "how fast it would be on its full link is not in the data"],
);

/// A link below its best.
struct SlowLink {
    said: String,
    /// Bytes per second that it carries at most.
    rate: f64,
    setting: &'static str,
}

fn judge(facts: &Facts<'_>) -> Judged {
    // A hypervisor invents the links of its devices.
    clear_if(facts.summary().environment.is_virtual != Some(false))?;
    let full = facts.devices().iter().filter_map(|device| {
        let link = pcie(facts, device).or_else(|| sata(device))?;
        let most = most_per_s(facts, device)?;
        (most >= FULL * link.rate).then_some((device, link, most))
    });
    let worst = full.max_by_key(|(device, ..)| facts::device_time_ns(device));
    Ok(worst.map_or(RuleVerdict::Clear, |(device, link, most)| {
        finding(facts, device, &link, most).into()
    }))
}

/// The most bytes per second that a device moved.
fn most_per_s(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let timeline = super::provider_cap::even_bins(&facts.patterns(&device.device)?.timeline);
    let rates = timeline.bins.iter().map(|bin| timeline.per_s(bin.bytes));
    rates.max_by(f64::total_cmp)
}

fn pcie(facts: &Facts<'_>, device: &DeviceSummary) -> Option<SlowLink> {
    let text = |name: &str| facts.setting(device, name);
    let (speed, most) =
        (text("device/device/current_link_speed")?, text("device/device/max_link_speed")?);
    let (width, widest) = (
        facts.number(device, "device/device/current_link_width")?,
        facts.number(device, "device/device/max_link_width")?,
    );
    let (transfers, most_transfers) = (first_number(speed)? * 1e9, first_number(most)? * 1e9);
    let is_slow = transfers < most_transfers || width < widest;
    (is_slow && width >= 1.0).then(|| SlowLink {
        said: format!("PCIe {speed} x{width} instead of {most} x{widest}"),
        rate: bytes_per_s(transfers) * width,
        setting: "current_link_width",
    })
}

fn sata(device: &DeviceSummary) -> Option<SlowLink> {
    let link = device.health_end.as_ref().or(device.health_start.as_ref())?.sata_link.as_ref()?;
    let (speed, most) = (first_number(&link.speed)?, first_number(&link.most)?);
    (speed < most && speed > 0.0).then(|| SlowLink {
        said: format!("SATA {} instead of {}", link.speed, link.most),
        rate: speed * 1e9 * 0.8 / 8.0,
        setting: "sata_spd",
    })
}

/// Returns the bytes per second of a lane: 8b/10b up to the second generation, 128b/130b behind it.
fn bytes_per_s(transfers: f64) -> f64 {
    let coded = if transfers <= EIGHT_OF_TEN { 0.8 } else { 128.0 / 130.0 };
    transfers * coded / 8.0
}

/// The number in front of `8.0 GT/s PCIe`.
fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|it: &f64| it.is_finite())
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, link: &SlowLink, most: f64) -> Finding {
    let name = &device.device;
    let at_device = facts::stage_sum(device, Interval::D2c);
    let whole = facts::device_time_ns(device).max(at_device);
    let sentence = format!(
        "{name} moves {} per second, and its link carries at most {}: {}",
        words::bytes(most),
        words::bytes(link.rate),
        link.said,
    );
    let logged = health::messages(device, &["link"]).len();
    let setting = link.setting;
    Finding::of_device(facts, at_device, whole, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(if logged > 0 { Confidence::Certain } else { Confidence::Likely })
        .upper_bound()
        .shown("highest rate", most, "bytes/s", format!("iowhy stat -d {name} 1"))
        .shown("what the link carries", link.rate, "bytes/s", format!("iowhy -d {name}"))
        .fix(
            "seat the drive again, or change cable, slot or backplane; check that the slot has as \
             many lanes of that generation (manual of the mainboard; settings of the firmware)",
        )
        .check(format!(
            "`find -L /sys/block/{name}/device/ -maxdepth 3 -name '{setting}'` and read it under \
             load: the highest value means that the link was only saving power"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::Script;

    /// A drive on a link of that width, which reads so many MiB per second.
    fn found(width: &str, mib: u64, is_virtual: bool) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.is_virtual = Some(is_virtual);
        let settings = [
            ("current_link_speed", "8.0 GT/s PCIe"),
            ("max_link_speed", "8.0 GT/s PCIe"),
            ("current_link_width", width),
            ("max_link_width", "4"),
        ];
        let settings =
            settings.map(|(name, value)| (format!("device/device/{name}"), value.into()));
        script.environment.devices.push(Device {
            name: "nvme0n1".to_owned(),
            major: 8,
            transport: Some("pcie".to_owned()),
            settings_start: settings.into(),
            ..Device::default()
        });
        for index in 0..mib * 10 {
            let read = script.read("nvme0n1", 1 << 20).by(7, "dd");
            let read = read.at((index * 1_000_000_000 / mib) as i64).sector(index * 2048);
            read.direct(0, 0, 8_000_000).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "link-degraded")
    }

    #[test]
    fn a_full_link_with_fewer_lanes_is_said() {
        let it = found("1", 900, false).unwrap();
        let said = "nvme0n1 moves 900 MiB per second, and its link carries at most 939 MiB: PCIe \
                    8.0 GT/s PCIe x1 instead of 8.0 GT/s PCIe x4";
        assert_eq!(it.sentence, said);
        assert_eq!(it.confidence, Confidence::Likely);
    }

    #[test]
    fn a_link_that_is_not_full_or_not_slow_is_no_limit() {
        assert_eq!(found("1", 500, false), None);
        assert_eq!(found("4", 900, false), None);
        assert_eq!(found("1", 900, true), None, "invented by a hypervisor");
    }
}
