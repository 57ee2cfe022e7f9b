//! The identity of a host and its drives, from files that everybody may read: `/etc/machine-id`,
//! `/proc` and `/sys/block`.
//!
//! What does not belong here: figures.

use crate::error::{FleetError, Result};
use crate::layout::HOST_ID_LENGTH;
use crate::upload::{UploadDrive, UploadHost};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file of sysfs at most: a page.
const MOST_BYTES: u64 = 4096;
/// Bytes of a name from there; a longer one is cut.
const MOST_NAME: usize = 128;

/// The root of the host's files; another one in tests and containers.
#[derive(Clone, Debug)]
pub struct HostFiles {
    root: PathBuf,
}

impl HostFiles {
    /// The files below this root, `/` as a rule.
    pub const fn below(root: PathBuf) -> HostFiles {
        HostFiles { root }
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        let file = File::open(self.root.join(path)).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text: String =
            text.chars().filter(|character| !character.is_control()).take(MOST_NAME).collect();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the identity of this host: a hash of machine id and name, since images that were
    /// copied share the former, and two hosts may share the latter.
    ///
    /// # Errors
    /// Fails if the machine has no id, or no name.
    pub fn host(&self, name: Option<&str>, rack: &str) -> Result<UploadHost> {
        let machine = self.text("etc/machine-id").ok_or_else(|| {
            FleetError::new("failed to read /etc/machine-id: it is missing or empty")
                .hint("systemd-machine-id-setup makes it")
        })?;
        let own = || self.text("proc/sys/kernel/hostname");
        let name = name.map(str::to_owned).or_else(own);
        let name = name.ok_or_else(|| {
            FleetError::new("failed to read the host's name").hint("give it with --host NAME")
        })?;
        // The machine id should not leave the machine, so it is hashed.
        let mut hasher = blake3::Hasher::new_derive_key("iowhy fleet 2026 host identity");
        hasher.update(machine.as_bytes()).update(&[0]).update(name.as_bytes());
        let id = hasher.finalize().to_hex()[..HOST_ID_LENGTH].to_owned();
        let kernel = self.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let iowhy = env!("CARGO_PKG_VERSION").to_owned();
        Ok(UploadHost { id, name, rack: rack.to_owned(), kernel, iowhy })
    }

    /// The drives of this host by their kernel names.
    pub fn drives(&self) -> BTreeMap<String, UploadDrive> {
        let entries = fs::read_dir(self.root.join("sys/block")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.map(|name| (name.clone(), self.drive(&name))).collect()
    }

    fn drive(&self, name: &str) -> UploadDrive {
        let block = Path::new("sys/block").join(name);
        let first = |paths: &[&str]| paths.iter().find_map(|path| self.text(block.join(path)));
        let model = first(&["device/model"]);
        let vendor = first(&["device/vendor"]).filter(|vendor| {
            // SCSI names the vendor; for an ATA drive behind it only "ATA", and PCI has a number.
            model.is_some() && vendor != "ATA" && !vendor.starts_with("0x")
        });
        let words = [vendor, model];
        let model: Vec<String> = words.into_iter().flatten().collect();
        let sectors: u64 = first(&["size"]).and_then(|text| text.parse().ok()).unwrap_or(0);
        UploadDrive {
            model: model.join(" "),
            firmware: first(&["device/firmware_rev", "device/rev"]).unwrap_or_default(),
            serial: first(&["device/serial", "serial"])
                .or_else(|| self.scsi_serial(&block))
                .unwrap_or_default(),
            size_bytes: sectors.saturating_mul(512),
            rotational: first(&["queue/rotational"]).map(|text| text == "1"),
        }
    }

    /// The serial number of SCSI's page 0x80: four bytes of header, then text.
    fn scsi_serial(&self, block: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        let file = File::open(self.root.join(block).join("device/vpd_pg80")).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(bytes.get(4..)?).into_owned();
        let text: String =
            text.chars().filter(|character| !character.is_control()).take(MOST_NAME).collect();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &[u8])]) -> (tempfile::TempDir, HostFiles) {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let files = HostFiles::below(folder.path().to_owned());
        (folder, files)
    }

    #[test]
    fn drives_say_what_they_are() {
        let (_folder, files) = root(&[
            ("sys/block/nvme0n1/size", b"2000409264\n"),
            ("sys/block/nvme0n1/queue/rotational", b"0\n"),
            ("sys/block/nvme0n1/device/model", b"ACME 4000        \n"),
            ("sys/block/nvme0n1/device/serial", b"S1\x1b[31m23 \n"),
            ("sys/block/nvme0n1/device/firmware_rev", b"2.1 \n"),
            ("sys/block/sda/size", b"nonsense"),
            ("sys/block/sda/device/vendor", b"HITACHI \n"),
            ("sys/block/sda/device/model", b"HUS72 \n"),
            ("sys/block/sda/device/rev", b"A1\n"),
            ("sys/block/sda/device/vpd_pg80", b"\0\x80\0\x04WX12"),
            ("sys/block/loop0/size", b"0\n"),
        ]);
        let drives = files.drives();
        let nvme = &drives["nvme0n1"];
        assert_eq!((nvme.model.as_str(), nvme.firmware.as_str()), ("ACME 4000", "2.1"));
        assert_eq!((nvme.serial.as_str(), nvme.size_bytes), ("S1[31m23", 2_000_409_264 * 512));
        let sda = &drives["sda"];
        assert_eq!((sda.model.as_str(), sda.serial.as_str()), ("HITACHI HUS72", "WX12"));
        assert_eq!((sda.size_bytes, sda.rotational), (0, None));
        assert_eq!(drives["loop0"], UploadDrive::default());
    }

    #[test]
    fn hosts_of_one_name_or_one_image_differ() {
        let of = |machine: &[u8], name: &str| {
            let (_folder, files) = root(&[("etc/machine-id", machine)]);
            files.host(Some(name), "").unwrap().id
        };
        let ids = [of(b"aa", "web"), of(b"bb", "web"), of(b"aa", "db")];
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
        assert_eq!(of(b"aa\n", "web"), ids[0]);
        assert!(ids.iter().all(|id| crate::layout::is_host_id(id)));
        let (_folder, nothing) = root(&[]);
        assert!(nothing.host(Some("web"), "").is_err());
    }
}
