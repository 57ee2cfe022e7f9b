//! A directory as a store of objects.
//!
//! Those who upload may write somewhere below it, and root may read, write and remove there. So
//! everything goes through handles of directories that are opened one after the other from the
//! place downwards ([`iowhy_fs::Folder`]): no link below the place is ever followed, its owner's
//! own included.
//!
//! What does not belong here: listing (`folder`).

use super::folder;
use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iowhy_fs::Folder;
use object_store::path::Path as ObjectPath;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The mode of objects: the process's mask takes it from others, unless the store's directory has
/// an access list of its own for new files.
const OBJECT_MODE: u32 = 0o660;
/// The mode of the directories of objects, likewise.
const FOLDER_MODE: u32 = 0o770;
/// Objects that are removed at the same time.
const REMOVALS_AT_ONCE: usize = 8;

/// The directories that are places: a person named them, so links on the way to them count.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceFolders(Arc<Mutex<Vec<ObjectPath>>>);

impl PlaceFolders {
    pub fn add(&self, prefix: &ObjectPath) {
        if let Ok(mut known) = self.0.lock()
            && !known.contains(prefix)
        {
            known.push(prefix.clone());
        }
    }

    /// Returns the place that an object is in; a node of a cluster may know none.
    fn of(&self, location: &ObjectPath) -> Option<ObjectPath> {
        let known = self.0.lock().ok()?;
        let of = known.iter().filter(|place| location.prefix_matches(place));
        of.max_by_key(|place| place.parts_count()).cloned()
    }
}

/// The path of an object's file or folder.
pub(super) fn path_of(location: &ObjectPath) -> PathBuf {
    Path::new("/").join(location.as_ref())
}

/// The store of all directories.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryStore {
    places: PlaceFolders,
}

impl fmt::Display for DirectoryStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("directory")
    }
}

/// Converts an error on an object. A link or a pipe in an object's place is one that nobody may
/// open.
fn failed(location: &ObjectPath, error: io::Error) -> Error {
    let path = location.to_string();
    let is_another = [Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NXIO]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    let not_followed = "a link, or something else that is neither a directory nor a regular file, \
                        stands on the way";
    match error.kind() {
        _ if is_another => {
            let source = io::Error::new(ErrorKind::PermissionDenied, not_followed).into();
            Error::PermissionDenied { path, source }
        }
        ErrorKind::NotFound => Error::NotFound { path, source: error.into() },
        ErrorKind::AlreadyExists => Error::AlreadyExists { path, source: error.into() },
        ErrorKind::PermissionDenied | ErrorKind::InvalidInput => {
            Error::PermissionDenied { path, source: error.into() }
        }
        _ => Error::Generic { store: "directory", source: error.into() },
    }
}

/// Does on another thread what may wait for a disk.
async fn aside<T: Send + 'static>(
    location: &ObjectPath,
    action: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(action).await?.map_err(|error| failed(location, error))
}

/// Opens the folder `name`, and makes it if it is not there. Somebody else may have made it: its
/// owner can do no more than with an object in it.
fn made(folder: &Folder, name: &str) -> io::Result<Folder> {
    match folder.folder(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = folder.make_folder(name, FOLDER_MODE);
            made.or_else(|error| folder.folder(name).map_err(|_| error))
        }
        opened => opened,
    }
}

impl DirectoryStore {
    pub const fn new(places: PlaceFolders) -> DirectoryStore {
        DirectoryStore { places }
    }

    /// The folder of an object and its name there; `is_new`: folders that are not there are made.
    fn folder(&self, location: &ObjectPath, is_new: bool) -> io::Result<(Folder, String)> {
        let no_name = || io::Error::from(ErrorKind::InvalidInput);
        let name = location.filename().ok_or_else(no_name)?.to_owned();
        let path = path_of(location);
        let Some(place) = self.places.of(location) else {
            return Ok((Folder::open(iowhy_fs::folder_of(&path))?, name));
        };
        let mut folder = match Folder::open(&path_of(&place)) {
            Err(error) if is_new && error.kind() == ErrorKind::NotFound => {
                // A default ACL or a file server may give it other rights or another owner.
                let path = path_of(&place);
                Folder::make_all(&path, FOLDER_MODE)
                    .or_else(|error| Folder::open(&path).map_err(|_| error))?
            }
            opened => opened?,
        };
        let parts: Vec<_> = location.parts().skip(place.parts_count()).collect();
        for part in &parts[..parts.len().saturating_sub(1)] {
            let part = part.as_ref();
            folder = if is_new { made(&folder, part)? } else { folder.folder(part)? };
        }
        Ok((folder, name))
    }

    fn put(&self, location: &ObjectPath, payload: &PutPayload, mode: &PutMode) -> io::Result<()> {
        let (folder, name) = self.folder(location, true)?;
        let mut staged = StagedObject::new(folder, name)?;
        for bytes in payload.iter() {
            staged.file.write_all(bytes)?;
        }
        match mode {
            PutMode::Overwrite => staged.replace(),
            PutMode::Create => staged.create(),
            PutMode::Update(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    fn get(&self, location: ObjectPath, options: &GetOptions) -> Result<GetResult> {
        let path = path_of(&location);
        let opened = self.folder(&location, false);
        let opened = opened.and_then(|(folder, name)| {
            let file = folder.open_file(&name)?;
            let about = file.metadata()?;
            let last_modified = about.modified()?.into();
            Ok((file, about.len(), last_modified))
        });
        let (file, size, last_modified) = opened.map_err(|error| failed(&location, error))?;
        let meta = ObjectMeta { location, last_modified, size, e_tag: None, version: None };
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            None => 0..size,
            Some(range) => {
                let wrong = |error| Error::Generic { store: "directory", source: Box::new(error) };
                range.as_range(size).map_err(wrong)?
            }
        };
        let payload = GetResultPayload::File(file, path);
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    fn remove(&self, location: &ObjectPath) -> io::Result<()> {
        let (folder, name) = self.folder(location, false)?;
        folder.remove_file(&name)
    }
}

/// An object that is being written, beside its name; listings skip it.
#[derive(Debug)]
struct StagedObject {
    folder: Folder,
    name: String,
    partial: String,
    file: File,
}

impl StagedObject {
    fn new(folder: Folder, name: String) -> io::Result<StagedObject> {
        // A number that nobody can guess: what stands in the way is never removed.
        let partial = format!("{name}#{:016x}", rand::random::<u64>());
        let file = folder.create(&partial, OBJECT_MODE)?;
        Ok(StagedObject { folder, name, partial, file })
    }

    fn replace(&self) -> io::Result<()> {
        self.folder.rename(&self.partial, &self.folder, &self.name)
    }

    fn create(&self) -> io::Result<()> {
        self.folder.link(&self.partial, &self.folder, &self.name)
    }
}

impl Drop for StagedObject {
    fn drop(&mut self) {
        // It has its name, or it is of no use.
        let _ = self.folder.remove_file(&self.partial);
    }
}

/// An object that arrives in parts.
#[derive(Debug)]
struct DirectoryUpload {
    location: ObjectPath,
    staged: Option<Arc<StagedObject>>,
    offset: u64,
}

impl DirectoryUpload {
    fn staged(&self) -> io::Result<Arc<StagedObject>> {
        self.staged.clone().ok_or_else(|| io::Error::other("the upload has ended"))
    }
}

#[async_trait]
impl MultipartUpload for DirectoryUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (staged, location, mut at) = (self.staged(), self.location.clone(), self.offset);
        self.offset += data.content_length() as u64;
        Box::pin(async move {
            let write = move || {
                let staged = staged?;
                for bytes in data.iter() {
                    staged.file.write_all_at(bytes, at)?;
                    at += bytes.len() as u64;
                }
                Ok(())
            };
            aside(&location, write).await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let staged = self.staged();
        self.staged = None;
        aside(&self.location, move || staged?.replace()).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        self.staged = None;
        Ok(())
    }
}

fn not_there(operation: &str) -> Error {
    let implementer = "a directory".to_owned();
    Error::NotImplemented { operation: operation.to_owned(), implementer }
}

#[async_trait]
impl ObjectStore for DirectoryStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let (store, of) = (self.clone(), location.clone());
        aside(location, move || store.put(&of, &payload, &opts.mode)).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (store, of) = (self.clone(), location.clone());
        let begin = move || {
            let (folder, name) = store.folder(&of, true)?;
            StagedObject::new(folder, name)
        };
        let staged = Some(Arc::new(aside(location, begin).await?));
        Ok(Box::new(DirectoryUpload { location: location.clone(), staged, offset: 0 }))
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        let (store, location) = (self.clone(), location.clone());
        tokio::task::spawn_blocking(move || store.get(location, &options)).await?
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        let store = self.clone();
        let remove = move |location: Result<ObjectPath>| {
            let store = store.clone();
            async move {
                let location = location?;
                let of = location.clone();
                aside(&location, move || store.remove(&of)).await?;
                Ok(location)
            }
        };
        locations.map(remove).buffered(REMOVALS_AT_ONCE).boxed()
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        let place = self.places.of(&prefix).unwrap_or_else(|| prefix.clone());
        let listed = async move {
            let below = prefix.parts().skip(place.parts_count());
            let below: Vec<String> = below.map(|part| part.as_ref().to_owned()).collect();
            let list = move || folder::list(&path_of(&place), &below);
            let listing = aside(&prefix, list).await?;
            Ok::<_, Error>(futures::stream::iter(listing.objects.into_iter().map(Ok)))
        };
        futures::stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&ObjectPath>) -> Result<ListResult> {
        Err(not_there("list_with_delimiter"))
    }

    async fn copy_opts(&self, _: &ObjectPath, _: &ObjectPath, _: CopyOptions) -> Result<()> {
        Err(not_there("copy"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FleetStores, Place, StoreOptions};
    use std::os::unix::fs::symlink;

    struct TestFolders {
        _folder: tempfile::TempDir,
        store: PathBuf,
        victim: PathBuf,
        place: Place,
    }

    /// A store, and a directory beside it with a file that is nobody else's business.
    fn folders() -> TestFolders {
        let folder = tempfile::tempdir().unwrap();
        let (store, victim) = (folder.path().join("store"), folder.path().join("victim"));
        std::fs::create_dir_all(&store).unwrap();
        std::fs::create_dir_all(&victim).unwrap();
        std::fs::write(victim.join("shadow"), "precious").unwrap();
        let stores = FleetStores::new(StoreOptions::default());
        let place = stores.place(store.to_str().unwrap()).unwrap();
        TestFolders { _folder: folder, store, victim, place }
    }

    #[tokio::test]
    async fn no_link_below_the_place_is_followed() {
        let TestFolders { _folder, store, victim, place } = folders();
        std::fs::create_dir(store.join("real")).unwrap();
        symlink(&victim, store.join("link")).unwrap();
        symlink(victim.join("shadow"), store.join("real/file")).unwrap();
        symlink("../real", store.join("real/inner")).unwrap();
        for name in ["link/shadow", "link/new", "link/deep/new", "real/inner/new"] {
            let path = place.path(name);
            assert!(place.write(&path, "x".into()).await.is_err(), "{name}");
            assert!(place.create(&path, "x".into()).await.is_err(), "{name}");
            assert!(place.store.put_multipart_opts(&path, Default::default()).await.is_err());
            assert!(place.read(&path, 9).await.is_err(), "{name}");
            assert_eq!(place.remove(vec![path]).await.unwrap(), 1, "{name}");
        }
        assert!(place.read(&place.path("real/file"), 9).await.is_err());
        assert!(place.list("link").await.is_err());
        assert_eq!(std::fs::read_to_string(victim.join("shadow")).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
        // What replaces a link, or removes it, touches the link alone.
        place.write(&place.path("real/file"), "mine".into()).await.unwrap();
        assert_eq!(std::fs::read_to_string(victim.join("shadow")).unwrap(), "precious");
        symlink(victim.join("shadow"), store.join("real/other")).unwrap();
        place.remove(vec![place.path("real/other")]).await.unwrap();
        assert!(victim.join("shadow").exists() && !store.join("real/other").exists());
        let left: Vec<_> = std::fs::read_dir(store.join("real")).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[tokio::test]
    async fn a_link_to_the_place_itself_is_followed() {
        let TestFolders { _folder, store, place, .. } = folders();
        place.write(&place.path("a/b"), "x".into()).await.unwrap();
        symlink(&store, store.with_file_name("by-link")).unwrap();
        let stores = FleetStores::new(StoreOptions::default());
        let by_link = stores.place(store.with_file_name("by-link").to_str().unwrap()).unwrap();
        assert_eq!(by_link.list("a").await.unwrap().len(), 1);
        assert_eq!(by_link.read(&by_link.path("a/b"), 9).await.unwrap().unwrap(), "x");
    }

    #[tokio::test]
    async fn parts_become_an_object_at_the_end() {
        let TestFolders { _folder, place, .. } = folders();
        let path = place.path("incidents/0123456789abcdef/000001/x");
        for is_completed in [false, true] {
            let begun = place.store.put_multipart_opts(&path, Default::default()).await;
            let mut upload = begun.unwrap();
            upload.put_part("one ".into()).await.unwrap();
            upload.put_part("two".into()).await.unwrap();
            assert_eq!(place.read(&path, 9).await.unwrap(), None);
            match is_completed {
                true => drop(upload.complete().await.unwrap()),
                false => upload.abort().await.unwrap(),
            }
        }
        assert_eq!(place.read(&path, 9).await.unwrap().unwrap(), "one two");
        let listed = place.store.list(Some(&place.path("incidents")));
        let listed: Vec<_> = listed.try_collect().await.unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
    }
}
