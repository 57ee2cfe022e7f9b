//! Packages of suites that this machine does not have among its own: through apt, with sources,
//! state and cache of its own. The mirrors are those of the machine's sources.

use super::architecture::Architecture;
use crate::error::Context;
use crate::{LabError, Result, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The age at which a list of packages is fetched anew.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The packages of one suite.
pub struct Suite {
    name: &'static str,
    architecture: Architecture,
    folder: PathBuf,
}

impl Suite {
    /// The suite of that name; its state is kept below `cache`.
    pub fn new(name: &'static str, architecture: Architecture, cache: &Path) -> Result<Suite> {
        let folder = match architecture {
            Architecture::X86_64 => name.to_owned(),
            Architecture::Aarch64 => format!("{name}-{}", architecture.debian()),
        };
        let suite = Suite { name, architecture, folder: cache.join("apt").join(folder) };
        for folder in ["lists/partial", "archives/partial", "state"] {
            let path = suite.folder.join(folder);
            fs::create_dir_all(&path).context(|| format!("make {}", path.display()))?;
        }
        Ok(suite)
    }

    /// Fetches the list of packages, unless that was done lately.
    pub fn refresh(&self) -> Result<()> {
        let stamp = self.folder.join("refreshed");
        let age = fs::metadata(&stamp).and_then(|about| about.modified()).ok();
        if age.and_then(|time| time.elapsed().ok()).is_some_and(|age| age < MAX_AGE) {
            return Ok(());
        }
        let sources = self.folder.join("sources.list");
        let line = format!("deb [signed-by={KEYRING}] {} {} main\n", self.mirror()?, self.name);
        fs::write(&sources, line).context(|| format!("write {}", sources.display()))?;
        self.run("apt-get", &["update", "--quiet", "--error-on=any"])?;
        fs::write(&stamp, "").context(|| format!("write {}", stamp.display()))
    }

    /// Names of packages that begin with `prefix`.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let text = self.run("apt-cache", &["pkgnames", prefix])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Returns the dependencies of a package.
    pub fn needs(&self, package: &str) -> Result<Vec<String>> {
        let text = self.run("apt-cache", &["depends", "--important", package])?;
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_owned).collect())
    }

    /// Packages with all that they depend on, as apt would install them where nothing is.
    pub fn closure(&self, packages: &[&str]) -> Result<Vec<String>> {
        let mut arguments = vec!["install", "--simulate", "--no-install-recommends"];
        arguments.extend(packages);
        let text = self.run("apt-get", &arguments)?;
        let installed =
            text.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
        Ok(installed.map(str::to_owned).collect())
    }

    /// Fetches packages and unpacks them into `folder`, without installing them.
    pub fn unpack(&self, packages: &[String], folder: &Path) -> Result<()> {
        let mut fetch = self.command("apt-get")?;
        fetch.args(["download", "--quiet"]).args(packages).current_dir(folder);
        command::output_of(fetch)?;
        let entries = fs::read_dir(folder).context(|| format!("list {}", folder.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                command::run("dpkg-deb", [Path::new("--extract"), &path, folder])?;
                fs::remove_file(&path).context(|| format!("remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Returns the mirror, by the machine's own sources: that of security updates for a security
    /// suite.
    fn mirror(&self) -> Result<String> {
        let wants_security = self.name.ends_with("-security");
        let uris = command::run("apt-get", ["update", "--print-uris"])?;
        let found = uris.lines().find_map(|line| {
            let (mirror, rest) = line.strip_prefix('\'')?.split_once("/dists/")?;
            let (suite, _) = rest.split_once('/')?;
            (suite.ends_with("-security") == wants_security).then(|| format!("{mirror}/"))
        });
        found.ok_or_else(|| {
            let what = if wants_security { "security updates" } else { "packages" };
            LabError::missing(
                format!("a Debian mirror of {what} among apt's sources"),
                "add one to /etc/apt/sources.list.d and run apt-get update",
            )
        })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(program)?;
        command.args(arguments);
        command::output_of(command)
    }

    fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(command::find(program)?);
        let place = |name: &str| self.folder.join(name).display().to_string();
        for (option, value) in [
            ("Dir::Etc::SourceList", place("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            ("Dir::Etc::PreferencesParts", "/dev/null".to_owned()),
            ("Dir::State", place("state")),
            ("Dir::State::Lists", place("lists")),
            ("Dir::State::Status", "/dev/null".to_owned()),
            ("Dir::Cache", place("")),
            ("APT::Architecture", self.architecture.debian().to_owned()),
            ("APT::Architectures", self.architecture.debian().to_owned()),
            ("Acquire::Languages", "none".to_owned()),
            // Only the user who runs this can write here, so apt's own user cannot fetch.
            ("APT::Sandbox::User", "root".to_owned()),
            ("APT::Update::Post-Invoke-Success", String::new()),
        ] {
            command.arg("--option").arg(format!("{option}={value}"));
        }
        command.env("LC_ALL", "C");
        Ok(command)
    }
}
