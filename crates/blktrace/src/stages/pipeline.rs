//! Captures through several threads, in memory that does not depend on their size.
//!
//! Several names (blktrace makes one per device) are analysed separately, each on one thread: their
//! requests have nothing to do with each other. A single name is read and merged on one thread and
//! analysed on another, with batches going round between the two.

use super::analysis::StageAnalysis;
use crate::trace::{CaptureError, CaptureOptions, Inputs, RecordBatch, TraceCapture, Warnings};
use iowhy_analysis::stages::samples::MAX_HISTOGRAMS;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

/// Batches being processed at once.
const DEPTH: usize = 8;

/// Facts of a capture that are known before its first batch is handed out.
#[derive(Clone, Copy, Debug)]
pub struct CaptureStart {
    /// The time that blkparse calls 0.
    pub genesis: u64,
}

/// Hands every batch of `capture` to `each`, in order, and gives the capture back for its
/// warnings.
pub fn run(
    capture: TraceCapture,
    mut each: impl FnMut(CaptureStart, &RecordBatch),
) -> TraceCapture {
    run_while(capture, |start, batch| {
        each(start, batch);
        true
    })
}

/// Runs as [`run`], for as long as `each` returns true: warnings then cover the part that was read.
pub fn run_while(
    mut capture: TraceCapture,
    mut each: impl FnMut(CaptureStart, &RecordBatch) -> bool,
) -> TraceCapture {
    let (full, filled) = sync_channel::<(CaptureStart, RecordBatch)>(DEPTH);
    let (empty, emptied) = channel::<RecordBatch>();
    for _ in 0..DEPTH {
        // The receiver is alive: it is a variable of this function.
        let _ = empty.send(RecordBatch::default());
    }
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            while let Ok(mut batch) = emptied.recv() {
                if !capture.fill(&mut batch) {
                    break;
                }
                if full.send((CaptureStart { genesis: capture.genesis() }, batch)).is_err() {
                    break;
                }
            }
            capture
        });
        while let Ok((start, batch)) = filled.recv() {
            if !each(start, &batch) {
                break;
            }
            let _ = empty.send(batch);
        }
        drop((empty, filled));
        match reader.join() {
            Ok(capture) => capture,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// As [`run_while`], with a thread of its own for `make`, which turns each batch into bytes, while
/// this one takes the bytes: formatting and writing side by side.
pub fn run_apart(
    capture: TraceCapture,
    mut make: impl FnMut(CaptureStart, &RecordBatch, &mut Vec<u8>) -> bool + Send,
    mut take: impl FnMut(&[u8]) -> bool,
) -> TraceCapture {
    let (full, filled) = sync_channel::<Vec<u8>>(DEPTH);
    let (empty, emptied) = channel::<Vec<u8>>();
    thread::scope(|scope| {
        let maker = scope.spawn(move || {
            run_while(capture, |start, batch| {
                let mut bytes = emptied.try_recv().unwrap_or_default();
                bytes.clear();
                let more = make(start, batch, &mut bytes);
                full.send(bytes).is_ok() && more
            })
        });
        while let Ok(bytes) = filled.recv() {
            if !take(&bytes) {
                break;
            }
            // The maker may have ended.
            let _ = empty.send(bytes);
        }
        drop(filled);
        maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Analyses the stages of everything that `inputs` name.
///
/// # Errors
/// Fails if a file cannot be opened.
pub fn analyse(inputs: &Inputs) -> Result<(StageAnalysis, Warnings), CaptureError> {
    if inputs.groups.len() <= 1 {
        let capture = TraceCapture::from_inputs(inputs.clone(), CaptureOptions::default())?;
        let mut stages = StageAnalysis::default();
        let capture = run(capture, |start, batch| stages.take(batch, start.genesis));
        stages.finish();
        return Ok((stages, capture.warnings().clone()));
    }
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(2, usize::from).min(inputs.groups.len());
    let parts = thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| work(inputs, &next));
        let workers: Vec<_> = (0..workers).map(spawn).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    let mut done = Vec::new();
    for part in parts {
        done.extend(part?);
    }
    done.sort_by_key(|(index, _, _)| *index);
    let (mut stages, mut warnings) = (StageAnalysis::default(), Warnings::default());
    for (_, part, mut message) in done {
        stages.merge(part);
        warnings.append(&mut message);
    }
    Ok((stages, warnings))
}

/// Analyses one name after the other until none is left.
fn work(
    inputs: &Inputs,
    next: &AtomicUsize,
) -> Result<Vec<(usize, StageAnalysis, Warnings)>, CaptureError> {
    let mut done = Vec::new();
    let share = MAX_HISTOGRAMS / inputs.groups.len();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(group) = inputs.groups.get(index) else { return Ok(done) };
        let own = Inputs { groups: vec![group.clone()] };
        let mut capture = TraceCapture::from_inputs(own, CaptureOptions::default())?;
        let share = if share == 0 { usize::from(index < MAX_HISTOGRAMS) } else { share };
        let (mut stages, mut batch) =
            (StageAnalysis::with_histograms(share), RecordBatch::default());
        while capture.fill(&mut batch) {
            stages.take(&batch, capture.genesis());
        }
        stages.finish();
        done.push((index, stages.without_events(), capture.warnings().clone()));
    }
}
