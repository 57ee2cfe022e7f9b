//! Exports hold what the source held, and the programs that they are for read them.

mod collapsed;
mod csv;
mod exported;
mod perfetto;
