//! `iowhy-fleet compact`: uploads of an hour become one file for each table. What a host wrote is
//! checked here, and nowhere after: queries read only files that compaction made.
//!
//! An hour is merged in an order that bears being killed anywhere: new files are written under new
//! names, then the commit that makes them count. What they replace stays for a while, because
//! queries read it, and is removed by a later run, as is what a killed run leaves. Merging again
//! what is merged changes nothing.
//!
//! What does not belong here: what is valid in an upload (`upload`).

use crate::clock::{EARLIEST_S, FleetHour, MOST_AHEAD_S, WINDOW_S, now_s};
use crate::commit::{self, CommittedFile, HourCommit, MOST_REFUSED, RefusedUpload};
use crate::error::{FleetError, Result};
use crate::layout::{
    COMMITS, INCOMING, LAYOUT_VERSION, UploadKind, UploadName, parse_commit, table_generation,
    table_path,
};
use crate::store::Place;
use crate::tables::file::{self, RowOrigin};
use crate::tables::rows::FleetRows;
use crate::tables::{FleetTable, HOSTS, INCIDENTS, TABLES};
use crate::upload::{MOST_OBJECT_BYTES, Upload};
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Uploads that are merged at once, which bounds memory.
const MOST_AT_ONCE: usize = 20_000;
/// Uploads that are read at the same time.
const READS_AT_ONCE: usize = 16;
/// A file of a table is smaller: an hour of 10,000 hosts is about 15 MB.
const MOST_FILE_BYTES: u64 = 4 << 30;
/// What was replaced stays so long, seconds: longer than queries may take by default.
pub const GRACE_S: i64 = 900;
/// Tries against other compactions of the same hour.
const TRIES: usize = 4;

/// What a compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Hours that have a new state.
    pub hours: usize,
    /// Uploads that were merged.
    pub merged: usize,
    /// Uploads that had been merged before, or that later ones of the same window supersede.
    pub superseded: usize,
    /// Uploads that were refused, with reasons.
    pub refused: Vec<RefusedUpload>,
    /// Names of what is among the uploads and can be none. It stays where it is.
    pub strange: Vec<String>,
    /// Hours that had uploads.
    touched: HashSet<FleetHour>,
}

/// Merges every upload that is there, and removes what was replaced `grace_s` seconds ago.
///
/// # Errors
/// When the store fails. What was merged until then counts.
pub async fn compact(place: &Place, grace_s: i64) -> Result<CompactReport> {
    let mut report = CompactReport::default();
    let mut hours: BTreeMap<FleetHour, Vec<ObjectMeta>> = BTreeMap::new();
    let listing = place.listing(INCOMING).await?;
    report.strange = listing.strange;
    for object in listing.objects {
        // What is in no hour's folder is no upload and has no hour to be refused in.
        match hour_of(object.location.as_ref()) {
            Some(hour) => hours.entry(hour).or_default().push(object),
            None => report.strange.push(object.location.filename().unwrap_or_default().to_owned()),
        }
    }
    for (hour, objects) in hours {
        for part in objects.chunks(MOST_AT_ONCE) {
            merge_hour(place, hour, part, &mut report).await?;
        }
    }
    for (hour, states) in states(place).await? {
        if states.len() > 1 || report.touched.contains(&hour) {
            remove_replaced(place, hour, &states, now_s() - grace_s).await?;
        }
    }
    Ok(report)
}

/// The states of each hour with their commits, the oldest first.
async fn states(place: &Place) -> Result<BTreeMap<FleetHour, Vec<(u32, ObjectMeta)>>> {
    let mut hours: BTreeMap<FleetHour, Vec<(u32, ObjectMeta)>> = BTreeMap::new();
    for object in place.list(COMMITS).await? {
        if let Some((hour, generation)) = parse_commit(object.location.as_ref()) {
            hours.entry(hour).or_default().push((generation, object));
        }
    }
    hours.values_mut().for_each(|states| states.sort_by_key(|state| state.0));
    Ok(hours)
}

fn hour_of(path: &str) -> Option<FleetHour> {
    let mut parts = path.split('/').rev().skip(1);
    let hour = parts.next()?;
    FleetHour::parse(parts.next()?, hour)
}

async fn merge_hour(
    place: &Place,
    hour: FleetHour,
    objects: &[ObjectMeta],
    report: &mut CompactReport,
) -> Result<()> {
    for _ in 0..TRIES {
        let before = commit::of_hour(place, hour).await?;
        let before = before.unwrap_or_else(|| HourCommit {
            version: LAYOUT_VERSION,
            hour_s: hour.begin_s(),
            ..HourCommit::default()
        });
        let known = KnownRows::read(place, &before).await?;
        let sorted = SortedUploads::read(place, objects, &known).await?;
        // An hour that only wrong clocks know of gets no state.
        let is_known = before.generation > 0;
        if !sorted.uploads.is_empty() || (is_known && !sorted.refused.is_empty()) {
            if merged(place, &before, &sorted).await?.is_none() {
                continue;
            }
            report.hours += 1;
        }
        report.touched.insert(hour);
        place.remove(objects.iter().map(|it| it.location.clone()).collect()).await?;
        report.merged += sorted.uploads.len();
        report.superseded += sorted.superseded;
        report.refused.extend(sorted.refused);
        return Ok(());
    }
    Err(FleetError::new(format!("failed to merge {hour}: another compaction always won"))
        .transient())
}

/// What an hour has already.
#[derive(Default)]
struct KnownRows {
    minutes: HashMap<RowOrigin, u8>,
    incidents: HashSet<(String, u32)>,
}

impl KnownRows {
    async fn read(place: &Place, commit: &HourCommit) -> Result<KnownRows> {
        let mut known = KnownRows::default();
        if let Some(bytes) = bytes_of(place, commit, &HOSTS).await? {
            let add = |rows: &RecordBatch| {
                file::add_minutes(rows, &mut known.minutes);
                Ok(())
            };
            file::for_each_batch(&HOSTS, bytes, add)?;
        }
        if let Some(bytes) = bytes_of(place, commit, &INCIDENTS).await? {
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

async fn bytes_of(place: &Place, commit: &HourCommit, table: &FleetTable) -> Result<Option<Bytes>> {
    let Some(committed) = commit.file(table.name) else { return Ok(None) };
    let path = place.path(&committed.path);
    // Gone: another compaction has replaced it since the commit was read.
    let bytes = place
        .read(&path, MOST_FILE_BYTES)
        .await?
        .ok_or_else(|| FleetError::new(format!("failed to read {path}: it is gone")).transient())?;
    Ok(Some(bytes))
}

/// Uploads of an hour by what becomes of them.
#[derive(Default)]
struct SortedUploads {
    /// Those to merge, with the difference of the clocks, seconds.
    uploads: Vec<(Upload, i64)>,
    superseded: usize,
    refused: Vec<RefusedUpload>,
}

impl SortedUploads {
    async fn read(
        place: &Place,
        objects: &[ObjectMeta],
        known: &KnownRows,
    ) -> Result<SortedUploads> {
        let mut sorted = SortedUploads::default();
        let mut wanted: BTreeMap<(String, i64, u32), Vec<UploadCandidate<'_>>> = BTreeMap::new();
        for object in objects {
            match acceptable(object) {
                Err(reason) => sorted.refuse(object, reason),
                Ok(name) if known.has(&name) => sorted.superseded += 1,
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
        while let Some(mut found) = reads.try_next().await? {
            sorted.uploads.append(&mut found.uploads);
            sorted.refused.append(&mut found.refused);
            sorted.superseded += found.superseded;
        }
        Ok(sorted)
    }

    fn refuse(&mut self, object: &ObjectMeta, reason: &str) {
        let name: String =
            object.location.filename().unwrap_or_default().chars().take(80).collect();
        self.refused.push(RefusedUpload { name, reason: reason.to_owned() });
    }
}

/// An upload that may be merged.
struct UploadCandidate<'a> {
    name: UploadName,
    object: &'a ObjectMeta,
}

/// Of several uploads of one window, the valid one with the most minutes.
async fn first_valid(
    place: &Place,
    mut candidates: Vec<UploadCandidate<'_>>,
) -> Result<SortedUploads> {
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.name.kind));
    let mut sorted = SortedUploads::default();
    for UploadCandidate { name, object } in candidates {
        if !sorted.uploads.is_empty() {
            sorted.superseded += 1;
            continue;
        }
        // Gone: another compaction has merged it.
        let bytes = place.read(&object.location, MOST_OBJECT_BYTES).await?;
        let Some(bytes) = bytes else { continue };
        match Upload::decode(&name, &bytes) {
            Ok(upload) => {
                let skew_s = object.last_modified.timestamp().saturating_sub(upload.sent_s);
                sorted.uploads.push((upload, skew_s));
            }
            Err(reason) => sorted.refuse(object, reason),
        }
    }
    Ok(sorted)
}

/// The name of an upload that is worth reading, or what is wrong with it.
fn acceptable(object: &ObjectMeta) -> std::result::Result<UploadName, &'static str> {
    let name = UploadName::parse(object.location.as_ref()).ok_or("has no name of an upload")?;
    if object.size > MOST_OBJECT_BYTES {
        return Err("is too large");
    }
    let ends_s = name.window_s.saturating_add(WINDOW_S);
    if ends_s > object.last_modified.timestamp().saturating_add(MOST_AHEAD_S) {
        return Err("is from the future: the host's clock is wrong");
    }
    match name.window_s < EARLIEST_S {
        true => Err("is from before 2020: the host's clock is wrong"),
        false => Ok(name),
    }
}

/// Writes the files of the hour's next state and commits them; `None` if another compaction won.
async fn merged(
    place: &Place,
    before: &HourCommit,
    sorted: &SortedUploads,
) -> Result<Option<HourCommit>> {
    let mut rows = FleetRows::default();
    let mut replaced: HashSet<RowOrigin> = HashSet::new();
    for (upload, skew_s) in &sorted.uploads {
        rows.add(upload, Some(*skew_s))?;
        if upload.incident.is_none() {
            replaced.insert((upload.host.id.clone(), upload.window_s));
        }
    }
    let generation = before.generation + 1;
    let mut after = HourCommit { generation, files: Vec::new(), ..before.clone() };
    for (table, new) in TABLES.into_iter().zip(rows.finish()?) {
        let old = bytes_of(place, before, table).await?;
        let nothing = HashSet::new();
        let gone = if table.name == INCIDENTS.name { &nothing } else { &replaced };
        let (bytes, rows) = file::merge(table, old, &new, gone)?;
        if rows > 0 {
            after.files.push(put(place, &after, table, bytes, rows).await?);
        }
    }
    let room = MOST_REFUSED.saturating_sub(after.refused.len());
    after.refused.extend(sorted.refused.iter().take(room).cloned());
    after.more_refused += sorted.refused.len().saturating_sub(room) as u64;
    Ok(after.publish(place).await?.then_some(after))
}

async fn put(
    place: &Place,
    commit: &HourCommit,
    table: &FleetTable,
    bytes: Bytes,
    rows: u64,
) -> Result<CommittedFile> {
    let digest = blake3::hash(&bytes).to_hex();
    let path = table_path(table.name, commit.hour(), commit.generation, &digest[..16]);
    let size = bytes.len() as u64;
    place.write(&place.path(&path), bytes).await?;
    Ok(CommittedFile { table: table.name.to_owned(), path, bytes: size, rows })
}

/// Writes an hour that nothing was known of, from these uploads.
///
/// # Errors
/// When the store fails, or the hour has a state already.
pub async fn write_hour(place: &Place, hour: FleetHour, rows: FleetRows) -> Result<HourCommit> {
    let mut commit = HourCommit {
        version: LAYOUT_VERSION,
        generation: 1,
        hour_s: hour.begin_s(),
        ..HourCommit::default()
    };
    for (table, rows) in TABLES.into_iter().zip(rows.finish()?) {
        if rows.num_rows() > 0 {
            let bytes = file::write(table, &rows)?;
            let count = rows.num_rows() as u64;
            commit.files.push(put(place, &commit, table, bytes, count).await?);
        }
    }
    match commit.publish(place).await? {
        true => Ok(commit),
        false => Err(FleetError::new(format!("failed to write {hour}: it is there already"))),
    }
}

/// Removes files and commits of an hour that were replaced before a time, and what killed runs left
/// before it. `states`: its commits, the oldest first.
async fn remove_replaced(
    place: &Place,
    hour: FleetHour,
    states: &[(u32, ObjectMeta)],
    before_s: i64,
) -> Result<()> {
    let Some((generation, _)) = states.last() else { return Ok(()) };
    let Some(commit) = commit::of_hour(place, hour).await? else { return Ok(()) };
    // Somebody else is at it.
    if commit.generation != *generation {
        return Ok(());
    }
    let is_old = |object: &ObjectMeta| object.last_modified.timestamp() <= before_s;
    // What is of a generation was replaced by the next one.
    let is_over = |generation: u32| {
        let next = states.iter().find(|state| state.0 > generation);
        next.is_some_and(|(_, next)| is_old(next))
    };
    let counts: HashSet<ObjectPath> =
        commit.files.iter().map(|file| place.path(&file.path)).collect();
    let mut gone = Vec::new();
    for table in TABLES {
        for object in place.list(&format!("table={}/{hour}", table.name)).await? {
            // A file of a later generation belongs to a compaction that is running.
            let Some(of_file) = table_generation(object.location.as_ref()) else { continue };
            let is_left = of_file == *generation && is_old(&object);
            if (is_over(of_file) || is_left) && !counts.contains(&object.location) {
                gone.push(object.location);
            }
        }
    }
    gone.extend(states.iter().filter(|it| is_over(it.0)).map(|it| it.1.location.clone()));
    place.remove(gone).await
}
