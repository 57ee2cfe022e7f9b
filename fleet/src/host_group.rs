//! Groups of hosts: an hour of many hosts has a file of each table for each of them, so that what
//! is merged at once stays small however many hosts there are.
//!
//! What does not belong here: the limits at which a group is divided.

use serde::{Deserialize, Serialize};

/// Bits that a group may have: more are only useful for identities that are made up.
const MOST_BITS: usize = 24;

/// Hosts whose identities begin with the same bits; all hosts without any bit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostGroup {
    /// `0` and `1`.
    bits: String,
}

impl HostGroup {
    /// Returns whether it is every host.
    pub const fn is_all(&self) -> bool {
        self.bits.is_empty()
    }

    /// Returns whether a host with this identity is one of them. A text that is no identity counts
    /// as zero.
    pub fn has(&self, host_id: &str) -> bool {
        let identity = u64::from_str_radix(host_id, 16).unwrap_or(0);
        let bit = |at: usize| {
            identity.checked_shr(63_u32.saturating_sub(at as u32)).map(|shifted| shifted & 1)
        };
        self.bits.bytes().enumerate().all(|(at, wanted)| bit(at) == Some(u64::from(wanted == b'1')))
    }

    /// Its two halves, the lower identities first; `None` if it is as small as they get.
    pub fn halves(&self) -> Option<[HostGroup; 2]> {
        let half = |bit: &str| HostGroup { bits: format!("{}{bit}", self.bits) };
        (self.bits.len() < MOST_BITS).then(|| [half("0"), half("1")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_in_one_half() {
        let mut groups = vec![HostGroup::default()];
        assert!(groups[0].is_all() && groups[0].has("ffffffffffffffff") && groups[0].has("?"));
        for _ in 0..3 {
            groups = groups.iter().flat_map(|group| group.halves().unwrap()).collect();
        }
        for (host_id, at) in
            [("0000000000000000", 0), ("3fffffffffffffff", 1), ("e000000000000001", 7)]
        {
            let found: Vec<usize> = (0..8).filter(|at| groups[*at].has(host_id)).collect();
            assert_eq!(found, [at], "{host_id}");
        }
        let mut deep = HostGroup::default();
        while let Some([_, upper]) = deep.halves() {
            deep = upper;
        }
        assert!(deep.has("ffffffffffffffff") && !deep.has("fffffe0000000000"));
        assert_eq!(serde_json::to_string(&groups[6]).unwrap(), "\"110\"");
    }
}
