//! Processes that dirty pages: the programs that record them, and their dirtied pages when
//! writeback writes these.

pub mod decode;
mod dirtiers;

pub use dirtiers::Dirtiers;
