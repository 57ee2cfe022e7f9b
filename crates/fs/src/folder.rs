//! A directory that is open: files and directories in it are made, opened, renamed and removed
//! through its handle, so that they are in this directory whatever becomes of its path.
//!
//! What does not belong here: how a path leads to it (see [`crate::walk`]).

use crate::confined::by_writer;
use crate::read;
use crate::rights::with_own_rights;
use crate::walk;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rights of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;
/// In a directory with this bit, files are renamed and removed by their owners only.
const STICKY: u32 = 0o1000;
/// Directories above one: a path has at most 4096 bytes.
const MOST_ABOVE: usize = 2048;

/// An open directory.
#[derive(Clone, Debug)]
pub struct Folder {
    handle: Arc<OwnedFd>,
    /// For messages, and for programs that need a path.
    path: PathBuf,
}

/// Returns who, other than root and the caller, may rename what is in a directory: `belongs to user
/// 7`, `can be written by others`; `None` if nobody may.
fn who_may_rename(about: &Stat) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    if about.st_uid != 0 && about.st_uid != own {
        return Some(format!("belongs to user {}", about.st_uid));
    }
    // Whose files are in a directory with this bit, that user may rename them; these are checked.
    if about.st_mode & STICKY != 0 {
        return None;
    }
    // Root's group is root, and a user's own group is the user, as far as the file system knows.
    let is_of_group = about.st_gid == 0 || own != 0 && about.st_gid == own;
    let writers = if is_of_group { 0o002 } else { OTHERS_WRITE };
    (about.st_mode & writers != 0).then(|| "can be written by others".to_owned())
}

impl Folder {
    /// Opens the directory `path` of any owner.
    ///
    /// # Errors
    /// Fails for the same reasons as [`walk::folder`].
    pub fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder { handle: Arc::new(walk::folder(path)?), path: path.to_owned() })
    }

    /// Opens the directory `path`, which belongs to the caller alone.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Folder::open`] and [`Folder::check_own`].
    pub fn open_own(path: &Path) -> io::Result<Folder> {
        let folder = Folder::open(path)?;
        folder.check_own()?;
        Ok(folder)
    }

    /// Makes the directory `path`, or opens it if it exists and belongs to the caller; says whether
    /// it was made.
    ///
    /// # Errors
    /// Fails if the directory cannot be made, or the one that exists is not only the caller's.
    pub fn make(path: &Path, mode: u32) -> io::Result<(Folder, bool)> {
        match Folder::make_new(path, mode) {
            Ok(folder) => Ok((folder, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok((Folder::open_own(path)?, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the directory `path`, where nothing stands yet.
    ///
    /// # Errors
    /// Fails if something stands there, a link included, or the directory cannot be made.
    pub fn make_new(path: &Path, mode: u32) -> io::Result<Folder> {
        if path.file_name().is_none() {
            // `.`, `..` and `/`.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (parent, name) = crate::parent(path)?;
        Ok(Folder { path: path.to_owned(), ..parent.make_folder(&name, mode)? })
    }

    /// Makes the directory `path` and those above it, or opens it if it exists and belongs to the
    /// caller.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Folder::make`].
    pub fn make_all(path: &Path, mode: u32) -> io::Result<Folder> {
        match Folder::make(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| *parent != Path::new(""));
                let Some(parent) = parent else { return Err(error) };
                // The directories above may be anybody's, such as /var or a home.
                match Folder::open(parent) {
                    Err(gone) if gone.kind() == io::ErrorKind::NotFound => {
                        Folder::make_all(parent, mode)?;
                    }
                    opened => drop(opened?),
                }
                Ok(Folder::make(path, mode)?.0)
            }
            made => Ok(made?.0),
        }
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path of `name` in it through its handle, for calls that take paths alone, as long as this
    /// process has it open.
    pub fn by_handle(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.handle.as_raw_fd().to_string()).join(name)
    }

    /// Refuses a directory that is not the caller's, or that others may write to: they could
    /// redirect what is written there, and read it.
    ///
    /// # Errors
    /// Fails if it is such a directory.
    pub fn check_own(&self) -> io::Result<()> {
        let about = rustix::fs::fstat(&self.handle)?;
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if about.st_uid != rustix::process::geteuid().as_raw() {
            let owner = about.st_uid;
            return refused(format!(
                "the directory belongs to user {owner}, who could redirect what is written there"
            ));
        }
        match about.st_mode & OTHERS_WRITE {
            0 => Ok(()),
            _ => refused(format!(
                "others may write to the directory (mode {:03o}), and could redirect what is \
                 written there",
                about.st_mode & 0o777
            )),
        }
    }

    /// Fails if another user could give a path of the caller's in it to another file: for programs
    /// that are told such a path. In a directory of root's in which users may remove only their own
    /// files, as in /tmp, nobody could, as long as the file exists: what a program removes and
    /// makes anew needs a directory of the caller's.
    ///
    /// # Errors
    /// Fails if somebody could, with the reason.
    pub fn check_paths(&self) -> io::Result<()> {
        let about = rustix::fs::fstat(&self.handle)?;
        let is_sticky = about.st_mode & STICKY != 0 && about.st_uid == 0;
        if !is_sticky {
            self.check_own()?;
        }
        self.check_above()
    }

    /// Fails if somebody could put another directory in the place of this one, or of one above it.
    fn check_above(&self) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut below = rustix::fs::openat(&self.handle, ".", flags, Mode::empty())?;
        for _ in 0..MOST_ABOVE {
            let above = rustix::fs::openat(&below, "..", flags, Mode::empty())?;
            let (about, inner) = (rustix::fs::fstat(&above)?, rustix::fs::fstat(&below)?);
            if (about.st_dev, about.st_ino) == (inner.st_dev, inner.st_ino) {
                return Ok(());
            }
            if let Some(who) = who_may_rename(&about) {
                let why =
                    format!("a directory above it {who}, who could put another one in its place");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            below = above;
        }
        Err(rustix::io::Errno::NAMETOOLONG.into())
    }

    /// Takes from others the right to write to the directory, if it is the caller's.
    ///
    /// # Errors
    /// Fails if the directory is somebody else's.
    pub fn make_own(&self) -> io::Result<()> {
        let about = rustix::fs::fstat(&self.handle)?;
        let is_own = about.st_uid == rustix::process::geteuid().as_raw();
        if is_own && about.st_mode & OTHERS_WRITE != 0 {
            let mode = Mode::from_raw_mode(about.st_mode & 0o7777 & !OTHERS_WRITE);
            let handle = self.readable()?;
            by_writer(move || Ok(rustix::fs::fchmod(handle, mode)?))?;
        }
        self.check_own()
    }

    /// Opens the directory `name` in it, which is no link.
    ///
    /// # Errors
    /// Fails if `name` is no directory, or cannot be opened.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        let name = single(name.as_ref())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle =
            with_own_rights(|| rustix::fs::openat(&self.handle, name, flags, Mode::empty()))?;
        Ok(Folder { handle: Arc::new(handle), path: self.path.join(name) })
    }

    /// Makes the directory `name` in it.
    ///
    /// # Errors
    /// Fails if something of that name exists, or the directory cannot be made.
    pub fn make_folder(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Folder> {
        let name = single(name.as_ref())?;
        let mode = Mode::from_raw_mode(mode);
        let (handle, made) = (Arc::clone(&self.handle), name.to_owned());
        by_writer(move || Ok(with_own_rights(|| rustix::fs::mkdirat(&handle, made, mode))?))?;
        let folder = self.folder(name)?;
        // If the directory is another's, it may have been replaced meanwhile.
        folder.check_own()?;
        Ok(folder)
    }

    /// Makes the directory `name` in it, unless it exists and belongs to the caller.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Folder::make_folder`] and [`Folder::check_own`].
    pub fn make_folder_once(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Folder> {
        match self.make_folder(name.as_ref(), mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let folder = self.folder(name)?;
                folder.check_own()?;
                Ok(folder)
            }
            made => made,
        }
    }

    /// Makes the file `name` in it, to be written.
    ///
    /// # Errors
    /// Fails if something of that name exists, a link included, or the file cannot be made.
    pub fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.opened(name.as_ref(), flags, mode)
    }

    /// Makes the file `name` anew: a file or a link of that name is removed, never followed.
    ///
    /// # Errors
    /// Fails if a directory of that name exists, or the file cannot be made.
    pub fn create_anew(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        // A missing file needs no removal; one that cannot be removed lets the next call fail.
        let _ = self.remove_file(name.as_ref());
        self.create(name, mode)
    }

    /// Opens the caller's own file `name` to append to it, or makes it.
    ///
    /// # Errors
    /// Fails if it is no regular file, is somebody else's, has another name too, or cannot be
    /// opened.
    pub fn append(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK;
        own(self.opened(name.as_ref(), flags, mode)?)
    }

    /// Opens the caller's own file `name`, which serves as a lock, or makes it.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Folder::append`].
    pub fn lock_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        own(self.opened(name.as_ref(), flags, mode)?)
    }

    /// Opens the regular file `name` for reading; a link is not followed.
    ///
    /// # Errors
    /// Fails if it is no regular file, or cannot be opened.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        read::regular(self.opened(name.as_ref(), read::READING, 0)?)
    }

    /// The kind, size and times of `name`, which is not opened; of a link, its own.
    ///
    /// # Errors
    /// Fails if nothing of that name exists.
    pub fn metadata(&self, name: impl AsRef<OsStr>) -> io::Result<Metadata> {
        let name = single(name.as_ref())?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let seen =
            with_own_rights(|| rustix::fs::openat(&self.handle, name, flags, Mode::empty()))?;
        File::from(seen).metadata()
    }

    fn opened(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let name = single(name)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let mode = Mode::from_raw_mode(mode);
        let (handle, name) = (Arc::clone(&self.handle), name.to_owned());
        let open = move || {
            Ok(File::from(with_own_rights(|| rustix::fs::openat(&handle, name, flags, mode))?))
        };
        if flags.intersects(OFlags::RWMODE | OFlags::CREATE) { by_writer(open) } else { open() }
    }

    /// Replaces the content of `name` by `bytes`: a reader finds the old one or the new one. With
    /// `synced` the bytes are on the disk before they have the name.
    ///
    /// # Errors
    /// Fails if the file cannot be written; the old content stays.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        bytes: &[u8],
        mode: u32,
        synced: bool,
    ) -> io::Result<()> {
        let name = name.as_ref();
        let partial = partial(name);
        let written = self.create_anew(&partial, mode).and_then(|mut file| {
            file.write_all(bytes)?;
            if synced { file.sync_all() } else { Ok(()) }
        });
        written.and_then(|()| self.rename(&partial, self, name)).inspect_err(|_| {
            // The partial file is of no use, and its space may be missing.
            let _ = self.remove_file(&partial);
        })
    }

    /// Renames `from` in it to `to` in the directory `folder`; a file of that name is replaced.
    ///
    /// # Errors
    /// Fails if the file cannot be renamed.
    pub fn rename(
        &self,
        from: impl AsRef<OsStr>,
        folder: &Folder,
        to: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (from, to) = (single(from.as_ref())?, single(to.as_ref())?);
        let (from, to) = (from.to_owned(), to.to_owned());
        let (old, new) = (Arc::clone(&self.handle), Arc::clone(&folder.handle));
        by_writer(move || Ok(with_own_rights(|| rustix::fs::renameat(&old, from, &new, to))?))
    }

    /// Gives the file `from` in it a second name, `to` in the directory `folder`.
    ///
    /// # Errors
    /// Fails if something of that name exists, or the file system has no such links.
    pub fn link(
        &self,
        from: impl AsRef<OsStr>,
        folder: &Folder,
        to: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (from, to) = (single(from.as_ref())?, single(to.as_ref())?);
        let (from, to) = (from.to_owned(), to.to_owned());
        let (old, new) = (Arc::clone(&self.handle), Arc::clone(&folder.handle));
        let flags = AtFlags::empty();
        by_writer(move || Ok(with_own_rights(|| rustix::fs::linkat(&old, from, &new, to, flags))?))
    }

    /// Makes the symbolic link `name` in it, which leads to `target`.
    ///
    /// # Errors
    /// Fails if something of that name exists, or the link cannot be made.
    pub fn symlink(&self, target: &Path, name: impl AsRef<OsStr>) -> io::Result<()> {
        let (target, name) = (target.to_owned(), single(name.as_ref())?.to_owned());
        let handle = Arc::clone(&self.handle);
        by_writer(move || Ok(rustix::fs::symlinkat(target, &handle, name)?))
    }

    /// Removes the file, link, pipe or socket `name`.
    ///
    /// # Errors
    /// Fails if there is none, or it cannot be removed.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name.as_ref(), AtFlags::empty())
    }

    /// Removes the empty directory `name`.
    ///
    /// # Errors
    /// Fails if there is none, it is not empty, or it cannot be removed.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name.as_ref(), AtFlags::REMOVEDIR)
    }

    fn unlink(&self, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        let name = single(name)?;
        let (handle, name) = (Arc::clone(&self.handle), name.to_owned());
        by_writer(move || Ok(with_own_rights(|| rustix::fs::unlinkat(&handle, name, flags))?))
    }

    /// Removes whatever is called `name`, with all that is in it; no link is followed.
    ///
    /// # Errors
    /// Fails if there is nothing, or it cannot be removed.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        if FileType::from_raw_mode(walk::about(&self.handle, name)?.st_mode) != FileType::Directory
        {
            return self.remove_file(name);
        }
        // The standard library goes down by handles; this path begins at ours.
        let seen = self.by_handle(name);
        by_writer(move || with_own_rights(|| std::fs::remove_dir_all(seen)))
    }

    /// The names in it, in no order.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.readable()?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Whether nothing is in it.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.names()?.is_empty())
    }

    /// Whether something is called `name`, a link included.
    pub fn has(&self, name: impl AsRef<OsStr>) -> bool {
        walk::about(&self.handle, name.as_ref()).is_ok()
    }

    /// The permissions of the caller's own regular file `name`, which has no other name; `None` if
    /// there is none: somebody else's says who else would like to read, and in a directory where
    /// others may rename files they could have moved it there.
    pub fn file_mode(&self, name: impl AsRef<OsStr>) -> Option<u32> {
        self.check_own().ok()?;
        let about = walk::about(&self.handle, name.as_ref()).ok()?;
        let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        let is_own = about.st_uid == rustix::process::geteuid().as_raw() && about.st_nlink == 1;
        (is_file && is_own).then_some(about.st_mode & 0o777)
    }

    /// Waits until the disk has the names in it, as they are now: after a power cut a name may
    /// otherwise be gone, or stand for an older file.
    ///
    /// # Errors
    /// Fails if the disk does not take them.
    pub fn sync_names(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.readable()?)?)
    }

    /// Waits until the disk has everything of the file system that the directory is on.
    ///
    /// # Errors
    /// Fails if the disk does not take it.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.readable()?)?)
    }

    /// A handle by which the names can be read.
    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(with_own_rights(|| rustix::fs::openat(&self.handle, ".", flags, Mode::empty()))?)
    }
}

/// The name under which `name` is written until it is whole.
pub fn partial(name: &OsStr) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(".partial");
    partial
}

/// A name in one directory, which leads nowhere else.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_encoded_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        let why = format!("{} is not a name in a directory", name.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(name)
}

/// Returns `file` if it is a regular one of the caller without another name.
fn own(file: File) -> io::Result<File> {
    let file = read::regular(file)?;
    let about = rustix::fs::fstat(&file)?;
    if about.st_uid != rustix::process::geteuid().as_raw() || about.st_nlink != 1 {
        let why = format!("the file belongs to user {}, or has another name too", about.st_uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}
