//! Each filter keeps exactly the requests that it selects: one mixed load on two devices, recorded
//! once without a filter, and the result of each filter compared row by row.

use crate::recording::Recording;
use crate::records::RecordBytes;
use crate::support::{finish, iowhy, printed, refused, trial};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, LoopDevice,
};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, fio, machine};
use iowhy_model::{Operation, Request, RequestPart, Status};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("filters::of_a_report_keep_what_they_say", of_a_report),
        trial("filters::of_a_watch_keep_what_they_say", of_a_watch),
        trial("filters::of_stages_choose_among_events_and_requests", of_stages),
    ]
}

/// A file system and a bare device, with files to read and a cgroup to read from.
struct FilteredLoads {
    scratch: Arc<Scratch>,
    disk: LabFileSystem,
    bare: LoopDevice,
    cgroup: LabCgroup,
    file: PathBuf,
}

impl FilteredLoads {
    fn new() -> Result<FilteredLoads> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
        let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
        let bare = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
        let cgroup = LabCgroup::block(&scratch)?;
        let file = fio::prepare(&disk.path().join("data"), 8 * MIB)?;
        disk.remount()?;
        Ok(FilteredLoads { scratch, disk, bare, cgroup, file })
    }

    /// Data and metadata, reads and writes, short and long, by two programs, inside of a cgroup and
    /// out.
    fn load(&self) -> String {
        let mut inside = Command::new("dd");
        let of = format!("if={}", self.bare.path().display());
        inside.args([&of, "of=/dev/null", "bs=4k", "count=64", "iflag=direct", "status=none"]);
        let inside = self.cgroup.inside(&inside);
        let words = inside.get_args().map(|word| format!("'{}'", word.to_string_lossy()));
        let inside = words.collect::<Vec<_>>().join(" ");
        format!(
            "set -e; cat {file} >/dev/null; /bin/sh {inside}; \
             dd if=/dev/zero of={folder}/new bs=64k count=32 conv=fsync status=none; \
             dd if={bare} of=/dev/null bs=1M count=8 iflag=direct status=none; \
             mkdir {folder}/sub; sync -f {folder}",
            file = self.file.display(),
            folder = self.disk.path().display(),
            bare = self.bare.path().display(),
        )
    }

    /// A recording of the load with these arguments, which was not filtered otherwise.
    fn record(&self, arguments: &[&str]) -> Result<(PathBuf, Recording)> {
        let output = self.scratch.fresh("recording");
        let mut record =
            iowhy(["record", "-d", self.disk.device().name(), "-d", self.bare.name()])?;
        record.args(arguments).arg("-o").arg(&output);
        record.args(["--", "/bin/sh", "-c", &self.load()]);
        let result = finish(record)?;
        assert!(result.status.success(), "{}", printed(&result));
        let recording = Recording::open(&output)?;
        Ok((output, recording))
    }
}

type Keeps<'a> = Box<dyn Fn(&Request, &[&RequestPart]) -> bool + 'a>;

/// Requests that the test itself would keep.
fn expected(recording: &Recording, keeps: &Keeps) -> BTreeSet<u64> {
    let parts = |id: u64| {
        recording.parts.iter().filter(move |part| part.request_id == id).collect::<Vec<_>>()
    };
    let kept =
        recording.requests.iter().filter(|request| keeps(request, &parts(request.request_id)));
    kept.map(|request| request.request_id).collect()
}

/// The number of these requests with a complete record.
fn whole(recording: &Recording, wanted: &BTreeSet<u64>) -> u64 {
    let whole = recording.requests.iter().filter(|request| {
        let ended = matches!(request.status, Status::Complete | Status::Error);
        wanted.contains(&request.request_id) && ended && request.q2c_ns.is_some()
    });
    whole.count() as u64
}

/// Returns the number of requests in the stages of a recording, by its requests.
fn in_stages(recording: &Path, arguments: &[String]) -> Result<u64> {
    let mut command = iowhy(["stages"])?;
    command.arg(recording).args(arguments);
    Ok(samples(&command::output_of(command)?, "Q2C"))
}

/// In the first table, that of all devices.
fn samples(stages: &str, stage: &str) -> u64 {
    let row = stages.lines().find(|line| line.split_whitespace().next() == Some(stage));
    let count = row.and_then(|row| row.split_whitespace().nth(1)?.replace(',', "").parse().ok());
    count.unwrap_or_default()
}

/// Returns the requests that `iowhy snoop` shows of a recording, and the number in `iowhy report`.
fn kept(recording: &Path, arguments: &[String]) -> Result<(BTreeSet<u64>, u64)> {
    let of = |words: &[&str]| -> Result<String> {
        let mut command = iowhy(words)?;
        command.arg(recording).args(arguments);
        command::output_of(command)
    };
    let lines = of(&["snoop", "--json"])?;
    let ids = lines.lines().map(|line| {
        let line: serde_json::Value =
            serde_json::from_str(line).context(|| "read a line of JSON".to_owned())?;
        Ok(line["request_id"].as_u64().unwrap_or_default())
    });
    let ids: Result<BTreeSet<u64>> = ids.collect();
    let report: serde_json::Value = serde_json::from_str(&of(&["report", "--json"])?)
        .context(|| "read iowhy's JSON".to_owned())?;
    Ok((ids?, report["watch"]["requests"].as_u64().unwrap_or_default()))
}

fn of_a_report() -> Result<()> {
    let stage = FilteredLoads::new()?;
    let (path, recording) = stage.record(&[])?;
    let from = &recording;
    let mut lengths: Vec<u64> =
        recording.requests.iter().filter_map(|request| request.q2c_ns).collect();
    lengths.sort_unstable();
    // In whole microseconds, so that it can be given in milliseconds.
    let above = lengths.get(lengths.len() / 2).copied().unwrap_or(0) / 1000 * 1000;
    let is_cat = |name| recording.text(name) == "cat";
    let cat = recording.requests.iter().find(|row| is_cat(row.process)).and_then(|row| row.pid);
    let cat = cat.expect("cat's reads were seen");
    let cgroup = stage.cgroup.name();
    let (bare, file) = (stage.bare.name().to_owned(), stage.file.to_string_lossy().into_owned());
    let filters: Vec<(Vec<String>, Keeps)> = vec![
        (words("--operation write"), Box::new(|row, _| row.operation == Operation::Write)),
        (words("--flags M"), Box::new(|row, _| from.text(row.rwbs).contains('M'))),
        (
            words("--flags SW"),
            Box::new(|row, _| ['S', 'W'].iter().all(|flag| from.text(row.rwbs).contains(*flag))),
        ),
        (
            words(&format!("--above {}", above as f64 / 1e6)),
            Box::new(move |row, _| row.least_ns(from.environment.end_ns) >= Some(above)),
        ),
        (words(&format!("--device {bare}")), Box::new(|row, _| from.text(row.device) == bare)),
        (words(&format!("--device /dev/{bare}")), Box::new(|row, _| from.text(row.device) == bare)),
        (
            words("--process cat"),
            Box::new(|row, parts| {
                is_cat(row.process) || parts.iter().any(|part| is_cat(part.owner))
            }),
        ),
        (
            words(&format!("--process {cat}")),
            Box::new(move |row, parts| {
                row.pid == Some(cat) || parts.iter().any(|part| part.owner_pid == Some(cat))
            }),
        ),
        (words(&format!("--cgroup {cgroup}")), Box::new(|row, _| from.text(row.cgroup) == cgroup)),
        (
            words(&format!("--file {file}")),
            Box::new(|_, parts| parts.iter().any(|part| from.text(part.file).starts_with(&file))),
        ),
        (
            words(&format!("--device {bare} --operation read --process dd --cgroup {cgroup}")),
            Box::new(|row, _| from.text(row.device) == bare && from.text(row.cgroup) == cgroup),
        ),
    ];
    let all = recording.requests.len();
    for (arguments, keeps) in &filters {
        let wanted = expected(&recording, keeps);
        let (found, counted) = kept(&path, arguments)?;
        assert_eq!(found, wanted, "{arguments:?}: {}", recording.overview());
        assert_eq!(counted, wanted.len() as u64, "{arguments:?}: {}", recording.overview());
        assert_eq!(in_stages(&path, arguments)?, whole(from, &wanted), "stages {arguments:?}");
        assert!(!wanted.is_empty() && wanted.len() < all, "{arguments:?} tells nothing apart");
    }
    expect_nothing(&path)
}

/// No request is both a write and a read. An empty result is reported, unless waits remain, which
/// have no flags.
fn expect_nothing(path: &Path) -> Result<()> {
    for view in ["snoop", "report", "stages"] {
        let mut command = iowhy([view])?;
        command.arg(path).args(words("--operation write --flags R"));
        let said = finish(command)?;
        let is_refused = printed(&said).contains("nothing was selected by --operation write");
        assert!(is_refused || said.status.success(), "{view}: {}", printed(&said));
    }
    let (mut snoop, nothing) = (iowhy(["snoop", "--json"])?, words("--operation write --flags R"));
    snoop.arg(path).args(nothing);
    let lines = finish(snoop)?.stdout;
    assert!(lines.is_empty(), "nothing is both: {}", String::from_utf8_lossy(&lines));
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A watch with a filter records nothing else.
fn of_a_watch() -> Result<()> {
    let stage = FilteredLoads::new()?;
    let name = stage.cgroup.name();
    for (arguments, keeps) in [
        (
            ["--operation", "read"],
            &(|row: &Request, _: &str| row.operation == Operation::Read)
                as &dyn Fn(&Request, &str) -> bool,
        ),
        (["--cgroup", &name], &|_, cgroup| cgroup == name),
    ] {
        let (_, recording) = stage.record(&arguments)?;
        assert!(!recording.requests.is_empty(), "{arguments:?}");
        for request in &recording.requests {
            assert!(keeps(request, recording.text(request.cgroup)), "{arguments:?}: {request:?}");
        }
        let kept = &recording.environment.filter;
        assert!(kept.ends_with(&arguments.join(" ")), "{kept}");
        std::fs::remove_dir(stage.disk.path().join("sub")).context(|| "remove it".to_owned())?;
    }
    Ok(())
}

/// Twelve reads of one device and five writes of another, as events and as requests.
fn of_stages() -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    let capture = folder.path().join("all.blktrace.0");
    let recording = folder.path().join("recording");
    let reads = (0..60).map(RecordBytes::for_number);
    let write = |number| RecordBytes {
        action: (RecordBytes::for_number(number).action & !0x1_0000) | 0x2_0000,
        device: (8 << 20) | 16,
        ..RecordBytes::for_number(number)
    };
    let records = reads.chain((60..85).map(write)).flat_map(|record| record.bytes());
    std::fs::write(&capture, records.collect::<Vec<u8>>()).context(|| "write it".to_owned())?;
    let mut import = iowhy(["import", "--events", "-o"])?;
    import.arg(&recording).arg(&capture);
    command::output_of(import)?;
    let of = |source: &Path, arguments: &str| -> Result<String> {
        let mut command = iowhy(["stages"])?;
        command.arg(source).args(words(arguments));
        command::output_of(command)
    };
    // The capture's name is that of its first device.
    for (source, second) in [(&capture, "8,16"), (&recording, "8:16")] {
        assert_eq!(samples(&of(source, "--above 0")?, "Q2C"), 17);
        let (all, one) = (of(source, "-d all")?, of(source, &format!("-d {second}"))?);
        let wanted = if source == &capture { 17 } else { 12 };
        assert_eq!((samples(&all, "Q2C"), samples(&one, "Q2C")), (wanted, 5), "{all}{one}");
        assert!(!one.contains("from requests"), "{one}");
        let compatible = of(source, &format!("-d {second} --btt-compat"))?;
        assert!(compatible.contains("8, 16") && !compatible.contains("8,  0"), "{compatible}");
        for (arguments, count) in [("--operation write", 5), ("--flags R", 12), ("-p 77", 17)] {
            let answer = of(source, arguments)?;
            assert_eq!(samples(&answer, "Q2C"), count, "{arguments}: {answer}");
            assert!(answer.contains("from requests"), "{answer}");
        }
        let mut both = iowhy(["stages", "--btt-compat", "--flags", "R"])?;
        both.arg(source);
        let (_, text) = refused(both)?;
        assert!(text.contains("--flags R: events do not have that data"), "{text}");
    }
    Ok(())
}
