//! Parts of the analysis on threads of their own. Each gets every batch of a source in order, and
//! has a table of names of its own, which shares the texts.
//!
//! What does not belong here: which parts there are (see [`super::filtered`]).

use crate::sums::row_consumers::BatchConsumer;
use iowhy_model::Names;
use iowhy_model::source::Batch;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Batches that may wait for a thread. Some parts do the work of several batches at once.
const DEPTH: usize = 8;

/// Rows that several threads read.
struct SharedBatch {
    rows: Batch,
    /// Texts that are new.
    texts: Vec<Arc<str>>,
}

/// Hands batches to threads, and gets back the memory of those that all of them are done with.
pub(crate) struct BatchSharer {
    /// The number of texts that the threads know.
    met: usize,
    emptied: Receiver<Batch>,
    give_back: Sender<Batch>,
}

impl BatchSharer {
    pub fn new() -> BatchSharer {
        let (give_back, emptied) = channel();
        BatchSharer { met: Names::new().len(), emptied, give_back }
    }

    /// A thread that `consumer` works on.
    pub fn spawn<C: BatchConsumer>(&self, consumer: C) -> ConsumerThread<C> {
        let (give, taken) = sync_channel(DEPTH);
        let give_back = self.give_back.clone();
        let thread = std::thread::spawn(move || work(consumer, &taken, &give_back));
        ConsumerThread { give, thread }
    }

    /// An empty batch, with the memory of an earlier one if there is any.
    pub fn empty(&self) -> Batch {
        self.emptied.try_recv().unwrap_or_default()
    }

    /// Makes `rows`, whose texts are in `names`, ready for the threads.
    pub fn share(&mut self, rows: Batch, names: &Names) -> SharedRows {
        let texts = names.since(self.met).to_vec();
        self.met = names.len();
        SharedRows(Arc::new(SharedBatch { rows, texts }))
    }
}

/// A batch that can be given to any number of threads.
#[derive(Clone)]
pub(crate) struct SharedRows(Arc<SharedBatch>);

impl SharedRows {
    /// Other rows with the same new texts.
    pub fn with(&self, rows: Batch) -> SharedRows {
        SharedRows(Arc::new(SharedBatch { rows, texts: self.0.texts.clone() }))
    }
}

/// A thread that takes batches.
pub(crate) struct ConsumerThread<C> {
    give: SyncSender<SharedRows>,
    thread: JoinHandle<C>,
}

impl<C> ConsumerThread<C> {
    /// Gives it a batch; waits while [`DEPTH`] others wait.
    pub fn give(&self, rows: &SharedRows) {
        // It fails where the thread has panicked, which `join` tells.
        self.give.send(rows.clone()).unwrap_or(());
    }

    /// Returns the consumer that worked there, once it has taken all batches. Passes its panic on.
    pub fn join(self) -> C {
        drop(self.give);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn work<C: BatchConsumer>(
    mut consumer: C,
    taken: &Receiver<SharedRows>,
    give_back: &Sender<Batch>,
) -> C {
    let mut names = Names::new();
    for SharedRows(batch) in taken {
        batch.texts.iter().for_each(|text| _ = names.share(text));
        consumer.take(&batch.rows, &names);
        if let Some(SharedBatch { mut rows, .. }) = Arc::into_inner(batch) {
            rows.clear();
            // At the end nobody takes it.
            give_back.send(rows).unwrap_or(());
        }
    }
    consumer
}
