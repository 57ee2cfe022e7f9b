//! Healthy and merely busy loads: nothing above "info" may be found.

use super::*;
use crate::error::Context;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::control("control-idle", idle),
    Lab::control("control-benchmark-read", |it| benchmark(it, Access::RandomRead, 32)),
    Lab::control("control-benchmark-write", |it| benchmark(it, Access::RandomWrite, 32)),
    Lab::control("control-benchmark-qd1", |it| benchmark(it, Access::RandomRead, 1)),
    Lab::control("control-benchmark-deep", deep),
    Lab::control("control-database", database),
    Lab::control("control-backup", backup),
    Lab::control("control-fast-backup", fast_backup),
    Lab::control("control-stream-write", stream_write),
    Lab::control("control-web-server", web_server),
    Lab::control("control-compile", compile),
    Lab::control("control-cc", cc),
    Lab::control("control-paced", paced),
    Lab::control("control-package", package),
    Lab::control("control-checkout", checkout),
    Lab::control("control-save-now-and-then", |it| python_on(it, Kind::Ext4, SAVE)),
    Lab::control("control-group-commit", |it| python_on(it, Kind::Xfs, GROUP_COMMIT)),
    Lab::control("control-small-log", |it| python_on(it, Kind::Ext4, SMALL_LOG)),
    Lab::control("control-video", |it| reader(it, VIDEO)),
    Lab::control("control-mapped-in-order", |it| reader(it, MAPPED)),
    Lab::control("control-search-in-memory", |it| reader(it, SEARCH)),
    Lab::control("control-copy-once", copy_once),
    Lab::control("control-cache-misses", cache_misses),
    Lab::control("control-readers-in-parallel", parallel),
];

/// A document is saved every second, durably.
const SAVE: &str = "import os,sys,time\nn=0\nwhile True:\n n+=1\n t=sys.argv[1]+'/doc.new'\n f=open(t,'wb');f.write(os.urandom(20000));f.flush();os.fsync(f.fileno());f.close()\n os.rename(t,sys.argv[1]+'/doc')\n time.sleep(1)\n";
/// Two hundred transactions are made durable with one sync, five times a second.
const GROUP_COMMIT: &str = "import os,sys,time\nfd=os.open(sys.argv[1]+'/wal',os.O_CREAT|os.O_RDWR)\nos.posix_fallocate(fd,0,64<<20)\nos.fsync(fd)\nat=0\nwhile True:\n for _ in range(200):\n  os.pwrite(fd,b'x'*700,at)\n  at=(at+700)%(60<<20)\n os.fdatasync(fd)\n time.sleep(0.2)\n";
/// A few lines a second.
const SMALL_LOG: &str = "import sys,time\nf=open(sys.argv[1]+'/app.log','a')\nwhile True:\n f.write('INFO all is well\\n');f.flush()\n time.sleep(0.1)\n";
/// A stream that is watched as fast as it plays.
const VIDEO: &str = "import sys,time\nf=open(sys.argv[1],'rb')\nwhile True:\n b=f.read(500000)\n if not b: f.seek(0)\n time.sleep(0.1)\n";
/// A mapped file that is read from its beginning to its end, a little at a time.
const MAPPED: &str = "import sys,mmap,time\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\nwhile True:\n for at in range(0,len(m),65536):\n  m[at:at+65536].count(b'a')\n  time.sleep(0.003)\n";
/// A search through a file that is in memory after the first time.
const SEARCH: &str = "import sys\nwhile True: open(sys.argv[1],'rb').read().count(b'needle')\n";

fn idle(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(64)?;
    stage.keep(device);
    Ok(())
}

fn benchmark(stage: &mut Stage, access: Access, depth: u64) -> Result<()> {
    let device = stage.fast(256)?;
    let engine =
        if depth == 1 { Engine::Psync } else { stage.dice.one(&[Engine::Libaio, Engine::IoUring]) };
    let job = Job::new(device.path(), engine, access, stage.dice.one(&[4096, 8192, 16_384]))
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth.to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Large blocks at a good depth, and a log that is committed in groups.
fn database(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(768)?;
    let disk = stage.mounted(device, Kind::Xfs)?;
    let data = fio::prepare(&disk.path().join("data"), 256 * MIB)?;
    let log = fio::prepare(&disk.path().join("wal"), 64 * MIB)?;
    let reader = Job::new(&data, Engine::IoUring, Access::RandomRead, 16_384)
        .direct()
        .with("size", (256 * MIB).to_string())
        .with("iodepth", "32");
    stage.fio(reader)?;
    let writer = Job::new(&log, Engine::Psync, Access::Write, 256 << 10)
        .with("size", (64 * MIB).to_string())
        .with("fsync", "4")
        .with("rate_iops", "100");
    stage.fio(writer)?;
    stage.keep(disk);
    Ok(())
}

fn backup(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(768)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    for index in 0..20 {
        fio::prepare(&disk.path().join(format!("file{index}")), 24 * MIB)?;
    }
    disk.remount()?;
    let script =
        r#"for f in "$1"/file*; do cat "$f" | head -c 20m >/dev/null; sleep 0.3; done; sleep 60"#;
    stage.shell(script, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

fn stream_write(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(512)?;
    let job = Job::new(device.path(), Engine::Libaio, Access::Write, MIB)
        .direct()
        .with("size", (400 * MIB).to_string())
        .with("iodepth", "4");
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Everything is in memory after the first request; it writes a modest log.
fn web_server(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    fio::prepare(&disk.path().join("page"), 8 * MIB)?;
    let program = "import sys,time\nlog=open(sys.argv[1]+'/access.log','a')\nwhile True:\n open(sys.argv[1]+'/page','rb').read()\n log.write('GET /page 200\\n')\n log.flush()\n time.sleep(0.01)\n";
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// Many small files are read once, and results written.
fn compile(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let program = "import sys,os,hashlib\nd=sys.argv[1]\nn=0\nwhile True:\n n+=1\n src=f'{d}/src{n%500}.c'\n if not os.path.exists(src): open(src,'w').write('int x;'*2000)\n text=open(src).read()\n for _ in range(40): hashlib.sha256(text.encode()*4).digest()\n open(f'{d}/src{n%500}.o','w').write(text)\n";
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

fn paced(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(256)?;
    let job = Job::new(device.path(), Engine::IoUring, Access::RandomRead, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", "4")
        .with("rate_iops", stage.dice.between(1000, 4000).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A device that needs a millisecond for each request and does as many as there are.
fn deep(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.latency(Duration::from_micros(stage.dice.between(600, 1200)));
    let job = Job::new(device.path(), Engine::IoUring, Access::RandomRead, 8192)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", stage.dice.between(4, 8).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Nobody else is there, and the device gives all it has.
fn fast_backup(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(900)?;
    let disk = stage.mounted(device, Kind::Xfs)?;
    for index in 0..8 {
        fio::prepare(&disk.path().join(format!("file{index}")), 64 * MIB)?;
    }
    disk.remount()?;
    stage.shell(r#"sleep 2; cat "$1"/file* >/dev/null; sleep 60"#, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A compiler that compiles the same program again and again.
fn cc(stage: &mut Stage) -> Result<()> {
    let cc = crate::command::find("cc")?;
    let device = stage.fast(256)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
    let path = disk.path().join("hello.c");
    std::fs::write(&path, source).context(|| format!("write {}", path.display()))?;
    let script = r#"cd "$1"; while :; do "$2" -O1 -c hello.c -o hello.o; done"#;
    stage.shell(script, &[disk.path(), &cc])?;
    stage.keep(disk);
    Ok(())
}

/// Files are unpacked and made durable together at the end, as package managers do.
fn package(stage: &mut Stage) -> Result<()> {
    let program = "import os,sys,time,ctypes\nl=ctypes.CDLL(None)\nn=0\nwhile True:\n n+=1\n d=f'{sys.argv[1]}/package{n}'\n os.mkdir(d)\n for i in range(120): open(f'{d}/file{i}','wb').write(b'x'*9000)\n fd=os.open(d,os.O_RDONLY)\n l.syncfs(fd)\n os.close(fd)\n time.sleep(1.5)\n";
    python_on(stage, Kind::Ext4, program)
}

/// A tree is written once and then looked at, all in memory.
fn checkout(stage: &mut Stage) -> Result<()> {
    let program = "import os,sys,time\nr=sys.argv[1]\nfor i in range(3000):\n d=f'{r}/d{i%50}'\n os.makedirs(d,exist_ok=True)\n open(f'{d}/f{i}','w').write('x'*2000)\nwhile True:\n for d,_,fs in os.walk(r):\n  for f in fs: os.lstat(os.path.join(d,f))\n time.sleep(0.5)\n";
    python_on(stage, Kind::Xfs, program)
}

/// A program on a file system of a device that is not the limit.
fn python_on(stage: &mut Stage, kind: Kind, program: &str) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, kind)?;
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A program that reads one cold file.
fn reader(stage: &mut Stage, program: &str) -> Result<()> {
    let device = stage.fast(512)?;
    let kind = stage.dice.one(&[Kind::Ext4, Kind::Xfs]);
    let disk = stage.mounted(device, kind)?;
    let file = fio::prepare(&disk.path().join(stage.dice.name()), 120 * MIB)?;
    disk.remount()?;
    stage.python(program, &[&file])?;
    stage.keep(disk);
    Ok(())
}

fn copy_once(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(700)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    for index in 0..40 {
        fio::prepare(&disk.path().join(format!("photo{index}")), 3 * MIB)?;
    }
    disk.remount()?;
    stage.shell(r#"sleep 3; mkdir "$1"/to; cp "$1"/photo* "$1"/to; sleep 60"#, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A cache in front of a healthy disk: some reads miss it, a few at once.
fn cache_misses(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.latency(Duration::from_micros(stage.dice.between(150, 400)));
    let job = Job::new(device.path(), Engine::Libaio, Access::RandomRead, 16_384)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", "4")
        .with("rate_iops", stage.dice.between(100, 400).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Several threads that read what they want, none in the way of another.
fn parallel(stage: &mut Stage) -> Result<()> {
    let device = stage.fast(256)?;
    let job = Job::new(device.path(), Engine::Psync, Access::RandomRead, 8192)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("numjobs", "4")
        .with("rate_iops", stage.dice.between(200, 900).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}
