//! A simulated host: its name, rack, kernel and drives.
//!
//! What does not belong here: its load.

use super::FleetPlan;
use crate::clock::HOUR_S;
use crate::layout::HOST_ID_LENGTH;
use crate::upload::{UploadDrive, UploadHost};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal, Normal};
use rand_pcg::Pcg64Mcg;

/// Hosts of a rack.
const RACK_HOSTS: usize = 40;
/// The host with the slow drive.
pub const SICK_HOST: usize = 4;
/// The host that is slow as a whole: one with four drives.
pub const SLOW_HOST: usize = 5;
/// The deviation of the logarithm of the latency by nature: of hosts (their controllers, cables and
/// settings), of racks, and of drives.
const HOST_SIGMA: f64 = 0.08;
const RACK_SIGMA: f64 = 0.02;
const DRIVE_SIGMA: f64 = 0.04;
/// The kernel that hosts have at first.
pub const OLD_KERNEL: &str = "6.12.48";
/// The kernel that some have later.
pub const NEW_KERNEL: &str = "6.12.57";

/// A model of drives.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedModel {
    /// Its name.
    pub model: &'static str,
    /// Bytes.
    pub size_bytes: u64,
    /// Whether it rotates.
    pub rotational: bool,
    /// The usual firmware, and another one.
    pub firmware: [&'static str; 2],
    /// The median of reads and writes, ns.
    pub latency_ns: [f64; 2],
    /// Requests a second by day, reads and writes.
    pub rate: [f64; 2],
    /// The beginning of kernel names.
    pub device: &'static str,
}

/// The models of a fleet. Of the first one, the second firmware is the bad one.
pub const MODELS: [SimulatedModel; 3] = [
    SimulatedModel {
        model: "ACME NV4000",
        size_bytes: 3_840_755_982_336,
        rotational: false,
        firmware: ["2.1.4", "2.2.0"],
        latency_ns: [110e3, 45e3],
        rate: [400.0, 250.0],
        device: "nvme",
    },
    SimulatedModel {
        model: "NORTH SSD960",
        size_bytes: 960_197_124_096,
        rotational: false,
        firmware: ["A07", "A09"],
        latency_ns: [190e3, 120e3],
        rate: [150.0, 120.0],
        device: "sd",
    },
    SimulatedModel {
        model: "TIDE ST18000",
        size_bytes: 18_000_207_937_536,
        rotational: true,
        firmware: ["SN03", "SN04"],
        latency_ns: [9.5e6, 6.5e6],
        rate: [45.0, 30.0],
        device: "sd",
    },
];

/// The role of a host: its name, its models, and its share of the fleet.
const ROLES: [(&str, &[usize], usize); 3] =
    [("db", &[0, 0], 3), ("web", &[1], 5), ("store", &[1, 2, 2, 2], 2)];

/// A drive of a simulated host.
#[derive(Clone, Debug)]
pub struct SimulatedDrive {
    /// Its kernel name.
    pub device: String,
    /// Its model.
    pub model: &'static SimulatedModel,
    /// Its firmware.
    pub firmware: &'static str,
    /// Its serial number.
    pub serial: String,
    /// The factor by which it is slower than its model by nature.
    pub factor: f64,
}

/// A simulated host.
#[derive(Clone, Debug)]
pub struct SimulatedHost {
    /// Its number in the fleet.
    pub index: usize,
    /// The host as in its uploads, with the kernel of the beginning.
    pub host: UploadHost,
    /// Its drives.
    pub drives: Vec<SimulatedDrive>,
    /// The factor by which its drives are slower by its nature and that of its rack.
    pub factor: f64,
    /// The factor by which it is busier than others.
    pub busy: f64,
    /// Whether it gets the new kernel.
    pub is_upgraded: bool,
}

/// Returns the random numbers of one thing of a fleet: the same for one seed, independent of other
/// things.
pub fn numbers(plan: &FleetPlan, parts: &[u64]) -> Pcg64Mcg {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&plan.seed.to_le_bytes());
    for part in parts {
        hasher.update(&part.to_le_bytes());
    }
    let mut seed = [0; 16];
    seed.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Pcg64Mcg::from_seed(seed)
}

/// The rack that is noisy: one that neither the first hosts nor the last ones are in.
pub fn noisy_rack(hosts: usize) -> String {
    rack_name((hosts / RACK_HOSTS).saturating_sub(1) / 2)
}

fn rack_name(rack: usize) -> String {
    format!("r{rack:04}")
}

impl SimulatedHost {
    /// The host of this number.
    pub fn new(plan: &FleetPlan, index: usize) -> SimulatedHost {
        let mut numbers = numbers(plan, &[1, index as u64]);
        let (role, models) = role_of(index);
        let name = format!("{role}-{index:05}");
        let id = blake3::hash(format!("{} {name}", plan.seed).as_bytes()).to_hex();
        let host = UploadHost {
            id: id[..HOST_ID_LENGTH].to_owned(),
            rack: rack_name(index / RACK_HOSTS),
            kernel: OLD_KERNEL.to_owned(),
            iowhy: env!("CARGO_PKG_VERSION").to_owned(),
            name,
        };
        let drives = models
            .iter()
            .enumerate()
            .map(|(at, model)| SimulatedDrive::new(&mut numbers, index, at, &MODELS[*model]))
            .collect();
        let busy: f64 =
            LogNormal::new(0.0, 0.35).map_or(1.0, |distribution| distribution.sample(&mut numbers));
        let is_upgraded = numbers.random_bool(1.0 / 3.0) && index != SICK_HOST;
        let mut of_rack = self::numbers(plan, &[4, (index / RACK_HOSTS) as u64]);
        let factor = nature(&mut numbers, HOST_SIGMA) * nature(&mut of_rack, RACK_SIGMA);
        SimulatedHost { index, host, drives, factor, busy, is_upgraded }
    }

    /// Returns its kernel at a time, seconds since 1970.
    pub fn kernel(&self, plan: &FleetPlan, time_s: i64) -> &'static str {
        let changes_s = plan.trouble.kernel.map(|(_, hour)| plan.from_s + hour * HOUR_S);
        match changes_s {
            Some(changes_s) if self.is_upgraded && time_s >= changes_s => NEW_KERNEL,
            _ => OLD_KERNEL,
        }
    }

    /// Returns its drives as in its uploads.
    pub fn upload_drives(&self) -> Vec<(String, UploadDrive)> {
        let drive = |drive: &SimulatedDrive| {
            let upload = UploadDrive {
                model: drive.model.model.to_owned(),
                firmware: drive.firmware.to_owned(),
                serial: drive.serial.clone(),
                size_bytes: drive.model.size_bytes,
                rotational: Some(drive.model.rotational),
            };
            (drive.device.clone(), upload)
        };
        self.drives.iter().map(drive).collect()
    }
}

/// Returns a factor of slowness by nature.
fn nature(numbers: &mut Pcg64Mcg, sigma: f64) -> f64 {
    Normal::new(0.0, sigma).map_or(1.0, |distribution| distribution.sample(numbers).exp())
}

fn role_of(index: usize) -> (&'static str, &'static [usize]) {
    let shares: usize = ROLES.iter().map(|role| role.2).sum();
    // Mixed: every rack has hosts of every role.
    let mut at = (index * 7 + 3) % shares;
    for (name, models, share) in ROLES {
        if at < share {
            return (name, models);
        }
        at -= share;
    }
    (ROLES[0].0, ROLES[0].1)
}

impl SimulatedDrive {
    fn new(
        numbers: &mut Pcg64Mcg,
        host: usize,
        at: usize,
        model: &'static SimulatedModel,
    ) -> SimulatedDrive {
        let device = match model.device {
            "nvme" => format!("nvme{at}n1"),
            prefix => format!("{prefix}{}", (b'a' + at as u8) as char),
        };
        let is_other = numbers.random_bool(0.12) && host != SICK_HOST;
        SimulatedDrive {
            device,
            model,
            firmware: model.firmware[usize::from(is_other)],
            serial: format!("{}{:08X}", &model.model[..2], numbers.random::<u32>()),
            factor: nature(numbers, DRIVE_SIGMA),
        }
    }
}
