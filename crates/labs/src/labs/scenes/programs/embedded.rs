//! Databases that are part of a program: SQLite and RocksDB (its own db_bench).

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::any("sqlite-rollback-journal", SYNCS, sqlite),
    Lab::control("sqlite-wal", |stage| {
        sqlite_with(stage, "WAL", "NORMAL", QUICK_FLUSH_US).map(drop)
    }),
    Lab::any("rocksdb-sync", SYNCS, rocksdb_sync),
    Lab::control("rocksdb-no-sync", rocksdb_healthy),
    Lab::any("rocksdb-compaction", WRITES, rocksdb_compaction),
];

/// Inserts a row in a transaction of its own: DATABASE JOURNAL_MODE SYNCHRONOUS FILE. The number of
/// rows goes into FILE.
const INSERTS: &str = include_str!("../../../../programs/inserts.py");

/// Starts a program that inserts rows; returns the handle of the drive's speed, and the file with
/// the number of rows.
fn sqlite_with(
    stage: &mut LabStage,
    mode: &str,
    synchronous: &str,
    flush_us: u64,
) -> Result<(Hand, PathBuf)> {
    let (disk, hand) = disk(stage, 600, FileSystemKind::Ext4)?;
    let file = stage.scratch.fresh("rows");
    hand.set(flushing_in(flush_us));
    let database = disk.path().join("app.db");
    stage.python(INSERTS, &[&database, Path::new(mode), Path::new(synchronous), &file])?;
    wait_until("SQLite has rows", || number_in(&file).is_ok_and(|number| number > 0))?;
    stage.expected = Expected::fix(&["journal_mode=wal"]).on(disk.device().name());
    stage.keep(disk);
    Ok((hand, file))
}

/// Three syncs for each row.
fn sqlite(stage: &mut LabStage) -> Result<()> {
    let flush_us = stage.dice.between(2000, 4000);
    let (hand, file) = sqlite_with(stage, "DELETE", "FULL", flush_us)?;
    stage.expected = stage.expected.clone().by("python3").file("app.db");
    stage.counted(
        move || number_in(&file),
        move |_| {
            hand.set(flushing_in(QUICK_FLUSH_US));
            Ok(())
        },
    );
    Ok(())
}

/// db_bench with its database on `disk`.
fn db_bench(disk: &LabFileSystem, more: &[&str]) -> Result<Command> {
    let mut bench = Command::new(command::find("db_bench")?);
    bench.arg(format!("--db={}", disk.path().join("rocks").display()));
    bench.args(["--num=2000000000", "--duration=3600", "--key_size=16", "--histogram=0"]);
    bench.args(more);
    Ok(bench)
}

/// Writers of which each waits for the write-ahead log.
fn rocksdb_sync(stage: &mut LabStage) -> Result<()> {
    let (disk, hand) = disk(stage, 1500, FileSystemKind::Ext4)?;
    hand.set(flushing_in(stage.dice.between(3000, 6000)));
    let threads = format!("--threads={}", stage.dice.between(2, 6));
    let more = ["--benchmarks=fillrandom", "--sync=1", "--value_size=200", &threads];
    stage.start(db_bench(&disk, &more)?)?;
    let fix = Expected::fix(&["wal_dir", "group commit"]).on(disk.device().name());
    stage.expected = fix.by("db_bench").file(".log");
    stage.keep(disk);
    Ok(())
}

/// A writer with the load of an application, on a drive that is much faster.
fn rocksdb_healthy(stage: &mut LabStage) -> Result<()> {
    let (disk, hand) = disk(stage, 2500, FileSystemKind::Ext4)?;
    hand.set(flushing_in(QUICK_FLUSH_US));
    let more = [
        "--benchmarks=fillrandom",
        "--value_size=200",
        "--benchmark_write_rate_limit=2000000",
        "--threads=1",
    ];
    stage.start(db_bench(&disk, &more)?)?;
    stage.keep(disk);
    Ok(())
}

/// A writer with more to compact than the drive can take.
fn rocksdb_compaction(stage: &mut LabStage) -> Result<()> {
    let (disk, hand) = disk(stage, 4000, FileSystemKind::Ext4)?;
    hand.set(paced_at(stage.dice.between(35, 50)));
    let more = [
        "--benchmarks=fillrandom",
        "--value_size=400",
        "--write_buffer_size=8388608",
        "--max_bytes_for_level_base=33554432",
        "--target_file_size_base=8388608",
        "--compression_type=none",
        "--max_background_jobs=2",
        "--use_direct_io_for_flush_and_compaction=true",
    ];
    stage.start(db_bench(&disk, &more)?)?;
    let fix = Expected::fix(&["compaction", "rate_limiter"]).on(disk.device().name());
    stage.expected = fix.by("db_bench").by("rocksdb:low").by("rocksdb:high");
    stage.keep(disk);
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}
