//! Writes to the state directory, in a thread of its own: the disk below it may be the one that
//! hangs, and recording must not wait for it. Data that cannot be written yet stays in memory, in
//! the runtime directory, and survives the process there.
//!
//! What does not belong here: deciding what is kept.

use crate::disk;
use crate::history::{HistoryFiles, HistoryLimits};
use crate::incidents::page::diagnose_window;
use crate::incidents::record::IncidentRecord;
use crate::incidents::retention::{NeededRoom, to_remove};
use crate::incidents::store::{
    EARLIER, FINDINGS, IncidentStore, PAGE, RECORDING, read_record, write_record,
};
use crate::writers::files::{WriterFiles, WriterSeries, found_over_days};
use crate::writers::over_days::OverDaysFinding;
use iowhy_fs::confined::{Role, limit_this_thread};
use iowhy_fs::read;
use iowhy_model::recording::OPEN_ROUND;
use rustix::thread::CapabilitySet;
use std::io;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

/// Tasks that may wait for the disk.
const MOST_WAITING: usize = 16;

/// Bytes of an incident's page; the daemon makes no larger ones.
const MOST_PAGE_BYTES: u64 = 256 << 20;

/// A task of the saver.
#[derive(Clone, Debug)]
pub enum SaverTask {
    /// Saves the directory in memory of an incident.
    Incident {
        /// Its number.
        number: u32,
        /// Its directory in memory.
        pending: PathBuf,
        /// A recording of the time around the trigger, which is diagnosed and then removed.
        window: Option<PathBuf>,
        /// Whether the incident is finished: the directory in memory is removed once it is saved.
        is_last: bool,
    },
    /// Appends a line to the history.
    History {
        /// Seconds since 1970.
        time_s: i64,
        /// The line, without its end.
        line: String,
    },
    /// Appends a line to the files of who writes.
    Writers {
        /// The series that the line belongs to.
        series: WriterSeries,
        /// Seconds since 1970.
        time_s: i64,
        /// The line, without its end.
        line: String,
    },
    /// Looks for findings over days.
    OverDays {
        /// Now, seconds since 1970.
        now_s: i64,
    },
    /// Replaces a file's content.
    File {
        /// The file.
        path: PathBuf,
        /// Its new content.
        text: String,
    },
}

/// The result of a task.
#[derive(Debug)]
pub enum SaverReport {
    /// An incident is on disk.
    Saved {
        /// The record of the incident.
        record: Box<IncidentRecord>,
        /// The incident's directory.
        path: PathBuf,
        /// Whether the incident is finished.
        is_last: bool,
    },
    /// The search for findings over days has ended.
    OverDays {
        /// The findings.
        found: Vec<OverDaysFinding>,
    },
    /// Something could not be written; an incident stays in memory and is tried again.
    Failed {
        /// The object, for example `incident 7`.
        what: String,
        /// The reason.
        cause: String,
        /// The task, if it is to be tried again.
        task: Option<SaverTask>,
    },
}

/// The thread that writes to the state directory.
#[derive(Debug)]
pub struct Saver {
    tasks: Option<SyncSender<SaverTask>>,
    /// The results of earlier tasks.
    pub reports: Receiver<SaverReport>,
    thread: Option<JoinHandle<()>>,
}

/// The places and sizes that the saver may write.
#[derive(Clone, Debug)]
pub struct SaverLimits {
    /// The state directory.
    pub state: PathBuf,
    /// The file for node_exporter, if there is one.
    pub textfile: Option<PathBuf>,
    /// The runtime directory, in which incidents stand in memory.
    pub runtime: PathBuf,
    /// Bytes of all incidents.
    pub incident_bytes: u64,
    /// Days and bytes of history.
    pub history: HistoryLimits,
}

impl SaverLimits {
    /// Drops the calling thread's right to write elsewhere.
    fn give_up_rights(&self) {
        let folder = self.textfile.as_deref().and_then(Path::parent);
        let places = [Some(self.state.as_path()), Some(self.runtime.as_path()), folder];
        let places = places.into_iter().flatten().map(Path::to_owned).collect();
        // The directory of the text file may be another user's.
        limit_this_thread(&Role::Writes(places), CapabilitySet::DAC_OVERRIDE);
    }
}

impl Saver {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the system has no thread for it.
    pub fn start(limits: SaverLimits) -> io::Result<Saver> {
        let (tasks, received) = sync_channel(MOST_WAITING);
        let (reported, reports) = channel();
        let thread = std::thread::Builder::new().name("saver".to_owned()).spawn(move || {
            limits.give_up_rights();
            serve(&limits, &received, &reported);
        })?;
        Ok(Saver { tasks: Some(tasks), reports, thread: Some(thread) })
    }

    /// Hands over a task; returns it if too many wait already.
    pub fn offer(&self, task: SaverTask) -> Option<SaverTask> {
        match self.tasks.as_ref()?.try_send(task) {
            Ok(()) => None,
            Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => Some(task),
        }
    }

    /// Lets the thread finish its tasks, and returns whether it could. A thread that waits for a
    /// hung disk is abandoned after `patience`.
    pub fn finish(&mut self, patience: std::time::Duration) -> bool {
        self.tasks = None;
        let until = std::time::Instant::now() + patience;
        while let Some(thread) = &self.thread {
            if thread.is_finished() {
                self.thread = None;
                return true;
            }
            if std::time::Instant::now() >= until {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        true
    }
}

fn serve(limits: &SaverLimits, tasks: &Receiver<SaverTask>, reported: &Sender<SaverReport>) {
    let store = IncidentStore::below(&limits.state);
    let history = HistoryFiles::below(&limits.state);
    let writers = WriterFiles::below(&limits.state);
    for task in tasks {
        let report = match &task {
            SaverTask::Incident { number, pending, window, is_last } => {
                let kept = store.path(*number);
                let unknown =
                    window.as_deref().and_then(|window| find_causes(pending, window, &kept));
                if unknown.is_some_and(|report| reported.send(report).is_err()) {
                    return;
                }
                let saved = save(&store, limits, *number, pending, *is_last);
                Some(match saved {
                    Ok(record) => SaverReport::Saved {
                        record: Box::new(record),
                        path: store.path(*number),
                        is_last: *is_last,
                    },
                    Err(error) => SaverReport::Failed {
                        what: format!("save incident {number}"),
                        cause: error.to_string(),
                        task: Some(task),
                    },
                })
            }
            SaverTask::History { time_s, line } => {
                failed("append to the history", history.append(*time_s, line, limits.history))
            }
            SaverTask::Writers { series, time_s, line } => {
                let result = writers.append(*series, *time_s, line, limits.history);
                failed("append to the history of who writes", result)
            }
            SaverTask::OverDays { now_s } => match found_over_days(&writers, *now_s) {
                Ok(found) => Some(SaverReport::OverDays { found }),
                Err(error) => failed("read the history of who writes", Err(error)),
            },
            SaverTask::File { path, text } => {
                let what = format!("write {}", path.display());
                failed(&what, disk::publish(path, text.as_bytes()))
            }
        };
        if report.is_some_and(|report| reported.send(report).is_err()) {
            return;
        }
    }
}

fn failed(what: &str, result: io::Result<()>) -> Option<SaverReport> {
    let cause = result.err()?.to_string();
    Some(SaverReport::Failed { what: what.to_owned(), cause, task: None })
}

/// Diagnoses `window` and adds the result to the incident in `pending`, which will stand in `kept`.
/// If the window is damaged, or the diagnosis has a defect, the incident is saved without its
/// result: the recording can be read again, and this thread must go on.
fn find_causes(pending: &Path, window: &Path, kept: &Path) -> Option<SaverReport> {
    if !window.exists() {
        return None;
    }
    let found = catch_unwind(|| {
        let mut record = read_record(pending)?;
        diagnose_window(window, pending, kept, &mut record)?;
        write_record(pending, &record)
    });
    let defect = |_| Err(io::Error::other("a defect of iowhy: please report it"));
    let result = found.unwrap_or_else(defect);
    disk::remove(window);
    failed(&format!("diagnose {}", kept.display()), result)
}

fn save(
    store: &IncidentStore,
    limits: &SaverLimits,
    number: u32,
    pending: &Path,
    is_last: bool,
) -> io::Result<IncidentRecord> {
    let needed = NeededRoom {
        bytes: disk::bytes_below(pending),
        spared: Some(number),
        asked: read_record(pending).is_ok_and(|record| record.is_asked()),
    };
    for old in to_remove(&store.sizes()?, limits.incident_bytes, needed) {
        store.remove(old)?;
    }
    let path = store.path(number);
    // Also where the ring had nothing of it.
    disk::make(&path)?;
    // Segments never change once they have their name, but for the one of open rows.
    let open = format!("{OPEN_ROUND:08}.");
    let is_final = |name: &str| name.ends_with(".parquet") && !name.starts_with(&open);
    for part in [RECORDING, EARLIER] {
        if pending.join(part).exists() {
            disk::mirror(&pending.join(part), &path.join(part), &is_final, &[])?;
        }
    }
    // Written last: a directory is an incident once it has its record.
    for file in [PAGE, FINDINGS] {
        if pending.join(file).exists() {
            disk::replace(&path.join(file), &read::bytes(&pending.join(file), MOST_PAGE_BYTES)?)?;
        }
    }
    let record = read_record(pending)?;
    write_record(&path, &record)?;
    // Sync the names of the directories above it, which may be new: an incident that the journal
    // and the hook were told about must exist after a power cut.
    for above in path.ancestors().skip(1).take(3) {
        disk::sync_names(above)?;
    }
    if is_last {
        disk::remove(pending);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::summarize;
    use iowhy_model::recording::{RecordingReader, RecordingWriter};
    use iowhy_model::script::Script;
    use std::time::Duration;

    /// An incident in memory with a recording of one request and a window that shows the same.
    fn pending(folder: &Path, number: u32) -> SaverTask {
        let pending = folder.join(format!("run/{number}"));
        disk::make(&pending).unwrap();
        let mut script = Script::new(10);
        script.read("sda", 4096).by(7, "cat").direct(100, 200, 3_000_000_000).add();
        let window = pending.join("window-1");
        for path in [pending.join(RECORDING), window.clone()] {
            let mut writer = RecordingWriter::create(&path, &script.environment).unwrap();
            writer.add(&script.batch, &script.names).unwrap();
            writer.finish(&mut script.environment.clone(), &script.names).unwrap();
        }
        write_record(&pending, &IncidentRecord { number, ..Default::default() }).unwrap();
        SaverTask::Incident { number, pending, window: Some(window), is_last: true }
    }

    fn saver(folder: &Path, incident_bytes: u64) -> Saver {
        let state = folder.join("state");
        let history = HistoryLimits { days: 31, bytes: 200_000_000 };
        let (textfile, runtime) = (None, folder.to_owned());
        Saver::start(SaverLimits { state, runtime, textfile, incident_bytes, history }).unwrap()
    }

    #[test]
    fn an_incident_moves_from_memory_to_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut saver = saver(folder.path(), 100 << 20);
        assert!(saver.offer(pending(folder.path(), 1)).is_none());
        let report = saver.reports.recv().unwrap();
        assert!(matches!(report, SaverReport::Saved { is_last: true, .. }), "{report:?}");
        assert!(saver.finish(Duration::from_secs(10)));
        let store = IncidentStore::below(&folder.path().join("state"));
        let stored = store.get(1).unwrap();
        assert!(stored.path.join(FINDINGS).exists() && stored.bytes > 0);
        assert_eq!(stored.path.join(PAGE).exists(), iowhy_views::html::is_embedded());
        let reader = RecordingReader::open(&stored.path.join(RECORDING)).unwrap();
        assert_eq!(summarize(&mut { reader }).unwrap().watch.requests, 1);
        assert!(!folder.path().join("run/1").exists());
    }

    #[test]
    fn an_incident_that_cannot_be_diagnosed_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let mut saver = saver(folder.path(), 100 << 20);
        let task = pending(folder.path(), 1);
        std::fs::write(folder.path().join("run/1/window-1/recording.json"), "{").unwrap();
        assert!(saver.offer(task).is_none());
        let report = saver.reports.recv().unwrap();
        assert!(matches!(report, SaverReport::Failed { task: None, .. }), "{report:?}");
        let report = saver.reports.recv().unwrap();
        assert!(matches!(report, SaverReport::Saved { is_last: true, .. }), "{report:?}");
        assert!(saver.finish(Duration::from_secs(10)));
        let path = IncidentStore::below(&folder.path().join("state")).path(1);
        assert!(path.join(RECORDING).exists() && !path.join(FINDINGS).exists());
    }

    #[test]
    fn an_incident_of_which_the_ring_had_nothing_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let mut saver = saver(folder.path(), 100 << 20);
        let task = pending(folder.path(), 1);
        for part in [RECORDING, "window-1"] {
            std::fs::remove_dir_all(folder.path().join("run/1").join(part)).unwrap();
        }
        assert!(saver.offer(task).is_none());
        let report = saver.reports.recv().unwrap();
        assert!(matches!(report, SaverReport::Saved { is_last: true, .. }), "{report:?}");
        assert!(saver.finish(Duration::from_secs(10)));
        assert!(IncidentStore::below(&folder.path().join("state")).get(1).is_ok());
    }

    #[test]
    fn room_is_made_for_new_incidents() {
        let folder = tempfile::tempdir().unwrap();
        let mut saver = saver(folder.path(), 100 << 10);
        for number in 1..=9 {
            assert!(saver.offer(pending(folder.path(), number)).is_none());
            saver.reports.recv().unwrap();
        }
        assert!(saver.finish(Duration::from_secs(10)));
        let numbers = IncidentStore::below(&folder.path().join("state")).numbers().unwrap();
        assert!(numbers.len() < 9 && numbers.last() == Some(&9), "{numbers:?}");
    }

    #[test]
    fn what_cannot_be_saved_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("state"), "a file is in the way").unwrap();
        let mut saver = saver(folder.path(), 100 << 20);
        assert!(saver.offer(pending(folder.path(), 1)).is_none());
        let report = saver.reports.recv().unwrap();
        let SaverReport::Failed { task: Some(task), .. } = report else { panic!("{report:?}") };
        std::fs::remove_file(folder.path().join("state")).unwrap();
        assert!(saver.offer(task).is_none());
        let report = saver.reports.recv().unwrap();
        assert!(matches!(report, SaverReport::Saved { .. }), "{report:?}");
        saver.finish(Duration::from_secs(10));
    }
}
