//! A cluster of real processes answers as this process does, or says that it cannot.

use crate::support::{Server, TestPlace, directory, free_port, half_sick, program, sorted};
use iowhy_fleet::engine::FleetEngine;
use iowhy_fleet::questions::cells::drive_hours_sql;
use iowhy_fleet::questions::outliers::{FALSE_ALARMS, find};
use iowhy_fleet::questions::slower;
use std::time::Duration;

struct TestCluster {
    scheduler: Server,
    executors: Vec<Server>,
    folder: tempfile::TempDir,
}

impl TestCluster {
    fn start(executors: usize) -> TestCluster {
        let port = free_port();
        let mut command = program();
        command.args(["scheduler", "--port", &port.to_string()]);
        let scheduler = Server::start(command, port);
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = TestCluster { scheduler, executors: Vec::new(), folder };
        for _ in 0..executors {
            cluster.add_executor();
        }
        cluster
    }

    fn add_executor(&mut self) {
        let port = free_port();
        let folder = self.folder.path().join(port.to_string());
        std::fs::create_dir(&folder).unwrap();
        let mut command = program();
        command.args(["executor", "--port", &port.to_string()]);
        command.args(["--control-port", &free_port().to_string(), "--slots", "2"]);
        command.args(["--scheduler", &format!("127.0.0.1:{}", self.scheduler.port)]);
        command.args(["--memory-mb", "500"]).arg("--folder").arg(folder);
        self.executors.push(Server::start(command, port));
    }

    fn url(&self) -> Option<String> {
        Some(format!("df://127.0.0.1:{}", self.scheduler.port))
    }
}

const QUERIES: [&str; 5] = [
    "SELECT COUNT(*) AS n, SUM(requests) AS requests FROM flows",
    "SELECT model, firmware, operation, SUM(requests) AS requests, \
     latency_percentile(merge_latency(latency), 0.99) AS p99 FROM flows \
     GROUP BY model, firmware, operation",
    "SELECT host_group(host) AS kind, hour, MAX(pressure_some_ns) AS most FROM hosts \
     WHERE hour >= 2 GROUP BY host_group(host), hour",
    "SELECT f.host, f.cause, h.kernel FROM findings f JOIN hosts h \
     ON f.host_id = h.host_id AND f.time = h.time WHERE f.severity = 'critical'",
    "SELECT host, class, time_ns FROM blocked ORDER BY time_ns DESC, host, class, time LIMIT 7",
];

async fn fleet() -> TestPlace {
    let test = directory();
    half_sick(120, 4).write(&test.place).await.unwrap();
    test
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gives_the_same_rows() {
    let test = fleet().await;
    let cluster = TestCluster::start(2);
    let (here, there) = (test.engine(None).await, test.engine(cluster.url()).await);
    let hours = drive_hours_sql("");
    for sql in QUERIES.iter().copied().chain([hours.as_str()]) {
        let (a, b) = (here.query(sql).await.unwrap(), there.query(sql).await.unwrap());
        assert_eq!(sorted(&a), sorted(&b), "{sql}");
        assert!(sorted(&a).len() > 1, "{sql}");
    }
    let (_, a) = slower::compare(&here).await.unwrap();
    let (data, b) = slower::compare(&there).await.unwrap();
    assert_eq!(a.drives.len(), b.drives.len());
    assert_eq!(find(&data, FALSE_ALARMS).drives, b.drives);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_killed_spoils_no_answer() {
    let test = fleet().await;
    let mut cluster = TestCluster::start(2);
    let expected = sorted(&test.engine(None).await.query(QUERIES[1]).await.unwrap());
    let engine = test.engine(cluster.url()).await;
    let query = tokio::spawn(async move { (engine.query(QUERIES[1]).await, engine) });
    tokio::time::sleep(Duration::from_millis(60)).await;
    cluster.executors[0].kill();
    let (answer, engine) =
        tokio::time::timeout(Duration::from_secs(120), query).await.unwrap().unwrap();
    match answer {
        Ok(answer) => assert_eq!(sorted(&answer), expected),
        Err(error) => assert!(error.to_string().contains("failed to run the query"), "{error}"),
    }
    // The other one answers alone, unless it is stuck in what the lost one had: then it is replaced.
    if !answers(&engine, &expected, 2).await {
        cluster.executors[1].kill();
        cluster.add_executor();
        assert!(answers(&engine, &expected, 5).await, "no answer from a new executor");
    }
}

/// Whether a query is answered in so many tries. An answer is the expected one; else it is an error.
async fn answers(engine: &FleetEngine, expected: &[String], tries: usize) -> bool {
    for _ in 0..tries {
        match engine.query(QUERIES[1]).await {
            Ok(answer) => {
                assert_eq!(sorted(&answer), expected);
                return true;
            }
            Err(error) => {
                assert!(error.to_string().contains("failed to run the query"), "{error}");
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_is_killed_is_an_error() {
    let test = fleet().await;
    let mut cluster = TestCluster::start(1);
    let engine = test.engine(cluster.url()).await;
    let query = tokio::spawn(async move {
        let first = engine.query(QUERIES[1]).await;
        (first, engine)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.scheduler.kill();
    let (answer, engine) =
        tokio::time::timeout(Duration::from_secs(120), query).await.unwrap().unwrap();
    if let Ok(answer) = answer {
        // It was faster than the kill.
        let here = test.engine(None).await.query(QUERIES[1]).await.unwrap();
        assert_eq!(sorted(&answer), sorted(&here));
    }
    let error = engine.query(QUERIES[0]).await.unwrap_err();
    assert!(error.to_string().contains("failed to run the query"), "{error}");
}
