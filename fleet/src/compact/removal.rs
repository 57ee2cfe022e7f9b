//! Removes files and commits that were replaced, and those of killed runs, once nobody reads them
//! any more.
//!
//! What does not belong here: the files that replace them.

use crate::clock::FleetHour;
use crate::commit::{self, HourCommit};
use crate::error::Result;
use crate::layout::{COMMITS, parse_commit, table_generation};
use crate::store::Place;
use crate::tables::TABLES;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::collections::{BTreeMap, HashSet};

/// The states of an hour with their commits, the oldest first.
type HourStates = Vec<(u32, ObjectMeta)>;

/// Removes files replaced before a time, of hours that were touched or have several states; returns
/// how many could not be removed.
///
/// # Errors
/// Fails if the store fails.
pub(super) async fn remove_replaced(
    place: &Place,
    touched: &HashSet<FleetHour>,
    before_s: i64,
) -> Result<usize> {
    let mut left = 0;
    let mut hours: BTreeMap<FleetHour, HourStates> = BTreeMap::new();
    for object in place.list(COMMITS).await? {
        if let Some((hour, generation)) = parse_commit(object.location.as_ref()) {
            hours.entry(hour).or_default().push((generation, object));
        }
    }
    for (hour, mut states) in hours {
        states.sort_by_key(|state| state.0);
        if states.len() > 1 || touched.contains(&hour) {
            left += remove_of_hour(place, hour, &states, before_s).await?;
        }
    }
    Ok(left)
}

async fn remove_of_hour(
    place: &Place,
    hour: FleetHour,
    states: &HourStates,
    before_s: i64,
) -> Result<usize> {
    let is_old = |object: &ObjectMeta| object.last_modified.timestamp() <= before_s;
    // A state is over when the next one was there before that time.
    let over = (1..states.len()).filter(|next| is_old(&states[*next].1)).max().unwrap_or(0);
    let (over, live) = states.split_at(over);
    let Some((newest, _)) = live.last() else { return Ok(0) };
    let mut counts: HashSet<ObjectPath> = HashSet::new();
    for (_, object) in live {
        // It is gone: another compaction removes it.
        let state = commit::read(place, hour, &object.location).await?;
        let Some(HourCommit { files, .. }) = state else { return Ok(0) };
        counts.extend(files.iter().map(|file| place.path(&file.path)));
    }
    let mut gone = Vec::new();
    for table in TABLES {
        for object in place.list(&format!("table={}/{hour}", table.name)).await? {
            // A file of a later generation belongs to a compaction that is running.
            let generation = table_generation(object.location.as_ref());
            let may_go = generation.is_some_and(|generation| generation <= *newest);
            if may_go && is_old(&object) && !counts.contains(&object.location) {
                gone.push(object.location);
            }
        }
    }
    gone.extend(over.iter().map(|state| state.1.location.clone()));
    place.remove(gone).await
}
