//! Outputs that get their name when they are complete: until then they are written beside it
//! under a temporary name, and is removed if the command fails or is interrupted.
//!
//! What does not belong here: what is written.

use crate::failure::Failure;
use crate::interruption;
use iowhy_core::recording::RecordingError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An output under its temporary name.
pub struct PartialOutput {
    target: PathBuf,
    partial: PathBuf,
    is_whole: bool,
}

impl PartialOutput {
    /// An output that will be called `target`. A device or a pipe of that name is written as it is.
    pub fn of(target: &Path) -> Result<PartialOutput, Failure> {
        interruption::note_signals()?;
        let is_special = fs::metadata(target).is_ok_and(|it| !it.is_file() && !it.is_dir());
        let name = target.file_name().filter(|_| !is_special);
        let partial = match name {
            Some(name) => {
                let name = name.to_string_lossy();
                target.with_file_name(format!(".{name}.partial-{}", std::process::id()))
            }
            None => target.to_owned(),
        };
        Ok(PartialOutput { target: target.to_owned(), partial, is_whole: false })
    }

    /// A directory that will be called `target`, where there is none or an empty one.
    pub fn directory(target: &Path) -> Result<PartialOutput, Failure> {
        match fs::read_dir(target).ok().and_then(|mut found| found.next()) {
            Some(_) => Err(RecordingError::NotEmpty { path: target.to_owned() }.into()),
            None => PartialOutput::of(target),
        }
    }

    /// A failure that speaks of it by the name that it will have.
    pub fn named(&self, failure: Failure) -> Failure {
        let (partial, target) = (self.partial.display().to_string(), self.target.display());
        Failure { message: failure.message.replace(&partial, &target.to_string()), ..failure }
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// The same for a file that must not replace another: one that was made meanwhile stays.
    pub fn finish_new(self) -> Result<(), Failure> {
        interruption::check()?;
        // A link is made only where the name is free; the partial name is removed with `self`.
        match fs::hard_link(&self.partial, &self.target) {
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
        if self.partial != self.target {
            fs::rename(&self.partial, &self.target)
                .map_err(|cause| Failure::not_written(&self.target, &cause))?;
        }
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for PartialOutput {
    fn drop(&mut self) {
        if self.is_whole || self.partial == self.target {
            return;
        }
        // Nothing more can be done about what cannot be removed.
        let _ = match self.partial.is_dir() {
            true => fs::remove_dir_all(&self.partial),
            false => fs::remove_file(&self.partial),
        };
    }
}
