//! The basis of all sums: the times of a request, who is charged with it, a table of sums by key in
//! bounded memory, and their calibration. All other rooms stand on this one.
//!
//! | file | content |
//! |---|---|
//! | `keys` | the keys that requests are charged to |
//! | `device_layer` | the place of a request in a stack of devices |
//! | `request_times` | the times of one request, and what follows from them |
//! | `usage_by_key` | sums by key, in bounded memory |
//! | `calibration` | sums of sampled rows, scaled to exact counts |
//! | `counter_curve` | the kernel's counters from reading to reading |
//! | `wait_parts` | a wait as parts by class |
//! | `stacks` | stacks, without the functions that say nothing |
//! | `slots` | small numbers for keys, in the order of first sight |
//! | [`own_io`] | iowhy's own I/O |
//! | `watch_window` | the interval that a watch covers |
//! | `row_consumers` | what takes rows |
//!
//! What does not belong here: what is added up (the rooms above), and results (`super::summary`).

pub mod calibration;
pub mod counter_curve;
pub mod device_layer;
pub mod keys;
pub mod own_io;
pub mod request_times;
pub mod row_consumers;
pub mod slots;
pub mod stacks;
pub mod usage_by_key;
pub mod wait_parts;
pub mod watch_window;
