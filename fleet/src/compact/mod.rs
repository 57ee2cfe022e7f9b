//! `iowhy-fleet compact`: uploads of an hour become one file for each table, or one for each table
//! and group of hosts if there are many. Data of hosts is checked here, and nowhere after: queries
//! read only files that compaction made.
//!
//! An hour is merged in an order that is safe if it is killed anywhere: new files are written under
//! new names, then the commit that makes them count. Replaced files stay for a while, because
//! queries read them, and are removed by a later run, as are the files of a killed run. Merging
//! again changes nothing.
//!
//! | where | what |
//! |---|---|
//! | here | hours, and the states that merging makes of them |
//! | `uploads` | which uploads are merged, and their rows |
//! | `removal` | removes what was replaced |
//!
//! What does not belong here: the checks of an upload (`upload`).

mod removal;
mod uploads;

use crate::clock::{FleetHour, now_s};
use crate::commit::{self, CommittedFile, HourCommit, MOST_REFUSED, RefusedUpload};
use crate::error::{FleetError, Result};
use crate::host_group::HostGroup;
use crate::layout::{INCOMING, LAYOUT_VERSION, UploadName, table_path};
use crate::store::Place;
use crate::tables::file;
use crate::tables::rows::FleetRows;
use crate::tables::{FleetTable, INCIDENTS, TABLES};
use bytes::Bytes;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::collections::{BTreeMap, HashSet};
use uploads::{KnownRows, SortedUploads};

/// Bytes of a table's file at most: an hour of 10,000 hosts is about 15 MB.
const MOST_FILE_BYTES: u64 = 4 << 30;
/// Seconds that replaced files stay: longer than queries may take by default.
pub const GRACE_S: i64 = 900;
/// Tries against other compactions of the same hour.
const TRIES: usize = 4;

/// The amounts that are merged at once, which bound memory.
#[derive(Clone, Copy, Debug)]
pub struct CompactLimits {
    /// Uploads.
    pub uploads: usize,
    /// Bytes of their rows.
    pub row_bytes: usize,
    /// Bytes of a file: the hosts of a larger one are divided.
    pub file_bytes: usize,
}

impl Default for CompactLimits {
    fn default() -> CompactLimits {
        CompactLimits { uploads: 20_000, row_bytes: 128 << 20, file_bytes: 24 << 20 }
    }
}

/// The result of a compaction.
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
    /// Names among the uploads that can be no uploads. They stay.
    pub strange: Vec<String>,
    /// Uploads that cannot be read. They stay.
    pub closed: usize,
    /// Objects that are not needed any more and cannot be removed.
    pub left: usize,
}

/// Merges all uploads of the store, and removes files that were replaced `grace_s` seconds ago.
///
/// # Errors
/// Fails if the store fails. Uploads that were merged before count.
pub async fn compact(place: &Place, grace_s: i64) -> Result<CompactReport> {
    compact_within(place, grace_s, CompactLimits::default()).await
}

/// Compacts as [`compact`] does, with other limits.
///
/// # Errors
/// Fails if the store fails. Uploads that were merged before count.
pub async fn compact_within(
    place: &Place,
    grace_s: i64,
    limits: CompactLimits,
) -> Result<CompactReport> {
    let mut report = CompactReport::default();
    let mut hours: BTreeMap<FleetHour, Vec<ObjectMeta>> = BTreeMap::new();
    let listing = place.listing(INCOMING).await?;
    report.strange = listing.strange;
    for object in listing.objects {
        // What is no upload may be anybody's, and is not touched.
        match UploadName::parse(object.location.as_ref()) {
            Some(name) => hours.entry(name.hour()).or_default().push(object),
            None => report.strange.push(object.location.filename().unwrap_or_default().to_owned()),
        }
    }
    let touched: HashSet<FleetHour> = hours.keys().copied().collect();
    for (hour, objects) in hours {
        merge_hour(place, hour, objects, limits, &mut report).await?;
    }
    report.left += removal::remove_replaced(place, &touched, now_s() - grace_s).await?;
    Ok(report)
}

/// Merges the uploads of an hour, which are in the order of their names, one part after another.
async fn merge_hour(
    place: &Place,
    hour: FleetHour,
    mut objects: Vec<ObjectMeta>,
    limits: CompactLimits,
    report: &mut CompactReport,
) -> Result<()> {
    let (mut tries, mut has_changed) = (0, false);
    while !objects.is_empty() {
        let before = commit::of_hour(place, hour).await?;
        let before = before.unwrap_or_else(|| HourCommit {
            version: LAYOUT_VERSION,
            hour_s: hour.begin_s(),
            ..HourCommit::default()
        });
        let group = group_of(&before, &objects);
        let part = &objects[..part(&group, &objects, limits.uploads)];
        let known = KnownRows::read(place, &before, &group).await?;
        let sorted = SortedUploads::read(place, part, &known, limits.row_bytes).await?;
        // One that cannot be removed was refused by an earlier run as well.
        let refused: Vec<RefusedUpload> =
            sorted.refused.iter().filter(|it| !before.refused.contains(it)).cloned().collect();
        let has_news = !refused.is_empty() && before.refused.len() < MOST_REFUSED;
        // An hour that only wrong clocks know of gets no state.
        if sorted.merged > 0 || (before.generation > 0 && has_news) {
            let merge = HourMerge { place, before: &before, group: &group, limits };
            if !merge.run(sorted.rows, &sorted.replaced, &refused).await? {
                tries += 1;
                if tries == TRIES {
                    let message = format!("failed to merge {hour}: another compaction always won");
                    return Err(FleetError::new(message).transient());
                }
                continue;
            }
            (tries, has_changed) = (0, true);
        }
        let done: HashSet<&ObjectPath> = sorted.done.iter().chain(&sorted.closed).collect();
        objects.retain(|object| !done.contains(&object.location));
        report.closed += sorted.closed.len();
        report.left += place.remove(sorted.done).await?;
        report.merged += sorted.merged;
        report.superseded += sorted.superseded;
        report.refused.extend(sorted.refused);
    }
    report.hours += usize::from(has_changed);
    Ok(())
}

/// Returns the group of the first upload's host; the group of all hosts if its name is none.
fn group_of(before: &HourCommit, objects: &[ObjectMeta]) -> HostGroup {
    let name = objects.first().and_then(|object| UploadName::parse(object.location.as_ref()));
    let host_id = name.map(|name| name.host_id).unwrap_or_default();
    before.groups.iter().find(|group| group.has(&host_id)).cloned().unwrap_or_default()
}

/// Returns how many of the first objects are of the group. An object that is no upload is in each.
fn part(group: &HostGroup, objects: &[ObjectMeta], most: usize) -> usize {
    let is_of = |object: &&ObjectMeta| {
        let name = UploadName::parse(object.location.as_ref());
        name.is_none_or(|name| group.has(&name.host_id))
    };
    objects.iter().take(most.max(1)).take_while(is_of).count()
}

async fn bytes_of(
    place: &Place,
    commit: &HourCommit,
    table: &FleetTable,
    group: &HostGroup,
) -> Result<Option<Bytes>> {
    let Some(committed) = commit.file(table.name, group) else { return Ok(None) };
    let path = place.path(&committed.path);
    // Gone: another compaction has replaced it since the commit was read.
    let bytes = place
        .read(&path, MOST_FILE_BYTES)
        .await?
        .ok_or_else(|| FleetError::new(format!("failed to read {path}: it is gone")).transient())?;
    Ok(Some(bytes))
}

/// One step of an hour from a state to the next: new rows of a group of hosts.
struct HourMerge<'a> {
    place: &'a Place,
    before: &'a HourCommit,
    group: &'a HostGroup,
    limits: CompactLimits,
}

impl HourMerge<'_> {
    /// Writes the files of the hour's next state and commits them; `false` if another compaction
    /// won.
    async fn run(
        &self,
        rows: FleetRows,
        replaced: &HashSet<file::RowOrigin>,
        refused: &[RefusedUpload],
    ) -> Result<bool> {
        let mut after =
            HourCommit { generation: self.before.generation + 1, ..self.before.clone() };
        after.files.retain(|file| file.hosts != *self.group);
        let mut is_large = false;
        let mut files = Vec::new();
        for (table, new) in TABLES.into_iter().zip(rows.finish()?) {
            let old = bytes_of(self.place, self.before, table, self.group).await?;
            let nothing = HashSet::new();
            let gone = if table.name == INCIDENTS.name { &nothing } else { replaced };
            let (bytes, count) = file::merge(table, old, &new, gone)?;
            is_large |= bytes.len() > self.limits.file_bytes;
            files.push((table, bytes, count));
        }
        match self.group.halves().filter(|_| is_large) {
            None => self.put(&mut after, self.group, files).await?,
            Some(halves) => {
                after.divide(self.group, &halves);
                for half in &halves {
                    let part = |(table, bytes, _): &(&'static FleetTable, Bytes, u64)| {
                        let (bytes, count) = file::part(table, bytes.clone(), half)?;
                        Ok((*table, bytes, count))
                    };
                    let files = files.iter().map(part).collect::<Result<Vec<_>>>()?;
                    self.put(&mut after, half, files).await?;
                }
            }
        }
        let room = MOST_REFUSED.saturating_sub(after.refused.len());
        after.refused.extend(refused.iter().take(room).cloned());
        after.more_refused += refused.len().saturating_sub(room) as u64;
        after.publish(self.place).await
    }

    async fn put(
        &self,
        after: &mut HourCommit,
        group: &HostGroup,
        files: Vec<(&'static FleetTable, Bytes, u64)>,
    ) -> Result<()> {
        for (table, bytes, rows) in files.into_iter().filter(|(_, _, rows)| *rows > 0) {
            let file = put(self.place, after, table, bytes, rows).await?;
            after.files.push(CommittedFile { hosts: group.clone(), ..file });
        }
        Ok(())
    }
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
    let (table, hosts) = (table.name.to_owned(), HostGroup::default());
    Ok(CommittedFile { table, path, bytes: size, rows, hosts })
}

/// Writes an hour that nothing was known of, from these uploads.
///
/// # Errors
/// Fails if the store fails, or the hour has a state already.
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
