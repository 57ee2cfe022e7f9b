//! Tests of the fleet through its public parts and its programs: stores are directories and a real
//! S3 server, clusters are real processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic, in its helpers too")]

mod cluster;
mod compact;
mod limits;
mod manifests;
mod pages;
mod push;
mod questions;
mod s3;
mod support;
mod tls;
mod writers;
