//! The last watch stays: `iowhy explain 1`, `report`, `diff` and `reproduce` without a source mean
//! what was just seen. It stands in memory, for its user alone, with the one before it.
//!
//! ```text
//! /run/iowhy-watch-0/     0700, of the user; below $XDG_RUNTIME_DIR or /dev/shm for others
//!   last/                 the recording of the last watch
//!   before/               that of the watch before it
//!   new/                  what is being written; left over only by a killed process
//! ```
//!
//! The directory is opened without following links, and refused unless it belongs to this user and
//! nobody else may enter it; what is in it can then be changed by nobody else. Where somebody else
//! has taken its name, it has another one, `iowhy-watch-0.` and a random number, and is found by
//! its owner.
//!
//! What does not belong here: how a watch is encoded (see [`iowhy_model::recording`]).

use crate::failure::Failure;
use crate::{output, redaction};
use iowhy_fs::Folder;
use iowhy_model::clock::WallClock;
use iowhy_model::recording::{RecordingError, RecordingReader, RecordingRing, RecordingRingLimits};
use iowhy_model::source::{Batch, Source};
use iowhy_model::{Environment, Names};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Bytes that a watch may take; of more, its last seconds are kept.
const MOST_BYTES: usize = 64 << 20;
/// The part of the free memory of the file system that a watch may take.
const MOST_PART: u64 = 16;
/// File systems in memory: tmpfs and ramfs, as `statfs` numbers them.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// The directory of root's watch; others have a runtime directory of their own.
const OF_ROOT: &str = "/run";
const OF_ALL: &str = "/dev/shm";

/// A watch that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptWatch {
    /// The last one.
    Last,
    /// The one before it.
    Before,
}

impl KeptWatch {
    const fn name(self) -> &'static str {
        match self {
            KeptWatch::Last => "last",
            KeptWatch::Before => "before",
        }
    }
}

/// The directory of this user's watches.
struct WatchFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl WatchFolder {
    /// Opens the one below `base`; makes it first if `makes`.
    fn open(base: &Path, makes: bool) -> io::Result<WatchFolder> {
        let user = rustix::process::geteuid();
        let plain = format!("iowhy-watch-{}", user.as_raw());
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(base, flags, Mode::empty())?;
        let taken = match WatchFolder::open_named(base, &descriptor, &plain, makes) {
            Err(cause) => cause,
            Ok(folder) => return Ok(folder),
        };
        // Somebody else's name is no name of ours; who made the directory says whose it is.
        let random = format!("{plain}.");
        let mut entries = rustix::fs::Dir::read_from(&descriptor)?;
        let own = entries.by_ref().flatten().find_map(|entry| {
            let name = entry.file_name().to_str().ok()?.strip_prefix(&random)?.to_owned();
            WatchFolder::open_named(base, &descriptor, &format!("{random}{name}"), false).ok()
        });
        match own {
            Some(own) => Ok(own),
            None if makes => {
                let mut number = [0; 8];
                rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
                let name = format!("{random}{:016x}", u64::from_ne_bytes(number));
                WatchFolder::open_named(base, &descriptor, &name, true)
            }
            None => Err(taken),
        }
    }

    /// Opens the directory `name` below `base`, if it is this user's alone.
    fn open_named(
        base: &Path,
        base_descriptor: &OwnedFd,
        name: &str,
        makes: bool,
    ) -> io::Result<WatchFolder> {
        let user = rustix::process::geteuid();
        if makes {
            match rustix::fs::mkdirat(base_descriptor, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let descriptor = rustix::fs::openat(base_descriptor, name, flags, Mode::empty())?;
        let about = rustix::fs::fstat(&descriptor)?;
        let is_of_others = Mode::from_raw_mode(about.st_mode).intersects(Mode::RWXG | Mode::RWXO);
        if about.st_uid != user.as_raw() || is_of_others {
            let path = base.join(name);
            let cause = format!("{} is not this user's alone: remove it", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, cause));
        }
        Ok(WatchFolder { path: base.join(name), descriptor })
    }

    /// Whether it is in memory, and how many bytes are free there.
    fn free_memory(&self) -> io::Result<Option<u64>> {
        let kind = rustix::fs::fstatfs(&self.descriptor)?;
        let is_in_memory = IN_MEMORY.contains(&(kind.f_type as u64));
        Ok(is_in_memory.then(|| kind.f_bavail.saturating_mul(kind.f_bsize as u64)))
    }

    fn watch(&self, which: KeptWatch) -> PathBuf {
        self.path.join(which.name())
    }
}

/// Directories that may hold it, the best first.
fn bases() -> Vec<PathBuf> {
    let runtime = match rustix::process::geteuid().is_root() {
        true => Some(PathBuf::from(OF_ROOT)),
        false => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
    };
    runtime.into_iter().filter(|path| path.is_absolute()).chain([OF_ALL.into()]).collect()
}

/// A watch that will be kept when it ends.
pub struct WatchKeeper {
    folder: WatchFolder,
    ring: RecordingRing,
    environment: Environment,
}

impl WatchKeeper {
    /// Begins to keep the watch that is described by `now`; `None`, with a note, where there is no
    /// memory for it.
    pub fn begin(now: &Environment) -> Option<WatchKeeper> {
        WatchKeeper::try_begin(now, &bases()).unwrap_or_else(|cause| {
            output::note(&format!("note: this watch will not be kept: {cause}"));
            None
        })
    }

    fn try_begin(now: &Environment, bases: &[PathBuf]) -> Result<Option<WatchKeeper>, io::Error> {
        for base in bases {
            let is_in_memory = rustix::fs::statfs(base)
                .is_ok_and(|about| IN_MEMORY.contains(&(about.f_type as u64)));
            if !is_in_memory {
                continue;
            }
            let folder = WatchFolder::open(base, true)?;
            let free = folder.free_memory()?.unwrap_or(0) / MOST_PART;
            let bytes = usize::try_from(free).unwrap_or(usize::MAX).min(MOST_BYTES);
            let limits =
                RecordingRingLimits { bytes, span_ns: u64::MAX, ..RecordingRingLimits::default() };
            let ring = RecordingRing::new(limits, now.start_ns).map_err(io::Error::other)?;
            return Ok(Some(WatchKeeper { folder, ring, environment: now.clone() }));
        }
        Ok(None)
    }

    /// The directory that it will be written to.
    pub fn place(&self) -> &Path {
        &self.folder.path
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Fails if rows cannot be encoded: then the watch is not kept.
    pub fn add(&mut self, batch: &Batch, names: &Names) -> Result<(), RecordingError> {
        self.ring.add(batch, names)
    }

    /// All rows until `until_ns` were added.
    ///
    /// # Errors
    /// Fails for the same reasons as [`WatchKeeper::add`].
    pub fn seen(&mut self, until_ns: u64, names: &Names) -> Result<(), RecordingError> {
        self.ring.seen(until_ns, &self.environment, names)
    }

    /// Takes the present environment of the watch.
    pub fn note(&mut self, now: &Environment) {
        self.environment.clone_from(now);
    }

    /// Writes the watch, whose final environment is `now`, in place of the last one, which becomes
    /// the one before it. Returns its directory.
    ///
    /// # Errors
    /// Fails if the watch cannot be written, or another process is writing.
    pub fn finish(self, now: &Environment, names: &Names) -> io::Result<PathBuf> {
        let WatchKeeper { folder, ring, .. } = self;
        rustix::fs::flock(&folder.descriptor, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("another watch ends at the same time"))?;
        let (last, before) = (KeptWatch::Last.name(), KeptWatch::Before.name());
        let own = Folder::open_own(&folder.path)?;
        remove(&own, NEW)?;
        let snapshot = ring.whole(now, names).map_err(io::Error::other)?;
        if let Err(cause) = snapshot.write(&folder.path.join(NEW)) {
            remove(&own, NEW)?;
            return Err(io::Error::other(cause));
        }
        if own.has(last) {
            remove(&own, before)?;
            own.rename(last, &own, before)?;
        }
        own.rename(NEW, &own, last)?;
        Ok(folder.watch(KeptWatch::Last))
    }
}

/// The name of a watch that is being written.
const NEW: &str = "new";

fn remove(folder: &Folder, name: &str) -> io::Result<()> {
    match folder.remove_all(name) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

/// The directory of a watch that is kept, if there is one.
fn found(which: KeptWatch, bases: &[PathBuf]) -> Option<PathBuf> {
    let folders = bases.iter().filter_map(|base| WatchFolder::open(base, false).ok());
    folders.map(|folder| folder.watch(which)).find(|path| path.is_dir())
}

/// The paths that the user `given`, else the watch that is kept, which is said.
pub fn or_last(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    match given.is_empty() {
        false => Ok(given.to_vec()),
        true => Ok(vec![kept(KeptWatch::Last)?]),
    }
}

/// The directory of a watch that is kept; says which it is.
pub fn kept(which: KeptWatch) -> Result<PathBuf, Failure> {
    let Some(path) = found(which, &bases()) else { return Err(none(which)) };
    if let Ok(reader) = RecordingReader::open(&path) {
        let about = reader.environment();
        let seconds = about.duration_ns() as f64 / 1e9;
        let time = WallClock::from_environment(about)
            .map(|clock| format!(" that ended at {}", clock.time(about.end_ns)));
        let only = match about.filter.is_empty() || redaction::is_wanted() {
            true => String::new(),
            false => format!(", only {}", about.filter),
        };
        let word = match which {
            KeptWatch::Last => "the last watch",
            KeptWatch::Before => "the watch before it",
        };
        let time = time.unwrap_or_default();
        output::note(&format!("{word}: {seconds:.1} s{time}{only}"));
    }
    Ok(path)
}

fn none(which: KeptWatch) -> Failure {
    let (message, hint) = match which {
        KeptWatch::Last => (
            "failed to find the last watch: there is none of this user",
            "`iowhy` watches for ten seconds and keeps that in memory; or name a recording",
        ),
        KeptWatch::Before => (
            "failed to find the watch before the last one: there is none of this user",
            "`iowhy` twice, without and with a change; or name the recordings: `iowhy diff A B`",
        ),
    };
    Failure::new(message, Some(hint.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::summarize;
    use iowhy_model::script::Script;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory in memory; `None`, which is said, where there is none.
    fn memory() -> Option<tempfile::TempDir> {
        let base = tempfile::tempdir_in(OF_ALL).ok()?;
        let kind = rustix::fs::statfs(base.path()).ok()?;
        IN_MEMORY.contains(&(kind.f_type as u64)).then_some(base)
    }

    fn keep(base: &Path, requests: u32) -> io::Result<PathBuf> {
        let mut script = Script::new(10);
        for _ in 0..requests {
            script.read("sda", 4096).by(7, "cat").direct(100, 200, 1_000_000).add();
        }
        let begun = WatchKeeper::try_begin(&script.environment, &[base.to_owned()])?;
        let mut keeper = begun.expect("it is in memory");
        keeper.add(&script.batch, &script.names).map_err(io::Error::other)?;
        keeper.finish(&script.environment, &script.names)
    }

    fn requests(path: &Path) -> u64 {
        summarize(&mut RecordingReader::open(path).unwrap()).unwrap().watch.requests
    }

    #[test]
    fn the_last_two_watches_stay() {
        let Some(base) = memory() else { return eprintln!("skipped: /dev/shm is not in memory") };
        let bases = [base.path().to_owned()];
        assert_eq!(found(KeptWatch::Last, &bases), None);
        for count in [3, 5, 7] {
            keep(base.path(), count).unwrap();
        }
        let path = |which| found(which, &bases).unwrap();
        assert_eq!((requests(&path(KeptWatch::Last)), requests(&path(KeptWatch::Before))), (7, 5));
        let folder = path(KeptWatch::Last).parent().unwrap().to_owned();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "what is older goes");
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        let Some(base) = memory() else { return eprintln!("skipped: /dev/shm is not in memory") };
        let user = rustix::process::geteuid().as_raw();
        let folder = base.path().join(format!("iowhy-watch-{user}"));
        let elsewhere = tempfile::tempdir_in(OF_ALL).unwrap();
        symlink(elsewhere.path(), &folder).unwrap();
        let kept = keep(base.path(), 3).unwrap();
        assert!(!kept.starts_with(&folder), "a link is followed: {}", kept.display());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(keep(base.path(), 5).unwrap(), kept);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let bases = [base.path().to_owned()];
        assert_eq!(requests(&found(KeptWatch::Last, &bases).unwrap()), 5);
        assert_eq!(requests(&found(KeptWatch::Before, &bases).unwrap()), 3);
        let own = kept.parent().unwrap();
        assert_eq!(fs::metadata(own).unwrap().permissions().mode() & 0o777, 0o700);
        // Nobody else's is read.
        fs::set_permissions(own, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(found(KeptWatch::Last, &bases), None);
    }
}
