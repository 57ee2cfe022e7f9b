//! Health reports of devices. Asking a device can take long, or never end: only the process aside
//! does it (see [`crate::reader`]).
//!
//! | where | what |
//! |---|---|
//! | `passthrough` | the ioctls of NVMe and the device mapper, and the traits that stand for them |
//! | `nvme` | the SMART and health log |
//! | `ebs` | the statistics of an Amazon EBS volume and of instance storage |
//! | `smart` | the health log of SATA and SAS drives, by smartctl |
//! | `scsi` | the kernel's counts of SCSI commands, and SATA's link |
//! | `stacked` | the state of md, and whether a mapped device is suspended |
//! | `mapper` | what the device mapper's targets report |
//! | `bcache` | the state of bcache's cache |
//! | `kernel_log` | what the kernel's log says of devices |
//!
//! Everything is only read. A device that is switched off to save power is not woken.
//!
//! What does not belong here: what the figures mean (`iowhy_diagnosis`).

mod bcache;
mod ebs;
pub mod kernel_log;
mod mapper;
mod nvme;
mod passthrough;
mod scsi;
mod smart;
mod stacked;

use crate::host::system::now_ns;
use crate::host::transport;
use crate::host::{read_number, read_text};
use ebs::AmazonStorage;
use iowhy_model::environment::Device;
use iowhy_model::health::DeviceHealth;
use passthrough::{AnswersAdmin, MapperControl, NvmeController};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Attribute of the longest time that the kernel lets a controller take to wake up, microseconds.
const WAKE_LIMIT: &str = "power/pm_qos_latency_tolerance_us";

/// A device that may be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AskedDevice {
    /// The kernel's name.
    pub name: String,
    /// The device's directory in sysfs.
    pub directory: PathBuf,
    /// The vendor's model name.
    pub model: Option<String>,
}

impl AskedDevice {
    /// The disk, if it is of a kind that reports something.
    pub fn from_device(device: &Device) -> Option<AskedDevice> {
        let directory = super::devices::directory(device);
        let reports =
            ["device", "md", "dm", "bcache"].iter().any(|name| directory.join(name).exists());
        (device.partition_of.is_none() && reports).then(|| AskedDevice {
            name: device.name.clone(),
            directory,
            model: device.model.clone(),
        })
    }
}

/// Whether a program asks drives here.
pub(crate) fn has_program() -> bool {
    smart::program().is_some()
}

/// Asks a device. This can hang.
pub(crate) fn ask(device: &AskedDevice) -> DeviceHealth {
    let disk = &device.directory;
    let mut health = DeviceHealth {
        asked_ns: now_ns(),
        commands: scsi::commands(disk),
        sata_link: scsi::link(disk),
        array: stacked::array(disk),
        suspended: stacked::suspended(disk),
        bcache: bcache::state(disk),
        ..DeviceHealth::default()
    };
    if let Some(name) = nvme_controller(disk) {
        match open(Path::new("/sys/class/nvme"), &name) {
            Ok(controller) => {
                ask_controller(&controller, device, &mut health);
                let limit = Path::new("/sys/class/nvme").join(&name).join(WAKE_LIMIT);
                if let Some(log) = &mut health.nvme {
                    log.wake_limit_us = read_number(limit);
                }
            }
            Err(reason) => health.unread.push(format!("its health log: {reason}")),
        }
    }
    ask_drive(device, &mut health);
    if health.suspended.is_some() {
        ask_mapper(disk, &mut health);
    }
    health
}

/// Asks the device mapper about one of its devices.
fn ask_mapper(disk: &Path, health: &mut DeviceHealth) {
    let number = |path: PathBuf| read_text(path).unwrap_or_default();
    let control = number(PathBuf::from("/sys/class/misc/device-mapper/dev"));
    let device = number(disk.join("dev"));
    let device = device.split_once(':').and_then(|(major, minor)| {
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    });
    let targets =
        MapperControl::open(Path::new("/dev/mapper/control"), &control).and_then(|control| {
            let device = device.ok_or_else(|| "its number is not known".to_owned())?;
            mapper::read(&control, device, Path::new("/sys/dev/block"))
        });
    match targets {
        Ok(targets) => health.targets = targets,
        Err(reason) => health.unread.push(format!("the state of its targets: {reason}")),
    }
}

fn ask_drive(device: &AskedDevice, health: &mut DeviceHealth) {
    if !transport::of(&device.directory).is_some_and(|transport| smart::is_asked(&transport)) {
        return;
    }
    let Some(program) = smart::program() else {
        health.unread.push("its health log: smartctl (smartmontools) is not installed".to_owned());
        return;
    };
    match smart::read(&program, &device.name) {
        Ok(log) => health.drive = log,
        Err(reason) => health.unread.push(format!("its health log: {reason}")),
    }
}

fn ask_controller(controller: &dyn AnswersAdmin, device: &AskedDevice, health: &mut DeviceHealth) {
    match nvme::read(controller) {
        Ok(log) => health.nvme = Some(log),
        Err(reason) => health.unread.push(format!("its health log: {reason}")),
    }
    if let Some(storage) = device.model.as_deref().and_then(AmazonStorage::from_model) {
        match ebs::read(controller, storage) {
            Ok(statistics) => health.volume = Some(statistics),
            Err(reason) => health.unread.push(format!("the volume's statistics: {reason}")),
        }
    }
}

/// The controller of an NVMe disk; of one with several paths, the first that is live.
fn nvme_controller(disk: &Path) -> Option<String> {
    let device = disk.join("device").canonicalize().ok()?;
    let name = device.file_name()?.to_str()?;
    if is_controller(name) {
        return Some(name.to_owned());
    }
    let entries = name.starts_with("nvme-subsys").then(|| std::fs::read_dir(&device).ok())??;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| is_controller(name));
    names.sort_unstable();
    let is_live =
        |name: &&String| read_text(device.join(name).join("state")).as_deref() == Some("live");
    names.iter().find(is_live).or(names.first()).cloned()
}

/// `nvme0`, not `nvme0n1` or `nvme-subsys0`.
fn is_controller(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Opens a controller by its name below `class`, unless asking it would disturb it.
fn open(class: &Path, name: &str) -> Result<NvmeController, String> {
    let about = class.join(name);
    let state = read_text(about.join("state")).unwrap_or_default();
    if state != "live" {
        return Err(format!("the controller's state is {state:?}"));
    }
    if read_text(about.join("device/power/runtime_status")).as_deref() == Some("suspended") {
        return Err("the controller is suspended, and is not woken".to_owned());
    }
    let number = read_text(about.join("dev")).unwrap_or_default();
    NvmeController::open(&Path::new("/dev").join(name), &number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use passthrough::AdminRead;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_disk_has_a_controller_or_several() {
        let directory = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (disk, alone) = (make("block/nvme1n1"), make("nvme/nvme1"));
        symlink(alone, disk.join("device")).unwrap();
        assert_eq!(nvme_controller(&disk).as_deref(), Some("nvme1"));
        let (disk, subsystem) = (make("block/nvme2n1"), make("nvme-subsystem/nvme-subsys2"));
        for (path, state) in [("nvme2", "connecting"), ("nvme3", "live"), ("nvme2n1", "live")] {
            let path = make(&format!("nvme-subsystem/nvme-subsys2/{path}"));
            fs::write(path.join("state"), state).unwrap();
        }
        symlink(&subsystem, disk.join("device")).unwrap();
        assert_eq!(nvme_controller(&disk).as_deref(), Some("nvme3"));
        let disk = make("block/sda");
        symlink(make("scsi/0:0:0:0"), disk.join("device")).unwrap();
        assert_eq!(nvme_controller(&disk), None);
    }

    #[test]
    fn who_sleeps_or_resets_is_not_asked() {
        let directory = tempfile::tempdir().unwrap();
        let power = directory.path().join("nvme0/device/power");
        fs::create_dir_all(&power).unwrap();
        let state = |state: &str, power_state: &str| {
            fs::write(directory.path().join("nvme0/state"), state).unwrap();
            fs::write(power.join("runtime_status"), power_state).unwrap();
            open(directory.path(), "nvme0").expect_err("never opened")
        };
        assert_eq!(state("resetting\n", "active\n"), "the controller's state is \"resetting\"");
        assert!(state("live\n", "suspended\n").contains("is not woken"));
    }

    /// A controller that refuses the health log and has a volume's page.
    struct Double;

    impl AnswersAdmin for Double {
        fn read(&self, command: AdminRead) -> Result<Vec<u8>, String> {
            match command {
                AdminRead::LogPage { page: 0xd0, .. } => {
                    let mut page = 0x3c23_b510_u64.to_le_bytes().to_vec();
                    page.resize(4096, 0);
                    Ok(page)
                }
                _ => Err("the controller refused it (status 0x4002)".to_owned()),
            }
        }
    }

    #[test]
    fn only_a_volume_is_asked_for_its_page() {
        for (model, is_volume) in
            [("Amazon Elastic Block Store", true), ("Samsung SSD 990 PRO", false)]
        {
            let model = Some(model.to_owned());
            let device = AskedDevice { name: "nvme1n1".into(), directory: "/nosuch".into(), model };
            let mut health = DeviceHealth::default();
            ask_controller(&Double, &device, &mut health);
            assert_eq!(health.volume.is_some(), is_volume);
            assert_eq!(
                health.unread,
                ["its health log: the controller refused it (status 0x4002)"]
            );
        }
    }
}
