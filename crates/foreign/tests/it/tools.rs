//! One test for each tool.

use super::*;
use iowhy_core::model::Metric;

const IOSTAT_12: &str = "\
Linux 6.1.0 (db1) \t11/25/26 \t_x86_64_\t(8 CPU)

11/25/26 22:40:20
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           5.00    0.00    2.00   40.00    0.00   53.00

Device r/s rkB/s rrqm/s r_await rareq-sz w/s wkB/s wrqm/s w_await f/s f_await aqu-sz %util
sda 1.00 4.00 0.00 1.00 4.00 1.00 4.00 0.00 1.00 0.00 0.00 0.01 1.00


11/25/26 22:40:30
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           5.00    0.00    2.00   40.00    0.00   53.00

Device r/s rkB/s rrqm/s r_await rareq-sz w/s wkB/s wrqm/s w_await f/s f_await aqu-sz %util
sda 80.00 640.00 0.00 95.00 8.00 40.00 320.00 10.00 120.00 10.00 5.00 12.40 99.80
";

#[test]
fn iostat_with_times_tells_rates_and_that_a_device_is_saturated() {
    let read = ReadFile::text(IOSTAT_12);
    assert_eq!(read.summary.watch.duration_ns, 10_000_000_000);
    assert_eq!(read.rate("sda", Direction::Read), (80.0, 95.0));
    assert_eq!(read.rate("sda", Direction::Write), (40.0, 120.0));
    assert_eq!(read.rate("sda", Direction::Flush), (10.0, 5.0));
    let environment = &read.summary.environment;
    assert_eq!((environment.host.as_str(), environment.cpus), ("db1", 8));
    assert_eq!(environment.source, "iostat");
    assert!(read.said().contains("since boot, was left out"), "{}", read.said());
    assert_eq!(read.causes(), ["device-saturated"]);
    assert!(!read.diagnosis.not_judged.is_empty() && read.diagnosis.clear == 0);
    let unjudged = read.diagnosis.unjudged.unwrap();
    assert!(unjudged.contains("sda busy 99.8 % of the time"), "{unjudged}");
}

#[test]
fn iostat_of_old_versions_and_other_locales() {
    let text = "\
Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sdb 0,00 1,50 10,00 20,00 80,00 160,00 8,00 0,50 16,67 10,00 20,00 5,00 30,00
";
    let read = ReadFile::text(text);
    assert_eq!(read.rate("sdb", Direction::Read), (10.0, 10.0));
    assert_eq!(read.rate("sdb", Direction::Write), (20.0, 20.0));
    assert!((read.summary.devices[0].util_share.unwrap() - 0.3).abs() < 1e-9);
    assert!(read.said().contains("mean since boot"), "{}", read.said());
    assert_eq!(read.causes(), Vec::<&str>::new());
}

#[test]
fn sar_tells_no_direction_and_passes_midnight() {
    let text = "\
Linux 5.14.0 (web2) \t11/25/2026 \t_x86_64_\t(4 CPU)

11:59:50 PM       DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util
12:00:00 AM    dev8-0    150.00   1200.00      0.00      8.00      3.00     20.00     97.00
12:00:10 AM    dev8-0    150.00   1200.00      0.00      8.00      3.00     20.00     97.00
Average:       dev8-0    150.00   1200.00      0.00      8.00      3.00     20.00     97.00
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.watch.duration_ns, 20_000_000_000);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert_eq!((device.device.as_str(), device.major, device.minor), ("8:0", 8, 0));
    assert!((device.util_share.unwrap() - 0.97).abs() < 1e-9);
    assert!((device.aqu_sz.unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(device.kernel.unwrap().directions[Direction::Read], None, "not told");
}

#[test]
fn vmstat_tells_of_swap() {
    let text = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  1      0 800000  10000 500000    0    0    10    20  100  200  5  2 90  3  0
 3  9 102400  50000   1000  20000 2048 4096  3000  5000  900 2000 10 20 10 60  0
 3  9 102400  50000   1000  20000 2048 4096  3000  5000  900 2000 10 20 10 60  0
";
    let read = ReadFile::text(text);
    let swapped = read.summary.samples.system(Metric::SwappedIn).unwrap();
    assert_eq!(swapped.change, Some(2.0 * 2048.0 * 1024.0));
    assert_eq!(read.summary.samples.system(Metric::Blocked).unwrap().last, 9.0);
    assert_eq!(read.summary.environment.source, "vmstat");
}

#[test]
fn pidstat_tells_who_writes() {
    let text = "\
Linux 6.1.0 (db1) \t11/25/26 \t_x86_64_\t(8 CPU)

22:40:28      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
22:40:38      999      1234      0.00   2048.00      0.00      12  my program
22:40:38        0       200     -1.00     16.00     -1.00       0  kworker/u16:3
";
    let read = ReadFile::text(text);
    let written = read.summary.samples.get(Metric::CausedWrite, "1234 my program").unwrap();
    assert_eq!(written.change, Some(10.0 * 2048.0 * 1024.0));
    assert!(read.summary.samples.get(Metric::CausedRead, "200 kworker/u16:3").is_none());
}

#[test]
fn copies_of_diskstats_tell_what_was_between_them() {
    let copy =
        |reads: u64| format!("   8       0 sda {reads} 0 {} 900 0 0 0 0 0 500 900\n", reads * 8);
    let text = format!("100.50 90.0\n{}110.50 99.0\n{}", copy(1000), copy(3000));
    let read = ReadFile::text(&text);
    assert_eq!(read.summary.watch.duration_ns, 10_000_000_000);
    assert_eq!(read.rate("sda", Direction::Read).0, 200.0);
    let alone = ReadFile::text(&copy(1000));
    assert!(alone.said().contains("one copy"), "{}", alone.said());
}

#[test]
fn biosnoop_gives_requests() {
    let text = "\
TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
0.000004    supervise      1950   xvda1     W 13092560   4096      0.10    0.74
0.003058    my prog        1951   xvda1     R 13092432   4096      0.00    2.78
";
    let read = ReadFile::text(text);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    let stage = |direction: Direction| {
        device.directions[direction].intervals[iowhy_core::analysis::Interval::D2c].unwrap().max_ns
    };
    assert_eq!((stage(Direction::Write), stage(Direction::Read)), (740_000, 2_780_000));
    let named =
        |name: &str| read.summary.processes.rows.iter().any(|row| row.subject.process == name);
    assert!(named("my prog") && named("supervise"));
}

#[test]
fn json_of_iostat_fio_and_smartctl() {
    let iostat = r#"{"sysstat": {"hosts": [{"nodename": "db1", "release": "6.1.0",
        "machine": "x86_64", "number-of-cpus": 8, "statistics": [{"disk": [{"disk_device": "vda",
        "r/s": 50.0, "rkB/s": 400.0, "rrqm/s": 0.0, "r_await": 2.0, "w/s": 0.0, "wkB/s": 0.0,
        "wrqm/s": 0.0, "w_await": 0.0, "aqu-sz": 0.1, "util": 10.0}]}]}]}}"#;
    let read = ReadFile::text(iostat);
    assert_eq!(read.rate("vda", Direction::Read), (50.0, 2.0));
    let fio = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "job_runtime": 10000,
        "read": {"io_bytes": 40960000}, "write": {"io_bytes": 0}}], "disk_util": [{"name": "sdb",
        "read_ios": 10000, "write_ios": 0, "read_merges": 0, "write_merges": 0,
        "read_ticks": 95000, "write_ticks": 0, "in_queue": 95000, "util": 99.0}]}"#;
    let read = ReadFile::text(fio);
    assert_eq!(read.rate("sdb", Direction::Read), (1000.0, 9.5));
    let smart = r#"{"smartctl": {"version": [7, 3]}, "device": {"name": "/dev/sdc"},
        "smart_status": {"passed": false},
        "ata_smart_attributes": {"table": [{"id": 197, "raw": {"value": 8}}]}}"#;
    let read = ReadFile::text(smart);
    let health = read.summary.environment.devices[0].health_end.clone().unwrap();
    assert_eq!(health.drive.unwrap().pending_sectors, Some(8));
    assert_eq!(read.causes(), ["drive-health"]);
}

#[test]
fn nvmes_log_as_text() {
    let text = "\
Smart Log for NVME device:nvme0n1 namespace-id:ffffffff
critical_warning                        : 0x4
temperature                             : 78 C
available_spare                         : 3%
available_spare_threshold               : 10%
percentage_used                         : 104%
media_errors                            : 12
";
    let read = ReadFile::text(text);
    let health = read.summary.environment.devices[0].health_end.clone().unwrap().nvme.unwrap();
    assert_eq!((health.critical_warning, health.temperature_c), (4, Some(78)));
    assert_eq!((health.spare_percent, health.used_percent, health.media_errors), (3, 104, 12));
}

#[test]
fn what_was_pasted_together_is_read_together() {
    let log = "[  243.0] INFO: task postgres:200 blocked for more than 120 seconds.\n\
               [  244.0] blk_update_request: I/O error, dev sda, sector 8 op 0x0:(READ)\n";
    let read = ReadFile::text(&format!("{IOSTAT_12}\n{log}"));
    assert_eq!(read.summary.environment.source, "iostat and dmesg");
    assert!(read.said().contains("postgres:200"), "{}", read.said());
    assert_eq!(read.rate("sda", Direction::Read), (80.0, 95.0));
    assert_eq!(read.summary.environment.devices[0].kernel_messages[0].kind, "error");
}
