//! For any wrong path in place of a recording, the message names the file and says what is wrong,
//! and the hint says what to do.

use super::rows::{RowRandom, batch};
use super::{environment, place, read, write};
use iowhy_model::recording::{RecordingError, RecordingReader, RecordingWriter};
use iowhy_model::{Environment, Names};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The message and hint of the error that `result` is, with the test's own directory as `DIR`.
fn message<T>(result: Result<T, RecordingError>, parent: &Path) -> String {
    let error = result.err().expect("an error");
    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("{error}{hint}").replace(&parent.display().to_string(), "DIR")
}

#[test]
fn what_is_no_recording_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let open =
        |name: &str| message(RecordingReader::open(&parent.path().join(name)), parent.path());

    assert_eq!(
        open("absent"),
        "failed to read DIR/absent: No such file or directory (os error 2)\n\
         hint: check the path; `iowhy record -o DIR` names it"
    );
    fs::write(parent.path().join("file"), "text").unwrap();
    assert_eq!(
        open("file"),
        "failed to open the recording DIR/file: it is a file, and a recording is a directory\n\
         hint: give the directory that `iowhy record` wrote; it holds recording.json"
    );
    fs::create_dir(parent.path().join("empty")).unwrap();
    assert_eq!(
        open("empty"),
        "failed to open the recording DIR/empty: it has no recording.json\n\
         hint: give the directory that `iowhy record` wrote; it holds recording.json"
    );
}

#[test]
fn a_recording_json_that_is_wrong_is_told_from_one_that_is_cut_short() {
    let (parent, directory) = place();
    write(&directory, &[], &Names::new());
    let path = directory.join("recording.json");
    let good = fs::read_to_string(&path).unwrap();
    let with = |text: &str| {
        fs::write(&path, text).unwrap();
        message(RecordingReader::open(&directory), parent.path())
    };
    let first = |text: &str| with(text).lines().next().unwrap().to_owned();

    assert_eq!(
        with(""),
        "failed to read DIR/recording/recording.json: it is empty\n\
         hint: its tables can be read separately, for instance with DuckDB"
    );
    assert_eq!(
        first(&good[..good.len() / 2]),
        format!(
            "failed to read DIR/recording/recording.json: it is cut short in line {}",
            1 + good[..good.len() / 2].matches('\n').count()
        )
    );
    assert!(first("{\"format\": 1, \"cpus\": \"many\"}").contains("invalid type"));
    assert!(first("\u{0}\u{1}").starts_with("failed to read DIR/recording/recording.json: "));
    assert_eq!(
        first("{\"name\": \"something else\"}"),
        "failed to open the recording DIR/recording: \
         its recording.json is not iowhy's: it has no format"
    );
    assert_eq!(
        with("{\"format\": 7, \"version\": \"9.1\", \"cpus\": {\"new\": \"shape\"}}"),
        "failed to open the recording DIR/recording: its format is 7 (written by iowhy 9.1), \
         and this iowhy 0.1.0 knows formats up to 1\n\
         hint: read it with the version of iowhy that wrote it, or a later one"
    );
    for length in 0..good.len() - 1 {
        fs::write(&path, &good[..length]).unwrap();
        assert!(RecordingReader::open(&directory).is_err(), "cut at {length}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(message(RecordingReader::open(&directory), parent.path()).contains("Is a directory"));
}

#[test]
fn a_place_that_cannot_take_a_recording_is_named() {
    let (parent, directory) = place();
    let create =
        |path: &Path| message(RecordingWriter::create(path, &environment()), parent.path());
    assert_eq!(
        create(&directory.join("below")),
        "failed to create the recording DIR/recording/below: \
         No such file or directory (os error 2)\n\
         hint: create its parent directory first"
    );
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("something"), "").unwrap();
    assert_eq!(
        create(&directory),
        "failed to create the recording DIR/recording: it exists and is not empty\n\
         hint: name a directory that does not exist yet, or empty it"
    );
    assert_eq!(
        create(&directory.join("something")),
        "failed to create the recording DIR/recording/something: Not a directory (os error 20)\n\
         hint: a file is in the way: name another directory"
    );
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing was left there");
}

#[test]
fn an_empty_directory_is_taken() {
    let (_parent, directory) = place();
    fs::create_dir(&directory).unwrap();
    write(&directory, &[], &Names::new());
    assert!(read(&directory).is_ok());
}

#[test]
fn what_may_not_be_read_is_named() {
    let (mut names, (parent, directory)) = (Names::new(), place());
    write(&directory, &[batch(10, &mut RowRandom(31), &mut names)], &names);
    let path = directory.join("requests/00000001.parquet");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    assert_eq!(
        message(read(&directory).map(|_| ()), parent.path()),
        "failed to read DIR/recording/requests/00000001.parquet: Permission denied (os error 13)\n\
         hint: a recording is readable only by its owner: read it as that user, or with sudo"
    );
}

/// Identical rows cost a file nothing and its reader as much as any others.
#[test]
fn a_file_cannot_claim_more_rows_than_fit_into_it() {
    let (_parent, directory) = place();
    let mut names = Names::new();
    let mut many = batch(1, &mut RowRandom(5), &mut names);
    many.waits = vec![many.waits[0].clone(); 400_000];
    let mut writer = RecordingWriter::create(&directory, &environment()).unwrap();
    writer.add(&many, &names).unwrap();
    writer.finish(&mut Environment { end_ns: 9_000, ..environment() }, &names).unwrap();
    let (found, _, end) = read(&directory).unwrap();
    assert!(found.waits.is_empty() && !found.requests.is_empty());
    let losses: Vec<_> = end.losses.items.iter().map(|loss| &loss.meaning[..]).collect();
    assert!(losses.iter().any(|meaning| meaning.contains("claims 400000 rows")), "{losses:?}");
}

/// Its memory is ten times its length.
#[test]
fn a_list_of_row_groups_has_a_bound() {
    let (_parent, directory) = place();
    let mut names = Names::new();
    let rows = batch(1, &mut RowRandom(5), &mut names);
    write(&directory, std::slice::from_ref(&rows), &names);
    let path = directory.join("waits/00000001.parquet");
    let good = fs::read(&path).unwrap();
    let losses = |footer: u32| {
        // Without the mark of iowhy's checksum, as another program writes it.
        let mut forged = [&good[..4], b"another ", &good[12..]].concat();
        let at = forged.len() - 8;
        forged[at..at + 4].copy_from_slice(&footer.to_le_bytes());
        fs::write(&path, forged).unwrap();
        let items = read(&directory).unwrap().2.losses.items;
        items.into_iter().map(|loss| loss.meaning).collect::<Vec<_>>().join("; ")
    };
    assert!(losses(3 << 20).contains("its list of row groups has 3145728 bytes"));
    assert!(!losses(1 << 20).contains("its list of row groups"), "{}", losses(1 << 20));
}
