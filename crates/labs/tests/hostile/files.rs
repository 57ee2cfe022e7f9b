//! An input of iowhy: files below one directory, in memory.
//!
//! What does not belong here: spoiling them (see [`crate::damage`]).

use iowhy_labs::Result;
use iowhy_labs::error::Context;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The content of a path.
#[derive(Clone)]
pub enum InputEntry {
    Bytes(Vec<u8>),
    /// A pipe that nobody writes to.
    Pipe,
    Directory,
    Link(&'static str),
}

/// An input: the entries below its directory, by path.
#[derive(Clone, Default)]
pub struct InputFiles(pub Vec<(PathBuf, InputEntry)>);

impl InputFiles {
    /// The files below `folder`, in the order of their paths.
    pub fn read(folder: &Path) -> Result<InputFiles> {
        let mut files = InputFiles::default();
        files.add(folder, Path::new(""))?;
        files.0.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(files)
    }

    fn add(&mut self, folder: &Path, below: &Path) -> Result<()> {
        let place = folder.join(below);
        for entry in fs::read_dir(&place).context(|| format!("list {}", place.display()))? {
            let path = below.join(entry.context(|| "list it".to_owned())?.file_name());
            let whole = folder.join(&path);
            match whole.is_dir() {
                true => self.add(folder, &path)?,
                false => {
                    let bytes = fs::read(&whole).context(|| format!("read {}", whole.display()))?;
                    self.0.push((path, InputEntry::Bytes(bytes)));
                }
            }
        }
        Ok(())
    }

    /// Moves the files below the directory `name`.
    pub fn below(self, name: &str) -> InputFiles {
        let entries = self.0.into_iter().map(|(path, entry)| (Path::new(name).join(path), entry));
        InputFiles(entries.collect())
    }

    /// Adds a file.
    pub fn with(mut self, path: &str, bytes: &[u8]) -> InputFiles {
        self.0.push((PathBuf::from(path), InputEntry::Bytes(bytes.to_vec())));
        self
    }

    /// Writes them below `folder`, in place of existing ones.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let action = || format!("write {}", folder.display());
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context(action);
            }
            _ => fs::create_dir_all(folder).context(action)?,
        }
        for (path, entry) in &self.0 {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder)).context(action)?;
            match entry {
                InputEntry::Bytes(bytes) => fs::write(&path, bytes).context(action)?,
                InputEntry::Directory => fs::create_dir_all(&path).context(action)?,
                InputEntry::Link(target) => symlink(target, &path).context(action)?,
                InputEntry::Pipe => {
                    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).context(action)?;
                }
            }
        }
        Ok(())
    }
}
