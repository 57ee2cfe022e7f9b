//! Errors, in the words that a person reads: `failed to <verb> <object>: cause`.
//!
//! What does not belong here: exit codes.

use std::fmt;

/// A failure, and its hint.
#[derive(Debug, thiserror::Error)]
pub struct FleetError {
    /// The failed action and its cause.
    pub message: String,
    /// The action that helps.
    pub hint: Option<String>,
    /// Whether another try may succeed without any change: a network, a server, a killed process.
    pub is_transient: bool,
}

/// The result type of most of this crate.
pub type Result<T> = std::result::Result<T, FleetError>;

impl fmt::Display for FleetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl FleetError {
    /// Makes a failure with this message.
    pub fn new(message: impl Into<String>) -> FleetError {
        FleetError { message: message.into(), hint: None, is_transient: false }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> FleetError {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the failure as one that another try may not meet.
    #[must_use]
    pub fn transient(mut self) -> FleetError {
        self.is_transient = true;
        self
    }
}

/// Adds the attempted action to an error.
pub trait FleetContext<T> {
    /// `failed to {action()}: {cause}`.
    ///
    /// # Errors
    /// Fails if the result is an error.
    fn context(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::error::Error> FleetContext<T> for std::result::Result<T, E> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| FleetError::new(format!("failed to {}: {}", action(), chain(&error))))
    }
}

/// An error with its sources, each once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        let part = next.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        source = next.source();
    }
    text
}
