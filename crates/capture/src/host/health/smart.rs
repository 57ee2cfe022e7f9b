//! The health log of a SATA or SAS drive, as `smartctl` reads it where it is installed: it knows
//! the drives, and asks with commands for which the kernel demands more than reading.
//!
//! A drive in standby is not woken. What does not belong here: NVMe controllers, which are asked
//! without it (see `nvme`).

use iowhy_fs::special::nowhere;
use iowhy_model::health::DriveLog;
use iowhy_model::smartctl::SmartctlOutput;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Paths at which distributions install smartctl: the search path belongs to the user who started
/// iowhy.
const PLACES: &[&str] = &["/usr/sbin/smartctl", "/sbin/smartctl", "/usr/local/sbin/smartctl"];
/// More than it prints for any drive; the rest is not read.
const MOST_BYTES: u64 = 1 << 20;
/// The bits of its exit code that mean that nothing was read: a wrong command line, a drive that
/// cannot be opened or is in standby.
const NOTHING_READ: i32 = 0b11;

/// The program, if it is installed.
pub(super) fn program() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Whether a transport is one that it is asked for. USB bridges may stop working when they are
/// asked.
pub(super) fn is_asked(transport: &str) -> bool {
    matches!(transport, "sata" | "sas")
}

/// Reads the log of the drive with this name; this can hang.
pub(super) fn read(program: &Path, name: &str) -> Result<Option<DriveLog>, String> {
    let device = Path::new("/dev").join(name);
    let mut command = Command::new(program);
    command.args(["--json=c", "-n", "standby", "-H", "-A"]).arg(&device);
    command.stdin(Stdio::null());
    command.stderr(nowhere());
    let failed = |error: std::io::Error| format!("smartctl: {error}");
    let (pipe, end) = std::io::pipe().map_err(failed)?;
    let mut child = command.stdout(end).spawn().map_err(failed)?;
    // The command has the other end of the pipe, too.
    drop(command);
    let mut text = Vec::new();
    let read = pipe.take(MOST_BYTES + 1).read_to_end(&mut text);
    let status = child.wait().map_err(failed)?;
    read.map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err("smartctl printed more than any drive has to say".to_owned());
    }
    let printed = SmartctlOutput::from_json(&text)
        .map_err(|_error| "smartctl printed no JSON: it is older than 7.0".to_owned())?;
    match status.code() {
        Some(code) if code & NOTHING_READ != 0 => Err(printed.complaint()),
        _ => Ok(printed.log()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that prints a text and ends with a code.
    fn printing(text: &str, code: u8) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (program, answer) =
            (directory.path().join("smartctl"), directory.path().join("answer"));
        fs::write(&answer, text).unwrap();
        let script = format!("#!/bin/sh\ncat '{}'\nexit {code}\n", answer.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (directory, program)
    }

    fn read_from(text: &str, code: u8) -> Result<Option<DriveLog>, String> {
        let (_directory, program) = printing(text, code);
        loop {
            // A child of another test may still hold the script open for writing.
            match read(&program, "nosuch") {
                Err(said) if said.contains("Text file busy") => std::thread::yield_now(),
                result => return result,
            }
        }
    }

    const SATA: &str = r#"{"json_format_version":[1,0],
        "smartctl":{"version":[7,3],"exit_status":0},
        "device":{"name":"/dev/sda","type":"sat","protocol":"ATA"},
        "smart_status":{"passed":true},
        "ata_smart_attributes":{"revision":16,"table":[
          {"id":5,"name":"Reallocated_Sector_Ct","value":100,"worst":100,"thresh":10,
           "when_failed":"","raw":{"value":8,"string":"8"}},
          {"id":194,"name":"Temperature_Celsius","raw":{"value":171799576609,"string":"33"}},
          {"id":197,"name":"Current_Pending_Sector","raw":{"value":2,"string":"2"}},
          {"id":199,"name":"UDMA_CRC_Error_Count","raw":{"value":31,"string":"31"}}]},
        "power_on_time":{"hours":31415},"temperature":{"current":33}}"#;

    #[test]
    fn a_sata_drive_tells_of_its_sectors() {
        let expected = DriveLog {
            passed: Some(true),
            temperature_c: Some(33),
            power_on_hours: Some(31_415),
            reallocated_sectors: Some(8),
            pending_sectors: Some(2),
            interface_errors: Some(31),
            ..DriveLog::default()
        };
        assert_eq!(read_from(SATA, 0), Ok(Some(expected.clone())));
        // smartctl ends with other bits if the drive fails, or failed once.
        assert_eq!(read_from(SATA, 0b1100_1000), Ok(Some(expected)));
    }

    #[test]
    fn a_sas_drive_tells_of_its_defects() {
        let text = r#"{"smart_status":{"passed":false},"scsi_grown_defect_list":12,
            "temperature":{"current":41,"drive_trip":65}}"#;
        let log = read_from(text, 8).unwrap().unwrap();
        assert_eq!((log.passed, log.reallocated_sectors), (Some(false), Some(12)));
        assert_eq!((log.temperature_c, log.critical_c), (Some(41), Some(65)));
    }

    #[test]
    fn a_sleeping_drive_is_not_woken() {
        let text = r#"{"smartctl":{"messages":[
            {"string":"Device is in STANDBY mode, exit(2)","severity":"information"}]}}"#;
        let said = read_from(text, 2).unwrap_err();
        assert_eq!(said, "smartctl: Device is in STANDBY mode, exit(2)");
    }

    #[test]
    fn nothing_and_nonsense_are_no_log() {
        assert_eq!(read_from("{}", 4), Ok(None), "a virtual drive");
        assert!(read_from("smartctl 6.6: =bad option", 0).unwrap_err().contains("no JSON"));
        assert!(read_from(r#"{"temperature":{"current":"hot"}}"#, 0).is_err());
        assert!(read_from("", 1).is_err());
        let endless = " ".repeat(2 << 20);
        assert!(read_from(&endless, 0).unwrap_err().contains("more than any drive"));
        assert!(read(Path::new("/nosuch/smartctl"), "sda").unwrap_err().starts_with("smartctl: "));
    }
}
