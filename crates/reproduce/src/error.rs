//! Failures to write or run a reproduction.

use std::fmt::Display;

/// A failure: `failed to VERB OBJECT: cause`, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action}: {cause}")]
pub struct ReproduceError {
    /// The action that failed: verb and object.
    pub action: String,
    /// The cause of the failure.
    pub cause: String,
    /// Advice on what to do about it.
    pub hint: Option<String>,
}

/// The result of a step that can fail here.
pub type Result<T> = std::result::Result<T, ReproduceError>;

impl ReproduceError {
    /// A failure without a hint.
    pub fn new(action: impl Into<String>, cause: impl Display) -> ReproduceError {
        ReproduceError { action: action.into(), cause: cause.to_string(), hint: None }
    }

    /// Adds a hint to the failure.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> ReproduceError {
        ReproduceError { hint: Some(hint.into()), ..self }
    }
}

/// Gives errors of the system their action.
pub trait ActionContext<T> {
    /// The value, or a failure of `action`.
    ///
    /// # Errors
    /// Fails if there is no value.
    fn context(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Display> ActionContext<T> for std::result::Result<T, E> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| ReproduceError::new(action(), cause))
    }
}
