//! Slow drives and silent hosts, for programs that wake people: the new ones since the last time,
//! and metrics in the OpenMetrics format.
//!
//! What does not belong here: finding them.

use super::cells::DriveHours;
use super::outliers::OutlierReport;
use super::silent::Attendance;
use super::slower::batch_name;
use crate::error::{FleetContext, Result};
use crate::output;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The mode of a file of metrics.
const METRICS_MODE: u32 = 0o644;

/// Bytes of a file of known alerts at most.
const MOST_STATE_BYTES: u64 = 64 << 20;

/// The alerts of the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAlerts {
    /// Slow drives, batches and silent hosts, each by its identity.
    known: BTreeSet<String>,
}

fn drive_key(data: &DriveHours, drive: u32) -> String {
    let drive = &data.drives[drive as usize];
    let text = |number| data.names.text(number);
    format!("drive {} {} {}", text(drive.host_id), text(drive.device), text(drive.serial))
}

impl KnownAlerts {
    /// Reads the alerts in a file; none if there is no file yet.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is not such a file.
    pub fn load(path: &Path) -> Result<KnownAlerts> {
        let what = || format!("read {}", path.display());
        match iowhy_fs::read::bytes(path, MOST_STATE_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(KnownAlerts::default())
            }
            bytes => serde_json::from_slice(&bytes.context(what)?).context(what),
        }
    }

    /// Returns the alerts of a report.
    pub fn new(data: &DriveHours, report: &OutlierReport, attendance: &Attendance) -> KnownAlerts {
        let drives = report.drives.iter().map(|slow| drive_key(data, slow.drive));
        let batches = report.batches.iter().map(|batch| {
            let model = batch.model.map_or("", |model| data.names.text(model));
            format!("{} {} {model}", batch.kind.word(), data.names.text(batch.name))
        });
        let silent = attendance.silent.iter().map(|host| format!("silent {}", host.host_id));
        KnownAlerts { known: drives.chain(batches).chain(silent).collect() }
    }

    /// Returns how many of these are new, and how many of `before` are gone.
    pub fn changes(&self, before: &KnownAlerts) -> (usize, usize) {
        let new = self.known.difference(&before.known).count();
        (new, before.known.difference(&self.known).count())
    }

    /// Returns whether there are no alerts.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Removes alerts that were known before from a report.
    pub fn hide_in(&self, data: &DriveHours, report: &mut OutlierReport, silent: &mut Attendance) {
        let is_new = |key: &str| !self.known.contains(key);
        report.drives.retain(|slow| is_new(&drive_key(data, slow.drive)));
        report.batches.retain(|batch| {
            let model = batch.model.map_or("", |model| data.names.text(model));
            is_new(&format!("{} {} {model}", batch.kind.word(), data.names.text(batch.name)))
        });
        silent.silent.retain(|host| is_new(&format!("silent {}", host.host_id)));
    }

    /// Writes them to a file.
    ///
    /// # Errors
    /// Fails if it cannot be written; the old file is then unchanged.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).context(|| "remember what was named".to_owned())?;
        output::replace(path, &text).context(|| format!("write {}", path.display()))
    }
}

/// Writes metrics, completely or not at all. Everybody may read them: node_exporter has a user of
/// its own.
///
/// # Errors
/// Fails if the file cannot be written; the old one is then unchanged.
pub fn write_metrics(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let (folder, name) = iowhy_fs::parent(path)?;
        let partial = iowhy_fs::folder::partial(&name);
        let written = folder.create_anew(&partial, METRICS_MODE).and_then(|mut file| {
            // The process's mask takes it from others.
            file.set_permissions(Permissions::from_mode(METRICS_MODE))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            folder.rename(&partial, &folder, &name)
        });
        // What is not whole is of no use.
        written.inspect_err(|_| drop(folder.remove_file(&partial)))
    };
    write().context(|| format!("write {}", path.display()))
}

/// Escapes a label's value for the format.
fn label(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

/// The report as metrics.
pub fn open_metrics(data: &DriveHours, report: &OutlierReport, attendance: &Attendance) -> String {
    let mut text = String::new();
    let head = |name: &str, help: &str| {
        format!("# TYPE iowhy_fleet_{name} gauge\n# HELP iowhy_fleet_{name} {help}\n")
    };
    text += &head("slow_drive_ratio", "How many times slower a drive is than its siblings.");
    for slow in &report.drives {
        let drive = &data.drives[slow.drive as usize];
        let text_of = |number| label(data.names.text(number));
        let _ = writeln!(
            text,
            "iowhy_fleet_slow_drive_ratio{{host=\"{}\",host_id=\"{}\",device=\"{}\",model=\"{}\",\
             serial=\"{}\"}} {:.3}",
            text_of(drive.host),
            text_of(drive.host_id),
            text_of(drive.device),
            text_of(drive.model),
            text_of(drive.serial),
            slow.excess.factor
        );
    }
    text += &head("slow_batch_ratio", "How many times slower a batch is than the others.");
    for batch in &report.batches {
        let _ = writeln!(
            text,
            "iowhy_fleet_slow_batch_ratio{{kind=\"{}\",name=\"{}\",id=\"{}\"}} {:.3}",
            batch.kind.word(),
            label(&batch_name(data, batch)),
            label(data.names.text(batch.name)),
            batch.excess.factor
        );
    }
    let figures = [
        ("slow_drives", "Drives that are slower than their siblings.", report.drives.len() as f64),
        ("compared_drives", "Drives that were compared.", report.compared as f64),
        ("hosts", "Hosts that have reported.", attendance.hosts as f64),
        ("silent_hosts", "Hosts that send nothing any more.", attendance.silent.len() as f64),
        ("lost_requests", "Requests that have no record.", attendance.lost_requests as f64),
        ("last_seconds", "When the last ten minutes begin.", attendance.last_s as f64),
    ];
    for (name, help, value) in figures {
        text += &head(name, help);
        let _ = writeln!(text, "iowhy_fleet_{name} {value}");
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::silent::SilentHost;

    fn silent(names: &[&str]) -> Attendance {
        let host = |name: &&str| SilentHost {
            host: "h\"\n\x1b".to_owned(),
            host_id: (*name).to_owned(),
            rack: String::new(),
            last_s: 0,
        };
        Attendance { silent: names.iter().map(host).collect(), ..Attendance::default() }
    }

    #[test]
    fn only_what_is_new_is_new() {
        let (data, mut report) = (DriveHours::default(), OutlierReport::default());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known");
        let before = KnownAlerts::load(&path).unwrap();
        assert!(before.is_empty());
        let first = KnownAlerts::new(&data, &report, &silent(&["a", "b"]));
        assert_eq!(first.changes(&before), (2, 0));
        first.save(&path).unwrap();
        let before = KnownAlerts::load(&path).unwrap();
        let mut now = silent(&["b", "c"]);
        let second = KnownAlerts::new(&data, &report, &now);
        assert_eq!(second.changes(&before), (1, 1));
        before.hide_in(&data, &mut report, &mut now);
        assert_eq!(now, silent(&["c"]));
        std::fs::write(&path, "nonsense").unwrap();
        assert!(KnownAlerts::load(&path).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_cannot_break_the_metrics() {
        assert_eq!(label("a\"\\\n\x1b"), "a\\\"\\\\\\n\u{fffd}");
        let (data, report) = (DriveHours::default(), OutlierReport::default());
        let text = open_metrics(&data, &report, &silent(&["a"]));
        assert!(text.contains("iowhy_fleet_silent_hosts 1\n") && text.ends_with("# EOF\n"));
    }
}
