//! Uploads of an hour: the choice of those to merge, known or refused ones, and their rows.
//!
//! What does not belong here: files.

use super::bytes_of;
use crate::clock::{EARLIEST_S, MOST_AHEAD_S, WINDOW_S, now_s};
use crate::commit::{HourCommit, RefusedUpload};
use crate::error::Result;
use crate::host_group::HostGroup;
use crate::layout::{UploadKind, UploadName};
use crate::store::{FoundObject, Place};
use crate::tables::file::{self, RowOrigin};
use crate::tables::rows::FleetRows;
use crate::tables::{HOSTS, INCIDENTS};
use crate::upload::{MOST_OBJECT_BYTES, Upload};
use datafusion::arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Uploads that are read at the same time.
const READS_AT_ONCE: usize = 64;

/// The windows and incidents of a group of hosts that an hour has already.
#[derive(Default)]
pub(super) struct KnownRows {
    minutes: HashMap<RowOrigin, u8>,
    incidents: HashSet<(String, u32)>,
}

impl KnownRows {
    pub async fn read(place: &Place, commit: &HourCommit, group: &HostGroup) -> Result<KnownRows> {
        let mut known = KnownRows::default();
        if let Some(bytes) = bytes_of(place, commit, &HOSTS, group).await? {
            let add = |rows: &RecordBatch| {
                file::add_minutes(rows, &mut known.minutes);
                Ok(())
            };
            file::for_each_batch(&HOSTS, bytes, add)?;
        }
        if let Some(bytes) = bytes_of(place, commit, &INCIDENTS, group).await? {
            let add = |rows: &RecordBatch| {
                file::add_incidents(rows, &mut known.incidents);
                Ok(())
            };
            file::for_each_batch(&INCIDENTS, bytes, add)?;
        }
        Ok(known)
    }

    fn has(&self, name: &UploadName) -> bool {
        match name.kind {
            UploadKind::Minutes(count) => {
                let origin = (name.host_id.clone(), name.window_s);
                self.minutes.get(&origin).is_some_and(|known| *known >= count)
            }
            UploadKind::Incident(number) => {
                self.incidents.contains(&(name.host_id.clone(), number))
            }
        }
    }
}

/// Uploads of an hour, by their treatment.
#[derive(Default)]
pub(super) struct SortedUploads {
    /// The rows of those to merge.
    pub rows: FleetRows,
    /// Hosts and windows of these rows: older ones are replaced.
    pub replaced: HashSet<RowOrigin>,
    /// The number of merged uploads.
    pub merged: usize,
    /// The number of uploads that are known, or have fewer minutes than others.
    pub superseded: usize,
    pub refused: Vec<RefusedUpload>,
    /// The names of all of these.
    pub done: Vec<ObjectPath>,
    /// Those that cannot be read, and stay.
    pub closed: Vec<ObjectPath>,
}

impl SortedUploads {
    /// Reads uploads, at least one, until their rows have `most_bytes`.
    pub async fn read(
        place: &Place,
        objects: &[ObjectMeta],
        known: &KnownRows,
        most_bytes: usize,
    ) -> Result<SortedUploads> {
        let mut sorted = SortedUploads::default();
        let mut wanted: BTreeMap<(String, i64, u32), Vec<UploadCandidate<'_>>> = BTreeMap::new();
        for object in objects {
            match acceptable(object) {
                Err(reason) => sorted.refuse(object, reason),
                Ok(name) if known.has(&name) => {
                    sorted.superseded += 1;
                    sorted.done.push(object.location.clone());
                }
                Ok(name) => {
                    let incident = match name.kind {
                        UploadKind::Minutes(_) => u32::MAX,
                        UploadKind::Incident(number) => number,
                    };
                    let key = (name.host_id.clone(), name.window_s, incident);
                    wanted.entry(key).or_default().push(UploadCandidate { name, object });
                }
            }
        }
        let reads = wanted.into_values().map(|candidates| first_valid(place, candidates));
        let mut reads = futures::stream::iter(reads).buffered(READS_AT_ONCE);
        while let Some(choice) = reads.try_next().await? {
            sorted.add(choice)?;
            if sorted.rows.bytes() > most_bytes {
                break;
            }
        }
        Ok(sorted)
    }

    fn add(&mut self, choice: UploadChoice) -> Result<()> {
        if let Some((upload, skew_s)) = choice.valid {
            self.rows.add(&upload, Some(skew_s))?;
            if upload.incident.is_none() {
                self.replaced.insert((upload.host.id, upload.window_s));
            }
            self.merged += 1;
        }
        self.superseded += choice.superseded;
        self.refused.extend(choice.refused);
        self.done.extend(choice.done);
        self.closed.extend(choice.closed);
        Ok(())
    }

    fn refuse(&mut self, object: &ObjectMeta, reason: &str) {
        self.refused.push(refused(object, reason));
        self.done.push(object.location.clone());
    }
}

fn refused(object: &ObjectMeta, reason: &str) -> RefusedUpload {
    let name: String = object.location.filename().unwrap_or_default().chars().take(80).collect();
    RefusedUpload { name, reason: reason.to_owned() }
}

/// An upload that may be merged.
struct UploadCandidate<'a> {
    name: UploadName,
    object: &'a ObjectMeta,
}

/// The choice among the uploads of one window, or of one incident.
#[derive(Default)]
struct UploadChoice {
    /// The one to merge, with the difference of the clocks, seconds.
    valid: Option<(Upload, i64)>,
    superseded: usize,
    refused: Vec<RefusedUpload>,
    done: Vec<ObjectPath>,
    closed: Vec<ObjectPath>,
}

/// Chooses, of several uploads of one window, the valid one with the most minutes.
async fn first_valid(
    place: &Place,
    mut candidates: Vec<UploadCandidate<'_>>,
) -> Result<UploadChoice> {
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.name.kind));
    let mut choice = UploadChoice::default();
    for UploadCandidate { name, object } in candidates {
        if choice.valid.is_some() {
            choice.superseded += 1;
            choice.done.push(object.location.clone());
            continue;
        }
        let found = place.find(&object.location, MOST_OBJECT_BYTES).await?;
        if found == FoundObject::Closed {
            choice.closed.push(object.location.clone());
            continue;
        }
        choice.done.push(object.location.clone());
        // Gone: another compaction has merged it.
        let FoundObject::Content(bytes) = found else { continue };
        match Upload::decode(&name, &bytes) {
            Ok(upload) => {
                let skew_s = arrived_s(object).saturating_sub(upload.sent_s);
                choice.valid = Some((upload, skew_s));
            }
            Err(reason) => choice.refused.push(refused(object, reason)),
        }
    }
    Ok(choice)
}

/// The time at which an object arrived, seconds since 1970. In a directory, who sends it decides
/// which time it has, even one that is still to come.
fn arrived_s(object: &ObjectMeta) -> i64 {
    object.last_modified.timestamp().min(now_s())
}

/// Returns the name of an upload that is worth reading, or the reason for its refusal.
fn acceptable(object: &ObjectMeta) -> std::result::Result<UploadName, &'static str> {
    let name = UploadName::parse(object.location.as_ref()).ok_or("has no name of an upload")?;
    if object.size > MOST_OBJECT_BYTES {
        return Err("is too large");
    }
    let ends_s = name.window_s.saturating_add(WINDOW_S);
    if ends_s > arrived_s(object).saturating_add(MOST_AHEAD_S) {
        return Err("is from the future: the host's clock is wrong");
    }
    match name.window_s < EARLIEST_S {
        true => Err("is from before 2020: the host's clock is wrong"),
        false => Ok(name),
    }
}
