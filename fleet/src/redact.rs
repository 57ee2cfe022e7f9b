//! `--redact`: names replaced before they leave the host, so that the fleet's store has none. Host,
//! serial number, container, process and file become keyed hashes (BLAKE3), the same for the same
//! name under one key; sentences that can contain them are left out.
//!
//! What does not belong here: figures, models, firmware, kernels, devices, causes, which stay.

use crate::error::{FleetContext, FleetError, Result};
use crate::store::read_secret;
use crate::upload::{Upload, UploadIncident};
use std::path::Path;

/// Replaces names under one key.
#[derive(Clone)]
pub struct NameHasher {
    key: [u8; 32],
}

impl std::fmt::Debug for NameHasher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("NameHasher")
    }
}

impl NameHasher {
    /// A key from a file with mode 600: hosts with the same file have the same placeholders.
    ///
    /// # Errors
    /// Fails if the file cannot be read, others may read it, or it has less than 16 characters.
    pub fn from_file(path: &Path) -> Result<NameHasher> {
        let secret = read_secret(path)?;
        match secret.trim().len() >= 16 {
            true => Ok(NameHasher::from_secret(secret.trim().as_bytes())),
            false => Err(FleetError::new(format!(
                "failed to take a key from {}: it has less than 16 characters",
                path.display()
            ))),
        }
    }

    /// A key that only this machine has.
    ///
    /// # Errors
    /// Fails if the machine has no id.
    pub fn from_machine(root: &Path) -> Result<NameHasher> {
        let path = root.join("etc/machine-id");
        let id = std::fs::read(&path).context(|| format!("read {}", path.display()))?;
        Ok(NameHasher::from_secret(&id))
    }

    fn from_secret(secret: &[u8]) -> NameHasher {
        NameHasher { key: blake3::derive_key("iowhy fleet 2026 redaction", secret) }
    }

    /// The placeholder of a name, such as `host-1f2e3d4c5b6a`; an empty one stays empty.
    pub fn placeholder(&self, kind: &str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(kind.as_bytes()).update(&[0]).update(name.as_bytes());
        format!("{kind}-{}", &hasher.finalize().to_hex()[..12])
    }

    fn replace(&self, kind: &str, name: &mut Option<String>) {
        if let Some(name) = name {
            *name = self.placeholder(kind, name);
        }
    }

    /// Replaces every name in an upload.
    pub fn redact(&self, upload: &mut Upload) {
        upload.host.name = self.placeholder("host", &upload.host.name);
        upload.host.rack = self.placeholder("rack", &upload.host.rack);
        for drive in upload.drives.values_mut() {
            drive.serial = self.placeholder("serial", &drive.serial);
        }
        let containers = std::mem::take(&mut upload.containers).into_iter();
        upload.containers =
            containers.map(|(name, usage)| (self.placeholder("container", &name), usage)).collect();
        for finding in &mut upload.findings {
            self.replace("process", &mut finding.process);
        }
        for row in &mut upload.writers {
            let id = &mut row.id;
            id.program = self.placeholder("process", &id.program);
            id.container = self.placeholder("container", &id.container);
            // A name in parentheses is no file.
            if !id.file.starts_with('(') {
                id.file = self.placeholder("file", &id.file);
            }
        }
        if let Some(incident) = &mut upload.incident {
            self.redact_incident(incident);
        }
    }

    fn redact_incident(&self, incident: &mut UploadIncident) {
        self.replace("process", &mut incident.process);
        self.replace("container", &mut incident.container);
        self.replace("file", &mut incident.file);
        incident.sentence.clear();
        incident.reason.clear();
        incident.fix.clear();
        incident.recording = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::{UploadDrive, UploadFinding, UploadUse, UploadWriter};
    use crate::writers::WriterId;

    #[test]
    fn no_name_is_left() {
        let mut upload = Upload::default();
        let secret = || "SECRET".to_owned();
        upload.host.name = secret();
        upload.host.rack = secret();
        let drive = UploadDrive { serial: secret(), model: "M".to_owned(), ..Default::default() };
        upload.drives = [("sda".to_owned(), drive)].into();
        upload.containers = [(secret(), UploadUse::default())].into();
        let process = Some(secret());
        upload.findings = vec![UploadFinding { process, ..UploadFinding::default() }];
        let (program, container, file) = (secret(), secret(), secret());
        let id = WriterId { program, container, file, ..WriterId::default() };
        upload.writers = vec![UploadWriter { id, ..UploadWriter::default() }];
        let journal = WriterId { file: "(journal)".to_owned(), ..WriterId::default() };
        upload.writers.push(UploadWriter { id: journal, ..UploadWriter::default() });
        upload.incident = Some(UploadIncident {
            process: Some(secret()),
            container: Some(secret()),
            file: Some(secret()),
            recording: Some(secret()),
            sentence: secret(),
            reason: secret(),
            fix: secret(),
            ..UploadIncident::default()
        });
        NameHasher::from_secret(b"key").redact(&mut upload);
        let text = serde_json::to_string(&upload).unwrap();
        assert!(!text.contains("SECRET"), "{text}");
        assert!(text.contains("\"M\"") && text.contains("(journal)"));
    }

    #[test]
    fn placeholders_depend_on_the_key_and_the_name() {
        let (a, b) = (NameHasher::from_secret(b"a"), NameHasher::from_secret(b"b"));
        assert_eq!(a.placeholder("host", "x"), a.placeholder("host", "x"));
        assert_ne!(a.placeholder("host", "x"), a.placeholder("host", "y"));
        assert_ne!(a.placeholder("host", "x"), b.placeholder("host", "x"));
        assert_ne!(a.placeholder("host", "x")[5..], a.placeholder("rack", "x")[5..]);
    }
}
