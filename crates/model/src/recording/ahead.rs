//! A recording that is read on a thread of its own while its rows are analysed: decoding them takes
//! about as long.
//!
//! Each thread has a table of names; they share the texts. A few batches go around between the two,
//! so memory does not depend on which is faster.
//!
//! What does not belong here: reading (see [`super::reader`]).

use super::error::RecordingError;
use super::reader::RecordingReader;
use crate::source::{Batch, Progress, Source};
use crate::{Environment, Name, Names};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Batches that are read ahead.
const DEPTH: usize = 2;

/// A recording that is read ahead.
pub struct RecordingAhead {
    directory: PathBuf,
    environment: Environment,
    bytes: (u64, u64),
    is_between_rounds: bool,
    /// The reader's names, by their position, in the table of who asks for rows.
    moved: Vec<Name>,
    /// Whether all of them are the same.
    is_same: bool,
    state: AheadState,
}

enum AheadState {
    /// Nobody has asked for rows yet.
    Waiting(Box<RecordingReader>),
    Reading(ReadingThread),
    Ended,
}

struct ReadingThread {
    full: Receiver<ReadBatch>,
    empty: Sender<Batch>,
    thread: JoinHandle<()>,
}

/// The outcome of one read.
struct ReadBatch {
    rows: Batch,
    /// Texts that are new.
    texts: Vec<Arc<str>>,
    /// The recording's environment, if it has changed.
    environment: Option<Box<Environment>>,
    bytes: (u64, u64),
    is_between_rounds: bool,
    result: Result<Progress, RecordingError>,
}

impl RecordingAhead {
    /// Reads `reader` ahead, from the first call of [`Source::fill`] on.
    pub fn new(reader: RecordingReader) -> RecordingAhead {
        RecordingAhead {
            directory: reader.directory().to_owned(),
            environment: reader.environment().clone(),
            bytes: reader.bytes(),
            is_between_rounds: reader.is_between_rounds(),
            moved: Vec::new(),
            is_same: true,
            state: AheadState::Waiting(Box::new(reader)),
        }
    }

    /// The directory of the recording.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bytes of the rows that were given, and of all.
    pub fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    /// As [`RecordingReader::is_between_rounds`], of the rows that were given.
    pub fn is_between_rounds(&self) -> bool {
        self.is_between_rounds
    }

    /// Begins to read, if it has not begun.
    fn begin(&mut self) {
        self.state = match std::mem::replace(&mut self.state, AheadState::Ended) {
            AheadState::Waiting(reader) => AheadState::Reading(ReadingThread::spawn(*reader)),
            begun => begun,
        };
    }

    /// Waits for the thread, which ends before it reads on.
    fn end(&mut self) {
        let state = std::mem::replace(&mut self.state, AheadState::Ended);
        if let AheadState::Reading(ReadingThread { full, empty, thread }) = state {
            drop((full, empty));
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Takes the reader's new names into `names`.
    fn meet(&mut self, texts: &[Arc<str>], names: &mut Names) {
        for text in texts {
            let name = names.share(text);
            self.is_same &= name.index() == self.moved.len();
            self.moved.push(name);
        }
    }
}

impl ReadingThread {
    fn spawn(reader: RecordingReader) -> ReadingThread {
        let (give, full) = sync_channel(DEPTH);
        let (empty, emptied) = channel();
        let thread = std::thread::spawn(move || read(reader, &give, &emptied));
        ReadingThread { full, empty, thread }
    }
}

/// Reads everything and hands it to `give`, until nobody takes it.
fn read(mut reader: RecordingReader, give: &SyncSender<ReadBatch>, emptied: &Receiver<Batch>) {
    let mut names = Names::new();
    let (mut met, mut environment) = (0, reader.environment().clone());
    loop {
        let mut rows = emptied.try_recv().unwrap_or_default();
        let result = reader.fill(&mut rows, &mut names);
        let has_changed = environment != *reader.environment();
        if has_changed {
            environment.clone_from(reader.environment());
        }
        let is_last = !matches!(result, Ok(Progress::More));
        let batch = ReadBatch {
            rows,
            texts: names.since(met).to_vec(),
            environment: has_changed.then(|| Box::new(environment.clone())),
            bytes: reader.bytes(),
            is_between_rounds: reader.is_between_rounds(),
            result,
        };
        met = names.len();
        if give.send(batch).is_err() || is_last {
            return;
        }
    }
}

impl Source for RecordingAhead {
    type Error = RecordingError;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, RecordingError> {
        self.begin();
        let AheadState::Reading(thread) = &self.state else { return Ok(Progress::Done) };
        let Ok(read) = thread.full.recv() else {
            self.end();
            return Ok(Progress::Done);
        };
        let ReadBatch { mut rows, texts, environment, bytes, is_between_rounds, result } = read;
        self.meet(&texts, names);
        if !self.is_same {
            rows.rename(&mut |name| self.moved.get(name.index()).copied().unwrap_or(Name::EMPTY));
        }
        if batch.is_empty() {
            std::mem::swap(batch, &mut rows);
        } else {
            batch.append(&mut rows);
        }
        rows.clear();
        if let AheadState::Reading(thread) = &self.state {
            // At the end nobody takes it.
            let _ = thread.empty.send(rows);
        }
        if let Some(environment) = environment {
            self.environment = *environment;
        }
        (self.bytes, self.is_between_rounds) = (bytes, is_between_rounds);
        if !matches!(result, Ok(Progress::More)) {
            self.end();
        }
        result
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::RecordingWriter;
    use crate::recording::tests::{rows, rows_of};
    use crate::script::Script;

    fn recording(folder: &Path) -> PathBuf {
        let path = folder.join("recording");
        let mut script = Script::new(10);
        for number in 0..20_000_i64 {
            let process = format!("reader{}", number % 300);
            let read = script.read("sda", 4096).by(number as u32 % 300, &process);
            read.at(number * 400_000).direct(1_000, 2_000, 90_000 + number as u64).add();
        }
        let mut writer = RecordingWriter::create(&path, &script.environment).unwrap();
        for batch in script.source(20).batches {
            writer.add(&batch, &script.names).unwrap();
        }
        writer.finish(&mut script.environment.clone(), &script.names).unwrap();
        path
    }

    fn ahead(path: &Path) -> RecordingAhead {
        RecordingAhead::new(RecordingReader::open(path).unwrap())
    }

    #[test]
    fn ahead_or_not_the_rows_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path());
        let (plain, ahead) = (rows_of(&path), rows(&mut ahead(&path)));
        assert_eq!(plain.requests(), (20_000, 0));
        assert!(ahead.batch.requests == plain.batch.requests, "other requests");
        assert!(ahead.batch.parts == plain.batch.parts, "other parts");
        assert_eq!(ahead.names.since(0), plain.names.since(0));
        assert_eq!(ahead.environment, plain.environment);
    }

    #[test]
    fn names_that_are_there_before_do_not_mix_with_those_of_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = ahead(&recording(folder.path()));
        let (mut names, mut batch) = (Names::new(), Batch::default());
        names.intern("mine");
        let mut seen = 0;
        while source.fill(&mut batch, &mut names).unwrap() == Progress::More {
            for request in batch.requests.drain(..) {
                let process = format!("reader{}", request.pid.unwrap());
                assert_eq!(names.get(request.process.unwrap()), process);
                seen += 1;
            }
            names.intern(&format!("mine {seen}"));
        }
        assert_eq!(seen, 20_000);
        assert_eq!(source.fill(&mut batch, &mut names).unwrap(), Progress::Done);
    }

    #[test]
    fn what_is_not_read_to_its_end_ends_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = ahead(&recording(folder.path()));
        let (mut names, mut batch) = (Names::new(), Batch::default());
        assert_eq!(source.fill(&mut batch, &mut names).unwrap(), Progress::More);
        source.end();
        assert_eq!(source.fill(&mut batch, &mut names).unwrap(), Progress::Done);
    }
}
