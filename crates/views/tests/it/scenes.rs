//! Watches written by hand: typical cases of an engineer on call.

use iowhy_model::environment::{Cost, Device};
use iowhy_model::script::Script;
use iowhy_model::{KnownBy, Operation, Origin, Status, WaitClass};
use std::collections::BTreeMap;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn disk(name: &str, scheduler: &str, model: &str) -> Device {
    let settings = settings(&[
        ("queue/scheduler", scheduler),
        ("queue/nr_requests", "64"),
        ("queue/read_ahead_kb", "128"),
        ("queue/rotational", "0"),
        ("queue/write_cache", "write back"),
    ]);
    Device {
        name: name.into(),
        bytes: 500 << 30,
        model: Some(model.into()),
        settings_start: settings.clone().into(),
        settings_end: settings.into(),
        ..Device::default()
    }
}

/// A small generator of numbers, the same every time.
pub struct SceneNumbers(u64);

impl SceneNumbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

pub fn dice() -> SceneNumbers {
    SceneNumbers(7)
}

/// A disk usage monitor walks over inodes while a database commits and pages are written back.
pub fn jenkins() -> Script {
    let mut script = Script::new(10);
    let (java, cat, logger) = ((30603, "java"), (811, "cat"), (702, "rsyslogd"));
    script.wait(java, WaitClass::Device, 9_602_000_000, 9_600_000_000, 1_500_000);
    script.wait(cat, WaitClass::PageRead, 4_100_000_000, 230_000_000, 400_000);
    script.wait(logger, WaitClass::JournalCommit, 310_000_000, 0, 0);
    script.wait(logger, WaitClass::Unknown, 120_000_000, 0, 0);
    let environment = &mut script.environment;
    *environment.devices = vec![
        disk("xvdj", "none [mq-deadline] kyber", "Elastic Block Store"),
        disk("nvme0n1", "[none] mq-deadline", "Samsung SSD 980 PRO"),
        disk("sda", "[none]", ""),
    ];
    environment.cost = Cost { cpu_ns: 90 * MS, bpf_ns: Some(30 * MS), cpus: 4, ..Cost::default() };
    script.process(30603, "java", "/system.slice/jenkins.service", "jenkins.service");
    script.process(944, "nginx", "/system.slice/nginx.service", "nginx.service");
    script.process(812, "postgres", "/system.slice/postgresql.service", "postgresql.service");
    script.process(813, "postgres", "/system.slice/postgresql.service", "postgresql.service");
    inode_reads(&mut script);
    commits(&mut script);
    writeback(&mut script);
    script
}

fn inode_reads(script: &mut Script) {
    let mut dice = dice();
    let kernel = ["submit_bio", "xfs_buf_read_map", "xfs_imap_to_bp", "xfs_lookup", "vfs_statx"];
    for index in 0..13_910 {
        let at = (index * 719 * US) as i64;
        let slow = if index % 40 == 0 { 9 * MS + dice.below(6 * MS) } else { 0 };
        script
            .read("xvdj", 4096)
            .by(30603, "java")
            .at(at)
            .sector(dice.below(1 << 28) * 8)
            .cgroup("/system.slice/jenkins.service", "jenkins.service")
            .origin(Origin::Metadata)
            .part(Err("file system metadata (inodes)"), 4096, Ok((30603, "java")))
            .scheduled(
                400,
                900,
                8 * US + dice.below(20 * US),
                380 * US + dice.below(240 * US) + slow,
            )
            .stacks(&kernel, &["UnixNativeDispatcher.lstat0", "DiskUsageMonitor.walk"], 1)
            .add();
    }
}

fn commits(script: &mut Script) {
    let mut dice = dice();
    for index in 0..2_000 {
        let at = (index * 5 * MS) as i64;
        let wal =
            script.write("nvme0n1", 8192).by(812, "postgres").at(at).sector(9_000 + index * 16);
        wal.cgroup("/system.slice/postgresql.service", "postgresql.service")
            .file("/var/lib/postgresql/15/main/pg_wal/000000010000000000000042")
            .direct(200, 700, 21 * US + dice.below(9 * US))
            .add();
        let flush = script.request("nvme0n1", Operation::Flush).by(812, "postgres");
        let flush = flush.cgroup("/system.slice/postgresql.service", "postgresql.service");
        let flushed = 610 * US + dice.below(200 * US);
        flush.at(at + 40_000).direct(150, 300, flushed).add();
        script.request("nvme0n1", Operation::Flush).at(at + 41_000).issued(flushed).add();
        if index % 2 == 0 {
            let read = script.read("nvme0n1", 8192).by(813, "postgres").at(at + 900_000);
            read.sector(dice.below(1 << 29))
                .cgroup("/system.slice/postgresql.service", "postgresql.service")
                .file("/var/lib/postgresql/15/main/base/16384/24601")
                .direct(180, 500, 74 * US + dice.below(30 * US))
                .stacks(
                    &["submit_bio", "ext4_mpage_readpages", "filemap_get_pages", "vfs_read"],
                    &["pread64", "FileRead", "mdread", "ReadBuffer_common"],
                    2,
                )
                .add();
        }
    }
}

fn writeback(script: &mut Script) {
    for index in 0..120 {
        let log = format!("/var/log/nginx/access-{}.log", index % 30);
        let write = script.write("nvme0n1", 65_536).by(77, "kworker/u8:3");
        write
            .at((4 * S + index * 2 * MS) as i64)
            .sector(500_000 + index * 4096)
            .origin(Origin::Writeback)
            .part(Ok(&log), 49_152, Ok((944, "nginx")))
            .owner_cgroup("/system.slice/nginx.service")
            .part(Ok("/var/tmp/upload"), 16_384, Err("dirtied before the watch"))
            .direct(900, 2 * US, 140 * US)
            .add();
    }
}

/// A program reads while the log of another is written back.
pub fn behind_writeback() -> Script {
    let mut script = Script::new(10);
    *script.environment.devices = vec![disk("sda", "none [mq-deadline]", "ST4000NM0023")];
    let mut dice = dice();
    for index in 0..90 {
        let write = script.write("sda", MIB).by(77, "kworker/u8:3").at((index * 100 * MS) as i64);
        let write = write.origin(Origin::Writeback).sector(index * 2048);
        let owner = if index < 8 { Err("dirtied before the watch") } else { Ok((9, "logger")) };
        let write = write.part(Ok("/var/log/app.log"), MIB, owner);
        write.scheduled(200, 300, MS, 98 * MS).add();
    }
    for index in 0..12 {
        let at = index * 700 * MS;
        let read = script.read("sda", 16_384).by(811, "cat").at(at as i64).file("/srv/data/blob");
        let (waited, served) = (350 * MS + dice.below(50 * MS), 9 * MS + dice.below(4 * MS));
        let read = read.sector(dice.below(1 << 28)).scheduled(300, 400, waited, served).add();
        script.wait_for((811, "cat"), at, 700 + waited + served, &[read]);
    }
    for index in 0..40 {
        let at = index * 200 * MS;
        let commit = script.write("sda", 4096).by(240, "jbd2/sda1-8").at(at as i64);
        let commit = commit.origin(Origin::Journal).sector(dice.below(1 << 28));
        let commit = commit.scheduled(300, 400, 3 * MS, 5 * MS).add();
        script.wait_for((812, "postgres"), at, 8 * MS, &[commit]);
    }
    script
}

/// A path to the storage is gone: nothing completes since before the watch.
pub fn hung() -> Script {
    let mut script = Script::new(10);
    *script.environment.devices = vec![
        Device {
            in_flight_start: Some((0, 2)),
            in_flight_end: Some((1, 2)),
            ..disk("sdc", "[none]", "")
        },
        Device {
            in_flight_start: Some((32, 0)),
            in_flight_end: Some((32, 0)),
            stat_start: vec![5; 17],
            stat_end: vec![5; 17],
            ..disk("sdd", "[none]", "")
        },
    ];
    for index in 0..2 {
        let write = script.write("sdc", 4096).by(4100, "mysqld").at(-(60 * S as i64) + index);
        write.file("/srv/mysql/ibdata1").status(Status::InFlight).add();
    }
    let read = script.read("sdc", 16_384).by(5100, "ls").at(3 * S as i64);
    read.file("/srv/mysql").status(Status::InFlight).add();
    let failed = script.read("sda", 4096).by(1, "systemd").at(S as i64).file("/etc/fstab");
    failed.direct(0, 900, 31 * MS).error(-5).add();
    script
}

/// The facts that an old capture of issues and completions holds.
pub fn imported() -> Script {
    let mut script = Script::new(30);
    script.environment.host = String::new();
    script.environment.kernel = String::new();
    script.environment.source = "blktrace".into();
    let mut dice = dice();
    for index in 0..2_500 {
        let at = (index * 11 * MS) as i64;
        let operation = if index % 3 == 0 { Operation::Write } else { Operation::Read };
        let request = script.request("sdb", operation).bytes(32_768).sector(dice.below(1 << 20));
        request.at(at).issued(200 * US + dice.below(4 * MS)).add();
    }
    script.environment.losses.add("skips", 120, "events that blktrace itself skipped", false);
    script
}

/// The screen without privilege: the kernel's counters.
pub fn unprivileged() -> Script {
    let mut script = Script::new(2);
    script.environment.limits =
        vec!["no requests, processes, files or code paths: counters of the kernel only".into()];
    *script.environment.devices = vec![
        Device {
            stat_start: vec![0; 17],
            stat_end: vec![2782, 0, 22_256, 1700, 24, 1, 192, 40, 1, 1752, 1740, 0, 0, 0, 0, 8, 11],
            ..disk("xvdj", "none [mq-deadline] kyber", "Elastic Block Store")
        },
        Device { stat_start: vec![9; 17], stat_end: vec![9; 17], ..disk("sda", "[none]", "") },
    ];
    script
}

/// A logical volume and a loop device on one disk.
pub fn stacked() -> Script {
    let mut script = Script::new(10);
    let below = |device: Device, below: &str| Device { below: vec![below.into()], ..device };
    *script.environment.devices = vec![
        Device { bio_based: true, ..below(disk("dm-0", "", ""), "sda") },
        Device {
            backing_file: Some("/var/lib/images/vm1.raw".into()),
            ..below(disk("loop3", "[none]", ""), "sda")
        },
        disk("sda", "[mq-deadline] none", "ST4000NM0023"),
    ];
    for index in 0..600 {
        let at = (index * 15 * MS) as i64;
        let sector = 4_096 + index * 256;
        let upper = script.read("dm-0", 131_072).by(900, "tar").at(at).sector(sector);
        let upper = upper.file("/home/archive.img").bio(9 * MS).add();
        let lower = script.read("sda", 131_072).by(900, "tar").at(at + 2_000).sector(sector + 2048);
        lower.file("/home/archive.img").scheduled(500, 900, 3 * MS, 5 * MS).parent(upper).add();
    }
    script
}

/// Names that somebody chose to break a screen.
pub fn hostile() -> Script {
    let mut script = Script::new(10);
    let names = [
        "\x1b[2J\x1b]0;owned\x07",
        "two\nlines\r\tand tabs",
        "gpj.\u{202e}exe.txt",
        "zero\u{200b}width\u{feff}",
        "not utf-8: \u{fffd}\u{fffd}",
        "c1 \u{9b}31m control",
    ];
    for (index, name) in names.iter().enumerate() {
        let device = format!("sd{name}");
        let file = format!("/srv/{name}/{}", "long/".repeat(60));
        let read = script.read(&device, 4096).by(index as u32 + 1, name).cgroup(name, name);
        read.file(&file).stacks(&[name], &[name], 1).direct(0, 0, MS).add();
    }
    script.environment.host = names[0].into();
    script.environment.limits = vec![names[1].into()];
    script
}

/// A database whose threads wait for the one that writes a snapshot.
pub fn chained() -> Script {
    let mut script = Script::new(10);
    for tid in 4_200..4_241 {
        script.chain(&[(tid, &format!("worker-{tid}")), (4_250, "snapshot-writer")], MS, 2 * MS);
    }
    script.chain(&[(4_300, "reader"), (4_260, "relay"), (4_250, "snapshot-writer")], MS, MS);
    script.chain(&[(4_301, "hostile\x1b[2Jname"), (4_250, "snapshot-writer")], MS, MS);
    if let Some(last) = script.batch.wait_chains.last_mut() {
        last.known_by = Some(KnownBy::Likely);
        last.pid = 2;
    }
    script.wait((1, "db"), WaitClass::Fsync, 300 * MS, 280 * MS, 0);
    script
}

/// A database's reads of a disk without a scheduler.
pub fn tuned() -> Script {
    database("[none] mq-deadline", 0, 9_000)
}

/// The database after an update of the kernel, which gave the disk a scheduler.
pub fn untuned() -> Script {
    let mut script = database("none [mq-deadline]", 6_900 * US, 1_250);
    script.environment.kernel = "6.1.0".into();
    script
}

/// Eight reads at a time, each with `i2d` in the scheduler.
fn database(scheduler: &str, i2d: u64, count: u64) -> Script {
    let mut script = Script::new(10);
    *script.environment.devices = vec![disk("sda", scheduler, "Elastic Block Store")];
    *script.environment.settings_start = settings(&[("vm/dirty_ratio", "20")]);
    let mut dice = dice();
    for index in 0..count {
        let at = (index / 8 * 8 * 10 * S / (count + 8)) as i64;
        let d2c = 1_000 * US + dice.below(200 * US);
        let read = script.read("sda", 8192).by(812, "postgres").at(at);
        let read = read.sector(dice.below(1 << 26) * 16).file("/var/lib/postgresql/base/24601");
        match i2d {
            0 => read.direct(300, 700, d2c).add(),
            _ => read.scheduled(300, 700, i2d + dice.below(100 * US), d2c).add(),
        };
    }
    let blocked = 78 * S;
    script.wait((812, "postgres"), WaitClass::Device, blocked, blocked, 0);
    script
}

/// A volume that becomes slow after six seconds, and a monitor that comes back every two.
pub fn slowing() -> Script {
    let mut script = Script::new(10);
    let mut dice = dice();
    let mut at = 0;
    while at < 9_990 * MS {
        let slow = at >= 6 * S;
        let (gap, d2c) = if slow { (10 * MS, 38 * MS) } else { (2 * MS, 7 * MS) };
        let read = script.read("sda", 16_384).by(812, "postgres").at(at as i64);
        let read = read.sector(dice.below(1 << 26) * 32).file("/var/lib/postgresql/base/24601");
        read.direct(300, 700, d2c + dice.below(MS)).add();
        at += gap;
    }
    for burst in 0..5 {
        for part in 0..8 {
            let at = burst * 2 * S + 150 * MS + part * 9 * MS;
            let write = script.write("sdb", 1 << 19).by(42, "cadvisor").at(at as i64);
            write
                .sector((burst * 8 + part) << 10)
                .file("/var/lib/cadvisor.db")
                .direct(300, 700, 5 * MS)
                .add();
        }
    }
    script.wait((812, "postgres"), WaitClass::Device, 30 * S, 30 * S, 0);
    script
}
