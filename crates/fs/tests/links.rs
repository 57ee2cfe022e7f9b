//! Links that somebody else swaps as fast as possible, pipes and devices in place of files,
//! directories of others: nothing is written through them, and nothing waits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

use iowhy_fs::{Folder, read, special};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Attempts of each race.
const ATTEMPTS: usize = 1_000;
const NOBODY: u32 = 65_534;

/// Swaps `name` between nothing and a link to `target`, as fast as it can.
struct LinkSwapper {
    stop: Arc<AtomicBool>,
    /// Number of links that were made.
    links: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl LinkSwapper {
    fn start(name: PathBuf, target: PathBuf) -> LinkSwapper {
        let (stop, links) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, made) = (Arc::clone(&stop), Arc::clone(&links));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                made.fetch_add(u64::from(symlink(&target, &name).is_ok()), Ordering::Relaxed);
                let _ = fs::remove_file(&name);
            }
        });
        LinkSwapper { stop, links, thread: Some(thread) }
    }

    fn links(&self) -> u64 {
        self.links.load(Ordering::Relaxed)
    }
}

impl Drop for LinkSwapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Does `write` in a directory where `name` is swapped for a link, until there were enough attempts
/// and links. Returns the text of the file that the link leads to.
fn raced(name: &str, mut write: impl FnMut(&Folder)) -> String {
    let base = tempfile::tempdir().unwrap();
    let victim = base.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let attacked = base.path().join("attacked");
    fs::create_dir(&attacked).unwrap();
    let folder = Folder::open(&attacked).unwrap();
    let swapper = LinkSwapper::start(attacked.join(name), victim.clone());
    let mut attempts = 0;
    while attempts < ATTEMPTS || swapper.links() < ATTEMPTS as u64 {
        write(&folder);
        attempts += 1;
    }
    drop(swapper);
    fs::read_to_string(&victim).unwrap()
}

fn race(name: &str, write: impl FnMut(&Folder)) {
    assert_eq!(raced(name, write), "precious");
}

#[test]
fn a_plain_write_loses_the_race() {
    let written = raced("file", |folder| drop(fs::write(folder.path().join("file"), "x")));
    assert_eq!(written, "x", "the race proves nothing");
}

#[test]
fn no_way_to_write_follows_a_link_that_is_swapped() {
    race("file", |folder| {
        let made = folder.create("file", 0o600).and_then(|mut file| file.write_all(b"x"));
        drop(made);
    });
    race("file", |folder| {
        let made = folder.create_anew("file", 0o600).and_then(|mut file| file.write_all(b"x"));
        drop(made);
    });
    race(".file.partial", |folder| drop(folder.replace("file", b"x", 0o600, false)));
    race("file", |folder| drop(folder.replace("file", b"x", 0o600, false)));
    race("log", |folder| {
        let opened = folder.append("log", 0o600).and_then(|mut file| file.write_all(b"x"));
        drop(opened);
    });
    race("lock", |folder| drop(folder.lock_file("lock", 0o600)));
}

#[test]
fn a_directory_that_is_swapped_for_a_link_keeps_what_is_written() {
    let base = tempfile::tempdir().unwrap();
    let (own, victim) = (base.path().join("own"), base.path().join("victim"));
    fs::create_dir_all(victim.join("requests")).unwrap();
    let (folder, made) = Folder::make(&own, 0o700).unwrap();
    assert!(made);
    let table = folder.make_folder("requests", 0o700).unwrap();
    // The owner of the directory above does what the owner of a directory may do.
    fs::rename(&own, base.path().join("elsewhere")).unwrap();
    symlink(&victim, &own).unwrap();
    table.create("1", 0o600).unwrap();
    folder.folder("requests").unwrap().create("2", 0o600).unwrap();
    assert_eq!(fs::read_dir(victim.join("requests")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(base.path().join("elsewhere/requests")).unwrap().count(), 2);
}

#[test]
fn links_of_others_are_refused_and_own_ones_followed() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("target")).unwrap();
    let link = base.path().join("link");
    symlink("target", &link).unwrap();
    Folder::open(&link).unwrap().create("file", 0o600).unwrap();
    assert!(base.path().join("target/file").exists());
    symlink("loop", base.path().join("loop")).unwrap();
    assert!(Folder::open(&base.path().join("loop")).is_err());
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a link of somebody else");
        return;
    }
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
    let error = Folder::open(&link).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("link is a link of user 65534"), "{error}");
    assert!(iowhy_fs::create(&link.join("other"), 0o600).is_err());
}

#[test]
fn a_directory_of_others_is_no_own_one() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("own");
    let (folder, _) = Folder::make(&path, 0o700).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Folder::make(&path, 0o700).unwrap_err();
    assert!(error.to_string().contains("others may write to the directory"), "{error}");
    folder.make_own().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
    Folder::make_all(&path.join("a/b/c"), 0o750).unwrap();
    assert_eq!(fs::metadata(path.join("a/b")).unwrap().mode() & 0o777, 0o750);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a directory to somebody else");
        return;
    }
    chown(&path, Some(NOBODY), None).unwrap();
    let error = folder.make_own().unwrap_err();
    assert!(error.to_string().contains("belongs to user 65534"), "{error}");
}

#[test]
fn files_of_others_are_not_appended_to() {
    let base = tempfile::tempdir().unwrap();
    let folder = Folder::open(base.path()).unwrap();
    folder.append("log", 0o640).unwrap().write_all(b"one\n").unwrap();
    folder.append("log", 0o640).unwrap().write_all(b"two\n").unwrap();
    assert_eq!(fs::read_to_string(base.path().join("log")).unwrap(), "one\ntwo\n");
    fs::hard_link(base.path().join("log"), base.path().join("second")).unwrap();
    let error = folder.append("log", 0o640).unwrap_err();
    assert!(error.to_string().contains("has another name too"), "{error}");
    rustix::fs::mkfifoat(rustix::fs::CWD, base.path().join("pipe"), 0o600.into()).unwrap();
    assert!(folder.append("pipe", 0o640).is_err() && folder.lock_file("pipe", 0o640).is_err());
}

#[test]
fn only_regular_files_of_a_bounded_size_are_read() {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), 0o600.into()).unwrap();
    let said = |path: &Path| read::bytes(path, 10).unwrap_err().to_string();
    assert!(said(&path("pipe")).contains("a pipe"));
    assert!(said(Path::new("/dev/zero")).contains("a device"));
    assert!(read::bytes(base.path(), 10).is_err());
    fs::write(path("ten"), "0123456789").unwrap();
    assert_eq!(read::text(&path("ten"), 10).unwrap(), "0123456789");
    fs::write(path("eleven"), "0123456789x").unwrap();
    assert!(said(&path("eleven")).contains("more than 10 bytes"));
    fs::File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
    assert!(said(&path("huge")).contains("more than 10 bytes"));
    // In a directory that somebody else fills, a link leads nowhere.
    symlink("ten", path("link")).unwrap();
    let folder = Folder::open(base.path()).unwrap();
    assert!(folder.open_file("link").is_err() && folder.open_file("pipe").is_err());
    folder.open_file("ten").unwrap();
    for name in ["..", ".", "", "a/b", "../victim"] {
        assert!(folder.create(name, 0o600).is_err() && folder.remove_file(name).is_err());
    }
}

#[test]
fn pipes_and_terminals_are_written_as_they_are() {
    assert!(special::is_special(Path::new("/dev/null")).unwrap());
    special::open(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    assert!(!special::is_special(&file).unwrap());
    fs::write(&file, "x").unwrap();
    assert!(!special::is_special(&file).unwrap() && special::open(&file).is_err());
    special::is_special(Path::new("/dev/stdout")).unwrap();
}

/// Who made a file or a pipe where root's output goes does not read it.
#[test]
fn files_and_pipes_of_others_do_not_decide_who_reads() {
    let base = tempfile::tempdir().unwrap();
    let folder = Folder::open(base.path()).unwrap();
    let (file, pipe) = (base.path().join("file"), base.path().join("pipe"));
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(folder.file_mode("file"), Some(0o644));
    fs::hard_link(&file, base.path().join("other")).unwrap();
    assert_eq!(folder.file_mode("file"), None);
    fs::remove_file(base.path().join("other")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o666.into()).unwrap();
    assert!(special::is_special(&pipe).unwrap());
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file of somebody else");
        return;
    }
    chown(&file, Some(NOBODY), None).unwrap();
    chown(&pipe, Some(NOBODY), None).unwrap();
    assert_eq!(folder.file_mode("file"), None);
    for refused in [special::is_special(&pipe).unwrap_err(), special::open(&pipe).unwrap_err()] {
        assert!(refused.to_string().contains("a pipe of user 65534"), "{refused}");
    }
}

#[test]
fn everything_below_a_name_is_removed_and_nothing_behind_a_link() {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().join(name);
    fs::create_dir_all(path("gone/deep")).unwrap();
    fs::create_dir(path("kept")).unwrap();
    fs::write(path("kept/file"), "x").unwrap();
    symlink(path("kept"), path("gone/deep/link")).unwrap();
    let folder = Folder::open(base.path()).unwrap();
    folder.remove_all("gone").unwrap();
    symlink(path("kept"), path("link")).unwrap();
    folder.remove_all("link").unwrap();
    assert!(path("kept/file").exists() && !path("gone").exists() && !folder.has("link"));
    let mut names = folder.names().unwrap();
    names.sort();
    assert_eq!(names, ["kept"]);
}

#[test]
fn a_directory_above_must_be_nobody_elses() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a directory to somebody");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let inner = home.path().join("of-root");
    fs::create_dir(&inner).unwrap();
    let check = || Folder::open(&inner).unwrap().check_paths();
    check().unwrap();
    chown(home.path(), Some(NOBODY), None).unwrap();
    let said = check().unwrap_err().to_string();
    assert!(said.contains("belongs to user 65534"), "{said}");
    chown(home.path(), Some(0), None).unwrap();
    let writable = fs::Permissions::from_mode(0o777);
    fs::set_permissions(home.path(), writable).unwrap();
    let said = check().unwrap_err().to_string();
    assert!(said.contains("can be written by others"), "{said}");
}
