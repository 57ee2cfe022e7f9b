//! The keys that requests are charged to: who owns a part of a request, in which file it is, on
//! which code path it was submitted, or why that is not known.
//!
//! What does not belong here: tables of these keys (`super::usage_by_key`, `charge::attribution`).

use super::stacks::StackRef;
use iowhy_model::request::NOT_IN_DATA;
use iowhy_model::{Name, Origin, Request, RequestPart};

/// A process. The PID alone may be reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ProcessKey {
    pub pid: Option<u32>,
    pub name: Name,
}

impl ProcessKey {
    /// All processes of its name; only itself if it has none.
    pub fn program(self) -> ProcessKey {
        let pid = if self.name == Name::EMPTY { self.pid } else { None };
        ProcessKey { pid, ..self }
    }
}

/// A file by its path. A file that is deleted during the watch counts as two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileKey {
    pub path: Name,
    pub deleted: bool,
}

/// Origins of requests and the functions that submitted them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CodePath {
    pub origin: Origin,
    pub process: Option<Name>,
    pub kernel: Option<StackRef>,
    pub user: Option<StackRef>,
}

/// The reason for which something is charged to no one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reason {
    /// The record has the reason.
    Given(Name),
    /// The record has no parts.
    NoParts(Origin),
    /// The record's parts do not cover all of its bytes.
    Uncovered,
    /// The record has no submitter.
    Kernel,
    /// The record has no reason.
    Silent,
}

impl Reason {
    /// The reason in words; `given` returns the text of [`Reason::Given`], and `submitters` says
    /// whether the source has submitters.
    pub fn words<'a>(self, submitters: bool, given: impl FnOnce(Name) -> &'a str) -> &'a str {
        match self {
            Reason::Given(name) => given(name),
            Reason::NoParts(Origin::Flush) => "cache flushes have no data",
            Reason::NoParts(Origin::Metadata) => "file system metadata",
            Reason::NoParts(Origin::Journal) => "file system journal",
            Reason::NoParts(Origin::Swap) => "swap",
            Reason::NoParts(Origin::Discard) => "discards have no data",
            Reason::NoParts(Origin::Passthrough) => "commands that bypass the file system",
            Reason::NoParts(_) | Reason::Silent => NOT_IN_DATA,
            Reason::Uncovered => "bytes that no part of the record covers",
            Reason::Kernel if !submitters => NOT_IN_DATA,
            Reason::Kernel => "made by the kernel itself",
        }
    }
}

/// A part of a request, or why there is none.
pub(crate) type Part<'a> = Result<&'a RequestPart, Reason>;

fn names_process(part: &RequestPart) -> bool {
    part.owner_pid.is_some() || part.owner.is_some()
}

/// Whether a part has an owner, or a reason why it has none.
pub(crate) fn names_owner(part: &RequestPart) -> bool {
    names_process(part) || part.owner_reason.is_some()
}

/// The owner of the bytes: the part's owner; the submitter if the part has neither an owner nor a
/// reason, or if there is no part.
#[inline]
pub(crate) fn owner(request: &Request, part: Part) -> Result<ProcessKey, Reason> {
    if let Ok(part) = part {
        if names_process(part) {
            let name = part.owner.unwrap_or(Name::EMPTY);
            return Ok(ProcessKey { pid: part.owner_pid, name });
        }
        if let Some(reason) = part.owner_reason {
            return Err(Reason::Given(reason));
        }
    }
    match (request.pid, request.process) {
        (None, None) => Err(Reason::Kernel),
        (pid, name) => Ok(ProcessKey { pid, name: name.unwrap_or(Name::EMPTY) }),
    }
}

#[inline]
pub(crate) fn file(part: Part) -> Result<FileKey, Reason> {
    let part = part?;
    match part.file {
        Some(path) => Ok(FileKey { path, deleted: part.deleted }),
        None => Err(part.file_reason.map_or(Reason::Silent, Reason::Given)),
    }
}
