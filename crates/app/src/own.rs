//! `--own`: whether rows about iowhy itself are shown. Its I/O is a part of a watch, not of the
//! load, so views leave it out.
//!
//! What does not belong here: which rows are iowhy's ([`iowhy_analysis::own_io`]).

use iowhy_analysis::own_io;
use iowhy_model::source::Batch;
use iowhy_model::{Name, Names};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

static SHOWN: AtomicBool = AtomicBool::new(false);

/// Notes, before anything is read, that the user wants them.
pub fn show() {
    SHOWN.store(true, Ordering::Relaxed);
}

/// Whether they are shown.
pub fn is_shown() -> bool {
    SHOWN.load(Ordering::Relaxed)
}

/// Returns the rows of `batch` that views show.
pub fn shown<'a>(batch: &'a Batch, names: &Names) -> Cow<'a, Batch> {
    if is_shown() { Cow::Borrowed(batch) } else { own_io::without_own(batch, names) }
}

/// Whether a row of `process` is left out.
pub fn is_hidden(process: Option<Name>, names: &Names) -> bool {
    !is_shown() && own_io::is_own_name(process, names)
}
