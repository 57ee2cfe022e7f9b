//! The record of sent data: a file in the uploader's own directory. Losing it costs only time: data
//! that is sent again has the same name, and compaction knows it.
//!
//! What does not belong here: deciding what is sent.

use crate::error::{FleetContext, Result};
use crate::output;
use crate::store::Place;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SentThings {
    /// The place and the host of the record; of others, nothing was sent.
    place: String,
    host_id: String,
    /// Minutes by window.
    windows: BTreeMap<i64, u8>,
    incidents: BTreeSet<u32>,
}

/// The record of sent windows and incidents.
pub struct PushMemory {
    path: PathBuf,
    sent: SentThings,
}

impl PushMemory {
    /// Reads the record of this host and place from the directory. A file that cannot be parsed
    /// counts as empty.
    ///
    /// # Errors
    /// Fails if the directory cannot be made.
    pub fn open(directory: &Path, host_id: &str, place: &Place) -> Result<PushMemory> {
        fs::create_dir_all(directory).context(|| format!("make {}", directory.display()))?;
        let path = directory.join("sent.json");
        let text = fs::read(&path).unwrap_or_default();
        let place = format!("{}{}", place.root, place.prefix);
        let known: SentThings = serde_json::from_slice(&text).unwrap_or_default();
        let sent = match known.place == place && known.host_id == host_id {
            true => known,
            false => SentThings { place, host_id: host_id.to_owned(), ..SentThings::default() },
        };
        Ok(PushMemory { path, sent })
    }

    /// Whether so many minutes of a window were sent.
    pub fn has_window(&self, window_s: i64, minutes: u8) -> bool {
        self.sent.windows.get(&window_s).is_some_and(|sent| *sent >= minutes)
    }

    /// Whether an incident was sent.
    pub fn has_incident(&self, number: u32) -> bool {
        self.sent.incidents.contains(&number)
    }

    /// Records that `minutes` of a window were sent.
    ///
    /// # Errors
    /// Fails if the record cannot be written.
    pub fn add_window(&mut self, window_s: i64, minutes: u8) -> Result<()> {
        self.sent.windows.insert(window_s, minutes);
        self.save()
    }

    /// Records that an incident was sent.
    ///
    /// # Errors
    /// Fails if the record cannot be written.
    pub fn add_incident(&mut self, number: u32) -> Result<()> {
        self.sent.incidents.insert(number);
        self.save()
    }

    /// Forgets windows that are not sent any more.
    ///
    /// # Errors
    /// Fails if the record cannot be written.
    pub fn forget_before(&mut self, from_s: i64) -> Result<()> {
        let later = self.sent.windows.split_off(&from_s);
        match std::mem::replace(&mut self.sent.windows, later).is_empty() {
            true => Ok(()),
            false => self.save(),
        }
    }

    fn save(&self) -> Result<()> {
        let what = || format!("write {}", self.path.display());
        let text = serde_json::to_vec(&self.sent).context(what)?;
        output::replace(&self.path, &text).context(what)
    }
}
