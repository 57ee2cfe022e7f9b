//! Folders, fleets, servers that end with their test.

use iowhy_fleet::clock::HOUR_S;
use iowhy_fleet::engine::{EngineOptions, FleetEngine, QueryAnswer};
use iowhy_fleet::output::rows_text;
use iowhy_fleet::simulate::{FleetPlan, PlantedTrouble};
use iowhy_fleet::store::{FleetStores, Place, StoreOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A day that is over.
pub const DAY_S: i64 = 1_763_942_400;

pub fn plan(hosts: usize, hours: i64) -> FleetPlan {
    FleetPlan { hosts, from_s: DAY_S, hours, seed: 5, trouble: PlantedTrouble::all() }
}

/// The time after which a process hangs, on a machine of any load.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A plan whose kernel and drive go wrong halfway.
pub fn half_sick(hosts: usize, hours: i64) -> FleetPlan {
    let mut plan = plan(hosts, hours);
    plan.trouble.slow_drive = Some((4.0, hours / 2));
    plan.trouble.kernel = Some((7e6, hours / 2));
    plan
}

pub struct TestPlace {
    pub folder: tempfile::TempDir,
    pub stores: Arc<FleetStores>,
    pub place: Place,
}

pub fn directory() -> TestPlace {
    let folder = tempfile::tempdir().unwrap();
    let stores = Arc::new(FleetStores::new(StoreOptions::default()));
    let place = stores.place(folder.path().to_str().unwrap()).unwrap();
    TestPlace { folder, stores, place }
}

impl TestPlace {
    pub fn text(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    pub async fn engine(&self, cluster: Option<String>) -> FleetEngine {
        self.engine_of(cluster, PATIENCE).await
    }

    pub async fn engine_of(&self, cluster: Option<String>, patience: Duration) -> FleetEngine {
        self.engine_with(EngineOptions { cluster, patience, ..EngineOptions::default() }).await
    }

    pub async fn engine_with(&self, options: EngineOptions) -> FleetEngine {
        FleetEngine::open(Arc::clone(&self.stores), self.place.clone(), options).await.unwrap()
    }

    pub async fn number(&self, sql: &str) -> i64 {
        number(&self.engine(None).await, sql).await
    }
}

/// The one whole number that a query gives.
pub async fn number(engine: &FleetEngine, sql: &str) -> i64 {
    let answer = engine.query(sql).await.unwrap();
    rows_text(&answer.rows).unwrap().lines().nth(1).unwrap().trim().parse().unwrap()
}

/// Rows in an order of their own.
pub fn sorted(answer: &QueryAnswer) -> Vec<String> {
    let text = rows_text(&answer.rows).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A port that was free a moment ago: below those that connections get by themselves, and another
/// one for each call and, most likely, each process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number =
            std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + (number % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A program that ends with its test.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn start(command: Command, port: u16) -> Server {
        Server::start_with(command, port, Stdio::null())
    }

    /// Starts it; what it logs goes to `log`.
    pub fn start_with(mut command: Command, port: u16, log: Stdio) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "{command:?} has ended");
            assert!(Instant::now() < until, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Server { child, port }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(status.success());
    }
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy-fleet"));
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT"] {
        command.env_remove(name);
    }
    command.env_remove("IOWHY_FLEET_AT").env_remove("IOWHY_FLEET_TLS");
    command
}

/// Returns the program's output; it must succeed.
pub fn says(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The S3 server of this workspace, over a folder with one bucket.
pub fn s3_server(root: &Path, port: u16) -> Server {
    let path =
        PathBuf::from(env!("CARGO_BIN_EXE_iowhy-fleet")).with_file_name("iowhy-fleet-s3-server");
    assert!(path.exists(), "{} is built by cargo build --workspace", path.display());
    std::fs::create_dir_all(root.join("fleet")).unwrap();
    let mut command = Command::new(path);
    command.arg(root).args(["--port", &port.to_string()]);
    command.args(["--access-key", "key", "--secret-key", "THE-SECRET"]);
    Server::start(command, port)
}

/// Credentials of that server in a file, as a person has them.
pub fn s3_credentials(folder: &Path, port: u16) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("credentials");
    let text = format!(
        "AWS_ACCESS_KEY_ID=key\nAWS_SECRET_ACCESS_KEY=THE-SECRET\nAWS_REGION=us-east-1\n\
         AWS_ENDPOINT=http://127.0.0.1:{port}\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

pub fn s3_place(credentials: &Path) -> (Arc<FleetStores>, Place) {
    let options = StoreOptions::load(Some(credentials), true).unwrap();
    let stores = Arc::new(FleetStores::new(options));
    let place = stores.place("s3://fleet/prod").unwrap();
    (stores, place)
}

/// Writes a file at once: a program may be reading it.
fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// A recorder's directory with so many minutes of figures, and an incident with a recording.
pub fn spool(folder: &Path, from_s: i64, minutes: i64) {
    std::fs::create_dir_all(folder.join("history")).unwrap();
    let lines = (0..minutes).map(|minute| {
        format!(
            "{{\"time_s\":{},\"watched_ns\":60000000000,\"devices\":{{\"sda\":{{\"read\":\
             {{\"requests\":100,\"bytes\":409600,\"max_ns\":9000,\
             \"latency\":[[4096,60],[8192,40]]}}}}}},\
             \"groups\":{{\"SECRET.service\":{{\"requests\":100,\"bytes\":1,\"time_ns\":1}}}}}}\n",
            from_s + minute * 60
        )
    });
    let lines: String = lines.collect();
    replace(&folder.join("history/2025-11-24.jsonl"), lines.as_bytes());
    let lines = (0..minutes).map(|minute| {
        let time_s = from_s + minute * 60;
        format!(
            "{{\"time_s\":{time_s},\"until_s\":{},\"rows\":[{{\"p\":\"SECRET\",\
             \"c\":\"SECRET.service\",\"f\":\"/SECRET\",\"d\":\"sda\",\"asked\":100,\
             \"calls\":1,\"data\":4096,\"journal\":8192}}]}}\n",
            time_s + 60
        )
    });
    let lines: String = lines.collect();
    let writers = folder.join("history/writers/minutes");
    std::fs::create_dir_all(&writers).unwrap();
    replace(&writers.join("2025-11-24.jsonl"), lines.as_bytes());
    let incident = folder.join("incidents/000001");
    std::fs::create_dir_all(incident.join("recording/requests")).unwrap();
    let text = format!(
        "{{\"format\":1,\"number\":1,\"begun_ns\":{},\"complete\":true,\"findings\":\
         [{{\"cause\":\"hung-io\",\"severity\":\"critical\",\
         \"sentence\":\"sda of SECRET hangs.\"}}]}}",
        (from_s + 60) * 1_000_000_000
    );
    replace(&incident.join("incident.json"), text.as_bytes());
    let segment: Vec<u8> =
        (0..12_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    replace(&incident.join("recording/requests/00000001.parquet"), &segment);
    replace(&incident.join("recording/recording.json"), b"{}");
}

/// A root with a machine's identity and a drive.
pub fn machine(folder: &Path, machine_id: &str) {
    for (path, text) in [
        ("etc/machine-id", machine_id),
        ("proc/sys/kernel/hostname", "web-1"),
        ("proc/sys/kernel/osrelease", "6.12.48"),
        ("sys/block/sda/device/model", "ACME"),
        ("sys/block/sda/device/serial", "SECRET-1"),
        ("sys/block/sda/size", "1000"),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

pub const WINDOWS_OF_AN_HOUR: i64 = HOUR_S / 600;
