//! The five investigations that iowhy is made for, beside those that stand with their cause.

use super::*;
use crate::error::Context;
use std::process::Command;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab {
        name: "case-word-counter",
        sort: Sort::Cause,
        causes: &["temp-file-churn"],
        build: |it| word_counter(it, true),
    },
    Lab {
        name: "temp-file-churn-near",
        sort: Sort::NearMiss,
        causes: &["temp-file-churn"],
        build: |it| word_counter(it, false),
    },
    Lab {
        name: "case-stat-storm",
        sort: Sort::Cause,
        causes: &["metadata-scan"],
        build: |it| stat_storm(it, true),
    },
    Lab {
        name: "case-stat-storm-no-frames",
        sort: Sort::Cause,
        causes: &["metadata-scan"],
        build: |it| stat_storm(it, false),
    },
    Lab {
        name: "case-suspicious-drive",
        sort: Sort::Cause,
        causes: &["device-slow-tail"],
        build: suspicious_drive,
    },
];

/// A web application that answers each request with a thousand small files, written, read back and
/// removed; or that keeps them.
fn word_counter(stage: &mut Stage, removes: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    hidden.limit("write_bps", stage.dice.between(25, 45) * MIB)?;
    let port = stage.dice.between(20_000, 40_000);
    let files = stage.dice.between(450, 600);
    let bytes = stage.dice.between(100_000, 200_000);
    let program = format!(
        "import os,sys,uuid,shutil\nfrom flask import Flask\napp=Flask('words')\nn=0\n@app.route('/popularity/<word>')\ndef popularity(word):\n global n\n n+=1\n d=f'{{sys.argv[1]}}/{{uuid.uuid4() if {keep}==0 else 0}}'\n os.makedirs(d,exist_ok=True)\n for i in range({files}): open(f'{{d}}/{{i}}.txt','w').write('x'*{bytes})\n t=0\n for i in range({files}): t+=len(open(f'{{d}}/{{i}}.txt').read())\n if {keep}==0: shutil.rmtree(d)\n return str(t)\napp.run(port={port})\n",
        keep = u8::from(!removes)
    );
    let memory = Cgroup::memory(&stage.scratch, 64 * MIB)?;
    let mut python = Command::new(crate::command::find("python3")?);
    python.args(["-c", &program]).arg(disk.path());
    stage.start(memory.inside(&python))?;
    let ask = format!(
        "import urllib.request,time\nwhile True:\n try: urllib.request.urlopen('http://127.0.0.1:{port}/popularity/word').read()\n except OSError: time.sleep(0.2)\n"
    );
    stage.python(&ask, &[])?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A monitor of disk usage.
const MONITOR: &str = r#"
import java.io.IOException;
import java.nio.file.*;
import java.nio.file.attribute.*;
public class DiskUsageMonitor {
    static long walk(Path folder) throws IOException {
        long sum = 0;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            for (Path entry : entries) {
                BasicFileAttributes it = Files.readAttributes(entry, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
                sum += it.isDirectory() ? walk(entry) : it.size();
            }
        }
        return sum;
    }
    public static void main(String[] arguments) throws Exception {
        for (int warm = 0; warm < 2000; warm++) walk(Path.of(arguments[1]));
        System.out.println("warm");
        System.in.read();
        while (true) walk(Path.of(arguments[0]));
    }
}
"#;

fn stat_storm(stage: &mut Stage, frames: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let make = "import os,sys\nfor i in range(24000):\n d=f'{sys.argv[1]}/d{i%200}'\n os.makedirs(d,exist_ok=True)\n open(f'{d}/f{i}','w').close()\n";
    crate::command::run(
        "python3",
        ["-c".as_ref(), std::ffi::OsStr::new(make), disk.path().as_os_str()],
    )?;
    let source = stage.scratch.path().join("DiskUsageMonitor.java");
    std::fs::write(&source, MONITOR).context(|| "write the monitor".to_owned())?;
    crate::command::run("javac", ["-d".as_ref(), stage.scratch.path(), &source])?;
    let small = stage.scratch.fresh("warm");
    std::fs::create_dir_all(small.join("a")).context(|| "make a small tree".to_owned())?;
    let flags =
        if frames { "-XX:+PreserveFramePointer -XX:-Inline" } else { "-XX:-PreserveFramePointer" };
    // The map of its symbols is written when it is warm; then it may begin.
    let script = format!(
        "mkfifo \"$1/go\"; java {flags} -cp \"$1\" DiskUsageMonitor \"$2\" \"$3\" <\"$1/go\" & pid=$!; exec 3>\"$1/go\"; sleep 5; {} echo >&3; wait $pid",
        if frames { "jcmd $pid Compiler.perfmap;" } else { "" },
    );
    let folder = stage.scratch.path().to_owned();
    stage.shell(&script, &[&folder, disk.path(), &small])?;
    std::thread::sleep(std::time::Duration::from_secs(5));
    disk.remount()?;
    stage.set_file(
        format!("/sys/fs/ext4/{}/inode_readahead_blks", disk.device().name()).into(),
        "1",
    )?;
    hidden.iops(stage.dice.between(60, 110))?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// One of two drives under the same load has rare long outliers.
fn suspicious_drive(stage: &mut Stage) -> Result<()> {
    let sibling = crate::devices::LoopDevice::new(&stage.scratch, Backing::Tmpfs, 256 * MIB)?;
    let job = Job::new(sibling.path(), Engine::Psync, Access::RandomRead, 16_384)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("rate_iops", "125");
    stage.fio(job)?;
    stage.keep(sibling);
    limits::slow_tail(stage)
}
