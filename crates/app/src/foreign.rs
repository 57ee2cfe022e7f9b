//! Summaries and logs of other tools: found by content, or named with `--as`; and files that are
//! not read, by what they are and what converts them.
//!
//! What does not belong here: their formats (crate `iowhy-foreign`).

use crate::convert;
use crate::failure::Failure;
use crate::redaction;
use iowhy_blktrace::trace::text_events;
use iowhy_foreign::fio_log;
use iowhy_foreign::import::Bytes;
use iowhy_foreign::kind::{HEAD, detect};
use iowhy_foreign::{ForeignImport, ForeignKind};
use iowhy_fs::read;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The word that stands for single block events, whatever the content looks like.
pub const BLOCK_EVENTS: &str = "block-events";

/// The word of `--as`, if it was given.
static FORCED: OnceLock<String> = OnceLock::new();

/// A source of another tool.
#[derive(Clone, Debug)]
pub struct ForeignSource {
    /// The file; `-` for standard input.
    pub path: PathBuf,
    /// The tool.
    pub kind: ForeignKind,
}

/// Notes the word of `--as`.
pub fn force(word: String) {
    FORCED.get_or_init(|| word);
}

/// Every word that `--as` takes.
pub fn words() -> Vec<&'static str> {
    let kinds = ForeignKind::ALL.iter().map(|kind| kind.word());
    kinds.chain([BLOCK_EVENTS]).collect()
}

/// Returns the source of another tool that `given` is, if any; fails for known formats that are not
/// read.
pub fn find(given: &[PathBuf]) -> Result<Option<ForeignSource>, Failure> {
    let [path] = given else { return Ok(None) };
    let forced = FORCED.get().map(String::as_str);
    if forced == Some(BLOCK_EVENTS) || !(is_stdin(path) || path.is_file()) {
        return Ok(None);
    }
    let Ok(head) = head(path) else { return Ok(None) };
    if let Some(kind) = forced.and_then(ForeignKind::from_word) {
        return Ok(Some(ForeignSource { path: path.clone(), kind }));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(kind) = fio_log::kind_of_name(&name).filter(|_| is_fio_log(&head)) {
        return Ok(Some(ForeignSource { path: path.clone(), kind }));
    }
    refuse(path, &head)?;
    let kind = detect(&head).filter(|kind| !kind.is_text() || !has_event(&head));
    Ok(kind.map(|kind| ForeignSource { path: path.clone(), kind }))
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The first bytes; those of standard input can still be read.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    if is_stdin(path) {
        return Ok(io::stdin().lock().fill_buf()?.to_vec());
    }
    let mut head = Vec::new();
    read::open_source(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a line is a single block event.
fn has_event(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).lines().any(|line| text_events::parse(line).is_some())
}

/// Opens it.
pub fn open(source: &ForeignSource) -> Result<ForeignImport, Failure> {
    let input: Bytes = match is_stdin(&source.path) {
        true => Box::new(io::stdin()),
        false => Box::new(read::open_source(&source.path).map_err(|cause| {
            Failure::new(format!("failed to read {}: {cause}", source.path.display()), None)
        })?),
    };
    let import = ForeignImport::new(source.kind, input);
    Ok(if redaction::is_wanted() { import.without_names() } else { import })
}

/// Returns the failure of a command that needs data which the source lacks.
pub fn without_events(source: &ForeignSource) -> Failure {
    let (path, kind) = (source.path.display(), source.kind.word());
    let message = format!("failed to find events in {path}: {kind} tells of no single event");
    Failure::new(message, Some("`iowhy report` shows what it tells".to_owned()))
}

/// Files that are known by their first bytes, but not read: the tool, and a command that makes
/// something of them that is.
const NOT_READ: &[(&[u8], &str, &str)] = &[
    (b"fio version ", "fio's log of what to do", "replay it: fio --read_iolog=FILE"),
    (b"PAR1", "a single Parquet file", "a recording is the directory that holds recording.json"),
    (b"BZh", "compressed by bzip2", "bunzip2 FILE"),
    (b"(\xb5/\xfd", "compressed by zstd", "unzstd FILE"),
];

/// Text in which one of these stands is known, but not read.
const NOT_READ_TEXT: &[(&str, &str, &str)] = &[
    ("==================== All Devices", "btt's output", BTT_FROM),
    ("<sysstat", "sadf's XML", "sadf -j FILE -- -d > sar.json"),
];

/// The command that shows everything that btt prints and writes.
const BTT_FROM: &str = "iowhy report sda.blktrace.*";

/// Whether it is one of the files that btt writes for plots (`sys_iops_fp.dat`, `8,0_dhist.dat`):
/// its name ends so, and it has two or more numbers a line.
fn is_btt_data(path: &Path, text: &str) -> bool {
    let is_row = |line: &str| {
        let mut words = line.split_whitespace();
        line.starts_with('#')
            || words.clone().count() > 1 && words.all(|word| word.parse::<f64>().is_ok())
    };
    let mut lines = text.lines().filter(|line| !line.is_empty()).take(3).peekable();
    path.extension().is_some_and(|end| end == "dat") && lines.peek().is_some() && lines.all(is_row)
}

/// Refuses known formats that are not read.
fn refuse(path: &Path, head: &[u8]) -> Result<(), Failure> {
    let text = String::from_utf8_lossy(head.get(..4096).unwrap_or(head));
    let binary = NOT_READ.iter().find(|(magic, ..)| head.starts_with(magic));
    let binary = binary.map(|(_, what, then)| (*what, *then));
    let printed = NOT_READ_TEXT.iter().find(|(mark, ..)| text.contains(mark));
    let log = is_fio_log(head).then_some((
        "fio's log of one figure, and its name does not tell which",
        "iowhy report FILE --as fio-lat-log",
    ));
    if let Some(converter) = convert::find(head) {
        let message = format!("failed to read {}: it is {}", path.display(), converter.what);
        let hint = format!("`{} | iowhy report -`", converter.command(path));
        return Err(Failure::new(message, Some(hint)));
    }
    let points = is_btt_data(path, &text).then_some(("a data file of btt", BTT_FROM));
    let printed = printed.map(|(_, what, then)| (*what, *then));
    let known = binary.or(log).or(printed).or(points);
    match known {
        None => Ok(()),
        Some((what, then)) => {
            let message = format!("failed to read {}: it is {what}", path.display());
            let shown = crate::sources::words(&[path.to_owned()]);
            Err(Failure::new(message, Some(format!("`{}`", then.replace("FILE", &shown)))))
        }
    }
}

/// Whether lines are those of fio's `--write_lat_log` and the like: `12, 345678, 0, 4096, 0, 0`.
/// Nothing in them tells a latency from a bandwidth.
fn is_fio_log(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head.get(..4096).unwrap_or(head));
    let is_row = |line: &str| {
        let words: Vec<&str> = line.split(", ").collect();
        (4..=7).contains(&words.len())
            && words.iter().all(|word| word.trim().parse::<u64>().is_ok() || word.starts_with("0x"))
    };
    let mut lines = text.lines().take(3);
    lines.next().is_some_and(is_row) && lines.all(is_row)
}
