//! The recording: a directory of Parquet tables.
