//! One test for each tool.

use super::*;
use iowhy_model::Metric;

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
fn each_run_of_iostat_begins_with_a_mean_since_boot() {
    let later = IOSTAT_12.replace("22:40", "22:50");
    let read = ReadFile::text(&format!("{IOSTAT_12}\n{later}"));
    assert_eq!(read.rate("sda", Direction::Read), (80.0, 95.0));
    assert_eq!(read.summary.watch.duration_ns, 20_000_000_000);
    assert!(
        read.said().contains("1 further run whose first report, usually a mean since boot"),
        "{}",
        read.said()
    );
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
        device.directions[direction].intervals[iowhy_analysis::Interval::D2c].unwrap().max_ns
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

#[test]
fn a_failing_attribute_is_the_drives_verdict() {
    let text = |kind: &str, failed: &str| {
        format!(
            "ID# ATTRIBUTE_NAME FLAG VALUE WORST THRESH TYPE UPDATED WHEN_FAILED RAW_VALUE\n\
             \x20 5 Reallocated_Sector_Ct 0x0033 001 001 140 {kind} Always {failed} 1960\n"
        )
    };
    let json = |failed: &str, prefailure: bool| {
        format!(
            r#"{{"smartctl": {{"version": [7, 3]}}, "device": {{"name": "/dev/dsk"}},
            "ata_smart_attributes": {{"table": [{{"id": 5, "when_failed": "{failed}",
            "flags": {{"prefailure": {prefailure}}}, "raw": {{"value": 1960}}}}]}}}}"#
        )
    };
    for failing in [text("Pre-fail", "FAILING_NOW"), json("now", true)] {
        assert_eq!(ReadFile::text(&failing).causes(), ["drive-health"], "{failing}");
    }
    for sound in [
        text("Pre-fail", "In_the_past"),
        text("Old_age", "FAILING_NOW"),
        text("Pre-fail", "-"),
        json("past", true),
        json("now", false),
    ] {
        assert_eq!(ReadFile::text(&sound).causes(), Vec::<&str>::new(), "{sound}");
    }
}

#[test]
fn blocked_threads_are_told_without_cpu_time() {
    let queue = |blocked: u32| {
        format!(
            "10:00:01 AM   runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked\n\
             10:01:01 AM         0       500      9.00      8.00      7.00        {blocked}\n\
             10:02:01 AM         1       500      9.00      8.00      7.00        {blocked}\n"
        )
    };
    let iotop = |share: &str| {
        format!(
            "Total DISK READ :       0.00 B/s | Total DISK WRITE :      50.00 M/s\n\
             Actual DISK READ:       0.00 B/s | Actual DISK WRITE:      50.00 M/s\n\
             \x20 TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN     IO>    COMMAND\n\
             \x20 312 be/3 root        0.00 B/s    0.00 B/s  0.00 % {share} % [jbd2/dsk-8]\n\
             \x20 712 be/4 db          0.00 B/s   50.00 M/s  0.00 % 90.00 % db: writer\n"
        )
    };
    for text in [queue(9), iotop("99.00")] {
        let read = ReadFile::text(&text);
        let [finding] = &read.diagnosis.findings[..] else { panic!("{text}: {:?}", read.causes()) };
        assert_eq!(finding.cause, "blocked-unknown");
        assert_eq!(finding.confidence, iowhy_diagnosis::finding::Confidence::Possible);
        assert!(!finding.sentence.contains("CPUs"), "{}", finding.sentence);
    }
    for text in [queue(1), iotop("20.00")] {
        assert_eq!(ReadFile::text(&text).causes(), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn biotops_reports_are_as_long_as_its_times_tell() {
    let report = |time: &str| {
        format!(
            "{time} loadavg: 0.59 0.13 0.04 1/80 210\n\n\
             PID     COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms\n\
             210     a program        R 254 16  dsk        120     480   1.00\n\
             0                        R 254 16  dsk         15       0   1.88\n\n"
        )
    };
    let read = ReadFile::text(&["23:59:57", "00:00:01", "00:00:05"].map(report).concat());
    assert_eq!(read.summary.watch.duration_ns, 12_000_000_000);
    assert!(!read.said().contains("was taken for a second"), "{}", read.said());
    assert!(!read.said().contains("skipped"), "{}", read.said());
    let read = ReadFile::text(&report("10:00:00"));
    assert!(
        read.said().contains("nothing tells how long a report of biotop is"),
        "{}",
        read.said()
    );
}

#[test]
fn iostats_json_tells_its_intervals_by_times() {
    let report = |time: &str| {
        format!(r#"{{"timestamp": "{time}", "disk": [{{"disk_device": "dsk", "r/s": 5.0}}]}}"#)
    };
    for times in [
        ["2026-11-27T18:21:38+0000", "2026-11-27T18:21:40+0000", "2026-11-27T18:21:42+0000"],
        ["11/27/26 18:21:38", "11/27/26 18:21:40", "11/27/26 18:21:42"],
    ] {
        let text = format!(
            r#"{{"sysstat": {{"hosts": [{{"nodename": "db1", "statistics": [{}]}}]}}}}"#,
            times.map(report).join(",")
        );
        let read = ReadFile::text(&text);
        assert_eq!(read.summary.watch.duration_ns, 4_000_000_000);
        assert!(!read.said().contains("taken for a second"), "{}", read.said());
    }
}

#[test]
fn a_compressed_text_is_read() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(IOSTAT_12.as_bytes()).unwrap();
    let read = ReadFile::new(&encoder.finish().unwrap()).unwrap();
    assert_eq!(read.rate("sda", Direction::Read), (80.0, 95.0));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"hello\n").unwrap();
    assert!(ReadFile::new(&encoder.finish().unwrap()).is_err(), "it is of no kind");
}

#[test]
fn rows_of_sars_other_tables_are_known() {
    let text = "\
Linux 5.14.0 (web2) \t11/25/2026 \t_x86_64_\t(4 CPU)

23:00:00        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s
23:00:10         eth0      1.00      2.00      3.00      4.00

23:00:00          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util
23:00:10          dsk    150.00   1200.00      0.00      8.00      3.00     20.00     97.00

23:00:00        TTY   rcvin/s   xmtin/s framerr/s
23:00:10          0      0.00      0.00      0.00

Average:        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s
Average:         eth0      1.00      2.00      3.00      4.00
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.devices.len(), 1);
    assert!(!read.said().contains("skipped"), "{}", read.said());
}

#[test]
fn block_events_among_other_lines_are_counted_apart() {
    let event = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n";
    let remap = "  8,0    3        1     0.000000000   697  A   W 223490 + 8 [a] <- (8,1) 5\n";
    let text = format!("{IOSTAT_12}\n{event}{remap}something else\n");
    let mut import = ForeignImport::new(ForeignKind::Iostat, Box::new(Cursor::new(text)))
        .leaving_out(|line| line.contains(" + 8 ["));
    let (mut batch, mut names) = (Batch::default(), Names::new());
    while import.fill(&mut batch, &mut names).unwrap() != Progress::Done {}
    let said = import.environment().limits.join("\n");
    assert!(said.contains("2 lines of block events were left out"), "{said}");
    assert!(said.contains("1 line was skipped, of no known tool"), "{said}");
}

#[test]
fn what_follows_a_json_is_said_to_be_unread() {
    let json = r#"{"sysstat": {"hosts": [{"nodename": "db1", "statistics": [
        {"disk": [{"disk_device": "dsk", "r/s": 5.0}]}]}]}}"#;
    let log = "[   11.500000] nvme nvme0: I/O 12 QID 3 timeout, aborting";
    for (text, is_said) in [
        (json.to_owned(), false),
        (format!("{json}\n\n"), false),
        (format!("{json}\n{log}\n"), true),
        (format!("{json}\n{json}\n"), true),
    ] {
        let said = ReadFile::text(&text).said();
        assert_eq!(said.contains("what follows its JSON was not read"), is_said, "{said}");
    }
}
