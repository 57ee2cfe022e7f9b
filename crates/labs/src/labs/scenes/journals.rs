//! Journals, syncs, locks and logs.

use super::*;
use crate::labs::measure::Measure;
use crate::labs::stage;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("fsync-heavy", &["fsync-heavy"], |it| syncing(it, "1")),
    Lab::near("fsync-heavy-near", &["fsync-heavy"], |it| syncing(it, "0")),
    Lab::cause("journal-commit", &["journal-commit"], |it| commits(it, true)),
    Lab::near("journal-commit-near", &["journal-commit"], |it| commits(it, false)),
    Lab::cause("journal-full", &["journal-full"], |it| journal(it, "size=4")),
    Lab::near("journal-full-near", &["journal-full"], |it| journal(it, "size=128")),
    Lab::cause("wbt-throttle", &["wbt-throttle"], |it| wbt(it, "300")),
    Lab::near("wbt-throttle-near", &["wbt-throttle"], |it| wbt(it, "0")),
    Lab::cause("inode-lock", &["inode-lock"], |it| appending(it, true)),
    Lab::near("inode-lock-near", &["inode-lock"], |it| appending(it, false)),
    Lab::cause("sync-storm", &["sync-storm"], |it| syncfs(it, true)),
    Lab::near("sync-storm-near", &["sync-storm"], |it| syncfs(it, false)),
    Lab::cause("log-flood", &["log-flood"], |it| logging(it, 1, "app.log")),
    Lab::near("log-flood-near", &["log-flood"], |it| logging(it, 400, "app.log")),
    Lab::cause("atime-updates", &["atime-updates"], |it| atime(it, "strictatime")),
    Lab::near("atime-updates-near", &["atime-updates"], |it| atime(it, "noatime")),
    Lab::cause("discard-storm", &["discard-storm"], |it| discard(it, "discard")),
    Lab::near("discard-storm-near", &["discard-storm"], |it| discard(it, "nodiscard")),
    Lab::cause("lock-behind-io", &["lock-behind-io"], |it| lock(it, true)),
    Lab::near("lock-behind-io-near", &["lock-behind-io"], |it| lock(it, false)),
];

pub(super) fn syncing(stage: &mut Stage, every: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let kind = stage.dice.one(&[Kind::Ext4, Kind::Xfs]);
    let disk = stage.mounted(device, kind)?;
    let name = stage.dice.name();
    let file = fio::prepare(&disk.path().join(name), 32 * MIB)?;
    // Less than what it asks for, so that each sync is felt.
    stage.uneven(&hidden, 200, 450);
    let job = |every: &str| {
        Job::new(&file, Engine::Psync, Access::Write, 4096)
            .with("size", (32 * MIB).to_string())
            .with("fsync", every)
    };
    stage.fio(job(every).with("rate_iops", "500"))?;
    let together = stage.command_of(job("10"))?;
    stage.instead(Measure::Calls, together);
    stage.keep(disk);
    Ok(())
}

/// Small changes that are made durable now and then, beside somebody who writes very much, or alone.
fn commits(stage: &mut Stage, beside: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    // Writeback throttling beside it would be a second cause.
    stage.set(disk.device(), "wbt_lat_usec", "0")?;
    if beside {
        hidden.limit("write_bps", stage.dice.between(12, 25) * MIB)?;
        let program = "import os,sys,time\nn=0\nwhile True:\n n+=1\n p=f'{sys.argv[1]}/bulk{n%3}'\n f=open(p,'wb')\n for _ in range(30): f.write(b'x'*1048576)\n f.close()\n time.sleep(0.3)\n";
        stage.python(program, &[disk.path()])?;
    }
    let program = "import os,sys,time\nfd=os.open(sys.argv[1]+'/small',os.O_CREAT|os.O_WRONLY)\nwhile True:\n os.write(fd,b'x'*100)\n os.fsync(fd)\n time.sleep(0.1)\n";
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// Many changes of metadata, with a small or an ordinary journal.
pub(super) fn journal(stage: &mut Stage, size: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = crate::devices::FileSystem::with_options(
        &stage.scratch,
        device,
        Kind::Ext4,
        &["-J", size],
    )?;
    hidden.limit("write_bps", stage.dice.between(6, 12) * MIB)?;
    let program = "import os,sys\nr=sys.argv[1]+'/'+sys.argv[2]\nos.makedirs(r)\nn=0\nwhile True:\n n+=1\n d=f'{r}/d{n}'\n os.mkdir(d)\n for i in range(20): open(f'{d}/f{i}','w').close()\n if n>200:\n  o=f'{r}/d{n-200}'\n  for i in range(20): os.unlink(f'{o}/f{i}')\n  os.rmdir(o)\n";
    for index in ["a", "b", "c"] {
        stage.python(program, &[disk.path(), index.as_ref()])?;
    }
    stage.keep(disk);
    Ok(())
}

/// A buffered writer beside a reader.
fn wbt(stage: &mut Stage, target: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    stage.set(&device, "wbt_lat_usec", target)?;
    let disk = stage.mounted(device, Kind::Xfs)?;
    let table = fio::prepare(&disk.path().join("table"), 100 * MIB)?;
    stage.uneven(&hidden, 200, 500);
    stage.fio(
        Job::new(&table, Engine::Psync, Access::RandomRead, 4096)
            .direct()
            .with("size", (100 * MIB).to_string()),
    )?;
    let data = fio::prepare(&disk.path().join("data"), 100 * MIB)?;
    let writer = Job::new(&data, Engine::Psync, Access::RandomWrite, 4096)
        .with("size", (100 * MIB).to_string())
        .with("fsync", "256");
    stage.fio(writer)?;
    stage.keep(disk);
    Ok(())
}

/// Threads that append to one file, or each to its own.
pub(super) fn appending(stage: &mut Stage, one: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    // It works on as many at once as there are: the lock is what they go one by one for.
    let latency = Duration::from_micros(stage.dice.between(1500, 3500));
    stage.uneven_latency(&hidden, latency);
    let threads = stage.dice.between(4, 10);
    let program = |one: bool| {
        format!(
            "import os,sys,threading\ndef run(n):\n fd=os.open(sys.argv[1]+'/out'+('' if {} else str(n)),os.O_CREAT|os.O_WRONLY|os.O_APPEND|os.O_DIRECT)\n import mmap\n b=mmap.mmap(-1,4096)\n while True: os.write(fd,b)\nfor n in range({threads}): threading.Thread(target=run,args=(n,)).start()\n",
            if one { "True" } else { "False" }
        )
    };
    stage.python(&program(one), &[disk.path()])?;
    stage.instead(Measure::Calls, stage::python(&program(false), &[disk.path()])?);
    stage.keep(disk);
    Ok(())
}

pub(super) fn syncfs(stage: &mut Stage, storm: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    stage.uneven(&hidden, 150, 300);
    let writer = "import os,sys,time,random\nfd=os.open(sys.argv[1]+'/data',os.O_CREAT|os.O_RDWR)\nos.ftruncate(fd,50<<20)\nwhile True:\n for _ in range(20): os.pwrite(fd,b'x'*4096,random.randrange(12000)*4096)\n open(sys.argv[1]+'/f%d'%random.randrange(500),'w').write('x')\n time.sleep(0.05)\n";
    stage.python(writer, &[disk.path()])?;
    if storm {
        let program = "import os,sys,time,ctypes\nl=ctypes.CDLL(None)\nfd=os.open(sys.argv[1],os.O_RDONLY)\nwhile True:\n l.syncfs(fd)\n time.sleep(0.1)\n";
        stage.python(program, &[disk.path()])?;
    }
    stage.keep(disk);
    Ok(())
}

/// A log that is made durable after so many lines.
pub(super) fn logging(stage: &mut Stage, lines: u64, name: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let folder = disk.path().join("var/log");
    hidden.limit("write_iops", stage.dice.between(400, 800))?;
    let program = format!(
        "import os,sys,time\nos.makedirs(sys.argv[1])\nf=open(sys.argv[1]+'/{name}','a')\nn=0\nwhile True:\n n+=1\n f.write('DEBUG request %d took 3 ms and everything is fine so far\\n'%n*8)\n if n%{lines}==0:\n  f.flush();os.fsync(f.fileno())\n if {lines}>1: time.sleep(0.003)\n"
    );
    stage.python(&program, &[&folder])?;
    stage.keep(disk);
    Ok(())
}

/// Many small files are read.
fn atime(stage: &mut Stage, option: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let make =
        "import sys\nfor i in range(6000): open(f'{sys.argv[1]}/f{i}','w').write('x'*3000)\n";
    script(make, disk.path())?;
    disk.remount()?;
    let options = format!("remount,{option},commit=1");
    crate::command::run(
        "mount",
        ["-o".as_ref(), std::ffi::OsStr::new(&options), disk.path().as_os_str()],
    )?;
    // All files are in memory by then: what is left is writing.
    script(
        "import glob,sys\nfor f in glob.glob(sys.argv[1]+'/f*'): open(f).read()\n",
        disk.path(),
    )?;
    hidden.limit("write_bps", stage.dice.between(700, 1400) << 10)?;
    let program = "import os,sys,time\nwhile True:\n for i in range(6000):\n  open(f'{sys.argv[1]}/f{i}').read()\n  time.sleep(0.0005)\n";
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// Files that were there for long are removed, a few at a time, from a disk that stalls for as long as
/// each discard takes, as many do.
fn discard(stage: &mut Stage, option: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    let make = "import sys\nfor i in range(18000): open(f'{sys.argv[1]}/t{i}','w').write('x'*(40000 if i%2 else 4000))\n";
    script(make, disk.path())?;
    disk.remount()?;
    let options = format!("remount,{option},commit=1");
    crate::command::run(
        "mount",
        ["-o".as_ref(), std::ffi::OsStr::new(&options), disk.path().as_os_str()],
    )?;
    let mut dice = stage.dice.clone();
    stage.again(10, move || {
        hidden.discard(Duration::from_micros(dice.between(2000, 5000)));
        300
    });
    let program = "import os,sys,time\nfor n in range(0,17960,40):\n for i in range(n+1,n+40,2): os.unlink(f'{sys.argv[1]}/t{i}')\n fd=os.open(sys.argv[1],os.O_RDONLY);os.fsync(fd);os.close(fd)\n time.sleep(0.02)\ntime.sleep(60)\n";
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// One thread writes and syncs while it holds a lock that forty others want, or after it let go.
pub(super) fn lock(stage: &mut Stage, held: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, Kind::Ext4)?;
    hidden.limit("write_bps", stage.dice.between(10, 20) * MIB)?;
    let threads = stage.dice.between(20, 40);
    let program = format!(
        "import os,sys,time,threading\nl=threading.Lock()\nfd=os.open(sys.argv[1]+'/snapshot',os.O_CREAT|os.O_WRONLY)\ndef save():\n os.lseek(fd,0,0)\n for _ in range(8): os.write(fd,b'x'*1048576)\n os.fsync(fd)\ndef writer():\n while True:\n  if {held}:\n   with l: save()\n  else:\n   with l: pass\n   save()\n  time.sleep(0.05)\ndef worker():\n while True:\n  with l: pass\n  time.sleep(0.01)\nthreading.Thread(target=writer).start()\nfor _ in range({threads}): threading.Thread(target=worker).start()\n",
        held = if held { "True" } else { "False" }
    );
    stage.python(&program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}
