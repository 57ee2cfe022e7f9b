//! Forms that tools print beside their usual one, as their own manuals and tests show them; the
//! figures are ours.

use super::*;
use iowhy_diagnosis::finding::ImpactOf;
use iowhy_foreign::ForeignKind;
use iowhy_foreign::import::Bytes;
use iowhy_model::Metric;

#[test]
fn iostat_for_people_has_units_and_a_table_for_each_direction() {
    let report = |reads: &str| {
        format!(
            "     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device\n\
             {reads}    800.0k     0.00   0.0%   12.50     8.0k sda\n\
             0.00      0.0k     0.00   0.0%    0.00     0.0k sdb\n\n\
             w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device\n\
             2.00      1.5M     0.00   0.0%    4.00     0.8M sda\n\
             0.00      0.0k     0.00   0.0%    0.00     0.0k sdb\n\n\
             f/s f_await  aqu-sz  %util Device\n\
             0.50    8.00    1.26  63.0% sda\n\
             0.00    0.00    0.00   0.0% sdb\n\n"
        )
    };
    let banner = "Linux 6.1.0 (db1) \t11/25/26 \t_x86_64_\t(8 CPU)\n\n";
    let read = ReadFile::text(&format!("{banner}{}{}", report("1.00"), report("100.00")));
    assert_eq!(read.rate("sda", Direction::Read), (100.0, 12.5));
    assert_eq!(read.rate("sda", Direction::Write), (2.0, 4.0));
    let device = read.summary.devices.iter().find(|device| device.device == "sda").unwrap();
    assert!((device.util_share.unwrap() - 0.63).abs() < 1e-9);
    let written = device.directions[Direction::Write].bytes;
    assert_eq!(written, 1536 << 10, "1.5M of a column in kB are MiB");
    assert_eq!(read.summary.watch.duration_ns, 1_000_000_000, "parts of one interval");
}

#[test]
fn sadf_for_a_database_is_sar() {
    let text = "\
# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle
db1;600;2026-11-25 22:10:00 UTC;-1;10.00;0.00;5.00;60.00;0.00;25.00
# hostname;interval;timestamp;FAN;DEVICE;rpm;drpm
db1;600;2026-11-25 22:10:00 UTC;1;fan;1283.00;1283.00
# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;areq-sz;aqu-sz;await;%util
db1;600;2026-11-25 22:10:00 UTC;sda;150.00;1200.00;0.00;8.00;3.00;20.00;97.00
db1;600;2026-11-25 22:20:00 UTC;sda;150.00;1200.00;0.00;8.00;3.00;20.00;97.00
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.environment.source, "sar");
    assert_eq!(read.summary.environment.host, "db1");
    assert_eq!(read.summary.watch.duration_ns, 1_200_000_000_000);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert!((device.util_share.unwrap() - 0.97).abs() < 1e-9);
    assert!(read.summary.samples.system(Metric::CpuIoWait).is_some());
}

#[test]
fn sadf_with_a_line_for_each_figure_is_sar() {
    let mut text = String::new();
    for (of, columns) in [
        ("all", &[("%user", "10.00"), ("%iowait", "60.00"), ("%idle", "30.00")][..]),
        ("-", &[("pswpin/s", "100.00"), ("pswpout/s", "10.00")]),
        ("eth0", &[("rxpck/s", "5.00"), ("txpck/s", "5.00"), ("rxkB/s", "5.00")]),
        ("sda", &[("tps", "150.00"), ("rkB/s", "1200.00"), ("await", "20.00"), ("%util", "97.00")]),
    ] {
        for time in ["22:10:00", "22:20:00"] {
            for (column, figure) in columns {
                let line = format!("db1\t600\t2026-11-25 {time} UTC\t{of}\t{column}\t{figure}\n");
                text.push_str(&line);
            }
        }
    }
    let read = ReadFile::text(&text);
    assert_eq!(read.summary.environment.source, "sar");
    assert_eq!(read.summary.environment.host, "db1");
    assert_eq!(read.summary.watch.duration_ns, 1_200_000_000_000);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert!((device.util_share.unwrap() - 0.97).abs() < 1e-9);
    let swapped = read.summary.samples.system(Metric::SwappedIn).unwrap();
    assert_eq!(swapped.mean, Some(100.0 * 4096.0));
    assert!(read.summary.samples.system(Metric::CpuIoWait).is_some());
    assert!(!read.said().contains("of no known tool"), "{}", read.said());
}

#[test]
fn vmstats_disks_are_copies() {
    let copy = |reads: u64, ms: u64, busy_s: u64| {
        format!(
            "disk- ------------reads------------ ------------writes----------- -----IO------\n\
             \x20      total merged sectors      ms  total merged sectors      ms    cur    sec\n\
             sda    {reads}    100  841035    {ms}  50851   5502 1648657  146540      3 {busy_s}\n"
        )
    };
    let copies = [copy(1000, 8000, 40), copy(1500, 9000, 43)];
    let read = ReadFile::text(&copies.concat());
    assert_eq!(read.summary.environment.source, "vmstat");
    // It does not say which delay it was given.
    let device = &read.summary.devices[0];
    let counters = device.kernel.unwrap();
    let reads = counters.partial[Direction::Read].unwrap();
    assert_eq!((reads.requests_per_s, reads.bytes_per_s), (None, None));
    assert_eq!(reads.await_ns, Some(2_000_000.0));
    assert_eq!((device.util_share, device.aqu_sz, counters.directions.0), (None, None, [None; 5]));
    assert!(read.diagnosis.findings.is_empty(), "{:?}", read.causes());
    assert!(read.said().contains("rates and %util are not known"), "{}", read.said());

    let dated = copies.join("Fri Nov 27 07:13:44 UTC 2026\n");
    let dated = format!("Fri Nov 27 07:13:34 UTC 2026\n{dated}");
    let read = ReadFile::text(&dated);
    assert_eq!(read.rate("sda", Direction::Read), (50.0, 2.0));
    assert!((read.summary.devices[0].util_share.unwrap() - 0.3).abs() < 1e-9);

    let beside = "Device  r/s  rkB/s  rrqm/s  r_await  w/s  wkB/s  wrqm/s  w_await  aqu-sz  %util\n\
                  sdb  10.00  80.00  0.00  2.00  0.00  0.00  0.00  0.00  0.02  2.00\n\n";
    let read = ReadFile::text(&(beside.to_owned() + &copies.concat()));
    assert!(read.said().contains("1 interval was left out"), "{}", read.said());
    assert_eq!(read.rate("sdb", Direction::Read).0, 10.0);
    assert!(read.summary.devices.iter().all(|device| device.device != "sda"));
}

#[test]
fn lines_of_known_tools_are_not_skipped() {
    for (text, tool) in [
        (
            "top - 07:13:44 up 1 min,  0 users,  load average: 2.36, 0.78, 0.27\n\
             Tasks:  96 total,   1 running,  95 sleeping,   0 stopped,   0 zombie\n\
             %Cpu(s): 22.7 us, 59.1 sy,  0.0 ni, 13.6 id,  0.0 wa,  0.0 hi,  4.5 si,  0.0 st \n\
             MiB Mem :   1433.8 total,   1190.6 free,    280.4 used,    198.8 buff/cache     \n\
             MiB Swap:      0.0 total,      0.0 free,      0.0 used.   1153.4 avail Mem \n\n\
             \x20   PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n\
             \x20   292 root      20   0  204736   7088   1756 D   3.7   0.5   0:02.99 fio\n",
            "top",
        ),
        (
            "smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.12.117+deb13-amd64] (local build)\n\
             Copyright (C) 2002-23, Bruce Allen, Christian Franke, www.smartmontools.org\n\n\
             === START OF INFORMATION SECTION ===\n\
             Device Model:     QEMU HARDDISK\n\
             User Capacity:    134,217,728 bytes [134 MB]\n\n\
             === START OF READ SMART DATA SECTION ===\n\
             SMART overall-health self-assessment test result: PASSED\n\n\
             Self-test execution status:      (   0) The previous self-test routine completed\n\
             \t\t\t\t\twithout error or no self-test has ever \n",
            "smartctl",
        ),
        (
            "Personalities : [raid0] [raid1] \n\
             md0 : active raid1 loop1[1] loop0[0]\n\
             \x20     64512 blocks super 1.2 [2/2] [UU]\n\n\
             unused devices: <none>\n",
            "mdstat",
        ),
        (
            "procs ---------memory-------- ---swap-- ----io---- -system-- ------cpu------\n\
             \x20r  b  swpd   free  buff  cache   si   so   bi   bo   in   cs us sy id wa st gu\n\
             \x200  0     0 123002 10320 184768    0    0  758  326  220    6 18 58 23  1  0  0\n\
             \x200  0     0 122826 11028 185376    0    0    0 2804  814 2041  0 15 84  1  0  0\n",
            "vmstat",
        ),
    ] {
        let read = ReadFile::text(text);
        assert_eq!(read.summary.environment.source, tool);
        assert!(!read.said().contains("skipped"), "{tool}: {}", read.said());
        assert!(read.diagnosis.findings.is_empty(), "{tool}: {:?}", read.causes());
        let mut devices = read.summary.devices.iter();
        assert!(devices.all(|device| device.is_kernel_counted), "{tool}: no count is known");
    }
}

#[test]
fn what_only_happens_has_no_share_of_a_time() {
    let resync = "Personalities : [raid1] \n\
                  md0 : active raid1 loop1[1] loop0[0]\n\
                  \x20     64512 blocks super 1.2 [2/2] [UU]\n\
                  \x20     [=>....]  resync =  6.2% (4224/64512) finish=0.4min speed=2112K/sec\n";
    let hung = "[  122.284000] INFO: task sh:325 blocked for more than 120 seconds.\n";
    for (text, cause) in [(resync, "raid-resync"), (hung, "hung-io")] {
        let read = ReadFile::text(text);
        let [finding] = &read.diagnosis.findings[..] else { panic!("{:?}", read.causes()) };
        assert_eq!((finding.cause, finding.impact_of), (cause, ImpactOf::Unknown));
    }
}

#[test]
fn json_of_the_kernels_log() {
    let dmesg = "{\n\
                 \x20  \"dmesg\": [\n\
                 \x20     {\n\
                 \x20        \"pri\": 3,\n\
                 \x20        \"time\":    11.100000,\n\
                 \x20        \"msg\": \"nvme nvme0: I/O 12 QID 3 timeout, aborting\"\n\
                 \x20     }\n\
                 \x20  ]\n\
                 }\n";
    let journal = "{\"_TRANSPORT\":\"kernel\",\"__MONOTONIC_TIMESTAMP\":\"11100000\",\
                   \"MESSAGE\":\"nvme nvme0: I/O 12 QID 3 timeout, aborting\"}\n\
                   {\"_TRANSPORT\":\"syslog\",\
                   \"MESSAGE\":\"nvme nvme1: I/O 1 timeout, aborting\"}\n";
    for text in [dmesg, journal] {
        let read = ReadFile::text(text);
        assert_eq!(read.summary.environment.source, "dmesg", "{text}");
        assert_eq!(read.causes(), ["device-reset"], "{text}");
        let names: Vec<&str> =
            read.summary.devices.iter().map(|device| device.device.as_str()).collect();
        assert_eq!(names, ["nvme0n1"]);
    }
}

#[test]
fn iotops_reports_are_seconds_and_biotops_what_they_say() {
    let report = |rate: &str| {
        format!(
            "06:47:54 Total DISK READ :       4.97 M/s | Total DISK WRITE :      34.77 K/s\n\
             06:47:54 Actual DISK READ:       5.18 M/s | Actual DISK WRITE:     100.45 K/s\n\
             06:47:54  6787 be/4 postgres    {rate} M/s    0.00 B/s  0.00 %  2.16 % postgres: db\n"
        )
    };
    let read = ReadFile::text(&(report("4.00") + &report("2.00")));
    let moved = read.summary.samples.get(Metric::CausedRead, "6787 postgres:").unwrap();
    assert_eq!(moved.mean, Some(3.0 * 1024.0 * 1024.0), "the mean of two seconds");
    let text = "\
Tracing... Output every 5 secs. Hit Ctrl-C to end

08:04:11 loadavg: 1.48 0.87 0.45 1/287 14547

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
14501  ck sum           R 202 1   xvda1      500   28832   3.40
326    jbd2/xvda1-8     W 202 1   xvda1       50     168  10.00
";
    let read = ReadFile::text(text);
    assert_eq!(read.summary.environment.source, "biotop");
    // Merges are not told, so that directions are none of the kernel's.
    let all = read.summary.devices[0].kernel.unwrap().undirected.unwrap();
    assert_eq!((all.requests, all.wait_ns), (550, 2_200_000_000));
    assert_eq!(read.summary.watch.duration_ns, 5_000_000_000);
    let moved = read.summary.samples.get(Metric::CausedRead, "14501 ck sum").unwrap();
    assert_eq!(moved.change, Some(28832.0 * 1024.0));
}

#[test]
fn json_without_x_and_of_pidstat() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "db1", "statistics": [
        {"disk": [{"disk_device": "sda", "tps": 1.0, "MB_read/s": 0.0, "MB_wrtn/s": 0.0}]},
        {"disk": [{"disk_device": "sda", "tps": 80.0, "MB_read/s": 2.0, "MB_wrtn/s": 0.5},
            {"disk_device": " disks", "tps": 80.0, "MB_read/s": 2.0, "MB_wrtn/s": 0.5}],
         "task-io": [{"PID": "12", "TID": "", "kB_rd/s": 7.0, "kB_wr/s": -1.0, "cmd": "db"}]}
        ]}]}}"#;
    let read = ReadFile::text(text);
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert_eq!(device.kernel.unwrap().undirected.unwrap().requests, 80);
    let moved = read.summary.samples.get(Metric::CausedRead, "12 db").unwrap();
    assert_eq!(moved.change, Some(7168.0));
    assert!(read.summary.samples.get(Metric::CausedWrite, "12 db").is_none());
}

#[test]
fn pmrep_as_a_table_and_as_csv() {
    let table = [
        "          d.d.read  d.d.read  d.d.avactive  m.u.free",
        "               sda       sdb           sda          ",
        "           count/s   count/s          ms/s     Kbyte",
        "03:00:00       N/A       N/A           N/A       500",
        "03:00:10   120.000     0.000       980.000       500",
        "03:00:20   100.000     2.000       960.000       400",
    ]
    .join("\n");
    let csv = "\
Time,\"disk.dev.read[sda]\",\"disk.dev.read-sdb\",\"disk.dev.avactive[sda]\",\"mem.util.free\"
2026-11-26 03:00:00,,,,
2026-11-26 03:00:10,120.000,0.000,980.000,500
2026-11-26 03:00:20,100.000,2.000,960.000,400
";
    for text in [table.as_str(), csv] {
        let read = ReadFile::text(text);
        assert_eq!(read.summary.environment.source, "pmrep");
        assert_eq!(read.summary.watch.duration_ns, 20_000_000_000, "{text}");
        let util = |name: &str| {
            read.summary.devices.iter().find(|device| device.device == name).unwrap().util_share
        };
        assert!((util("sda").unwrap() - 0.97).abs() < 1e-9, "{text}");
        assert_eq!(util("sdb"), None, "not told");
        let all = read.summary.devices[0].kernel.unwrap().undirected.unwrap();
        assert_eq!(all.requests, 2200);
        assert_eq!(read.summary.samples.system(Metric::MemoryFree).unwrap().last, 400.0 * 1024.0);
    }
}

#[test]
fn fios_log_of_latencies() {
    let read = |text: &str| {
        let input: Bytes = Box::new(Cursor::new(text.as_bytes().to_vec()));
        ReadFile::of_kind(ForeignKind::FioLatLog, input)
    };
    let rows = "10, 2000000, 0, 4096, 8192, 0\n12, 4000000, 1, 8192, 0, 0x0003\n\
                2000, 1000, 0, 4096, 0, 0\n";
    let told = read(rows).unwrap();
    let [device] = &told.summary.devices[..] else { panic!("{:?}", told.summary.devices) };
    let reads = &device.directions[Direction::Read];
    assert_eq!((reads.requests, reads.bytes), (2, 8192));
    let whole = iowhy_analysis::Interval::Q2c;
    assert_eq!(reads.intervals[whole].unwrap().max_ns, 2_000_000);
    assert_eq!(told.summary.watch.duration_ns, 2_000_000_000);
    let means = read("1000, 2000000, 0, 0\n2000, 4000000, 0, 0\n").unwrap();
    assert!(means.said().contains("3.00 ms is the mean of their means"), "{}", means.said());
    assert!(means.summary.devices.is_empty(), "a mean is no request");
    assert!(read("hello\n").is_err());
    assert!(read("18446744073709551615, 18446744073709551615, 2, 18446744073709551615\n").is_ok());
}

#[test]
fn fios_logs_of_rates() {
    let read = |kind: ForeignKind, text: &str| {
        let input: Bytes = Box::new(Cursor::new(text.as_bytes().to_vec()));
        ReadFile::of_kind(kind, input).unwrap()
    };
    let bytes = |read: &ReadFile, direction: Direction| {
        let metric = match direction {
            Direction::Read => Metric::ReadBytes,
            _ => Metric::WriteBytes,
        };
        read.summary.samples.get(metric, "fio").unwrap().change.unwrap()
    };
    // Means of two jobs, the second behind the first.
    let text = "500, 100, 0, 0, 0\n500, 40, 1, 0, 0\n1500, 300, 0, 0, 0\n1000, 50, 0, 0, 0\n";
    let told = read(ForeignKind::FioBwLog, text);
    assert_eq!(told.summary.watch.duration_ns, 1_500_000_000);
    let kib = (100.0 * 0.5 + 300.0 * 1.0 + 50.0 * 1.0) * 1024.0;
    assert!((bytes(&told, Direction::Read) - kib).abs() < 1.0);
    assert!((bytes(&told, Direction::Write) - 20.0 * 1024.0).abs() < 1.0);
    let [device] = &told.summary.devices[..] else { panic!("{:?}", told.summary.devices) };
    let reads = device.kernel.unwrap().partial[Direction::Read].unwrap();
    assert!((reads.bytes_per_s.unwrap() - kib / 1.5).abs() < 1.0);
    assert_eq!((reads.requests_per_s, reads.await_ns), (None, None), "not told");
    let text = "1000, 80, 0, 0\n2000, 120, 0, 0\n";
    let told = read(ForeignKind::FioIopsLog, text);
    let reads = told.summary.samples.get(Metric::Reads, "fio").unwrap();
    assert_eq!(reads.change, Some(200.0));
    // Without means each row is a request.
    for kind in [ForeignKind::FioBwLog, ForeignKind::FioIopsLog] {
        let told = read(kind, "0, 16193, 0, 4096, 0\n1, 44943, 0, 8192, 0\n4, 1, 1, 4096, 0\n");
        assert_eq!(told.summary.samples.get(Metric::Reads, "fio").unwrap().last, 2.0);
        assert_eq!(bytes(&told, Direction::Read), 12_288.0);
        assert_eq!(told.causes(), Vec::<&str>::new());
    }
}

#[test]
fn a_tools_page_may_name_tracepoints() {
    let text = "\
Traces block_rq_insert and block_rq_complete: see below.
COMM             PID    TYPE DEV      BLOCK        BYTES     LATms
supervise        1809   W    202,1    17039968     4096       1.32
";
    assert_eq!(ReadFile::text(text).summary.devices.len(), 1);
    assert_eq!(iowhy_foreign::kind::detect(text.as_bytes()), Some(ForeignKind::Biosnoop));
}
