//! Uses of files by programs: the BPF programs, and the rows that follow from their tables and
//! records.
//!
//! | where | what |
//! |---|---|
//! | [`tables`] | the kernel's tables of counts: when they are read, and when counting stops |
//! | [`decode`] | what a process did with a file, and when created files were removed |
//! | [`rows`] | the rows of one read of the tables |
//! | [`calls`] | single removals, renames and opens |
//! | [`directories`] | paths as programs passed them |
//! | [`created`] | files that were created during the watch |

pub mod calls;
pub mod created;
pub mod decode;
pub mod directories;
pub mod rows;
pub mod tables;
