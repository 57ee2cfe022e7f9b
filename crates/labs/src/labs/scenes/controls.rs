//! Healthy and merely busy loads: nothing above "info" may be found.

use super::*;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab { name: "control-idle", sort: Sort::Control, causes: &[], build: idle },
    Lab {
        name: "control-benchmark-read",
        sort: Sort::Control,
        causes: &[],
        build: |it| benchmark(it, Access::RandomRead, 32),
    },
    Lab {
        name: "control-benchmark-write",
        sort: Sort::Control,
        causes: &[],
        build: |it| benchmark(it, Access::RandomWrite, 32),
    },
    Lab {
        name: "control-benchmark-qd1",
        sort: Sort::Control,
        causes: &[],
        build: |it| benchmark(it, Access::RandomRead, 1),
    },
    Lab { name: "control-database", sort: Sort::Control, causes: &[], build: database },
    Lab { name: "control-backup", sort: Sort::Control, causes: &[], build: backup },
    Lab { name: "control-stream-write", sort: Sort::Control, causes: &[], build: stream_write },
    Lab { name: "control-web-server", sort: Sort::Control, causes: &[], build: web_server },
    Lab { name: "control-compile", sort: Sort::Control, causes: &[], build: compile },
    Lab { name: "control-paced", sort: Sort::Control, causes: &[], build: paced },
];

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
