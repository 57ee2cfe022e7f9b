//! Commits: the files of an hour that count. A commit is one object that is created and never
//! changed, so an hour goes from one state to the next at once, wherever compaction is killed, and
//! two compactions cannot both win.
//!
//! What does not belong here: making the files.

use crate::clock::FleetHour;
use crate::error::{FleetContext, FleetError, Result};
use crate::host_group::HostGroup;
use crate::layout::{COMMITS, LAYOUT_VERSION, commit_path, parse_commit};
use crate::store::Place;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as ObjectPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a commit at most: it has seven files for each group of hosts, and the refused uploads.
const MOST_COMMIT_BYTES: u64 = 16 << 20;
/// The version of a commit with several groups of hosts: a program that only knows
/// [`LAYOUT_VERSION`] would see one of them.
const GROUPS_VERSION: u32 = 2;
/// Refused uploads that a commit names.
pub const MOST_REFUSED: usize = 200;
/// Commits that are read at the same time.
const AT_ONCE: usize = 32;

/// The state of an hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HourCommit {
    /// [`LAYOUT_VERSION`], or [`GROUPS_VERSION`] with several groups of hosts.
    pub version: u32,
    /// The number of this state; one more than the one before it.
    pub generation: u32,
    /// The beginning of the hour, seconds since 1970.
    pub hour_s: i64,
    /// The groups that its hosts are divided into; none: all hosts are one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<HostGroup>,
    /// The files that count, at most one for each table and group.
    pub files: Vec<CommittedFile>,
    /// Uploads that were refused, with reasons.
    pub refused: Vec<RefusedUpload>,
    /// Refused uploads beyond those.
    pub more_refused: u64,
}

/// A file that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommittedFile {
    /// The table.
    pub table: String,
    /// Its name, without the place's prefix.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// The hosts of its rows.
    #[serde(skip_serializing_if = "HostGroup::is_all")]
    pub hosts: HostGroup,
}

/// An upload that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedUpload {
    /// The last part of its name.
    pub name: String,
    /// The reason: "is too large".
    pub reason: String,
}

impl HourCommit {
    /// The hour.
    pub const fn hour(&self) -> FleetHour {
        FleetHour::from_seconds(self.hour_s)
    }

    /// The files of a table.
    pub fn files(&self, table: &str) -> impl Iterator<Item = &CommittedFile> {
        self.files.iter().filter(move |file| file.table == table)
    }

    /// The file of a table that has the rows of a group.
    pub fn file(&self, table: &str, group: &HostGroup) -> Option<&CommittedFile> {
        self.files(table).find(|file| file.hosts == *group)
    }

    /// Puts the halves of a group in its place.
    pub fn divide(&mut self, group: &HostGroup, halves: &[HostGroup]) {
        self.version = GROUPS_VERSION;
        self.groups.retain(|known| known != group);
        self.groups.extend_from_slice(halves);
        self.groups.sort();
    }

    /// Makes this the state of its hour; `false` if another one of its number is there already.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub async fn publish(&self, place: &Place) -> Result<bool> {
        let text = serde_json::to_vec(self).context(|| "write a commit".to_owned())?;
        let path = place.path(&commit_path(self.hour(), self.generation));
        place.create(&path, text.into()).await
    }
}

/// Returns the newest commit of each hour, with its name.
///
/// # Errors
/// Fails if they cannot be listed.
async fn newest(place: &Place, below: &str) -> Result<BTreeMap<FleetHour, (u32, ObjectPath)>> {
    let mut newest = BTreeMap::new();
    for object in place.list(below).await? {
        let Some((hour, generation)) = parse_commit(object.location.as_ref()) else { continue };
        let entry = newest.entry(hour).or_insert_with(|| (generation, object.location.clone()));
        if entry.0 < generation {
            *entry = (generation, object.location);
        }
    }
    Ok(newest)
}

/// Returns the state of an hour in this object; `None` if it is gone.
///
/// # Errors
/// Fails if it cannot be read, or is another hour's.
pub async fn read(place: &Place, hour: FleetHour, path: &ObjectPath) -> Result<Option<HourCommit>> {
    let Some(bytes) = place.read(path, MOST_COMMIT_BYTES).await? else { return Ok(None) };
    let commit: HourCommit =
        serde_json::from_slice(&bytes).context(|| format!("read the commit {path}"))?;
    if ![LAYOUT_VERSION, GROUPS_VERSION].contains(&commit.version) {
        let message =
            format!("failed to read the commit {path}: its version is {}", commit.version);
        return Err(FleetError::new(message).hint("a newer iowhy-fleet wrote it"));
    }
    match commit.hour() == hour {
        true => Ok(Some(commit)),
        false => Err(FleetError::new(format!("failed to read the commit {path}: another hour's"))),
    }
}

/// Returns the state of one hour; `None` before its first commit.
///
/// # Errors
/// Fails if it cannot be read.
pub async fn of_hour(place: &Place, hour: FleetHour) -> Result<Option<HourCommit>> {
    let newest = newest(place, &format!("{COMMITS}/{hour}")).await?;
    let Some((_, path)) = newest.get(&hour) else { return Ok(None) };
    // Gone since it was listed: a newer one is there.
    read(place, hour, path).await?.map(Some).ok_or_else(|| {
        FleetError::new(format!("failed to read the commit {path}: it is gone")).transient()
    })
}

/// Returns the states of all hours that have data from `from_s` until before `until_s`, seconds
/// since 1970, in order.
///
/// # Errors
/// Fails if one cannot be read.
pub async fn of_time(place: &Place, from_s: i64, until_s: i64) -> Result<Vec<HourCommit>> {
    let mut hours = newest(place, COMMITS).await?;
    hours.retain(|hour, _| hour.begin_s() < until_s && hour.end_s() > from_s);
    let reads = hours.into_iter().map(|(hour, (_, path))| async move {
        match read(place, hour, &path).await? {
            Some(commit) => Ok(commit),
            None => of_hour(place, hour).await?.ok_or_else(|| {
                FleetError::new(format!("failed to read the commit {path}: it is gone")).transient()
            }),
        }
    });
    futures::stream::iter(reads).buffered(AT_ONCE).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FleetStores, StoreOptions};

    #[tokio::test]
    async fn the_newest_commit_counts_and_only_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let stores = FleetStores::new(StoreOptions::default());
        let place = stores.place(folder.path().to_str().unwrap()).unwrap();
        let hour = FleetHour::from_seconds(1_763_942_400);
        assert_eq!(of_hour(&place, hour).await.unwrap(), None);
        for generation in 1..=11 {
            let commit = HourCommit {
                version: LAYOUT_VERSION,
                generation,
                hour_s: hour.begin_s(),
                more_refused: generation.into(),
                ..HourCommit::default()
            };
            assert!(commit.publish(&place).await.unwrap());
            assert!(!HourCommit { more_refused: 99, ..commit }.publish(&place).await.unwrap());
        }
        let newest = of_hour(&place, hour).await.unwrap().unwrap();
        assert_eq!((newest.generation, newest.more_refused), (11, 11));
        let all = of_time(&place, hour.begin_s() + 3599, hour.end_s()).await.unwrap();
        assert_eq!(all, [newest]);
        assert!(of_time(&place, hour.end_s(), i64::MAX).await.unwrap().is_empty());
    }
}
