//! The two servers of a cluster: Ballista's scheduler and executor, with the fleet's tables and
//! functions. They open stores by their own environment, so no credentials travel.
//!
//! Their connections are neither encrypted nor checked: they belong on a network of their own, and
//! listen on the loopback address unless they are told otherwise.
//!
//! What does not belong here: queries.

use super::functions;
use super::provider::FleetCodec;
use super::runtime;
use crate::error::{FleetError, Result};
use crate::store::FleetStores;
use ballista_core::config::{
    BALLISTA_ADAPTIVE_PLANNER_ENABLED, BALLISTA_CLIENT_PULL, TaskSchedulingPolicy,
};
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_connection};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::{BallistaCluster, ClusterStateEvent};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::StreamExt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// An executor that is not heard of for so long is lost, seconds.
const LOST_AFTER_S: u64 = 20;
/// How often an executor says that it is there, seconds.
const HEARTBEAT_S: u64 = 5;
/// Failures of a stage or task that a query bears: at the first one it is given up.
const ONE_FAILURE: usize = 1;
/// Bytes of a message: a plan that names the files of a year.
const MOST_MESSAGE_BYTES: u32 = 64 << 20;

/// Executors ask for their tasks. A scheduler that sends them counts the free slots itself, and
/// loses some for good when an executor is lost ("No executor vcores available").
const SCHEDULING: TaskSchedulingPolicy = TaskSchedulingPolicy::PullStaged;

/// Sessions of the client and of both servers. The client asks for the state of its query, because
/// it then knows the query's identifier from the start, and can end it.
///
/// The planner that plans anew between stages is not used: when an executor is lost, it does not
/// find the stage again that has to be repeated ("Can't find active stage to update stage
/// outputs").
pub(super) fn config() -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_ballista_logical_extension_codec(Arc::new(FleetCodec::default()))
        .set_bool(BALLISTA_CLIENT_PULL, true)
        .set_bool(BALLISTA_ADAPTIVE_PLANNER_ENABLED, false)
        .with_information_schema(true)
}

fn failed(what: &str, error: impl std::fmt::Display) -> FleetError {
    FleetError::new(format!("failed to run the {what}: {error}"))
}

/// The address of a scheduler as its protocol has it.
fn address(scheduler: &str) -> String {
    scheduler.replacen("df://", "http://", 1)
}

/// Whether a scheduler is there.
pub(super) async fn answers(scheduler: &str) -> bool {
    create_grpc_client_connection(address(scheduler), &GrpcClientConfig::default()).await.is_ok()
}

/// Ends the query of `plan` that a cluster was given, if it is still there: its tasks would keep
/// their slots of the executors, also where they wait for one that is lost.
///
/// # Errors
/// When the scheduler cannot be reached, or refuses.
pub async fn cancel(scheduler: &str, plan: &dyn ExecutionPlan) -> Result<()> {
    let sent = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>();
    let Some(job) = sent.and_then(DistributedQueryExec::job_id) else { return Ok(()) };
    let config = GrpcClientConfig::default();
    let channel = create_grpc_client_connection(address(scheduler), &config).await;
    let channel = channel.map_err(|error| failed("end of the query", error))?;
    let job_id = job.as_str().to_owned();
    let ended = SchedulerGrpcClient::new(channel).cancel_job(CancelJobParams { job_id }).await;
    ended.map(drop).map_err(|error| failed("end of the query", error))
}

/// Runs a scheduler until it is ended.
///
/// # Errors
/// When it cannot listen there.
pub async fn run_scheduler(stores: Arc<FleetStores>, bind: IpAddr, port: u16) -> Result<()> {
    let builder = move |config: SessionConfig| {
        let runtime = runtime(Arc::clone(&stores), None)
            .map_err(|error| DataFusionError::External(error.into()))?;
        let mut state = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_runtime_env(runtime);
        state.scalar_functions().get_or_insert_default().extend(functions::scalars());
        state.aggregate_functions().get_or_insert_default().extend(functions::aggregates());
        Ok(state.build())
    };
    let config = SchedulerConfig {
        bind_host: bind.to_string(),
        bind_port: port,
        external_host: bind.to_string(),
        scheduling_policy: SCHEDULING,
        executor_timeout_seconds: LOST_AFTER_S,
        expire_dead_executor_interval_seconds: HEARTBEAT_S,
        no_executors_grace_period_seconds: LOST_AFTER_S,
        stage_max_failures: ONE_FAILURE,
        task_max_failures: ONE_FAILURE,
        grpc_server_max_decoding_message_size: MOST_MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MOST_MESSAGE_BYTES,
        grpc_client_max_message_size: MOST_MESSAGE_BYTES,
        override_config_producer: Some(Arc::new(config)),
        override_session_builder: Some(Arc::new(builder)),
        override_logical_codec: Some(Arc::new(FleetCodec::default())),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await;
    let cluster = cluster.map_err(|error| failed("scheduler", error))?;
    let address = SocketAddr::new(bind, port);
    let server = create_scheduler(cluster, Arc::new(config)).await;
    let server = server.map_err(|error| failed("scheduler", error))?;
    let serving = start_grpc_service(address, server.clone());
    tokio::select! {
        ended = serving => ended.map_err(|error| failed("scheduler", error)),
        ended = give_up_lost(server) => ended,
    }
}

type FleetScheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Ends every query that runs when an executor is lost; its client runs it again. What is repaired
/// within a query can have rows twice: a join of which one executor was killed counted 13 % more.
async fn give_up_lost(server: FleetScheduler) -> Result<()> {
    let events = server.cluster_state_events().await;
    let mut events = events.map_err(|error| failed("scheduler", error))?;
    while let Some(event) = events.next().await {
        if matches!(event, ClusterStateEvent::RegisteredExecutor { .. }) {
            continue;
        }
        let jobs: Vec<_> =
            server.state.task_manager.get_running_job_cache().keys().cloned().collect();
        for job in jobs {
            server.cancel_job(job).await.map_err(|error| failed("scheduler", error))?;
        }
    }
    Err(failed("scheduler", "it hears nothing of its executors any more"))
}

/// How an executor is reached and what it may use.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Where it listens, for its own data and for the scheduler.
    pub bind: IpAddr,
    /// The port for its data.
    pub port: u16,
    /// The port for the scheduler.
    pub control_port: u16,
    /// The scheduler's host.
    pub scheduler_host: String,
    /// The scheduler's port.
    pub scheduler_port: u16,
    /// Tasks at the same time.
    pub slots: usize,
    /// Memory of all tasks, bytes.
    pub memory_bytes: u64,
    /// Where what passes between the stages of a query is kept.
    pub folder: Option<PathBuf>,
}

/// Runs an executor until it is ended.
///
/// # Errors
/// When it cannot listen there, or does not reach the scheduler.
pub async fn run_executor(stores: Arc<FleetStores>, options: ExecutorOptions) -> Result<()> {
    let mut registry = BallistaFunctionRegistry::default();
    for function in functions::scalars() {
        registry.scalar_functions.insert(function.name().to_owned(), function);
    }
    for function in functions::aggregates() {
        registry.aggregate_functions.insert(function.name().to_owned(), function);
    }
    let produce = move |_: &SessionConfig| {
        runtime(Arc::clone(&stores), None).map_err(|it| DataFusionError::External(it.into()))
    };
    let folder = options.folder.map(|it| it.to_string_lossy().into_owned());
    let config = ExecutorProcessConfig {
        bind_host: options.bind.to_string(),
        external_host: Some(options.bind.to_string()),
        port: options.port,
        grpc_port: options.control_port,
        scheduler_host: options.scheduler_host,
        scheduler_port: options.scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        vcores: options.slots,
        task_scheduling_policy: SCHEDULING,
        work_dir: folder,
        grpc_max_decoding_message_size: MOST_MESSAGE_BYTES,
        grpc_max_encoding_message_size: MOST_MESSAGE_BYTES,
        executor_heartbeat_interval_seconds: HEARTBEAT_S,
        memory_pool_size: Some(options.memory_bytes),
        override_function_registry: Some(Arc::new(registry)),
        override_runtime_producer: Some(Arc::new(produce)),
        override_config_producer: Some(Arc::new(config)),
        override_logical_codec: Some(Arc::new(FleetCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.map_err(|error| failed("executor", error))
}
