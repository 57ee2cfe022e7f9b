//! A store that counts reads: the objects that were opened, and their bytes. It reads nothing
//! outside of its place, if one is given.
//!
//! What does not belong here: retries.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The counts of reads.
#[derive(Debug, Default)]
pub struct ReadCounts {
    bytes: AtomicU64,
    requests: AtomicU64,
    opened: Mutex<HashSet<Path>>,
}

impl ReadCounts {
    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests that read them.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Objects that were read, each once.
    pub fn objects(&self) -> usize {
        self.opened.lock().map_or(0, |opened| opened.len())
    }

    /// Sets the counts to zero.
    pub fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.requests.store(0, Ordering::Relaxed);
        if let Ok(mut opened) = self.opened.lock() {
            opened.clear();
        }
    }

    fn add(&self, location: &Path, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut opened) = self.opened.lock() {
            opened.insert(location.clone());
        }
    }
}

/// Counts what is read of another store.
#[derive(Debug)]
pub struct CountedStore {
    inner: Arc<dyn ObjectStore>,
    counts: Arc<ReadCounts>,
    within: Option<Path>,
}

impl CountedStore {
    /// Counts what is read of `inner`; reads only what is below `within`.
    pub const fn new(
        inner: Arc<dyn ObjectStore>,
        counts: Arc<ReadCounts>,
        within: Option<Path>,
    ) -> CountedStore {
        CountedStore { inner, counts, within }
    }

    fn check(&self, location: &Path) -> Result<()> {
        match &self.within {
            Some(within) if !location.prefix_matches(within) => {
                let source = "it is outside of the place that this process reads".into();
                Err(Error::PermissionDenied { path: location.to_string(), source })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for CountedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

#[async_trait]
impl ObjectStore for CountedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(location)?;
        let is_head = options.head;
        let result = self.inner.get_opts(location, options).await?;
        if !is_head {
            self.counts.add(location, result.range.end - result.range.start);
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(location)?;
        let found = self.inner.get_ranges(location, ranges).await?;
        self.counts.add(location, found.iter().map(|bytes| bytes.len() as u64).sum());
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
