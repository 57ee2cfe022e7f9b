//! Errors of labs.

/// A lab's error. [`LabError::Missing`] and [`LabError::Unsupported`] mean that the lab cannot run
/// here at all, which a test reports as a skip; everything else is a failure.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A requirement that the user can provide is missing: root, a program.
    #[error("this machine lacks {what}\nhint: {hint}")]
    Missing {
        /// The missing requirement, as a noun: "root", "mkfs.xfs" …
        what: String,
        /// The way to get it.
        hint: String,
    },
    /// The kernel does not support a feature: a file system or a device that it was built without.
    #[error("this kernel lacks {what}\nhint: {hint}")]
    Unsupported {
        /// The missing feature, as a noun: "zram".
        what: String,
        /// The way to get it, if it is a module.
        hint: String,
    },
    /// A step failed.
    #[error("failed to {action}: {cause}")]
    Failed {
        /// Verb and object: "mount /dev/loop3".
        action: String,
        /// The cause.
        cause: String,
    },
}

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    /// A failure of `action` because of `cause`.
    pub fn failed(action: impl Into<String>, cause: impl std::fmt::Display) -> LabError {
        LabError::Failed { action: action.into(), cause: cause.to_string() }
    }

    /// The machine lacks `what`; `hint` says how to install or enable it.
    pub fn missing(what: impl Into<String>, hint: impl Into<String>) -> LabError {
        LabError::Missing { what: what.into(), hint: hint.into() }
    }

    /// The kernel lacks `what`; `hint` says how to install or enable it.
    pub fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> LabError {
        LabError::Unsupported { what: what.into(), hint: hint.into() }
    }
}

/// Names the step that failed.
pub trait Context<T> {
    /// Turns the error into a failure of `action`.
    fn context(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| LabError::failed(action(), cause))
    }
}
