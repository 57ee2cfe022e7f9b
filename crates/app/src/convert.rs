//! Binary files of other tools that their own tool, where it is installed, prints as text: its
//! output becomes standard input.
//!
//! As root iowhy starts a tool only on a file that nobody else can write: such files are hostile
//! input, and not every tool was made for that.
//!
//! What does not belong here: kinds that iowhy reads by itself (see [`crate::foreign`]).

use crate::failure::Failure;
use crate::{output, sources};
use iowhy_fs::{programs, read};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A tool, and how it prints its own files.
pub struct Converter {
    /// The first bytes of its files.
    magic: &'static [u8],
    /// Its files.
    pub what: &'static str,
    program: &'static str,
    /// FILE stands for the file.
    arguments: &'static [&'static str],
}

/// The arguments of perf that print events in their usual form, but no call chains: those make it
/// open files that the recording names.
const PERF: &[&str] = &["script", "-F", "trace:comm,tid,cpu,time,event,trace", "-i", "FILE"];

const CONVERTERS: &[Converter] = &[
    Converter { magic: b"PERFILE2", what: "perf's recording", program: "perf", arguments: PERF },
    Converter {
        magic: b"\x17\x08\x44tracing",
        what: "trace-cmd's recording",
        program: "trace-cmd",
        arguments: &["report", "-i", "FILE"],
    },
    Converter {
        magic: b"\xef\xbe\xed\xfe",
        what: "atop's recording",
        program: "atop",
        arguments: &["-r", "FILE", "-P", "ALL"],
    },
    // sadc's files begin with two numbers: their magic and that of the data behind.
    Converter { magic: b"\x96\xd5", what: SADC, program: "sadf", arguments: SADF },
    Converter { magic: b"\xd5\x96", what: SADC, program: "sadf", arguments: SADF },
];

const SADC: &str = "sadc's binary file";
const SADF: &[&str] = &["-j", "FILE", "--", "-dbBqrSuW"];

/// The file whose converted text is standard input, as it was given and as it is open: its tool
/// reads it by that.
static CONVERTED: OnceLock<(PathBuf, File)> = OnceLock::new();

/// The tool that wrote what begins with `head`.
pub fn find(head: &[u8]) -> Option<&'static Converter> {
    CONVERTERS.iter().find(|converter| head.starts_with(converter.magic))
}

/// `given`, or standard input where its tool prints what is given.
///
/// # Errors
/// When the tool is installed and cannot be started.
pub fn instead(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let same = || given.to_vec();
    let [path] = given else { return Ok(same()) };
    if CONVERTED.get().is_none_or(|(converted, _)| converted != path) {
        let Some((converter, program, file)) = installed(path) else { return Ok(same()) };
        converter.start(&program, path, &file)?;
        CONVERTED.get_or_init(|| (path.clone(), file));
    }
    Ok(vec![PathBuf::from("-")])
}

/// The tool for a file, if it is installed and may be started on it.
fn installed(path: &Path) -> Option<(&'static Converter, PathBuf, File)> {
    if !path.is_file() {
        return None;
    }
    let mut file = read::open_source(path).ok()?;
    let mut head = [0; 16];
    let count = file.read(&mut head).ok()?;
    let converter = find(head.get(..count)?)?;
    let about = file.metadata().ok()?;
    let is_safe = about.uid() == 0 && about.mode() & 0o022 == 0;
    let may_start = is_safe || !rustix::process::geteuid().is_root();
    let program = programs::find(converter.program).filter(|_| may_start)?;
    Some((converter, program, file))
}

impl Converter {
    /// The command, for a person.
    pub fn command(&self, path: &Path) -> String {
        let file = sources::words(&[path.to_owned()]);
        let words = self.arguments.iter().map(|it| if *it == "FILE" { file.as_str() } else { it });
        format!("{} {}", self.program, words.collect::<Vec<_>>().join(" "))
    }

    /// Starts the tool on `file`, which `path` was: another one may be there by now. What it prints
    /// becomes standard input.
    fn start(&self, program: &Path, path: &Path, file: &File) -> Result<(), Failure> {
        let failed = |cause: &dyn std::fmt::Display| {
            let message = format!("failed to start {}: {cause}", program.display());
            Failure::new(message, Some(format!("`{} | iowhy report -`", self.command(path))))
        };
        let open = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let words = self.arguments.iter().map(|it| if *it == "FILE" { open.as_str() } else { it });
        let mut command = Command::new(program);
        command.args(words);
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
