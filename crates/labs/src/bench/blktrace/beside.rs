//! Comparison with the text of blkparse and the figures of btt, capture by capture.

use crate::captures::{self, Mix};
use crate::error::Context;
use crate::{Result, command, iowhy};
use std::fmt::Write;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One capture, and the settings of its comparison.
struct Case {
    title: String,
    /// The folder in which the tools run.
    folder: PathBuf,
    /// The input.
    names: Vec<String>,
    /// btt 1.3.0's report; else the btt that is installed is run.
    reference: Option<PathBuf>,
    /// Whether blkparse can read it directly.
    text: bool,
    /// Whether btt has anything to report.
    figures: bool,
    note: &'static str,
}

/// Compares every capture and gives the table.
pub fn table(memory: &Path, traces: &Path) -> Result<String> {
    let mut page = String::from(
        "`iowhy events --blkparse-compat` compared with blkparse's text and summary, and `iowhy \
         stages --btt-compat` with btt's report: of btt 1.3.0 if it is kept with the capture, else \
         of the btt above.\n\n| capture | text | figures | |\n|---|---|---|---|\n",
    );
    let mut cases = generated(memory)?;
    if traces.is_dir() {
        cases.extend(real(memory, traces)?);
    } else {
        page.push_str("| real captures | not compared: they are not on this machine | | |\n");
    }
    for case in &cases {
        let work = memory.join("compared");
        fs::create_dir_all(&work).context(|| format!("make {}", work.display()))?;
        let text = if case.text { case.text(&work)? } else { "–".to_owned() };
        let figures = if case.figures { case.figures(&work)? } else { "–".to_owned() };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {} | {text} | {figures} | {} |", case.title, case.note);
        fs::remove_dir_all(&work).context(|| format!("remove {}", work.display()))?;
    }
    Ok(page)
}

fn generated(memory: &Path) -> Result<Vec<Case>> {
    const SPLIT: &str = "btt 1.2.0 counts a split bio's G and I twice; fixed in 1.3.0";
    let base = captures::GeneratorSettings {
        events: 200_000,
        devices: 5,
        ..captures::GeneratorSettings::default()
    };
    let kinds = [
        ("Q G I D C", Mix::Plain, false, ""),
        ("merges, requeues, flushes, remaps, plugs", Mix::Unsplit, false, ""),
        ("the same, big-endian", Mix::Unsplit, true, ""),
        ("the same with splits", Mix::Rich, false, SPLIT),
        ("D and C only", Mix::IssueOnly, false, "btt prints no latencies without Q"),
        ("Q and C only", Mix::BioOnly, false, ""),
    ];
    let mut cases = Vec::new();
    for (index, (title, mix, big_endian, note)) in kinds.into_iter().enumerate() {
        let folder = memory.join(format!("generated{index}"));
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let settings = captures::GeneratorSettings { mix, big_endian, ..base };
        captures::generate(&folder, settings)
            .context(|| format!("write a capture into {}", folder.display()))?;
        cases.push(Case {
            title: format!("generated: {title}"),
            folder,
            names: (0..base.devices).map(captures::device_name).collect(),
            reference: None,
            text: true,
            figures: true,
            note,
        });
    }
    Ok(cases)
}

fn real(memory: &Path, traces: &Path) -> Result<Vec<Case>> {
    let traces = traces.canonicalize().context(|| format!("find {}", traces.display()))?;
    let case = |folder: &str, name: &str, note| Case {
        title: folder.to_owned(),
        folder: traces.join(folder),
        names: vec![name.to_owned()],
        reference: Some(traces.join(folder).join("ref.btt-1.3.0.txt")),
        text: true,
        figures: true,
        note,
    };
    let mut cases = vec![
        case("keks", "keks", "btt prints no latencies without Q"),
        case("sda-centos", "sda", ""),
        Case {
            figures: false,
            ..case(
                "nvme-cpu1-only",
                "sample",
                "blkparse drops every record: CPU 1's, in a file named .0",
            )
        },
    ];
    cases.push(renamed(memory, &traces)?);
    for name in ["0_y_0", "0_y_1", "0_y_2", "1_y_0", "1_y_1", "1_y_2"] {
        let file = format!("trace_x_{name}");
        cases.push(Case {
            title: format!("dumps-loop, {name}"),
            reference: Some(traces.join("dumps-loop").join(format!("{file}.ref.btt-1.3.0.txt"))),
            text: false,
            ..case("dumps-loop", &format!("{file}.bin"), "")
        });
    }
    let folder = memory.join("hadoop");
    fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    let archive = traces.join("hadoop-40cpu/sdb.tar.zst");
    command::run(
        "tar",
        [
            "-I".as_ref(),
            "zstd".as_ref(),
            "-xf".as_ref(),
            archive.as_os_str(),
            "-C".as_ref(),
            folder.as_os_str(),
        ],
    )?;
    cases.push(Case { folder, ..case("hadoop-40cpu", "sdb", "") });
    Ok(cases)
}

/// The capture of CPU 1 under the name that its records say.
fn renamed(memory: &Path, traces: &Path) -> Result<Case> {
    let folder = memory.join("renamed");
    let source = traces.join("nvme-cpu1-only");
    fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    fs::write(folder.join("sample.blktrace.0"), [])
        .and_then(|()| fs::copy(source.join("sample.blktrace.0"), folder.join("sample.blktrace.1")))
        .context(|| format!("copy a capture into {}", folder.display()))?;
    Ok(Case {
        title: "nvme-cpu1-only, its file named .1".to_owned(),
        folder,
        names: vec!["sample".to_owned()],
        reference: Some(source.join("ref.btt-1.3.0.txt")),
        text: true,
        figures: true,
        note: "",
    })
}

impl Case {
    fn iowhy(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(iowhy::binary()?);
        command.current_dir(&self.folder).args(arguments).args(&self.names).env("TZ", "UTC");
        Ok(command)
    }

    fn blkparse(&self, arguments: &[&str], output: &Path) -> Result<()> {
        let mut command = Command::new(command::find("blkparse")?);
        command.current_dir(&self.folder).args(arguments).arg(output).env("TZ", "UTC");
        self.names.iter().for_each(|name| {
            command.args(["-i", name]);
        });
        command::output_of(command).map(|_| ())
    }

    fn text(&self, work: &Path) -> Result<String> {
        let (ours, theirs) = (work.join("ours"), work.join("theirs"));
        self.blkparse(&["-o"], &theirs)?;
        to_file(self.iowhy(&["events", "--blkparse-compat"])?, &ours)?;
        compare(&ours, &theirs)
    }

    fn figures(&self, work: &Path) -> Result<String> {
        let ours = work.join("figures");
        to_file(self.iowhy(&["stages", "--btt-compat"])?, &ours)?;
        if let Some(reference) = &self.reference {
            return compare(&ours, reference);
        }
        self.blkparse(&["-q", "-O", "-d"], &work.join("dump"))?;
        let mut btt = Command::new(command::find("btt")?);
        btt.current_dir(work).args(["-i", "dump", "-o", "btt"]);
        command::output_of(btt)?;
        let theirs = work.join("btt.avg");
        // btt writes no file if there is nothing to report.
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&theirs)
            .context(|| format!("open {}", theirs.display()))?;
        compare(&ours, &theirs)
    }
}

/// Runs `command` with standard output in `path`. A nonzero exit code is appended to the file: one
/// case is a capture without events.
fn to_file(mut command: Command, path: &Path) -> Result<()> {
    let shown = command::shown(&command);
    let file = File::create(path).context(|| format!("write {}", path.display()))?;
    command.stdout(file).stderr(std::process::Stdio::null());
    command.status().map(|_| ()).context(|| format!("run {shown}"))
}

/// Compares two files line by line.
fn compare(ours: &Path, theirs: &Path) -> Result<String> {
    let open = |path: &Path| {
        File::open(path).map(BufReader::new).context(|| format!("read {}", path.display()))
    };
    let (mut ours, mut theirs) = (open(ours)?, open(theirs)?);
    let (mut our, mut their) = (Vec::new(), Vec::new());
    let (mut lines, mut differing) = (0u64, 0u64);
    loop {
        our.clear();
        their.clear();
        let read = ours
            .read_until(b'\n', &mut our)
            .and_then(|length| theirs.read_until(b'\n', &mut their).map(|other| length + other));
        if read.context(|| "read what is compared".to_owned())? == 0 {
            break;
        }
        lines += 1;
        differing += u64::from(our != their);
    }
    Ok(match differing {
        0 => format!("equal to the byte, {lines} lines"),
        _ => format!("{differing} of {lines} lines differ"),
    })
}
