//! Errors of recordings, with the file and a hint.

use crate::environment::FORMAT;
use crate::output_path;
use std::io;
use std::path::{Path, PathBuf};

/// A reason why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The directory for a new recording holds something already.
    #[error(
        "failed to create the recording {path}: it exists and is not empty",
        path = path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The directory for a new recording cannot be made.
    #[error("failed to create the recording {path}: {source}", path = path.display())]
    Create {
        /// The directory, or the file in it that could not be made.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A part of the recording cannot be written.
    #[error("failed to write {path}: {cause}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause of the failure.
        cause: ErrorCause,
    },
    /// The recording ended at an earlier error.
    #[error(
        "failed to add to the recording {path}: writing it failed before",
        path = path.display()
    )]
    Ended {
        /// The directory.
        path: PathBuf,
    },
    /// The path is not a recording, or does not exist.
    #[error("failed to open the recording {path}: {why}", path = path.display())]
    NotARecording {
        /// The path that was to be opened.
        path: PathBuf,
        /// The state of the path, as the end of a sentence.
        why: &'static str,
    },
    /// A part of the recording cannot be read.
    #[error("failed to read {path}: {source}", path = path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// `recording.json` is cut short, or something else is wrong with it.
    #[error("failed to read {path}: {cause}", path = path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The fault, in words.
        cause: String,
    },
    /// A later version of iowhy wrote it in a format that this one does not know.
    #[error(
        "failed to open the recording {path}: its format is {found} (written by iowhy {writer}), \
         and this iowhy {own} knows formats up to {FORMAT}",
        path = path.display(), own = env!("CARGO_PKG_VERSION")
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format that it says it has.
        found: u32,
        /// The version that wrote it.
        writer: String,
    },
    /// A table's folder holds files of iowhy and of another program.
    #[error(
        "failed to read {path}: it holds files of iowhy, and {other} of another program",
        path = path.display()
    )]
    Mixed {
        /// The folder.
        path: PathBuf,
        /// One that iowhy did not write.
        other: String,
    },
    /// A folder in a table's folder is not read.
    #[error("failed to read {path}: its folder {folder} is not read: {why}", path = path.display())]
    Folder {
        /// The table's folder.
        path: PathBuf,
        /// The folder below it.
        folder: String,
        /// The reason, in words.
        why: &'static str,
    },
    /// A segment lacks a column that every row needs, or the column holds something else.
    #[error("failed to read {path}: the column {column} {why}", path = path.display())]
    Column {
        /// The segment.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The fault, in words.
        why: String,
    },
}

impl RecordingError {
    /// The hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RecordingError::NotEmpty { path } => {
                let empty = Some("name a directory that does not exist yet, or empty it");
                output_path::of_kernel(path).or(empty)
            }
            RecordingError::Create { path, source } => output_path::hint(path, source),
            RecordingError::Write { cause, .. } if cause.is_full() => Some(
                "free some space, or record to another disk; everything written before is \
                    intact",
            ),
            RecordingError::Write { .. } | RecordingError::Ended { .. } => {
                Some("everything written before is intact")
            }
            RecordingError::NotARecording { .. } => {
                Some("give the directory that `iowhy record` wrote; it holds recording.json")
            }
            RecordingError::Read { source, .. } => read_hint(source.kind()),
            RecordingError::Manifest { .. } => {
                Some("its tables can be read separately, for instance with DuckDB")
            }
            RecordingError::Newer { .. } => {
                Some("read it with the version of iowhy that wrote it, or a later one")
            }
            RecordingError::Mixed { .. } => Some(
                "the same rows may be in both: keep the files of one of them, for instance in a \
                 copy of the recording",
            ),
            RecordingError::Folder { .. } => Some(
                "write one file for each table, without partitions, for instance with DuckDB's \
                 COPY (FROM 'requests/**/*.parquet') TO 'copy/requests/1.parquet'",
            ),
            RecordingError::Column { why, .. } if why.starts_with("holds Float64") => Some(
                "pandas makes floats of integers that may be null: read it with \
                 pandas.read_parquet(PATH, dtype_backend=\"pyarrow\"), and write that",
            ),
            RecordingError::Column { .. } => Some(
                "a query that filters a recording keeps all columns and their types, for instance \
                 DuckDB's COPY (SELECT * FROM 'requests/*.parquet' WHERE device = 'sda') TO \
                 'copy/requests/1.parquet'",
            ),
        }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            RecordingError::Create { source, .. } => is_full(source),
            RecordingError::Write { cause, .. } => cause.is_full(),
            _ => false,
        }
    }

    pub(super) fn create(path: &Path, source: io::Error) -> RecordingError {
        RecordingError::Create { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path, cause: impl Into<ErrorCause>) -> RecordingError {
        RecordingError::Write { path: path.to_owned(), cause: cause.into() }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> RecordingError {
        RecordingError::Read { path: path.to_owned(), source }
    }
}

fn read_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::PermissionDenied => {
            Some("a recording is readable only by its owner: read it as that user, or with sudo")
        }
        io::ErrorKind::NotFound => Some("check the path; `iowhy record -o DIR` names it"),
        _ => None,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// A fault of a file.
#[derive(Debug, thiserror::Error)]
pub enum ErrorCause {
    /// The system cannot read or write it.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The file's content is not valid.
    #[error("{0}")]
    Content(String),
}

impl ErrorCause {
    fn is_full(&self) -> bool {
        matches!(self, ErrorCause::System(error) if is_full(error))
    }
}

impl From<parquet::errors::ParquetError> for ErrorCause {
    fn from(error: parquet::errors::ParquetError) -> ErrorCause {
        match error {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => ErrorCause::System(*error),
                Err(other) => ErrorCause::Content(other.to_string()),
            },
            other => ErrorCause::Content(other.to_string()),
        }
    }
}

/// A reason why a segment gives no more rows.
pub(super) enum Problem {
    /// The segment is not as it was written: the others are worth reading.
    Damaged(ErrorCause),
    /// The segment cannot be the one that the recording needs: later rows would make no sense.
    Refused(RecordingError),
}

impl<E: Into<ErrorCause>> From<E> for Problem {
    fn from(error: E) -> Problem {
        Problem::Damaged(error.into())
    }
}
