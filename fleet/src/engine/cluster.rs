//! The two servers of a cluster: Ballista's scheduler and executor, with the fleet's tables and
//! functions. They open stores by their own environment, so no credentials travel.
//!
//! With certificates ([`tls`](super::tls)) their connections are encrypted and checked. Without,
//! they listen on the loopback address, unless they are told that the network is safe.
//!
//! What does not belong here: queries.

use super::functions;
use super::provider::FleetCodec;
use super::runtime;
use super::tls::{self, ClusterTls};
use crate::error::{FleetError, Result};
use crate::store::FleetStores;
use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::config::{
    BALLISTA_ADAPTIVE_PLANNER_ENABLED, BALLISTA_CLIENT_PULL, TaskSchedulingPolicy,
};
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint, create_grpc_server};
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
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
use tonic::service::Routes;
use tonic::transport::{Channel, Server};

/// Seconds without a heartbeat after which an executor is lost.
const LOST_AFTER_S: u64 = 20;
/// The interval of an executor's heartbeats, seconds.
const HEARTBEAT_S: u64 = 5;
/// Failures of a stage or task at which a query is given up: the first one.
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
pub(super) fn config(tls: Option<&Arc<ClusterTls>>) -> SessionConfig {
    let config = SessionConfig::new_with_ballista();
    let config = match tls {
        None => config,
        Some(tls) => config
            .with_ballista_use_tls(true)
            .with_ballista_override_create_grpc_client_endpoint(tls.endpoints()),
    };
    config
        .with_ballista_logical_extension_codec(Arc::new(FleetCodec::default()))
        .set_bool(BALLISTA_CLIENT_PULL, true)
        .set_bool(BALLISTA_ADAPTIVE_PLANNER_ENABLED, false)
        .with_information_schema(true)
}

fn failed(what: &str, error: impl std::fmt::Display) -> FleetError {
    FleetError::new(format!("failed to run the {what}: {error}"))
}

async fn connect(scheduler: &str, tls: Option<&Arc<ClusterTls>>) -> Result<Channel> {
    let failed = |error: &dyn std::fmt::Display| failed("connection to the scheduler", error);
    let endpoint = create_grpc_client_endpoint(
        scheduler.replacen("df://", "http://", 1),
        Some(&GrpcClientConfig::default()),
    );
    let endpoint = endpoint.map_err(|error| failed(&error))?;
    let endpoint = match tls {
        None => endpoint,
        Some(tls) => tls.endpoints()(endpoint).map_err(|error| failed(&error))?,
    };
    endpoint.connect().await.map_err(|error| failed(&error))
}

/// Returns whether the scheduler answers.
pub(super) async fn answers(scheduler: &str, tls: Option<&Arc<ClusterTls>>) -> bool {
    connect(scheduler, tls).await.is_ok()
}

/// Ends the query of `plan` on a cluster, if it still runs: its tasks would keep their slots of the
/// executors, even if they wait for one that is lost.
///
/// # Errors
/// Fails if the scheduler cannot be reached, or refuses.
pub async fn cancel(
    scheduler: &str,
    tls: Option<&Arc<ClusterTls>>,
    plan: &dyn ExecutionPlan,
) -> Result<()> {
    let sent = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>();
    let Some(job) = sent.and_then(DistributedQueryExec::job_id) else { return Ok(()) };
    let channel = connect(scheduler, tls).await?;
    let job_id = job.as_str().to_owned();
    let ended = SchedulerGrpcClient::new(channel).cancel_job(CancelJobParams { job_id }).await;
    ended.map(drop).map_err(|error| failed("end of the query", error))
}

/// Runs a scheduler until it is ended.
///
/// # Errors
/// Fails if it cannot listen there.
pub async fn run_scheduler(
    stores: Arc<FleetStores>,
    address: SocketAddr,
    tls: Option<Arc<ClusterTls>>,
) -> Result<()> {
    let config = scheduler_config(stores, address, tls.as_ref());
    let cluster = BallistaCluster::new_from_config(&config).await;
    let cluster = cluster.map_err(|error| failed("scheduler", error))?;
    let server = create_scheduler(cluster, Arc::new(config)).await;
    let server = server.map_err(|error| failed("scheduler", error))?;
    let serving = async {
        match &tls {
            None => start_grpc_service(address, server.clone()).await,
            Some(tls) => serve_encrypted(address, server.clone(), tls).await,
        }
    };
    tokio::select! {
        ended = serving => ended.map_err(|error| failed("scheduler", error)),
        ended = give_up_lost(server.clone()) => ended,
    }
}

/// Serves the scheduler as Ballista does, with certificates on both sides of each connection.
async fn serve_encrypted(
    address: SocketAddr,
    server: FleetScheduler,
    tls: &ClusterTls,
) -> std::result::Result<(), BallistaError> {
    let service = SchedulerGrpcServer::new(server)
        .max_decoding_message_size(MOST_MESSAGE_BYTES as usize)
        .max_encoding_message_size(MOST_MESSAGE_BYTES as usize);
    let routes = Routes::new(service).into_axum_router();
    let routes = routes.layer(axum::middleware::from_fn(tls::check_role));
    let serving = Server::builder().tls_config(tls.server())?.add_routes(routes.into());
    Ok(serving.serve(address).await?)
}

fn scheduler_config(
    stores: Arc<FleetStores>,
    address: SocketAddr,
    tls: Option<&Arc<ClusterTls>>,
) -> SchedulerConfig {
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
    let of_sessions = tls.cloned();
    let host = address.ip().to_string();
    SchedulerConfig {
        bind_host: host.clone(),
        bind_port: address.port(),
        external_host: host,
        scheduling_policy: SCHEDULING,
        executor_timeout_seconds: LOST_AFTER_S,
        expire_dead_executor_interval_seconds: HEARTBEAT_S,
        no_executors_grace_period_seconds: LOST_AFTER_S,
        stage_max_failures: ONE_FAILURE,
        task_max_failures: ONE_FAILURE,
        grpc_server_max_decoding_message_size: MOST_MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MOST_MESSAGE_BYTES,
        grpc_client_max_message_size: MOST_MESSAGE_BYTES,
        use_tls: tls.is_some(),
        override_create_grpc_client_endpoint: tls.map(ClusterTls::endpoints),
        override_config_producer: Some(Arc::new(move || config(of_sessions.as_ref()))),
        override_session_builder: Some(Arc::new(builder)),
        override_logical_codec: Some(Arc::new(FleetCodec::default())),
        ..SchedulerConfig::default()
    }
}

type FleetScheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Ends every query that runs when an executor is lost; its client runs it again. A query that is
/// repaired can have rows twice: a join of which one executor was killed counted 13 % more.
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

/// The addresses and limits of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The address on which it listens, for its own data and for the scheduler.
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
    /// The directory for data that passes between the stages of a query.
    pub folder: Option<PathBuf>,
    /// Its certificates.
    pub tls: Option<Arc<ClusterTls>>,
}

/// The service from which others get what an executor has computed, with certificates on both
/// sides of each connection.
fn encrypted_flight(tls: Arc<ClusterTls>) -> Arc<ArrowFlightServerProvider> {
    Arc::new(move |folder, address, mut shutdown, config| {
        let tls = Arc::clone(&tls);
        tokio::spawn(async move {
            let service = FlightServiceServer::new(BallistaFlightService::new(folder))
                .max_decoding_message_size(MOST_MESSAGE_BYTES as usize)
                .max_encoding_message_size(MOST_MESSAGE_BYTES as usize);
            let mut server = create_grpc_server(&config).tls_config(tls.server())?;
            let serving = server.add_service(service);
            Ok(serving.serve_with_shutdown(address, shutdown.recv()).await?)
        })
    })
}

/// Runs an executor until it is ended.
///
/// # Errors
/// Fails if it cannot listen there, or does not reach the scheduler.
pub async fn run_executor(stores: Arc<FleetStores>, options: ExecutorOptions) -> Result<()> {
    let mut registry = BallistaFunctionRegistry::default();
    for function in functions::scalars() {
        registry.scalar_functions.insert(function.name().to_owned(), function);
    }
    for function in functions::aggregates() {
        registry.aggregate_functions.insert(function.name().to_owned(), function);
    }
    let produce = move |_: &SessionConfig| {
        runtime(Arc::clone(&stores), None).map_err(|error| DataFusionError::External(error.into()))
    };
    let tls = options.tls;
    let of_sessions = tls.clone();
    let folder = options.folder.map(|folder| folder.to_string_lossy().into_owned());
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
        override_config_producer: Some(Arc::new(move || config(of_sessions.as_ref()))),
        override_create_grpc_client_endpoint: tls.as_ref().map(ClusterTls::endpoints),
        override_arrow_flight_service: tls.map(encrypted_flight),
        override_logical_codec: Some(Arc::new(FleetCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.map_err(|error| failed("executor", error))
}
