//! Outputs that get their name when they are complete: until then they are written beside it
//! under a temporary name, which is removed if the command fails or is interrupted.
//!
//! What does not belong here: what is written, and how a file is made (see `iowhy-fs`).

use crate::failure::Failure;
use crate::interruption;
use iowhy_fs::{Folder, PRIVATE_FILE, special};
use iowhy_model::recording::RecordingError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// An output under its temporary name.
pub struct PartialOutput {
    target: PathBuf,
    partial: PathBuf,
    /// The directory of both, and their names in it; `None` for a pipe or a terminal.
    place: Option<OutputPlace>,
    is_whole: bool,
}

struct OutputPlace {
    folder: Folder,
    target: OsString,
    partial: OsString,
}

impl PartialOutput {
    /// An output that will be called `target`. A terminal or a pipe of that name is written as it
    /// is.
    pub fn for_target(target: &Path) -> Result<PartialOutput, Failure> {
        interruption::note_signals()?;
        let failed = |cause: io::Error| Failure::not_written(target, &cause);
        if special::is_special(target).map_err(failed)? {
            let (partial, target) = (target.to_owned(), target.to_owned());
            return Ok(PartialOutput { target, partial, place: None, is_whole: false });
        }
        let (folder, name) = iowhy_fs::parent(target).map_err(failed)?;
        let mut partial = OsString::from(".");
        partial.push(&name);
        partial.push(format!(".partial-{}", std::process::id()));
        Ok(PartialOutput {
            target: target.to_owned(),
            partial: target.with_file_name(&partial),
            place: Some(OutputPlace { folder, target: name, partial }),
            is_whole: false,
        })
    }

    /// A directory that will be called `target`, where there is none or an empty one.
    pub fn directory(target: &Path) -> Result<PartialOutput, Failure> {
        match fs::read_dir(target).ok().and_then(|mut found| found.next()) {
            Some(_) => Err(RecordingError::NotEmpty { path: target.to_owned() }.into()),
            None => PartialOutput::for_target(target),
        }
    }

    /// A failure that speaks of it by the name that it will have.
    pub fn named(&self, failure: Failure) -> Failure {
        let (partial, target) = (self.partial.display().to_string(), self.target.display());
        Failure { message: failure.message.replace(&partial, &target.to_string()), ..failure }
    }

    /// Returns the path at which a directory is written.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Makes the file: for its owner alone, or as open as the one that it will replace.
    pub fn create(&self) -> Result<File, Failure> {
        let made = match &self.place {
            None => special::open(&self.target),
            Some(place) => {
                let mode = place.folder.file_mode(&place.target).unwrap_or(PRIVATE_FILE);
                place.folder.create_anew(&place.partial, mode)
            }
        };
        made.map_err(|cause| Failure::not_written(&self.target, &cause))
    }

    /// Writes the whole file.
    pub fn write(&self, content: &[u8]) -> Result<(), Failure> {
        let written = self.create()?.write_all(content);
        written.map_err(|cause| Failure::not_written(&self.target, &cause))
    }

    /// Writes the whole file, unless that would replace another: one that was made meanwhile stays.
    pub fn finish_new(self) -> Result<(), Failure> {
        interruption::check()?;
        let Some(place) = &self.place else { return self.finish() };
        // A link is made only where the name is free; the partial name is removed with `self`.
        match place.folder.link(&place.partial, &place.folder, &place.target) {
            Ok(()) => Ok(()),
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
                Err(Failure::not_written(&self.target, &cause))
            }
            // A file system without links.
            Err(_) => self.finish(),
        }
    }

    /// Gives it its name, unless a signal came meanwhile.
    pub fn finish(mut self) -> Result<(), Failure> {
        interruption::check()?;
        if let Some(place) = &self.place {
            let renamed = place.folder.rename(&place.partial, &place.folder, &place.target);
            renamed.map_err(|cause| Failure::not_written(&self.target, &cause))?;
        }
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for PartialOutput {
    fn drop(&mut self) {
        if let Some(place) = self.place.as_ref().filter(|_| !self.is_whole) {
            // Nothing more can be done about what cannot be removed.
            let _ = place.folder.remove_all(&place.partial);
        }
    }
}
