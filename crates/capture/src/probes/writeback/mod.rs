//! Who dirties pages: the programs, and what they know when writeback writes the pages.

pub mod decode;
mod dirtiers;

pub use dirtiers::Dirtiers;
