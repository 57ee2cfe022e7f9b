//! Pairs of devices that are compared with each other.

use super::{ComparedTimes, DevicePair, DiffSide, SideName};
use iowhy_analysis::summary::{DeviceSummary, Summary};

/// Maximum number of pairs; those with the most time.
const MOST: usize = 8;

/// A selected device that its watch does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to compare {device}: {} has no request of it", .which.word())]
pub struct UnknownDevice {
    /// The side that lacks it.
    pub which: SideName,
    /// The selected device.
    pub device: String,
    /// The devices that exist.
    pub known: Vec<String>,
}

/// The devices with requests.
fn seen(summary: &Summary) -> impl Iterator<Item = &DeviceSummary> {
    let count = |device: &DeviceSummary| -> u64 {
        device
            .directions
            .0
            .iter()
            .map(|direction| direction.requests + direction.open_requests)
            .sum()
    };
    summary.devices.iter().filter(move |device| !device.is_kernel_counted && count(device) > 0)
}

pub(super) fn pairs<'a>(
    sides: &[DiffSide<'a>; 2],
    mapped: &[(String, String)],
) -> Result<Vec<DevicePair<'a>>, UnknownDevice> {
    let [a, b] = [sides[0].summary, sides[1].summary];
    if !mapped.is_empty() {
        let pair = |(of_a, of_b): &(String, String)| {
            Ok(DevicePair { devices: [find(a, of_a, SideName::A)?, find(b, of_b, SideName::B)?] })
        };
        return mapped.iter().map(pair).collect();
    }
    let named = |device: &'a DeviceSummary| {
        let other = seen(b).find(|other| other.device == device.device)?;
        Some(DevicePair { devices: [device, other] })
    };
    let same: Vec<DevicePair<'a>> = seen(a).filter_map(named).take(MOST).collect();
    if !same.is_empty() {
        return Ok(same);
    }
    // The summary has the device with the most time first.
    let busiest = seen(a).next().zip(seen(b).next());
    Ok(busiest.map(|(a, b)| DevicePair { devices: [a, b] }).into_iter().collect())
}

fn find<'a>(
    summary: &'a Summary,
    device: &str,
    which: SideName,
) -> Result<&'a DeviceSummary, UnknownDevice> {
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    seen(summary).find(|known| known.device == device).ok_or_else(|| UnknownDevice {
        which,
        device: device.to_owned(),
        known: seen(summary).map(|device| device.device.clone()).collect(),
    })
}

/// The devices of one side that are not compared; empty if the user selected the devices.
pub(super) fn unpaired(compared: &ComparedTimes<'_>, at: usize) -> Vec<String> {
    if compared.chosen {
        return Vec::new();
    }
    let paired = |name: &str| compared.pairs.iter().any(|pair| pair.devices[at].device == name);
    let all = seen(compared.sides[at].summary).map(|device| device.device.clone());
    all.filter(|name| !paired(name)).collect()
}
