//! Tests of archives, made of members of ours.

use super::*;
use iowhy_model::Names;
use iowhy_model::source::Batch;
use std::io::{Cursor, Write};

/// A member of an archive.
pub(super) fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut block = vec![0_u8; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    let size = format!("{:011o}", content.len());
    block[124..135].copy_from_slice(size.as_bytes());
    block[156] = kind;
    block[257..262].copy_from_slice(b"ustar");
    block[148..156].copy_from_slice(b"        ");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block.extend_from_slice(content);
    block.resize(block.len().next_multiple_of(BLOCK), 0);
    block
}

fn read_all(bytes: Vec<u8>) -> Result<(CounterBook, Environment), String> {
    let (mut book, mut tables) = (CounterBook::default(), TextTables::default());
    let (mut batch, mut names) = (Batch::default(), Names::new());
    let mut out = RowsOut { batch: &mut batch, names: &mut names };
    let mut environment = Environment::default();
    let input: Bytes = Box::new(Cursor::new(bytes));
    read(BufReader::new(input), &mut book, &mut tables, &mut environment, &mut out)?;
    Ok((book, environment))
}

fn report() -> Vec<u8> {
    let log = b"[    5.0] blk_update_request: I/O error, dev sda, sector 8\n";
    [
        member("sos-1/hostname", b'0', b"db1\n"),
        member("sos-1/etc/shadow", b'0', b"root:x\n"),
        member("sos-1/sos_commands/kernel/dmesg", b'0', log),
        member("sos-1/sys/block/sda/queue/scheduler", b'0', b"[none] bfq\n"),
        member("sos-1/proc/mounts", b'2', b"/dev/sdz / ext4 rw 0 0\n"),
        vec![0; 2 * BLOCK],
    ]
    .concat()
}

#[test]
fn what_a_report_tells_is_read_and_links_are_not() {
    for packed in [false, true] {
        let mut bytes = report();
        if packed {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(&bytes).unwrap();
            bytes = encoder.finish().unwrap();
        }
        let (book, environment) = read_all(bytes).unwrap();
        assert_eq!((environment.host.as_str(), environment.mounts.len()), ("db1", 0));
        let devices = book.devices();
        let [sda] = &devices[..] else { panic!("{devices:?}") };
        assert_eq!(sda.settings_start["queue/scheduler"], "[none] bfq");
        assert_eq!(sda.kernel_messages[0].kind, "error");
    }
}

#[test]
fn a_report_of_sos_has_its_settings_below_devices_and_no_uptime_of_proc() {
    let queue = "sos-1/sys/devices/pci0000:00/0000:00:05.0";
    let stat = b" 254 0 vdx 1000 0 8000 2000 0 0 0 0 0 500 2000\n";
    let up = b" 18:16:05 up 1 day,  2:00,  1 user,  load average: 0.59, 0.13, 0.04\n";
    let bytes = [
        member("sos-1/proc/diskstats", b'0', stat),
        member("sos-1/sys/block/vdx", b'2', b""),
        member(&format!("{queue}/virtio2/block/vdx/queue/scheduler"), b'0', b"[none] bfq\n"),
        member(&format!("{queue}/nvme/nvme7/nvme7n1/queue/nr_requests"), b'0', b"255\n"),
        member("sos-1/proc/mounts", b'0', b"/dev/vdx / ext4 rw 0 0\n"),
        member("sos-1/sos_commands/host/uptime", b'0', up),
    ]
    .concat();
    let (book, environment) = read_all(bytes).unwrap();
    let devices = book.devices();
    let [nvme, vdx] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!(nvme.settings_start["queue/nr_requests"], "255");
    assert_eq!(vdx.settings_start["queue/scheduler"], "[none] bfq");
    assert_eq!(vdx.stat_end[0], 1000);
    let passed_ns = book.end_ns() - crate::book::BEGIN_NS;
    assert_eq!(passed_ns, 26 * 3600 * 1_000_000_000);
    let on: Vec<bool> = devices
        .iter()
        .map(|disk| environment.mounts[0].is_on(&disk.name, (disk.major, disk.minor)))
        .collect();
    assert_eq!(on, [false, true]);
    let untimed = member("sos-1/proc/diskstats", b'0', stat);
    let (book, environment) = read_all(untimed).unwrap();
    assert!(book.devices().is_empty());
    let limits = environment.limits.join("\n");
    assert!(limits.contains("does not tell since when"), "{limits}");
    for (line, seconds) in [
        (" 10:00:00 up 25 min,  0 users", Some(1500.0)),
        (" 10:00:00 up  4:05,  2 users", Some(14_700.0)),
        (" 10:00:00 up 10 days, 3 min,  2 users", Some(864_180.0)),
        ("10:00:00 up for long", None),
        ("nothing", None),
    ] {
        assert_eq!(uptime(line), seconds, "{line}");
    }
}

#[test]
fn a_second_report_in_an_archive_is_left_out() {
    let log = b"[    5.0] blk_update_request: I/O error, dev sdz, sector 8\n";
    let whole = report();
    let bytes = [
        whole[..whole.len() - 2 * BLOCK].to_vec(),
        member("sos-2/hostname", b'0', b"db2\n"),
        member("sos-2/sos_commands/kernel/dmesg", b'0', log),
    ]
    .concat();
    let (book, environment) = read_all(bytes).unwrap();
    assert_eq!(environment.host, "db1");
    assert!(book.devices().iter().all(|device| device.name == "sda"));
    let limits = environment.limits.join("\n");
    assert!(limits.contains("2 files below another folder than sos-1 were left out"), "{limits}");
}

#[test]
fn limits_of_many_files_are_said_once() {
    let job = br#"{"fio version": "fio-3.36", "jobs": [{"jobname": "a", "job_runtime": 1000}]}"#;
    let files = (0..3_000).map(|at| member(&format!("sos-1/{at}.json"), b'0', job));
    let bytes: Vec<u8> = files.flatten().chain(vec![0; 2 * BLOCK]).collect();
    let (_, environment) = read_all(bytes).unwrap();
    let said = environment.limits.iter().filter(|limit| limit.contains("disk_util")).count();
    assert_eq!(said, 1, "{:?}", environment.limits.first());
    assert!(environment.limits.iter().any(|limit| limit.ends_with("(3,000 files)")));
}

#[test]
fn one_message_in_several_logs_is_one() {
    let text = "blk_update_request: I/O error, dev sda, sector 8";
    let dmesg = format!("[    5.0] {text}\n[    6.0] {text}\n[    7.0] something else\n");
    let log = format!(
        "Nov 25 10:00:00 db1 kernel: {text}\nNov 25 10:00:00 db1 sshd[1]: I/O error, dev sdq\n\
         Nov 25 10:00:01 db1 kernel: {text}\nNov 25 10:00:02 db1 kernel: {text}\n"
    );
    let bytes = [
        member("sos-1/sos_commands/kernel/dmesg", b'0', dmesg.as_bytes()),
        member("sos-1/var/log/messages", b'0', log.as_bytes()),
        member("sos-1/sos_commands/logs/journalctl_--no-pager_--boot", b'0', log.as_bytes()),
        member("sos-1/var/log/messages-20261101", b'0', b"Nov 1 0:0:0 a kernel: x\n"),
    ]
    .concat();
    let (book, _) = read_all(bytes).unwrap();
    let devices = book.devices();
    let [sda] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!(sda.kernel_messages.len(), 3);
    assert!(sda.kernel_messages.iter().all(|message| message.text == text));
}

#[test]
fn a_drive_is_named_by_its_file_and_a_day_is_read_once() {
    let smart = b"=== START OF READ SMART DATA SECTION ===\n\
        SMART overall-health self-assessment test result: FAILED!\n\
        197 Current_Pending_Sector  0x0032   100   100   000    Old_age   Always   -   8\n";
    let day = b"Linux 5.14.0 (db1) \t11/25/2026 \t_x86_64_\t(4 CPU)\n\n\
        22:00:00 DEV tps rkB/s wkB/s await %util\n22:10:00 sdb 1.0 2.0 3.0 4.0 5.0\n";
    let bytes = [
        member("sos-1/sos_commands/ata/smartctl_-a_.dev.sdb", b'0', smart),
        member("sos-1/var/log/sa/sar25", b'0', day),
        member("sos-1/sos_commands/sar/sar25", b'0', day),
        member("sos-1/sos_commands/kernel/uname_-a", b'0', b"Linux db1 5.14.0 #1 SMP\n"),
        member("sos-1/sos_commands/filesys/mount_-l", b'0', b"/dev/sdb1 on /srv type xfs (rw)\n"),
    ]
    .concat();
    let (book, environment) = read_all(bytes).unwrap();
    let devices = book.devices();
    let [sdb] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!(sdb.health_end.clone().unwrap().drive.unwrap().pending_sectors, Some(8));
    assert_eq!(environment.kernel, "5.14.0");
    assert_eq!((&*environment.mounts[0].kind, &*environment.mounts[0].options), ("xfs", "rw"));
    assert!(book.limits().is_empty(), "{:?}", book.limits());
}

#[test]
fn too_much_in_long_lines_is_said_and_ends_it() {
    let long = |count: usize| vec![b'a'; count << 20];
    let archive = |content: &[u8]| {
        let log = member("sos-1/var/log/messages", b'0', content);
        [report()[..2 * BLOCK].to_vec(), log, report()].concat()
    };
    let (book, environment) = read_all(archive(&long(10))).unwrap();
    let limits = environment.limits.join("\n");
    assert!(limits.contains("bytes of lines longer than 8 KiB were skipped"), "{limits}");
    assert_eq!(book.devices().len(), 1);
    let (book, environment) = read_all(archive(&long(65))).unwrap();
    let limits = environment.limits.join("\n");
    assert!(limits.contains("the archive was read in part"), "{limits}");
    assert!(book.devices().is_empty());
    assert_eq!(environment.host, "db1");
}

#[test]
fn damage_and_bombs_end() {
    let whole = report();
    for length in [0, 100, BLOCK, whole.len() / 2] {
        // The result is a part or a reason; reading never hangs or panics.
        let _ = read_all(whole[..length].to_vec());
    }
    assert!(read_all(vec![7; 4096]).is_err());
    let mut huge = member("sos-1/hostname", b'L', b"x");
    huge[124..136].copy_from_slice(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
    huge[148..156].copy_from_slice(b"        ");
    let sum: u64 = huge[..BLOCK].iter().map(|byte| u64::from(*byte)).sum();
    huge[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    assert!(read_all(huge).is_err());
}
