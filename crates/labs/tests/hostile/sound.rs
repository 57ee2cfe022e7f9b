//! The sound inputs that are spoiled: one or several of each kind that iowhy reads.
//!
//! What does not belong here: spoiling them (see [`crate::damage`]).

use crate::commands::InputKind;
use crate::files::InputFiles;
use crate::rows::SoundRows;
use iowhy_labs::captures::{GeneratorSettings, Mix, generate};
use iowhy_labs::error::Context;
use iowhy_labs::recorded::EditedTable;
use iowhy_labs::{Result, command, iowhy};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Events of a capture.
const EVENTS: u64 = 200;
/// Bytes of a text that are kept.
const MOST_TEXT: usize = 6_000;

/// An incident as the daemon describes it.
const INCIDENT: &str = r#"{"format": 1, "number": 7, "host": "db7", "begun_ns": 1795662031000000000,
 "recorded_from_ns": 1795661971000000000, "recorded_until_ns": 1795662091000000000,
 "utc_offset_s": 7200, "complete": true, "triggers": [{"kind": "finding", "cause": "hung-io",
 "device": "sda", "critical": true, "sentence": "sda has completed no request for 6.65 s"}],
 "more_triggers": 2, "findings":
 [{"cause": "hung-io", "severity": "critical", "confidence": "likely", "sentence": "sda hangs",
 "device": "sda", "process": "postgres", "pid": 4711, "container": null, "file": "/srv/a",
 "fix": "Look at the log.", "check": "dmesg"}], "lost_requests": 3}"#;

/// A minute of history as the daemon counts it.
const MINUTE: &str = r#"{"time_s":TIME,"watched_ns":60000000000,"devices":{"sda":{"read":
{"requests":120,"bytes":491520,"max_ns":9000000,"latency":[[1000000,100],[8000000,20]]}}},"waits":
{"device":1200000000},"groups":{"postgres":{"requests":120,"bytes":491520,"time_ns":1200000000}},
"findings":[{"cause":"device-saturated","severity":"warning","confidence":"likely","device":"sda"}],
"oldest_ns":9000000,"pressure_io_some_ns":1000,"lost_requests":1,"cost_ns":5000000}"#;

/// JSON that other tools print.
const JSON: &[&str] = &[
    r#"{"sysstat": {"hosts": [{"nodename": "db1", "release": "6.1.0", "machine": "x86_64",
"number-of-cpus": 8, "statistics": [{"disk": [{"disk_device": "vda", "r/s": 50.0, "rkB/s": 400.0,
"rrqm/s": 0.0, "r_await": 2.0, "w/s": 0.0, "wkB/s": 0.0, "wrqm/s": 0.0, "w_await": 0.0,
"aqu-sz": 0.1, "util": 10.0}]}]}]}}"#,
    r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "job_runtime": 10000, "read":
{"io_bytes": 40960000}, "write": {"io_bytes": 0}}], "disk_util": [{"name": "sdb", "read_ios": 10000,
"write_ios": 0, "read_merges": 0, "write_merges": 0, "read_ticks": 95000, "write_ticks": 0,
"in_queue": 95000, "util": 99.0}]}"#,
    r#"{"smartctl": {"version": [7, 3]}, "device": {"name": "/dev/sdc"}, "smart_status":
{"passed": false}, "ata_smart_attributes": {"table": [{"id": 197, "raw": {"value": 8}}]}}"#,
    r#"{"@pcp": {"@hosts": [{"@host": "db9", "@metrics": [{"@interval": "10", "@timestamp":
"2026-11-26 03:00:00", "disk": {"dev": {"read": {"@instances": [{"name": "sda", "value": "120.0"}]},
"avactive": {"@instances": [{"name": "sda", "value": "980"}]}}}, "swap": {"pagesin": {"value": "500"
}}}]}]}}"#,
    "{\"host\": \"vm\", \"timestamp\": 1795662031, \"elapsed\": 16976, \"DSK\": [{\"dskname\": \
     \"vda\", \"io_ms\": 806204, \"nread\": 2813271, \"nrsect\": 360942754, \"nwrite\": 1033160, \
     \"nwsect\": 481666910, \"avque\": 11452779}]}\n{\"host\": \"vm\", \"timestamp\": 1795662041, \
     \"elapsed\": 10, \"DSK\": [{\"dskname\": \"vda\", \"io_ms\": 9900, \"nread\": 400, \
     \"nrsect\": 3200, \"nwrite\": 600, \"nwsect\": 4800, \"avque\": 39600}]}\n",
];

/// A log of the kernel and a drive's own log.
const TEXTS: &[&str] = &[
    "Smart Log for NVME device:nvme0n1 namespace-id:ffffffff\ncritical_warning : 0x4\n\
     temperature : 78 C\navailable_spare : 3%\npercentage_used : 104%\nmedia_errors : 12\n",
    "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
     0.000004    supervise      1950   xvda1     W 13092560   4096      0.10    0.74\n\
     0.003058    my prog        1951   xvda1     R 13092432   4096      0.00    2.78\n",
];

/// Sound inputs, from which hostile ones are made.
pub struct SoundInputs {
    pub rows: SoundRows,
    /// The tables of the recording, cell by cell, with the paths of their segments.
    pub tables: Vec<(std::path::PathBuf, EditedTable)>,
    pub recording: InputFiles,
    /// All other inputs.
    others: Vec<(InputKind, InputFiles)>,
}

impl SoundInputs {
    /// Makes them in the empty directory `place`, from the files of the project.
    pub fn new(root: &Path, place: &Path) -> Result<SoundInputs> {
        let rows = SoundRows::read(&root.join("demo/recording"))?;
        let small = place.join("recording");
        rows.write(&small)?;
        let recording = InputFiles::read(&small)?;
        let mut tables = Vec::new();
        for (path, _) in &recording.0 {
            if let Some(table) = path.parent().filter(|parent| *parent != Path::new("")) {
                tables.push((path.clone(), EditedTable::read(&small.join(table))?));
            }
        }
        let mut others = captures(place)?;
        others.extend(texts(root)?.into_iter().map(|text| (InputKind::Text, text)));
        others.extend(JSON.iter().map(|text| (InputKind::Json, as_file(text.as_bytes()))));
        let record = InputFiles::default().with("incident.json", INCIDENT.as_bytes());
        let mut incident = record.with("findings.json", b"{\"findings\": []}");
        incident.0.extend(recording.clone().below("recording").0);
        others.push((InputKind::Incident, incident.below("incidents/000007")));
        others.push((InputKind::History, history()?));
        let mut reproduce = Command::new(iowhy::binary()?);
        let case = place.join("case");
        reproduce.arg("reproduce").arg(&small).arg("-o").arg(&case);
        command::output_of(reproduce)?;
        others.push((InputKind::Case, InputFiles::read(&case)?));
        let settings = root.join("packaging/iowhy.toml");
        let settings = fs::read(settings).context(|| "read the settings".to_owned())?;
        others.push((InputKind::Settings, as_file(&settings)));
        Ok(SoundInputs { rows, tables, recording, others })
    }

    /// The inputs of a kind.
    pub fn of_kind(&self, kind: InputKind) -> Vec<&InputFiles> {
        self.others.iter().filter(|(other, _)| *other == kind).map(|(_, files)| files).collect()
    }
}

/// Minutes of today and of yesterday: older ones are not read.
fn history() -> Result<InputFiles> {
    let mut files = InputFiles::default();
    for ago in ["now", "yesterday"] {
        let date = |form: &str| {
            let mut date = Command::new("date");
            date.args(["-u", "-d", ago, form]);
            command::output_of(date)
        };
        let time = date("+%s")?;
        let minute = MINUTE.replace('\n', "").replace("TIME", time.trim());
        let path = format!("history/{}.jsonl", date("+%F")?.trim());
        files = files.with(&path, format!("{minute}\n").repeat(5).as_bytes());
    }
    Ok(files)
}

fn as_file(bytes: &[u8]) -> InputFiles {
    InputFiles::default().with("file", bytes)
}

/// Makes blktrace's files, of each protocol and byte order, and blkparse's text of them.
fn captures(place: &Path) -> Result<Vec<(InputKind, InputFiles)>> {
    let mut made = Vec::new();
    let forms = [(Mix::Plain, 7, false), (Mix::Rich, 7, true), (Mix::Rich, 8, false)];
    for (mix, version, big_endian) in forms {
        let folder = place.join(format!("capture-{}", made.len()));
        fs::create_dir(&folder).context(|| "make a directory".to_owned())?;
        let sizes = GeneratorSettings { events: EVENTS, devices: 1, cpus: 2, ..Default::default() };
        generate(&folder, GeneratorSettings { mix, version, big_endian, ..sizes })
            .context(|| "write a capture".to_owned())?;
        made.push((InputKind::Capture, InputFiles::read(&folder)?));
    }
    Ok(made)
}

/// Returns texts of other tools: the beginnings of the project's examples.
fn texts(root: &Path) -> Result<Vec<InputFiles>> {
    let mut texts: Vec<InputFiles> = TEXTS.iter().map(|text| as_file(text.as_bytes())).collect();
    for folder in ["fuzz/seeds/text", "crates/foreign/tests/threads"] {
        let files = InputFiles::read(&root.join(folder))?;
        for (path, _) in &files.0 {
            let path = root.join(folder).join(path);
            let mut bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
            bytes.truncate(MOST_TEXT);
            texts.push(as_file(&bytes));
        }
    }
    Ok(texts)
}
