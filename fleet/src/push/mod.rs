//! `iowhy-fleet push`: sends the recorder's data that the store lacks. It needs no privileges
//! except to read the recorder's directory, and goes on where it was ended, after seconds or days.
//!
//! | where | what |
//! |---|---|
//! | here | what is sent, in which order |
//! | [`pace`] | bandwidth; how long it waits before another try |
//! | [`memory`] | what was sent |
//! | `recordings` | recordings of chosen incidents |
//!
//! What does not belong here: reading the recorder's files (`spool`).

pub mod memory;
pub mod pace;
mod recordings;

use crate::clock::{FleetHour, WINDOW_S, now_s};
use crate::error::Result;
use crate::inventory::HostFiles;
use crate::redact::NameHasher;
use crate::spool::{Spool, StoredIncident};
use crate::store::Place;
use crate::upload::{UPLOAD_VERSION, Upload, UploadHost};
use memory::PushMemory;
use pace::PushPace;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds after its end at which a window is sent: its last minute is on disk by then.
const SETTLE_S: i64 = 120;
/// The age of the oldest windows that are sent, seconds: the recorder keeps a month.
const MOST_AGE_S: i64 = 35 * 24 * 3600;

/// Which incidents are sent with their recordings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum RecordingChoice {
    /// None: what was found is sent, the recordings stay.
    None,
    /// Those whose first finding is critical.
    Critical,
    /// All.
    All,
}

/// The source, the choice and the limits of an upload.
#[derive(Clone, Debug)]
pub struct PushPlan {
    /// The recorder's state directory.
    pub spool: PathBuf,
    /// The directory that remembers what was sent.
    pub state: PathBuf,
    /// The root of the host's files: `/`.
    pub root: PathBuf,
    /// The host's name; the kernel's without it.
    pub host: Option<String>,
    /// Its rack.
    pub rack: String,
    /// The choice of recordings.
    pub recordings: RecordingChoice,
    /// Replaces names.
    pub hasher: Option<NameHasher>,
    /// Bytes a second; no limit without it.
    pub bytes_per_second: Option<u64>,
    /// The time that it tries again before it gives up.
    pub patience: Duration,
    /// The current time, seconds since 1970.
    pub now_s: i64,
}

/// The counts of sent data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Windows.
    pub windows: usize,
    /// Incidents.
    pub incidents: usize,
    /// Files of recordings.
    pub files: usize,
    /// Bytes.
    pub bytes: u64,
    /// Tries that failed.
    pub retries: u32,
}

impl PushPlan {
    /// A plan with the defaults.
    pub fn new(spool: PathBuf, state: PathBuf) -> PushPlan {
        PushPlan {
            spool,
            state,
            root: PathBuf::from("/"),
            host: None,
            rack: String::new(),
            recordings: RecordingChoice::None,
            hasher: None,
            bytes_per_second: None,
            patience: Duration::from_secs(300),
            now_s: now_s(),
        }
    }

    /// Sends all that is finished and was not sent, the oldest first.
    ///
    /// # Errors
    /// Fails if the recorder's files cannot be read, or the store fails for longer than `patience`.
    /// Data that was sent before is not sent again.
    pub async fn push(&self, place: &Place) -> Result<PushReport> {
        let files = HostFiles::below(self.root.clone());
        let host = files.host(self.host.as_deref(), &self.rack)?;
        let drives = files.drives();
        let spool = Spool::new(self.spool.clone());
        let mut memory = PushMemory::open(&self.state, &host.id, place)?;
        let mut sender = PushSender {
            plan: self,
            place,
            pace: PushPace::new(self.bytes_per_second, self.patience),
            report: PushReport::default(),
        };
        let from_s = self.now_s.saturating_sub(MOST_AGE_S);
        for mut upload in spool.windows(from_s, self.now_s - SETTLE_S, &host)? {
            if memory.has_window(upload.window_s, upload.minutes) {
                continue;
            }
            upload.drives.clone_from(&drives);
            upload.drives.retain(|name, _| upload.flows.contains_key(name));
            sender.send(&mut upload).await?;
            sender.report.windows += 1;
            memory.add_window(upload.window_s, upload.minutes)?;
        }
        for stored in spool.incidents()? {
            if stored.is_complete && !memory.has_incident(stored.incident.number) {
                sender.send_incident(&host, &stored).await?;
                memory.add_incident(stored.incident.number)?;
            }
        }
        memory.forget_before(from_s)?;
        sender.report.retries = sender.pace.retries();
        Ok(sender.report)
    }

    fn wants_recording(&self, stored: &StoredIncident) -> bool {
        // A recording has names in every table.
        self.hasher.is_none()
            && match self.recordings {
                RecordingChoice::None => false,
                RecordingChoice::Critical => stored.incident.severity == "critical",
                RecordingChoice::All => true,
            }
    }
}

/// Sends one thing after another.
struct PushSender<'a> {
    plan: &'a PushPlan,
    place: &'a Place,
    pace: PushPace,
    report: PushReport,
}

impl PushSender<'_> {
    async fn send(&mut self, upload: &mut Upload) -> Result<()> {
        if let Some(hasher) = &self.plan.hasher {
            hasher.redact(upload);
        }
        let path = self.place.path(&upload.name().path());
        // Inside the loop: a try hours later needs another time to compare the clocks by.
        let bytes = loop {
            upload.sent_s = now_s();
            let bytes = bytes::Bytes::from(upload.encode()?);
            match self.place.write(&path, bytes.clone()).await {
                Ok(()) => break bytes.len() as u64,
                Err(error) => self.pace.wait_after(error).await?,
            }
        };
        self.report.bytes += bytes;
        self.pace.sent(bytes).await;
        Ok(())
    }

    /// Sends the recording first: an incident that is known has all of its files.
    async fn send_incident(&mut self, host: &UploadHost, stored: &StoredIncident) -> Result<()> {
        let mut incident = stored.incident.clone();
        if self.plan.wants_recording(stored) {
            let name = recordings::name(&host.id, incident.number);
            for file in recordings::files(&stored.path) {
                let to = self.place.path(&format!("{name}/{}", file.name));
                let sent = file.send(self.place, &to, &mut self.pace).await?;
                self.report.files += usize::from(sent > 0);
                self.report.bytes += sent;
            }
            incident.recording = Some(name);
        }
        let begun_s = incident.begun_ns.div_euclid(1_000_000_000);
        let mut upload = Upload {
            version: UPLOAD_VERSION,
            host: host.clone(),
            window_s: begun_s.div_euclid(WINDOW_S) * WINDOW_S,
            incident: Some(incident),
            ..Upload::default()
        };
        self.send(&mut upload).await?;
        self.report.incidents += 1;
        Ok(())
    }
}

/// Returns the hours with uploads that were not compacted yet, and names that are no uploads, for
/// `iowhy-fleet status`.
///
/// # Errors
/// Fails if the store cannot be listed.
pub async fn waiting(place: &Place) -> Result<(Vec<(FleetHour, usize)>, Vec<String>)> {
    let mut hours = std::collections::BTreeMap::new();
    let mut listing = place.listing(crate::layout::INCOMING).await?;
    for object in listing.objects {
        match crate::layout::UploadName::parse(object.location.as_ref()) {
            Some(name) => *hours.entry(name.hour()).or_insert(0) += 1,
            None => listing.strange.push(object.location.filename().unwrap_or_default().to_owned()),
        }
    }
    Ok((hours.into_iter().collect(), listing.strange))
}
