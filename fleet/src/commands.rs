//! The commands: each returns the text to print.
//!
//! What does not belong here: arguments, exit codes.

use crate::args::{
    AlertArgs, ExecutorArgs, FleetCommand, ImportArgs, NodeArgs, PlaceArgs, QueryArgs,
    SchedulerArgs, SimulateArgs,
};
use crate::manual;
use crate::push_command::{place, run_push, stores};
use iowhy_fleet::clock::{FleetHour, GivenSpan, GivenTime, HOUR_S, minute_text, now_s};
use iowhy_fleet::commit;
use iowhy_fleet::compact::compact;
use iowhy_fleet::engine::cluster::{ExecutorOptions, run_executor, run_scheduler};
use iowhy_fleet::engine::provider::FleetTableProvider;
use iowhy_fleet::engine::tls::ClusterTls;
use iowhy_fleet::engine::{EngineOptions, FleetEngine};
use iowhy_fleet::error::{FleetContext, FleetError, Result};
use iowhy_fleet::import::{self, ColumnMapping};
use iowhy_fleet::output::{self, AnswerSection, safe, size_text};
use iowhy_fleet::push;
use iowhy_fleet::questions::alerts::{self, KnownAlerts};
use iowhy_fleet::questions::cells::DriveHours;
use iowhy_fleet::questions::diff::{self, DiffSides};
use iowhy_fleet::questions::{findings, host, silent, slower, top, writers};
use iowhy_fleet::report;
use iowhy_fleet::simulate::{FleetPlan, PlantedTrouble};
use iowhy_fleet::store::{FleetStores, StoreOptions};
use iowhy_fleet::tables::{self, table};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The result of a command.
pub struct CommandAnswer {
    /// The text to print.
    pub text: String,
    /// Whether it reports something slow or silent, for `--exit-code`.
    pub is_alarm: bool,
}

impl From<String> for CommandAnswer {
    fn from(text: String) -> CommandAnswer {
        CommandAnswer { text, is_alarm: false }
    }
}

/// Runs a command, and returns its result.
pub async fn run(command: FleetCommand) -> Result<CommandAnswer> {
    let said = match command {
        FleetCommand::Outliers { about, limit, alert } => {
            return outliers(&about, limit, &alert).await;
        }
        FleetCommand::Silent { about, after, exit_code } => {
            return silent_hosts(&about, after, exit_code).await;
        }
        FleetCommand::Push(args) => run_push(args).await,
        FleetCommand::Compact { place, grace } => run_compact(&place, grace).await,
        FleetCommand::Import(args) => run_import(&args).await,
        FleetCommand::Status(args) => status(&args).await,
        FleetCommand::Tables => Ok(tables_text()),
        FleetCommand::Sql { query, about } => sql(&query, &about).await,
        FleetCommand::Files { table, about } => files(&table, &about).await,
        FleetCommand::Simulate(args) => simulate(&args).await,
        FleetCommand::Scheduler(args) => scheduler(args).await,
        FleetCommand::Executor(args) => executor(args).await,
        FleetCommand::Completions { shell } => Ok(manual::completions(shell)),
        FleetCommand::Man { output } => manual::write_pages(&output).map(|()| String::new()),
        FleetCommand::Findings(about) => {
            let engine = open(&about).await?;
            answer(&engine, &about, &[findings::findings(&engine).await?])
        }
        FleetCommand::Diff { about, kernel, rollout } => run_diff(&about, kernel, rollout).await,
        FleetCommand::Top { about, by, limit } => {
            let engine = open(&about).await?;
            answer(&engine, &about, &[top::top(&engine, by, limit).await?])
        }
        FleetCommand::Writers { about, by, order, limit } => {
            let engine = open(&about).await?;
            answer(&engine, &about, &[writers::writers(&engine, by, order, limit).await?])
        }
        FleetCommand::Host { name, time, about } => {
            let engine = open(&about).await?;
            let end_s = engine.time()?.1 - HOUR_S;
            let sections = host::host(&engine, &name, time.map_or(end_s, |time| time.0)).await?;
            answer(&engine, &about, &sections)
        }
        FleetCommand::Report { html, about } => {
            let page = report::page(&open(&about).await?).await?;
            output::replace(&html, page.as_bytes())
                .context(|| format!("write {}", html.display()))?;
            Ok(format!("{}: {}\n", html.display(), size_text(page.len() as f64)))
        }
    };
    said.map(CommandAnswer::from)
}

async fn run_diff(
    about: &QueryArgs,
    kernel: Option<Vec<String>>,
    rollout: Option<GivenTime>,
) -> Result<String> {
    let engine = open(about).await?;
    let sides = sides(kernel, rollout)?;
    let data = DriveHours::read(&engine, "").await?;
    sides.must_exist(&data)?;
    let rows = diff::compare(&data, &sides);
    answer(&engine, about, &[diff::section(&rows, &sides)])
}

async fn silent_hosts(
    about: &QueryArgs,
    after: GivenSpan,
    exit_code: bool,
) -> Result<CommandAnswer> {
    let engine = open(about).await?;
    let found = silent::attendance(&engine, after.0).await?;
    let text = answer(&engine, about, &[silent::section(&found)])?;
    Ok(CommandAnswer { text, is_alarm: exit_code && !found.silent.is_empty() })
}

async fn outliers(about: &QueryArgs, limit: usize, alert: &AlertArgs) -> Result<CommandAnswer> {
    let engine = open(about).await?;
    let (data, mut report) = slower::compare(&engine).await?;
    let needs_hosts = alert.since_last.is_some() || alert.openmetrics.is_some();
    let mut hosts = match needs_hosts {
        true => silent::attendance(&engine, silent::SILENT_AFTER_S).await?,
        false => silent::Attendance::default(),
    };
    if let Some(file) = &alert.openmetrics {
        alerts::write_metrics(file, &alerts::open_metrics(&data, &report, &hosts))?;
    }
    let now = KnownAlerts::new(&data, &report, &hosts);
    let (mut is_alarm, mut note) = (!now.is_empty(), None);
    if let Some(file) = &alert.since_last {
        let before = KnownAlerts::load(file)?;
        let (new, gone) = now.changes(&before);
        is_alarm = new > 0;
        note = Some(format!("{new} new since the last time; {gone} of those are gone."));
        before.hide_in(&data, &mut report, &mut hosts);
        now.save(file)?;
    }
    let mut drives = slower::drives(&data, &report, limit);
    drives.notes.push(slower::time_line(&engine)?);
    drives.notes.extend(note);
    let mut sections = vec![drives, slower::batches(&data, &report)];
    if needs_hosts {
        sections.push(silent::section(&hosts));
    }
    let text = answer(&engine, about, &sections)?;
    Ok(CommandAnswer { text, is_alarm: is_alarm && alert.exit_code })
}

async fn run_import(args: &ImportArgs) -> Result<String> {
    let mapping = ColumnMapping::from_args(&args.map, args.every.0, args.request_bytes)?;
    let place = place(&args.place)?;
    let report = import::import(&place, &args.files, &mapping).await?;
    Ok(report.text())
}

/// Stores of a node of a cluster: one alone, if it is given.
fn node_stores(node: &NodeArgs) -> Result<Arc<FleetStores>> {
    let options = StoreOptions::load(node.access.credentials.as_deref(), node.access.allow_http)?;
    let stores = FleetStores::new(options);
    match &node.at {
        Some(only) => stores.only(only).map(Arc::new),
        None => Ok(Arc::new(stores)),
    }
}

/// Certificates, where a directory is given.
fn certificates(folder: Option<&Path>) -> Result<Option<Arc<ClusterTls>>> {
    folder.map(|folder| ClusterTls::load(folder).map(Arc::new)).transpose()
}

/// Certificates of a node, which needs them where others can reach it.
fn node_certificates(node: &NodeArgs) -> Result<Option<Arc<ClusterTls>>> {
    if node.tls.is_none() && !node.insecure && !node.bind.is_loopback() {
        let message = format!(
            "failed to listen on {}: without certificates, whoever can connect can run any query",
            node.bind
        );
        return Err(FleetError::new(message)
            .hint("--tls DIR, or --insecure on a network of the cluster's own"));
    }
    certificates(node.tls.as_deref())
}

async fn open(about: &QueryArgs) -> Result<FleetEngine> {
    let stores = stores(&about.place.access)?;
    let place = stores.place(&about.place.at)?;
    let options = EngineOptions {
        from_s: about.from.map_or(i64::MIN, |from| from.0),
        until_s: about.until.map_or(i64::MAX, |until| until.0),
        cluster: about.cluster.clone(),
        tls: certificates(about.tls.as_deref().filter(|_| about.cluster.is_some()))?,
        memory_bytes: about.memory_mb.saturating_mul(1_000_000),
        patience: Duration::from_secs(about.timeout.0.unsigned_abs()),
    };
    FleetEngine::open(stores, place, options).await
}

fn answer(engine: &FleetEngine, about: &QueryArgs, parts: &[AnswerSection]) -> Result<String> {
    let mut text = match about.json {
        true => output::safe_json(&format!("{:#}\n", output::json(parts))),
        false => output::render(parts),
    };
    if about.stats && !about.json {
        text += &stats(engine)?;
    }
    Ok(text)
}

/// Returns the counts of reads, next to the files and bytes of the time.
fn stats(engine: &FleetEngine) -> Result<String> {
    let counts = engine.counts();
    let commits = engine.commits()?;
    let files = commits.iter().flat_map(|commit| &commit.files);
    let (count, bytes) = files.fold((0, 0), |(n, sum), file| (n + 1, sum + file.bytes));
    Ok(format!(
        "read: {} in {} requests of {} objects; that time has {count} files, {}\n",
        size_text(counts.bytes() as f64),
        counts.requests(),
        counts.objects(),
        size_text(bytes as f64)
    ))
}

async fn run_compact(args: &PlaceArgs, grace: GivenSpan) -> Result<String> {
    let place = place(args)?;
    place.must_exist()?;
    let report = compact(&place, grace.0).await?;
    let mut text = format!(
        "merged {} uploads of {} hours; {} were merged before; {} refused\n",
        report.merged,
        report.hours,
        report.superseded,
        report.refused.len()
    );
    for refused in report.refused.iter().take(20) {
        let _ = writeln!(text, "  {}: {}", safe(&refused.name), refused.reason);
    }
    if report.closed > 0 {
        let _ = writeln!(text, "{} cannot be read and stay", report.closed);
    }
    if report.left > 0 {
        let _ = writeln!(text, "{} are not needed any more and cannot be removed", report.left);
    }
    Ok(text + &strange_text(&report.strange))
}

/// Returns a sentence on names among the uploads that are no uploads.
fn strange_text(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let some: Vec<String> = names.iter().take(5).map(|name| safe(name)).collect();
    format!("{} names among the uploads are none: {}\n", names.len(), some.join(", "))
}

async fn status(args: &PlaceArgs) -> Result<String> {
    let place = place(args)?;
    place.must_exist()?;
    let commits = commit::of_time(&place, i64::MIN, i64::MAX).await?;
    let mut text = String::new();
    let bytes: u64 = commits.iter().flat_map(|commit| &commit.files).map(|file| file.bytes).sum();
    if let (Some(first), Some(last)) = (commits.first(), commits.last()) {
        let _ = writeln!(
            text,
            "{} hours from {} to {} UTC: {}",
            commits.len(),
            minute_text(first.hour_s),
            minute_text(last.hour().end_s()),
            size_text(bytes as f64)
        );
    }
    let (waiting, strange) = push::waiting(&place).await?;
    for (hour, count) in waiting {
        let _ = writeln!(text, "waiting: {count} uploads of {}", minute_text(hour.begin_s()));
    }
    for commit in commits.iter().filter(|commit| !commit.refused.is_empty()) {
        for refused in commit.refused.iter().take(20) {
            let hour = minute_text(commit.hour_s);
            let _ = writeln!(text, "refused at {hour}: {} {}", safe(&refused.name), refused.reason);
        }
    }
    text += &strange_text(&strange);
    Ok(if text.is_empty() { "nothing is there\n".to_owned() } else { text })
}

fn tables_text() -> String {
    let functions = "Functions:\n\n| function | what |\n|---|---|\n\
        | `merge_latency(latency)` | aggregate: histograms added up |\n\
        | `latency_percentile(latency, 0.99)` | the time that this share took at most, ns |\n\
        | `latency_mean(latency)` | the mean, ns |\n\
        | `host_group(host)` | a host's name without the number at its end |\n";
    format!("{}{functions}", tables::reference())
}

async fn sql(query: &str, about: &QueryArgs) -> Result<String> {
    let engine = open(about).await?;
    let answer = engine.query(query).await?;
    let mut text = match about.json {
        true => output::rows_json(&answer.rows)? + "\n",
        false => output::rows_text(&answer.rows)?,
    };
    if about.stats && !about.json {
        text += &stats(&engine)?;
    }
    Ok(text)
}

async fn files(name: &str, about: &QueryArgs) -> Result<String> {
    let Some(table) = table(name) else {
        return Err(FleetError::new(format!("there is no table {name:?}"))
            .hint("iowhy-fleet tables lists them"));
    };
    let stores = stores(&about.place.access)?;
    let place = stores.place(&about.place.at)?;
    let engine = open(about).await?;
    let provider = FleetTableProvider::new(&place, table, &engine.commits()?);
    let root = place.root.as_str().trim_end_matches('/');
    let line = |(path, _): (&str, u64)| match place.root.scheme() {
        "file" => format!("/{path}\n"),
        _ => format!("{root}/{path}\n"),
    };
    Ok(provider.files().map(line).collect())
}

fn sides(kernels: Option<Vec<String>>, rollout: Option<GivenTime>) -> Result<DiffSides> {
    match (kernels.as_deref(), rollout) {
        (Some([a, b]), _) => Ok(DiffSides::Kernels(a.clone(), b.clone())),
        (_, Some(time)) => Ok(DiffSides::Rollout(time.0.div_euclid(HOUR_S) as i32)),
        _ => Err(FleetError::new("--kernel A B or --rollout TIME is needed")),
    }
}

async fn simulate(args: &SimulateArgs) -> Result<String> {
    let place = place(&args.place)?;
    let mut plan = FleetPlan::new(args.hosts, args.length, now_s());
    plan.seed = args.seed;
    if let Some(begin) = args.begin {
        plan.from_s = FleetHour::from_seconds(begin.0).begin_s();
    }
    if args.healthy {
        plan.trouble = PlantedTrouble::none();
    }
    let size = match args.uploads {
        true => plan.upload(&place).await?,
        false => plan.write(&place).await?,
    };
    let days = plan.hours as f64 / 24.0;
    let per_host = size.bytes as f64 / (plan.hosts as f64 * days).max(f64::MIN_POSITIVE);
    let truth = serde_json::to_string(&plan.truth()).context(|| "show the truth".to_owned())?;
    Ok(format!(
        "{} hosts, {} hours from {} UTC: {} in {} objects, {} rows; {} a host and day\n\
         planted: {truth}\n",
        plan.hosts,
        plan.hours,
        minute_text(plan.from_s),
        size_text(size.bytes as f64),
        size.files,
        size.rows,
        size_text(per_host)
    ))
}

async fn scheduler(args: SchedulerArgs) -> Result<String> {
    let tls = node_certificates(&args.node)?;
    let address = SocketAddr::new(args.node.bind, args.port);
    run_scheduler(node_stores(&args.node)?, address, tls).await?;
    Ok(String::new())
}

async fn executor(args: ExecutorArgs) -> Result<String> {
    let (host, port) = args
        .scheduler
        .rsplit_once(':')
        .ok_or_else(|| FleetError::new(format!("{:?} is no HOST:PORT", args.scheduler)))?;
    let scheduler_port = port.parse().context(|| format!("read the port {port:?}"))?;
    let options = ExecutorOptions {
        tls: node_certificates(&args.node)?,
        bind: args.node.bind,
        port: args.port,
        control_port: args.control_port,
        scheduler_host: host.to_owned(),
        scheduler_port,
        slots: args.slots.max(1),
        memory_bytes: args.memory_mb.saturating_mul(1_000_000),
        folder: args.folder,
    };
    run_executor(node_stores(&args.node)?, options).await?;
    Ok(String::new())
}
