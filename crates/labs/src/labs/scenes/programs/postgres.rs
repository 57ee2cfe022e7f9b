//! PostgreSQL under pgbench: a slow flush of the write-ahead log, checkpoints that come too often,
//! a sort that does not fit, a scan and a vacuum concurrent with short reads.

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::any("postgres-commits", SYNCS, |stage| commits(stage, (6000, 10_000))),
    Lab::control("postgres-commits-healthy", |stage| {
        commits(stage, (QUICK_FLUSH_US, QUICK_FLUSH_US))
    }),
    Lab::control("postgres-asynchronous-commit", asynchronous),
    Lab::any("postgres-checkpoint", WRITES, |stage| checkpoint(stage, "64MB")),
    Lab::control("postgres-checkpoint-healthy", |stage| checkpoint(stage, "4GB")),
    Lab::any("postgres-spill", SPILLS, |stage| spill(stage, "64kB")),
    Lab::control("postgres-spill-healthy", |stage| spill(stage, "512MB")),
    Lab::any("postgres-scan", READS, |stage| beside(stage, SCAN, true)),
    Lab::any("postgres-vacuum", READS, |stage| beside(stage, VACUUM, true)),
    Lab::control("postgres-reads-healthy", |stage| beside(stage, SCAN, false)),
];

/// Correct causes of a sort that goes to the disk.
const SPILLS: &[&str] = &[
    "device-saturated",
    "slow-reads",
    "slow-writes",
    "dirty-throttle",
    "page-cache-thrash",
    "memory-reclaim",
    "writeback-burst",
];
/// Reads all of a table, with the help of parallel workers.
const SCAN: &str = "select max(filler) from pgbench_accounts";
/// Reads all of a table, also pages that need no vacuum.
const VACUUM: &str = "vacuum (freeze, disable_page_skipping) pgbench_accounts";
/// Sorts whole rows of a table, which are more than the server's memory.
const SORT: &str = "select count(filler), count(x) from (select filler, md5(aid::text) as x \
                    from pgbench_accounts order by x offset 0) as t";

/// The user that runs it.
const USER: &str = "postgres";

/// The parts of a server.
struct Setup<'a> {
    /// Its accounts: 15 MB each.
    scale: u64,
    /// Its settings, in addition to those of every lab.
    settings: &'a [&'a str],
    /// The cgroup that it runs in, if any.
    inside: Option<&'a LabCgroup>,
}

/// A server on a socket in its own folder.
struct PostgresServer {
    socket: PathBuf,
}

impl PostgresServer {
    /// Makes a cluster with pgbench's tables and starts its server.
    fn new(stage: &mut LabStage, disk: &LabFileSystem, setup: &Setup) -> Result<PostgresServer> {
        let socket = folder(stage, disk, Some(USER))?;
        let mut initdb = as_user(USER, &program("initdb")?)?;
        initdb.args(["--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8", "-D"]).arg(&socket);
        command::output_of(initdb)?;
        let mut postgres = as_user(USER, &program("postgres")?)?;
        postgres.arg("-D").arg(&socket).arg("-k").arg(&socket);
        // Only the lab's own load: no socket of the network, no vacuum of the server's own.
        let common = ["listen_addresses=", "autovacuum=off", "max_connections=40", "jit=off"];
        for setting in common.iter().chain(setup.settings) {
            postgres.args(["-c", setting]);
        }
        if let Some(cgroup) = setup.inside {
            postgres = cgroup.inside(&postgres);
        }
        stage.start(postgres)?;
        let server = PostgresServer { socket };
        wait_until("PostgreSQL answers", || server.sql("select 1").is_ok())?;
        let mut fill = server.bench()?;
        fill.args(["-i", "-q", "-s", &setup.scale.to_string()]).arg(USER);
        command::output_of(fill)?;
        server.sql("checkpoint")?;
        Ok(server)
    }

    /// A client of the server.
    fn client(&self, name: &str) -> Result<Command> {
        let mut client = Command::new(command::find(name)?);
        client.arg("-h").arg(&self.socket).args(["-U", USER]);
        Ok(client)
    }

    /// pgbench, without its workload.
    fn bench(&self) -> Result<Command> {
        self.client("pgbench")
    }

    /// pgbench with so many clients until the lab ends.
    fn load(&self, stage: &mut LabStage, script: &str, clients: u64) -> Result<()> {
        let mut bench = self.bench()?;
        bench.args([script, "-n", "-j2", "-T3600", "-c", &clients.to_string(), USER]);
        stage.start(bench)
    }

    /// Returns the server's answer.
    fn sql(&self, query: &str) -> Result<String> {
        let mut psql = self.client("psql")?;
        psql.args(["-qAtX", "-c", query, USER]);
        command::output_of(psql)
    }

    /// Runs the query repeatedly.
    fn repeat(&self, stage: &mut LabStage, query: &str) -> Result<()> {
        let psql = command::find("psql")?;
        let script = r#"while :; do "$1" -h "$2" -U postgres -qAtX -c "$3" postgres; done"#;
        stage.shell(script, &[&psql, &self.socket, Path::new(query)])
    }

    /// Makes pgbench's transactions the lab's measure; `action` removes the cause.
    fn measured(
        self,
        stage: &mut LabStage,
        action: impl FnOnce(&mut LabStage) -> Result<()> + 'static,
    ) -> Result<()> {
        let query = "select sum(xact_commit) from pg_stat_database";
        let count = move || {
            let answer = self.sql(query)?;
            answer.trim().parse().context(|| "read the number of transactions".to_owned())
        };
        stage.counted(count, action);
        Ok(())
    }
}

/// A program of PostgreSQL's, of which Debian keeps several versions, none of them in PATH.
fn program(name: &str) -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    match found.pop() {
        Some(newest) => Ok(newest),
        None => command::find(name),
    }
}

/// Expectations of a finding about commits.
fn about_commits(disk: &LabFileSystem) -> Expected {
    let fix = Expected::fix(&["synchronous_commit", "pg_wal"]);
    fix.on(disk.device().name()).by("postgres").file("pg_wal")
}

/// Transactions that each wait until the log is on the device.
fn commits(stage: &mut LabStage, flush_us: (u64, u64)) -> Result<()> {
    let (disk, hand) = disk(stage, 900, FileSystemKind::Ext4)?;
    let setup = Setup { scale: 10, settings: &["shared_buffers=256MB"], inside: None };
    let server = PostgresServer::new(stage, &disk, &setup)?;
    hand.set(flushing_in(stage.dice.between(flush_us.0, flush_us.1)));
    let clients = stage.dice.between(8, 16);
    server.load(stage, "-N", clients)?;
    stage.expected = about_commits(&disk);
    server.measured(stage, move |_| {
        hand.set(flushing_in(QUICK_FLUSH_US));
        Ok(())
    })?;
    stage.keep(disk);
    Ok(())
}

/// Transactions that do not wait for the log.
fn asynchronous(stage: &mut LabStage) -> Result<()> {
    let (disk, hand) = disk(stage, 900, FileSystemKind::Ext4)?;
    let settings = ["shared_buffers=256MB", "synchronous_commit=off", "max_wal_size=4GB"];
    let setup = Setup { scale: 10, settings: &settings, inside: None };
    let server = PostgresServer::new(stage, &disk, &setup)?;
    hand.set(flushing_in(QUICK_FLUSH_US));
    server.load(stage, "-N", 8)?;
    stage.keep(disk);
    Ok(())
}

/// Transactions on a drive that is not fast; the more often a checkpoint comes, the more full pages
/// they write into the log.
fn checkpoint(stage: &mut LabStage, max_wal_size: &str) -> Result<()> {
    let (disk, hand) = disk(stage, 3000, FileSystemKind::Ext4)?;
    let most = format!("max_wal_size={max_wal_size}");
    let settings = ["shared_buffers=512MB", "min_wal_size=64MB", "checkpoint_timeout=1h", &most];
    let setup = Setup { scale: 20, settings: &settings, inside: None };
    let server = PostgresServer::new(stage, &disk, &setup)?;
    // The first change of a page after a checkpoint writes the full page: wait until this is over.
    let mut warm = server.bench()?;
    warm.args(["-N", "-n", "-j2", "-T8", "-c8", USER]);
    command::output_of(warm)?;
    let mib = stage.dice.between(14, 20);
    let flush = Duration::from_micros(QUICK_FLUSH_US);
    hand.set(DeviceSpeed { flush, ..paced_at(mib) });
    server.load(stage, "-N", 8)?;
    stage.expected = Expected::fix(&["max_wal_size"]).on(disk.device().name()).by("postgres");
    stage.keep(disk);
    Ok(())
}

/// A query that sorts more than it may hold in memory, on a server that has little.
fn spill(stage: &mut LabStage, work_mem: &str) -> Result<()> {
    let (disk, hand) = disk(stage, 2000, FileSystemKind::Ext4)?;
    let is_sick = work_mem == "64kB";
    let memory = is_sick.then(|| LabCgroup::memory(&stage.scratch, 150 * MIB)).transpose()?;
    let work = format!("work_mem={work_mem}");
    let settings = ["shared_buffers=32MB", "max_parallel_workers_per_gather=0", &work];
    let setup = Setup { scale: 25, settings: &settings, inside: memory.as_ref() };
    let server = PostgresServer::new(stage, &disk, &setup)?;
    hand.set(paced_at(stage.dice.between(50, 70)));
    server.repeat(stage, SORT)?;
    let fix = Expected::fix(&["work_mem"]).on(disk.device().name()).by("postgres");
    stage.expected = fix.file("pgsql_tmp");
    stage.keep(memory);
    stage.keep(disk);
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}

/// Short reads; in the sick case with too little memory and concurrent with a scan of a table.
fn beside(stage: &mut LabStage, other: &str, is_sick: bool) -> Result<()> {
    let (disk, hand) = disk(stage, 2000, FileSystemKind::Ext4)?;
    let memory = is_sick.then(|| LabCgroup::memory(&stage.scratch, 300 * MIB)).transpose()?;
    let settings = ["shared_buffers=64MB", "max_parallel_workers_per_gather=2"];
    let setup = Setup { scale: 40, settings: &settings, inside: memory.as_ref() };
    let server = PostgresServer::new(stage, &disk, &setup)?;
    hand.set(DeviceSpeed { flush: Duration::ZERO, ..paced_at(stage.dice.between(70, 90)) });
    server.load(stage, "-S", 4)?;
    if is_sick {
        server.repeat(stage, other)?;
    }
    stage.expected =
        Expected::fix(&["scan", "vacuum", "explain"]).on(disk.device().name()).by("postgres");
    stage.keep(memory);
    stage.keep(disk);
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}
