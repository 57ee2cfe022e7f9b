//! The kernels of guests, and the way to fetch them: Debian's, through apt, the newest of each
//! line. Nothing of them is ever committed.

use super::apt::Suite;
use super::architecture::Architecture;
use super::cpio::Archive;
use crate::error::Context;
use crate::{LabError, Result, command};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// A line of kernels that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLine {
    /// Its name: `6.1`; the newest of all is `sid`.
    pub name: &'static str,
    /// The processor of its kernels.
    pub architecture: Architecture,
    suite: &'static str,
    /// The prefix of its packages' names; a digit follows.
    prefix: &'static str,
}

/// Every line, the oldest first.
pub const LINES: &[KernelLine] = &[
    line("5.10", Architecture::X86_64, "bullseye", "linux-image-5.10."),
    line("6.1", Architecture::X86_64, "bookworm-security", "linux-image-6.1."),
    line("6.1-arm64", Architecture::Aarch64, "bookworm-security", "linux-image-6.1."),
    line("6.12", Architecture::X86_64, "bookworm-backports", "linux-image-6.12."),
    line("sid-arm64", Architecture::Aarch64, "sid", "linux-image-"),
    line(NEWEST, Architecture::X86_64, "sid", "linux-image-"),
];
/// The line of the newest kernel.
const NEWEST: &str = "sid";

const fn line(
    name: &'static str,
    architecture: Architecture,
    suite: &'static str,
    prefix: &'static str,
) -> KernelLine {
    KernelLine { name, architecture, suite, prefix }
}

impl KernelLine {
    /// Returns the suffix of its packages' names: the flavour that is small and has everything for
    /// a virtual machine.
    fn flavour(&self) -> String {
        format!("-cloud-{}", self.architecture.debian())
    }
}

/// Modules that a guest can load, by folder: block devices, file systems, and what these need.
const MODULES: &[&str] = &[
    "arch/arm64/crypto",
    "arch/x86/crypto",
    "block",
    "crypto",
    "drivers/ata",
    "drivers/block",
    "drivers/char",
    "drivers/md",
    "drivers/nvme",
    "drivers/scsi",
    "drivers/virtio",
    "fs/btrfs",
    "fs/configfs",
    "fs/xfs",
    "lib",
    "mm",
];

/// A kernel on this machine, ready to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its line's name: `6.1`.
    pub name: &'static str,
    /// The processor that it runs on.
    pub architecture: Architecture,
    /// Its own release name: `6.1.0-56-cloud-amd64`.
    pub release: String,
    /// The image that is started.
    pub image: PathBuf,
    /// Its modules, as a part of the guest's first file system.
    pub modules: PathBuf,
}

impl Kernel {
    /// Returns the newest kernel of a line: `5.10`, `6.1`, `6.12`, `sid`, or a version of sid's
    /// such as `7.2`. It is fetched once a day at most. If the mirror cannot be reached, one that
    /// was fetched before is used, and `say` is told.
    pub fn fetch(name: &str, say: &mut dyn FnMut(&str)) -> Result<Kernel> {
        let line = line_of(name)?;
        let _lock = super::lock_cache()?;
        let folder = super::cache()?.join("kernels").join(line.name);
        let kernel = match newest(line) {
            Ok((suite, package)) => prepare(line, &suite, &package, &folder, say)?,
            Err(error) => {
                let earlier = kept(line, &folder).map_err(|_none| {
                    LabError::failed(format!("fetch Linux {}", line.name), &error)
                })?;
                say(&format!("using {}, which was fetched before: {error}", earlier.release));
                earlier
            }
        };
        if line.name == name || is_version(&kernel.release, name) {
            return Ok(kernel);
        }
        Err(LabError::missing(
            format!("a kernel {name}: sid has {}", kernel.release),
            "take sid for the newest there is",
        ))
    }
}

/// The line of a name that a person gave.
fn line_of(name: &str) -> Result<KernelLine> {
    if let Some(line) = LINES.iter().find(|line| line.name == name) {
        return Ok(*line);
    }
    match LINES.iter().find(|line| line.name == NEWEST) {
        Some(newest) if name.starts_with(|first: char| first.is_ascii_digit()) => Ok(*newest),
        _ => {
            let names: Vec<&str> = LINES.iter().map(|line| line.name).collect();
            Err(LabError::missing(format!("a kernel {name}"), format!("take {}", names.join(", "))))
        }
    }
}

fn is_version(release: &str, wanted: &str) -> bool {
    release.strip_prefix(wanted).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The newest image of a line.
fn newest(line: KernelLine) -> Result<(Suite, String)> {
    let suite = Suite::new(line.suite, line.architecture, &super::cache()?)?;
    suite.refresh()?;
    let flavour = line.flavour();
    let mut images: Vec<String> = suite
        .names(line.prefix)?
        .into_iter()
        .filter(|name| name.ends_with(&flavour))
        .filter(|name| name[line.prefix.len()..].starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    images.sort_by_key(|name| numbers(name));
    let image = images.pop().ok_or_else(|| {
        let what = format!("a package {}*{flavour} in {}", line.prefix, line.suite);
        LabError::missing(what, "has Debian renamed its kernels?")
    })?;
    Ok((suite, image))
}

/// The numbers in a name, by which 6.12.117 comes after 6.12.95.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Makes the folder's files from the package, unless they exist.
fn prepare(
    line: KernelLine,
    suite: &Suite,
    package: &str,
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Kernel> {
    if let Ok(kernel) = kept(line, folder)
        && package.ends_with(&kernel.release)
        && fs::read_to_string(folder.join("folders")).is_ok_and(|kept| kept == MODULES.join("\n"))
    {
        return Ok(kernel);
    }
    say(&format!("fetching {package}"));
    let new = folder.with_extension("new");
    let _absent = fs::remove_dir_all(&new);
    let unpacked = new.join("unpacked");
    fs::create_dir_all(&unpacked).context(|| format!("make {}", unpacked.display()))?;
    // Newer packages are split; the one that is named for the image has no files.
    let is_part = |name: &String| {
        ["linux-binary-", "linux-modules-"].iter().any(|prefix| name.starts_with(prefix))
    };
    let mut parts: Vec<String> = suite.needs(package)?.into_iter().filter(is_part).collect();
    parts.push(package.to_owned());
    suite.unpack(&parts, &unpacked)?;
    let release = package.trim_start_matches("linux-image-");
    keep(release, &unpacked, &new)?;
    let _absent = fs::remove_dir_all(folder);
    fs::rename(&new, folder).context(|| format!("rename {}", new.display()))?;
    kept(line, folder)
}

/// Takes image and modules out of the unpacked package.
fn keep(release: &str, unpacked: &Path, folder: &Path) -> Result<()> {
    let modules = ["lib/modules", "usr/lib/modules"]
        .map(|place| unpacked.join(place).join(release))
        .into_iter()
        .find(|place| place.is_dir())
        .ok_or_else(|| {
            LabError::failed(format!("unpack {release}"), "there are no modules in it")
        })?;
    let image = [unpacked.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")]
        .into_iter()
        .find(|place| place.is_file())
        .ok_or_else(|| LabError::failed(format!("unpack {release}"), "there is no image in it"))?;
    fs::rename(&image, folder.join("vmlinuz")).context(|| format!("keep {}", image.display()))?;
    keep_modules(release, &modules, folder)?;
    fs::write(folder.join("release"), release).context(|| "note the release".to_owned())?;
    fs::write(folder.join("folders"), MODULES.join("\n"))
        .context(|| "note the modules".to_owned())?;
    fs::remove_dir_all(unpacked).context(|| format!("remove {}", unpacked.display()))
}

/// Packs the modules of [`MODULES`], not compressed: a guest without KVM takes long to unpack them.
fn keep_modules(release: &str, modules: &Path, folder: &Path) -> Result<()> {
    let root = folder.join("root");
    let target = root.join("lib/modules").join(release);
    for name in MODULES {
        let from = modules.join("kernel").join(name);
        let to = target.join("kernel").join(name);
        if from.is_dir() {
            fs::create_dir_all(&to).context(|| format!("make {}", to.display()))?;
            command::run("cp", [Path::new("-rT"), &from, &to])?;
        }
    }
    let find = [".", "-name", "*.ko.xz", "-exec", "xz", "--decompress", "{}", "+"];
    let mut unpack = std::process::Command::new(command::find("find")?);
    unpack.args(find).current_dir(&target);
    command::output_of(unpack)?;
    command::run("depmod", [Path::new("--basedir"), &root, Path::new(release)])?;
    let path = folder.join("modules.cpio");
    let packed = || format!("write {}", path.display());
    let file = File::create(&path).context(packed)?;
    let mut archive = Archive::new(BufWriter::new(file));
    // Below /usr: /lib is a link there.
    archive.tree(Path::new("/usr"), &root).context(packed)?;
    archive.finish().and_then(|mut file| std::io::Write::flush(&mut file)).context(packed)?;
    fs::remove_dir_all(&root).context(|| format!("remove {}", root.display()))
}

/// Returns the kernel that an earlier run kept.
fn kept(line: KernelLine, folder: &Path) -> Result<Kernel> {
    let note = folder.join("release");
    let release =
        fs::read_to_string(&note).context(|| format!("read {}", note.display()))?.trim().to_owned();
    Ok(Kernel {
        name: line.name,
        architecture: line.architecture,
        release,
        image: folder.join("vmlinuz"),
        modules: folder.join("modules.cpio"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_found_by_number() {
        let mut names = ["6.12.95+deb12", "6.12.117+deb12", "6.12.9+deb12.1", "6.1.0-56"];
        names.sort_by_key(|name| numbers(name));
        assert_eq!(names, ["6.1.0-56", "6.12.9+deb12.1", "6.12.95+deb12", "6.12.117+deb12"]);
    }

    #[test]
    fn a_version_is_not_its_own_prefix() {
        assert!(is_version("7.2.13+deb14-cloud-amd64", "7.2"));
        assert!(!is_version("7.21.0-cloud-amd64", "7.2"));
    }
}
