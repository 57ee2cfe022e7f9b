//! Reading and merging on one thread, analysis on the caller's. Batches go round between the two,
//! so that memory does not depend on the capture's size.

use crate::formats::blktrace::{Batch, Capture};
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

/// Batches under way at once.
const DEPTH: usize = 8;

/// What a capture says of itself before its first batch is handed out.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The time that blkparse calls 0.
    pub genesis: u64,
}

/// Hands every batch of `capture` to `each`, in order, and gives the capture back for its
/// warnings.
pub fn run(mut capture: Capture, mut each: impl FnMut(Start, &Batch)) -> Capture {
    let (full, filled) = sync_channel::<(Start, Batch)>(DEPTH);
    let (empty, emptied) = channel::<Batch>();
    for _ in 0..DEPTH {
        // The receiver is alive: it is a variable of this function.
        let _ = empty.send(Batch::default());
    }
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            while let Ok(mut batch) = emptied.recv() {
                if !capture.fill(&mut batch) {
                    break;
                }
                if full.send((Start { genesis: capture.genesis() }, batch)).is_err() {
                    break;
                }
            }
            capture
        });
        for (start, batch) in filled {
            each(start, &batch);
            let _ = empty.send(batch);
        }
        drop(empty);
        match reader.join() {
            Ok(capture) => capture,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
