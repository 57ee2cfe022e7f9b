//! A sosreport or supportconfig: a tar archive, read from its beginning to its end once. Nothing is
//! extracted, and links and devices in it are passed over, so that no path in it matters.
//!
//! Headers are parsed here, not by a library: those hold the long name of a member in memory,
//! however long an archive says that it is.
//!
//! The peak memory is 1 MiB of names and lines, plus that of decompressing and of [`CounterBook`].
//!
//! What does not belong here: decompressing (see `unpack`), and the content of the members (see
//! [`crate::text`], [`crate::json`]).

use crate::book::CounterBook;
use crate::import::Bytes;
use crate::json;
use crate::kind::{ForeignKind, detect};
use crate::limits::FileLimits;
use crate::lines::LineCutter;
use crate::text::figures::time_alone;
use crate::text::{RowsOut, TextTables, since_boot};
use crate::unpack::unpacked;
use iowhy_model::Environment;
use iowhy_model::environment::Mount;
use iowhy_model::figures::counted;
use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};

/// Bytes of a tar block.
const BLOCK: usize = 512;
/// Members that are read.
const MOST_MEMBERS: u64 = 1 << 20;
/// Bytes of a long name.
const MOST_NAME: u64 = 4096;
/// Bytes of one text that are read.
const MOST_TEXT: u64 = 256 << 20;
/// Bytes of one setting that are read.
const MOST_SETTING: u64 = 512;
/// Mounts that are kept.
const MOST_MOUNTS: usize = 1024;

/// Reads the archive in `input`.
///
/// # Errors
/// Fails if it is no archive, or is damaged before anything was read.
pub fn read(
    input: BufReader<Bytes>,
    book: &mut CounterBook,
    tables: &mut TextTables,
    environment: &mut Environment,
    out: &mut RowsOut<'_>,
) -> Result<(), String> {
    let mut archive = TarMembers { bytes: unpacked(input)?, members: 0 };
    let mut report = ReportFiles {
        book,
        tables,
        environment,
        out,
        read: 0,
        root: None,
        of_other_folders: 0,
        uptime_s: None,
        since_boot: Vec::new(),
        sar: BTreeSet::new(),
        cutter: LineCutter::default(),
        limits: FileLimits::default(),
    };
    let damage = archive.each(|name, bytes| report.member(name, bytes)).err();
    report.tables.next_file(report.book);
    report.add_since_boot();
    if report.read == 0 {
        return Err(match damage {
            Some(error) => format!("its archive is damaged: {error}"),
            None => "its archive holds none of the files that iowhy knows".to_owned(),
        });
    }
    let (members, read) = (archive.members, report.read);
    let (left_out, root) = (report.of_other_folders, report.root.take().unwrap_or_default());
    let of_files = std::mem::take(&mut report.limits);
    let cut = report.cutter.limit().filter(|_| !report.cutter.has_given_up());
    environment.limits.extend(of_files.sentences());
    environment.limits.extend(cut);
    environment.limits.extend(damage.map(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("the archive is cut off: {error}"),
        _ => format!("the archive was read in part: {error}"),
    }));
    if left_out > 0 {
        let meaning = format!(
            "files below another folder than {root} were left out, as they may be of another \
             host: give one report at a time"
        );
        environment.limits.push(counted(left_out, &meaning));
    }
    let meaning = format!("files of {members} in the archive tell of storage and were read");
    environment.limits.push(counted(read, &meaning));
    Ok(())
}

/// The members of a tar archive, one after another.
struct TarMembers<R> {
    bytes: R,
    members: u64,
}

impl<R: Read> TarMembers<R> {
    /// Calls `take` with name and content of each regular file.
    fn each(
        &mut self,
        mut take: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut long_name: Option<String> = None;
        let mut block = [0; BLOCK];
        while self.members < MOST_MEMBERS {
            if let Err(error) = self.bytes.read_exact(&mut block) {
                // Some writers leave out the empty blocks at the end.
                let is_end = error.kind() == io::ErrorKind::UnexpectedEof && self.members > 0;
                return if is_end { Ok(()) } else { Err(error) };
            }
            if block.iter().all(|byte| *byte == 0) {
                return Ok(());
            }
            let header = TarHeader::new(&block)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no tar header"))?;
            self.members += 1;
            let mut content = self.bytes.by_ref().take(header.size);
            match header.kind {
                b'L' | b'x' => {
                    let mut text = Vec::new();
                    content.by_ref().take(MOST_NAME).read_to_end(&mut text)?;
                    long_name = long_name_in(header.kind, &text).or(long_name);
                }
                b'g' => {}
                b'0' | 0 => {
                    let name = long_name.take().unwrap_or(header.name);
                    take(&name, &mut content)?;
                }
                _ => long_name = None,
            }
            let left = content.limit();
            let padding = header.size.next_multiple_of(BLOCK as u64) - header.size;
            skip(&mut self.bytes, left.saturating_add(padding))?;
        }
        Ok(())
    }
}

fn skip(bytes: &mut impl Read, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut bytes.by_ref().take(count), &mut io::sink())?;
    if skipped < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// The name in a member that only names the next one.
fn long_name_in(kind: u8, text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    if kind == b'L' {
        return Some(text.trim_end_matches('\0').to_owned());
    }
    // `LENGTH path=NAME`, a line each.
    let path = text.lines().find_map(|line| line.split_once(" path=").map(|(_, path)| path));
    path.map(str::to_owned)
}

/// Whether a block is the header of a member.
pub(crate) fn is_header(block: &[u8; BLOCK]) -> bool {
    TarHeader::new(block).is_some_and(|header| !header.name.is_empty())
}

struct TarHeader {
    name: String,
    size: u64,
    kind: u8,
}

impl TarHeader {
    fn new(block: &[u8; BLOCK]) -> Option<TarHeader> {
        let sum = octal(block.get(148..156)?)?;
        let spaces = 8 * u64::from(b' ');
        let outside = block.iter().enumerate().filter(|(at, _)| !(148..156).contains(at));
        if outside.map(|(_, byte)| u64::from(*byte)).sum::<u64>() + spaces != sum {
            return None;
        }
        let text = |from: usize, to: usize| {
            let bytes = block.get(from..to).unwrap_or(&[]);
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned()
        };
        let is_ustar = block.get(257..262) == Some(b"ustar");
        let prefix = if is_ustar { text(345, 500) } else { String::new() };
        let name = if prefix.is_empty() { text(0, 100) } else { prefix + "/" + &text(0, 100) };
        Some(TarHeader { name, size: octal(block.get(124..136)?)?, kind: *block.get(156)? })
    }
}

/// A number of a header: octal digits, or big-endian with the highest bit set.
fn octal(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let bytes = field.last_chunk::<8>()?;
        return Some(u64::from_be_bytes(*bytes) & (u64::MAX >> 1));
    }
    let text = str::from_utf8(field).ok()?;
    let digits = text.trim_matches(|character: char| character == '\0' || character == ' ');
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// Takes the files of a report.
struct ReportFiles<'a, 'b> {
    book: &'a mut CounterBook,
    tables: &'a mut TextTables,
    environment: &'a mut Environment,
    out: &'a mut RowsOut<'b>,
    read: u64,
    /// The first folder of the files that were read, and the files of others.
    root: Option<String>,
    of_other_folders: u64,
    uptime_s: Option<f64>,
    /// Rows of `/proc/diskstats`.
    since_boot: Vec<String>,
    /// Names of files of sar that were read: a report may have copies of them.
    sar: BTreeSet<String>,
    cutter: LineCutter,
    /// The limits of its files of JSON.
    limits: FileLimits,
}

impl ReportFiles<'_, '_> {
    fn member(&mut self, name: &str, bytes: &mut dyn Read) -> io::Result<()> {
        // The first folder has the report's own name.
        let path = name.trim_start_matches("./");
        let (root, path) = path.split_once('/').unwrap_or(("", path));
        if self.root.as_ref().is_some_and(|known| known != root) {
            self.of_other_folders += 1;
            return Ok(());
        }
        let before = self.read;
        let taken = self.take(path, bytes);
        if self.read > before {
            self.root.get_or_insert_with(|| root.to_owned());
        }
        taken
    }

    /// Reads a file of the report, if it tells something.
    fn take(&mut self, path: &str, bytes: &mut dyn Read) -> io::Result<()> {
        let file = path.rsplit('/').next().unwrap_or(path);
        if let Some((disk, setting)) = setting_in(path) {
            return self.setting(disk, setting, bytes);
        }
        match path {
            "hostname" | "etc/hostname" => self.environment.host = line_of(bytes)?,
            "proc/sys/kernel/osrelease" => self.environment.kernel = line_of(bytes)?,
            "proc/uptime" => self.uptime_s = time_alone(&line_of(bytes)?),
            // sos copies no /proc/uptime.
            "sos_commands/host/uptime" => {
                let told = uptime(&line_of(bytes)?);
                self.uptime_s = self.uptime_s.or(told);
            }
            "proc/diskstats" => self.diskstats(bytes)?,
            "proc/mounts" | "proc/self/mounts" | "sos_commands/filesys/mount_-l" => {
                if !self.environment.mounts.is_empty() {
                    return Ok(());
                }
                self.mounts(bytes)?;
            }
            "sos_commands/kernel/uname_-a" => self.uname(bytes)?,
            // Files of iowhy are an answer, not a source.
            _ if path.starts_with("sos_commands/iowhy/") => return Ok(()),
            _ if is_log(path, file) => self.log(bytes)?,
            _ if is_sar(path, file) => {
                if self.sar.len() >= MOST_MOUNTS || !self.sar.insert(file.to_owned()) {
                    return Ok(());
                }
                self.lines(file, bytes)?;
            }
            _ if is_text(path, file) => self.lines(file, bytes)?,
            _ if is_json(file) => return self.json(bytes),
            _ => return Ok(()),
        }
        self.read += 1;
        match self.cutter.limit().filter(|_| self.cutter.has_given_up()) {
            Some(limit) => Err(io::Error::other(limit)),
            None => Ok(()),
        }
    }

    fn lines(&mut self, file: &str, bytes: &mut dyn Read) -> io::Result<()> {
        let mut input = BufReader::new(bytes.take(MOST_TEXT));
        let mut line = Vec::new();
        self.tables.next_file(self.book);
        if let Some(device) = device_of(file).filter(|_| file.starts_with("smartctl")) {
            // Its text does not name the drive.
            let command = format!("smartctl -a /dev/{device}");
            self.tables.line(&command, self.book, self.environment, self.out);
        }
        while self.cutter.next_line(&mut input, &mut line)? {
            let text = String::from_utf8_lossy(&line);
            self.tables.line(&text, self.book, self.environment, self.out);
        }
        Ok(())
    }

    fn log(&mut self, bytes: &mut dyn Read) -> io::Result<()> {
        let mut input = BufReader::new(bytes.take(MOST_TEXT));
        let mut line = Vec::new();
        self.tables.next_file(self.book);
        while self.cutter.next_line(&mut input, &mut line)? {
            self.tables.log_line(&String::from_utf8_lossy(&line), self.book);
        }
        Ok(())
    }

    /// `Linux HOST RELEASE …`.
    fn uname(&mut self, bytes: &mut dyn Read) -> io::Result<()> {
        let line = line_of(bytes)?;
        if let ["Linux", host, release, ..] = line.split_whitespace().collect::<Vec<_>>()[..] {
            for (known, told) in
                [(&mut self.environment.host, host), (&mut self.environment.kernel, release)]
            {
                if known.is_empty() {
                    told.clone_into(known);
                }
            }
        }
        Ok(())
    }

    fn diskstats(&mut self, bytes: &mut dyn Read) -> io::Result<()> {
        let mut input = BufReader::new(bytes.take(MOST_TEXT));
        let mut line = Vec::new();
        while self.since_boot.len() < MOST_MOUNTS && self.cutter.next_line(&mut input, &mut line)? {
            self.since_boot.push(String::from_utf8_lossy(&line).into_owned());
        }
        Ok(())
    }

    /// The counters since boot, if nothing tells of an interval.
    fn add_since_boot(&mut self) {
        if self.since_boot.is_empty() || self.book.has_counters() {
            return;
        }
        let Some(uptime_s) = self.uptime_s else {
            let limit = "its devices' counters were left out: it does not tell since when they \
                         count";
            self.environment.limits.push(limit.to_owned());
            return;
        };
        self.book.advance(uptime_s);
        for line in &self.since_boot {
            since_boot(line, self.book);
        }
        self.book.sample(self.out.batch, self.out.names);
        let limit = "its devices' figures are means since boot: `sar -d` tells of hours";
        self.environment.limits.push(limit.to_owned());
    }

    fn json(&mut self, bytes: &mut dyn Read) -> io::Result<()> {
        let mut text = Vec::new();
        bytes.take(MOST_TEXT.min(json::MOST_BYTES as u64)).read_to_end(&mut text)?;
        let before = std::mem::take(&mut self.environment.limits);
        let kind = detect(&text).filter(|kind| *kind != ForeignKind::Sosreport);
        if let Some(kind) = kind.filter(|_| text.trim_ascii_start().starts_with(b"{"))
            && json::read(kind, &text, self.book, self.environment, self.out).is_ok()
        {
            self.read += 1;
        }
        let limits = std::mem::replace(&mut self.environment.limits, before);
        self.limits.add(limits);
        Ok(())
    }

    fn setting(&mut self, disk: &str, name: &str, bytes: &mut dyn Read) -> io::Result<()> {
        let mut text = String::new();
        // A binary file is no setting.
        if bytes.take(MOST_SETTING).read_to_string(&mut text).is_ok() {
            self.book.setting(disk, name, text.trim());
            self.read += 1;
        }
        Ok(())
    }

    fn mounts(&mut self, bytes: &mut dyn Read) -> io::Result<()> {
        let mut input = BufReader::new(bytes.take(MOST_TEXT));
        let mut line = Vec::new();
        while self.cutter.next_line(&mut input, &mut line)? {
            let text = String::from_utf8_lossy(&line);
            let words: Vec<&str> = text.split_whitespace().collect();
            // `mount` prints: /dev/sda1 on / type ext4 (rw,relatime)
            let words = match words[..] {
                [source, "on", path, "type", kind, options, ..] => {
                    vec![source, path, kind, options.trim_matches(['(', ')'])]
                }
                _ => words,
            };
            if let [source, path, kind, options, ..] = words[..]
                && source.starts_with("/dev/")
                && self.environment.mounts.len() < MOST_MOUNTS
            {
                self.environment.mounts.push(Mount {
                    source: source.to_owned(),
                    path: path.to_owned(),
                    kind: kind.to_owned(),
                    options: options.to_owned(),
                    ..Mount::default()
                });
            }
        }
        Ok(())
    }
}

/// The disk and the name of a setting: `sys/block/sda/queue/scheduler`, which is a link in a report
/// of sos to `sys/devices/pci0000:00/…/block/sda/queue/scheduler`.
fn setting_in(path: &str) -> Option<(&str, &str)> {
    let (before, setting) = path.strip_prefix("sys/")?.rsplit_once('/')?;
    let disk = before.strip_suffix("/queue")?.rsplit('/').next()?;
    Some((disk, path.get(path.len() - setting.len() - "queue/".len()..)?))
}

/// The seconds since boot that `uptime` tells: `18:16:05 up 3 days,  4:05,  2 users, …`.
fn uptime(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once(" up ")?;
    let mut seconds = None;
    for part in rest.split(',') {
        let mut words = part.split_whitespace();
        let (figure, unit) = (words.next()?, words.next());
        let of = |factor: u32| Some(f64::from(figure.parse::<u32>().ok()?) * f64::from(factor));
        let told = match unit {
            Some("day" | "days") => of(86_400),
            Some("min") => of(60),
            Some("sec") => of(1),
            None => figure.split_once(':').and_then(|(hours, minutes)| {
                let hours = f64::from(hours.parse::<u32>().ok()?);
                Some(hours * 3600.0 + f64::from(minutes.parse::<u32>().ok()?) * 60.0)
            }),
            Some(_) => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + told?);
    }
    seconds
}

/// The first line, shortened if it is long.
fn line_of(bytes: &mut dyn Read) -> io::Result<String> {
    let mut line = Vec::new();
    LineCutter::default().next_line(&mut BufReader::new(bytes), &mut line)?;
    Ok(String::from_utf8_lossy(line.trim_ascii()).chars().take(255).collect())
}

/// Whether a file is text that [`TextTables`] knows.
fn is_text(path: &str, file: &str) -> bool {
    const BEGINNINGS: &[&str] =
        &["dmesg", "iostat", "vmstat", "pidstat", "iotop", "nvme_smart-log", "smartctl"];
    let is_command = path.starts_with("sos_commands/");
    let is_kernels = matches!(path, "var/log/dmesg" | "proc/mdstat");
    // A supportconfig has a few large texts.
    let is_support =
        matches!(path, "basic-health-check.txt" | "boot.txt" | "fs-diskio.txt" | "sar.txt");
    let begins = BEGINNINGS.iter().any(|beginning| file.starts_with(beginning));
    is_command && begins && !file.contains("json") || is_kernels || is_support
}

/// Whether a file is the text of one of sar's days.
fn is_sar(path: &str, file: &str) -> bool {
    (path.contains("/sar/") || path.contains("/sa/")) && file.starts_with("sar")
}

/// Whether a file is a log of all programs since the last boot or rotation. Older ones tell of
/// another time than the rest of the report.
fn is_log(path: &str, file: &str) -> bool {
    let is_journal = path.starts_with("sos_commands/logs/journalctl") && file.ends_with("--boot");
    let is_file = matches!(path, "var/log/messages" | "var/log/syslog" | "var/log/kern.log");
    is_journal || is_file || path == "messages.txt"
}

/// The device of a command in a file's name: `smartctl_-a_.dev.sda`.
fn device_of(file: &str) -> Option<&str> {
    let (_, rest) = file.split_once("_.dev.")?;
    let name = rest.split('_').next().filter(|name| !name.is_empty())?;
    Some(name)
}

fn is_json(file: &str) -> bool {
    file.starts_with("smartctl") || file.starts_with("nvme_smart-log") || file.ends_with(".json")
}

#[cfg(test)]
mod tests;
