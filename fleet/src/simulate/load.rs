//! The load of a simulated host in ten minutes: its requests and their latencies, its waits, its
//! findings.
//!
//! What does not belong here: the host.

use super::host::{
    MODELS, SICK_HOST, SLOW_HOST, SimulatedDrive, SimulatedHost, noisy_rack, numbers,
};
use super::{FleetPlan, writing};
use crate::clock::{HOUR_S, WINDOW_S};
use crate::histogram::{LatencyBin, bin_end, bin_of, time_ns};
use crate::upload::{UPLOAD_VERSION, Upload, UploadFinding, UploadFlow, UploadIncident, UploadUse};
use rand::Rng;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;
use statrs::distribution::{ContinuousCDF, Normal as NormalCurve};

/// The deviation of the logarithm of a latency within ten minutes.
const SIGMA: f64 = 0.55;
/// The deviation of the logarithm of a host's latency from hour to hour.
const HOUR_SIGMA: f64 = 0.05;
const OPERATIONS: [&str; 2] = ["read", "write"];
/// Bytes of a request.
const REQUEST_BYTES: [u64; 2] = [16 << 10, 24 << 10];

fn normal(numbers: &mut Pcg64Mcg, sigma: f64) -> f64 {
    Normal::new(0.0, sigma).map_or(0.0, |distribution| distribution.sample(numbers))
}

/// The share of the day's load at a time: least at 4 o'clock, most at 16.
fn day_share(time_s: i64) -> f64 {
    let of_day = time_s.rem_euclid(24 * HOUR_S) as f64 / (24 * HOUR_S) as f64;
    0.65 - 0.35 * ((of_day - 1.0 / 6.0) * std::f64::consts::TAU).cos()
}

/// Makes the host's upload of the window that begins at `window_s`, seconds since 1970.
pub fn upload(plan: &FleetPlan, host: &SimulatedHost, window_s: i64) -> Upload {
    let mut numbers = numbers(plan, &[2, host.index as u64, window_s as u64]);
    let mut of_host = host.host.clone();
    host.kernel(plan, window_s).clone_into(&mut of_host.kernel);
    let busy = host.busy * day_share(window_s) * normal(&mut numbers, 0.15).exp();
    let mut upload = Upload {
        version: UPLOAD_VERSION,
        host: of_host,
        window_s,
        minutes: 10,
        sent_s: window_s + WINDOW_S + 150,
        watched_ns: WINDOW_S as u64 * 1_000_000_000,
        cost_ns: 4_000_000_000 + numbers.random_range(0..500_000_000),
        drives: host.upload_drives().into_iter().collect(),
        ..Upload::default()
    };
    let mut waited_ns = 0;
    for drive in &host.drives {
        let noise = normal(&mut numbers, 0.05).exp();
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            let latency_ns = latency_ns(plan, host, drive, window_s, at) * noise;
            // Busier drives answer later.
            let latency_ns = latency_ns * (1.0 + 0.15 * busy);
            let requests = drive.model.rate[at] * busy * WINDOW_S as f64;
            let flow = flow(&mut numbers, requests, latency_ns, REQUEST_BYTES[at]);
            waited_ns += time_ns(&flow.latency) / 3;
            upload.oldest_ns = upload.oldest_ns.max(flow.max_ns);
            upload
                .flows
                .entry(drive.device.clone())
                .or_default()
                .insert(operation.to_owned(), flow);
        }
    }
    add_waits(&mut upload, &mut numbers, waited_ns);
    add_findings(&mut upload, &mut numbers, plan, host);
    upload.writers = writing::rows(plan, host, &upload.flows);
    upload
}

/// Returns the median latency of an operation, ns: by nature, and by planted trouble.
fn latency_ns(
    plan: &FleetPlan,
    host: &SimulatedHost,
    drive: &SimulatedDrive,
    window_s: i64,
    operation: usize,
) -> f64 {
    let trouble = &plan.trouble;
    let mut latency_ns = drive.model.latency_ns[operation] * drive.factor * host.factor;
    latency_ns *= hour_factor(plan, host, window_s);
    if let Some(factor) = trouble.host.filter(|_| host.index == SLOW_HOST) {
        latency_ns *= factor;
    }
    let is_write = operation == 1;
    if let Some((factor, _)) = trouble.slow_drive.filter(|_| is_sick(plan, host, window_s)) {
        let is_first = host.drives.first().is_some_and(|first| first.device == drive.device);
        latency_ns *= if is_first { factor } else { 1.0 };
    }
    if let Some(factor) = trouble.firmware {
        let is_bad = drive.model.model == MODELS[0].model
            && drive.firmware == MODELS[0].firmware[1]
            && is_write;
        latency_ns *= if is_bad { factor } else { 1.0 };
    }
    if let Some(factor) = trouble.rack {
        latency_ns *= if host.host.rack == noisy_rack(plan.hosts) { factor } else { 1.0 };
    }
    if let Some((cost_ns, _)) = trouble.kernel.filter(|_| is_write) {
        let is_new = host.kernel(plan, window_s) != host.host.kernel;
        latency_ns += if is_new { cost_ns } else { 0.0 };
    }
    latency_ns
}

/// Returns the factor of an hour: other work of a host makes some of its hours slower, for all of
/// its drives.
fn hour_factor(plan: &FleetPlan, host: &SimulatedHost, window_s: i64) -> f64 {
    let hour = window_s.div_euclid(HOUR_S) as u64;
    normal(&mut numbers(plan, &[3, host.index as u64, hour]), HOUR_SIGMA).exp()
}

fn is_sick(plan: &FleetPlan, host: &SimulatedHost, time_s: i64) -> bool {
    let since_s = plan.trouble.slow_drive.map(|(_, hour)| plan.from_s + hour * HOUR_S);
    host.index == SICK_HOST && since_s.is_some_and(|since_s| time_s >= since_s)
}

/// Requests whose latencies are spread around a median, counted by bins.
fn flow(numbers: &mut Pcg64Mcg, requests: f64, median_ns: f64, bytes: u64) -> UploadFlow {
    let middle = median_ns.max(1000.0).ln();
    let mut latency: Vec<LatencyBin> = Vec::new();
    let (mut total, mut below) = (0, 0.0);
    let mut bin = bin_of((middle - 3.2 * SIGMA).exp() as u64);
    let last = (middle + 3.8 * SIGMA).exp();
    let curve = NormalCurve::standard();
    while (bin as f64) < last {
        let end = bin_end(bin);
        let share = curve.cdf(((end as f64).ln() - middle) / SIGMA);
        let expected = requests * (share - below);
        below = share;
        let count = (expected + normal(numbers, expected.max(0.0).sqrt())).round().max(0.0) as u64;
        if count > 0 {
            latency.push((bin, count));
            total += count;
        }
        bin = end;
    }
    let slowest = latency.last().map_or(0, |bin| bin_end(bin.0));
    UploadFlow { requests: total, bytes: total * bytes, max_ns: slowest, latency, time_ns: None }
}

fn add_waits(upload: &mut Upload, numbers: &mut Pcg64Mcg, waited_ns: u64) {
    let journal_ns = waited_ns / 10 + numbers.random_range(0..1_000_000_000);
    upload.blocked =
        [("device".to_owned(), waited_ns), ("journal_commit".to_owned(), journal_ns)].into();
    upload.pressure_some_ns = Some((waited_ns / 4).min(upload.watched_ns));
    upload.pressure_full_ns = Some((waited_ns / 9).min(upload.watched_ns));
    let (requests, time_ns) = (waited_ns / 300_000, waited_ns);
    let usage = UploadUse { requests, bytes: requests << 14, time_ns };
    let unit = upload.host.name.split('-').next().unwrap_or_default().to_owned();
    upload.containers = [(format!("{unit}.service"), usage)].into();
}

fn add_findings(
    upload: &mut Upload,
    numbers: &mut Pcg64Mcg,
    plan: &FleetPlan,
    host: &SimulatedHost,
) {
    let device = host.drives.first().map(|drive| drive.device.clone());
    let mut found = |cause: &str, severity: &str, minutes: u8| {
        upload.findings.push(UploadFinding {
            cause: cause.to_owned(),
            severity: severity.to_owned(),
            device: device.clone(),
            process: None,
            minutes,
        });
    };
    if is_sick(plan, host, upload.window_s) {
        found("device-slow-tail", "critical", 9);
    }
    let is_new = plan.trouble.kernel.is_some()
        && host.kernel(plan, upload.window_s) != host.host.kernel
        && host.host.name.starts_with("db");
    if is_new && numbers.random_bool(0.5) {
        found("flush-cost", "warning", 6);
    }
    // Every fleet has some.
    if numbers.random_bool(0.0005) {
        found("readahead-waste", "warning", 2);
    }
}

/// The incident that the slow drive's host has in its first slow hour.
pub fn incident(plan: &FleetPlan, host: &SimulatedHost, hour: i64) -> Option<Upload> {
    let since = plan.trouble.slow_drive.map(|(_, since)| since);
    if host.index != SICK_HOST || since != Some(hour) {
        return None;
    }
    let drive = host.drives.first()?;
    let window_s = plan.from_s + hour * HOUR_S;
    let begun_ns = (window_s + 95) * 1_000_000_000;
    let sentence = format!(
        "Requests of {} take several times as long at the device as its others did before.",
        drive.device
    );
    let incident = UploadIncident {
        number: 1,
        begun_ns,
        until_ns: begun_ns + 60_000_000_000,
        kind: "finding".to_owned(),
        reason: sentence.clone(),
        cause: "device-slow-tail".to_owned(),
        severity: "critical".to_owned(),
        confidence: "certain".to_owned(),
        sentence,
        device: Some(drive.device.clone()),
        fix: "Replace the drive.".to_owned(),
        ..UploadIncident::default()
    };
    Some(Upload {
        version: UPLOAD_VERSION,
        host: host.host.clone(),
        window_s,
        sent_s: window_s + WINDOW_S + 150,
        incident: Some(incident),
        ..Upload::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::PlantedTrouble;

    fn plan() -> FleetPlan {
        FleetPlan {
            hosts: 400,
            from_s: 1_763_942_400,
            hours: 24,
            seed: 7,
            trouble: PlantedTrouble::all(),
        }
    }

    #[test]
    fn one_seed_is_one_fleet() {
        let plan = plan();
        let host = &plan.fleet()[3];
        let first = upload(&plan, host, plan.from_s);
        assert_eq!(first, upload(&plan, &plan.fleet()[3], plan.from_s));
        let other = FleetPlan { seed: 8, ..plan.clone() };
        assert_ne!(first.flows, upload(&other, &other.fleet()[3], plan.from_s).flows);
    }

    #[test]
    fn an_upload_is_one_that_compaction_takes() {
        let plan = plan();
        for host in plan.fleet().iter().take(20) {
            for upload in plan.uploads(host, 9) {
                let name = upload.name();
                assert_eq!(Upload::decode(&name, &upload.encode().unwrap()), Ok(upload));
            }
        }
    }

    #[test]
    fn the_slow_drive_is_as_slow_as_planned() {
        let plan = plan();
        let fleet = plan.fleet();
        let host = fleet.iter().find(|host| host.index == SICK_HOST).unwrap();
        let device = &host.drives[0].device;
        let mean = |window_s: i64| {
            let flow = &upload(&plan, host, window_s).flows[device]["read"];
            time_ns(&flow.latency) as f64 / flow.requests as f64
        };
        let healthy = FleetPlan { trouble: PlantedTrouble::none(), ..plan.clone() };
        let window_s = plan.from_s + 9 * HOUR_S;
        let flow = &upload(&healthy, host, window_s).flows[device]["read"];
        let before = time_ns(&flow.latency) as f64 / flow.requests as f64;
        assert!((3.5..4.5).contains(&(mean(window_s) / before)));
        assert!(mean(window_s - WINDOW_S) < before * 1.5);
    }

    #[test]
    fn nights_are_quieter() {
        assert!(day_share(4 * HOUR_S) < 0.31 && day_share(16 * HOUR_S) > 0.99);
    }
}
