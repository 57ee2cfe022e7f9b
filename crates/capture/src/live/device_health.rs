//! Health reports of devices during a watch, and messages of the kernel's log about them.
//!
//! What does not belong here: how they are asked ([`crate::reader::health`]).

use crate::host::health::kernel_log::KernelLog;
use crate::reader::health::{AskedAt, HealthAsker, MOST_LATE, MOST_OF_ALL};
use iowhy_model::Environment;
use iowhy_model::environment::Device;
use std::time::Duration;

/// Asks devices at both ends of a watch, and in between where that is wished.
pub(super) struct DeviceReports {
    asker: HealthAsker,
    /// Time between two questions to devices during the watch, and the time of the next one.
    every: Option<Duration>,
    due_ns: u64,
    /// The kernel's log since the beginning, or why it cannot be read.
    kernel_log: Result<KernelLog, String>,
    /// Records of it that were overwritten before they were read.
    lost_messages: u64,
}

impl DeviceReports {
    /// Begins to read the kernel's log.
    pub fn new(every: Option<Duration>) -> DeviceReports {
        let (asker, kernel_log) = (HealthAsker::default(), KernelLog::open());
        DeviceReports { asker, every, due_ns: 0, kernel_log, lost_messages: 0 }
    }

    /// Asks the devices as a watch begins.
    pub fn begin(&mut self, devices: &[Device]) {
        self.asker.ask(devices, AskedAt::Start);
    }

    /// Returns a sentence about what is not visible; `None` if the kernel's log can be read.
    pub fn limit(&self) -> Option<String> {
        let reason = self.kernel_log.as_ref().err()?;
        Some(format!("not visible: resets and errors of devices in the kernel's log; {reason}"))
    }

    /// Takes answers that are there, and asks again if it is time. Counts are then compared with
    /// those of the time before, and older messages go.
    pub fn look(&mut self, now_ns: u64, devices: &mut [Device]) {
        self.asker.collect(devices);
        let Some(every) = self.every else { return };
        if now_ns < self.due_ns || !self.asker.is_idle() {
            return;
        }
        let every_ns = every.as_nanos() as u64;
        self.due_ns = now_ns.saturating_add(every_ns);
        for device in devices.iter_mut() {
            device.kernel_messages.retain(|kernel_message| {
                kernel_message.logged_ns.saturating_add(every_ns) >= now_ns
            });
        }
        if let Ok(log) = &mut self.kernel_log {
            self.lost_messages += log.take(devices);
        }
        self.asker.ask(devices, AskedAt::Again);
    }

    /// Asks for the last time, waiting for the answers, and reads the rest of the kernel's log.
    pub fn end(&mut self, environment: &mut Environment) {
        self.asker.finish(&mut environment.devices, MOST_LATE);
        self.asker.ask(&environment.devices, AskedAt::End);
        self.asker.finish(&mut environment.devices, MOST_OF_ALL);
        let meaning = "devices that were not asked for their health: too many";
        environment.losses.add("health", self.asker.left_out, meaning, false);
        if let Ok(log) = &mut self.kernel_log {
            let lost = self.lost_messages + log.take(&mut environment.devices);
            let meaning = "records of the kernel's log that were overwritten before they were read";
            environment.losses.add("kernel_log", lost, meaning, false);
        }
    }

    /// CPU time of the processes that ask, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.asker.cpu_ns()
    }
}
