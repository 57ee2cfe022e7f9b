//! The archive that a kernel unpacks as its first file system (cpio, "newc").

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const TRAILER: &str = "TRAILER!!!";

/// An archive that is being written.
pub struct Archive<W: Write> {
    to: W,
    inode: u32,
    known: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    /// An empty one.
    pub fn new(to: W) -> Archive<W> {
        Archive { to, inode: 0, known: BTreeSet::new() }
    }

    /// Adds `from` as `path`, with the directories above it; existing ones stay.
    pub fn file(&mut self, path: &Path, from: &Path) -> io::Result<()> {
        let mode = REGULAR | (fs::metadata(from)?.permissions().mode() & 0o777);
        let content = fs::read(from)?;
        self.entry(path, mode, &content)
    }

    /// Adds the content of `from` as `path`, executable.
    pub fn program(&mut self, path: &Path, from: &Path) -> io::Result<()> {
        let content = fs::read(from)?;
        self.entry(path, REGULAR | 0o755, &content)
    }

    /// Adds a file with that content, executable.
    pub fn text(&mut self, path: &Path, content: &str) -> io::Result<()> {
        self.entry(path, REGULAR | 0o755, content.as_bytes())
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        self.entry(path, LINK, target.as_os_str().as_encoded_bytes())
    }

    /// Adds a directory and those above it.
    pub fn directory(&mut self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = path
            .ancestors()
            .filter(|folder| folder.file_name().is_some() && !self.known.contains(*folder))
            .collect();
        missing.reverse();
        for folder in missing {
            self.known.insert(folder.to_owned());
            self.write(folder, DIRECTORY, &[])?;
        }
        Ok(())
    }

    /// Adds everything below `folder` at the same place below `path`.
    pub fn tree(&mut self, path: &Path, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (inside, kind) = (path.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                self.tree(&inside, &entry.path())?;
            } else if kind.is_symlink() {
                self.link(&inside, &fs::read_link(entry.path())?)?;
            } else {
                self.file(&inside, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Ends the archive. Others may follow it in the same file.
    pub fn finish(mut self) -> io::Result<W> {
        self.write(Path::new(TRAILER), 0, &[])?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        if self.known.contains(path) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            self.directory(folder)?;
        }
        self.known.insert(path.to_owned());
        self.write(path, mode, content)
    }

    fn write(&mut self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        self.inode += 1;
        let path = path.strip_prefix("/").unwrap_or(path).as_os_str().as_encoded_bytes();
        let links = 1;
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(path.len() + 1).map_err(io::Error::other)?;
        let fields =
            [self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0].map(hexadecimal);
        write!(self.to, "070701{}", fields.concat())?;
        self.to.write_all(path)?;
        // The header has 110 bytes; name and content each end at a multiple of four.
        self.padding(110 + path.len(), 1)?;
        self.to.write_all(content)?;
        self.padding(content.len(), 0)
    }

    fn padding(&mut self, written: usize, least: usize) -> io::Result<()> {
        let end = (written + least).next_multiple_of(4);
        self.to.write_all(&[0; 4][..end - written])
    }
}

fn hexadecimal(field: u32) -> String {
    format!("{field:08x}")
}
