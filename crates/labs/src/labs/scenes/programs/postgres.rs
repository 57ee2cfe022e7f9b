//! PostgreSQL: commits, a checkpoint, a spill, a scan, and what is well.

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::answer("postgres-slow-commits", &["flush-cost", "slow-sync", "fsync-heavy"], |it| {
        commits(it, Duration::from_millis(8))
    }),
    Lab::control("control-postgres-commits", |it| commits(it, Duration::from_micros(200))),
    Lab::answer(
        "postgres-checkpoint",
        &["checkpoint-burst", "writeback-burst", "slow-sync", "device-saturated", "slow-writes"],
        |it| checkpoint(it, "64MB"),
    ),
    Lab::answer(
        "postgres-spill",
        &["slow-reads", "slow-writes", "device-saturated", "tag-starvation", "provider-cap"],
        |it| sort(it, "64kB"),
    ),
    Lab::control("control-postgres-sort-in-memory", |it| sort(it, "256MB")),
    Lab::answer(
        "postgres-scan",
        &["bulk-scan", "slow-reads", "device-saturated", "tag-starvation", "provider-cap"],
        scan,
    ),
    Lab::control("control-postgres-asynchronous", asynchronous),
];

/// Who runs it: it refuses root.
const USER: &str = "postgres";

/// A server on a disk of the lab's.
struct Server {
    folder: PathBuf,
    hand: Hand,
}

impl Server {
    /// Starts one with these settings beside its defaults, on a disk that is fast as yet.
    fn start(stage: &mut Stage, settings: &[&str], memory: Option<u64>) -> Result<Server> {
        let (disk, hand) = disk(stage, 2000)?;
        let folder = folder_of(stage, USER, &disk, "pg")?;
        let data = folder.display().to_string();
        let initdb = command_of(&bin("initdb")?, &["--no-sync", "-A", "trust", "-D", &data]);
        finish(as_user(USER, &initdb)?)?;
        let mut server = command_of(&bin("postgres")?, &["-D", &data, "-k", &data, "-h", ""]);
        for setting in settings {
            server.args(["-c", setting]);
        }
        let server = as_user(USER, &server)?;
        let server = match memory {
            Some(bytes) => {
                let cgroup = Cgroup::memory(&stage.scratch, bytes)?;
                let inside = cgroup.inside(&server);
                stage.keep(cgroup);
                inside
            }
            None => server,
        };
        stage.start(server)?;
        stage.keep(disk);
        let server = Server { folder, hand };
        wait_until("PostgreSQL answers", || server.query("select 1").is_ok())?;
        Ok(server)
    }

    /// A client's command.
    fn client(&self, program: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(bin(program)?);
        command.arg("-h").arg(&self.folder).args(["-U", USER]).args(arguments);
        Ok(command)
    }

    fn query(&self, query: &str) -> Result<()> {
        finish(self.client("psql", &["-q", "-d", "postgres", "-c", query])?)
    }

    /// Makes pgbench's tables: 15 MiB for each of `scale`.
    fn fill(&self, scale: &str) -> Result<()> {
        finish(self.client("pgbench", &["-i", "-q", "-s", scale, "postgres"])?)
    }

    /// Starts clients that go on until the lab ends.
    fn bench(&self, stage: &mut Stage, arguments: &[&str]) -> Result<()> {
        let mut command = self.client("pgbench", arguments)?;
        command.args(["-T", "120", "postgres"]);
        stage.start(command)
    }
}

fn bin(name: &str) -> Result<PathBuf> {
    program("/usr/lib/postgresql", name)
}

/// Clients that commit small transactions, on a disk whose cache takes so long to empty.
fn commits(stage: &mut Stage, flush: Duration) -> Result<()> {
    let server = Server::start(stage, &[], None)?;
    server.fill("5")?;
    server.query("checkpoint")?;
    server.hand.set(fast_volume(Speed { flush, ..Speed::default() }));
    stage.expected = Expected::fix(&["pg_wal", "synchronous_commit"]).by("postgres").file("pg_wal");
    server.bench(stage, &["-N", "-c", "8", "-j", "2", "--rate", "2000"])
}

/// So much log between two checkpoints that they come all the time, on a disk of little throughput.
fn checkpoint(stage: &mut Stage, size: &str) -> Result<()> {
    let size = format!("max_wal_size={size}");
    let settings = [size.as_str(), "checkpoint_completion_target=0.1", "shared_buffers=256MB"];
    let server = Server::start(stage, &settings, None)?;
    server.fill("20")?;
    let flush = Duration::from_micros(1500);
    server.hand.set(fast_volume(Speed { flush, write_bps: 20 * MIB, ..Speed::default() }));
    stage.expected = Expected::default().by("postgres");
    server.bench(stage, &["-N", "-c", "8", "-j", "2"])
}

/// A sort with so much memory, of which the rest goes through temporary files.
fn sort(stage: &mut Stage, work_mem: &str) -> Result<()> {
    let setting = format!("work_mem={work_mem}");
    let settings = [setting.as_str(), "shared_buffers=64MB", "max_parallel_workers_per_gather=0"];
    let server = Server::start(stage, &settings, Some(200 * MIB))?;
    server.fill("20")?;
    server.query("checkpoint")?;
    server.hand.set(fast_volume(Speed {
        read_bps: 60 * MIB,
        write_bps: 60 * MIB,
        ..Speed::default()
    }));
    stage.expected = Expected::default().by("postgres");
    let query = match work_mem {
        "64kB" => "select count(*) from (select * from pgbench_accounts order by filler, aid) t",
        _ => "select count(*) from (select * from pgbench_branches order by filler, bid) t",
    };
    let file = stage.scratch.fresh("query.sql");
    std::fs::write(&file, format!("{query};\n")).context(|| "write a query".to_owned())?;
    let file = file.display().to_string();
    server.bench(stage, &["-n", "-c", "1", "-f", &file])
}

/// A parallel scan of a table that does not fit in memory, concurrently with short reads.
fn scan(stage: &mut Stage) -> Result<()> {
    let settings = ["shared_buffers=64MB", "max_parallel_workers_per_gather=2"];
    let server = Server::start(stage, &settings, Some(300 * MIB))?;
    server.fill("60")?;
    server.query("create table big as select * from pgbench_accounts")?;
    server.query("checkpoint")?;
    server.hand.set(fast_volume(Speed { read_bps: 80 * MIB, ..Speed::default() }));
    stage.expected = Expected::default().by("postgres");
    server.bench(stage, &["-S", "-c", "4", "-j", "1"])?;
    let query = stage.scratch.fresh("query.sql");
    std::fs::write(&query, "select max(abalance) from big;\n")
        .context(|| "write a query".to_owned())?;
    let query = query.display().to_string();
    server.bench(stage, &["-n", "-c", "1", "-f", &query])
}

/// The same commits where nobody waits for them, at a rate that the disk can take.
fn asynchronous(stage: &mut Stage) -> Result<()> {
    let server = Server::start(stage, &["synchronous_commit=off"], None)?;
    server.fill("5")?;
    server.query("checkpoint")?;
    let flush = Duration::from_millis(2);
    server.hand.set(fast_volume(Speed { flush, ..Speed::default() }));
    server.bench(stage, &["-N", "-c", "8", "-j", "2", "--rate", "1000"])
}
