//! Waits of threads: the programs, and the rows that follow from their records.
//!
//! | where | what |
//! |---|---|
//! | [`decode`] | a thread's wait, and what it waited for |
//! | [`served`] | the latest requests of each thread, until its wait arrives |
//! | [`stacks`] | the kernel stacks that show what a thread waits for |
//! | [`undecided`] | waits that no request has shown to be for storage yet |
//! | [`cpu_waits`] | a thread's run-queue time between two sleeps |
//! | [`chains`] | wait chains: a thread that waited for one that waited for storage |
//! | [`lock_list`] | holders of locks of files, from the kernel's list |
//! | [`standing`] | threads that wait for other threads when a watch ends, and for which |

pub mod chains;
pub mod cpu_waits;
pub mod decode;
pub mod lock_list;
pub mod served;
pub mod stacks;
pub mod standing;
pub mod undecided;
