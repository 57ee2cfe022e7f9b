//! Questions that need no SQL. Each is one or two queries, which run here or on a cluster, and
//! statistics over their small answers.
//!
//! | where | what |
//! |---|---|
//! | [`outliers`] | drives and batches that are slower than their siblings: the comparison |
//! | [`slower`] | the same as a person reads it |
//! | [`findings`] | what is wrong where, since when |
//! | [`diff`] | two halves of the fleet, or of the time, at equal load |
//! | [`top`], [`host`] | the most; one host |
//! | [`cells`], [`robust`] | what is compared; statistics |
//!
//! What does not belong here: printing.

pub mod cells;
pub mod diff;
pub mod findings;
pub mod host;
pub mod outliers;
pub mod robust;
pub mod slower;
pub mod top;

/// Text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_cannot_be_left() {
        assert_eq!(literal("it's' OR 1=1"), "'it''s'' OR 1=1'");
    }
}
