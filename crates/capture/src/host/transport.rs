//! The transport that attaches a disk, from its path in sysfs: like TRAN in lsblk.
//!
//! What does not belong here: the disk's settings.

use super::read_text;
use std::path::Path;

/// Prefixes of sysfs directories on the path to a disk, and the transport they indicate; the first
/// match decides. A virtual machine's disk and a network disk are below a PCI card, too.
const ON_THE_WAY: &[(&str, &str)] = &[
    ("virtio", "virtio"),
    ("vbd-", "xen"),
    ("VMBUS:", "hyperv"),
    ("MSFT1000:", "hyperv"),
    ("rport-", "fc"),
    ("session", "iscsi"),
    ("usb", "usb"),
    ("ata", "sata"),
    ("end_device-", "sas"),
    ("mmc", "mmc"),
    ("pci", "pci"),
];

/// The transport of the disk with this directory in /sys/block.
pub fn of(disk: &Path) -> Option<String> {
    // NVMe reports it: pcie, tcp, rdma, fc, loop.
    if let Some(said) = read_text(disk.join("device/transport")) {
        return Some(said.trim().to_owned());
    }
    let path = disk.canonicalize().ok()?;
    let names = || path.iter().filter_map(|part| part.to_str());
    let passes = |beginning: &str| names().any(|name| is_numbered(name, beginning));
    let found = ON_THE_WAY.iter().find(|(beginning, _)| passes(beginning));
    found.map(|(_, transport)| (*transport).to_owned())
}

/// Whether the name is that prefix and a number: `ata1`, `end_device-0:0`, not `atari`.
fn is_numbered(name: &str, beginning: &str) -> bool {
    let rest = name.strip_prefix(beginning);
    rest.is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The transport of a disk at that path, below a directory of this test.
    fn transport(path: &str, said: Option<&str>) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join(path);
        fs::create_dir_all(disk.join("device")).unwrap();
        if let Some(said) = said {
            fs::write(disk.join("device/transport"), said).unwrap();
        }
        of(&disk)
    }

    #[test]
    fn where_a_disk_hangs_says_how_it_is_attached() {
        for (path, is) in [
            ("pci0000:00/0000:00:02.0/virtio1/block/vda", "virtio"),
            ("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sata"),
            ("pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/block/sdb", "usb"),
            ("pci0000:00/0000:01:00.0/host0/port-0:0/end_device-0:0/target0:0:0/block/sdc", "sas"),
            ("pci0000:00/0000:01:00.0/host0/target0:2:0/0:2:0:0/block/sdd", "pci"),
            ("pci0000:00/0000:05:00.0/host1/rport-1:0-2/target1:0:0/1:0:0:3/block/sde", "fc"),
            ("platform/host4/session2/target4:0:0/4:0:0:1/block/sdf", "iscsi"),
            ("vbd-51712/block/xvda", "xen"),
        ] {
            assert_eq!(transport(path, None).as_deref(), Some(is), "{path}");
        }
        assert_eq!(transport("virtual/block/loop0", None), None);
        assert_eq!(
            transport("pci0000:00/nvme/nvme0/nvme0n1", Some("tcp\n")).as_deref(),
            Some("tcp")
        );
    }
}
