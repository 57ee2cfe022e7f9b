//! A damaged segment is counted and passed over, and no byte of it can stop the reader.

use super::rows::{RowRandom, batch};
use super::shown::shown;
use super::{environment, files, place, read, write};
use iowhy_model::recording::RecordingWriter;
use iowhy_model::source::Batch;
use iowhy_model::table::Table;
use iowhy_model::{Environment, Names, Stack};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A recording of three rounds.
fn recorded() -> (TempDir, PathBuf, Vec<Batch>, Names) {
    let (mut random, mut names) = (RowRandom(37), Names::new());
    let (parent, directory) = place();
    let batches: Vec<Batch> = (0..3).map(|_| batch(150, &mut random, &mut names)).collect();
    write(&directory, &batches, &names);
    (parent, directory, batches, names)
}

#[test]
fn a_damaged_segment_costs_its_own_rows_and_is_named() {
    let (_parent, directory, batches, names) = recorded();
    let damage = |table: &str| {
        let path = directory.join(table).join("00000002.parquet");
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
    };
    let rest = |mut whole: Batch| {
        whole.requests.extend(batches[2].requests.iter().cloned());
        whole.parts.extend(batches[2].parts.iter().cloned());
        whole
    };

    damage("samples");
    let (found, _, end) = read(&directory).unwrap();
    assert_eq!(found.samples.len(), 300);
    assert_eq!(found.requests.len(), 450);
    assert_eq!(
        end.losses.items[0].meaning,
        "segment without its rows (samples/00000002.parquet: it is not as it was written)"
    );
    assert_eq!(end.losses.requests(), 0);

    damage("requests");
    let (found, found_names, end) = read(&directory).unwrap();
    let (was, is) = (rest(batches[0].clone()), shown(&found, &found_names));
    assert_eq!(shown(&was, &names)[..2], is[..2], "requests and parts of rounds 1 and 3");
    let with_parts = batches[1].requests_with_parts().filter(|(_, parts)| !parts.is_empty());
    assert_eq!(end.losses.requests(), with_parts.count() as u64);
    assert!(end.losses.items.iter().any(|loss| loss.meaning.contains("requests/00000002.parquet")));

    damage("request_parts");
    let (found, _, end) = read(&directory).unwrap();
    assert_eq!(found.requests.len(), 300);
    assert_eq!(end.losses.requests(), 1, "at least one, and no way to know");
}

#[test]
fn a_table_that_is_not_there_any_more_tells_nothing() {
    let (_parent, directory) = place();
    let tables = ["requests", "waits"].map(str::to_owned).to_vec();
    let mut whole = Environment { tables, ..environment() };
    let writer = RecordingWriter::create(&directory, &whole).unwrap();
    writer.finish(&mut whole, &Names::new()).unwrap();
    assert_eq!(read(&directory).unwrap().2.unknown_waits(), None);
    fs::remove_dir(directory.join("waits")).unwrap();
    let found = read(&directory).unwrap().2;
    assert!(found.fills("requests"));
    assert!(found.unknown_waits().unwrap().contains("no table of waits"));
}

#[test]
fn lost_waits_are_told_where_there_is_none() {
    let (_parent, directory, ..) = recorded();
    assert_eq!(read(&directory).unwrap().2.unknown_waits(), None);
    for name in files(&directory, "waits") {
        fs::write(directory.join("waits").join(name), "x").unwrap();
    }
    let (found, _, end) = read(&directory).unwrap();
    assert_eq!(found.waits.len(), 0);
    assert!(end.unknown_waits().unwrap().contains("waits/00000003.parquet"));
}

#[test]
fn a_segment_of_any_length_but_its_own_is_damaged() {
    let (_parent, directory, ..) = recorded();
    let path = directory.join("requests/00000003.parquet");
    let whole = fs::read(&path).unwrap();
    let mut random = RowRandom(41);
    let lengths = (0..40).chain(whole.len() - 40..whole.len());
    for length in lengths.chain((0..100).map(|_| random.below(whole.len()))) {
        fs::write(&path, &whole[..length]).unwrap();
        let (found, _, end) = read(&directory).unwrap();
        assert_eq!(found.requests.len(), 300, "cut at {length}");
        assert!(end.losses.requests() > 0, "cut at {length}");
    }
    fs::write(&path, [whole.as_slice(), b"more"].concat()).unwrap();
    assert_eq!(read(&directory).unwrap().0.requests.len(), 300);
    fs::write(&path, "host,bytes\ndb7,4096\n").unwrap();
    assert_eq!(read(&directory).unwrap().0.requests.len(), 300);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(read(&directory).unwrap().0.requests.len(), 300);
}

#[test]
fn any_flipped_bit_is_noticed() {
    let (_parent, directory, ..) = recorded();
    let mut random = RowRandom(43);
    for table in ["requests", "request_parts", "stacks"] {
        let path = directory.join(table).join("00000002.parquet");
        let whole = fs::read(&path).unwrap();
        for _ in 0..40 {
            let mut bytes = whole.clone();
            // Behind our own mark: without it the file is taken for one that another program wrote.
            let place = 12 + random.below(bytes.len() - 12);
            bytes[place] ^= 1 << random.below(8);
            fs::write(&path, bytes).unwrap();
            let (_, _, end) = read(&directory).unwrap();
            assert_eq!(end.losses.items.len(), 1, "{table}, byte {place}");
        }
        fs::write(&path, whole).unwrap();
    }
}

/// Without the checksum only the Parquet library and the guard around it are left. 100,000 such
/// files were read once: the library panicked at 380 of them, and none took 200 ms or 10 MB.
#[test]
fn bytes_that_the_checksum_does_not_guard_cannot_stop_the_reader() {
    let (mut random, mut names) = (RowRandom(47), Names::new());
    let (_parent, directory) = place();
    write(&directory, &[batch(150, &mut random, &mut names)], &names);
    for table in ["requests", "request_parts", "stacks", "samples"] {
        let path = directory.join(table).join("00000001.parquet");
        let whole = without_checksum(&path);
        for _ in 0..100 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let place = random.below(bytes.len());
                bytes[place] = random.next() as u8;
            }
            fs::write(&path, bytes).unwrap();
            let (found, ..) = read(&directory).unwrap_or_default();
            assert!(found.requests.len() <= 150);
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(read(&directory).unwrap().0.requests.len(), 150);
}

fn without_checksum(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes[4..20].fill(0);
    bytes
}

#[test]
fn files_that_are_no_segments_are_passed_over() {
    let (_parent, directory, ..) = recorded();
    for name in ["00000004.parquet~", ".00000009.parquet.partial", "_SUCCESS", "_1.parquet"] {
        fs::write(directory.join("requests").join(name), "x").unwrap();
    }
    let (found, _, end) = read(&directory).unwrap();
    assert_eq!(found.requests.len(), 450);
    assert_eq!(end.losses.items, []);
    assert_eq!(files(&directory, "requests").len(), 7);
}

/// A recording whose stacks have so many functions each.
fn with_stacks(lengths: &[usize]) -> (TempDir, PathBuf) {
    let mut names = Names::new();
    let function = names.intern("do_syscall_64");
    let stack = |(id, length): (u64, &usize)| Stack {
        stack_id: id,
        frames: vec![function; *length],
        ..Table::blank()
    };
    let stacks = (1..).zip(lengths).map(stack).collect();
    let (parent, directory) = place();
    write(&directory, &[Batch { stacks, ..Batch::default() }], &names);
    (parent, directory)
}

#[test]
fn a_kilobyte_that_claims_millions_of_functions_is_refused_before_they_are_decoded() {
    let (_parent, directory) = with_stacks(&[100; 300]);
    let (found, _, end) = read(&directory).unwrap();
    assert_eq!((found.stacks.len(), end.losses.items.len()), (300, 0));
    for (lengths, said) in [
        (vec![5_000], "has more than 4096 texts"),
        (vec![3_000_000], "more texts than iowhy keeps"),
        (vec![4_000; 1_200], "more texts than iowhy keeps"),
    ] {
        let (_parent, directory) = with_stacks(&lengths);
        let bytes = fs::metadata(directory.join("stacks/00000001.parquet")).unwrap().len();
        assert!(bytes < 100_000, "{bytes} bytes");
        let (found, _, end) = read(&directory).unwrap();
        let (kept, all) = (found.stacks.len(), lengths.len());
        assert!(kept < all, "{kept} of {all} stacks: {said}: {:?}", end.losses);
        assert!(
            end.losses.items.iter().any(|loss| loss.meaning.contains(said)),
            "{:?}",
            end.losses
        );
    }
}

/// Puts a link in place of each name in a recording as fast as it can, until it is told to stop.
fn swap_links(directory: PathBuf, victim: PathBuf, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut links = 0;
        let names = [".recording.json.partial", "recording.json", "requests", "stacks/x"];
        while !stop.load(Ordering::Relaxed) {
            for name in names {
                let path = directory.join(name);
                links += u64::from(std::os::unix::fs::symlink(&victim, &path).is_ok());
                if path.is_symlink() {
                    let _ = fs::remove_file(&path);
                }
            }
        }
        links
    })
}

#[test]
fn a_recording_never_follows_a_link_that_is_swapped() {
    let parent = tempfile::tempdir().unwrap();
    let (victim, directory) = (parent.path().join("victim"), parent.path().join("rec"));
    fs::write(&victim, "precious").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = swap_links(directory.clone(), victim.clone(), Arc::clone(&stop));
    let names = Names::new();
    for _ in 0..1_000 {
        let _ = fs::create_dir(&directory);
        if let Ok(mut writer) = RecordingWriter::create(&directory, &Environment::default()) {
            let _ = writer.rotate(&names);
            let _ = writer.finish(&mut Environment::default(), &names);
        }
        let _ = fs::remove_dir_all(&directory);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 1_000, "links were swapped too slowly for a test");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_recording_is_not_made_where_others_may_redirect_it() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("rec");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    RecordingWriter::create(&directory, &Environment::default()).unwrap().discard();
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o022, 0, "{mode:o}: an own one is closed to others");
    if std::os::unix::fs::chown(&directory, Some(65_534), None).is_err() {
        eprintln!("skipped: only root can give a directory to somebody else");
        return;
    }
    let error = RecordingWriter::create(&directory, &Environment::default()).err().unwrap();
    assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}
