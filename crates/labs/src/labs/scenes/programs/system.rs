//! Programs of the system: git, dpkg, rsync, rsyslogd and updatedb.

use super::*;
use crate::labs::expected::Expected;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::any("git-cold-status", &["metadata-scan", "slow-metadata"], |stage| git(stage, true)),
    Lab::control("git-warm-status", |stage| git(stage, false)),
    Lab::any("dpkg-unpack", &["fsync-heavy", "flush-cost", "slow-sync"], |stage| dpkg(stage, SLOW)),
    Lab::control("dpkg-unpack-healthy", |stage| dpkg(stage, QUICK_FLUSH_US)),
    Lab::any("rsyslog-sync", &["flush-cost", "slow-sync", "fsync-heavy", "log-flood"], |stage| {
        rsyslog(stage, SLOW, true)
    }),
    Lab::control("rsyslog-healthy", |stage| rsyslog(stage, QUICK_FLUSH_US, false)),
    Lab::any("rsync-beside-reader", RSYNCS, |stage| rsync(stage, true)),
    Lab::control("rsync-healthy", |stage| rsync(stage, false)),
    Lab::any("updatedb-cold", &["metadata-scan", "slow-metadata"], updatedb),
];

/// The cache flush time of a drive without protection against power loss, microseconds.
const SLOW: u64 = 6000;
/// Correct causes of a copy of many files concurrent with a paced reader.
const RSYNCS: &[&str] =
    &["bulk-scan", "noisy-neighbour", "device-saturated", "slow-reads", "dirty-throttle"];

/// Makes many files in folders: FOLDER FILES.
const TREE: &str = include_str!("../../../../programs/tree.py");

/// A tree of so many files below `folder`.
fn tree(folder: &Path, files: u64) -> Result<()> {
    let mut make = Command::new(command::find("python3")?);
    make.args(["-c", TREE]).arg(folder).arg(files.to_string());
    command::output_of(make).map(drop)
}

/// `git status` repeatedly, each time with nothing in memory, or with all.
fn git(stage: &mut LabStage, is_cold: bool) -> Result<()> {
    let git = command::find("git")?;
    let (disk, hand) = disk(stage, 900, FileSystemKind::Ext4)?;
    let work = disk.path().join("work");
    tree(&work, 15_000)?;
    let run = |words: &[&str]| {
        let mut command = Command::new(&git);
        command.arg("-C").arg(&work).args(["-c", "user.name=lab", "-c", "user.email=lab@lab"]);
        command.args(["-c", "gc.auto=0"]).args(words);
        command::output_of(command).map(drop)
    };
    run(&["init", "-q"])?;
    run(&["add", "-A"])?;
    run(&["commit", "-q", "-m", "all"])?;
    disk.remount()?;
    hand.latency(Duration::from_micros(stage.dice.between(300, 700)));
    let cold =
        r#"while :; do umount "$3"; mount -o noatime "$4" "$3"; "$1" -C "$2" status -s; done"#;
    let warm = r#"while :; do "$1" -C "$2" status -s; sleep 1; done"#;
    if !is_cold {
        run(&["status", "-s"])?;
    }
    let (point, node) = (disk.path(), disk.device().path());
    stage.shell(if is_cold { cold } else { warm }, &[&git, &work, point, node])?;
    stage.expected = Expected::default().on(disk.device().name()).by("git");
    stage.keep(disk);
    Ok(())
}

/// dpkg unpacks a package of many files into a system of its own, repeatedly; it syncs each file.
fn dpkg(stage: &mut LabStage, flush_us: u64) -> Result<()> {
    let dpkg = command::find("dpkg")?;
    let (disk, hand) = disk(stage, 900, FileSystemKind::Ext4)?;
    let source = stage.scratch.path().join("source");
    tree(&source.join("opt/lab"), 1500)?;
    std::fs::create_dir(source.join("DEBIAN")).context(|| "make a package".to_owned())?;
    let control = "Package: lab\nVersion: 1\nArchitecture: all\nMaintainer: lab <lab@lab>\n\
                   Description: many files\n";
    std::fs::write(source.join("DEBIAN/control"), control)
        .context(|| "write a package's control file".to_owned())?;
    let package = stage.scratch.path().join("lab.deb");
    command::run("dpkg-deb", [Path::new("-Znone"), Path::new("-b"), &source, &package])?;
    for folder in ["updates", "info"] {
        let folder = disk.path().join("var/lib/dpkg").join(folder);
        std::fs::create_dir_all(&folder).context(|| format!("make {}", folder.display()))?;
    }
    let status = disk.path().join("var/lib/dpkg/status");
    std::fs::write(&status, "").context(|| format!("write {}", status.display()))?;
    hand.set(flushing_in(flush_us));
    let pause = if flush_us == SLOW { "0" } else { "2" };
    let script = r#"while :; do
  "$1" --root="$2" --force-all --log=/dev/null --unpack "$3"
  sleep "$4"
done"#;
    stage.shell(script, &[&dpkg, disk.path(), &package, Path::new(pause)])?;
    stage.expected = Expected::fix(&["dpkg"]).on(disk.device().name()).by("dpkg");
    stage.keep(disk);
    Ok(())
}

/// Sends lines to a socket: SOCKET A_SECOND.
const LINES: &str = include_str!("../../../../programs/lines.py");

/// rsyslogd that syncs after each line, or that leaves it to the kernel.
fn rsyslog(stage: &mut LabStage, flush_us: u64, syncs: bool) -> Result<()> {
    let rsyslogd = command::find("rsyslogd")?;
    let (disk, hand) = disk(stage, 600, FileSystemKind::Ext4)?;
    let (socket, log) = (disk.path().join("socket"), disk.path().join("messages"));
    let settings = format!(
        "module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
         input(type=\"imuxsock\" Socket=\"{}\" RateLimit.Interval=\"0\")\n\
         action(type=\"omfile\" file=\"{}\" sync=\"{}\")\n",
        socket.display(),
        log.display(),
        if syncs { "on" } else { "off" }
    );
    let file = stage.scratch.path().join("rsyslog.conf");
    std::fs::write(&file, settings).context(|| format!("write {}", file.display()))?;
    let mut server = Command::new(rsyslogd);
    server.args(["-n", "-i", "NONE", "-f"]).arg(&file);
    stage.start(server)?;
    wait_until("rsyslogd listens", || socket.exists())?;
    hand.set(flushing_in(flush_us));
    let rate = if syncs { 1500 } else { 50 }.to_string();
    stage.python(LINES, &[&socket, Path::new(&rate)])?;
    wait_until("rsyslogd writes", || log.exists())?;
    let fix = Expected::fix(&["sync=", "omfile", "rsyslog"]).on(disk.device().name());
    stage.expected = fix.by("rsyslogd").by("rs:main Q:Reg").file("messages");
    stage.keep(disk);
    Ok(())
}

/// rsync copies many files; in the sick case concurrently with a random reader.
fn rsync(stage: &mut LabStage, is_sick: bool) -> Result<()> {
    let rsync = command::find("rsync")?;
    let (disk, hand) = disk(stage, 2500, FileSystemKind::Ext4)?;
    let from = disk.path().join("from");
    std::fs::create_dir(&from).context(|| format!("make {}", from.display()))?;
    for index in 0..20 {
        fio::prepare(&from.join(format!("video{index}")), 30 * MIB)?;
    }
    let data = fio::prepare(&disk.path().join("table"), 256 * MIB)?;
    disk.remount()?;
    hand.set(DeviceSpeed { flush: Duration::ZERO, ..paced_at(stage.dice.between(50, 70)) });
    let limit = if is_sick { "0" } else { "10000" };
    let script = r#"while :; do "$1" -r --bwlimit="$3" "$2/from/" "$2/to/"; rm -r "$2/to"; done"#;
    let memory = LabCgroup::memory(&stage.scratch, 200 * MIB)?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh"]).arg(&rsync).arg(disk.path()).arg(limit);
    stage.start(memory.inside(&shell))?;
    stage.keep(memory);
    if is_sick {
        let job = Job::new(&data, Engine::Psync, FioAccess::RandomRead, 8192)
            .direct()
            .with("size", (256 * MIB).to_string())
            .with("numjobs", "2");
        stage.fio_as("app", job)?;
    }
    stage.expected = Expected::default().on(disk.device().name()).by("rsync").by("app");
    stage.keep(disk);
    Ok(())
}

/// updatedb reads a tree of which nothing is in memory.
fn updatedb(stage: &mut LabStage) -> Result<()> {
    let updatedb = command::find("updatedb")?;
    let (disk, hand) = disk(stage, 900, FileSystemKind::Ext4)?;
    tree(&disk.path().join("home"), 40_000)?;
    disk.remount()?;
    hand.latency(Duration::from_micros(stage.dice.between(300, 700)));
    let script = r#"while :; do umount "$2"; mount -o noatime "$4" "$2"; rm -f "$3"
        "$1" -U "$2" -o "$3" -l 0 --prunepaths '' --prunefs ''; done"#;
    let database = stage.scratch.path().join("places");
    stage.shell(script, &[&updatedb, disk.path(), &database, disk.device().path()])?;
    stage.expected =
        Expected::default().on(disk.device().name()).by("updatedb").by("updatedb.ploca");
    stage.keep(disk);
    Ok(())
}
