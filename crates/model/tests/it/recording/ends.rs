//! Whatever ends a watch, the data written before stay readable and say how the watch ended.

use super::rows::{RowRandom, batch};
use super::{SMALL, environment, files, place, read};
use iowhy_model::recording::RecordingWriter;
use iowhy_model::{Environment, Names};
use std::path::Path;
use std::process::Command;

#[test]
fn a_killed_watch_leaves_its_closed_segments() {
    let (mut names, (_parent, directory)) = (Names::new(), place());
    let mut batch = batch(250, &mut RowRandom(17), &mut names);
    for (n, request) in batch.requests.iter_mut().enumerate() {
        (request.start_ns, request.q2c_ns) = (5_000 + n as u64, Some(10));
    }
    batch.samples.clear();
    batch.events.clear();
    let mut writer = RecordingWriter::with_limits(&directory, &environment(), SMALL).unwrap();
    writer.add(&batch, &names).unwrap();
    writer.update(&Environment { host: "later".to_owned(), ..environment() });
    writer.rotate(&names).unwrap();
    writer.add(&batch, &names).unwrap();
    // As after a SIGKILL: no destructor runs, and an open segment stays under its partial name.
    std::mem::forget(writer);

    assert_eq!(files(&directory, "requests"), [".00000002.parquet.partial", "00000001.parquet"]);
    let (found, _, end) = read(&directory).unwrap();
    assert_eq!(found.requests.len(), batch.requests.len());
    assert_eq!(found.parts.len(), batch.parts.len());
    assert_eq!((end.finished, end.host.as_str()), (false, "later"));
    assert_eq!(end.end_ns, 5_000 + 249 + 10, "the end of the last request that was seen");
    assert_eq!(end.losses.items, []);
}

#[test]
fn a_watch_that_was_killed_at_once_reads_as_empty() {
    let (_parent, directory) = place();
    std::mem::forget(RecordingWriter::create(&directory, &environment()).unwrap());
    let (found, _, end) = read(&directory).unwrap();
    assert!(found.is_empty());
    assert_eq!((end.finished, end.end_ns), (false, end.start_ns));
}

#[test]
fn requests_that_got_no_name_before_the_kill_are_counted_by_their_parts() {
    let (mut names, (_parent, directory)) = (Names::new(), place());
    let batch = batch(250, &mut RowRandom(19), &mut names);
    super::write(&directory, std::slice::from_ref(&batch), &names);
    std::fs::remove_file(directory.join("requests/00000001.parquet")).unwrap();
    let (found, _, end) = read(&directory).unwrap();
    assert!(found.requests.is_empty() && found.parts.is_empty());
    assert_eq!(found.samples.len(), batch.samples.len());
    let with_parts = batch.requests_with_parts().filter(|(_, parts)| !parts.is_empty()).count();
    assert_eq!(end.losses.requests(), with_parts as u64);
}

#[test]
fn a_dropped_writer_leaves_no_partial_file() {
    let (mut names, (_parent, directory)) = (Names::new(), place());
    let mut writer = RecordingWriter::with_limits(&directory, &environment(), SMALL).unwrap();
    writer.add(&batch(250, &mut RowRandom(23), &mut names), &names).unwrap();
    drop(writer);
    assert_eq!(files(&directory, "requests"), [""; 0]);
}

#[test]
fn a_full_disk_ends_the_watch_and_keeps_what_is_whole() {
    let parent = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(parent.path()) else { return };
    let directory = parent.path().join("recording");
    let (mut random, mut names) = (RowRandom(29), Names::new());
    let mut writer = RecordingWriter::with_limits(&directory, &environment(), SMALL).unwrap();
    let mut whole = 0;
    let error = loop {
        let batch = batch(400, &mut random, &mut names);
        if let Err(error) = writer.add(&batch, &names).and_then(|()| writer.rotate(&names)) {
            break error;
        }
        whole += batch.requests.len();
    };
    assert!(error.is_full(), "{error}");
    assert!(error.to_string().starts_with("failed to write"), "{error}");
    assert!(error.hint().unwrap().contains("free some space"));
    let more = batch(10, &mut random, &mut names);
    assert!(writer.add(&more, &names).is_err());
    let mut end = Environment { end_ns: 9_000, finished: true, ..environment() };
    writer.finish(&mut end, &names).unwrap();
    assert_eq!((end.finished, end.ended_by.as_str()), (false, "disk full"));

    let (found, _, read_end) = read(&directory).unwrap();
    assert_eq!(read_end.ended_by, "disk full");
    let lost: u64 = read_end.losses.requests();
    assert_eq!((found.requests.len(), lost), (whole, 410), "every request is there or counted");
    assert!(files(&directory, "requests").iter().all(|name| !name.contains("partial")));
    drop(disk);
}

/// A file system that is soon full; always unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(path: &Path) -> Option<SmallDisk<'_>> {
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(path).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(path)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                eprintln!("skipped: cannot mount a small tmpfs ({})", why.trim());
                None
            }
            Err(error) => {
                eprintln!("skipped: cannot mount a small tmpfs ({error})");
                None
            }
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "umount {}", self.0.display());
    }
}
