//! File systems, locks, caches, programs.

use super::*;
use crate::command;
use crate::devices::FileSystem;
use std::path::Path;
use std::process::Command;

/// The labs.
pub const LABS: &[Lab] = &[
    blind("blind-convoy", &["lock-behind-io"], convoy),
    blind("blind-appenders", &["inode-lock"], appenders),
    blind("blind-small-journal", &["journal-full"], small_journal),
    blind("blind-holes", &["fragmentation"], holes),
    blind("blind-records", &["misaligned-rmw"], records),
    blind("blind-strict-atime", &["atime-updates"], strict_atime),
    blind("blind-logger", &["log-flood"], logger),
    blind("blind-two-ways", &["direct-buffered-mix"], two_ways),
    blind("blind-columns", &["readahead-waste"], columns),
    blind("blind-find", &["metadata-scan"], find),
    blind("blind-sqlite", &["fsync-heavy"], sqlite),
    blind("blind-syncfs", &["sync-storm"], syncfs),
    blind("blind-tar", &["bulk-scan"], tar),
];

/// One thread makes its state safe with a lock held; dozens of others only want to count.
fn convoy(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    hidden.limit("write_bps", stage.dice.between(3, 6) * MIB)?;
    let (threads, bytes) = (stage.dice.between(24, 40), stage.dice.between(300, 700) * KIB);
    let file = stage.dice.name();
    let program = format!(
        "import os,sys,threading,time\nlock=threading.Lock()\nn=0\ndef save():\n while True:\n  with lock:\n   f=os.open(sys.argv[1]+'/{file}.state',os.O_CREAT|os.O_WRONLY|os.O_TRUNC)\n   os.write(f,b'x'*{bytes})\n   os.fsync(f)\n   os.close(f)\n  time.sleep(0.03)\ndef count():\n global n\n while True:\n  with lock: n+=1\n  time.sleep(0.005)\nfor _ in range({threads}): threading.Thread(target=count).start()\nsave()\n"
    );
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["lock"]).on(&name).by("python3");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Several processes that each append to the same file, past the page cache.
fn appenders(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    stage.uneven(&hidden, 180, 400);
    let (block, file) = (stage.dice.one(&[4, 8, 16]) * KIB, stage.dice.name());
    let program = format!(
        "import mmap,os,sys\nm=mmap.mmap(-1,{block})\nm.write(b'y'*{block})\nf=os.open(sys.argv[1]+'/{file}',os.O_CREAT|os.O_WRONLY|os.O_APPEND|os.O_DIRECT,0o644)\nwhile True: os.write(f,m)\n"
    );
    for _ in 0..stage.dice.between(4, 6) {
        stage.python(&program, &[disk.path()])?;
    }
    stage.expected = Expected::fix(&["prealloc", "xfs"]).by("python3");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Programs that change names and modes all the time, on a file system with the smallest journal.
fn small_journal(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = FileSystem::with_options(
        &stage.scratch,
        device,
        Kind::Ext4,
        &["-J", "size=4", "-i", "8192"],
    )?;
    hidden.limit("write_iops", stage.dice.between(250, 500))?;
    let files = stage.dice.between(3000, 5000);
    let program = format!(
        "import os,sys\nd=sys.argv[1]+'/'+str(os.getpid())\nfor i in range(60): os.makedirs(f'{{d}}/{{i}}')\nn=0\nwhile True:\n n+=1\n i=n%{files}\n a=f'{{d}}/{{i*7%60}}/{{i}}'\n if not os.path.exists(a): open(a,'w').close()\n os.chmod(a,0o600+n%64)\n b=f'{{d}}/{{i*11%60}}/t{{i}}'\n os.rename(a,b)\n os.rename(b,a)\n"
    );
    for _ in 0..3 {
        stage.python(&program, &[disk.path()])?;
    }
    stage.expected = Expected::fix(&["journal"]).on(&name);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A large file written into the holes of a full file system, then read in order.
fn holes(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk =
        FileSystem::with_options(&stage.scratch, device, Kind::Ext4, &["-i", "8192", "-m", "0"])?;
    let (size, large) = (stage.dice.one(&[12, 16, 20]) * KIB, stage.dice.name());
    let make = format!(
        "import os,sys\nd=sys.argv[1]\ntop=os.open(d,os.O_RDONLY)\nn=0\ntry:\n while True:\n  os.makedirs(f'{{d}}/{{n//1000}}',exist_ok=True)\n  with open(f'{{d}}/{{n//1000}}/{{n}}','wb') as f: f.write(b'z'*{size})\n  n+=1\n  if n%2000==0: os.fsync(top)\nexcept OSError: pass\nfor i in range(0,n,2):\n try: os.unlink(f'{{d}}/{{i//1000}}/{{i}}')\n except OSError: pass\nos.fsync(top)\nwith open(d+'/{large}','wb') as f:\n for _ in range(160): f.write(b'w'*(1<<20))\n f.flush()\n os.fsync(f.fileno())\n"
    );
    command::run("python3", ["-c".as_ref(), make.as_ref(), disk.path().as_os_str()])?;
    disk.remount()?;
    hidden.iops(stage.dice.between(180, 350))?;
    let mut reader = Command::new("dd");
    let file = disk.path().join(&large);
    reader.args(["of=/dev/null", "bs=1M", &format!("if={}", file.display())]);
    stage.start(reader)?;
    stage.expected =
        Expected::fix(&["defrag", "free space", "room"]).on(&name).by("dd").file(&large);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A table of records whose size is no multiple of anything, changed at random places of a cold file.
fn records(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Xfs)?;
    let file = stage.dice.name();
    fio::prepare(&disk.path().join(&file), 300 * MIB)?;
    disk.remount()?;
    stage.uneven(&hidden, 160, 360);
    let bytes = stage.dice.between(300, 1100);
    let program = format!(
        "import os,random,sys\nf=os.open(sys.argv[1]+'/{file}',os.O_WRONLY)\nwhile True: os.pwrite(f,b'r'*{bytes},random.randrange(300<<20>>12<<12)//{bytes}*{bytes})\n"
    );
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["align"]).on(&name).by("python3").file(&file);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Thousands of small files, all of them in memory, read again and again where each read is noted.
fn strict_atime(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    let files = stage.dice.between(6000, 9000);
    let make = format!(
        "import os,sys\nfor i in range({files}):\n d=f'{{sys.argv[1]}}/{{i%80}}'\n os.makedirs(d,exist_ok=True)\n open(f'{{d}}/{{i}}','w').write('mail')\n"
    );
    command::run("python3", ["-c".as_ref(), make.as_ref(), disk.path().as_os_str()])?;
    command::run("sync", [Path::new("-f"), disk.path()])?;
    command::run("mount", [Path::new("-oremount,strictatime,commit=1"), disk.path()])?;
    hidden.limit("write_iops", stage.dice.between(90, 200))?;
    let program = "import os,sys\nwhile True:\n for d,_,names in os.walk(sys.argv[1]):\n  for name in names:\n   try: open(os.path.join(d,name)).read()\n   except OSError: pass\n";
    stage.python(program, &[disk.path()])?;
    stage.expected = Expected::fix(&["relatime", "noatime"]).on(&name);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A service that logs far too much, safely every few lines, beside one that reads.
fn logger(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    let data = fio::prepare(&disk.path().join(stage.dice.name()), 64 * MIB)?;
    hidden.iops(stage.dice.between(250, 450))?;
    let log = "var/log/".to_owned() + &stage.dice.name() + ".log";
    let (bytes, lines) = (stage.dice.between(120, 300), stage.dice.between(20, 60));
    let program = format!(
        "import os,sys\nos.makedirs(sys.argv[1]+'/var/log')\nf=os.open(sys.argv[1]+'/{log}',os.O_CREAT|os.O_WRONLY|os.O_APPEND,0o644)\nn=0\nwhile True:\n n+=1\n os.write(f,b'%010d DEBUG '%n+b'l'*{bytes}+b'\\n')\n if n%{lines}==0: os.fdatasync(f)\n"
    );
    stage.python(&program, &[disk.path()])?;
    let reader = Job::new(&data, Engine::Psync, Access::RandomRead, 4 * KIB)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("rate_iops", "60");
    stage.fio(reader)?;
    stage.expected = Expected::fix(&["rate"]).on(&name).by("python3").file(&log);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// One program writes a file through the page cache, another one the same file past it.
fn two_ways(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    let file = stage.dice.name();
    let data = fio::prepare(&disk.path().join(&file), 96 * MIB)?;
    stage.uneven(&hidden, 250, 500);
    let buffered = Job::new(&data, Engine::Psync, Access::RandomWrite, 4 * KIB)
        .with("size", (96 * MIB).to_string())
        .with("rate_iops", stage.dice.between(300, 600).to_string());
    let direct = Job::new(&data, Engine::Psync, Access::RandomWrite, 16 * KIB)
        .direct()
        .with("size", (96 * MIB).to_string());
    stage.fio(buffered)?;
    stage.fio(direct)?;
    let fix = ["choose", "either", "one way", "not both", "o_direct"];
    stage.expected = Expected::fix(&fix).on(&name).file(&file);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A store of columns: a hundred mapped files, of which single bytes are read, with too little memory.
fn columns(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    let files = stage.dice.between(90, 130);
    for index in 0..files {
        fio::prepare(&disk.path().join(format!("column{index}.d")), 4 * MIB)?;
    }
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(20, 40) * MIB)?;
    let memory = Cgroup::memory(&stage.scratch, stage.dice.between(72, 110) * MIB)?;
    let program = format!(
        "import mmap,random,sys\nmaps=[]\nfor i in range({files}):\n f=open(f'{{sys.argv[1]}}/column{{i}}.d','rb')\n maps.append(mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ))\nt=0\nwhile True:\n m=random.choice(maps)\n t+=m[random.randrange(len(m))]\n"
    );
    let mut python = Command::new(command::find("python3")?);
    python.args(["-c", &program]).arg(disk.path());
    stage.start(memory.inside(&python))?;
    stage.expected = Expected::fix(&["madv_random", "read_ahead_kb"]).on(&name).by("python3");
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A search through a cold tree, on XFS.
fn find(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Xfs)?;
    let (files, folders) = (stage.dice.between(26_000, 34_000), stage.dice.between(300, 500));
    let make = format!(
        "import os,sys\nfor i in range({files}):\n d=f'{{sys.argv[1]}}/{{i%{folders}}}'\n os.makedirs(d,exist_ok=True)\n open(f'{{d}}/{{i}}','w').close()\n"
    );
    command::run("python3", ["-c".as_ref(), make.as_ref(), disk.path().as_os_str()])?;
    disk.remount()?;
    hidden.iops(stage.dice.between(60, 110))?;
    let mut find = Command::new("find");
    find.arg(disk.path()).args(["-type", "f", "-size", "+1000k", "-mtime", "+9"]);
    stage.start(find)?;
    let fix = ["schedule", "ionice", "vfs_cache_pressure", "less often", "space it out"];
    stage.expected = Expected::fix(&fix).on(&name).by("find");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A database that commits each row by itself.
fn sqlite(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    stage.uneven(&hidden, 250, 500);
    let (file, bytes) = (stage.dice.name(), stage.dice.between(20, 200));
    let program = format!(
        "import sqlite3,sys\nd=sqlite3.connect(sys.argv[1]+'/{file}.db',isolation_level=None)\nd.execute('create table t(i integer primary key,x text)')\nwhile True: d.execute('insert into t(x) values(?)',('s'*{bytes},))\n"
    );
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["group", "batch"]).on(&name).by("python3");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Somebody writes back the whole file system again and again, while a service adds to its files.
fn syncfs(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    hidden.limit("write_iops", stage.dice.between(100, 220))?;
    let (bytes, files) = (stage.dice.between(2000, 9000), stage.dice.between(40, 120));
    let program = format!(
        "import random,sys,time\nwhile True:\n with open(f'{{sys.argv[1]}}/{{random.randrange({files})}}','ab') as f: f.write(b's'*{bytes})\n time.sleep(0.01)\n"
    );
    stage.python(&program, &[disk.path()])?;
    stage.shell("while :; do sync -f \"$1\"; done", &[disk.path()])?;
    stage.expected = Expected::fix(&["stop", "caller", "fsync"]).on(&name).by("sync");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A nightly archive at noon, beside somebody who reads a little.
fn tar(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, Kind::Ext4)?;
    let data = fio::prepare(&disk.path().join(stage.dice.name()), 64 * MIB)?;
    let tree = disk.path().join("home");
    for index in 0..stage.dice.between(180, 260) {
        let folder = tree.join((index % 13).to_string());
        let made = std::fs::create_dir_all(&folder);
        crate::error::Context::context(made, || format!("make {}", folder.display()))?;
        fio::prepare(&folder.join(index.to_string()), 2 * MIB)?;
    }
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(18, 28) * MIB)?;
    let reader = Job::new(&data, Engine::Psync, Access::RandomRead, 4 * KIB)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("rate_iops", stage.dice.between(100, 200).to_string());
    stage.fio(reader)?;
    stage.shell("tar -cf - \"$1\" | cat >/dev/null", &[&tree])?;
    let fix = ["ionice", "weight", "schedule", "dontneed"];
    stage.expected = Expected::fix(&fix).on(&name).by("tar");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}
