//! `iowhy-fleet simulate`: a fleet with loads of day and night, whose drives, hosts and racks
//! differ by nature and whose hosts have slower hours, and planted trouble: one slow drive, a slow
//! host, a bad firmware, a kernel that costs 7 ms, a noisy rack, a program that writes many times
//! the bytes of its calls. One seed gives one fleet.
//!
//! | where | what |
//! |---|---|
//! | here | the fleet, and writing it |
//! | [`host`] | what a host is and has |
//! | [`load`] | what it does in ten minutes |
//! | [`writing`] | which programs do it |
//!
//! What does not belong here: judging it.

pub mod host;
pub mod load;
pub mod writing;

use crate::clock::{FleetHour, GivenSpan, HOUR_S, WINDOW_S};
use crate::compact::write_hour;
use crate::error::{FleetContext, FleetError, Result};
use crate::store::Place;
use crate::tables::rows::FleetRows;
use crate::upload::Upload;
use futures::{StreamExt, TryStreamExt};
use host::SimulatedHost;
use serde::Serialize;
use std::sync::Arc;

/// Uploads that are written at the same time.
const UPLOADS_AT_ONCE: usize = 64;

/// The planted trouble. `None` and `false` plant nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlantedTrouble {
    /// The factor by which one drive is slower, and the hour of the simulation from which on it is.
    pub slow_drive: Option<(f64, i64)>,
    /// The factor by which writes are slower with the bad firmware.
    pub firmware: Option<f64>,
    /// The time that a write takes longer with the new kernel, ns, and the hour from which on a
    /// part of the hosts has it.
    pub kernel: Option<(f64, i64)>,
    /// The factor by which one rack is slower.
    pub rack: Option<f64>,
    /// The factor by which all drives of one host are slower.
    pub host: Option<f64>,
    /// Bytes that one program writes for each byte of its calls, on a part of the hosts.
    pub writer: Option<f64>,
}

impl PlantedTrouble {
    /// Returns all of it.
    pub const fn all() -> PlantedTrouble {
        PlantedTrouble {
            slow_drive: Some((4.0, 9)),
            firmware: Some(1.6),
            kernel: Some((7e6, 14)),
            rack: Some(1.5),
            host: Some(2.2),
            writer: Some(40.0),
        }
    }

    /// Returns none of it: a healthy fleet.
    pub const fn none() -> PlantedTrouble {
        PlantedTrouble {
            slow_drive: None,
            firmware: None,
            kernel: None,
            rack: None,
            host: None,
            writer: None,
        }
    }
}

/// A fleet to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    /// Hosts.
    pub hosts: usize,
    /// The beginning, seconds since 1970; a full hour.
    pub from_s: i64,
    /// Its length in hours.
    pub hours: i64,
    /// The seed.
    pub seed: u64,
    /// The planted trouble.
    pub trouble: PlantedTrouble,
}

/// The planted trouble with its places, to compare answers with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlantedTruth {
    /// The slow drive's host, device, model and serial number.
    pub slow_drive: Option<[String; 4]>,
    /// The time from which on it is slow, seconds since 1970.
    pub slow_since_s: Option<i64>,
    /// The bad firmware's model and revision.
    pub firmware: Option<[String; 2]>,
    /// The kernel that costs more.
    pub kernel: Option<String>,
    /// The noisy rack.
    pub rack: Option<String>,
    /// The host that is slow as a whole.
    pub host: Option<String>,
    /// The program that writes many times the bytes of its calls.
    pub writer: Option<String>,
}

/// The size of the written data.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedSize {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files, or uploads.
    pub files: u64,
    /// Rows.
    pub rows: u64,
}

impl FleetPlan {
    /// A fleet of so many hosts and hours that ends with the last full hour.
    pub fn new(hosts: usize, length: GivenSpan, now_s: i64) -> FleetPlan {
        let hours = (length.0 / HOUR_S).max(1);
        let from_s = FleetHour::from_seconds(now_s).begin_s() - hours * HOUR_S;
        FleetPlan { hosts, from_s, hours, seed: 1, trouble: PlantedTrouble::all() }
    }

    /// The hosts, in the order of their names.
    pub fn fleet(&self) -> Vec<SimulatedHost> {
        let mut hosts: Vec<SimulatedHost> =
            (0..self.hosts).map(|index| SimulatedHost::new(self, index)).collect();
        hosts.sort_by(|a, b| a.host.name.cmp(&b.host.name));
        hosts
    }

    /// Returns the planted trouble with its places.
    pub fn truth(&self) -> PlantedTruth {
        let hosts = self.fleet();
        let sick = hosts.iter().find(|host| host.index == host::SICK_HOST);
        let drive = sick.and_then(|host| Some((host, host.upload_drives().into_iter().next()?)));
        let drive = drive.filter(|_| self.trouble.slow_drive.is_some());
        let slow = hosts.iter().find(|host| host.index == host::SLOW_HOST);
        let slow = slow.filter(|_| self.trouble.host.is_some());
        PlantedTruth {
            slow_drive: drive.map(|(host, (device, drive))| {
                [host.host.name.clone(), device, drive.model, drive.serial]
            }),
            slow_since_s: self.trouble.slow_drive.map(|(_, hour)| self.from_s + hour * HOUR_S),
            firmware: self.trouble.firmware.map(|_| {
                [host::MODELS[0].model.to_owned(), host::MODELS[0].firmware[1].to_owned()]
            }),
            kernel: self.trouble.kernel.map(|_| host::NEW_KERNEL.to_owned()),
            rack: self.trouble.rack.map(|_| host::noisy_rack(self.hosts)),
            host: slow.map(|host| host.host.name.clone()),
            writer: self.trouble.writer.map(|_| writing::HEAVY_WRITER.to_owned()),
        }
    }

    fn hour(&self, index: i64) -> FleetHour {
        FleetHour::from_seconds(self.from_s + index * HOUR_S)
    }

    /// Writes the fleet as compaction leaves it.
    ///
    /// # Errors
    /// Fails if the store fails, or has data of that time.
    pub async fn write(&self, place: &Place) -> Result<SimulatedSize> {
        let hosts = Arc::new(self.fleet());
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        let make = |index: i64| {
            let (plan, hosts) = (self.clone(), Arc::clone(&hosts));
            async move {
                let hour = plan.hour(index);
                let rows = tokio::task::spawn_blocking(move || plan.rows(&hosts, index)).await;
                let rows = rows.context(|| "simulate an hour".to_owned())??;
                write_hour(place, hour, rows).await
            }
        };
        let mut size = SimulatedSize::default();
        let mut hours = futures::stream::iter((0..self.hours).map(make)).buffered(at_once);
        while let Some(commit) = hours.try_next().await? {
            for file in commit.files {
                size.bytes += file.bytes;
                size.rows += file.rows;
                size.files += 1;
            }
        }
        Ok(size)
    }

    fn rows(&self, hosts: &[SimulatedHost], hour: i64) -> Result<FleetRows> {
        let mut rows = FleetRows::default();
        for host in hosts {
            for upload in self.uploads(host, hour) {
                rows.add(&upload, Some(0))?;
            }
        }
        Ok(rows)
    }

    /// Returns the uploads of a host in an hour of the simulation.
    pub fn uploads(&self, host: &SimulatedHost, hour: i64) -> Vec<Upload> {
        let windows =
            (0..HOUR_S / WINDOW_S).map(|window| self.from_s + hour * HOUR_S + window * WINDOW_S);
        let mut uploads: Vec<Upload> =
            windows.map(|window_s| load::upload(self, host, window_s)).collect();
        uploads.extend(load::incident(self, host, hour));
        uploads
    }

    /// Writes the fleet as its hosts upload it.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn upload(&self, place: &Place) -> Result<SimulatedSize> {
        let hosts = self.fleet();
        let mut size = SimulatedSize::default();
        for hour in 0..self.hours {
            let uploads = hosts.iter().flat_map(|host| self.uploads(host, hour));
            let writes = uploads.map(|upload| async move {
                let bytes = upload.encode()?;
                let length = bytes.len() as u64;
                place.write(&place.path(&upload.name().path()), bytes.into()).await?;
                Ok::<u64, FleetError>(length)
            });
            let mut writes = futures::stream::iter(writes).buffer_unordered(UPLOADS_AT_ONCE);
            while let Some(bytes) = writes.try_next().await? {
                size.bytes += bytes;
                size.files += 1;
            }
        }
        Ok(size)
    }
}
