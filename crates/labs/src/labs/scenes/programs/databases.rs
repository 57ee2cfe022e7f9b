//! Other servers that keep data: MariaDB, etcd, Redis and Prometheus.

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::any("mariadb-commits", SYNCS, |stage| mariadb(stage, SLOW, "1")),
    Lab::control("mariadb-commits-healthy", |stage| mariadb(stage, QUICK, "1")),
    Lab::control("mariadb-sync-each-second", |stage| mariadb(stage, QUICK, "2")),
    Lab::any("etcd-puts", SYNCS, |stage| etcd(stage, (12_000, 18_000))),
    Lab::control("etcd-puts-healthy", |stage| etcd(stage, QUICK)),
    Lab::any("redis-always", SYNCS, |stage| redis(stage, (3000, 5000), "always")),
    Lab::control("redis-everysec", |stage| redis(stage, QUICK, "everysec")),
    Lab::any("redis-snapshot", SNAPSHOTS, redis_snapshot),
    Lab::control("prometheus-healthy", prometheus),
];

/// The cache flush time of a drive without protection against power loss, microseconds.
const SLOW: (u64, u64) = (5000, 8000);
/// The cache flush time of a good drive, microseconds.
const QUICK: (u64, u64) = (QUICK_FLUSH_US, QUICK_FLUSH_US);
/// Correct causes of a snapshot that writes concurrently with synced commands.
const SNAPSHOTS: &[&str] = &[
    "slow-sync",
    "flush-cost",
    "device-saturated",
    "writeback-burst",
    "noisy-neighbour",
    "checkpoint-burst",
];

/// MariaDB under sysbench's writes.
fn mariadb(stage: &mut LabStage, flush_us: (u64, u64), at_commit: &str) -> Result<()> {
    let sysbench = command::find("sysbench")?;
    let install = command::find("mariadb-install-db")?;
    let server = command::find("mariadbd")?;
    let (disk, hand) = disk(stage, 1200, FileSystemKind::Ext4)?;
    let data = folder(stage, &disk, Some("mysql"))?;
    let socket = data.join("socket");
    let folder = format!("--datadir={}", data.display());
    let at = format!("--socket={}", socket.display());
    let mut make = Command::new(install);
    make.args(["--no-defaults", "--user=mysql", "--skip-test-db", &folder]);
    make.args(["--auth-root-authentication-method=normal"]);
    command::output_of(make)?;
    let mut mariadbd = Command::new(server);
    mariadbd.args(["--no-defaults", "--user=mysql", "--skip-networking", &folder, &at]);
    mariadbd.args(["--innodb-buffer-pool-size=128M", "--skip-log-bin"]);
    mariadbd.arg(format!("--innodb-flush-log-at-trx-commit={at_commit}"));
    stage.start(mariadbd)?;
    let asked = at.clone();
    let ask = move |query: &str| {
        command::run("mariadb", ["--no-defaults", &asked, "-uroot", "-NBe", query])
    };
    wait_until("MariaDB answers", || ask("select 1").is_ok())?;
    ask("create database sbtest")?;
    let bench = |what: &str| {
        let mut bench = Command::new(&sysbench);
        bench.args(["oltp_write_only", "--db-driver=mysql", "--mysql-user=root"]);
        bench.arg(format!("--mysql-socket={}", socket.display()));
        bench.args(["--tables=4", "--table-size=20000", "--threads=8", "--time=3600", what]);
        bench
    };
    command::output_of(bench("prepare"))?;
    hand.set(flushing_in(stage.dice.between(flush_us.0, flush_us.1)));
    stage.start(bench("run"))?;
    let fix = Expected::fix(&["innodb_flush_log_at_trx_commit"]).on(disk.device().name());
    stage.expected = fix.by("mariadbd").by("ib_log_flush").file("ib_logfile");
    let count = move || {
        let answer = ask("show global status like 'Com_commit'")?;
        let number = answer.split_whitespace().nth(1).unwrap_or_default();
        number.parse().context(|| "read the number of commits".to_owned())
    };
    stage.counted(count, move |_| {
        hand.set(flushing_in(QUICK_FLUSH_US));
        Ok(())
    });
    stage.keep(disk);
    Ok(())
}

/// Clients that each put the next value when the last one is stored: PORT THREADS FILE. The number
/// of puts goes into FILE.
const PUTS: &str = include_str!("../../../../programs/puts.py");

/// etcd under clients that wait for each put.
fn etcd(stage: &mut LabStage, flush_us: (u64, u64)) -> Result<()> {
    let etcd = command::find("etcd")?;
    let (disk, hand) = disk(stage, 900, FileSystemKind::Ext4)?;
    let port = stage.dice.between(20_000, 30_000);
    let (client, peer) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", port + 10_000));
    let mut server = Command::new(etcd);
    server.arg("--data-dir").arg(disk.path().join("etcd"));
    server.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    server.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    server.arg(format!("--initial-cluster=default={peer}"));
    stage.start(server)?;
    wait_until("etcd listens", || is_served(port))?;
    hand.set(flushing_in(stage.dice.between(flush_us.0, flush_us.1)));
    let file = stage.scratch.fresh("puts");
    let threads = stage.dice.between(4, 8).to_string();
    let port = port.to_string();
    stage.python(PUTS, &[Path::new(&port), Path::new(&threads), &file])?;
    wait_until("etcd takes puts", || number_in(&file).is_ok_and(|number| number > 0))?;
    let fix = Expected::fix(&["etcd"]).on(disk.device().name());
    stage.expected = fix.by("etcd").file("wal");
    stage.counted(
        move || number_in(&file),
        move |_| {
            hand.set(flushing_in(QUICK_FLUSH_US));
            Ok(())
        },
    );
    stage.keep(disk);
    Ok(())
}

/// A Redis that appends each command to a file on `disk`, and its socket.
fn redis_on(stage: &mut LabStage, disk: &LabFileSystem, fsync: &str) -> Result<PathBuf> {
    let server = command::find("redis-server")?;
    let socket = disk.path().join("socket");
    let mut redis = Command::new(server);
    redis.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", fsync]);
    redis.args(["--enable-debug-command", "yes"]);
    redis.args(["--auto-aof-rewrite-percentage", "0", "--unixsocket"]).arg(&socket);
    redis.arg("--dir").arg(disk.path());
    stage.start(redis)?;
    wait_until("Redis answers", || redis_says(&socket, &["ping"]).is_ok())?;
    Ok(socket)
}

/// Returns the answer of Redis.
fn redis_says(socket: &Path, words: &[&str]) -> Result<String> {
    let arguments = [Path::new("-s"), socket].into_iter().chain(words.iter().map(Path::new));
    command::run("redis-cli", arguments)
}

/// The commands that Redis has done.
fn redis_commands(socket: &Path) -> Result<u64> {
    let answer = redis_says(socket, &["info", "stats"])?;
    let line = answer.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap_or_default().trim().parse().context(|| "read the number of commands".to_owned())
}

/// Clients that set values as fast as they can.
fn redis_load(stage: &mut LabStage, socket: &Path, clients: u64, bytes: u64) -> Result<()> {
    let mut bench = Command::new(command::find("redis-benchmark")?);
    bench.arg("-s").arg(socket).args(["-t", "set", "-n", "2000000000", "-r", "100000", "-q"]);
    bench.args(["-c", &clients.to_string(), "-d", &bytes.to_string()]);
    stage.start(bench)
}

fn redis(stage: &mut LabStage, flush_us: (u64, u64), fsync: &str) -> Result<()> {
    let (disk, hand) = disk(stage, 2500, FileSystemKind::Ext4)?;
    let socket = redis_on(stage, &disk, fsync)?;
    hand.set(flushing_in(stage.dice.between(flush_us.0, flush_us.1)));
    let clients = stage.dice.between(8, 20);
    redis_load(stage, &socket, clients, 64)?;
    let fix = Expected::fix(&["appendfsync"]).on(disk.device().name());
    stage.expected = fix.by("redis-server").file("appendonly");
    stage.counted(
        move || redis_commands(&socket),
        move |_| {
            hand.set(flushing_in(QUICK_FLUSH_US));
            Ok(())
        },
    );
    stage.keep(disk);
    Ok(())
}

/// Redis writes snapshots of all its data repeatedly, concurrently with synced commands.
fn redis_snapshot(stage: &mut LabStage) -> Result<()> {
    let (disk, hand) = disk(stage, 2500, FileSystemKind::Ext4)?;
    let socket = redis_on(stage, &disk, "always")?;
    redis_says(&socket, &["debug", "populate", "300000", "key", "500"])?;
    hand.set(DeviceSpeed {
        flush: Duration::from_millis(1),
        ..paced_at(stage.dice.between(10, 16))
    });
    redis_load(stage, &socket, 8, 64)?;
    let cli = command::find("redis-cli")?;
    let script = r#"while :; do "$1" -s "$2" bgsave; sleep 0.5; done"#;
    stage.shell(script, &[&cli, &socket])?;
    let fix = Expected::fix(&["snapshot", "save", "replica"]).on(disk.device().name());
    stage.expected = fix.by("redis-server").by("redis-rdb-bgsav");
    stage.keep(disk);
    Ok(())
}

/// Prometheus that watches itself.
fn prometheus(stage: &mut LabStage) -> Result<()> {
    let prometheus = command::find("prometheus")?;
    let (disk, hand) = disk(stage, 600, FileSystemKind::Ext4)?;
    let port = stage.dice.between(20_000, 30_000);
    let settings = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs: [{{job_name: self, static_configs: [{{targets: \
         ['127.0.0.1:{port}']}}]}}]\n"
    );
    let file = disk.path().join("prometheus.yml");
    std::fs::write(&file, settings).context(|| format!("write {}", file.display()))?;
    let mut server = Command::new(prometheus);
    server.arg(format!("--config.file={}", file.display()));
    server.arg(format!("--storage.tsdb.path={}", disk.path().join("tsdb").display()));
    server.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    stage.start(server)?;
    wait_until("Prometheus listens", || is_served(port))?;
    hand.set(flushing_in(QUICK_FLUSH_US));
    stage.keep(disk);
    Ok(())
}
