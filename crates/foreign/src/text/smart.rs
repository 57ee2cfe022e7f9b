//! `smartctl -a` as text: the table of attributes of a SATA drive, the health log of an NVMe drive.
//!
//! What does not belong here: its JSON (see [`crate::json`]), which tells more and is read first.

use super::figures::{number, set_nvme};
use crate::book::CounterBook;
use iowhy_model::health::{DeviceHealth, DriveLog, NvmeHealth};

/// The name of a drive that the text does not name.
const UNNAMED: &str = "drive";

/// The report so far.
#[derive(Debug, Default)]
pub(super) struct SmartText {
    is_open: bool,
    device: Option<String>,
    model: Option<String>,
    drive: DriveLog,
    nvme: Option<NvmeHealth>,
}

/// Whether a line begins such a report.
pub(super) fn begins(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("smartctl ") && (line.contains("[") || device_in(line).is_some())
        || line.starts_with("=== START OF ")
        || line.starts_with("ID# ATTRIBUTE_NAME")
}

/// The disk of a command such as `smartctl -a /dev/sda`.
fn device_in(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("/dev/")?;
    rest.split_whitespace().next()
}

impl SmartText {
    /// Reads a line; false if it is none of such a report.
    pub fn line(&mut self, line: &str, book: &mut CounterBook) -> bool {
        let prompt = line.trim_start().trim_start_matches(['#', '$', ' ']);
        if prompt.starts_with("smartctl ") && device_in(prompt).is_some() {
            self.end(book);
            self.device = device_in(prompt).map(str::to_owned);
            self.is_open = true;
            return true;
        }
        if begins(line) {
            self.is_open = true;
            return true;
        }
        if self.is_open && !self.attribute(line) {
            self.field(line);
        }
        // What else an open report prints is no line of another tool.
        self.is_open
    }

    /// `197 Current_Pending_Sector  0x0032   100   100   000    Old_age   Always       -       1`.
    fn attribute(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, name, flag, _, _, _, kind, _, failed, raw, ..] = words[..] else { return false };
        let (Ok(id), true) = (id.parse::<u32>(), flag.starts_with("0x")) else { return false };
        let is_name = name.contains('_');
        let value = raw.split(['/', 'h']).next().and_then(|part| part.parse::<u64>().ok());
        let drive = &mut self.drive;
        if failed == "FAILING_NOW" && kind == "Pre-fail" {
            // The drive's own verdict, of which `-A` prints no more.
            drive.passed = Some(false);
        }
        match id {
            5 => drive.reallocated_sectors = value,
            187 => drive.reported_errors = value,
            190 | 194 => drive.temperature_c = value.map(|degrees| degrees as i64),
            197 => drive.pending_sectors = value,
            198 => drive.uncorrectable_sectors = value,
            199 => drive.interface_errors = value,
            _ => {}
        }
        is_name
    }

    /// `Device Model:     WDC WD40EFAX`, `Percentage Used:                    4%`.
    fn field(&mut self, line: &str) {
        if line.trim_start().starts_with("SMART/Health Information (NVMe") {
            self.nvme.get_or_insert_default();
            return;
        }
        let Some((name, value)) = line.split_once(':') else { return };
        let (name, value) = (name.trim(), value.trim());
        match name {
            "Device Model" | "Model Number" | "Product" => self.model = Some(value.to_owned()),
            "SMART overall-health self-assessment test result" | "SMART Health Status" => {
                let passed = matches!(value, "PASSED" | "OK");
                self.drive.passed = self.drive.passed.filter(|passed| !passed).or(Some(passed));
            }
            _ => self.nvme_field(name, value),
        }
    }

    fn nvme_field(&mut self, name: &str, value: &str) {
        let names = [
            "Critical Warning",
            "Temperature",
            "Available Spare",
            "Available Spare Threshold",
            "Percentage Used",
            "Media and Data Integrity Errors",
            "Error Information Log Entries",
            "Unsafe Shutdowns",
            "Power On Hours",
            "Warning  Comp. Temperature Time",
            "Critical Comp. Temperature Time",
        ];
        let Some(nvme) = self.nvme.as_mut().filter(|_| names.contains(&name)) else { return };
        let first = value.split_whitespace().next().unwrap_or("").replace(',', "");
        let number = match first.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => number(&first).map(|number| number.max(0.0) as u64),
        };
        let known = match name {
            "Media and Data Integrity Errors" => "media_errors",
            "Error Information Log Entries" => "num_err_log_entries",
            "Warning  Comp. Temperature Time" => "warning_temp_time",
            "Critical Comp. Temperature Time" => "critical_comp_time",
            other => other,
        };
        set_nvme(known, number.unwrap_or(0), nvme);
    }

    /// Ends the report.
    pub fn end(&mut self, book: &mut CounterBook) {
        let SmartText { is_open, device, model, drive, nvme } = std::mem::take(self);
        if !is_open || drive == DriveLog::default() && nvme.is_none() {
            return;
        }
        let health = DeviceHealth {
            asked_ns: book.now_ns(),
            drive: Some(drive).filter(|_| nvme.is_none()),
            nvme,
            ..DeviceHealth::default()
        };
        let name = device.as_deref().unwrap_or(UNNAMED);
        // smartctl may name the controller instead of its disk.
        let is_controller = name
            .strip_prefix("nvme")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let name = if is_controller { book.disk_of(name) } else { name.to_owned() };
        book.health(&name, model.as_deref(), health);
    }
}
