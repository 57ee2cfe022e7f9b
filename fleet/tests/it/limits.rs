//! Limits hold for any query, and a mistake in a command line is no success.

use crate::support::{directory, plan, program};
use std::time::{Duration, Instant};

/// Returns the exit code and the output of a command that must end within a time.
fn ends(args: &[&str], within: Duration) -> (Option<i32>, String) {
    let begun = Instant::now();
    let mut command = program();
    let output = command.args(args).output().unwrap();
    assert!(begun.elapsed() < within, "{args:?} took {:?}", begun.elapsed());
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_ends_in_time_and_within_its_memory() {
    let test = directory();
    plan(40, 2).write(&test.place).await.unwrap();
    let long = Duration::from_secs(30);
    for sql in
        ["SELECT repeat('x', 2000000000)", "SELECT COUNT(*) FROM generate_series(1, 100000000000)"]
    {
        let args = ["sql", sql, "--at", test.text(), "--timeout", "2s", "--memory-mb", "500"];
        let (code, text) = ends(&args, long);
        assert_ne!(code, Some(0), "{sql}: {}", text.len());
        let is_limit = text.contains("longer than 2 s") || text.contains("memory");
        assert!(is_limit || text.contains("larger than"), "{sql}: {text}");
    }
    let all = ["sql", "SELECT * FROM flows", "--at", test.text(), "--memory-mb", "1"];
    let (code, text) = ends(&all, long);
    assert!(code == Some(1) && text.contains("--memory-mb"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_no_success() {
    let test = directory();
    plan(5, 1).write(&test.place).await.unwrap();
    let nowhere = format!("{}/nowhere", test.text());
    let nowhere = nowhere.as_str();
    let long = Duration::from_secs(60);
    for (args, word) in [
        (vec!["compact", "--at", nowhere], "no such directory"),
        (vec!["status", "--at", nowhere], "no such directory"),
        (vec!["outliers", "--at", nowhere], "no such directory"),
        (vec!["push", "--at", test.text(), "--spool", nowhere], "--spool"),
        (vec!["diff", "--at", test.text(), "--kernel", "6.1", "6.2"], "6.1"),
        (vec!["top", "--at", test.text(), "--cluster", "127.0.0.1:1"], "df://"),
        (vec!["import", nowhere, "--at", test.text()], "nowhere"),
        (vec!["host", "nobody", "--at", test.text()], "--time"),
    ] {
        let (code, text) = ends(&args, long);
        assert!(code.is_some_and(|code| code != 0), "{args:?}: {text}");
        assert!(text.contains(word) && text.contains("hint") || word == "nowhere", "{text}");
    }
    let down = ["top", "--at", test.text(), "--cluster", "df://127.0.0.1:1"];
    let (code, text) = ends(&down, long);
    assert!(code == Some(75) && text.contains("scheduler"), "{code:?} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_given_once() {
    let test = directory();
    crate::support::half_sick(200, 8).write(&test.place).await.unwrap();
    let state = test.folder.path().join("state.json");
    let metrics = test.folder.path().join("fleet.prom");
    let (state, metrics) = (state.to_str().unwrap(), metrics.to_str().unwrap());
    let args = ["outliers", "--at", test.text(), "--exit-code", "--since-last", state];
    let args = [&args[..], &["--openmetrics", metrics]].concat();
    let (code, text) = ends(&args, Duration::from_secs(60));
    assert_eq!(code, Some(10), "{text}");
    let written = std::fs::read_to_string(metrics).unwrap();
    assert!(written.contains("iowhy_fleet_slow_drive_ratio{host=\"") && written.contains("# EOF"));
    let (code, text) = ends(&args, Duration::from_secs(60));
    assert!(code == Some(0) && text.contains("0 new since the last time"), "{code:?} {text}");
    assert_eq!(std::fs::read_to_string(metrics).unwrap(), written);
}
