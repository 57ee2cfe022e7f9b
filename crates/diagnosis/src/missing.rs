//! The gaps in the data that keep a cause from being judged.

/// A gap in the data, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);
