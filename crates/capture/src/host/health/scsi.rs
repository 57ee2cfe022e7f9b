//! Counts of a SCSI device's commands in sysfs, and the link of a SATA device.
//!
//! What does not belong here: the device's settings (see [`crate::host::devices`]).

use crate::host::read_text;
use iowhy_model::health::{CommandCounts, SataLink};
use std::path::Path;

/// The counts of the disk with this directory in sysfs; `None` if it is no SCSI device.
pub(super) fn commands(disk: &Path) -> Option<CommandCounts> {
    let count = |name: &str| hexadecimal(&read_text(disk.join("device").join(name))?);
    Some(CommandCounts {
        done: count("iodone_cnt")?,
        errors: count("ioerr_cnt")?,
        timeouts: count("iotmo_cnt"),
    })
}

/// The kernel writes `0x2f`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// The link of a SATA disk; `None` if it is not attached to a SATA port, or if that has no speed,
/// as those of emulated and old adapters (the kernel writes `<unknown>`).
pub(super) fn link(disk: &Path) -> Option<SataLink> {
    let path = disk.canonicalize().ok()?;
    let is_port =
        |name: &str| name.strip_prefix("ata").is_some_and(|digits| digits.parse::<u32>().is_ok());
    let port = path.ancestors().find(|ancestor| {
        ancestor.file_name().and_then(|name| name.to_str()).is_some_and(is_port)
    })?;
    let number = port.file_name()?.to_str()?.strip_prefix("ata")?;
    let link = port.join(format!("link{number}")).join("ata_link").join(format!("link{number}"));
    let text = |name: &str| read_text(link.join(name)).filter(|content| !content.starts_with('<'));
    Some(SataLink { speed: text("sata_spd")?, most: text("hw_sata_spd_limit")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(path: impl AsRef<Path>, text: &str) {
        fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn counts_are_hexadecimal() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path();
        assert_eq!(commands(disk), None);
        write(disk.join("device/iodone_cnt"), "0x2f\n");
        write(disk.join("device/ioerr_cnt"), "0x1\n");
        let mut counts = CommandCounts { done: 47, errors: 1, timeouts: None };
        assert_eq!(commands(disk).as_ref(), Some(&counts));
        write(disk.join("device/iotmo_cnt"), "0x3\n");
        counts.timeouts = Some(3);
        assert_eq!(commands(disk), Some(counts));
        for wrong in ["12", "0xg", "", "0x11111111111111111"] {
            assert_eq!(hexadecimal(wrong), None);
        }
    }

    #[test]
    fn a_disk_behind_a_port_has_its_link() {
        let directory = tempfile::tempdir().unwrap();
        let port = directory.path().join("0000:00:1f.2/ata3");
        let disk = port.join("host2/target2:0:0/2:0:0:0/block/sda");
        fs::create_dir_all(&disk).unwrap();
        assert_eq!(link(&disk), None);
        write(port.join("link3/ata_link/link3/sata_spd"), "1.5 Gbps\n");
        write(port.join("link3/ata_link/link3/hw_sata_spd_limit"), "6.0 Gbps\n");
        let found = link(&disk).unwrap();
        assert_eq!((found.speed.as_str(), found.most.as_str()), ("1.5 Gbps", "6.0 Gbps"));
        assert_eq!(link(directory.path()), None);
        write(port.join("link3/ata_link/link3/sata_spd"), "<unknown>\n");
        assert_eq!(link(&disk), None);
    }
}
