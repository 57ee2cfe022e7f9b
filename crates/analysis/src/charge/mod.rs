//! The keys that a request is charged to: its process, program, cgroup, file, origin and code path.
//!
//! | file | content |
//! |---|---|
//! | `charger` | adds a request to its device, its stream and its owners |
//! | `attribution` | divides it among the owners of its parts |
//! | `lower_requests` | requests that serve one of an upper device |
//! | `strata` | code paths of sampled stacks, stretched to all requests |
//! | `breakdown`, `writers` | tallies that only some watches ask for |
//!
//! What does not belong here: the rows that tables make of the charges (`super::tables`).

pub mod attribution;
pub mod breakdown;
pub mod charger;
pub mod lower_requests;
pub mod strata;
pub mod writers;
