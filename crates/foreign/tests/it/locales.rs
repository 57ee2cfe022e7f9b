//! sysstat's output in other languages: times, means and figures as its locales write them.

use super::*;
use iowhy_model::Metric;

/// A report of `sar -d` with this time before each line, `SS` standing for the seconds.
fn sar(time: &str, mean: &str) -> String {
    let at = |second: &str| time.replace("SS", second);
    let row = |before: &str, reads: &str| {
        format!("{before}  dsk  {reads}  1200,00  0,00  8,00  3,00  20,00  97,00\n")
    };
    let mut text = "Linux 6.1.0 (db1) \t25/11/26 \t_x86_64_\t(4 CPU)\n\n".to_owned();
    text += &format!("{}  DEV  tps  rkB/s  wkB/s  areq-sz  aqu-sz  await  %util\n", at("05"));
    text += &(row(&at("15"), "150,00") + &row(&at("25"), "150,00"));
    text += &format!(
        "\n{}  IFACE  rxpck/s  txpck/s  rxkB/s  txkB/s  rxcmp/s  txcmp/s  %ifutil\n",
        at("05")
    );
    text += &format!("{}  eth0  1,00  1,00  1,00  1,00  1,00  1,00  1,00\n", at("15"));
    text + &format!("\n{mean}  DEV  tps  rkB/s  wkB/s  areq-sz  aqu-sz  await  %util\n")
        + &row(mean, "150,00")
}

#[test]
fn sars_times_and_means_are_those_of_any_locale() {
    for (time, mean) in [
        ("18:16:SS", "Durchschn.:"),
        ("06:16:SS PM UTC", "Average:"),
        ("18.16.SS", "Keskiarvo:"),
        ("18時16分SS秒", "平均時間："),
        ("18시 16분 SS초", "평균값:"),
        ("06:16:SS μμ", "Average:"),
        ("06:16:SS अपराह्न UTC", "Average:"),
        ("UTC 06:16:SS م", "Average:"),
        ("18:16:SS", "Moyenne\u{202f}:"),
        ("18:16:SS", "Trung bình:"),
    ] {
        let read = ReadFile::text(&sar(time, mean));
        assert_eq!(read.summary.watch.duration_ns, 20_000_000_000, "{time}");
        let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
        assert!((device.util_share.unwrap() - 0.97).abs() < 1e-9, "{time}");
        assert_eq!(device.kernel.unwrap().undirected.unwrap().requests, 3000, "{time}");
    }
}

#[test]
fn times_without_seconds_are_no_intervals() {
    let read = ReadFile::text(&sar("kl. 18.16 +0000", "Gj.snitt:"));
    assert_eq!(read.summary.watch.duration_ns, 2_000_000_000, "two reports of unknown length");
    assert!(read.said().contains("2 intervals have no time"), "{}", read.said());
    let [device] = &read.summary.devices[..] else { panic!("{:?}", read.summary.devices) };
    assert!((device.util_share.unwrap() - 0.97).abs() < 1e-9);
    let far = sar("kl. 18.SS +0000", "Gj.snitt:");
    assert_eq!(ReadFile::text(&far).summary.watch.duration_ns, 1_200_000_000_000);
}

#[test]
fn pidstats_means_are_no_intervals_and_its_threads_no_processes() {
    for (time, mean) in
        [("18:16:", "Moyenne\u{202f}:"), ("18:16:", "Trung bình:"), ("18:16:", "Average:")]
    {
        let text = format!(
            "Linux 6.1.0 (db1) \t25/11/2026 \t_x86_64_\t(2 CPU)\n\n\
             {time}05      UID      TGID       TID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n\
             {time}06      999        12         -      0,00    100,00      0,00       0  /db -x\n\
             {time}06      999         -        13      0,00    100,00      0,00       0  |__db\n\n\
             {mean}      UID      TGID       TID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n\
             {mean}      999        12         -      0,00    100,00      0,00       0  /db -x\n"
        );
        let read = ReadFile::text(&text);
        assert_eq!(read.summary.watch.duration_ns, 1_000_000_000, "{mean}");
        let written = read.summary.samples.get(Metric::CausedWrite, "12 db").unwrap();
        assert_eq!(written.change, Some(102_400.0), "{mean}");
        assert!(read.summary.samples.get(Metric::CausedWrite, "13 |__db").is_none());
        assert!(!read.said().contains("skipped"), "{}", read.said());
    }
}

#[test]
fn pidstat_in_one_line_has_seconds_since_1970() {
    let text = "\
#      Time   UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
 1795644600   999      1234      0.00   2048.00      0.00      12  a program
#      Time   UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
 1795644610   999      1234      0.00   2048.00      0.00      12  a program
";
    let read = ReadFile::text(text);
    let written = read.summary.samples.get(Metric::CausedWrite, "1234 a program").unwrap();
    assert_eq!(written.change, Some(11.0 * 2048.0 * 1024.0));
}

#[test]
fn iostats_times_are_those_of_any_locale() {
    for time in ["2026年11月25日 22时40分SS秒", "il-Ġimgħa, 25 ta Nov, 2026 22:40:SS UTC"] {
        let report = |second: &str| {
            let time = time.replace("SS", second);
            format!("{time}\nDevice r/s rkB/s w/s wkB/s %util\ndsk 1,00 8,00 0,00 0,00 50,00\n\n")
        };
        let read = ReadFile::text(&["00", "05", "10"].map(report).concat());
        assert_eq!(read.summary.watch.duration_ns, 10_000_000_000, "{time}");
    }
}
