//! Uploads: once, or repeatedly until it is ended.
//!
//! What does not belong here: the data that is uploaded.

use crate::push_args::{AccessArgs, PlaceArgs, PushArgs};
use iowhy_fleet::clock::{GivenSpan, now_s};
use iowhy_fleet::error::{FleetContext, FleetError, Result};
use iowhy_fleet::output::{safe_lines, size_text};
use iowhy_fleet::push::PushPlan;
use iowhy_fleet::redact::NameHasher;
use iowhy_fleet::store::{FleetStores, Place, StoreOptions};
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;

/// Stores as the command line says.
///
/// # Errors
/// Fails if the credentials cannot be read.
pub fn stores(access: &AccessArgs) -> Result<Arc<FleetStores>> {
    let options = StoreOptions::load(access.credentials.as_deref(), access.allow_http)?;
    Ok(Arc::new(FleetStores::new(options)))
}

/// The place that the command line names.
///
/// # Errors
/// Fails if the text is no place.
pub fn place(args: &PlaceArgs) -> Result<Place> {
    stores(&args.access)?.place(&args.at)
}

/// Uploads the recorder's data.
///
/// # Errors
/// Fails if the recorder's directory cannot be read, or the store fails.
pub async fn run_push(args: PushArgs) -> Result<String> {
    let place = place(&args.place)?;
    place.must_exist()?;
    if !args.spool.is_dir() {
        let message =
            format!("failed to read {}: there is no such directory", args.spool.display());
        return Err(FleetError::new(message).hint("--spool is where iowhy daemon keeps its state"));
    }
    let hasher = match (args.redact, &args.redact_key) {
        (false, _) => None,
        (true, Some(file)) => Some(NameHasher::from_file(file)?),
        (true, None) => Some(NameHasher::from_machine(&args.root)?),
    };
    let plan = PushPlan {
        root: args.root,
        host: args.host,
        rack: args.rack,
        recordings: args.recordings,
        hasher,
        bytes_per_second: args.bandwidth.map(|bandwidth| bandwidth.saturating_mul(1000)),
        patience: Duration::from_secs(args.patience.0.unsigned_abs()),
        ..PushPlan::new(args.spool, args.state)
    };
    match args.every {
        None => push_once(&plan, &place).await,
        Some(every) => tokio::select! {
            ended = push_for_ever(&plan, &place, every) => ended,
            ended = until_ended() => ended.map(|()| String::new()),
        },
    }
}

/// Pushes repeatedly, at random intervals: thousands of hosts must not come at the same second. A
/// store that fails for a while does not end it.
async fn push_for_ever(plan: &PushPlan, place: &Place, every: GivenSpan) -> Result<String> {
    use std::io::Write as _;
    loop {
        let plan = PushPlan { now_s: now_s(), ..plan.clone() };
        match push_once(&plan, place).await {
            Ok(text) => std::io::stdout().lock().write_all(text.as_bytes()),
            Err(error) if error.is_transient => {
                writeln!(std::io::stderr(), "iowhy-fleet: {}", safe_lines(&error.to_string()))
            }
            Err(error) => return Err(error),
        }
        .context(|| "say what was sent".to_owned())?;
        let share: f64 = rand::rng().random_range(0.5..1.5);
        tokio::time::sleep(Duration::from_secs(every.0.unsigned_abs()).mul_f64(share)).await;
    }
}

/// Waits for SIGTERM or SIGINT. In a container it is process 1, which these would not end by
/// themselves.
async fn until_ended() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let of = |kind| signal(kind).context(|| "wait for signals".to_owned());
    let (mut terminate, mut interrupt) =
        (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn push_once(plan: &PushPlan, place: &Place) -> Result<String> {
    let report = plan.push(place).await?;
    Ok(format!(
        "sent {} windows, {} incidents, {} files of recordings: {}; {} tries failed\n",
        report.windows,
        report.incidents,
        report.files,
        size_text(report.bytes as f64),
        report.retries
    ))
}
