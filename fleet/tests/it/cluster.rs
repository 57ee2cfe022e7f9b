//! A cluster of real processes answers as this process does, also when a part of it dies.

use crate::support::{Server, TestPlace, directory, free_port, half_sick, program, sorted};
use iowhy_fleet::engine::QueryAnswer;
use iowhy_fleet::questions::cells::drive_hours_sql;
use iowhy_fleet::questions::outliers::{FALSE_ALARMS, find};
use iowhy_fleet::questions::slower;
use iowhy_fleet::questions::writers::{WriterGroup, WriterOrder, writers};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

type QueryResult = iowhy_fleet::error::Result<QueryAnswer>;

pub struct TestCluster {
    pub scheduler: Server,
    pub executors: Vec<Server>,
    folder: tempfile::TempDir,
    /// Arguments of all nodes.
    args: Vec<String>,
}

impl TestCluster {
    fn start(executors: usize) -> TestCluster {
        TestCluster::start_with(executors, &[])
    }

    /// Starts a cluster whose nodes get these arguments, too.
    pub fn start_with(executors: usize, args: &[&str]) -> TestCluster {
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        let mut command = program();
        command.args(["scheduler", "--port", &port.to_string()]).env("IOWHY_FLEET_LOG", "info");
        command.args(args);
        let log = File::create(folder.path().join("log")).unwrap();
        let scheduler = Server::start_with(command, port, log.into());
        let args = args.iter().map(|argument| (*argument).to_owned()).collect();
        let mut cluster = TestCluster { scheduler, executors: Vec::new(), folder, args };
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
        command.args(["--memory-mb", "500"]).arg("--folder").arg(folder).args(&self.args);
        self.executors.push(Server::start(command, port));
    }

    /// Returns the scheduler's log.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Returns how many stages an executor has rows of, in `JOB/STAGE` of its folder.
    fn stages(&self, at: usize) -> usize {
        let below = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let folder = self.folder.path().join(self.executors[at].port.to_string());
        below(&folder).iter().map(|job| below(job).len()).sum()
    }

    pub fn url(&self) -> Option<String> {
        Some(format!("df://127.0.0.1:{}", self.scheduler.port))
    }
}

pub const QUERIES: [&str; 5] = [
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

pub async fn fleet() -> TestPlace {
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
    for group in [WriterGroup::Program, WriterGroup::File, WriterGroup::Device] {
        let a = writers(&here, group, WriterOrder::Written, 50).await.unwrap();
        assert_eq!(a, writers(&there, group, WriterOrder::Written, 50).await.unwrap());
    }
}

/// A join of several stages, the last of which has most of the work.
const LONG_JOIN: &str = "SELECT a.device, COUNT(*) AS n, SUM(a.requests + b.requests) AS requests \
     FROM flows a JOIN flows b ON a.host = b.host GROUP BY a.device";

/// Kills an executor as soon as the query has begun, or when so many of its stages have rows on
/// one; returns whether the query was not yet answered then.
async fn kill_at(
    cluster: &mut TestCluster,
    stages: usize,
    query: &JoinHandle<QueryResult>,
) -> bool {
    let at = loop {
        let has_begun = stages > 0 || cluster.log().contains("Job submitted");
        let reached = (0..cluster.executors.len()).find(|at| cluster.stages(*at) >= stages);
        match reached.filter(|_| has_begun) {
            Some(at) => break at,
            None if query.is_finished() => return false,
            None => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    };
    cluster.executors[at].kill();
    !query.is_finished()
}

/// The progress of a query decides what is lost with an executor, so each of its stages is tried,
/// all at the same time: the loss is known after 20 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn an_executor_that_is_killed_spoils_no_answer() {
    let test = Arc::new(directory());
    half_sick(200, 6).write(&test.place).await.unwrap();
    let expected = sorted(&test.engine(None).await.query(LONG_JOIN).await.unwrap());
    let killed = |stages| tokio::spawn(killed_at(Arc::clone(&test), stages, expected.clone()));
    for kill in [0, 1, 2, 3].map(killed) {
        kill.await.unwrap();
    }
}

/// Runs a query again that was faster than the kill.
async fn killed_at(test: Arc<TestPlace>, stages: usize, expected: Vec<String>) {
    for _ in 0..5 {
        let mut cluster = TestCluster::start(2);
        let engine = test.engine(cluster.url()).await;
        let query = tokio::spawn(async move { engine.query(LONG_JOIN).await });
        let was_running = kill_at(&mut cluster, stages, &query).await;
        let answer = query.await.unwrap();
        let answer = answer.unwrap_or_else(|error| panic!("killed at {stages}: {error}"));
        assert_eq!(sorted(&answer), expected, "killed at {stages}");
        if was_running {
            return;
        }
    }
    panic!("killed too late at {stages}");
}

/// Runs queries that a cluster cannot run here; one that opens another store is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_answers_as_one_process_and_reads_its_own_store_only() {
    let test = fleet().await;
    let cluster = TestCluster::start_with(1, &["--at", test.text()]);
    let (here, there) = (test.engine(None).await, test.engine(cluster.url()).await);
    for sql in [
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) \
         SELECT SUM(i) AS s, (SELECT COUNT(*) FROM flows) AS f FROM n",
        "SELECT table_name FROM information_schema.tables WHERE table_name = 'flows'",
        "SHOW TABLES",
    ] {
        let (a, b) = (here.query(sql).await.unwrap(), there.query(sql).await.unwrap());
        let has_flows = |rows: &[String]| rows.iter().any(|row| row.contains("flows"));
        match sql {
            "SHOW TABLES" => assert!(has_flows(&sorted(&a)) && has_flows(&sorted(&b))),
            _ => assert_eq!(sorted(&a), sorted(&b), "{sql}"),
        }
    }
    let other = fleet().await;
    let error = other.engine(cluster.url()).await.query(QUERIES[0]).await.unwrap_err();
    assert!(error.to_string().contains("outside"), "{error}");
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

/// The scheduler cancels a query that ran out of time, whose tasks would keep the slots of
/// executors.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_ran_out_of_time_is_ended() {
    let test = fleet().await;
    let cluster = TestCluster::start(1);
    cluster.executors[0].signal("STOP");
    // Long enough that the scheduler has got it.
    for patience_s in [3, 15, 60] {
        let engine = test.engine_of(cluster.url(), Duration::from_secs(patience_s)).await;
        let error = engine.query(QUERIES[1]).await.unwrap_err().to_string();
        assert!(error.contains(&format!("took longer than {patience_s} s")), "{error}");
        if cluster.log().contains("Job submitted") {
            break;
        }
    }
    let until = Instant::now() + Duration::from_secs(60);
    while !cluster.log().contains("Job cancelled") {
        assert!(Instant::now() < until, "{}", cluster.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.executors[0].signal("CONT");
    let expected = sorted(&test.engine(None).await.query(QUERIES[1]).await.unwrap());
    let engine = test.engine(cluster.url()).await;
    assert_eq!(sorted(&engine.query(QUERIES[1]).await.unwrap()), expected);
}
