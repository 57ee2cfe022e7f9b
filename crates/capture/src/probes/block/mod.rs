//! Requests: the programs that pair their stages, and the rows that follow from their records.
//!
//! | where | what |
//! |---|---|
//! | [`decode`] | a request with its stages and its submitter |
//! | [`parts`] | its parts: the files of its bytes |
//! | [`origin`] | why it exists, and why a part has no file |
//! | [`alike`] | a cache of the last requests' rows, for similar ones |

pub mod alike;
pub mod decode;
pub mod origin;
pub mod parts;
