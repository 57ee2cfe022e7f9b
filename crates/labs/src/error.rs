//! What can go wrong in a lab.

/// A lab's error. [`Error::Missing`] means that the machine cannot run this lab at all, which a
/// test reports as a skip; everything else is a failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something that the lab needs.
    #[error("this machine lacks {what}\nhint: {hint}")]
    Missing {
        /// What is missing, as a noun: "root", "mkfs.xfs" …
        what: String,
        /// How to get it.
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
