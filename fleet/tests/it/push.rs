//! The data that a host sends: all of it, once, wherever it is ended; and no name with `--redact`.

use crate::support::{DAY_S, directory, machine, program, spool};
use iowhy_fleet::clock::now_s;
use iowhy_fleet::compact::{GRACE_S, compact};
use iowhy_fleet::push::{PushPlan, RecordingChoice};
use iowhy_fleet::redact::NameHasher;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn plan(folder: &Path, until_s: i64) -> PushPlan {
    let root = folder.join("root");
    machine(&root, "0123456789");
    PushPlan {
        root,
        now_s: until_s,
        rack: "r1".to_owned(),
        ..PushPlan::new(folder.join("spool"), folder.join("state"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_finished_is_sent_once() {
    let test = directory();
    let own = tempfile::tempdir().unwrap();
    spool(&own.path().join("spool"), DAY_S, 35);
    // In the middle of the fourth window; the third ended long enough ago.
    let report = plan(own.path(), DAY_S + 2100).push(&test.place).await.unwrap();
    assert_eq!((report.windows, report.incidents, report.files), (3, 1, 0));
    let again = plan(own.path(), DAY_S + 2100).push(&test.place).await.unwrap();
    assert_eq!((again.windows, again.incidents), (0, 0));
    let later = plan(own.path(), DAY_S + 3600).push(&test.place).await.unwrap();
    assert_eq!((later.windows, later.incidents), (1, 0));
    compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!(test.number("SELECT SUM(requests) FROM flows").await, 3500);
    assert_eq!(test.number("SELECT SUM(minutes) FROM hosts").await, 35);
    let written = "SELECT SUM(data_bytes) FROM writers WHERE program = 'SECRET' AND model = 'ACME'";
    assert_eq!(test.number(written).await, 35 * 4096);
    let drive = "SELECT COUNT(*) FROM flows WHERE model = 'ACME' AND serial = 'SECRET-1'";
    assert_eq!(test.number(drive).await, 4);
    assert_eq!(test.number("SELECT COUNT(*) FROM incidents WHERE cause = 'hung-io'").await, 1);
    // The record of sent data is lost: it is sent again, and counted once.
    std::fs::remove_dir_all(own.path().join("state")).unwrap();
    let lost = plan(own.path(), DAY_S + 3600).push(&test.place).await.unwrap();
    assert_eq!((lost.windows, lost.incidents), (4, 1));
    compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!(test.number("SELECT SUM(requests) FROM flows").await, 3500);
    assert_eq!(test.number("SELECT SUM(journal_bytes) FROM writers").await, 35 * 8192);
    assert_eq!(test.number("SELECT COUNT(*) FROM incidents").await, 1);
}

/// Pushes without a timer: later data is sent by the same process, which ends on a signal.
#[test]
fn it_pushes_again_and_again_until_it_is_ended() {
    let own = tempfile::tempdir().unwrap();
    let (root, spooled) = (own.path().join("root"), own.path().join("spool"));
    machine(&root, "0123456789");
    std::fs::create_dir(own.path().join("store")).unwrap();
    // Not older than the program's oldest window.
    let begin_s = (now_s() - 3600) / 600 * 600;
    spool(&spooled, begin_s, 10);
    let mut command = program();
    command.args(["push", "--every", "1s", "--root"]).arg(&root).arg("--spool").arg(&spooled);
    command.arg("--state").arg(own.path().join("state")).arg("--at").arg(own.path().join("store"));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("sent 1 windows"), "{first}");
    spool(&spooled, begin_s, 20);
    let later = lines.by_ref().map(Result::unwrap).find(|line| !line.starts_with("sent 0 windows"));
    assert!(later.as_ref().is_some_and(|line| line.starts_with("sent 1 windows")), "{later:?}");
    let ended = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(ended.success() && child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn late_minutes_are_sent_too() {
    let test = directory();
    let own = tempfile::tempdir().unwrap();
    spool(&own.path().join("spool"), DAY_S, 6);
    let early = plan(own.path(), DAY_S + 900);
    assert_eq!(early.push(&test.place).await.unwrap().windows, 1);
    compact(&test.place, GRACE_S).await.unwrap();
    // The disk of the history hung; its lines came later.
    spool(&own.path().join("spool"), DAY_S, 10);
    assert_eq!(plan(own.path(), DAY_S + 1000).push(&test.place).await.unwrap().windows, 1);
    compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!(test.number("SELECT SUM(requests) FROM flows").await, 1000);
    assert_eq!(test.number("SELECT SUM(asked_bytes) FROM writers").await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_sent_whole_and_before_its_incident() {
    let test = directory();
    let own = tempfile::tempdir().unwrap();
    spool(&own.path().join("spool"), DAY_S, 10);
    let plan = PushPlan { recordings: RecordingChoice::Critical, ..plan(own.path(), DAY_S + 3600) };
    let report = plan.push(&test.place).await.unwrap();
    assert_eq!((report.incidents, report.files), (1, 3));
    compact(&test.place, GRACE_S).await.unwrap();
    let engine = test.engine(None).await;
    let answer = engine.query("SELECT recording FROM incidents").await.unwrap();
    let name = iowhy_fleet::output::rows_text(&answer.rows).unwrap();
    let name = name.lines().nth(1).unwrap();
    let sent = test.folder.path().join(name).join("recording/requests/00000001.parquet");
    let original = own.path().join("spool/incidents/000001/recording/requests/00000001.parquet");
    assert_eq!(std::fs::read(sent).unwrap(), std::fs::read(original).unwrap());
    // Data in the store is not sent again.
    std::fs::remove_dir_all(own.path().join("state")).unwrap();
    let again = plan.push(&test.place).await.unwrap();
    assert_eq!((again.incidents, again.files), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_in_what_a_redacted_host_sends() {
    let test = directory();
    let own = tempfile::tempdir().unwrap();
    spool(&own.path().join("spool"), DAY_S, 10);
    let mut plan = plan(own.path(), DAY_S + 3600);
    plan.hasher = Some(NameHasher::from_machine(&plan.root).unwrap());
    plan.recordings = RecordingChoice::All;
    let report = plan.push(&test.place).await.unwrap();
    assert_eq!((report.windows, report.incidents, report.files), (1, 1, 0));
    for object in test.place.list("").await.unwrap() {
        let packed = test.place.read(&object.location, u64::MAX).await.unwrap().unwrap();
        let text = String::from_utf8(zstd::stream::decode_all(packed.as_ref()).unwrap()).unwrap();
        for name in ["SECRET", "web-1", "\"r1\""] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        assert!(text.contains("host-"));
    }
}
