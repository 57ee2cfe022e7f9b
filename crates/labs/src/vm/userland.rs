//! The programs of a guest: this machine's own, each with the libraries that it needs; for another
//! processor, those of Debian's packages.

use super::apt::Suite;
use super::architecture::Architecture;
use super::cpio::Archive;
use crate::error::Context;
use crate::{LabError, Result, command};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of a guest.
const PROGRAMS: &[&str] = &[
    // The shell and what its scripts use.
    "bash",
    "busybox",
    "awk",
    "basename",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "dmesg",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mv",
    "nice",
    "perl",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sleep",
    "sort",
    "stat",
    "stty",
    "sync",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "uname",
    "uniq",
    "wc",
    "xargs",
    // Modules, devices, file systems.
    "addpart",
    "blkdiscard",
    "blockdev",
    "chattr",
    "debugfs",
    "delpart",
    "depmod",
    "dmsetup",
    "dumpe2fs",
    "filefrag",
    "findmnt",
    "flock",
    "fsfreeze",
    "fstrim",
    "insmod",
    "losetup",
    "lsblk",
    "lsmod",
    "make-bcache",
    "mdadm",
    "mkfs.btrfs",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkswap",
    "modinfo",
    "modprobe",
    "mount",
    "mountpoint",
    "rmmod",
    "setpriv",
    "swapoff",
    "swapon",
    "taskset",
    "umount",
    "unshare",
    "xfs_bmap",
    "xfs_io",
    // Workloads, and the tools that iowhy is compared with.
    "blkparse",
    "blktrace",
    "btt",
    "fio",
];

/// Packages with the programs of a guest of another processor, of this suite.
const PACKAGES: &[&str] = &[
    "bash",
    "blktrace",
    "btrfs-progs",
    "busybox-static",
    "coreutils",
    // /bin/sh, which no package names.
    "dash",
    "debianutils",
    "diffutils",
    "e2fsprogs",
    "findutils",
    "grep",
    "kmod",
    "mawk",
    "mount",
    "perl-base",
    "procps",
    "sed",
    "tar",
    "util-linux",
    "xfsprogs",
];
const PACKAGES_SUITE: &str = "bookworm";
/// Folders of packages that no guest needs.
const NOT_NEEDED: &[&str] = &["usr/share/doc", "usr/share/man", "usr/share/locale", "var"];

/// Programs that busybox has for a guest.
const OF_BUSYBOX: &[&str] = &["poweroff", "vi", "less", "top", "hexdump", "mdev"];

/// Files that programs read or load without being linked to them.
const FILES: &[&str] = &["/etc/mke2fs.conf", "/lib/x86_64-linux-gnu/libgcc_s.so.1"];

/// perl's own modules.
const PERL: &str = "/usr/lib/x86_64-linux-gnu/perl-base";

/// Folders of which the machine has one and an older name for it.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib64"];

/// The first file system's part that all guests of a processor share; made when a program has
/// changed.
pub fn base(architecture: Architecture) -> Result<PathBuf> {
    match architecture {
        Architecture::X86_64 => own_base(),
        Architecture::Aarch64 => packaged_base(architecture),
    }
}

/// Makes the part of packages, unpacked once.
fn packaged_base(architecture: Architecture) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (include_str!("userland.rs"), include_str!("init.sh")).hash(&mut hasher);
    let _lock = super::lock_cache()?;
    let name = format!("{}-{:016x}.cpio", architecture.debian(), hasher.finish());
    let path = super::cache()?.join(name);
    if path.exists() {
        return Ok(path);
    }
    forget(&super::cache()?, &format!("{}-", architecture.debian()));
    let suite = Suite::new(PACKAGES_SUITE, architecture, &super::cache()?)?;
    suite.refresh()?;
    let folder = tempfile::tempdir_in(super::cache()?).context(|| "make a folder".to_owned())?;
    suite.unpack(&suite.closure(PACKAGES)?, folder.path())?;
    for name in NOT_NEEDED {
        let _absent = fs::remove_dir_all(folder.path().join(name));
    }
    let new = path.with_extension("new");
    write_packaged(&new, folder.path()).context(|| format!("write {}", new.display()))?;
    fs::rename(&new, &path).context(|| format!("rename {}", new.display()))?;
    Ok(path)
}

/// Removes the parts that were made of other programs.
fn forget(folder: &Path, start: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(start) {
            let _gone = fs::remove_file(entry.path());
        }
    }
}

fn write_packaged(path: &Path, unpacked: &Path) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(path)?));
    write_folders(&mut archive)?;
    for entry in fs::read_dir(unpacked)? {
        let entry = entry?;
        archive.tree(&merged(&Path::new("/").join(entry.file_name())), &entry.path())?;
    }
    write_rest(archive)
}

fn own_base() -> Result<PathBuf> {
    let files = base_files()?;
    let mut hasher = DefaultHasher::new();
    for file in &files {
        let about = fs::metadata(file).context(|| format!("look at {}", file.display()))?;
        (file, about.len(), about.mtime()).hash(&mut hasher);
    }
    (include_str!("userland.rs"), include_str!("init.sh")).hash(&mut hasher);
    let _lock = super::lock_cache()?;
    let folder = super::cache()?;
    let path = folder.join(format!("userland-{:016x}.cpio", hasher.finish()));
    if path.exists() {
        return Ok(path);
    }
    forget(&folder, "userland-");
    let new = path.with_extension("new");
    write_base(&new, &files).context(|| format!("write {}", new.display()))?;
    fs::rename(&new, &path).context(|| format!("rename {}", new.display()))?;
    Ok(path)
}

fn base_files() -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for program in PROGRAMS {
        let path = command::find(program).map_err(|_absent| {
            LabError::missing(
                format!("{program} for a guest"),
                "scripts/install-deps build test vm",
            )
        })?;
        files.insert(path);
    }
    let mut libraries = libraries_of(files.iter())?;
    files.append(&mut libraries);
    files.extend(FILES.iter().map(PathBuf::from).filter(|path| path.exists()));
    collect(Path::new(PERL), &mut files);
    Ok(files)
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path);
        }
    }
}

fn write_base(path: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(path)?));
    write_folders(&mut archive)?;
    for file in files {
        archive.file(&merged(file), file)?;
    }
    write_rest(archive)
}

fn write_folders(archive: &mut Archive<BufWriter<File>>) -> io::Result<()> {
    for name in MERGED {
        archive.directory(&Path::new("/usr").join(name))?;
        archive.link(&Path::new("/").join(name), &Path::new("usr").join(name))?;
    }
    for folder in ["/dev", "/proc", "/sys", "/var/tmp", "/etc", "/root"] {
        archive.directory(Path::new(folder))?;
    }
    Ok(())
}

/// Writes the files that are no program of this machine or a package, and the end.
fn write_rest(mut archive: Archive<BufWriter<File>>) -> io::Result<()> {
    for name in OF_BUSYBOX {
        archive.link(&Path::new("/usr/bin").join(name), Path::new("busybox"))?;
    }
    archive.text(
        Path::new("/etc/passwd"),
        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    )?;
    archive.text(Path::new("/etc/group"), "root:x:0:\nnogroup:x:65534:\n")?;
    archive.text(Path::new("/init"), include_str!("init.sh"))?;
    archive.finish()?.flush()
}

/// Returns the guest's path of `path` on this machine: only below /usr.
fn merged(path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    let first = below.components().next().map(|part| part.as_os_str().to_owned());
    if first.is_some_and(|first| MERGED.iter().any(|name| first == *name)) {
        Path::new("/usr").join(below)
    } else {
        path.to_owned()
    }
}

/// Adds `from` as `path`, with its libraries, without debugging information: a guest would only
/// take longer to start.
pub fn add<W: Write>(archive: &mut Archive<W>, path: &Path, from: &Path) -> Result<()> {
    let action = || format!("pack {}", from.display());
    let stripped = tempfile::NamedTempFile::new().context(action)?;
    let strip = [Path::new("--strip-debug"), Path::new("-o"), stripped.path(), from];
    let content = if command::run("strip", strip).is_ok() { stripped.path() } else { from };
    archive.program(path, content).context(action)?;
    for library in libraries_of([from.to_owned()].iter())? {
        archive.file(&merged(&library), &library).context(action)?;
    }
    Ok(())
}

/// The libraries of programs, as the linker finds them here; none of a static one.
fn libraries_of<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Result<BTreeSet<PathBuf>> {
    let mut command = Command::new(command::find("ldd")?);
    command.args(programs);
    // It reports static programs as errors, but still lists the others' libraries.
    let output = command.output().context(|| "run ldd".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| {
        let (line, _address) = line.trim().split_once(" (0x")?;
        Some(line.rsplit(' ').next().unwrap_or(line))
    });
    Ok(paths.filter(|path| path.starts_with('/')).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_lie_where_the_merged_folder_is() {
        assert_eq!(merged(Path::new("/lib64/ld.so")), Path::new("/usr/lib64/ld.so"));
        assert_eq!(merged(Path::new("/usr/lib/a")), Path::new("/usr/lib/a"));
        assert_eq!(merged(Path::new("/liberty")), Path::new("/liberty"));
    }
}
