//! Single block events, as blktrace has them: captures and text in, captures, text and btt's
//! figures out.
//!
//! | where | what |
//! |---|---|
//! | [`trace`] | blktrace's binary records, in and out; blkparse's, ftrace's and perf's text, in |
//! | [`events`] | events as blkparse prints them |
//! | [`stages`] | events joined to requests, and the stages of these |
//! | [`btt`] | btt 1.3.0's figures, its quirks included |
//! | [`import`] | a capture as a [`iowhy_model::source::Source`] |
//! | [`replay`] | rows of the `events` table as the records that a capture gives |
//! | [`iolog`] | fio's logs, versions 2 and 3, that `fio --read_iolog` replays |
//!
//! What does not belong here: what requests add up to (`iowhy_analysis`), and formats that
//! have nothing to do with block events (`iowhy_analysis::formats`).
#![forbid(unsafe_code)]

pub mod btt;
pub mod events;
pub mod import;
pub mod iolog;
pub mod replay;
pub mod stages;
pub mod trace;
