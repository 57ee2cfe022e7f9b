//! Rows that are written are the rows that are read.

use super::rows::{HOSTILE, RowRandom, batch};
use super::shown::shown;
use super::{environment, place, read, write};
use iowhy_model::recording::{RecordingReader, RecordingWriter, SegmentLimits};
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Filter, Names, Stack};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[test]
fn rows_of_every_table_and_shape_come_back() {
    let mut random = RowRandom(7);
    for count in [0, 1, 2, 7, 8, 9, 31, 33, 127, 128, 129, 130, 500, 1500] {
        let mut names = Names::new();
        let (parent, directory) = place();
        let written = batch(count, &mut random, &mut names);
        write(&directory, std::slice::from_ref(&written), &names);
        let (found, found_names, end) = read(&directory).unwrap();
        for (was, is) in shown(&written, &names).iter().zip(shown(&found, &found_names)) {
            assert_eq!(was.1, is.1, "{} rows of {}", count, was.0);
        }
        assert_eq!(end.losses.items, []);
        parent.close().unwrap();
    }
}

#[test]
fn several_segments_give_batches_with_each_request_beside_its_parts() {
    let (mut random, mut names) = (RowRandom(11), Names::new());
    let (_parent, directory) = place();
    let batches: Vec<Batch> = (0..5).map(|n| batch(60 * n, &mut random, &mut names)).collect();
    write(&directory, &batches, &names);

    let mut reader = RecordingReader::open(&directory).unwrap();
    let (mut found_names, mut requests, mut parts) = (Names::new(), 0, 0);
    let mut batch = Batch::default();
    loop {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut found_names).unwrap();
        requests += batch.requests.len();
        let joined: usize = batch.requests_with_parts().map(|(_, parts)| parts.len()).sum();
        assert_eq!(joined, batch.parts.len());
        parts += joined;
        if progress == Progress::Done {
            break;
        }
    }
    assert_eq!(requests, batches.iter().map(|batch| batch.requests.len()).sum::<usize>());
    assert_eq!(parts, batches.iter().map(|batch| batch.parts.len()).sum::<usize>());
    assert_eq!(reader.environment().losses.items, []);
}

#[test]
fn extremes_come_back() {
    let (mut names, (_parent, directory)) = (Names::new(), place());
    let mut batch = batch(200, &mut RowRandom(3), &mut names);
    // The last sector of 8 PiB, and the kernel's sector of a request that has none.
    let extremes = [0, 1, (1 << 44) - 1, 1 << 44, u64::MAX];
    for (request, sector) in batch.requests.iter_mut().zip(extremes.iter().cycle()) {
        request.sector = *sector;
        request.error = Some(if request.sector > 1 { i32::MIN } else { i32::MAX });
    }
    for (sample, value) in batch.samples.iter_mut().zip([f64::INFINITY, -0.0, f64::MIN_POSITIVE]) {
        sample.value = value;
    }
    let hostile: Vec<_> = HOSTILE.iter().map(|text| names.intern(text)).collect();
    let long = names.intern(&"long ".repeat(13_000));
    batch.stacks = vec![Stack {
        stack_id: 1,
        user: true,
        frames: hostile.iter().copied().cycle().take(3000).chain([long]).collect(),
        complete: false,
        reason: Some(long),
        unwound_by: Some(long),
    }];
    write(&directory, std::slice::from_ref(&batch), &names);
    let (found, found_names, _) = read(&directory).unwrap();
    assert_eq!(shown(&batch, &names), shown(&found, &found_names));
}

#[test]
fn the_environment_comes_back() {
    let (_parent, directory) = place();
    write(&directory, &[], &Names::new());
    let (_, _, found) = read(&directory).unwrap();
    let mut written = Environment { format: 1, end_ns: 9_000, finished: true, ..environment() };
    written.note_start_time();
    assert!(written.start_time.is_some());
    assert_eq!(found, written);
}

#[test]
fn only_the_owner_may_read_it() {
    let (mut names, (_parent, directory)) = (Names::new(), place());
    let batch = batch(10, &mut RowRandom(5), &mut names);
    write(&directory, &[batch], &names);
    let mut entries = vec![directory];
    while let Some(path) = entries.pop() {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        if path.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            entries.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        } else {
            assert_eq!(mode, 0o600, "{}", path.display());
        }
    }
}

#[test]
fn segments_end_by_size_and_by_age() {
    let (mut names, (parent, _)) = (Names::new(), place());
    let batch = batch(300, &mut RowRandom(9), &mut names);
    let never = SegmentLimits {
        group_rows: 50,
        group_bytes: usize::MAX,
        segment_bytes: usize::MAX,
        segment_age: Duration::MAX,
    };
    let sized = SegmentLimits { segment_bytes: 1, ..never };
    let aged = SegmentLimits { segment_age: Duration::ZERO, ..never };
    for (name, limits, segments) in [("never", never, 1), ("sized", sized, 4), ("aged", aged, 4)] {
        let directory = parent.path().join(name);
        let mut writer = RecordingWriter::with_limits(&directory, &environment(), limits).unwrap();
        for _ in 0..4 {
            writer.add(&batch, &names).unwrap();
        }
        writer.finish(&mut environment(), &names).unwrap();
        assert_eq!(super::files(&directory, "requests").len(), segments, "{name}");
        let (found, ..) = read(&directory).unwrap();
        assert_eq!(found.requests.len(), 4 * batch.requests.len());
        assert_eq!(found.parts.len(), 4 * batch.parts.len());
    }
}

#[test]
fn a_recording_is_filtered_like_any_other_source() {
    let (mut names, (_parent, directory)) = (Names::new(), place());
    write(&directory, &[batch(300, &mut RowRandom(13), &mut names)], &names);
    let (mut found, found_names, _) = read(&directory).unwrap();
    let filter = Filter { files: vec!["/srv/data/7".to_owned()], ..Filter::default() };
    let parts = found.parts.len();
    found.retain(&filter, &found_names, 0);
    assert!(found.parts.len() < parts);
}
