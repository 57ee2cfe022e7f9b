//! The upload of one host: ten minutes of its figures, or an incident, as compressed JSON. It is
//! the only thing that hosts write, so everything in it is untrusted and bounded here.
//!
//! What does not belong here: its source, and the tables that it becomes.

use crate::error::{FleetContext, FleetError, Result};
use crate::histogram::{LatencyBin, bin_of};
use crate::layout::{UploadKind, UploadName};
use crate::writers::{KINDS, WriterId, WriterSums};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;

/// The version of an upload.
pub const UPLOAD_VERSION: u32 = 1;
/// Bytes of an object; a larger one is refused unread.
pub const MOST_OBJECT_BYTES: u64 = 256 << 10;
/// Text of an upload, unpacked.
const MOST_TEXT_BYTES: u64 = 2 << 20;
/// Devices, wait classes, containers, findings of an upload.
const MOST_ENTRIES: usize = 256;
/// Bins of a histogram: half octaves of 64 bits.
const MOST_BINS: usize = 130;
/// Bytes of a name.
const MOST_NAME_BYTES: usize = 512;
/// Bytes of a sentence.
const MOST_SENTENCE_BYTES: usize = 4096;
/// The largest figure that is accepted: 2^53, which every reader has exactly.
pub(crate) const MOST_COUNT: u64 = 1 << 53;

/// Ten minutes of a host, or an incident of it. Times in nanoseconds unless named otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upload {
    /// The layout's version, [`UPLOAD_VERSION`].
    pub version: u32,
    /// The identity of the host.
    pub host: UploadHost,
    /// The beginning of the window, seconds since 1970.
    pub window_s: i64,
    /// Minutes of the window that have figures.
    pub minutes: u8,
    /// The host's clock when this was sent, seconds since 1970.
    pub sent_s: i64,
    /// The part of the window that was watched.
    pub watched_ns: u64,
    /// Requests that have no record.
    pub lost_requests: u64,
    /// CPU time that recording cost.
    pub cost_ns: u64,
    /// The age of the oldest request in flight.
    pub oldest_ns: u64,
    /// Time in which a task waited for I/O; `None` where the kernel does not count it.
    pub pressure_some_ns: Option<u64>,
    /// Time in which every task with work to do waited for I/O.
    pub pressure_full_ns: Option<u64>,
    /// The devices.
    pub drives: BTreeMap<String, UploadDrive>,
    /// Requests by device and operation.
    pub flows: BTreeMap<String, BTreeMap<String, UploadFlow>>,
    /// Blocked time by wait class.
    pub blocked: BTreeMap<String, u64>,
    /// Requests by container, unit or cgroup.
    pub containers: BTreeMap<String, UploadUse>,
    /// Findings at warning or above.
    pub findings: Vec<UploadFinding>,
    /// The writers; the rows of a device add up to its bytes written and read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<UploadWriter>,
    /// The incident, in an upload that is of one.
    pub incident: Option<UploadIncident>,
}

/// The identity of a host, and the attributes that it shares with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadHost {
    /// 16 hexadecimal digits, from machine id and name.
    pub id: String,
    /// Its name; two hosts may have the same.
    pub name: String,
    /// The unit that shares power, network or a shelf.
    pub rack: String,
    /// The kernel's release.
    pub kernel: String,
    /// iowhy's version.
    pub iowhy: String,
}

/// A device; fields that it does not report are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadDrive {
    /// The model.
    pub model: String,
    /// The firmware's revision.
    pub firmware: String,
    /// The serial number.
    pub serial: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Whether it rotates; `None` if that is not known.
    pub rotational: Option<bool>,
}

/// The requests of one device and operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadFlow {
    /// Requests that completed.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The longest time from queueing to completion.
    pub max_ns: u64,
    /// Counts by latency: the shortest time of a bin of half an octave, and its requests.
    pub latency: Vec<LatencyBin>,
    /// Their time together, ns, if more is known than the histogram has. No host sends it.
    #[serde(skip)]
    pub time_ns: Option<u64>,
}

/// The I/O of a container, unit or cgroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadUse {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time from queueing to completion.
    pub time_ns: u64,
}

/// A finding, once for a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadFinding {
    /// The cause's id.
    pub cause: String,
    /// `warning` or `critical`.
    pub severity: String,
    /// The device.
    pub device: Option<String>,
    /// The process.
    pub process: Option<String>,
    /// Minutes of the window that had it.
    pub minutes: u8,
}

/// The bytes that one program wrote and read of one file, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadWriter {
    /// The program and file.
    #[serde(flatten)]
    pub id: WriterId,
    /// The figures.
    #[serde(flatten)]
    pub sums: WriterSums,
}

/// An incident with the finding that came first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadIncident {
    /// Its number on the host.
    pub number: u32,
    /// The time of its trigger, nanoseconds since 1970.
    pub begun_ns: i64,
    /// The end of its recording, nanoseconds since 1970.
    pub until_ns: i64,
    /// The kind of its trigger.
    pub kind: String,
    /// The sentence of the condition that began it.
    pub reason: String,
    /// The cause's id; empty without a finding.
    pub cause: String,
    /// The finding's severity.
    pub severity: String,
    /// The finding's confidence.
    pub confidence: String,
    /// The finding in one sentence.
    pub sentence: String,
    /// Its device.
    pub device: Option<String>,
    /// Its process.
    pub process: Option<String>,
    /// Its container.
    pub container: Option<String>,
    /// Its file.
    pub file: Option<String>,
    /// The fix.
    pub fix: String,
    /// The name of its recording in the store; `None` if it was not uploaded.
    pub recording: Option<String>,
}

impl Upload {
    /// The name of its object.
    pub fn name(&self) -> UploadName {
        let kind = match &self.incident {
            Some(incident) => UploadKind::Incident(incident.number),
            None => UploadKind::Minutes(self.minutes),
        };
        UploadName { host_id: self.host.id.clone(), window_s: self.window_s, kind }
    }

    /// The object's content.
    ///
    /// # Errors
    /// Fails if it would be too large to be accepted.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(self).context(|| "write an upload".to_owned())?;
        let packed =
            zstd::stream::encode_all(text.as_slice(), 9).context(|| "pack an upload".to_owned())?;
        match packed.len() as u64 <= MOST_OBJECT_BYTES && text.len() as u64 <= MOST_TEXT_BYTES {
            true => Ok(packed),
            false => Err(FleetError::new(format!(
                "failed to pack the window {}: it is larger than an upload may be",
                self.window_s
            ))),
        }
    }

    /// Decodes an upload, and checks that everything in it is within its limits and matches its
    /// name.
    ///
    /// # Errors
    /// Fails with the defect, in words that have nothing of its content.
    pub fn decode(name: &UploadName, packed: &[u8]) -> std::result::Result<Upload, &'static str> {
        if packed.len() as u64 > MOST_OBJECT_BYTES {
            return Err("is too large");
        }
        let unpacked = zstd::stream::read::Decoder::with_buffer(packed);
        let mut decoder = unpacked.map_err(|_| "is not compressed")?;
        // A frame may ask for gigabytes before it has a byte.
        decoder.window_log_max(23).map_err(|_| "is not compressed")?;
        let mut text = Vec::new();
        decoder
            .take(MOST_TEXT_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|_| "is cut short or not compressed")?;
        if text.len() as u64 > MOST_TEXT_BYTES {
            return Err("is too large once unpacked");
        }
        let upload: Upload =
            serde_json::from_slice(&text).map_err(|_| "has another form than an upload")?;
        upload.check()?;
        match upload.name() == *name {
            true => Ok(upload),
            false => Err("has another host or time than its name"),
        }
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.version != UPLOAD_VERSION {
            return Err("is of another version");
        }
        let entries = [
            self.drives.len(),
            self.flows.len(),
            self.blocked.len(),
            self.containers.len(),
            self.findings.len(),
            self.writers.len(),
        ];
        if entries.iter().any(|count| *count > MOST_ENTRIES) {
            return Err("has too many entries");
        }
        let counts = [
            self.watched_ns,
            self.lost_requests,
            self.cost_ns,
            self.oldest_ns,
            self.pressure_some_ns.unwrap_or(0),
            self.pressure_full_ns.unwrap_or(0),
        ];
        let counts = counts.into_iter().chain(self.blocked.values().copied());
        let uses = self.containers.values();
        let counts = counts.chain(uses.flat_map(|uses| [uses.requests, uses.bytes, uses.time_ns]));
        if counts
            .chain(self.drives.values().map(|drive| drive.size_bytes))
            .any(|count| count > MOST_COUNT)
        {
            return Err("has a figure that cannot be measured");
        }
        self.writers.iter().try_for_each(UploadWriter::check)?;
        for operations in self.flows.values() {
            if operations.len() > MOST_ENTRIES {
                return Err("has too many entries");
            }
            operations.values().try_for_each(UploadFlow::check)?;
        }
        match self.names().any(|name| name.len() > MOST_NAME_BYTES) {
            true => Err("has a name that is too long"),
            false => self.incident.as_ref().map_or(Ok(()), UploadIncident::check),
        }
    }

    /// All names in it but those of an incident.
    fn names(&self) -> impl Iterator<Item = &String> {
        let host = &self.host;
        let own = [&host.name, &host.rack, &host.kernel, &host.iowhy].into_iter();
        let drives = self.drives.iter();
        let drives =
            drives.flat_map(|(name, drive)| [name, &drive.model, &drive.firmware, &drive.serial]);
        let operations = self.flows.values().flat_map(BTreeMap::keys);
        let findings = self.findings.iter().flat_map(|finding| {
            let some = [finding.device.as_ref(), finding.process.as_ref()].into_iter().flatten();
            [&finding.cause, &finding.severity].into_iter().chain(some)
        });
        own.chain(drives)
            .chain(self.flows.keys())
            .chain(operations)
            .chain(self.blocked.keys())
            .chain(self.containers.keys())
            .chain(findings)
            .chain(self.writers.iter().flat_map(|row| row.id.names()))
    }
}

impl UploadWriter {
    fn check(&self) -> std::result::Result<(), &'static str> {
        if !KINDS.contains(&self.id.kind.as_str()) {
            return Err("has a writer of no known kind");
        }
        match self.sums.figures().into_iter().any(|figure| figure > MOST_COUNT) {
            true => Err("has a figure that cannot be measured"),
            false => Ok(()),
        }
    }
}

impl UploadFlow {
    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.latency.len() > MOST_BINS {
            return Err("has too many bins");
        }
        let counts = [self.requests, self.bytes, self.max_ns].into_iter();
        if counts.chain(self.latency.iter().map(|bin| bin.1)).any(|count| count > MOST_COUNT) {
            return Err("has a figure that cannot be measured");
        }
        let rises = self.latency.windows(2).all(|pair| pair[0].0 < pair[1].0);
        match rises && self.latency.iter().all(|bin| bin_of(bin.0) == bin.0) {
            true => Ok(()),
            false => Err("has a histogram whose bins are not those of the recorder"),
        }
    }
}

impl UploadIncident {
    fn check(&self) -> std::result::Result<(), &'static str> {
        let optional = [&self.device, &self.process, &self.container, &self.file, &self.recording];
        let names = [&self.kind, &self.cause, &self.severity, &self.confidence].into_iter();
        if names.chain(optional.into_iter().flatten()).any(|name| name.len() > MOST_NAME_BYTES) {
            return Err("has a name that is too long");
        }
        let sentences = [&self.reason, &self.sentence, &self.fix];
        match sentences.into_iter().any(|text| text.len() > MOST_SENTENCE_BYTES) {
            true => Err("has a sentence that is too long"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload() -> Upload {
        let host = UploadHost { id: "0123456789abcdef".to_owned(), ..UploadHost::default() };
        let flow = UploadFlow { requests: 3, latency: vec![(4, 1), (6, 2)], ..Default::default() };
        let flows = [("sda".to_owned(), [("read".to_owned(), flow)].into())].into();
        let (version, window_s, minutes) = (UPLOAD_VERSION, 1_763_943_600, 10);
        Upload { version, host, window_s, minutes, flows, ..Upload::default() }
    }

    fn refused(upload: &Upload) -> &'static str {
        Upload::decode(&upload.name(), &upload.encode().unwrap()).unwrap_err()
    }

    #[test]
    fn an_upload_is_read_as_it_was_written() {
        let upload = upload();
        let packed = upload.encode().unwrap();
        assert_eq!(Upload::decode(&upload.name(), &packed), Ok(upload.clone()));
        for end in 0..packed.len() {
            assert!(Upload::decode(&upload.name(), &packed[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn an_upload_is_of_the_host_that_its_name_says() {
        let mut name = upload().name();
        name.host_id = "ffffffffffffffff".to_owned();
        assert!(Upload::decode(&name, &upload().encode().unwrap()).is_err());
    }

    #[test]
    fn a_bomb_is_refused_by_its_size() {
        let bomb = zstd::stream::encode_all(vec![b' '; 64 << 20].as_slice(), 19).unwrap();
        assert!((bomb.len() as u64) < MOST_OBJECT_BYTES);
        assert_eq!(Upload::decode(&upload().name(), &bomb), Err("is too large once unpacked"));
        let nested = zstd::stream::encode_all("[".repeat(1 << 20).as_bytes(), 3).unwrap();
        assert!(Upload::decode(&upload().name(), &nested).is_err());
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused() {
        let mut long = upload();
        long.host.name = "x".repeat(MOST_NAME_BYTES + 1);
        assert_eq!(refused(&long), "has a name that is too long");
        let mut many = upload();
        many.blocked =
            (0..=MOST_ENTRIES as u64).map(|number| (number.to_string(), number)).collect();
        assert_eq!(refused(&many), "has too many entries");
        let mut huge = upload();
        huge.watched_ns = u64::MAX;
        assert_eq!(refused(&huge), "has a figure that cannot be measured");
        let mut writer = upload();
        writer.writers = vec![UploadWriter::default(); MOST_ENTRIES + 1];
        assert_eq!(refused(&writer), "has too many entries");
        writer.writers.truncate(1);
        writer.writers[0].sums.syncs = u64::MAX;
        assert_eq!(refused(&writer), "has a figure that cannot be measured");
        writer.writers[0] = UploadWriter::default();
        writer.writers[0].id.file = "x".repeat(MOST_NAME_BYTES + 1);
        assert_eq!(refused(&writer), "has a name that is too long");
        writer.writers[0].id.kind = "x".to_owned();
        assert_eq!(refused(&writer), "has a writer of no known kind");
        for bins in [vec![(6, 1), (4, 1)], vec![(5, 1)], vec![(4, 1), (4, 1)]] {
            let mut wrong = upload();
            wrong.flows.get_mut("sda").unwrap().get_mut("read").unwrap().latency = bins;
            assert!(refused(&wrong).contains("histogram"));
        }
        let mut newer = upload();
        newer.version += 1;
        assert_eq!(refused(&newer), "is of another version");
    }
}
