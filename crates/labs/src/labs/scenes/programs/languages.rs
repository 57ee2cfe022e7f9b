//! Programs in Java and Go: the waits that a runtime adds (a lock around a sync, a log of the
//! collector, a heap dump, threads that are parked).

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::any("java-force-in-lock", LOCKS, |stage| orders(stage, "lock", (5000, 9000))),
    // It syncs a few hundred bytes hundreds of times a second, which is worth a finding.
    Lab::near("java-flusher-outside-lock", &["lock-behind-io"], |stage| {
        orders(stage, "flusher", QUICK)
    }),
    Lab::any("java-heap-dump", DUMPS, heap_dump),
    Lab::any("java-gc-log", GC_LOGS, |stage| gc_log(stage, true)),
    Lab::control("java-gc-log-healthy", |stage| gc_log(stage, false)),
    Lab::control("go-parked-threads", go_parked),
];

/// The cache flush time of a good drive, microseconds.
const QUICK: (u64, u64) = (QUICK_FLUSH_US, QUICK_FLUSH_US);
/// Correct causes of a lock that is held over a sync.
const LOCKS: &[&str] = &["lock-behind-io", "flush-cost", "slow-sync", "fsync-heavy"];
/// Correct causes of a heap dump.
const DUMPS: &[&str] =
    &["dirty-throttle", "slow-writes", "device-saturated", "writeback-burst", "slow-sync"];
/// Correct causes of a collector's log concurrent with a stream of writes.
const GC_LOGS: &[&str] = &[
    "dirty-throttle",
    "slow-writes",
    "journal-commit",
    "device-saturated",
    "writeback-burst",
    "wbt-throttle",
    "slow-sync",
    "noisy-neighbour",
    "gc-log-stall",
];

/// Twelve threads that store orders: FILE MODE. Each forces its own within a lock, or one thread
/// forces what all have written, without it.
const ORDERS: &str = include_str!("../../../../programs/orders.java");

/// Keeps 300 MB and dumps them again and again: FOLDER.
const DUMP: &str = include_str!("../../../../programs/dump.java");

/// Makes garbage as fast as it can.
const GARBAGE: &str = include_str!("../../../../programs/garbage.java");

/// A program in Java that is written here, compiled when it starts.
fn java(stage: &LabStage, class: &str, source: &str, options: &[&str]) -> Result<Command> {
    let java = command::find("java")?;
    command::find("javac")?;
    let file = stage.scratch.path().join(format!("{class}.java"));
    std::fs::write(&file, source).context(|| format!("write {}", file.display()))?;
    let mut java = Command::new(java);
    java.args(["-XX:+UseSerialGC", "-Xmx500m"]).args(options).arg(file);
    Ok(java)
}

/// Threads that store orders.
fn orders(stage: &mut LabStage, mode: &str, flush_us: (u64, u64)) -> Result<()> {
    let (disk, hand) = disk(stage, 600, FileSystemKind::Ext4)?;
    let file = disk.path().join("orders.dat");
    let mut program = java(stage, "Orders", ORDERS, &[])?;
    program.arg(&file).arg(mode);
    stage.start(program)?;
    wait_until("orders are stored", || {
        std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0)
    })?;
    hand.set(flushing_in(stage.dice.between(flush_us.0, flush_us.1)));
    stage.expected = Expected::default().on(disk.device().name()).by("java").file("orders.dat");
    stage.keep(disk);
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

/// The program stalls while its heap is written.
fn heap_dump(stage: &mut LabStage) -> Result<()> {
    let (disk, hand) = disk(stage, 2000, FileSystemKind::Ext4)?;
    let bdi = format!("/sys/dev/block/{}/bdi", disk.device().number()?);
    hand.set(paced_at(stage.dice.between(40, 60)));
    // The memory of a smaller machine: so much may be dirty.
    for (setting, value) in [("strict_limit", "1"), ("max_bytes", "33554432")] {
        stage.set_file(PathBuf::from(&bdi).join(setting), value)?;
    }
    let mut program = java(stage, "Dump", DUMP, &[])?;
    program.arg(disk.path());
    stage.start(program)?;
    let file = disk.path().join("heap.hprof");
    wait_until("the heap is dumped", || {
        std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0)
    })?;
    stage.expected = Expected::default().on(disk.device().name()).by("java").file("hprof");
    stage.keep(disk);
    Ok(())
}

/// A collector that logs each collection to a drive, which a stream of writes saturates or not.
fn gc_log(stage: &mut LabStage, is_sick: bool) -> Result<()> {
    let (disk, hand) = disk(stage, 3000, FileSystemKind::Ext4)?;
    let log = format!("-Xlog:gc*=debug:file={}", disk.path().join("gc.log").display());
    let program = java(stage, "Garbage", GARBAGE, &["-Xmn4m", &log])?;
    stage.start(program)?;
    hand.set(DeviceSpeed { flush: Duration::ZERO, ..paced_at(stage.dice.between(20, 40)) });
    if is_sick {
        let script =
            r#"while :; do dd if=/dev/zero of="$1/copy" bs=1M count=1500 conv=fsync; done"#;
        stage.shell(script, &[disk.path()])?;
    }
    stage.expected = Expected::default().on(disk.device().name()).by("dd").by("java");
    stage.keep(disk);
    std::thread::sleep(Duration::from_secs(4));
    Ok(())
}

/// Sixty threads that wait for nothing on the disk, and one that writes now and then: FILE.
const PARKED: &str = include_str!("../../../../programs/parked.go");

fn go_parked(stage: &mut LabStage) -> Result<()> {
    let go = command::find("go").or_else(|_| installed_go())?;
    let (disk, hand) = disk(stage, 600, FileSystemKind::Ext4)?;
    let source = stage.scratch.path().join("parked.go");
    std::fs::write(&source, PARKED).context(|| format!("write {}", source.display()))?;
    let program = stage.scratch.path().join("parked");
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program).arg(&source).current_dir(stage.scratch.path());
    build.env("GOCACHE", stage.scratch.path().join("go-cache")).env("GO111MODULE", "off");
    command::output_of(build)?;
    hand.set(flushing_in(QUICK_FLUSH_US));
    let mut parked = Command::new(program);
    parked.arg(disk.path().join("app.log"));
    stage.start(parked)?;
    stage.keep(disk);
    Ok(())
}

/// Returns the Go of its own archive.
fn installed_go() -> Result<PathBuf> {
    let go = PathBuf::from("/usr/local/go/bin/go");
    if go.is_file() {
        Ok(go)
    } else {
        Err(LabError::missing("go", "scripts/install-deps programs"))
    }
}
