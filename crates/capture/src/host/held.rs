//! The files that processes hold open, from /proc: open descriptors, working directories, programs,
//! and deleted files that are mapped.
//!
//! What does not belong here: files opened from now on (see [`crate::probes::file`]).

use super::mounts::Mounts;
use super::read_text;
use super::users::Users;
use rustc_hash::FxHashSet;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Rows kept; further ones are counted.
const MOST_ROWS: usize = 1_000_000;
/// The kernel's suffix for a path whose name was removed.
const DELETED: &str = " (deleted)";
/// The flag of a descriptor that only refers to a path.
const O_PATH: u32 = 0o10_000_000;
/// File systems that keep files in memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
/// Prefixes of the names of files that were never on a mounted file system: they are in memory,
/// too.
const NEVER_MOUNTED: [&str; 5] = ["/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage", "/["];

/// The way in which a process holds a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Hold {
    /// As its working directory.
    Directory,
    /// As the program that it runs.
    Program,
    /// Mapped into its memory.
    Mapped,
    /// By a descriptor.
    Descriptor(u32),
}

/// The access mode of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AccessMode {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To read and to write.
    Both,
}

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HeldKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A block device.
    BlockDevice,
}

/// A file that a process holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldFile {
    /// The process.
    pub pid: u32,
    /// The process's name.
    pub process: String,
    /// The process's user: the name, else the number.
    pub user: String,
    /// The type of the file.
    pub kind: HeldKind,
    /// The way in which the process holds the file.
    pub hold: Hold,
    /// The access mode; `None` without a descriptor, and for an O_PATH descriptor.
    pub mode: Option<AccessMode>,
    /// Length of the file, bytes; `None` if it cannot be read.
    pub size: Option<u64>,
    /// The descriptor's file offset, bytes.
    pub offset: Option<u64>,
    /// Space that the file uses in its file system, bytes; `None` if it cannot be read.
    pub taken: Option<u64>,
    /// The device number of its file system: major, minor.
    pub device: (u32, u32),
    /// The file's inode number.
    pub inode: u64,
    /// The file's path as seen from the root mount; if it is not mounted there, as seen by its
    /// process.
    pub path: String,
    /// Whether the name by which it was opened has been removed.
    pub deleted: bool,
    /// Whether it has no names left, so that its space is freed when it is closed.
    pub nameless: bool,
    /// Whether it is kept in memory, not on a device.
    pub in_memory: bool,
}

/// The files held open, and the processes that could not be inspected.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct HeldFiles {
    /// The files.
    pub held: Vec<HeldFile>,
    /// Processes that were checked.
    pub processes: u64,
    /// Processes that this user may not inspect.
    pub refused: u64,
    /// Processes that could not be inspected in time: a file system does not answer, or memory is
    /// locked.
    pub unanswered: u64,
    /// Files beyond those that are kept.
    pub left_out: u64,
}

impl HeldFiles {
    /// Adds the files of one process.
    pub(crate) fn add(&mut self, mut own: HeldFiles) {
        let room = MOST_ROWS.saturating_sub(self.held.len());
        self.left_out += own.left_out + own.held.len().saturating_sub(room) as u64;
        own.held.truncate(room);
        self.held.append(&mut own.held);
        self.refused += own.refused;
    }

    /// The number of files held open without a name, and the space they use on devices, bytes. Each
    /// counts once, no matter how many processes hold it.
    pub fn nameless(&self) -> (u64, u64) {
        let mut seen = FxHashSet::default();
        let nameless = self.held.iter().filter(|held| held.nameless && !held.in_memory);
        let each = nameless.filter(|held| held.taken.is_some());
        let each = each.filter(|held| seen.insert((held.device, held.inode)));
        each.fold((0, 0), |(files, bytes), held| (files + 1, bytes + held.taken.unwrap_or(0)))
    }
}

fn namespace(pid: &str) -> Option<PathBuf> {
    let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    of(pid).or_else(|| of("self"))
}

/// Inspects processes, one at a time. This can hang: file names are looked up in their file
/// systems.
pub(crate) struct Look {
    mounts: Mounts,
    users: Users,
    /// The mount namespace that paths are seen from.
    own: Option<PathBuf>,
}

impl Default for Look {
    fn default() -> Look {
        Look { mounts: Mounts::read(), users: Users::read(), own: namespace("1") }
    }
}

impl Look {
    /// Returns the files that a process holds.
    pub fn process(&self, pid: u32, prefixes: &[String]) -> HeldFiles {
        let mut found = HeldFiles::default();
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let Some(process) = read_text(folder.join("comm")) else { return found };
        // Listing descriptors is allowed more often than following them.
        let looked =
            fs::read_link(folder.join("cwd")).and_then(|_| fs::read_dir(folder.join("fd")));
        let descriptors = match looked {
            Ok(entries) => entries,
            Err(error) => {
                found.refused = u64::from(error.kind() == ErrorKind::PermissionDenied);
                return found;
            }
        };
        // Paths differ only in another namespace.
        let is_own = fs::read_link(folder.join("ns/mnt")).ok() == self.own;
        let mounts = (!is_own)
            .then(|| Mounts::parse(&read_text(folder.join("mountinfo")).unwrap_or_default()));
        let mut held = Vec::new();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let mut numbers: Vec<u32> = descriptors.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        held.extend(file(&folder.join("exe"), Hold::Program));
        held.extend(numbers.into_iter().filter_map(|fd| descriptor(&folder, fd)));
        // Kernel threads have no program; their working directory is meaningless.
        if !held.is_empty() {
            held.extend(file(&folder.join("cwd"), Hold::Directory));
        }
        held.extend(mapped(&folder, &held));
        let user = fs::metadata(&folder)
            .map(|metadata| self.users.name(metadata.uid()))
            .unwrap_or_default();
        for mut file in held {
            (file.pid, file.process, file.user) = (pid, process.clone(), user.clone());
            self.place(&mut file, mounts.as_ref());
            if !prefixes.is_empty() && !prefixes.iter().any(|prefix| file.path.starts_with(prefix))
            {
                continue;
            }
            match found.held.len() < MOST_ROWS {
                true => found.held.push(file),
                false => found.left_out += 1,
            }
        }
        found
    }

    /// Sets the file's path as seen by all, and whether it is in memory.
    fn place(&self, file: &mut HeldFile, mounts: Option<&Mounts>) {
        let kind = mounts.unwrap_or(&self.mounts).kind_of(file.device);
        file.in_memory = match kind {
            Some(kind) => IN_MEMORY.contains(&kind),
            None => NEVER_MOUNTED.iter().any(|name| file.path.starts_with(name)),
        };
        let (major, minor) = file.device;
        let inside = mounts.and_then(|mounts| mounts.inside(file.device, &file.path));
        if let Some(path) = inside.and_then(|inside| self.mounts.visible(major, minor, &inside)) {
            file.path = path;
        }
    }
}

/// The target of a /proc link, if it is a file, a directory or a block device.
fn file(link: &Path, hold: Hold) -> Option<HeldFile> {
    let target = fs::read_link(link).ok()?;
    // Cached attributes suffice: a hung server must not be waited for.
    let stat = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()?;
    let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => HeldKind::Regular,
        FileType::Directory => HeldKind::Directory,
        FileType::BlockDevice => HeldKind::BlockDevice,
        _ => return None,
    };
    let is_regular = kind == HeldKind::Regular;
    let text = target.to_string_lossy();
    let marked = text.strip_suffix(DELETED);
    // The name itself may end like this: then the path leads to the file.
    let marked = marked.filter(|_| stat.stx_nlink == 0 || !leads_to(&target, stat.stx_ino));
    Some(HeldFile {
        pid: 0,
        process: String::new(),
        user: String::new(),
        kind,
        hold,
        mode: None,
        size: is_regular.then_some(stat.stx_size),
        offset: None,
        taken: is_regular.then_some(stat.stx_blocks.saturating_mul(512)),
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        path: marked.unwrap_or(&text).to_owned(),
        deleted: marked.is_some(),
        nameless: stat.stx_nlink == 0,
        in_memory: false,
    })
}

fn leads_to(path: &Path, inode: u64) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| stat.st_ino == inode)
}

/// A descriptor, with its access mode and offset.
fn descriptor(folder: &Path, fd: u32) -> Option<HeldFile> {
    let held = file(&folder.join(format!("fd/{fd}")), Hold::Descriptor(fd))?;
    let info = read_text(folder.join(format!("fdinfo/{fd}"))).unwrap_or_default();
    let (offset, mode) = parse_info(&info);
    Some(HeldFile { offset, mode, ..held })
}

/// `pos:` and `flags:` of a `fdinfo` file.
fn parse_info(text: &str) -> (Option<u64>, Option<AccessMode>) {
    let field = |name: &str| Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim());
    let offset = field("pos:").and_then(|text| text.parse().ok());
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok());
    let mode = flags.filter(|flags| flags & O_PATH == 0).and_then(|flags| match flags & 3 {
        0 => Some(AccessMode::Read),
        1 => Some(AccessMode::Write),
        2 => Some(AccessMode::Both),
        _ => None,
    });
    (offset, mode)
}

/// Deleted files that are mapped and that the process does not hold otherwise.
fn mapped(folder: &Path, others: &[HeldFile]) -> Vec<HeldFile> {
    let text = read_text(folder.join("maps")).unwrap_or_default();
    let mut seen: FxHashSet<((u32, u32), u64)> =
        others.iter().map(|held| (held.device, held.inode)).collect();
    let mut found = Vec::new();
    for (range, mapping) in text.lines().filter_map(parse_mapping) {
        let known = (mapping.device, mapping.inode);
        if seen.contains(&known) {
            continue;
        }
        // Only a privileged user may follow the link; the table's own fields are less complete.
        let held = file(&folder.join("map_files").join(range), Hold::Mapped).unwrap_or(mapping);
        if seen.insert((held.device, held.inode)) {
            found.push(held);
        }
        seen.insert(known);
    }
    found
}

/// Parses `7f00-7f01 r-xp 00000000 fe:00 1234    /path (deleted)`: the range, and the file if it is
/// deleted.
fn parse_mapping(line: &str) -> Option<(&str, HeldFile)> {
    let line = line.strip_suffix(DELETED)?;
    let mut fields = line.splitn(6, ' ');
    let range = fields.next()?;
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let held = HeldFile {
        pid: 0,
        process: String::new(),
        user: String::new(),
        kind: HeldKind::Regular,
        hold: Hold::Mapped,
        mode: None,
        size: None,
        offset: None,
        taken: None,
        device: (number(major)?, number(minor)?),
        inode,
        path: fields.next()?.trim_start().to_owned(),
        deleted: true,
        nameless: true,
        in_memory: false,
    };
    Some((range, held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn modes_and_offsets_are_those_of_the_descriptor() {
        let info = |flags| parse_info(&format!("pos:\t4096\nflags:\t{flags}\nmnt_id:\t29"));
        assert_eq!(info("0100000"), (Some(4096), Some(AccessMode::Read)));
        assert_eq!(info("0100001"), (Some(4096), Some(AccessMode::Write)));
        assert_eq!(info("0102002"), (Some(4096), Some(AccessMode::Both)));
        assert_eq!(info("012000000"), (Some(4096), None));
        assert_eq!(parse_info("nonsense"), (None, None));
    }

    #[test]
    fn only_deleted_files_of_a_map_are_held() {
        let line = "7f00-7f01 r-xp 00001000 fe:0a 1234      /odd name (deleted)";
        let (range, held) = parse_mapping(line).expect("a deleted file");
        assert_eq!((range, held.device, held.inode), ("7f00-7f01", (254, 10), 1234));
        assert_eq!(held.path, "/odd name");
        assert!(parse_mapping("7f00-7f01 r-xp 00001000 fe:0a 1234      /name").is_none());
        assert!(parse_mapping("7f00-7f01 rw-p 00000000 00:00 0").is_none());
        assert!(parse_mapping(" (deleted)").is_none());
    }

    #[test]
    fn own_files_are_found_with_and_without_a_name() {
        let folder = std::env::temp_dir().join(format!("iowhy-held-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let make = |name: &str| {
            let mut file = fs::File::create(folder.join(name)).expect("a file");
            file.write_all(&[1; 12_288]).expect("its bytes");
            file.seek(SeekFrom::Start(100)).expect("a place in it");
            file
        };
        let (_kept, _called, _gone) = (make("kept"), make("called (deleted)"), make("gone"));
        fs::remove_file(folder.join("gone")).expect("no name any more");
        let prefix = fs::canonicalize(&folder).expect("its path").to_string_lossy().into_owned();
        let own = std::process::id();
        let found = Look::default().process(own, &[format!("{prefix}/")]);
        fs::remove_dir_all(&folder).expect("nothing is left");
        let by = |name: &str| {
            let path = format!("{prefix}/{name}");
            let held = found.held.iter().find(|held| held.path == path).expect("held");
            assert_eq!((held.size, held.offset), (Some(12_288), Some(100)));
            assert_eq!((held.mode, held.kind), (Some(AccessMode::Write), HeldKind::Regular));
            assert!(!held.user.is_empty());
            (held.deleted, held.nameless)
        };
        assert_eq!(by("kept"), (false, false));
        assert_eq!(by("called (deleted)"), (false, false));
        assert_eq!(by("gone"), (true, true));
        assert_eq!((found.held.len(), found.refused), (3, 0));
        let mut all = HeldFiles { processes: 1, ..HeldFiles::default() };
        all.add(found);
        assert_eq!(
            (all.held.len(), all.nameless().0, all.processes),
            (3, u64::from(!all.held[0].in_memory), 1)
        );
    }
}
