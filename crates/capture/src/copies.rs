//! The number of stacks of programs without frame pointers that may be copied: as many as the
//! budget leaves room for.
//!
//! The kernel's programs take a token for each. They are granted here, ten times a second, and half
//! of them are reserved for threads whose last wait was long.
//!
//! What does not belong here: what is copied (`bpf/copied_stacks.bpf.h`), and what becomes of it
//! (see [`crate::decode::copied_stacks`]).

use crate::host::system;
use crate::session::Session;
use crate::wire::wire_copy_tokens;
use zerocopy::IntoBytes;

/// Time between two grants of tokens.
const INTERVAL_NS: u64 = 100_000_000;
/// Most tokens at once: more stacks of a second would not show more. Chosen.
const MOST: f64 = 10.0;
/// The CPU time of a stack: up to 10 µs in the kernel (docs/stacks.md), the rest to unwind it and
/// to name its functions. Chosen on the safe side: the process's own CPU time is measured, too.
const COST_NS: f64 = 300_000.0;

/// Grants tokens.
#[derive(Debug, Default)]
pub(crate) struct CopyGrants {
    granted_ns: u64,
    credit: f64,
    /// Tokens that the kernel's programs were told to reserve.
    reserved: i32,
}

impl CopyGrants {
    /// Grants tokens if it is time. `free_ns` is the CPU time that the budget leaves, per second;
    /// `None` without a budget.
    pub fn grant_if_due(&mut self, session: &Session, free_ns: Option<f64>) {
        let now_ns = system::now_ns();
        let length_ns = now_ns.saturating_sub(self.granted_ns);
        if length_ns < INTERVAL_NS {
            return;
        }
        self.granted_ns = now_ns;
        // The word's low half.
        let [tokens] = session.words("copy_tokens");
        let unused = tokens as u32 as i32;
        let tokens = self.tokens(length_ns, free_ns, unused);
        let is_new = (tokens.left, tokens.reserved) != (unused, self.reserved);
        if is_new {
            self.reserved = tokens.reserved;
            session.set("copy_tokens", tokens.as_bytes());
        }
    }

    fn tokens(&mut self, length_ns: u64, free_ns: Option<f64>, unused: i32) -> wire_copy_tokens {
        // After a pause the budget is not free to be used up at once.
        let seconds = length_ns.min(INTERVAL_NS * 2) as f64 / 1e9;
        self.credit += free_ns.map_or(MOST, |free| free.max(0.0) * seconds / COST_NS);
        let new = self.credit.min(MOST).floor();
        self.credit = (self.credit - new).min(1.0);
        let left = unused.max(0).saturating_add(new as i32).min(MOST as i32);
        wire_copy_tokens { left, reserved: left / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(free_ns: Option<f64>, intervals: u32) -> Vec<(i32, i32)> {
        let mut grants = CopyGrants::default();
        let one = |_| {
            let tokens = grants.tokens(INTERVAL_NS, free_ns, 0);
            (tokens.left, tokens.reserved)
        };
        (0..intervals).map(one).collect()
    }

    #[test]
    fn what_is_left_of_the_budget_is_granted() {
        assert_eq!(tokens(Some(0.0), 2), [(0, 0); 2]);
        assert_eq!(tokens(Some(-1e9), 2), [(0, 0); 2], "over the budget");
        // Five stacks a second: one in every other interval.
        let some = tokens(Some(5.0 * COST_NS), 20);
        assert!((9..=10).contains(&some.iter().map(|(left, _)| left).sum::<i32>()), "{some:?}");
        assert!(some.iter().all(|(_, reserved)| *reserved == 0));
    }

    #[test]
    fn there_is_a_limit_and_half_is_reserved() {
        assert_eq!(tokens(None, 2), [(10, 5); 2]);
        assert_eq!(tokens(Some(1e12), 2), [(10, 5); 2]);
    }

    #[test]
    fn what_was_not_used_is_kept_up_to_the_limit() {
        let mut grants = CopyGrants::default();
        assert_eq!(grants.tokens(INTERVAL_NS, Some(0.0), 3).left, 3);
        assert_eq!(grants.tokens(INTERVAL_NS, None, 3).left, 10);
        assert_eq!(grants.tokens(INTERVAL_NS, Some(0.0), -2).left, 0, "two CPUs took the last one");
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut grants = CopyGrants::default();
        assert_eq!(grants.tokens(3_600_000_000_000, Some(10.0 * COST_NS), 0).left, 2);
    }
}
