//! The output of `smartctl --json` for a drive, as the model's health logs.
//!
//! What does not belong here: running it (crate `iowhy-capture`).

use crate::health::{DriveLog, NvmeHealth};
use serde::Deserialize;

/// Numbers of ATA attributes whose raw value is a count for every vendor.
const REALLOCATED: u64 = 5;
const REPORTED_UNCORRECTABLE: u64 = 187;
const PENDING: u64 = 197;
const UNCORRECTABLE: u64 = 198;
const INTERFACE_ERRORS: u64 = 199;
/// A data unit of NVMe, bytes.
const NVME_UNIT: u64 = 512_000;
/// Names of ATA attributes that count written data, and their unit in bytes: smartctl names them by
/// the drive's model.
const WRITTEN: [(&str, u64); 5] = [
    ("Total_LBAs_Written", 512),
    ("Host_Writes_32MiB", 32 << 20),
    ("Host_Writes_GiB", 1 << 30),
    ("Lifetime_Writes_GiB", 1 << 30),
    ("Total_Writes_GiB", 1 << 30),
];

/// The output of smartctl, as far as it is used.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct SmartctlOutput {
    smartctl: About,
    device: AskedDevice,
    model_name: Option<String>,
    nvme_smart_health_information_log: Option<NvmeLog>,
    smart_status: Status,
    temperature: Temperature,
    power_on_time: PowerOnTime,
    ata_smart_attributes: Attributes,
    scsi_grown_defect_list: Option<u64>,
    endurance_used: Endurance,
    scsi_percentage_used_endurance_indicator: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Endurance {
    current_percent: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AskedDevice {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NvmeLog {
    critical_warning: u64,
    available_spare: u64,
    available_spare_threshold: u64,
    percentage_used: u64,
    media_errors: u64,
    num_err_log_entries: u64,
    unsafe_shutdowns: u64,
    power_on_hours: u64,
    data_units_written: u64,
    warning_temp_time: u64,
    critical_comp_time: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct About {
    messages: Vec<Message>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Message {
    string: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    passed: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Temperature {
    current: Option<i64>,
    drive_trip: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PowerOnTime {
    hours: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Attributes {
    table: Vec<Attribute>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Attribute {
    id: u64,
    name: String,
    /// `now`, `past`, or empty: when its value was not above its threshold.
    when_failed: String,
    flags: Flags,
    raw: Raw,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Flags {
    prefailure: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    value: u64,
}

impl SmartctlOutput {
    /// Reads its JSON.
    ///
    /// # Errors
    /// Fails if the text is not smartctl's JSON.
    pub fn from_json(text: &[u8]) -> Result<SmartctlOutput, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The kernel's name of the drive, if it says which one it asked.
    pub fn device(&self) -> Option<&str> {
        let name = self.device.name.strip_prefix("/dev/").unwrap_or(&self.device.name);
        (!name.is_empty()).then_some(name)
    }

    /// The drive's model.
    pub fn model(&self) -> Option<&str> {
        self.model_name.as_deref()
    }

    /// The health log of an NVMe controller.
    pub fn nvme(&self) -> Option<NvmeHealth> {
        let log = self.nvme_smart_health_information_log.as_ref()?;
        Some(NvmeHealth {
            critical_warning: log.critical_warning,
            temperature_c: self.temperature.current,
            spare_percent: log.available_spare,
            spare_threshold_percent: log.available_spare_threshold,
            used_percent: log.percentage_used,
            written_bytes: Some(log.data_units_written)
                .filter(|units| *units > 0)
                .map(|units| units.saturating_mul(NVME_UNIT)),
            media_errors: log.media_errors,
            error_log_entries: log.num_err_log_entries,
            unsafe_shutdowns: log.unsafe_shutdowns,
            power_on_hours: log.power_on_hours,
            warning_minutes: log.warning_temp_time,
            critical_minutes: log.critical_comp_time,
            ..NvmeHealth::default()
        })
    }

    /// Returns the bytes that hosts have written to a drive, if smartctl's database knows the unit.
    fn written_bytes(&self) -> Option<u64> {
        let attributes = &self.ata_smart_attributes.table;
        attributes.iter().find_map(|attribute| {
            let (_, unit) = WRITTEN.iter().find(|(name, _)| *name == attribute.name)?;
            (attribute.raw.value > 0).then(|| attribute.raw.value.saturating_mul(*unit))
        })
    }

    /// Returns the reason why smartctl read nothing.
    pub fn complaint(&self) -> String {
        match self.smartctl.messages.first() {
            Some(message) => format!("smartctl: {}", message.string),
            None => {
                "smartctl read nothing: the drive is in standby, or cannot be opened".to_owned()
            }
        }
    }

    /// `None` of a drive that has no such log, as most virtual ones.
    pub fn log(&self) -> Option<DriveLog> {
        let raw = |id: u64| {
            self.ata_smart_attributes
                .table
                .iter()
                .find(|attribute| attribute.id == id)
                .map(|attribute| attribute.raw.value)
        };
        let attributes = &self.ata_smart_attributes.table;
        let is_failing = attributes.iter().any(|it| it.when_failed == "now" && it.flags.prefailure);
        let log = DriveLog {
            // With `-A` alone it prints no verdict.
            passed: if is_failing { Some(false) } else { self.smart_status.passed },
            temperature_c: self.temperature.current,
            critical_c: self.temperature.drive_trip.filter(|drive_trip| *drive_trip > 0),
            power_on_hours: self.power_on_time.hours,
            reallocated_sectors: raw(REALLOCATED).or(self.scsi_grown_defect_list),
            pending_sectors: raw(PENDING),
            uncorrectable_sectors: raw(UNCORRECTABLE),
            reported_errors: raw(REPORTED_UNCORRECTABLE),
            interface_errors: raw(INTERFACE_ERRORS),
            used_percent: self
                .endurance_used
                .current_percent
                .or(self.scsi_percentage_used_endurance_indicator),
            written_bytes: self.written_bytes(),
        };
        (log != DriveLog::default()).then_some(log)
    }
}
