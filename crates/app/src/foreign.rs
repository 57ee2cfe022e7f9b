//! Summaries and logs of other tools: found by content, or named with `--as`; and files that are
//! not read, by what they are and what converts them.
//!
//! What does not belong here: their formats (crate `iowhy-foreign`).

use crate::convert;
use crate::failure::Failure;
use crate::redaction;
use iowhy_blktrace::trace::text_events::{self, LineLayout};
use iowhy_foreign::fio_log;
use iowhy_foreign::import::Bytes;
use iowhy_foreign::kind::{self, HEAD, detect};
use iowhy_foreign::text::TableHeader;
use iowhy_foreign::{ForeignImport, ForeignKind};
use iowhy_fs::read;
use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The word that stands for single block events, whatever the content looks like.
pub const BLOCK_EVENTS: &str = "block-events";

/// The word of `--as`, if it was given.
static FORCED: OnceLock<String> = OnceLock::new();
/// The format of `--blkparse-format`, if it was given.
static LAYOUT: OnceLock<Arc<LineLayout>> = OnceLock::new();

/// A source of another tool.
#[derive(Clone, Debug)]
pub struct ForeignSource {
    /// The file, or `-` for standard input; several files of text are read one after another.
    pub paths: Vec<PathBuf>,
    /// The tool.
    pub kind: ForeignKind,
}

impl ForeignSource {
    /// Its files, for a message.
    pub fn shown(&self) -> String {
        let shown: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        shown.join(" and ")
    }
}

/// Notes the word of `--as`.
pub fn force(word: String) {
    FORCED.get_or_init(|| word);
}

/// Notes the format of `--blkparse-format`, whose lines are block events.
pub fn read_by(layout: LineLayout) {
    LAYOUT.get_or_init(|| Arc::new(layout));
    force(BLOCK_EVENTS.to_owned());
}

/// Returns the format of `--blkparse-format`, if it was given.
pub fn layout() -> Option<Arc<LineLayout>> {
    LAYOUT.get().cloned()
}

/// Every word that `--as` takes.
pub fn words() -> Vec<&'static str> {
    let kinds = ForeignKind::ALL.iter().map(|kind| kind.word());
    kinds.chain([BLOCK_EVENTS]).collect()
}

/// Returns the source of another tool that `given` is, if any; fails for known formats that are not
/// read, and for files that cannot be read together.
pub fn find(given: &[PathBuf]) -> Result<Option<ForeignSource>, Failure> {
    if let [path] = given {
        let kind = kind_of(path)?;
        return Ok(kind.map(|kind| ForeignSource { paths: vec![path.clone()], kind }));
    }
    // blktrace names the files of its CPUs so.
    let is_of_cpu = |path: &PathBuf| path.to_string_lossy().contains(".blktrace.");
    if given.iter().any(|path| is_stdin(path) || is_of_cpu(path)) {
        return Ok(None);
    }
    let mut kinds = Vec::new();
    for path in given {
        kinds.push(kind_of(path)?);
    }
    let Some((path, kind)) =
        given.iter().zip(&kinds).find_map(|(path, kind)| Some((path, (*kind)?)))
    else {
        return Ok(None);
    };
    // A pipe has one reader.
    let is_packed =
        |path: &PathBuf| path.is_file() && head(path).is_ok_and(|head| kind::is_packed(&head));
    let are_text = kinds.iter().all(|kind| kind.is_some_and(ForeignKind::is_text));
    if are_text && !given.iter().any(is_packed) {
        return Ok(Some(ForeignSource { paths: given.to_vec(), kind }));
    }
    let message = format!(
        "failed to read {} files together: {} is of {}, and they are not all text of such tools",
        given.len(),
        path.display(),
        kind.word()
    );
    Err(Failure::new(message, Some("give them one at a time".to_owned())))
}

/// The tool that wrote a file, if it is one whose summaries are read.
fn kind_of(path: &Path) -> Result<Option<ForeignKind>, Failure> {
    let forced = FORCED.get().map(String::as_str);
    if forced == Some(BLOCK_EVENTS) || !(is_stdin(path) || path.is_file()) {
        return Ok(None);
    }
    let Ok(head) = head(path) else { return Ok(None) };
    if let Some(kind) = forced.and_then(ForeignKind::from_word) {
        return Ok(Some(kind));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(kind) = fio_log::kind_of_name(&name).filter(|_| is_fio_log(&head)) {
        return Ok(Some(kind));
    }
    refuse(path, &head)?;
    let pasted = PastedLines::new(&head);
    Ok(match detect(&head).filter(|kind| !kind.is_text() || pasted.events == 0) {
        Some(kind) => Some(kind),
        None => pasted.kinds.iter().next().copied().filter(|_| pasted.is_mostly_foreign()),
    })
}

/// The lines of a text into which block events may have been pasted, too.
#[derive(Debug, Default)]
struct PastedLines {
    /// Single block events, and other lines that are not empty.
    events: usize,
    others: usize,
    /// The tools of the other lines.
    kinds: BTreeSet<ForeignKind>,
}

impl PastedLines {
    fn new(head: &[u8]) -> PastedLines {
        let mut pasted = PastedLines::default();
        if head.contains(&0) {
            return pasted;
        }
        for line in String::from_utf8_lossy(head).lines().filter(|line| !line.trim().is_empty()) {
            if is_event(line) {
                pasted.events += 1;
            } else {
                pasted.others += 1;
                pasted.kinds.extend(TableHeader::kind_of(line));
            }
        }
        pasted
    }

    /// Whether tools whose lines are read in one pass have more of it than block events, which are
    /// read in another.
    fn is_mostly_foreign(&self) -> bool {
        self.events > 0 && self.others >= self.events
    }
}

/// Whether a line is a single block event.
fn is_event(line: &str) -> bool {
    text_events::parse(line).is_some()
}

/// Returns a sentence on what a text of block events holds of other tools.
pub fn beside_events(path: &Path) -> Option<String> {
    // What is read of a pipe is gone for its reader.
    if is_stdin(path) || !path.is_file() {
        return None;
    }
    let pasted = PastedLines::new(&head(path).ok()?);
    let words: Vec<&str> = pasted.kinds.iter().map(|kind| kind.word()).collect();
    let first = words.first().filter(|_| pasted.events > 0)?;
    Some(format!(
        "it also holds lines of {}, which were left out: `--as {first}` reads them, and no block \
         event",
        words.join(" and ")
    ))
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

/// Opens it.
pub fn open(source: &ForeignSource) -> Result<ForeignImport, Failure> {
    let mut input: Bytes = Box::new(io::empty());
    for path in &source.paths {
        let next: Bytes = match is_stdin(path) {
            true => Box::new(io::stdin()),
            false => Box::new(read::open_source(path).map_err(|cause| {
                Failure::new(format!("failed to read {}: {cause}", path.display()), None)
            })?),
        };
        // A file may end without the end of its last line.
        let is_first = source.paths.first() == Some(path);
        input = if is_first { next } else { Box::new(input.chain(&b"\n"[..]).chain(next)) };
    }
    let import = ForeignImport::new(source.kind, input).leaving_out(is_event);
    Ok(if redaction::is_wanted() { import.without_names() } else { import })
}

/// Returns the failure of a command that needs data which the source lacks.
pub fn without_events(source: &ForeignSource) -> Failure {
    let (path, kind) = (source.shown(), source.kind.word());
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
    (" rwbs=", "the raw form of `trace-cmd report -R`", "trace-cmd report | iowhy report -"),
    ("<sysstat", "sadf's XML", "sadf -j FILE -- -d > sar.json"),
];

/// Text that begins so is known, but not read.
const NOT_READ_FROM: &[(&str, &str, &str)] =
    &[("ATOP - ", "a table that atop prints for people", "atop -P ALL 10 6 > atop.txt")];

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
    let begins = |(mark, ..): &&(&str, &str, &str)| text.trim_start().starts_with(mark);
    let printed = NOT_READ_TEXT.iter().find(|(mark, ..)| text.contains(mark));
    let printed = printed.or(NOT_READ_FROM.iter().find(begins));
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
