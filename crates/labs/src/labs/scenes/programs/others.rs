//! Databases and services beside PostgreSQL.

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::answer("mariadb-slow-commits", &["flush-cost", "slow-sync", "fsync-heavy"], |it| {
        mariadb(it, "1", Duration::from_millis(6))
    }),
    Lab::control("control-mariadb-relaxed", |it| mariadb(it, "2", Duration::from_millis(6))),
    Lab::answer("redis-slow-sync", &["flush-cost", "slow-sync", "fsync-heavy"], |it| {
        redis(it, "always", Duration::from_millis(4))
    }),
    Lab::control("control-redis-everysec", |it| redis(it, "everysec", Duration::from_millis(4))),
    Lab::answer("etcd-slow-wal", &["flush-cost", "slow-sync", "fsync-heavy"], |it| {
        etcd(it, Duration::from_millis(15))
    }),
    Lab::control("control-etcd", |it| etcd(it, Duration::from_micros(200))),
    Lab::answer("sqlite-rollback", &["flush-cost", "slow-sync", "fsync-heavy"], |it| {
        sqlite(it, "delete", "full")
    }),
    Lab::control("control-sqlite-wal", |it| sqlite(it, "wal", "normal")),
    Lab::answer("rocksdb-sync", &["flush-cost", "slow-sync", "fsync-heavy"], |it| {
        rocksdb(it, true)
    }),
    Lab::answer(
        "rocksdb-compaction",
        &[
            "device-saturated",
            "slow-writes",
            "slow-sync",
            "slow-reads",
            "dirty-throttle",
            "provider-cap",
        ],
        |it| rocksdb(it, false),
    ),
    Lab::answer("rsyslog-sync", &["log-flood", "flush-cost", "slow-sync", "fsync-heavy"], |it| {
        rsyslog(it, true)
    }),
    Lab::control("control-rsyslog", |it| rsyslog(it, false)),
    Lab::answer("git-cold-status", &["metadata-scan", "slow-metadata", "slow-reads"], git),
    Lab::control("control-go-idle-pool", go_pool),
];

fn volume(flush: Duration) -> Speed {
    fast_volume(Speed { flush, ..Speed::default() })
}

/// MariaDB under sysbench's writes.
fn mariadb(stage: &mut Stage, flushing: &str, flush: Duration) -> Result<()> {
    let (disk, hand) = disk(stage, 1500)?;
    let folder = folder_of(stage, "mysql", &disk, "db")?;
    let data = format!("--datadir={}", folder.display());
    let install = command_of(
        &command::find("mariadb-install-db")?,
        &["--no-defaults", "--user=mysql", "--auth-root-authentication-method=normal", &data],
    );
    finish(install)?;
    let socket = folder.join("socket").display().to_string();
    let server = command_of(
        &command::find("mariadbd")?,
        &[
            "--no-defaults",
            &data,
            &format!("--socket={socket}"),
            "--skip-networking",
            &format!("--innodb-flush-log-at-trx-commit={flushing}"),
        ],
    );
    stage.start(as_user("mysql", &server)?)?;
    stage.keep(disk);
    let mariadb = command::find("mariadb")?;
    let asked = |query: &str| {
        finish(command_of(&mariadb, &["--no-defaults", "-uroot", "-S", &socket, "-e", query]))
    };
    wait_until("MariaDB answers", || asked("select 1").is_ok())?;
    asked("create database sbtest")?;
    let bench = |action: &str| -> Result<Command> {
        Ok(command_of(
            &command::find("sysbench")?,
            &[
                "oltp_write_only",
                "--mysql-user=root",
                &format!("--mysql-socket={socket}"),
                "--tables=4",
                "--table-size=20000",
                "--threads=8",
                "--time=120",
                "--rate=150",
                action,
            ],
        ))
    };
    finish(bench("prepare")?)?;
    hand.set(volume(flush));
    let words = ["redo log", "innodb_flush_log_at_trx_commit"];
    stage.expected = Expected::fix(&words).by("mariadbd");
    stage.start(bench("run")?)
}

/// Redis with its append-only file.
fn redis(stage: &mut Stage, sync: &str, flush: Duration) -> Result<()> {
    let (disk, hand) = disk(stage, 600)?;
    let folder = disk.path().display().to_string();
    let port = stage.dice.between(20_000, 40_000).to_string();
    let arguments = ["--port", &port, "--bind", "127.0.0.1", "--dir", &folder, "--save", ""];
    let mut server = command_of(&command::find("redis-server")?, &arguments);
    server.args(["--appendonly", "yes", "--appendfsync", sync]);
    stage.start(server)?;
    stage.keep(disk);
    let number = port.parse().unwrap_or(0);
    wait_until("Redis listens", || is_served(number))?;
    hand.set(volume(flush));
    let load = ["-p", &port, "-t", "set", "-n", "100000000", "-r", "10000", "-d", "100", "-c", "4"];
    stage.expected = Expected::fix(&["append-only", "appendfsync"]).by("redis-server");
    stage.start(command_of(&command::find("redis-benchmark")?, &load))
}

/// etcd, one member, and clients that put keys one after another.
fn etcd(stage: &mut Stage, flush: Duration) -> Result<()> {
    let (disk, hand) = disk(stage, 600)?;
    let folder = disk.path().join("data").display().to_string();
    let port = stage.dice.between(20_000, 40_000);
    let (clients, peers) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", port + 1));
    let mut server = command_of(&command::find("etcd")?, &["--data-dir", &folder]);
    server.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    server.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    server.args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"]);
    stage.start(server)?;
    stage.keep(disk);
    wait_until("etcd listens", || is_served(port))?;
    std::thread::sleep(Duration::from_secs(2));
    hand.set(volume(flush));
    let program = format!(
        "import urllib.request,threading,json\n\
         body=json.dumps({{'key':'aw==','value':'dg=='*50}}).encode()\n\
         def run():\n while True:\n  try: urllib.request.urlopen('{clients}/v3/kv/put',body).read()\n  \
         except OSError: pass\n\
         for _ in range(4): threading.Thread(target=run).start()\n"
    );
    stage.expected = Expected::fix(&["--wal-dir"]).by("etcd").file("wal");
    stage.python(&program, &[])
}

/// A program that inserts a row for each transaction.
fn sqlite(stage: &mut Stage, journal: &str, synchronous: &str) -> Result<()> {
    let (disk, hand) = disk(stage, 600)?;
    let program = format!(
        "import sqlite3,sys,time\n\
         c=sqlite3.connect(sys.argv[1]+'/app.db',isolation_level=None)\n\
         c.execute('pragma journal_mode={journal}');c.execute('pragma synchronous={synchronous}')\n\
         c.execute('create table if not exists t(a text)')\n\
         while True:\n c.execute('insert into t values(?)',('x'*200,));time.sleep(0.002)\n"
    );
    hand.set(volume(Duration::from_micros(2500)));
    let words = ["journal_mode", "transaction"];
    stage.expected = Expected::fix(&words).by("python3");
    stage.python(&program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// RocksDB's own benchmark: synced writes, or more writes than compaction can keep up with.
fn rocksdb(stage: &mut Stage, synced: bool) -> Result<()> {
    let (disk, hand) = disk(stage, 2500)?;
    let db = format!("--db={}", disk.path().join("db").display());
    let mut bench = command_of(&command::find("db_bench")?, &["--benchmarks=fillrandom", &db]);
    bench.args(["--num=100000000", "--value_size=400", "--compression_type=none"]);
    stage.expected = Expected::default();
    if synced {
        bench.args(["--sync=1", "--threads=4"]);
        hand.set(volume(Duration::from_millis(6)));
        stage.expected = Expected::fix(&["write-ahead log", "wal_dir"]);
    } else {
        bench.args(["--write_buffer_size=8388608", "--duration=60"]);
        hand.set(fast_volume(Speed {
            write_bps: 40 * MIB,
            read_bps: 40 * MIB,
            ..Speed::default()
        }));
    }
    stage.start(bench)?;
    stage.keep(disk);
    Ok(())
}

/// rsyslogd that takes messages from a socket of its own and writes one file.
fn rsyslog(stage: &mut Stage, synced: bool) -> Result<()> {
    let (disk, hand) = disk(stage, 600)?;
    let folder = disk.path().join("log");
    std::fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    let socket = stage.scratch.fresh("log-socket");
    let configuration = stage.scratch.fresh("rsyslog.conf");
    let word = if synced { "on" } else { "off" };
    let text = format!(
        "module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
         input(type=\"imuxsock\" Socket=\"{}\" RateLimit.Interval=\"0\")\n\
         action(type=\"omfile\" file=\"{}/messages\" sync=\"{word}\")\n",
        socket.display(),
        folder.display(),
    );
    std::fs::write(&configuration, text).context(|| "write rsyslog.conf".to_owned())?;
    let pid = stage.scratch.fresh("rsyslog.pid");
    let mut server = command_of(&command::find("rsyslogd")?, &["-n", "-f"]);
    server.arg(&configuration).arg("-i").arg(&pid);
    stage.start(server)?;
    wait_until("rsyslogd listens", || socket.exists())?;
    hand.set(volume(Duration::from_millis(3)));
    let pause = if synced { "0.0005" } else { "0.01" };
    let program = format!(
        "import socket,sys,time\ns=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n\
         s.connect(sys.argv[1])\nn=0\nwhile True:\n n+=1\n \
         s.send(b'<14>app: request %d failed again'%n)\n time.sleep({pause})\n"
    );
    stage.expected = Expected::fix(&["sync=", "repeats"]);
    stage.python(&program, &[&socket])?;
    stage.keep(disk);
    Ok(())
}

/// `git status` of a tree that is not in memory, again and again.
fn git(stage: &mut Stage) -> Result<()> {
    let (disk, hand) = disk(stage, 900)?;
    let tree = disk.path().join("tree").display().to_string();
    let make = format!(
        "git init -q {tree} && cd {tree} && git config user.email a@example.org && git config user.name a && \
         for d in $(seq 300); do mkdir -p src/d$d; for f in $(seq 40); do echo $d.$f > src/d$d/f$f; done; done && \
         git add . && git commit -q -m all"
    );
    finish(command_of(Path::new("/bin/sh"), &["-c", &make]))?;
    hand.set(fast_volume(Speed { latency: Duration::from_micros(900), ..Speed::default() }));
    // A cgroup of its own has no room for the tree's inodes and pages.
    let memory = Cgroup::memory(&stage.scratch, 24 * MIB)?;
    let again = format!("while true; do git -C {tree} status > /dev/null; done");
    let shell = command_of(Path::new("/bin/sh"), &["-c", &again]);
    stage.start(memory.inside(&shell))?;
    stage.keep(memory);
    stage.keep(disk);
    Ok(())
}

/// A Go program whose goroutines read a little now and then: parked threads are no victims.
fn go_pool(stage: &mut Stage) -> Result<()> {
    const SOURCE: &str = "package main\nimport (\"os\";\"time\";\"math/rand\")\nfunc main(){\n \
        for i:=0;i<40;i++ { go func(){ b:=make([]byte,4096); for { f,_:=os.Open(os.Args[1]); \
        f.ReadAt(b,rand.Int63n(24000)*4096); f.Close(); \
        time.Sleep(time.Duration(20+rand.Intn(60))*time.Millisecond) } }() }\n select{}\n}\n";
    let (disk, hand) = disk(stage, 300)?;
    let data = fio::prepare(&disk.path().join("data"), 100 * MIB)?;
    let source = stage.scratch.path().join("pool.go");
    std::fs::write(&source, SOURCE).context(|| "write pool.go".to_owned())?;
    let program = stage.scratch.path().join("pool");
    let mut build = Command::new(command::find("go")?);
    build.args(["build", "-o"]).arg(&program).arg(&source).env("CGO_ENABLED", "0");
    finish(build)?;
    hand.set(fast_volume(Speed::default()));
    let mut pool = Command::new(&program);
    pool.arg(&data);
    stage.start(pool)?;
    stage.keep(disk);
    Ok(())
}
