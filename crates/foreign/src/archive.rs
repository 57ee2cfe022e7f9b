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
use iowhy_core::figures::counted;
use iowhy_core::model::Environment;
use iowhy_core::model::environment::Mount;
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
    let of_files = std::mem::take(&mut report.limits);
    let cut = report.cutter.limit().filter(|_| !report.cutter.has_given_up());
    environment.limits.extend(of_files.sentences());
    environment.limits.extend(cut);
    environment.limits.extend(damage.map(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("the archive is cut off: {error}"),
        _ => format!("the archive was read in part: {error}"),
    }));
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
        let path = path.split_once('/').map_or(path, |(_, rest)| rest);
        let file = path.rsplit('/').next().unwrap_or(path);
        match path {
            "hostname" | "etc/hostname" => self.environment.host = line_of(bytes)?,
            "proc/sys/kernel/osrelease" => self.environment.kernel = line_of(bytes)?,
            "proc/uptime" => self.uptime_s = time_alone(&line_of(bytes)?),
            "proc/diskstats" => self.diskstats(bytes)?,
            "proc/mounts" | "proc/self/mounts" | "sos_commands/filesys/mount_-l" => {
                if !self.environment.mounts.is_empty() {
                    return Ok(());
                }
                self.mounts(bytes)?;
            }
            "sos_commands/kernel/uname_-a" => self.uname(bytes)?,
            _ if path.starts_with("sys/block/") => return self.setting(path, bytes),
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
        let Some(uptime_s) = self.uptime_s.filter(|_| !self.book.has_counters()) else { return };
        if self.since_boot.is_empty() {
            return;
        }
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

    /// `sys/block/sda/queue/scheduler`.
    fn setting(&mut self, path: &str, bytes: &mut dyn Read) -> io::Result<()> {
        let rest = path.strip_prefix("sys/block/").unwrap_or(path);
        let Some((disk, setting)) = rest.split_once('/') else { return Ok(()) };
        if setting.starts_with("queue/") && setting.matches('/').count() == 1 {
            let mut text = String::new();
            // A binary file is no setting.
            if bytes.take(MOST_SETTING).read_to_string(&mut text).is_ok() {
                self.book.setting(disk, setting, text.trim());
                self.read += 1;
            }
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
mod tests {
    use super::*;
    use iowhy_core::model::Names;
    use iowhy_core::source::Batch;
    use std::io::{Cursor, Write};

    /// A member of an archive.
    pub(super) fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0_u8; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        let size = format!("{:011o}", content.len());
        block[124..135].copy_from_slice(size.as_bytes());
        block[156] = kind;
        block[257..262].copy_from_slice(b"ustar");
        block[148..156].copy_from_slice(b"        ");
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block.extend_from_slice(content);
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        block
    }

    fn read_all(bytes: Vec<u8>) -> Result<(CounterBook, Environment), String> {
        let (mut book, mut tables) = (CounterBook::default(), TextTables::default());
        let (mut batch, mut names) = (Batch::default(), Names::new());
        let mut out = RowsOut { batch: &mut batch, names: &mut names };
        let mut environment = Environment::default();
        let input: Bytes = Box::new(Cursor::new(bytes));
        read(BufReader::new(input), &mut book, &mut tables, &mut environment, &mut out)?;
        Ok((book, environment))
    }

    fn report() -> Vec<u8> {
        let log = b"[    5.0] blk_update_request: I/O error, dev sda, sector 8\n";
        [
            member("sos-1/hostname", b'0', b"db1\n"),
            member("sos-1/etc/shadow", b'0', b"root:x\n"),
            member("sos-1/sos_commands/kernel/dmesg", b'0', log),
            member("sos-1/sys/block/sda/queue/scheduler", b'0', b"[none] bfq\n"),
            member("sos-1/proc/mounts", b'2', b"/dev/sdz / ext4 rw 0 0\n"),
            vec![0; 2 * BLOCK],
        ]
        .concat()
    }

    #[test]
    fn what_a_report_tells_is_read_and_links_are_not() {
        for packed in [false, true] {
            let mut bytes = report();
            if packed {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(&bytes).unwrap();
                bytes = encoder.finish().unwrap();
            }
            let (book, environment) = read_all(bytes).unwrap();
            assert_eq!((environment.host.as_str(), environment.mounts.len()), ("db1", 0));
            let devices = book.devices();
            let [sda] = &devices[..] else { panic!("{devices:?}") };
            assert_eq!(sda.settings_start["queue/scheduler"], "[none] bfq");
            assert_eq!(sda.kernel_messages[0].kind, "error");
        }
    }

    #[test]
    fn limits_of_many_files_are_said_once() {
        let job =
            br#"{"fio version": "fio-3.36", "jobs": [{"jobname": "a", "job_runtime": 1000}]}"#;
        let files = (0..3_000).map(|at| member(&format!("sos-1/{at}.json"), b'0', job));
        let bytes: Vec<u8> = files.flatten().chain(vec![0; 2 * BLOCK]).collect();
        let (_, environment) = read_all(bytes).unwrap();
        let said = environment.limits.iter().filter(|limit| limit.contains("disk_util")).count();
        assert_eq!(said, 1, "{:?}", environment.limits.first());
        assert!(environment.limits.iter().any(|limit| limit.ends_with("(3,000 files)")));
    }

    #[test]
    fn one_message_in_several_logs_is_one() {
        let text = "blk_update_request: I/O error, dev sda, sector 8";
        let dmesg = format!("[    5.0] {text}\n[    6.0] {text}\n[    7.0] something else\n");
        let log = format!(
            "Nov 25 10:00:00 db1 kernel: {text}\nNov 25 10:00:00 db1 sshd[1]: I/O error, dev sdq\n\
             Nov 25 10:00:01 db1 kernel: {text}\nNov 25 10:00:02 db1 kernel: {text}\n"
        );
        let bytes = [
            member("sos-1/sos_commands/kernel/dmesg", b'0', dmesg.as_bytes()),
            member("sos-1/var/log/messages", b'0', log.as_bytes()),
            member("sos-1/sos_commands/logs/journalctl_--no-pager_--boot", b'0', log.as_bytes()),
            member("sos-1/var/log/messages-20261101", b'0', b"Nov 1 0:0:0 a kernel: x\n"),
        ]
        .concat();
        let (book, _) = read_all(bytes).unwrap();
        let devices = book.devices();
        let [sda] = &devices[..] else { panic!("{devices:?}") };
        assert_eq!(sda.kernel_messages.len(), 3);
    }

    #[test]
    fn a_drive_is_named_by_its_file_and_a_day_is_read_once() {
        let smart = b"=== START OF READ SMART DATA SECTION ===\n\
            SMART overall-health self-assessment test result: FAILED!\n\
            197 Current_Pending_Sector  0x0032   100   100   000    Old_age   Always   -   8\n";
        let day = b"Linux 5.14.0 (db1) \t11/25/2026 \t_x86_64_\t(4 CPU)\n\n\
            22:00:00 DEV tps rkB/s wkB/s await %util\n22:10:00 sdb 1.0 2.0 3.0 4.0 5.0\n";
        let bytes = [
            member("sos-1/sos_commands/ata/smartctl_-a_.dev.sdb", b'0', smart),
            member("sos-1/var/log/sa/sar25", b'0', day),
            member("sos-1/sos_commands/sar/sar25", b'0', day),
            member("sos-1/sos_commands/kernel/uname_-a", b'0', b"Linux db1 5.14.0 #1 SMP\n"),
            member(
                "sos-1/sos_commands/filesys/mount_-l",
                b'0',
                b"/dev/sdb1 on /srv type xfs (rw)\n",
            ),
        ]
        .concat();
        let (book, environment) = read_all(bytes).unwrap();
        let devices = book.devices();
        let [sdb] = &devices[..] else { panic!("{devices:?}") };
        assert_eq!(sdb.health_end.clone().unwrap().drive.unwrap().pending_sectors, Some(8));
        assert_eq!(environment.kernel, "5.14.0");
        assert_eq!((&*environment.mounts[0].kind, &*environment.mounts[0].options), ("xfs", "rw"));
        assert!(book.limits().is_empty(), "{:?}", book.limits());
    }

    #[test]
    fn too_much_in_long_lines_is_said_and_ends_it() {
        let long = |count: usize| vec![b'a'; count << 20];
        let archive = |content: &[u8]| {
            let log = member("sos-1/var/log/messages", b'0', content);
            [report()[..2 * BLOCK].to_vec(), log, report()].concat()
        };
        let (book, environment) = read_all(archive(&long(10))).unwrap();
        let limits = environment.limits.join("\n");
        assert!(limits.contains("bytes of lines longer than 8 KiB were skipped"), "{limits}");
        assert_eq!(book.devices().len(), 1);
        let (book, environment) = read_all(archive(&long(65))).unwrap();
        let limits = environment.limits.join("\n");
        assert!(limits.contains("the archive was read in part"), "{limits}");
        assert!(book.devices().is_empty());
        assert_eq!(environment.host, "db1");
    }

    #[test]
    fn damage_and_bombs_end() {
        let whole = report();
        for length in [0, 100, BLOCK, whole.len() / 2] {
            // The result is a part or a reason; reading never hangs or panics.
            let _ = read_all(whole[..length].to_vec());
        }
        assert!(read_all(vec![7; 4096]).is_err());
        let mut huge = member("sos-1/hostname", b'L', b"x");
        huge[124..136].copy_from_slice(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
        huge[148..156].copy_from_slice(b"        ");
        let sum: u64 = huge[..BLOCK].iter().map(|byte| u64::from(*byte)).sum();
        huge[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        assert!(read_all(huge).is_err());
    }
}
