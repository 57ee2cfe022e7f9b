//! What keeps a cause from being judged.

/// What the data lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);
