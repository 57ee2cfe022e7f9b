//! blktrace's formats through the built binary: compared with Debian's blkparse, btt and fio on
//! generated captures, and on the real ones next to the project.
//!
//! What does not belong here: damaged captures (see `bad_captures`), and the library's own tests
//! for every mix of events (blktrace/tests/it/blktrace).

use crate::support::{finish, iowhy, printed, trial, words};
use iowhy_labs::captures::{self, GeneratorSettings, Mix};
use iowhy_labs::error::Context;
use iowhy_labs::{LabError, Result, command};
use libtest_mimic::Trial;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("blktrace::events_equal_blkparse", events_equal_blkparse),
        trial("blktrace::stages_equal_btt", stages_equal_btt),
        trial("blktrace::names_equal_btt", names_equal_btt),
        trial("blktrace::parts_equal_btt", parts_equal_btt),
        trial("blktrace::files_of_periods_equal_btt", files_of_periods_equal_btt),
        trial("blktrace::any_shape_of_a_capture_is_read", any_shape_of_a_capture_is_read),
        trial("blktrace::exports_are_taken_by_the_old_tools", exports_are_taken_by_the_old_tools),
        trial("blktrace::real_captures_equal_the_old_tools", real_captures_equal_the_old_tools),
        trial("blktrace::real_captures_are_reported", real_captures_are_reported),
    ]
}

/// A generated capture in a folder of its own, and the names of its devices.
pub struct GeneratedTrace {
    folder: TempDir,
    pub names: Vec<String>,
}

impl GeneratedTrace {
    pub fn new(settings: GeneratorSettings) -> Result<GeneratedTrace> {
        let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
        captures::generate(folder.path(), settings).context(|| "write a capture".to_owned())?;
        let names = (0..settings.devices).map(captures::device_name).collect();
        Ok(GeneratedTrace { folder, names })
    }

    pub fn from_mix(mix: Mix) -> Result<GeneratedTrace> {
        GeneratedTrace::new(GeneratorSettings { mix, ..GeneratorSettings::default() })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The common prefix of each device's files.
    pub fn prefixes(&self) -> Vec<PathBuf> {
        self.names.iter().map(|name| self.path().join(name)).collect()
    }
}

/// Returns iowhy's output for `arguments` on `sources`.
pub fn answer<A: AsRef<OsStr>>(arguments: &[A], sources: &[PathBuf]) -> Result<String> {
    let mut command = iowhy(arguments)?;
    command.args(sources);
    let shown = command::shown(&command);
    let output = finish(command)?;
    assert!(output.status.success(), "{shown}: {}", printed(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns blkparse's text of the captures `names` in `folder`.
pub fn blkparse(folder: &Path, names: &[String], more: &[&str]) -> Result<String> {
    let out = tempfile::NamedTempFile::new().context(|| "make a file".to_owned())?;
    let mut blkparse = Command::new(command::find("blkparse")?);
    blkparse.args(more).arg("-D").arg(folder).arg("-o").arg(out.path());
    names.iter().for_each(|name| {
        blkparse.args(["-i", name]);
    });
    command::output_of(blkparse)?;
    let text = fs::read(out.path()).context(|| "read blkparse's text".to_owned())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A dump of the captures `names` in `folder`, as btt and fio read it.
pub fn dump(folder: &Path, names: &[String], into: &Path) -> Result<()> {
    let into = into.to_string_lossy();
    blkparse(folder, names, &["-q", "-O", "-d", &into]).map(|_| ())
}

/// btt's report of a dump, with its data files beside it.
pub fn btt(dump: &Path, more: &[&str]) -> Result<String> {
    let folder = dump.parent().unwrap_or(Path::new("/"));
    let mut btt = Command::new(command::find("btt")?);
    btt.current_dir(folder).arg("-i").arg(dump).args(["-o", "theirs"]).args(more);
    command::output_of(btt)?;
    read(&folder.join("theirs.avg"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).context(|| format!("read {}", path.display()))
}

/// Fails with the first line that differs, not with two long texts.
fn same_lines(what: &str, ours: &str, theirs: &str) {
    for (number, (our, their)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our, their, "{what}, line {}", number + 1);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
}

fn events_equal_blkparse() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Rich)?;
    let layout = "%D %-8a %5c %12C %d %N %S %T.%9t\\n";
    let choices: [&[&str]; 6] = [
        &[],
        &["-q"],
        &["-a", "issue", "-a", "complete"],
        &["-w", "0.001:0.01"],
        &["-f", layout, "-q"],
        &["-F", "D,%D %S %C\\n"],
    ];
    for choice in choices {
        let ours = [&["events", "--blkparse-compat"], choice].concat();
        let theirs = blkparse(generated.path(), &generated.names, choice)?;
        assert!(!theirs.is_empty(), "{choice:?}");
        same_lines(&format!("{choice:?}"), &answer(&ours, &generated.prefixes())?, &theirs);
    }
    let text = |choice: &[&str]| blkparse(generated.path(), &generated.names, choice);
    let (all, lines) = (text(&[])?, text(&["-q"])?);
    let figures = answer(&["events", "--blkparse-compat", "-O"], &generated.prefixes())?;
    assert_eq!(Some(figures.as_str()), all.strip_prefix(&lines));
    let one = &generated.names[1..2];
    let ours = answer(&["events", "--blkparse-compat", "-d", &one[0]], &generated.prefixes())?;
    same_lines("one device", &ours, &blkparse(generated.path(), one, &[])?);
    Ok(())
}

fn stages_equal_btt() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Unsplit)?;
    let merged = generated.path().join("merged");
    dump(generated.path(), &generated.names, &merged)?;
    let files = |letter: &str| {
        ["-l", "-q", "-z", "-B", "-s", "-Q"]
            .map(|flag| [flag.to_owned(), format!("{letter}{flag}")])
    };
    let theirs = files("theirs").concat();
    let theirs =
        btt(&merged, &theirs.iter().map(String::as_str).chain(["-A"]).collect::<Vec<_>>())?;
    let ours = ["stages", "--btt-compat", "-A"].map(str::to_owned);
    same_lines("-A", &answer(&ours, &generated.prefixes())?, &theirs);
    same_lines("a dump", &answer(&ours, std::slice::from_ref(&merged))?, &theirs);

    let here = |name: &str| generated.path().join(name).to_string_lossy().into_owned();
    let with_files = files("ours").into_iter().flat_map(|[flag, name]| [flag, here(&name)]);
    let all: Vec<_> =
        ours.iter().cloned().chain(with_files).chain(["-o".into(), here("ours")]).collect();
    assert_eq!(answer(&all, &generated.prefixes())?, "");
    let mut compared = 0;
    for entry in fs::read_dir(generated.path()).context(|| "list".to_owned())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix("ours") {
            let theirs = read(&generated.path().join(format!("theirs{rest}")))?;
            same_lines(&name, &read(&entry.path())?, &theirs);
            compared += 1;
        }
    }
    let per_device = 1 + 1 + 1 + 3 + 6 + 1;
    assert_eq!(compared, generated.names.len() * per_device + ["avg", "dat", "msg"].len());
    Ok(())
}

/// btt's `-M` gives devices names, in its report and in names of files.
fn names_equal_btt() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Unsplit)?;
    let merged = generated.path().join("merged");
    dump(generated.path(), &generated.names, &merged)?;
    let map = generated.path().join("map");
    let plain = btt(&merged, &[])?;
    let number = |line: &str| {
        let (number, _) = line.trim_start().strip_prefix('(')?.split_once(") |")?;
        Some(number.replace(' ', ""))
    };
    let number = plain.lines().find_map(number).unwrap_or_default();
    fs::write(&map, format!("sdq_of_more_than_14 {number}\n")).context(|| "name it".to_owned())?;
    let map = map.to_string_lossy().into_owned();
    let theirs = btt(&merged, &["-A", "-M", &map, "-l", "theirs"])?;
    assert!(theirs.contains("sdq_of_more_th"), "{number}");
    let prefix = generated.path().join("ours").to_string_lossy().into_owned();
    let ours = ["stages", "--btt-compat", "-A", "-M", &map, "-l", &prefix];
    same_lines("-M", &answer(&ours, &generated.prefixes())?, &theirs);
    let end = "_sdq_of_more_than_14_d2c.dat";
    let theirs = read(&generated.path().join(format!("theirs{end}")))?;
    same_lines(end, &read(&generated.path().join(format!("ours{end}")))?, &theirs);
    Ok(())
}

/// btt's `-t` and `-T` keep the same events. Without `-T` btt prints nothing.
fn parts_equal_btt() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Unsplit)?;
    let merged = generated.path().join("merged");
    dump(generated.path(), &generated.names, &merged)?;
    for part in [
        &["-T", "0.005"][..],
        &["-t", "0.001", "-T", "0.01"],
        &["-t", "0.002", "-T", "1000"],
        &["-t", "0.01", "-T", "0.001"],
    ] {
        let ours = [&["stages", "--btt-compat"], part].concat();
        let theirs = without_plugged_share(&btt(&merged, part)?);
        let ours = without_plugged_share(&answer(&ours, &generated.prefixes())?);
        same_lines(&part.join(" "), &ours, &theirs);
    }
    Ok(())
}

/// btt's report without the share of the time that a device was plugged: btt ends that time
/// elsewhere where messages come after the part (docs/blktrace.md).
fn without_plugged_share(report: &str) -> String {
    // `(  8,  0) |         54(        32) |   0.850714195%`
    let counts = |before: &str| before.rsplit_once('|').is_some_and(|(_, rest)| rest.contains('('));
    let lines = report.lines().map(|line| match line.rsplit_once('|') {
        Some((before, _)) if counts(before) => before,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The time that btt writes for an issue that it has not seen: -1 ns.
const NOT_SEEN: &str = "1266874889.709551615";

/// btt's files of mean latencies by period, of unplugs, and of each bio's times.
fn files_of_periods_equal_btt() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Unsplit)?;
    let merged = generated.path().join("merged");
    dump(generated.path(), &generated.names, &merged)?;
    let shared = ["-L", "0.01", "-u", "unplugs", "-P", "trees"];
    btt(&merged, &[&shared[..], &["-p", "bios"]].concat())?;
    let own = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    let mut stages = iowhy(["stages"])?;
    stages.current_dir(own.path()).arg(&merged).args(shared).args(["--per-io-dump", "bios"]);
    let output = finish(stages)?;
    assert!(output.status.success(), "{}", printed(&output));
    let mut compared = 0;
    for entry in fs::read_dir(own.path()).context(|| "list".to_owned())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let theirs = read(&generated.path().join(&name))?;
        let known: Vec<&str> = theirs.lines().filter(|line| !line.contains(NOT_SEEN)).collect();
        same_lines(&name, &read(&entry.path())?, &known.join("\n"));
        compared += 1;
    }
    // Three of latencies, and one of trees, for each device; unplugs where there are any.
    assert!(compared > generated.names.len() * 4, "{compared}");
    Ok(())
}

/// Files, their prefixes, their folder, a dump, the stream on standard input, and text of blkparse
/// are all the same capture.
fn any_shape_of_a_capture_is_read() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Plain)?;
    let merged = generated.path().join("merged");
    dump(generated.path(), &generated.names, &merged)?;
    let text = generated.path().join("text");
    let lines = blkparse(generated.path(), &generated.names, &["-q"])?;
    fs::write(&text, lines).context(|| "write text".to_owned())?;
    let mut files: Vec<PathBuf> = Vec::new();
    for prefix in generated.prefixes() {
        files.extend(
            (0..4).map(|cpu| PathBuf::from(format!("{}.blktrace.{cpu}", prefix.display()))),
        );
    }
    let requests = |text: &str| -> Result<u64> {
        let report: serde_json::Value =
            serde_json::from_str(text).context(|| "read the report".to_owned())?;
        Ok(report["watch"]["requests"].as_u64().unwrap_or_default())
    };
    let expected = requests(&answer(&["report", "--json"], &generated.prefixes())?)?;
    assert_eq!(expected, GeneratorSettings::default().events / 5);
    let shapes = [files, vec![generated.path().to_owned()], vec![merged.clone()], vec![text]];
    for shape in shapes {
        let found = requests(&answer(&["report", "--json"], &shape)?)?;
        assert_eq!(found, expected, "{shape:?}");
    }
    let rows =
        |table| answer(&["export", "--format", "csv", "--table", table], &generated.prefixes());
    assert_eq!(rows("requests")?.lines().count() as u64, 1 + expected);
    assert_eq!(rows("events")?.lines().count() as u64, 1 + 5 * expected);
    let mut piped = iowhy(["report", "--json", "-"])?;
    let stream = fs::File::open(&merged).context(|| "open the dump".to_owned())?;
    piped.stdin(Stdio::from(stream));
    let output = finish(piped)?;
    assert_eq!(
        requests(&String::from_utf8_lossy(&output.stdout))?,
        expected,
        "{}",
        printed(&output)
    );
    Ok(())
}

/// A capture is imported with its events and written again: blkparse prints the same text, btt the
/// same figures, and fio replays the same requests.
fn exports_are_taken_by_the_old_tools() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Plain)?;
    let recording = generated.path().join("recording");
    let import = ["import".as_ref(), "--events".as_ref(), "-o".as_ref(), recording.as_os_str()];
    answer(&import, &generated.prefixes())?;
    let sources =
        [(generated.prefixes(), "7"), (vec![recording], "7"), (generated.prefixes(), "8")];
    for (index, (source, protocol)) in sources.into_iter().enumerate() {
        let folder = generated.path().join(format!("again{index}"));
        let export = ["export", "--format", "blktrace", "--protocol", protocol, "-o"];
        let export: Vec<&OsStr> =
            export.iter().map(OsStr::new).chain([folder.as_os_str()]).collect();
        answer(&export, &source)?;
        let text = ["events", "-q", "--monotonic"];
        let again = generated.names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        let before = answer(&text, &generated.prefixes())?;
        same_lines("iowhy reads it back", &answer(&text, &again)?, &before);
        if protocol == "7" {
            taken(&generated, &folder)?;
        }
    }
    Ok(())
}

fn taken(generated: &GeneratedTrace, folder: &Path) -> Result<()> {
    let text = |folder| blkparse(folder, &generated.names, &[]);
    same_lines("blkparse", &text(folder)?, &text(generated.path())?);
    let figures = |from: &Path| {
        let merged = folder.join("merged");
        dump(from, &generated.names, &merged)?;
        btt(&merged, &[])
    };
    same_lines("btt", &figures(folder)?, &figures(generated.path())?);
    let replayed = |from: &Path| {
        let merged = folder.join("one");
        dump(from, &generated.names[..1], &merged)?;
        replay(&merged)
    };
    let (ours, theirs) = (replayed(folder)?, replayed(generated.path())?);
    let report = answer(&["report", "--json"], &[generated.path().join(&generated.names[0])])?;
    let report: serde_json::Value =
        serde_json::from_str(&report).context(|| "read the report".to_owned())?;
    for direction in ["read", "write"] {
        let requests = &report["devices"][0]["directions"][direction]["requests"];
        let (ours, theirs) = (&ours["jobs"][0][direction], &theirs["jobs"][0][direction]);
        assert_eq!(&ours["total_ios"], requests, "{direction}");
        for figure in ["total_ios", "io_bytes"] {
            assert_eq!(ours[figure], theirs[figure], "{direction} {figure}");
        }
    }
    Ok(())
}

/// Returns fio's result for a dump: it moves no data, as fast as it can.
pub fn replay(dump: &Path) -> Result<serde_json::Value> {
    let mut fio = Command::new(command::find("fio")?);
    fio.args(["--name=replay", "--ioengine=null", "--size=64t", "--replay_no_stall=1"]);
    fio.args(["--filename=/dev/null", "--replay_redirect=/dev/null", "--output-format=json"]);
    fio.current_dir(dump.parent().unwrap_or(Path::new("/")));
    fio.arg(format!("--read_iolog={}", dump.display()));
    let text = command::output_of(fio)?;
    let json = text.find('{').and_then(|at| text.get(at..)).unwrap_or_default();
    serde_json::from_str(json).context(|| "read what fio says".to_owned())
}

/// A real capture: its name, and the expected results.
struct Real {
    source: PathBuf,
    /// btt 1.3.0's report of it.
    reference: PathBuf,
    /// Requests that iowhy finds, completed or not.
    requests: &'static str,
    /// The losses that its report names.
    says: &'static [&'static str],
}

/// The folder of real captures beside the project.
fn traces() -> Result<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("IOWHY_SHARED").map_or(beside, PathBuf::from);
    let traces = shared.join("traces");
    let absent = || LabError::unsupported("the real captures", "set IOWHY_SHARED to their folder");
    traces.is_dir().then_some(traces).ok_or_else(absent)
}

/// Returns all of them; those that must be unpacked or renamed go to `folder`.
fn real(traces: &Path, folder: &Path) -> Result<Vec<Real>> {
    let real = |name: &str, requests, says| Real {
        source: traces.join(name),
        reference: traces.join(name).with_file_name("ref.btt-1.3.0.txt"),
        requests,
        says,
    };
    let keks = &["10 requests that were issued but never completed", "it holds no Q", "no G"];
    let nvme = real("nvme-cpu1-only/sample", "963", &["another CPU than the file's name says"]);
    // The tools' figures are of the file under the name of the CPU that it holds.
    let named = folder.join("sample");
    fs::copy(nvme.source.with_extension("blktrace.0"), named.with_extension("blktrace.1"))
        .and_then(|_| fs::File::create(named.with_extension("blktrace.0")))
        .context(|| "name a capture by its CPU".to_owned())?;
    let renamed =
        Real { source: named, says: &["is empty"], ..real("nvme-cpu1-only/sample", "963", &[]) };
    let mut tar = Command::new(command::find("tar")?);
    tar.args(["-I", "zstd", "-xf"]).arg(traces.join("hadoop-40cpu/sdb.tar.zst"));
    command::output_of({
        tar.arg("-C").arg(folder);
        tar
    })?;
    let hadoop = &["sdb.blktrace.2: is empty", "60,539 requests that were issued but never", "708"];
    let hadoop = Real { source: folder.join("sdb"), ..real("hadoop-40cpu/sdb", "110,191", hadoop) };
    let mut all = vec![real("keks/keks", "1,192", keks), real("sda-centos/sda", "109", &[])];
    all.extend([nvme, renamed, hadoop]);
    for (dump, requests) in [
        ("0_y_0", "768"),
        ("0_y_1", "1,024"),
        ("0_y_2", "1,024"),
        ("1_y_0", "768"),
        ("1_y_1", "1,024"),
        ("1_y_2", "1,024"),
    ] {
        let base = traces.join(format!("dumps-loop/trace_x_{dump}"));
        let reference = base.with_extension("ref.btt-1.3.0.txt");
        let says: &[_] = &["it does not tell wall-clock time"];
        all.push(Real { source: base.with_extension("bin"), reference, requests, says });
    }
    Ok(all)
}

fn real_captures_equal_the_old_tools() -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    for capture in real(&traces()?, folder.path())? {
        let source = capture.source.clone();
        let what = source.display().to_string();
        let given = std::slice::from_ref(&source);
        let ours = answer(&["events", "--blkparse-compat"], given)?;
        if source.is_file() {
            same_but_for_time(&what, &ours, &blkparse_of_dump(&source)?);
        } else {
            let name = [source.file_name().unwrap_or_default().to_string_lossy().into_owned()];
            let theirs = blkparse(source.parent().unwrap_or(Path::new("/")), &name, &[])?;
            same_lines(&what, &ours, &theirs);
        }
        if source.parent() != capture.reference.parent() || !what.contains("nvme") {
            let ours = answer(&["stages", "--btt-compat"], given)?;
            same_lines(&what, &ours, &read(&capture.reference)?);
        }
    }
    Ok(())
}

fn blkparse_of_dump(dump: &Path) -> Result<String> {
    let out = tempfile::NamedTempFile::new().context(|| "make a file".to_owned())?;
    let mut blkparse = Command::new(command::find("blkparse")?);
    blkparse.args(["-i", "-", "-o"]).arg(out.path());
    blkparse.stdin(fs::File::open(dump).context(|| format!("open {}", dump.display()))?);
    finish(blkparse)?;
    let text = fs::read(out.path()).context(|| "read blkparse's text".to_owned())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// blkparse reads its own dump in batches of 512 and takes the first event of the second one for
/// time 0, if the first event of all is at 0: times, and the throughput over them, are wrong.
fn same_but_for_time(what: &str, ours: &str, theirs: &str) {
    let without = |text: &str| {
        let kept = text.lines().filter(|line| !line.starts_with("Throughput"));
        let words = kept.map(|line| {
            let timed = |word: &&str| word.len() < 11 || !word.contains('.');
            line.split_whitespace().filter(timed).collect::<Vec<_>>().join(" ")
        });
        words.collect::<Vec<_>>().join("\n")
    };
    same_lines(what, &without(ours), &without(theirs));
    assert!(theirs.matches(" 0.000000000 ").count() > 1, "{what}: blkparse was mended");
}

/// The widest line. A command is alone in a line, indented, and is never folded, however long
/// the path in it.
fn widest(text: &str) -> usize {
    let folded = text.lines().filter(|line| !line.starts_with("    iowhy "));
    folded.map(|line| line.chars().count()).max().unwrap_or_default()
}

/// Missing data is named before the first figure, and no line is wider than requested.
fn real_captures_are_reported() -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    for capture in real(&traces()?, folder.path())? {
        let mut report = iowhy(["report", "--full"])?;
        report.arg(&capture.source).env("COLUMNS", "80").env("LC_ALL", "C.UTF-8");
        let output = finish(report)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", printed(&output));
        let head = text.split("DEVICES").next().unwrap_or_default();
        let head = words(head);
        let requests = format!(" {} requests ", capture.requests);
        assert!(head.contains(&requests), "{}: {head}", capture.source.display());
        for word in capture.says {
            assert!(head.contains(word), "{word}: {head}");
        }
        assert!(widest(&text) <= 80, "{text}");
        let stages = answer(&["stages"], std::slice::from_ref(&capture.source))?;
        assert!(stages.contains("\n  D2C "), "{stages}");
        assert!(widest(&stages) <= 80, "{stages}");
        // btt 1.2.0 says 147 s of the Hadoop node: a bio that lost its end, taken for another.
        let q2g = stages.lines().find(|line| line.starts_with("  Q2G")).unwrap_or(" us");
        let fits = [" us", " µs", "1.17 ms"].iter().any(|end| q2g.ends_with(end));
        assert!(fits, "{q2g}");
    }
    // Writes with a flush end twice; the second end was once taken for that of an older flush.
    let report = answer(&["report", "--full"], &[folder.path().join("sdb")])?;
    assert!(!report.contains("sdb flush"), "{report}");
    let sdb = answer(&["events", "-O"], &[folder.path().join("sdb")])?;
    let total = sdb.split("Total (sdb):").nth(1).unwrap_or_default();
    assert!(total.contains(" Reads Completed:    48422,    12470MiB"), "{total}");
    Ok(())
}
