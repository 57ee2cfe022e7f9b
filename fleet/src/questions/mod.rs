//! Questions that need no SQL. Each is one or two queries, which run here or on a cluster, and
//! statistics over their small answers.
//!
//! | where | what |
//! |---|---|
//! | [`outliers`] | drives that are slower than their siblings: the comparison |
//! | `peers`, `batches` | what an hour is compared with; hosts, racks, firmware, kernels |
//! | [`slower`] | the same as a person reads it |
//! | [`findings`] | what is wrong where, since when |
//! | [`diff`] | two halves of the fleet, or of the time, at equal load |
//! | [`writers`] | who writes most, at which cost |
//! | [`top`], [`host`], [`silent`] | the most; one host; hosts that send nothing any more |
//! | [`alerts`] | what is new, for programs that wake people |
//! | [`cells`], [`robust`] | what is compared; statistics |
//!
//! What does not belong here: printing.

pub mod alerts;
mod batches;
pub mod cells;
pub mod diff;
pub mod findings;
pub mod host;
pub mod outliers;
mod peers;
pub mod robust;
pub mod silent;
pub mod slower;
pub mod top;
pub mod writers;

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
