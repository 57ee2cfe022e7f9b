//! What can go wrong in a lab.

/// A lab's error. [`Error::Missing`] and [`Error::Unsupported`] mean that the lab cannot run here at
/// all, which a test reports as a skip; everything else is a failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something is missing that the user can provide: root, a program.
    #[error("this machine lacks {what}\nhint: {hint}")]
    Missing {
        /// What is missing, as a noun: "root", "mkfs.xfs" …
        what: String,
        /// How to get it.
        hint: String,
    },
    /// This kernel cannot do it: a file system or a device that it was built without.
    #[error("this kernel lacks {what}\nhint: {hint}")]
    Unsupported {
        /// What is missing, as a noun: "zram".
        what: String,
        /// How to get it, where it is a module.
        hint: String,
    },
    /// A step failed.
    #[error("failed to {action}: {cause}")]
    Failed {
        /// Verb and object: "mount /dev/loop3".
        action: String,
        /// Why.
        cause: String,
    },
}

/// What the functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of `action` because of `cause`.
    pub fn failed(action: impl Into<String>, cause: impl std::fmt::Display) -> Error {
        Error::Failed { action: action.into(), cause: cause.to_string() }
    }

    /// The machine lacks `what`; `hint` says how to get it.
    pub fn missing(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Missing { what: what.into(), hint: hint.into() }
    }

    /// The kernel lacks `what`; `hint` says how to get it.
    pub fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Unsupported { what: what.into(), hint: hint.into() }
    }
}

/// Names the step that failed.
pub trait Context<T> {
    /// Turns the error into a failure of `action`.
    fn context(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::failed(action(), cause))
    }
}
