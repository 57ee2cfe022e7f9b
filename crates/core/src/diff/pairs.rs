//! Which device of the one watch is compared with which of the other.

use super::{Compared, Pair, Side, Which};
use crate::analysis::Summary;
use crate::analysis::summary::DeviceSummary;

/// Devices that are compared; those with the most time.
const MOST: usize = 8;

/// A device that the user named and that its watch does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to compare {device}: {} has no request of it", .which.word())]
pub struct UnknownDevice {
    /// Where it is missing.
    pub which: Which,
    /// What the user named.
    pub device: String,
    /// The devices that are there.
    pub known: Vec<String>,
}

/// The devices of which there are requests.
fn seen(summary: &Summary) -> impl Iterator<Item = &DeviceSummary> {
    let count = |device: &DeviceSummary| -> u64 {
        device.directions.0.iter().map(|it| it.requests + it.open_requests).sum()
    };
    summary.devices.iter().filter(move |it| !it.is_kernel_counted && count(it) > 0)
}

pub(super) fn pairs<'a>(
    sides: &[Side<'a>; 2],
    mapped: &[(String, String)],
) -> Result<Vec<Pair<'a>>, UnknownDevice> {
    let [a, b] = [sides[0].summary, sides[1].summary];
    if !mapped.is_empty() {
        let pair = |(of_a, of_b): &(String, String)| {
            Ok(Pair { devices: [find(a, of_a, Which::A)?, find(b, of_b, Which::B)?] })
        };
        return mapped.iter().map(pair).collect();
    }
    let named = |device: &'a DeviceSummary| {
        let other = seen(b).find(|it| it.device == device.device)?;
        Some(Pair { devices: [device, other] })
    };
    let same: Vec<Pair<'a>> = seen(a).filter_map(named).take(MOST).collect();
    if !same.is_empty() {
        return Ok(same);
    }
    // The summary has the device with the most time first.
    let busiest = seen(a).next().zip(seen(b).next());
    Ok(busiest.map(|(a, b)| Pair { devices: [a, b] }).into_iter().collect())
}

fn find<'a>(
    summary: &'a Summary,
    device: &str,
    which: Which,
) -> Result<&'a DeviceSummary, UnknownDevice> {
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    seen(summary).find(|it| it.device == device).ok_or_else(|| UnknownDevice {
        which,
        device: device.to_owned(),
        known: seen(summary).map(|it| it.device.clone()).collect(),
    })
}

/// The devices of one side that are compared with none; nothing where the user chose what to compare.
pub(super) fn unpaired(compared: &Compared<'_>, at: usize) -> Vec<String> {
    if compared.chosen {
        return Vec::new();
    }
    let paired = |name: &str| compared.pairs.iter().any(|it| it.devices[at].device == name);
    let all = seen(compared.sides[at].summary).map(|it| it.device.clone());
    all.filter(|name| !paired(name)).collect()
}
