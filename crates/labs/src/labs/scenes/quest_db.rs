//! QuestDB itself under the load of its own field report: many tables of many columns that are only
//! written, with little memory for their files. 6.5.3 is the version of the report; 6.5.4 tells the
//! kernel that it touches its files at random (MADV_RANDOM), which is the report's remedy.

use super::*;
use crate::error::Context;
use crate::{cache, command};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("case-phantom-reads-questdb", &["readahead-waste"], |stage| ingest(stage, "6.5.3"))
        .showing(&[("r/s", 50.0), ("rkB/s", 5000.0)]),
    Lab::near("phantom-reads-questdb-near", &["readahead-waste"], |stage| ingest(stage, "6.5.4"))
        .showing(&[("wkB/s", 5000.0)]),
];

/// Memory for the program and the pages of its files.
const MEMORY: u64 = 300 * MIB;

/// Sends rows of InfluxDB's line protocol: PORT TABLES COLUMNS FILE. When each column is longer
/// than its readahead, it makes FILE; then it sends one row for each table in turn.
const CLIENT: &str = include_str!("../../../programs/client.py");

fn ingest(stage: &mut LabStage, version: &str) -> Result<()> {
    let jar = cache::jar("org.questdb", "questdb", version)?;
    let (device, hidden) = stage.hidden(1200)?;
    stage.set(&device, "read_ahead_kb", "128")?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let port = stage.dice.between(20_000, 40_000);
    let memory = LabCgroup::memory(&stage.scratch, MEMORY)?;
    stage.start(memory.inside(&server(&jar, disk.path(), port)?))?;
    wait_until("QuestDB listens", || is_served(port))?;
    let (tables, columns) = (stage.dice.between(16, 22), stage.dice.between(50, 70));
    let loaded = stage.scratch.fresh("loaded");
    let mut client = Command::new(command::find("python3")?);
    client.args(["-c", CLIENT]);
    client.args([port, tables, columns].map(|number| number.to_string())).arg(&loaded);
    stage.start(client)?;
    wait_until("QuestDB has taken the first rows", || loaded.exists())?;
    hidden.limit("read_bps", stage.dice.between(15, 30) * MIB)?;
    std::thread::sleep(Duration::from_secs(3));
    stage.keep(memory);
    stage.keep(disk);
    Ok(())
}

/// The database, with little memory of its own for each column (the report's first remedy), so that
/// its reads come from the page cache, and with no other port than that for rows.
fn server(jar: &Path, root: &Path, port: u64) -> Result<Command> {
    let settings = format!(
        "line.tcp.net.bind.to=127.0.0.1:{port}\nshared.worker.count=2\n\
         cairo.o3.column.memory.size=256K\ncairo.writer.data.append.page.size=256K\n\
         http.enabled=false\nhttp.min.enabled=false\npg.enabled=false\n\
         line.udp.enabled=false\ntelemetry.enabled=false\n"
    );
    let file = root.join("conf/server.conf");
    std::fs::create_dir(root.join("conf")).context(|| "make a folder for settings".to_owned())?;
    std::fs::write(&file, settings).context(|| format!("write {}", file.display()))?;
    let mut java = Command::new(command::find("java")?);
    // Names of time zones in all languages, which it reads first, take long in the newer format.
    java.args(["-Djava.locale.providers=COMPAT", "-XX:+UseSerialGC", "-Xmx96m", "-cp"]);
    java.arg(jar).args(["io.questdb.ServerMain", "-d"]).arg(root);
    Ok(java)
}
