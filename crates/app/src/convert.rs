//! Binary files of other tools that their own tool, where it is installed, prints as text: its
//! output becomes standard input.
//!
//! As root iowhy starts a tool only on a file that nobody else can write: such files are hostile
//! input, and not every tool was made for that.
//!
//! What does not belong here: kinds that iowhy reads by itself (see [`crate::foreign`]).

use crate::failure::Failure;
use crate::{output, sources};
use iowhy_fs::{Folder, programs, read};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A tool, and how it prints its own files.
pub struct Converter {
    /// The first bytes of its files.
    magic: &'static [u8],
    /// The name of the tool's files.
    pub what: &'static str,
    program: &'static str,
    /// FILE stands for the file.
    arguments: &'static [&'static str],
    /// Whether files of the same name with other endings belong to it.
    is_one_of_several: bool,
}

/// The arguments of perf that print events in their usual form, but no call chains: those make it
/// open files that the recording names.
const PERF: &[&str] = &["script", "-F", "trace:comm,tid,cpu,time,event,trace", "-i", "FILE"];

const CONVERTERS: &[Converter] = &[
    Converter::alone(b"PERFILE2", "perf's recording", "perf", PERF),
    Converter::alone(b"\x17\x08\x44tracing", "trace-cmd's recording", "trace-cmd", TRACE_CMD),
    Converter::alone(b"\xef\xbe\xed\xfe", "atop's recording", "atop", ATOP),
    // sadc's files begin with two numbers: their magic and that of the data behind.
    Converter::alone(b"\x96\xd5", SADC, "sadf", SADF),
    Converter::alone(b"\xd5\x96", SADC, "sadf", SADF),
    // The length of the label, which differs by version, and its magic.
    Converter::of_several(b"\0\0\0\x84\x50\x05\x26", PCP, "pmrep", PMREP),
    Converter::of_several(b"\0\0\x03\x28\x50\x05\x26", PCP, "pmrep", PMREP),
];

const TRACE_CMD: &[&str] = &["report", "-i", "FILE"];
const ATOP: &[&str] = &["-r", "FILE", "-P", "ALL"];
const PCP: &str = "PCP's archive";
/// The arguments of pmrep: each sample as it was logged (`-u`), whatever metrics it lacks (`-5`).
const PMREP: &[&str] =
    &["-a", "FILE", "-u", "-z", "-5", "-I", "-o", "csv", "disk.dev", "kernel.all", "swap", "mem"];

const SADC: &str = "sadc's binary file";
const SADF: &[&str] = &["-j", "FILE", "--", "-dbBqrSuW"];

/// A file that is open, or that has a folder that is open: a tool reads it by that, as another one
/// may have its path by now.
enum OpenSource {
    Alone(File),
    In(Folder, OsString),
}

impl OpenSource {
    fn path(&self) -> PathBuf {
        match self {
            OpenSource::Alone(file) => {
                format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
            }
            OpenSource::In(folder, name) => {
                let path = folder.by_handle(name);
                let below = path.strip_prefix("/proc/self").unwrap_or(&path);
                Path::new("/proc").join(std::process::id().to_string()).join(below)
            }
        }
    }
}

/// The file whose converted text is standard input, as it was given and as it is open.
static CONVERTED: OnceLock<(PathBuf, OpenSource)> = OnceLock::new();

/// The tool that wrote what begins with `head`.
pub fn find(head: &[u8]) -> Option<&'static Converter> {
    CONVERTERS.iter().find(|converter| head.starts_with(converter.magic))
}

/// Returns `given`, or standard input with the output of the tool that prints `given`.
///
/// # Errors
/// Fails if the tool is installed and cannot be started.
pub fn instead(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let same = || given.to_vec();
    let [path] = given else { return Ok(same()) };
    if CONVERTED.get().is_none_or(|(converted, _)| converted != path) {
        let Some((converter, program, source)) = installed(path) else { return Ok(same()) };
        converter.start(&program, path, &source)?;
        CONVERTED.get_or_init(|| (path.clone(), source));
    }
    Ok(vec![PathBuf::from("-")])
}

/// The tool for a file, if it is installed and may be started on it.
fn installed(path: &Path) -> Option<(&'static Converter, PathBuf, OpenSource)> {
    if !path.is_file() {
        return None;
    }
    let mut file = read::open_source(path).ok()?;
    let mut head = [0; 16];
    let count = file.read(&mut head).ok()?;
    let converter = find(head.get(..count)?)?;
    let program = programs::find(converter.program)?;
    let is_safe = !rustix::process::geteuid().is_root() || belongs_to_root(&file);
    let source = match converter.is_one_of_several {
        false => OpenSource::Alone(file),
        true => among_others(path)?,
    };
    is_safe.then_some((converter, program, source))
}

/// Whether root alone can write to a file.
fn belongs_to_root(file: &File) -> bool {
    file.metadata().is_ok_and(|about| about.uid() == 0 && about.mode() & 0o022 == 0)
}

/// A file with those that belong to it; `None` if root would read files of others.
fn among_others(path: &Path) -> Option<OpenSource> {
    let (folder, name) = iowhy_fs::parent(path).ok()?;
    if rustix::process::geteuid().is_root() {
        folder.check_own().ok()?;
        let stem = [Path::new(&name).file_stem()?.as_bytes(), b"."].concat();
        let belongs = |other: &OsString| other.as_bytes().starts_with(&stem);
        let others = folder.names().ok()?.into_iter().filter(belongs);
        others
            .map(|other| folder.open_file(other))
            .try_for_each(|file| file.ok().filter(belongs_to_root).map(drop))?;
    }
    Some(OpenSource::In(folder, name))
}

impl Converter {
    const fn alone(
        magic: &'static [u8],
        what: &'static str,
        program: &'static str,
        arguments: &'static [&'static str],
    ) -> Converter {
        Converter { magic, what, program, arguments, is_one_of_several: false }
    }

    const fn of_several(
        magic: &'static [u8],
        what: &'static str,
        program: &'static str,
        arguments: &'static [&'static str],
    ) -> Converter {
        Converter { is_one_of_several: true, ..Converter::alone(magic, what, program, arguments) }
    }

    /// The command, for a person.
    pub fn command(&self, path: &Path) -> String {
        let file = sources::words(&[path.to_owned()]);
        let words = self
            .arguments
            .iter()
            .map(|argument| if *argument == "FILE" { file.as_str() } else { argument });
        format!("{} {}", self.program, words.collect::<Vec<_>>().join(" "))
    }

    /// Starts the tool on `source`, which `path` was. What it prints becomes standard input.
    fn start(&self, program: &Path, path: &Path, source: &OpenSource) -> Result<(), Failure> {
        let failed = |cause: &dyn std::fmt::Display| {
            let message = format!("failed to start {}: {cause}", program.display());
            Failure::new(message, Some(format!("`{} | iowhy report -`", self.command(path))))
        };
        let open = source.path();
        let word = |word: &&'static str| match *word {
            "FILE" => open.clone().into_os_string(),
            other => other.into(),
        };
        let mut command = Command::new(program);
        command.args(self.arguments.iter().map(word));
        // Settings of the caller would change what it prints, or fetch what the file names.
        command.env_clear().env("LC_ALL", "C").env("HOME", "/");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| failed(&cause))?;
        if let Some(printed) = child.stdout.take() {
            rustix::stdio::dup2_stdin(&printed).map_err(|cause| failed(&cause))?;
        }
        output::note(&format!("{} is read by `{}`", self.what, self.command(path)));
        Ok(())
    }
}
