//! A real S3 server that is killed and stopped in the middle.

use crate::support::{
    DAY_S, Server, directory, free_port, machine, number, plan, program, s3_credentials, s3_place,
    s3_server, says, spool,
};
use iowhy_fleet::compact::{GRACE_S, compact};
use iowhy_fleet::engine::{EngineOptions, FleetEngine};
use iowhy_fleet::push::{PushPlan, RecordingChoice};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn push_plan(folder: &Path) -> PushPlan {
    spool(&folder.join("spool"), DAY_S, 120);
    machine(&folder.join("root"), "0123456789");
    PushPlan {
        root: folder.join("root"),
        now_s: DAY_S + 86_400,
        recordings: RecordingChoice::All,
        patience: Duration::from_secs(60),
        ..PushPlan::new(folder.join("spool"), folder.join("state"))
    }
}

async fn requests(credentials: &Path) -> i64 {
    let (stores, place) = s3_place(credentials);
    compact(&place, GRACE_S).await.unwrap();
    let engine = FleetEngine::open(stores, place, EngineOptions::default()).await.unwrap();
    number(&engine, "SELECT SUM(requests) FROM flows").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_the_middle_gets_everything() {
    let own = tempfile::tempdir().unwrap();
    let port = free_port();
    let root = own.path().join("s3");
    let mut server = s3_server(&root, port);
    let credentials = s3_credentials(own.path(), port);
    let plan = Arc::new(push_plan(own.path()));
    // Slow enough to be killed within the twelve windows and the recording of 12 MB.
    let slow = PushPlan { bytes_per_second: Some(4000), ..push_plan(own.path()) };
    let pushing = {
        let credentials = credentials.clone();
        tokio::spawn(async move { slow.push(&s3_place(&credentials).1).await })
    };
    let (_, place) = s3_place(&credentials);
    while place.list("table=incoming").await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.kill();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!pushing.is_finished(), "it gave up, or was too fast to be killed");
    // The uploader is ended as well, and both begin again.
    pushing.abort();
    let _ = pushing.await;
    let _server = s3_server(&root, port);
    let report = plan.push(&place).await.unwrap();
    assert!(report.windows < 12 && report.windows > 0, "{report:?}");
    assert_eq!(report.incidents, 1);
    assert_eq!(requests(&credentials).await, 12_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_waits_for_a_server_that_comes_back() {
    let own = tempfile::tempdir().unwrap();
    let port = free_port();
    let root = own.path().join("s3");
    let credentials = s3_credentials(own.path(), port);
    let plan = push_plan(own.path());
    let (_, place) = s3_place(&credentials);
    let pushing = tokio::spawn(async move { plan.push(&place).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let server = s3_server(&root, port);
    // Stopped: it takes connections, and answers nothing for a while.
    server.signal("STOP");
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.signal("CONT");
    let report = pushing.await.unwrap().unwrap();
    assert_eq!((report.windows, report.incidents, report.files), (12, 1, 3));
    assert_eq!(requests(&credentials).await, 12_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_over_s3_says_what_one_over_a_directory_says() {
    let own = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut server = s3_server(&own.path().join("s3"), port);
    let credentials = s3_credentials(own.path(), port);
    let fleet = plan(15, 2);
    let test = directory();
    fleet.write(&test.place).await.unwrap();
    let (stores, place) = s3_place(&credentials);
    fleet.write(&place).await.unwrap();
    let engine = FleetEngine::open(stores, place, EngineOptions::default()).await.unwrap();
    let sql = "SELECT host, device, operation, SUM(requests) AS requests, \
               latency_percentile(merge_latency(latency), 0.99) AS p99 FROM flows \
               GROUP BY host, device, operation ORDER BY host, device, operation";
    let rows = |answer: iowhy_fleet::engine::QueryAnswer| {
        iowhy_fleet::output::rows_json(&answer.rows).unwrap()
    };
    let direct = rows(test.engine(None).await.query(sql).await.unwrap());
    assert_eq!(rows(engine.query(sql).await.unwrap()), direct);
    // Killed: an error, and no half of an answer.
    server.kill();
    let error = engine.query(sql).await.unwrap_err().to_string();
    assert!(!error.contains("THE-SECRET"), "{error}");
}

#[test]
fn the_program_keeps_credentials_to_itself() {
    let own = tempfile::tempdir().unwrap();
    let port = free_port();
    let server: Server = s3_server(&own.path().join("s3"), port);
    assert_eq!(server.port, port);
    let credentials = s3_credentials(own.path(), port);
    let wrong = own.path().join("wrong");
    let text =
        std::fs::read_to_string(&credentials).unwrap().replace("THE-SECRET", "ANOTHER-SECRET");
    std::fs::write(&wrong, text).unwrap();
    let mode = |mode: &str| {
        let status = std::process::Command::new("chmod").arg(mode).arg(&wrong).status().unwrap();
        assert!(status.success());
    };
    let status = |file: &Path, more: &[&str]| {
        let mut command = program();
        command.args(["status", "--at", "s3://fleet/prod"]).args(more);
        command.arg("--credentials").arg(file).env("IOWHY_FLEET_LOG", "trace");
        command
    };
    assert_eq!(says(&mut status(&credentials, &["--allow-http"])), "nothing is there\n");
    for (file, more, permissions, word) in [
        (&wrong, vec!["--allow-http"], "600", "failed to list"),
        (&wrong, vec!["--allow-http"], "644", "chmod 600"),
        (&credentials, vec![], "600", "--allow-http"),
    ] {
        mode(permissions);
        let output = status(file, &more).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(word), "{text}");
        assert!(!text.contains("-SECRET"), "{text}");
    }
}
