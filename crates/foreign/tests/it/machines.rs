//! Sources that tell of the machine as well: sar's other tables, atop, PCP, node_exporter, and
//! small texts.

use super::*;
use iowhy_model::Metric;

/// Growth per second of a metric of the machine.
fn per_s(read: &ReadFile, metric: Metric) -> f64 {
    read.summary.samples.system(metric).and_then(|series| series.mean).unwrap()
}

#[test]
fn each_table_of_sar_has_its_own_timeline() {
    let text = "\
Linux 5.14.0 (web2) \t11/25/2026 \t_x86_64_\t(4 CPU)

11:50:00 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle
11:55:00 PM     all     10.00      0.00      5.00     50.00      0.00     35.00
12:00:00 AM     all     10.00      0.00      5.00     50.00      0.00     35.00
Average:        all     10.00      0.00      5.00     50.00      0.00     35.00

11:50:00 PM  pswpin/s pswpout/s
11:55:00 PM    100.00     10.00
12:00:00 AM    300.00     30.00
Average:       200.00     20.00

11:50:00 PM   runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked
11:55:00 PM         1       200      1.00      1.00      1.00         4
12:00:00 AM         1       200      1.00      1.00      1.00         8

11:50:00 PM       DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util
11:55:00 PM       sda    150.00   1200.00    400.00      8.00      3.00     20.00     97.00
12:00:00 AM       sda    150.00   1200.00    400.00      8.00      3.00     20.00     97.00
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.watch.duration_ns, 600_000_000_000);
    assert_eq!(per_s(&read, Metric::SwappedIn), 200.0 * 4096.0);
    assert_eq!(read.summary.samples.system(Metric::Blocked).unwrap().last, 8.0);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert!((device.util_share.unwrap() - 0.97).abs() < 1e-9);
    let all = device.kernel.unwrap().undirected.unwrap();
    assert_eq!((all.requests, all.wait_ns / all.requests), (90_000, 20_000_000));
    assert_eq!(read.causes()[0], "swap-io");
}

#[test]
fn rows_of_other_tables_of_sar_are_no_devices() {
    let text = "\
Linux 5.14.0 (web2) \t11/25/2026 \t_x86_64_\t(4 CPU)

22:00:00          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util
22:10:00          sda    150.00   1200.00    400.00      8.00      3.00     20.00     97.00
Average:          sda    150.00   1200.00    400.00      8.00      3.00     20.00     97.00

22:00:00        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s   %ifutil
22:10:00         eth0      5.00      5.00      1.00      1.00      0.00      0.00      0.00

22:00:00          BUS  idvend    idprod  maxpower manufact                  product
22:10:00            2    8087        24         0        1                        2        3
Summary:            2    8087        24         0        1                        2        3
";
    let read = ReadFile::text(text);
    let names: Vec<&str> =
        read.summary.devices.iter().map(|device| device.device.as_str()).collect();
    assert_eq!(names, ["sda"]);
}

#[test]
fn lines_of_another_host_are_left_out() {
    let host = |name: &str, util: &str| {
        format!(
            "Linux 5.14.0 ({name}) \t11/25/2026 \t_x86_64_\t(4 CPU)\n\n\
             22:00:00          DEV       tps     rkB/s     wkB/s   await     %util\n\
             22:10:00          sda    150.00   1200.00    400.00   20.00     {util}\n"
        )
    };
    let read = ReadFile::text(&(host("db1", "10.00") + &host("db2", "90.00")));
    assert_eq!(read.summary.environment.host, "db1");
    assert!((read.summary.devices[0].util_share.unwrap() - 0.1).abs() < 1e-9);
    assert!(read.said().contains("of another host"), "{}", read.said());
}

#[test]
fn two_tables_of_one_device_are_not_added() {
    let text = "\
Device            r/s     rkB/s   rrqm/s  r_await     w/s     wkB/s   wrqm/s  w_await  aqu-sz  %util
sda             10.00     80.00     0.00     2.00    0.00      0.00     0.00     0.00    0.02   2.00

Device            r/s     rkB/s   rrqm/s  r_await     w/s     wkB/s   wrqm/s  w_await  aqu-sz  %util
sda             50.00    400.00     0.00     4.00    0.00      0.00     0.00     0.00    0.20  20.00

22:00:00          DEV       tps     rkB/s     wkB/s   await     %util
22:10:00          sda    150.00   1200.00    400.00   20.00     90.00
22:10:00          sdb    150.00   1200.00    400.00   20.00     90.00
";
    let read = ReadFile::text(text);
    let util = |name: &str| {
        read.summary
            .devices
            .iter()
            .find(|device| device.device == name)
            .unwrap()
            .util_share
            .unwrap()
    };
    // iostat's rate of one second is extended over sar's ten minutes.
    assert!((util("sda") - 0.2).abs() < 1e-6, "{}", util("sda"));
    assert!((util("sdb") - 0.9).abs() < 1e-6);
    let said = read.said();
    assert!(said.contains("told by two tables") && said.contains("different length"), "{said}");
}

#[test]
fn atops_lines_and_its_json() {
    let text = "\
RESET
DSK vm 1795662027 2026/11/26 03:00:27 16972 vda 806060 2813138 360866090 1030892 481585574 \
0 0 0 14.21
SEP
CPU vm 1795662037 2026/11/26 03:00:37 10 100 2 100 300 0 100 1500 0 0 0 0 5192 100 0 0
PAG vm 1795662037 2026/11/26 03:00:37 10 4096 0 0 0 2560 10 0 0 0 0 83 36332
DSK vm 1795662037 2026/11/26 03:00:37 10 vda 9900 400 3200 600 4800 0 0 0 4.00
PRD vm 1795662037 2026/11/26 03:00:37 10 4711 (my db) S n y 400 3200 600 4800 0 4711 n y
SEP
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.environment.source, "atop");
    assert_eq!(read.summary.watch.duration_ns, 10_000_000_000);
    assert_eq!(per_s(&read, Metric::SwappedIn), 256.0 * 4096.0);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert!((device.util_share.unwrap() - 0.99).abs() < 1e-9);
    let written = read.summary.samples.get(Metric::CausedWrite, "4711 my db").unwrap();
    assert_eq!(written.change, Some(4800.0 * 512.0));
    let json = "\
{\"host\": \"vm\", \"timestamp\": 1795662031, \"elapsed\": 16976, \
\"DSK\": [{\"dskname\": \"vda\", \
\"io_ms\": 806204, \"nread\": 2813271, \"nrsect\": 360942754, \"nwrite\": 1033160, \
\"nwsect\": 481666910, \
\"avque\": 11452779}]}
{\"host\": \"vm\", \"timestamp\": 1795662041, \"elapsed\": 10, \"DSK\": [{\"dskname\": \"vda\", \
\"io_ms\": 9900, \"nread\": 400, \"nrsect\": 3200, \"nwrite\": 600, \
\"nwsect\": 4800, \"avque\": 39600}]}
";
    let read = ReadFile::text(json);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert!((device.util_share.unwrap() - 0.99).abs() < 1e-9);
    assert!((device.aqu_sz.unwrap() - 3.96).abs() < 1e-9);
    assert_eq!(read.causes(), ["device-saturated"]);
}

#[test]
fn node_exporters_metrics_are_copies() {
    let scrape = |time: u64, reads: u64| {
        format!(
            "# HELP node_disk_reads_completed_total The total number of reads.\n\
             # TYPE node_disk_reads_completed_total counter\n\
             node_boot_time_seconds 1.000e+09\n\
             node_disk_io_time_seconds_total{{device=\"sda\"}} {}\n\
             node_disk_reads_completed_total{{device=\"sda\"}} {reads}\n\
             node_disk_read_time_seconds_total{{device=\"sda\"}} {}\n\
             node_vmstat_pswpin {}\n\
             node_time_seconds {time}\n",
            reads as f64 / 100.0,
            reads as f64 / 50.0,
            reads * 2,
        )
    };
    let read = ReadFile::text(&(scrape(1_000_001_000, 1000) + &scrape(1_000_001_060, 7000)));
    assert_eq!(read.summary.environment.source, "prometheus");
    assert_eq!(read.summary.watch.duration_ns, 60_000_000_000);
    assert!((read.summary.devices[0].util_share.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(per_s(&read, Metric::SwappedIn), 12_000.0 * 4096.0 / 60.0);
    let alone = ReadFile::text(&scrape(1_000_001_000, 1000));
    assert!(alone.said().contains("since boot"), "{}", alone.said());
}

#[test]
fn pcps_json_and_sysstats() {
    let pcp = r#"{"@pcp": {"@hosts": [{"@host": "db9", "@metrics": [{"@interval": "10",
        "@timestamp": "2026-11-26 03:00:00", "disk": {"dev": {
            "read": {"@instances": [{"name": "sda", "value": "120.0"}]},
            "avactive": {"@instances": [{"name": "sda", "value": "980"}]},
            "aveq": {"@instances": [{"name": "sda", "value": "4200"}]}}},
        "swap": {"pagesin": {"value": "500"}}}]}]}}"#;
    let read = ReadFile::text(pcp);
    assert_eq!(read.summary.environment.host, "db9");
    assert!((read.summary.devices[0].util_share.unwrap() - 0.98).abs() < 1e-9);
    assert!((read.summary.devices[0].aqu_sz.unwrap() - 4.2).abs() < 1e-9);
    assert_eq!(read.causes()[0], "swap-io");
    let sadf = r#"{"sysstat": {"hosts": [{"nodename": "db9", "statistics": [
        {"timestamp": {"interval": 600}, "swap-pages": {"pswpin": 512.0, "pswpout": 80.0},
         "queue": {"blocked": 7}, "cpu-load": [{"cpu": "all", "user": 5.0, "iowait": 60.0,
         "idle": 35.0}], "disk": [{"disk-device": "sda", "tps": 300.0, "rkB": 1.0, "wkB": 1.0,
         "aqu-sz": 9.0, "await": 30.0, "util-percent": 99.0}]}]}]}}"#;
    let read = ReadFile::text(sadf);
    assert_eq!(per_s(&read, Metric::SwappedIn), 512.0 * 4096.0);
    assert_eq!(read.causes(), ["swap-io"], "it explains that the disk is saturated");
}

#[test]
fn small_texts() {
    let mdstat = "\
Personalities : [raid1]
md0 : active raid1 sdb1[2] sda1[0]
      976630464 blocks super 1.2 [2/1] [U_]
      [==>..................]  recovery = 12.6% (123/976630464) finish=100.0min speed=1K/sec
md1 : active raid1 sdb2[1] sda2[0]
      1024 blocks [2/2] [UU]
";
    let read = ReadFile::text(mdstat);
    assert_eq!(read.causes(), ["raid-resync"]);
    assert!(read.diagnosis.findings[0].sentence.contains("md0 is being rebuilt"));
    let histogram = "\
Tracing block device I/O... Hit Ctrl-C to end.

disk = sdb
     usecs               : count     distribution
         0 -> 1          : 0        |                                        |
      1024 -> 2047       : 100      |****************************************|
";
    let read = ReadFile::text(histogram);
    assert_eq!(read.summary.environment.devices[0].name, "sdb");
    let all = read.summary.devices[0].kernel.unwrap().undirected.unwrap();
    assert_eq!((all.requests, all.wait_ns / 100_000_000), (100, 1));
    let smart = "\
# smartctl -a /dev/nvme0
=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   0x08
Temperature:                        41 Celsius
Available Spare:                    2%
Percentage Used:                    118%
Media and Data Integrity Errors:    1,204
";
    let read = ReadFile::text(smart);
    let health = read.summary.environment.devices[0].health_end.clone().unwrap().nvme.unwrap();
    assert_eq!((health.critical_warning, health.media_errors), (8, 1204));
    assert_eq!(read.causes(), ["drive-health"]);
}

#[test]
fn mount_options_and_links_at_boot_are_no_errors() {
    let text = "\
[    1.2] ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)
[    1.3] ata2: SATA link down (SStatus 0 SControl 300)
[    1.4] nvme nvme0: Shutdown timeout set to 8 seconds
[    2.1] EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro
[    3.0] sd 0:0:0:0: [sda] Attached SCSI disk
";
    assert_eq!(ReadFile::text(text).causes(), Vec::<&str>::new());
}

#[test]
fn messages_without_a_time_are_messages() {
    let text = "\
dsk: detected capacity change from 0 to 655360
ata7.00: exception Emask 0x0 SAct 0x8000 SErr 0x0 action 0x6 frozen
ata7: hard resetting link
sd 6:0:0:0: [sdx] tag#15 timing out command, waited 180s
I/O error, dev sdx, sector 4096 op 0x1:(WRITE) flags 0x4800 phys_seg 1 prio class 2
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.environment.source, "dmesg");
    let names: Vec<&str> =
        read.summary.devices.iter().map(|device| device.device.as_str()).collect();
    assert_eq!(names, ["ata7", "sdx"]);
    assert!(read.causes().contains(&"device-reset"), "{:?}", read.causes());
    for other in ["sd card: a b", "data: 5", "nvme list", "ata: b", "hello: error"] {
        assert!(ReadFile::new(other.as_bytes()).is_err(), "{other}");
    }
}
