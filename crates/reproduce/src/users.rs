//! Users of a block device, of whom some keep the kernel from giving it to another, and some do
//! not.
//!
//! What does not belong here: whether data is on it (see [`crate::target`]).

use crate::error::{ActionContext, Result};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags, statx};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the user of a device or of a partition of it: a mount, swap, an upper device, a loop
/// device, a process that may write to it.
pub fn user_of(device: u64, disk: &str) -> Result<Option<String>> {
    let base = PathBuf::from(format!("/sys/block/{disk}"));
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))
        .context(|| format!("find {disk}"))?;
    let is_whole = fs::canonicalize(&base).is_ok_and(|path| path == own);
    let mut places = vec![own.clone()];
    if is_whole {
        let parts = fs::read_dir(&own).into_iter().flatten().flatten().map(|entry| entry.path());
        places.extend(parts.filter(|path| path.join("partition").exists()));
    }
    let mut overlapping: Vec<(u32, u32)> =
        places.iter().filter_map(|place| number(place)).collect();
    // Who has the whole disk has its partitions.
    overlapping.extend(number(&base));
    if let Some(user) = loop_above(&overlapping).or_else(|| writer_of(&overlapping)) {
        return Ok(Some(user));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for place in places {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = fs::read_to_string(place.join("dev")).unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let node = format!("/dev/{name}");
        let is_mounted = mounts.lines().any(|line| {
            let source = line.split_once(" - ").and_then(|parts| parts.1.split(' ').nth(1));
            line.split(' ').nth(2) == Some(number.trim()) || source == Some(node.as_str())
        });
        if is_mounted {
            return Ok(Some(format!("{name} is mounted")));
        }
        if swaps.lines().any(|line| line.split_whitespace().next() == Some(node.as_str())) {
            return Ok(Some(format!("{name} is swap space")));
        }
        let above = fs::read_dir(place.join("holders")).into_iter().flatten().flatten().next();
        if let Some(above) = above {
            return Ok(Some(format!("{} uses {name}", above.file_name().to_string_lossy())));
        }
    }
    Ok(None)
}

/// The number of a device by its folder in /sys.
fn number(place: &Path) -> Option<(u32, u32)> {
    let text = fs::read_to_string(place.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The number of the block device that `path` leads to. A server of files is not asked: it may be
/// gone.
fn device_at(path: &Path) -> Option<(u32, u32)> {
    let about = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()?;
    let kind = FileType::from_raw_mode(about.stx_mode.into());
    (kind == FileType::BlockDevice).then_some((about.stx_rdev_major, about.stx_rdev_minor))
}

/// A loop device that is above one of `devices`: it claims none of them.
fn loop_above(devices: &[(u32, u32)]) -> Option<String> {
    let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut loops = all.filter_map(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let device = device_at(Path::new(file.trim_end_matches('\n')))?;
        Some((entry.file_name().to_string_lossy().into_owned(), device))
    });
    let (name, _) = loops.find(|(_, device)| devices.contains(device))?;
    Some(format!("{name} is above it"))
}

/// Another process that has one of `devices` open for writing, as a virtual machine has its disks.
fn writer_of(devices: &[(u32, u32)]) -> Option<String> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| {
            entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
        })
        .filter(|entry| entry.file_name() != own.as_str())
        .find(|entry| has_open(&entry.path(), devices))
        .map(|entry| {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let (name, pid) = (name.trim().escape_debug(), entry.file_name());
            format!("{name} ({}) has it open for writing", pid.to_string_lossy())
        })
}

/// Whether the process at `place` has one of `devices` open for writing.
fn has_open(place: &Path, devices: &[(u32, u32)]) -> bool {
    let open = fs::read_dir(place.join("fd")).into_iter().flatten().flatten();
    open.filter(|entry| device_at(&entry.path()).is_some_and(|device| devices.contains(&device)))
        .any(|entry| is_for_writing(&place.join("fdinfo").join(entry.file_name())))
}

/// Whether a descriptor may be written to, by its `fdinfo`; one whose flags are not told may.
fn is_for_writing(about: &Path) -> bool {
    let text = fs::read_to_string(about).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| OFlags::from_bits_retain(flags) & OFlags::ACCMODE != OFlags::RDONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A loop device on `file`, where this test may make one.
    struct LoopDevice(String);

    impl LoopDevice {
        fn on(file: &Path) -> Option<LoopDevice> {
            let made =
                Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
            let name = String::from_utf8(made.stdout).ok()?.trim().to_owned();
            made.status.success().then_some(LoopDevice(name))
        }

        fn user(&self) -> Option<String> {
            let about = fs::metadata(&self.0).unwrap();
            let device = std::os::unix::fs::MetadataExt::rdev(&about);
            user_of(device, self.0.strip_prefix("/dev/").unwrap()).unwrap()
        }
    }

    impl Drop for LoopDevice {
        fn drop(&mut self) {
            // Nothing more can be done about one that stays.
            let _ = Command::new("losetup").args(["--detach", &self.0]).status();
        }
    }

    /// A process that has `path` open.
    fn opened(path: &str, how: &str) -> Child {
        let script = format!("exec 9{how}'{path}' && echo open && exec sleep 60");
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        child
    }

    #[test]
    fn a_device_below_a_loop_or_in_a_program_is_in_use() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let image = folder.path().join("image");
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let Some(device) = LoopDevice::on(&image) else {
            eprintln!("skipped: no loop device can be made");
            return;
        };
        assert_eq!(device.user(), None);
        let above = LoopDevice::on(Path::new(&device.0)).unwrap();
        let name = above.0.strip_prefix("/dev/").unwrap();
        assert_eq!(device.user(), Some(format!("{name} is above it")));
        drop(above);
        for (how, is_user) in [("<>", true), (">>", true), ("<", false)] {
            let mut child = opened(&device.0, how);
            let user = device.user();
            child.kill().unwrap();
            child.wait().unwrap();
            let said = format!(" ({}) has it open for writing", child.id());
            assert_eq!(user.as_ref().is_some_and(|user| user.ends_with(&said)), is_user, "{how}");
            assert_eq!(user.is_some(), is_user, "{how}: {user:?}");
        }
        assert_eq!(device.user(), None);
    }
}
