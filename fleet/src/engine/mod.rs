//! SQL over a fleet: DataFusion in this process, or Ballista on a cluster, with the same tables and
//! functions. A recursive query, which a cluster cannot run, runs in this process.
//!
//! | where | what |
//! |---|---|
//! | here | sessions and queries |
//! | `memory` | what this process uses |
//! | [`provider`] | tables |
//! | [`functions`] | functions |
//! | [`cluster`] | the servers of a cluster |
//! | [`tls`] | certificates of a cluster |
//!
//! What does not belong here: questions.

pub mod cluster;
pub mod functions;
mod memory;
pub mod provider;
pub mod tls;

use crate::commit::{self, HourCommit};
use crate::error::{FleetContext, FleetError, Result};
use crate::store::counted::ReadCounts;
use crate::store::{FleetStores, Place};
use crate::tables::TABLES;
use ballista::prelude::SessionContextExt;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use provider::FleetTableProvider;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tls::ClusterTls;

/// Tries of a query whose files are merged while it runs.
const TRIES: usize = 3;
/// Tries of a query that a cluster loses: one fails when the data of an executor is missing,
/// another when the executor is known to be lost.
const CLUSTER_TRIES: usize = 5;

/// The divisor of a query's memory that gives its answer's: it exists as rows, joined and as text.
const ANSWER_PART: usize = 4;
/// Memory that this process may use in addition to a query's, bytes.
const MEMORY_SLACK_BYTES: usize = 200_000_000;

/// The time that a scheduler may take to end a query, or to answer.
const SCHEDULER_PATIENCE: Duration = Duration::from_secs(5);
/// The time that a query waits before it is run again, after a cluster lost it.
const LOST_PAUSE: Duration = Duration::from_secs(1);

/// The place and the time of queries.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The beginning of the time, seconds since 1970.
    pub from_s: i64,
    /// The end of the time, which does not belong to it.
    pub until_s: i64,
    /// The scheduler of a cluster, `df://host:50050`; this process without it.
    pub cluster: Option<String>,
    /// The certificates by which the cluster and this client identify each other.
    pub tls: Option<Arc<ClusterTls>>,
    /// Memory of a query in this process, bytes; data that does not fit is written to disk.
    pub memory_bytes: usize,
    /// The time that a query may take.
    pub patience: Duration,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            from_s: i64::MIN,
            until_s: i64::MAX,
            cluster: None,
            tls: None,
            memory_bytes: 2 << 30,
            patience: Duration::from_secs(600),
        }
    }
}

/// Runs queries over a fleet.
#[derive(Debug)]
pub struct FleetEngine {
    stores: Arc<FleetStores>,
    place: Place,
    options: EngineOptions,
    commits: Mutex<Arc<Vec<HourCommit>>>,
}

/// The rows of an answer.
#[derive(Clone, Debug)]
pub struct QueryAnswer {
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub rows: RecordBatch,
}

impl FleetEngine {
    /// Reads the commits of the time.
    ///
    /// # Errors
    /// Fails if they cannot be read, or there are none in that time.
    pub async fn open(
        stores: Arc<FleetStores>,
        place: Place,
        options: EngineOptions,
    ) -> Result<FleetEngine> {
        place.must_exist()?;
        let engine = FleetEngine { stores, place, options, commits: Mutex::default() };
        engine.refresh().await?;
        match engine.commits()?.is_empty() {
            false => Ok(engine),
            true => Err(FleetError::new("there is nothing in that place from that time").hint(
                "iowhy-fleet compact makes uploads readable; --from and --until set the time",
            )),
        }
    }

    async fn refresh(&self) -> Result<()> {
        let options = &self.options;
        let commits = commit::of_time(&self.place, options.from_s, options.until_s).await?;
        *self.commits.lock().map_err(|_| FleetError::new("a thread has failed"))? =
            Arc::new(commits);
        Ok(())
    }

    /// The states of the hours that queries see.
    ///
    /// # Errors
    /// Fails if a thread has failed.
    pub fn commits(&self) -> Result<Arc<Vec<HourCommit>>> {
        let commits = self.commits.lock().map_err(|_| FleetError::new("a thread has failed"))?;
        Ok(Arc::clone(&commits))
    }

    /// Returns the beginning and end of the hours that queries see, seconds since 1970.
    ///
    /// # Errors
    /// Fails if a thread has failed.
    pub fn time(&self) -> Result<(i64, i64)> {
        let commits = self.commits()?;
        let first = commits.first().map_or(0, |commit| commit.hour().begin_s());
        let last = commits.last().map_or(0, |commit| commit.hour().end_s());
        Ok((first.max(self.options.from_s), last.min(self.options.until_s)))
    }

    /// Returns the counts of reads from the stores by this process.
    pub fn counts(&self) -> Arc<ReadCounts> {
        self.stores.counts()
    }

    async fn session(&self, cluster: Option<&String>) -> Result<SessionContext> {
        let failed = |error: DataFusionError| query_error(&error);
        let context = match cluster {
            None => {
                let runtime = runtime(Arc::clone(&self.stores), Some(self.options.memory_bytes))?;
                let config = SessionConfig::new().with_information_schema(true);
                SessionContext::new_with_config_rt(config, runtime)
            }
            Some(url) if !url.starts_with("df://") => {
                let message =
                    format!("failed to reach the cluster {url:?}: it is no df://HOST:PORT");
                return Err(FleetError::new(message).hint("--cluster df://127.0.0.1:50050"));
            }
            Some(url) => {
                let state = SessionStateBuilder::new()
                    .with_default_features()
                    .with_config(cluster::config(self.options.tls.as_ref()))
                    .with_runtime_env(runtime(Arc::clone(&self.stores), None)?)
                    .build();
                SessionContext::remote_with_state(url, state).await.map_err(failed)?
            }
        };
        for function in functions::scalars() {
            context.register_udf(function.as_ref().clone());
        }
        for function in functions::aggregates() {
            context.register_udaf(function.as_ref().clone());
        }
        let commits = self.commits()?;
        for table in TABLES {
            let provider = Arc::new(FleetTableProvider::new(&self.place, table, &commits));
            context.register_table(table.name, provider).map_err(failed)?;
        }
        Ok(context)
    }

    /// Returns the answer to a query, which can only read. A query whose files were merged while it
    /// ran is run again with the new ones, and so is one that a cluster lost.
    ///
    /// # Errors
    /// Fails if the query is wrong or needs more memory or time than allowed, or if the store or
    /// cluster fails.
    pub async fn query(&self, sql: &str) -> Result<QueryAnswer> {
        let until = Instant::now() + self.options.patience;
        let most = memory::resident_bytes()
            .saturating_add(self.options.memory_bytes / 4 * 5)
            .saturating_add(MEMORY_SLACK_BYTES);
        let mut tries = 0;
        loop {
            tries += 1;
            let sent = Arc::default();
            // The timers are in another task than the query, which may not yield for long.
            let answer = tokio::select! {
                answer = self.query_once(sql, &sent) => answer?,
                () = tokio::time::sleep_until(until.into()) => {
                    self.cancel(&sent).await;
                    return Err(self.too_long());
                }
                () = memory::beyond(most) => {
                    self.cancel(&sent).await;
                    return Err(too_large());
                }
            };
            match answer {
                Err(error) if is_gone(&error) && tries < TRIES => self.refresh().await?,
                Err(error) => match self.is_lost(&error).await {
                    false => return Err(query_error(&error)),
                    true if tries == CLUSTER_TRIES => return Err(self.lost_again(&error)),
                    true => tokio::time::sleep(LOST_PAUSE).await,
                },
                Ok(answer) => return Ok(answer),
            }
        }
    }

    fn too_long(&self) -> FleetError {
        let limit_s = self.options.patience.as_secs();
        FleetError::new(format!("failed to run the query: it took longer than {limit_s} s"))
            .hint("--timeout, or a shorter time (--from, --until)")
            .transient()
    }

    /// Returns whether the cluster failed at a query that may be right: its scheduler still
    /// answers. The error's text does not distinguish a lost scheduler from a lost executor.
    async fn is_lost(&self, error: &DataFusionError) -> bool {
        let is_wrong = matches!(
            error.find_root(),
            DataFusionError::Plan(_)
                | DataFusionError::SchemaError(..)
                | DataFusionError::SQL(..)
                | DataFusionError::NotImplemented(_)
                | DataFusionError::ResourcesExhausted(_)
        );
        match &self.options.cluster {
            Some(url) if !is_wrong => {
                let answers = cluster::answers(url, self.options.tls.as_ref());
                tokio::time::timeout(SCHEDULER_PATIENCE, answers).await == Ok(true)
            }
            _ => false,
        }
    }

    fn lost_again(&self, error: &DataFusionError) -> FleetError {
        let text = error.strip_backtrace();
        let hint = match self.options.tls {
            Some(_) => "the logs of the executors say what happened to them",
            // Nodes with certificates answer other clients with bytes that are no HTTP.
            None => "the logs of the executors, or --tls if they have certificates",
        };
        FleetError::new(format!("failed to run the query {CLUSTER_TRIES} times: {text}"))
            .hint(hint)
            .transient()
    }

    /// Ends the query on the cluster.
    async fn cancel(&self, sent: &SentPlan) {
        if let (Some(scheduler), Some(plan)) = (&self.options.cluster, sent.get()) {
            let cancelled = cluster::cancel(scheduler, self.options.tls.as_ref(), plan.as_ref());
            // The query's own error says more than that the scheduler could not be told.
            let _ = tokio::time::timeout(SCHEDULER_PATIENCE, cancelled).await;
        }
    }

    /// Runs a query once, in a task of its own; `sent` gets its plan as soon as that runs.
    async fn query_once(
        &self,
        sql: &str,
        sent: &Arc<SentPlan>,
    ) -> Result<std::result::Result<QueryAnswer, DataFusionError>> {
        let context = self.session(self.options.cluster.as_ref()).await?;
        let here = match &self.options.cluster {
            Some(_) => Some(self.session(None).await?),
            None => None,
        };
        let most = self.options.memory_bytes / ANSWER_PART;
        let query = run(context, here, sql.to_owned(), Arc::clone(sent), most);
        let mut task = QueryTask(tokio::spawn(query));
        let failed = |error: tokio::task::JoinError| Err(DataFusionError::External(error.into()));
        Ok((&mut task.0).await.unwrap_or_else(failed))
    }

    /// Returns the plan of a query, as text.
    ///
    /// # Errors
    /// Fails if the query is wrong.
    pub async fn explain(&self, sql: &str) -> Result<QueryAnswer> {
        self.query(&format!("EXPLAIN {sql}")).await
    }
}

/// The plan of a query that runs.
type SentPlan = OnceLock<Arc<dyn ExecutionPlan>>;

/// A task that ends when its waiter is dropped.
struct QueryTask(tokio::task::JoinHandle<std::result::Result<QueryAnswer, DataFusionError>>);

impl Drop for QueryTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a query; `here` is a session of this process for what a cluster cannot do.
async fn run(
    context: SessionContext,
    here: Option<SessionContext>,
    sql: String,
    sent: Arc<SentPlan>,
    most_bytes: usize,
) -> std::result::Result<QueryAnswer, DataFusionError> {
    let only_reading =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let mut frame = context.sql_with_options(&sql, only_reading).await?;
    let is_recursive =
        frame.logical_plan().exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))?;
    if let Some(here) = here.filter(|_| is_recursive) {
        frame = here.sql_with_options(&sql, only_reading).await?;
    }
    let mut schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let mut stream = execute_stream(Arc::clone(sent.get_or_init(|| plan)), task)?;
    let (mut batches, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = stream.try_next().await? {
        bytes += batch.get_array_memory_size();
        if bytes > most_bytes {
            let message = format!("the answer is larger than {} MB", most_bytes / 1_000_000);
            return Err(DataFusionError::ResourcesExhausted(message));
        }
        batches.push(batch);
    }
    // A query may rename the columns of its result.
    if let Some(batch) = batches.first() {
        schema = batch.schema();
    }
    let rows = concat_batches(&schema, &batches)?;
    Ok(QueryAnswer { schema, rows })
}

/// Makes the environment of queries: stores that open themselves, and bounded memory.
///
/// # Errors
/// Fails if there is no directory for data that does not fit.
pub fn runtime(stores: Arc<FleetStores>, memory_bytes: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    let mut builder = RuntimeEnvBuilder::new().with_object_store_registry(stores);
    if let Some(bytes) = memory_bytes {
        builder = builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
    }
    builder.build_arc().context(|| "prepare for queries".to_owned())
}

fn too_large() -> FleetError {
    FleetError::new("failed to run the query: it needed more memory than it may")
        .hint("a shorter time (--from, --until), a LIMIT, more --memory-mb, or --cluster")
}

fn query_error(error: &DataFusionError) -> FleetError {
    let text = error.strip_backtrace();
    let failure = FleetError::new(format!("failed to run the query: {text}"));
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => failure
            .hint("a shorter time (--from, --until), a LIMIT, more --memory-mb, or --cluster"),
        DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
            failure.hint("iowhy-fleet tables lists tables and columns")
        }
        _ if is_unreachable(&text) => {
            failure.hint("is the scheduler running, and are --cluster and --tls right?").transient()
        }
        _ => failure,
    }
}

/// Returns whether nothing answered at the address of a scheduler.
fn is_unreachable(text: &str) -> bool {
    ["transport error", "Transport", "Connection refused", "tcp connect"]
        .iter()
        .any(|phrase| text.contains(phrase))
}

/// Returns whether a file is gone: merged into another one since it was named.
fn is_gone(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ObjectStore(error) => {
            matches!(error.as_ref(), object_store::Error::NotFound { .. })
        }
        // An executor of a cluster reports it as text.
        other => {
            let text = other.to_string();
            text.contains("Object at location") && text.contains("not found")
        }
    }
}
