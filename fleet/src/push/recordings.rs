//! Recordings of incidents: directories of files that never change once an incident is complete.
//!
//! What does not belong here: the choice of those that are sent.

use super::pace::PushPace;
use crate::error::{FleetContext, Result};
use crate::layout::INCIDENTS;
use crate::store::{Place, store_error};
use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a part: the least that S3 takes.
const PART_BYTES: usize = 5 << 20;
/// Files of a recording; one that has more is sent without the rest.
const MOST_FILES: usize = 10_000;
/// The depth of folders at most.
const MOST_DEPTH: usize = 4;

/// A file to send.
pub(super) struct RecordingFile {
    /// Its name within the incident.
    pub name: String,
    path: PathBuf,
    bytes: u64,
}

/// The name of an incident's recording in the store.
pub(super) fn name(host_id: &str, number: u32) -> String {
    format!("{INCIDENTS}/{host_id}/{number:06}")
}

/// The regular files of an incident, in the order of their names. Links are not followed.
pub(super) fn files(directory: &Path) -> Vec<RecordingFile> {
    let mut found = Vec::new();
    let mut folders = vec![(directory.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            let name = path.strip_prefix(directory).ok().and_then(Path::to_str).map(str::to_owned);
            let (Some(name), Ok(kind)) = (name, kind) else { continue };
            if kind.is_dir() && depth < MOST_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() && found.len() < MOST_FILES {
                let bytes = entry.metadata().map_or(0, |it| it.size());
                found.push(RecordingFile { name, path, bytes });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl RecordingFile {
    /// Sends the file unless the store has it in that size; returns the bytes that were sent.
    pub async fn send(&self, place: &Place, to: &ObjectPath, pace: &mut PushPace) -> Result<u64> {
        loop {
            match self.send_once(place, to, pace).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => pace.wait_after(error).await?,
            }
        }
    }

    async fn send_once(&self, place: &Place, to: &ObjectPath, pace: &mut PushPace) -> Result<u64> {
        let what = || format!("send {}", self.path.display());
        match place.store.head(to).await {
            Ok(meta) if meta.size == self.bytes => return Ok(0),
            Ok(_) | Err(object_store::Error::NotFound { .. }) => (),
            Err(error) => return Err(store_error(&what(), &error)),
        }
        let mut file = std::fs::File::open(&self.path).context(what)?;
        let mut first = Vec::new();
        (&mut file).take(PART_BYTES as u64).read_to_end(&mut first).context(what)?;
        if first.len() < PART_BYTES {
            let bytes = first.len() as u64;
            place.write(to, first.into()).await?;
            pace.sent(bytes).await;
            return Ok(bytes);
        }
        let failed = |error| store_error(&what(), &error);
        let mut upload = place.store.put_multipart(to).await.map_err(failed)?;
        match send_parts(upload.as_mut(), first, &mut file, pace).await {
            Ok(bytes) => upload.complete().await.map(|_| bytes).map_err(failed),
            Err(error) => {
                // The part that arrived is of no use; a store that fails now deletes it by its own
                // rules.
                let _ = upload.abort().await;
                Err(failed(error))
            }
        }
    }
}

async fn send_parts(
    upload: &mut dyn MultipartUpload,
    first: Vec<u8>,
    file: &mut std::fs::File,
    pace: &mut PushPace,
) -> object_store::Result<u64> {
    let mut part = first;
    let mut sent = 0;
    while !part.is_empty() {
        let bytes = part.len() as u64;
        upload.put_part(PutPayload::from(part)).await?;
        pace.sent(bytes).await;
        sent += bytes;
        part = Vec::new();
        file.take(PART_BYTES as u64).read_to_end(&mut part).map_err(|error| {
            object_store::Error::Generic { store: "the recording", source: Box::new(error) }
        })?;
    }
    Ok(sent)
}
