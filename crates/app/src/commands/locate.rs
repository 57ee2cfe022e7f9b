//! `iowhy locate`: maps blocks to files, and a file to its blocks.

use crate::args::locate::Locate;
use crate::failure::Failure;
use crate::output;
use crate::progress::Waiting;
use iowhy_capture::locate::{FileExtent, InodeOwner, LocatedFiles, Locator, Use, file_extents};
use iowhy_capture::privilege;
use iowhy_model::figures::{counted, grouped};
use iowhy_views::escape::escape;
use iowhy_views::json::escaped;
use serde_json::json;
use std::io::{BufRead, BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

/// Prints the file of each block, or the blocks of the file.
pub fn run(args: &Locate) -> Result<(), Failure> {
    let device =
        std::fs::metadata(&args.path).is_ok_and(|about| about.file_type().is_block_device());
    let written = if args.blocks.is_empty() && !device { file(args) } else { blocks(args) };
    match written {
        Ok(()) => Ok(()),
        // A reader that closes the pipe early is not an error.
        Err(Stop::Write(cause)) if cause.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(Stop::Write(cause)) => {
            Err(Failure::new(format!("failed to write the output: {cause}"), None))
        }
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

/// The reason why it ended early.
enum Stop {
    Failure(Failure),
    Write(std::io::Error),
}

impl From<std::io::Error> for Stop {
    fn from(cause: std::io::Error) -> Stop {
        Stop::Write(cause)
    }
}

impl From<iowhy_capture::locate::LocateError> for Stop {
    fn from(error: iowhy_capture::locate::LocateError) -> Stop {
        Stop::Failure(error.into())
    }
}

fn blocks(args: &Locate) -> Result<(), Stop> {
    let mut asked = Asked {
        locator: Locator::open(&args.path)?,
        out: BufWriter::new(output::answer()),
        args,
        first: Duration::ZERO,
        rest: Duration::ZERO,
        count: 0,
    };
    if !args.json {
        let unit = if args.fs_block { "BLOCK" } else { "SECTOR" };
        writeln!(asked.out, "{unit:>14}  {:<20}  {:>12}  PATH", "USE", "INODE")?;
    }
    let from_input = args.blocks.is_empty() || args.blocks.iter().any(|block| block == "-");
    for word in args.blocks.iter().filter(|block| *block != "-") {
        asked.answer(word)?;
    }
    if from_input {
        let mut input = std::io::stdin().lock();
        let unread = |cause| {
            Stop::Failure(Failure::new(format!("failed to read standard input: {cause}"), None))
        };
        while let Some(word) = next_word(&mut input).map_err(unread)? {
            asked.answer(&word)?;
        }
    }
    asked.out.flush()?;
    if asked.count == 0 {
        output::note("hint: no block was named: `iowhy locate DEVICE SECTOR ...`");
    }
    asked.tell();
    Ok(())
}

/// Bytes of a word that are kept; no number is longer.
const MOST_WORD: usize = 32;

/// Reads the next word; `None` at the end. The end of a longer one is cut off, which makes it no
/// number.
fn next_word(input: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut word = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        let starts = if word.is_empty() { bytes.iter().position(is_of_word) } else { Some(0) };
        let part = bytes.get(starts.unwrap_or(bytes.len())..).unwrap_or_default();
        let end = part.iter().position(|byte| !is_of_word(byte));
        let part = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        let room = (MOST_WORD - word.len()).min(part.len());
        word.extend_from_slice(part.get(..room).unwrap_or_default());
        let is_cut = room < part.len() || word.len() == MOST_WORD;
        if is_cut {
            // No number, whatever it began with.
            word.push(b'~');
        }
        let is_over = bytes.is_empty() || end.is_some() || is_cut;
        let used = starts.map_or(bytes.len(), |start| start + part.len());
        input.consume(used);
        if is_over {
            let word = String::from_utf8_lossy(&word).into_owned();
            return Ok((!word.is_empty()).then_some(word));
        }
    }
}

fn is_of_word(byte: &u8) -> bool {
    !byte.is_ascii_whitespace()
}

/// The lookups of one run.
struct Asked<'a, W: Write> {
    locator: Locator,
    out: BufWriter<W>,
    args: &'a Locate,
    /// The time of the first lookup, which reads the file system, and of all others.
    first: Duration,
    rest: Duration,
    count: u64,
}

impl<W: Write> Asked<'_, W> {
    fn answer(&mut self, word: &str) -> Result<(), Stop> {
        let Ok(block) = word.parse::<u64>() else {
            let hint = "a block is a decimal number, or - for standard input".to_owned();
            let message = format!("failed to read block {word}: not a number");
            return Err(Stop::Failure(Failure::new(message, Some(hint))));
        };
        let begun = Instant::now();
        let sector =
            if self.args.fs_block { self.locator.sector_of_block(block)? } else { Some(block) };
        let Some(sector) = sector else {
            let device = self.args.path.display();
            let hint = "without --fs-block, blocks are sectors of 512 bytes".to_owned();
            let message =
                format!("failed to find block {block}: no file system on {device} itself");
            return Err(Stop::Failure(Failure::new(message, Some(hint))));
        };
        // The first answer reads the file system.
        let waiting = (self.count == 0).then(|| {
            let device = output::escaped(&self.args.path.to_string_lossy());
            let read = self.locator.progress();
            let count = move || (read.done(), read.total());
            Waiting::for_work(&format!("reading the file system of {device}"), "inodes", count)
        });
        let answer = self.locator.locate(sector)?;
        drop(waiting);
        let took = begun.elapsed();
        let sum = if self.count == 0 { &mut self.first } else { &mut self.rest };
        *sum += took;
        self.count += 1;
        let written = if self.args.json {
            self.out.write_all(line(&as_json(block, sector, &answer)).as_bytes())
        } else {
            text(&mut self.out, block, &answer)
        };
        Ok(written?)
    }

    fn tell(&self) {
        for built in self.locator.built() {
            output::note(&format!(
                "{}: {}, {}, {}, {} KiB, in {:.3} s",
                built.device.display(),
                built.by,
                counted(built.extents as u64, "extents"),
                counted(built.names as u64, "names"),
                grouped(built.bytes as u64 / 1024),
                self.first.as_secs_f64(),
            ));
            if built.unreadable > 0 {
                let what = "of its files or blocks could not be read";
                output::note(&counted(built.unreadable, what));
                if privilege::missing()
                    .iter()
                    .any(|capability| capability.name == "CAP_DAC_READ_SEARCH")
                {
                    let hint = "with CAP_DAC_READ_SEARCH all of them can be read: `sudo iowhy \
                        locate ...`";
                    output::note(&format!("hint: {hint}"));
                }
            }
        }
        if self.count > 1 {
            let rest = self.rest.as_secs_f64();
            output::note(&format!("{} in {rest:.6} s", counted(self.count - 1, "lookups")));
        }
    }
}

fn used(answer: &LocatedFiles) -> (&str, Option<&str>) {
    match &answer.used {
        Use::By(role) => (role.word(), None),
        Use::Free => ("free", None),
        Use::Outside => ("outside", Some("the block is outside the file system")),
        Use::Unknown(why) => ("unknown", Some(why)),
    }
}

fn as_json(block: u64, sector: u64, answer: &LocatedFiles) -> serde_json::Value {
    let owner = |owner: &InodeOwner| json!({ "inode": owner.inode, "paths": owner.paths });
    let (word, reason) = used(answer);
    json!({
        "block": block,
        "sector": sector,
        "device": answer.device.to_string_lossy(),
        "use": word,
        "reason": reason,
        "owners": answer.owners.iter().map(owner).collect::<Vec<_>>(),
    })
}

/// A line of JSON; names are anybody's.
fn line(value: &serde_json::Value) -> String {
    escaped(format!("{value}\n"))
}

fn text(out: &mut impl Write, block: u64, answer: &LocatedFiles) -> std::io::Result<()> {
    let (word, reason) = used(answer);
    let begin = format!("{block:>14}  {word:<20}");
    let style = output::style();
    if answer.owners.is_empty() {
        let reason = reason.map_or(String::new(), |reason| format!("  {:>12}  ({reason})", "-"));
        return writeln!(out, "{begin}{}", escape(&reason, &style));
    }
    for owner in &answer.owners {
        let inode = owner.inode;
        if owner.paths.is_empty() {
            writeln!(out, "{begin}  {inode:>12}  (no name)")?;
        }
        for path in &owner.paths {
            writeln!(out, "{begin}  {inode:>12}  {}", escape(path, &style))?;
        }
    }
    Ok(())
}

fn file(args: &Locate) -> Result<(), Stop> {
    let found = file_extents(&args.path)?;
    let mut out = BufWriter::new(output::answer());
    let device = found.device.display().to_string();
    let style = output::style();
    if !args.json {
        writeln!(out, "{:>14}  {:>14}  {:>14}  DEVICE", "OFFSET", "BYTES", "SECTOR")?;
    }
    for FileExtent { offset, bytes, sector, unwritten } in &found.extents {
        let (number, reason) = (sector.as_ref().ok(), sector.as_ref().err());
        if args.json {
            let device = found.device.to_string_lossy();
            let (inode, start) = (found.inode, found.start);
            let line = json!({ "offset": offset, "bytes": bytes, "sector": number, "reason": reason,
                "unwritten": unwritten,
                "device": device, "device_start": start, "inode": inode });
            out.write_all(self::line(&line).as_bytes())?;
            continue;
        }
        let sector = number.map_or("-".to_owned(), u64::to_string);
        let reserved = unwritten.then(|| "reserved, not written".to_owned());
        let remark = reason.cloned().or(reserved);
        let reason = remark.map_or(String::new(), |remark| format!("  ({remark})"));
        let place = format!("{device}{reason}");
        let place = escape(&place, &style);
        writeln!(out, "{offset:>14}  {bytes:>14}  {sector:>14}  {place}")?;
    }
    out.flush()?;
    if found.start > 0 && !args.json {
        let start = found.start;
        output::note(&format!("{device} begins at sector {start} of its disk"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    /// A control character of Latin 1, DEL, and one that reverses text.
    const HOSTILE: &str = "a\u{9b}31m\u{7f}\u{202e}b";

    #[test]
    fn a_word_without_end_is_cut() {
        let words = |input: &mut dyn BufRead| {
            let mut input = input;
            std::iter::from_fn(|| next_word(&mut input).unwrap()).take(3).collect::<Vec<_>>()
        };
        assert_eq!(words(&mut &b" 12\n\n345 6"[..]), ["12", "345", "6"]);
        assert_eq!(words(&mut &b" \n"[..]), [""; 0]);
        // A buffer that ends within a word and between two.
        let pieces = &b"1"[..];
        let mut pieces = BufReader::with_capacity(1, pieces.chain(&b"2 "[..]).chain(&b" 3"[..]));
        assert_eq!(words(&mut pieces), ["12", "3"]);
        let mut endless = BufReader::new(std::io::repeat(b'7'));
        let [first, ..] = &words(&mut endless)[..] else { panic!("there is none") };
        assert_eq!(first.len(), MOST_WORD + 1);
        assert!(words(&mut &[b'0'; 40][..])[0].parse::<u64>().is_err());
        assert!(first.parse::<u64>().is_err());
    }

    #[test]
    fn names_of_files_and_devices_move_no_cursor() {
        let named = LocatedFiles {
            device: HOSTILE.into(),
            used: Use::Unknown(HOSTILE.to_owned()),
            owners: vec![InodeOwner { inode: 7, paths: vec![HOSTILE.to_owned()] }],
        };
        let json = line(&as_json(1, 1, &named));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        for name in [&value["device"], &value["reason"], &value["owners"][0]["paths"][0]] {
            assert_eq!(name, HOSTILE);
        }
        let nobodys = LocatedFiles { owners: Vec::new(), ..named.clone() };
        let mut texts = Vec::new();
        text(&mut texts, 1, &named).unwrap();
        text(&mut texts, 1, &nobodys).unwrap();
        let texts = String::from_utf8(texts).unwrap();
        assert!(texts.contains("31m"), "{texts:?}");
        for said in [&json, &texts] {
            assert!(!said.contains(['\u{9b}', '\u{7f}', '\u{202e}']), "{said:?}");
        }
    }
}
