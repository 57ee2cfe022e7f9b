//! The page cache, mapped files, and who reads how much.

use super::*;
use crate::devices::FileSystem;
use std::path::PathBuf;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab {
        name: "readahead-waste",
        sort: Sort::Cause,
        causes: &["readahead-waste"],
        build: |it| mapped(it, "0"),
    },
    Lab {
        name: "readahead-waste-near",
        sort: Sort::NearMiss,
        causes: &["readahead-waste"],
        build: |it| mapped(it, "random"),
    },
    Lab {
        name: "page-cache-thrash",
        sort: Sort::Cause,
        causes: &["page-cache-thrash"],
        build: |it| cached(it, 48),
    },
    Lab {
        name: "page-cache-thrash-near",
        sort: Sort::NearMiss,
        causes: &["page-cache-thrash"],
        build: |it| cached(it, 800),
    },
    Lab {
        name: "major-faults",
        sort: Sort::Cause,
        causes: &["major-faults"],
        build: |it| code(it, 40),
    },
    Lab {
        name: "major-faults-near",
        sort: Sort::NearMiss,
        causes: &["major-faults"],
        build: |it| code(it, 800),
    },
    Lab {
        name: "metadata-scan",
        sort: Sort::Cause,
        causes: &["metadata-scan"],
        build: |it| scan(it, "os.lstat(p)"),
    },
    Lab {
        name: "metadata-scan-near",
        sort: Sort::NearMiss,
        causes: &["metadata-scan"],
        build: |it| scan(it, "open(p,'rb').read()"),
    },
    Lab {
        name: "bulk-scan",
        sort: Sort::Cause,
        causes: &["bulk-scan"],
        build: |it| bulk(it, true),
    },
    Lab {
        name: "bulk-scan-near",
        sort: Sort::NearMiss,
        causes: &["bulk-scan"],
        build: |it| bulk(it, false),
    },
    Lab {
        name: "writeback-burst",
        sort: Sort::Cause,
        causes: &["writeback-burst"],
        build: |it| bursts(it, true),
    },
    Lab {
        name: "writeback-burst-near",
        sort: Sort::NearMiss,
        causes: &["writeback-burst"],
        build: |it| bursts(it, false),
    },
    Lab {
        name: "double-caching",
        sort: Sort::Cause,
        causes: &["double-caching"],
        build: |it| twice(it, Backing::File),
    },
    Lab {
        name: "double-caching-near",
        sort: Sort::NearMiss,
        causes: &["double-caching"],
        build: |it| twice(it, Backing::DirectFile),
    },
    Lab {
        name: "fragmentation",
        sort: Sort::Cause,
        causes: &["fragmentation"],
        build: |it| pieces(it, true),
    },
    Lab {
        name: "fragmentation-near",
        sort: Sort::NearMiss,
        causes: &["fragmentation"],
        build: |it| pieces(it, false),
    },
    Lab {
        name: "direct-buffered-mix",
        sort: Sort::Cause,
        causes: &["direct-buffered-mix"],
        build: |it| mix(it, true),
    },
    Lab {
        name: "direct-buffered-mix-near",
        sort: Sort::NearMiss,
        causes: &["direct-buffered-mix"],
        build: |it| mix(it, false),
    },
    Lab {
        name: "misaligned-rmw",
        sort: Sort::Cause,
        causes: &["misaligned-rmw"],
        build: |it| parts(it, 512),
    },
    Lab {
        name: "misaligned-rmw-near",
        sort: Sort::NearMiss,
        causes: &["misaligned-rmw"],
        build: |it| parts(it, 4096),
    },
    Lab {
        name: "case-phantom-reads",
        sort: Sort::Cause,
        causes: &["readahead-waste"],
        build: phantom_reads,
    },
];

/// A file system with one cold file.
fn cold_file(
    stage: &mut Stage,
    device: impl BlockDevice + 'static,
    name: &str,
    mib: u64,
) -> Result<(FileSystem, PathBuf)> {
    let kind = stage.dice.one(&[Kind::Ext4, Kind::Xfs]);
    let disk = stage.mounted(device, kind)?;
    let file = fio::prepare(&disk.path().join(name), mib * MIB)?;
    disk.remount()?;
    Ok((disk, file))
}

/// Random faults in a mapped file larger than the memory; `hint` is what fio says to the kernel.
fn mapped(stage: &mut Stage, hint: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    stage.set(&device, "read_ahead_kb", "128")?;
    let name = stage.dice.name();
    let (disk, file) = cold_file(stage, device, &name, 360)?;
    hidden.limit("read_bps", stage.dice.between(20, 60) * MIB)?;
    let memory = Cgroup::memory(&stage.scratch, 70 * MIB)?;
    let job = Job::new(&file, Engine::Mmap, Access::RandomRead, 4096)
        .with("size", (360 * MIB).to_string())
        .with("fadvise_hint", hint)
        .with("norandommap", "1");
    stage.fio_inside(job, &memory)?;
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

fn cached(stage: &mut Stage, mib: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = stage.dice.name();
    let (disk, file) = cold_file(stage, device, &name, 120)?;
    hidden.limit("read_bps", stage.dice.between(60, 120) * MIB)?;
    let memory = Cgroup::memory(&stage.scratch, mib * MIB)?;
    let job = Job::new(&file, Engine::Psync, Access::RandomRead, 65_536)
        .with("size", (120 * MIB).to_string())
        .with("invalidate", "0")
        .with("norandommap", "1");
    stage.fio_inside(job, &memory)?;
    std::thread::sleep(std::time::Duration::from_secs(4));
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A library whose functions are called here and there.
fn code(stage: &mut Stage, mib: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = format!("lib{}.so", stage.dice.name());
    let (disk, file) = cold_file(stage, device, &name, 100)?;
    hidden.iops(stage.dice.between(300, 900))?;
    let memory = Cgroup::memory(&stage.scratch, mib * MIB)?;
    let program = "import mmap,sys,random\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\nm.madvise(mmap.MADV_RANDOM)\nn=len(m)//4096//2\nx=0\nwhile True:\n x+=m[random.randrange(n)*4096]\n";
    let mut python = std::process::Command::new(crate::command::find("python3")?);
    python.args(["-c", program]).arg(&file);
    stage.start(memory.inside(&python))?;
    if mib > 100 {
        hidden.open();
        std::thread::sleep(std::time::Duration::from_secs(4));
    }
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A tree of small files that is walked over; `what` is done to each.
fn scan(stage: &mut Stage, what: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let many = if what.contains("lstat") { 24_000 } else { 2_000 };
    let bytes = if what.contains("lstat") { 1 } else { 100_000 };
    let make = format!(
        "import os,sys\nr=sys.argv[1]\nfor i in range({many}):\n d=f'{{r}}/d{{i%200}}'\n os.makedirs(d,exist_ok=True)\n open(f'{{d}}/f{{i}}','w').write('x'*{bytes})\n"
    );
    crate::command::run(
        "python3",
        ["-c".as_ref(), std::ffi::OsStr::new(&make), disk.path().as_os_str()],
    )?;
    disk.remount()?;
    stage.set_file(
        format!("/sys/fs/ext4/{}/inode_readahead_blks", disk.device().name()).into(),
        "1",
    )?;
    hidden.iops(stage.dice.between(60, 110))?;
    let walk = format!(
        "import os,sys\nfor d,_,fs in os.walk(sys.argv[1]):\n for f in fs:\n  p=os.path.join(d,f)\n  {what}\n"
    );
    stage.python(&walk, &[disk.path()])?;
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A backup, with or without somebody who waits behind it.
fn bulk(stage: &mut Stage, others: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    for index in 0..10 {
        fio::prepare(&disk.path().join(format!("dump{index}")), 50 * MIB)?;
    }
    let table = fio::prepare(&disk.path().join("table"), 100 * MIB)?;
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(28, 45) * MIB)?;
    let script = r#"cat "$1"/dump* >/dev/null; sleep 60"#;
    stage.shell(script, &[disk.path()])?;
    if others {
        let job = Job::new(&table, Engine::Psync, Access::RandomRead, 8192)
            .direct()
            .with("size", (100 * MIB).to_string());
        stage.fio(job)?;
    }
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A reader, and a writer whose pages are written in bursts, or as they come.
fn bursts(stage: &mut Stage, bursts: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let disk = stage.mounted(device, Kind::Xfs)?;
    let table = fio::prepare(&disk.path().join("table"), 100 * MIB)?;
    let log = fio::prepare(&disk.path().join("data"), 100 * MIB)?;
    disk.remount()?;
    stage.set(disk.device(), "wbt_lat_usec", "0")?;
    hidden.iops(stage.dice.between(500, 800))?;
    let job = Job::new(&table, Engine::Psync, Access::RandomRead, 8192)
        .direct()
        .with("size", (100 * MIB).to_string())
        .with("rate_iops", "150");
    stage.fio(job)?;
    // The whole device counts I/Os: a burst of writes takes what the reads need.
    hidden.limit("read_iops", 0)?;
    let chunk = if bursts { 250 } else { 12 };
    let pause = if bursts { "1.6" } else { "0.08" };
    let program = format!(
        "import os,sys,time,random\nfd=os.open(sys.argv[1],os.O_WRONLY)\nwhile True:\n for _ in range({chunk}): os.pwrite(fd,b'x'*4096,random.randrange(25000)*4096)\n os.fdatasync(fd)\n time.sleep({pause})\n"
    );
    stage.python(&program, &[&log])?;
    if bursts {
        // What a real disk does: reads wait while its queue is full of writes.
        let later = hidden.clone();
        let seconds = stage.seconds;
        let stat = format!("/sys/block/{}/inflight", disk.device().name());
        stage.after(100, move || {
            for _ in 0..(seconds + 4) * 50 {
                let text = std::fs::read_to_string(&stat).unwrap_or_default();
                let writes = text
                    .split_whitespace()
                    .nth(1)
                    .and_then(|it| it.parse::<u64>().ok())
                    .unwrap_or(0);
                drop(later.limit("read_iops", if writes > 4 { 60 } else { 0 }));
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
    }
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

fn twice(stage: &mut Stage, backing: Backing) -> Result<()> {
    let device = crate::devices::LoopDevice::new(&stage.scratch, backing, 200 * MIB)?;
    stage.watched = device.name().to_owned();
    let job = Job::new(device.path(), Engine::Libaio, Access::RandomRead, 65_536)
        .direct()
        .with("size", (190 * MIB).to_string())
        .with("iodepth", "4")
        .with("rate_iops", stage.dice.between(150, 400).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A file that was written into the holes of a full file system, or into an empty one.
fn pieces(stage: &mut Stage, full: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(200)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let make = "import os,sys\nr=sys.argv[1]\nn=0\ntry:\n while True:\n  open(f'{r}/s{n}','w').write('x'*16000);n+=1\nexcept OSError: pass\n";
    let holes = "import os,sys,glob\nfor i,p in enumerate(sorted(glob.glob(sys.argv[1]+'/s*'),key=lambda p:int(p.rsplit('s',1)[1]))):\n if i%2: os.unlink(p)\n";
    let write = "import os,sys\nfd=os.open(sys.argv[1]+'/table',os.O_CREAT|os.O_WRONLY)\nfor _ in range(56): os.write(fd,b'x'*1048576)\nos.fsync(fd)\n";
    let programs: &[&str] = if full { &[make, holes, write] } else { &[write] };
    for program in programs {
        let program = std::ffi::OsStr::new(program);
        crate::command::run("python3", ["-c".as_ref(), program, disk.path().as_os_str()])?;
        disk.remount()?;
    }
    stage.set(disk.device(), "read_ahead_kb", "128")?;
    hidden.iops(stage.dice.between(120, 260))?;
    stage.shell(r#"sleep 1; cat "$1"/table >/dev/null; sleep 60"#, &[disk.path()])?;
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

fn mix(stage: &mut Stage, both: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let table = fio::prepare(&disk.path().join("table"), 200 * MIB)?;
    let other = fio::prepare(&disk.path().join("other"), 200 * MIB)?;
    disk.remount()?;
    hidden.iops(stage.dice.between(500, 900))?;
    let direct = Job::new(&table, Engine::Psync, Access::RandomWrite, 4096)
        .direct()
        .with("size", (200 * MIB).to_string());
    stage.fio(direct)?;
    let buffered =
        Job::new(if both { &table } else { &other }, Engine::Psync, Access::Read, 16_384)
            .with("size", (200 * MIB).to_string())
            .with("rate_iops", "250");
    stage.fio(buffered)?;
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Durable writes of `bytes` bytes into a cold file, here and there.
fn parts(stage: &mut Stage, bytes: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = stage.dice.name();
    let (disk, file) = cold_file(stage, device, &name, 300)?;
    hidden.iops(stage.dice.between(200, 500))?;
    let program = format!(
        "import os,sys,random\nfd=os.open(sys.argv[1],os.O_WRONLY|os.O_DSYNC)\nwhile True: os.pwrite(fd,b'x'*{bytes},random.randrange(76000)*4096)\n"
    );
    stage.python(&program, &[&file])?;
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A column store that only writes: hundreds of mapped files, under a memory limit.
fn phantom_reads(stage: &mut Stage) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    stage.set(&device, "read_ahead_kb", "128")?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let files = stage.dice.between(180, 320);
    let make = format!(
        "import sys\nfor i in range({files}): open(f'{{sys.argv[1]}}/column{{i}}.d','wb').write(b'x'*1048576)\n"
    );
    crate::command::run(
        "python3",
        ["-c".as_ref(), std::ffi::OsStr::new(&make), disk.path().as_os_str()],
    )?;
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(20, 50) * MIB)?;
    let memory = Cgroup::memory(&stage.scratch, 64 * MIB)?;
    let program = format!(
        "import mmap,sys,random\nfs=[open(f'{{sys.argv[1]}}/column{{i}}.d','r+b') for i in range({files})]\nms=[mmap.mmap(f.fileno(),0) for f in fs]\nwhile True:\n for m in ms:\n  for _ in range(6):\n   o=random.randrange(len(m)-8)\n   m[o:o+8]=b'12345678'\n  m.flush()\n"
    );
    let mut python = std::process::Command::new(crate::command::find("python3")?);
    python.args(["-c", &program]).arg(disk.path());
    stage.start(memory.inside(&python))?;
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}
