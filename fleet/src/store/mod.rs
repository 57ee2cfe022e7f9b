//! Object storage: a directory, or a bucket of S3, Google Cloud Storage or Azure.
//!
//! Credentials come from the environment or from a file with mode 600, and are in no message.
//! Connections are encrypted unless `--allow-http` is given.
//!
//! | where | what |
//! |---|---|
//! | here | opening a place, reading and writing whole objects |
//! | [`counted`] | counts objects and bytes, and opens one place only where that is asked for |
//! | `directory` | a directory as a store, in which no link is followed |
//! | `folder` | lists directories |
//!
//! What does not belong here: names of objects.

pub mod counted;
mod directory;
mod folder;

use crate::error::{FleetContext, FleetError, Result, chain};
use bytes::Bytes;
use counted::{CountedStore, ReadCounts};
#[cfg(feature = "query")]
use datafusion::error::DataFusionError;
#[cfg(feature = "query")]
use datafusion::execution::object_store::ObjectStoreRegistry;
use directory::{DirectoryStore, PlaceFolders};
use futures::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use url::Url;

/// Bytes of a file of credentials at most.
const MOST_SECRET_BYTES: u64 = 64 << 10;

/// The settings of connections to stores.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// Settings such as `AWS_ACCESS_KEY_ID`, from a file; those of the environment otherwise.
    settings: HashMap<String, String>,
    /// Whether a connection may be unencrypted.
    pub allow_http: bool,
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No values: they are secrets.
        formatter.debug_struct("StoreOptions").field("allow_http", &self.allow_http).finish()
    }
}

/// The content of a file that only its owner may read, or also the group of a file of root's, as
/// secrets of Kubernetes are mounted.
///
/// # Errors
/// Fails if it cannot be read, or somebody else may read it.
pub fn read_secret(path: &Path) -> Result<String> {
    let read = || format!("read {}", path.display());
    let file = std::fs::File::open(path).context(read)?;
    let metadata = file.metadata().context(read)?;
    let mode = metadata.mode();
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if mode & others != 0 {
        let message = format!("failed to {}: others may read it (mode {:o})", read(), mode & 0o777);
        return Err(FleetError::new(message).hint(format!("chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    file.take(MOST_SECRET_BYTES).read_to_string(&mut text).context(read)?;
    Ok(text)
}

impl StoreOptions {
    /// Loads settings from a file with lines such as `AWS_ACCESS_KEY_ID=…`, and from the
    /// environment those that the file lacks.
    ///
    /// # Errors
    /// Fails if the file cannot be read, others may read it, or a line is no setting.
    pub fn load(file: Option<&Path>, allow_http: bool) -> Result<StoreOptions> {
        let mut settings = HashMap::new();
        if let Some(path) = file {
            for (index, line) in read_secret(path)?.lines().map(str::trim).enumerate() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                // The line itself may be a secret.
                let (name, value) = line.split_once('=').ok_or_else(|| {
                    let place = format!("{}:{}", path.display(), index + 1);
                    FleetError::new(format!("failed to read {place}: no NAME=VALUE"))
                })?;
                settings.insert(name.trim().to_lowercase(), value.trim().to_owned());
            }
        }
        Ok(StoreOptions { settings, allow_http })
    }

    fn client(&self) -> ClientOptions {
        ClientOptions::new()
            .with_allow_http(self.allow_http)
            .with_connect_timeout(Duration::from_secs(5))
            .with_timeout(Duration::from_secs(60))
    }

    fn retry() -> RetryConfig {
        let mut retry = RetryConfig { max_retries: 3, ..RetryConfig::default() };
        retry.retry_timeout = Duration::from_secs(60);
        retry
    }

    /// The bucket of a URL: `s3://`, `gs://` or `az://`.
    ///
    /// # Errors
    /// Fails if the scheme is not known, or settings are missing.
    fn open(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let bucket = url.host_str().unwrap_or_default();
        let what = || format!("open {}", url.as_str());
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "s3" => {
                let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                for (key, value) in self.settings.iter() {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_retry(Self::retry()).with_client_options(self.client());
                Arc::new(builder.with_allow_http(self.allow_http).build().context(what)?)
            }
            "gs" => {
                let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
                for (key, value) in self.settings.iter() {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_retry(Self::retry()).with_client_options(self.client());
                Arc::new(builder.build().context(what)?)
            }
            "az" => {
                let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket);
                for (key, value) in self.settings.iter() {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_retry(Self::retry()).with_client_options(self.client());
                Arc::new(builder.with_allow_http(self.allow_http).build().context(what)?)
            }
            scheme => {
                return Err(FleetError::new(format!(
                    "failed to {}: {scheme} is not known",
                    what()
                ))
                .hint("s3://BUCKET/PREFIX, gs://…, az://… or a directory"));
            }
        };
        Ok(store)
    }
}

/// Stores by URL, opened when they are first needed: on clients, schedulers and executors alike.
#[derive(Debug)]
pub struct FleetStores {
    options: StoreOptions,
    counts: Arc<ReadCounts>,
    open: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// The places that are directories.
    folders: PlaceFolders,
    /// The one place that may be opened: its store and the prefix of all names.
    only: Option<(String, ObjectPath)>,
}

/// Returns the text that identifies a store.
fn store_key(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}

impl FleetStores {
    /// Makes stores of which none is open yet.
    pub fn new(options: StoreOptions) -> FleetStores {
        let (counts, open, folders) = (Arc::default(), Mutex::default(), PlaceFolders::default());
        FleetStores { options, counts, open, folders, only: None }
    }

    /// Restricts them to one place; a URL of any other is refused.
    ///
    /// # Errors
    /// Fails if the text is no place.
    pub fn only(self, text: &str) -> Result<FleetStores> {
        let (url, prefix) = self.known(text)?;
        Ok(FleetStores { only: Some((store_key(&url), prefix)), ..self })
    }

    /// Returns the URL of a place and the prefix of all its names, and remembers a directory.
    fn known(&self, text: &str) -> Result<(Url, ObjectPath)> {
        let (url, prefix) = place_url(text)?;
        if url.scheme() == "file" {
            self.folders.add(&prefix);
        }
        Ok((url, prefix))
    }

    /// Returns the counts of reads from all stores.
    pub fn counts(&self) -> Arc<ReadCounts> {
        Arc::clone(&self.counts)
    }

    /// The store of a URL.
    ///
    /// # Errors
    /// Fails if it cannot be opened.
    pub fn get(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let key = store_key(url);
        let within = match &self.only {
            Some((only, _)) if *only != key => {
                return Err(FleetError::new(format!("failed to open {url}: it is another store")));
            }
            Some((_, prefix)) => Some(prefix.clone()),
            None => None,
        };
        let mut open = self.open.lock().map_err(|_| FleetError::new("a thread has failed"))?;
        if let Some(store) = open.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = match url.scheme() {
            "file" => Arc::new(DirectoryStore::new(self.folders.clone())),
            _ => self.options.open(url)?,
        };
        let store = CountedStore::new(store, Arc::clone(&self.counts), within);
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        open.insert(key, Arc::clone(&store));
        Ok(store)
    }

    /// The place that a person names: a directory or a URL.
    ///
    /// # Errors
    /// Fails if the text is no place, or it cannot be opened.
    pub fn place(&self, text: &str) -> Result<Place> {
        let (url, prefix) = self.known(text)?;
        let mut root = url.clone();
        root.set_path("");
        Ok(Place { store: self.get(&url)?, prefix, root })
    }
}

/// Returns the URL of a place, and the prefix of all its names.
fn place_url(text: &str) -> Result<(Url, ObjectPath)> {
    let url = match Url::parse(text) {
        Ok(url) if text.contains("://") => url,
        _ => directory_url(text)?,
    };
    let prefix = match url.scheme() {
        "file" => {
            url.to_file_path().ok().and_then(|path| ObjectPath::from_absolute_path(path).ok())
        }
        _ => ObjectPath::parse(url.path()).ok(),
    };
    let prefix =
        prefix.ok_or_else(|| FleetError::new(format!("failed to open {text}: no such place")))?;
    Ok((url, prefix))
}

fn directory_url(text: &str) -> Result<Url> {
    let path = std::path::absolute(text).context(|| format!("find {text}"))?;
    Url::from_file_path(&path)
        .map_err(|()| FleetError::new(format!("failed to open {text}: it is no directory")))
}

#[cfg(feature = "query")]
impl ObjectStoreRegistry for FleetStores {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        self.get(url).map_err(|error| DataFusionError::Execution(error.to_string()))
    }
}

/// The objects below a name.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Objects.
    pub objects: Vec<ObjectMeta>,
    /// Names that are no object: links, devices, names that no object can have. They come from
    /// others.
    pub strange: Vec<String>,
}

/// An object that somebody else wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundObject {
    /// Its content.
    Content(Bytes),
    /// It is gone, or has grown beyond what may be read.
    Gone,
    /// It cannot be read.
    Closed,
}

/// The place of a fleet's objects: a store, and the prefix of all names.
#[derive(Clone, Debug)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The prefix of all names.
    pub prefix: ObjectPath,
    /// The store's URL, without the prefix.
    pub root: Url,
}

impl Place {
    /// An object's whole name.
    pub fn path(&self, name: &str) -> ObjectPath {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The directory that the place is, if it is one.
    fn folder(&self) -> Option<PathBuf> {
        (self.root.scheme() == "file").then(|| directory::path_of(&self.prefix))
    }

    /// Checks that the place exists: a directory that does not exist is most likely a mistake.
    ///
    /// # Errors
    /// Fails if the place is a directory that does not exist.
    pub fn must_exist(&self) -> Result<()> {
        match self.folder() {
            Some(folder) if !folder.is_dir() => {
                let message =
                    format!("failed to open {}: there is no such directory", folder.display());
                Err(FleetError::new(message).hint("mkdir makes it, if the name is right"))
            }
            _ => Ok(()),
        }
    }

    /// The objects below a name, in the order of their names.
    ///
    /// # Errors
    /// Fails if they cannot be listed.
    pub async fn list(&self, name: &str) -> Result<Vec<ObjectMeta>> {
        self.listing(name).await.map(|listing| listing.objects)
    }

    /// Lists the objects, and the names that are no object.
    ///
    /// # Errors
    /// Fails if they cannot be listed.
    pub async fn listing(&self, name: &str) -> Result<Listing> {
        let mut listing = match self.folder() {
            // One bad name would end the library's list of a directory.
            Some(folder) => {
                let parts = name.split('/').filter(|part| !part.is_empty());
                let below: Vec<String> = parts.map(str::to_owned).collect();
                let list = move || folder::list(&folder, &below);
                let listed = tokio::task::spawn_blocking(list).await;
                listed.context(|| format!("list {name}"))?.context(|| format!("list {name}"))?
            }
            None => {
                let listed = self.store.list(Some(&self.path(name))).try_collect::<Vec<_>>().await;
                let failed = |error| store_error(&format!("list {name}"), &error);
                Listing { objects: listed.map_err(failed)?, strange: Vec::new() }
            }
        };
        listing.objects.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(listing)
    }

    /// An object's content; `None` if it is larger than `most` bytes, or not there.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub async fn read(&self, path: &ObjectPath, most: u64) -> Result<Option<Bytes>> {
        let content = self.content(path, most).await;
        content.map_err(|error| store_error(&format!("read {path}"), &error))
    }

    /// The content of an object that somebody else wrote, who may have closed it to others.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn find(&self, path: &ObjectPath, most: u64) -> Result<FoundObject> {
        match self.content(path, most).await {
            Ok(Some(bytes)) => Ok(FoundObject::Content(bytes)),
            Ok(None) => Ok(FoundObject::Gone),
            Err(error) if self.is_of_one_object(&error) => Ok(FoundObject::Closed),
            Err(error) => Err(store_error(&format!("read {path}"), &error)),
        }
    }

    async fn content(&self, path: &ObjectPath, most: u64) -> object_store::Result<Option<Bytes>> {
        let answer = match self.store.get(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        match answer.meta.size <= most {
            true => Ok(Some(answer.bytes().await?)),
            false => Ok(None),
        }
    }

    /// Returns whether an error says nothing of other objects: users who may write into a directory
    /// may close, cut and replace what is there at any moment.
    fn is_of_one_object(&self, error: &object_store::Error) -> bool {
        matches!(error, object_store::Error::PermissionDenied { .. }) || self.folder().is_some()
    }

    /// Writes an object whole, over one of the same name.
    ///
    /// # Errors
    /// Fails if it cannot be written; then either nothing or all of it was written.
    pub async fn write(&self, path: &ObjectPath, bytes: Bytes) -> Result<()> {
        let written = self.store.put(path, PutPayload::from_bytes(bytes)).await;
        written.map_err(|error| store_error(&format!("write {path}"), &error)).map(|_| ())
    }

    /// Writes an object unless one of that name exists; returns whether it was written.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub async fn create(&self, path: &ObjectPath, bytes: Bytes) -> Result<bool> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(path, PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(store_error(&format!("write {path}"), &error)),
        }
    }

    /// Removes objects, and returns how many of them somebody does not let go; one that is not
    /// there is removed already.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn remove(&self, paths: Vec<ObjectPath>) -> Result<usize> {
        let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut removed = self.store.delete_stream(paths);
        let mut left = 0;
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => (),
                Err(error) if self.is_of_one_object(&error) => left += 1,
                Err(error) => return Err(store_error("remove what is merged", &error)),
            }
        }
        Ok(left)
    }
}

/// Converts a store's error; those that another try may not meet are marked.
pub fn store_error(action: &str, error: &object_store::Error) -> FleetError {
    use object_store::Error as E;
    let cause = chain(error);
    let failure = FleetError::new(format!("failed to {action}: {cause}"));
    match error {
        // A directory asks for no credentials.
        E::PermissionDenied { source, .. } if source.is::<std::io::Error>() => failure,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => failure
            .hint("credentials come from the environment (AWS_ACCESS_KEY_ID …) or --credentials"),
        E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => failure,
        // Without credentials, the library asks the cloud's own machine for some.
        E::Generic { .. } if cause.contains("169.254.169.254") => failure
            .hint("credentials come from the environment (AWS_ACCESS_KEY_ID …) or --credentials"),
        E::Generic { .. } if cause.contains("URL scheme is not allowed") => {
            failure.hint("https, or --allow-http where nobody can listen")
        }
        _ => failure.transient(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn credentials_are_for_their_owner_and_in_no_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        std::fs::write(&path, "AWS_SECRET_ACCESS_KEY=SECRET\nSECRET\n").unwrap();
        // Write access for the group, or any for others, is too much for every owner.
        for mode in [0o660, 0o644] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let refused = StoreOptions::load(Some(&path), false).unwrap_err();
            assert!(refused.to_string().contains("chmod 600"), "{refused}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let wrong = StoreOptions::load(Some(&path), false).unwrap_err().to_string();
        assert!(wrong.contains(":2") && !wrong.contains("SECRET"), "{wrong}");
        std::fs::write(&path, "# S3\nAWS_SECRET_ACCESS_KEY=SECRET\n").unwrap();
        let options = StoreOptions::load(Some(&path), false).unwrap();
        assert_eq!(options.settings["aws_secret_access_key"], "SECRET");
        assert!(!format!("{options:?}").contains("SECRET"));
    }

    #[tokio::test]
    async fn an_unencrypted_connection_must_be_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let text = "aws_endpoint=http://127.0.0.1:9\naws_access_key_id=a\naws_secret_access_key=b";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let options = StoreOptions::load(Some(&path), false).unwrap();
        let error = match FleetStores::new(options).place("s3://bucket/x") {
            Ok(place) => place.list("y").await.unwrap_err(),
            Err(error) => error,
        };
        assert!(!error.is_transient && error.to_string().contains("--allow-http"), "{error}");
    }

    #[tokio::test]
    async fn a_directory_is_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let stores = FleetStores::new(StoreOptions::default());
        let place = stores.place(folder.path().to_str().unwrap()).unwrap();
        let path = place.path("a=b/c.json");
        assert!(place.create(&path, Bytes::from_static(b"1")).await.unwrap());
        assert!(!place.create(&path, Bytes::from_static(b"2")).await.unwrap());
        assert_eq!(place.read(&path, 10).await.unwrap().unwrap(), "1");
        assert_eq!(place.read(&path, 0).await.unwrap(), None);
        assert_eq!(place.list("a=b").await.unwrap().len(), 1);
        place.remove(vec![path.clone(), path.clone()]).await.unwrap();
        assert_eq!(place.read(&path, 10).await.unwrap(), None);
        assert!(stores.place("ftp://x/y").is_err());
    }
}
