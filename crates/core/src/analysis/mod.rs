//! From batches to a summary.
