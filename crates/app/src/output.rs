//! Standard output and standard error. Everything that iowhy prints goes through here.

use crate::args::WantedColour;
use crate::failure::Failure;
use iowhy_blktrace::trace::Warnings;
use iowhy_model::Environment;
use iowhy_model::loss::{Loss, Losses};
use iowhy_views::escape::escape;
use iowhy_views::fold;
use iowhy_views::style::Style;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// Whether the user wants colour.
static COLOUR: OnceLock<WantedColour> = OnceLock::new();

/// Notes, before anything is printed, whether the user wants colour.
pub fn colour(wanted: WantedColour) {
    COLOUR.get_or_init(|| wanted);
}

/// The style that fits standard output: its width, whether it shows colour and which characters.
pub fn style() -> Style {
    let variable = |name: &str| std::env::var(name).ok();
    let terminal = io::stdout().is_terminal();
    let width = terminal_width(io::stdout()).or_else(asked_width);
    let colour = match COLOUR.get() {
        Some(WantedColour::Always) => true,
        Some(WantedColour::Never) => false,
        Some(WantedColour::Auto) | None => {
            let refused = variable("NO_COLOR");
            Style::wants_colour(terminal, refused.as_deref(), variable("TERM").as_deref())
        }
    };
    let unicode = Style::wants_unicode(
        variable("LC_ALL").as_deref(),
        variable("LC_CTYPE").as_deref(),
        variable("LANG").as_deref(),
    );
    Style { colour, unicode, ..Style::plain(width.unwrap_or(Style::DEFAULT_WIDTH)) }
}

/// The width of a terminal that reports it.
fn terminal_width(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The width that the user requests.
fn asked_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

/// Prints a complete screen or document. A reader that closes the pipe early (`| head`) is not an
/// error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = PipedOutput::begin();
    out.write(text.as_bytes());
    out.finish()
}

/// Prints lines whose texts are anybody's: escaped for a terminal, unchanged for a program.
pub fn print_escaping(text: &str) -> Result<(), Failure> {
    let mut answer = PipedOutput::escaping();
    answer.write(text.as_bytes());
    answer.finish()
}

/// Output that is written in pieces until the reader has gone.
pub struct PipedOutput {
    out: Box<dyn Write>,
    written: io::Result<()>,
}

impl PipedOutput {
    /// Begins without printing anything.
    pub fn begin() -> PipedOutput {
        PipedOutput { out: Box::new(io::stdout().lock()), written: Ok(()) }
    }

    /// Begins without printing anything; lines are escaped on a terminal, which would do what names
    /// in them say.
    pub fn escaping() -> PipedOutput {
        match is_terminal() {
            true => {
                let lines = EscapedLines::new(io::stdout().lock());
                PipedOutput { out: Box::new(lines), written: Ok(()) }
            }
            false => PipedOutput::begin(),
        }
    }

    /// Prints `bytes` unchanged; false once the reader has gone.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        if self.written.is_ok() {
            self.written = self.out.write_all(bytes);
        }
        self.written.is_ok()
    }

    /// Flushes the buffer; false as for [`PipedOutput::write`].
    pub fn flush(&mut self) -> bool {
        if self.written.is_ok() {
            self.written = self.out.flush();
        }
        self.written.is_ok()
    }

    /// Returns an error unless all of it was printed, or as much as was read.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match self.written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::new(format!("failed to write the output: {error}"), None))
            }
            _ => Ok(()),
        }
    }
}

/// Standard output, for output in pieces.
pub fn answer() -> impl Write {
    io::stdout().lock()
}

/// Lines of text for a terminal, escaped: an export keeps names as they are, and a terminal does
/// what the characters in them say.
pub struct EscapedLines<W: Write> {
    out: W,
    style: Style,
    /// The line that is not complete.
    line: Vec<u8>,
}

impl<W: Write> EscapedLines<W> {
    /// Lines that are written to `out`.
    pub fn new(out: W) -> EscapedLines<W> {
        EscapedLines { out, style: style(), line: Vec::new() }
    }

    fn end_line(&mut self, end: &str) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        let escaped = escape(text, &self.style);
        let written = self.out.write_all(escaped.as_bytes());
        self.line.clear();
        written?;
        self.out.write_all(end.as_bytes())
    }
}

impl<W: Write> Write for EscapedLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(rest) => {
                    self.line.extend_from_slice(rest);
                    self.end_line("\n")?;
                }
                None => self.line.extend_from_slice(part),
            }
        }
        Ok(bytes.len())
    }

    /// A line that is not complete stays until it is.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for EscapedLines<W> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            // If nobody reads any more, the next write says so.
            let _ = self.end_line("");
        }
        let _ = self.out.flush();
    }
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints a message to standard error. Quoted names are untrusted, so it is escaped. It is wrapped
/// for a terminal; in a pipe it is one line.
pub fn note(text: &str) {
    let text = escaped(text);
    let lines = match io::stderr().is_terminal() {
        true => {
            let width = terminal_width(io::stderr()).or_else(asked_width);
            let style = Style::plain(width.unwrap_or(Style::DEFAULT_WIDTH));
            fold::message(&text, style.columns(), &named())
        }
        false => vec![text],
    };
    let mut out = io::stderr().lock();
    for line in lines {
        // If standard error is closed, there is nowhere to report it.
        let _ = writeln!(out, "{line}");
    }
}

/// Words of the command line with spaces, which a message may quote.
fn named() -> Vec<String> {
    let words = std::env::args_os().map(|word| escaped(&word.to_string_lossy()));
    words.filter(|word| word.contains(' ')).collect()
}

/// `text` escaped, since it may quote untrusted names.
pub fn escaped(text: &str) -> String {
    escape(text, &style()).into_owned()
}

/// The defects of a capture, a sentence each.
pub fn sentences(warnings: &Warnings) -> Vec<String> {
    let mut sentences: Vec<String> = warnings.items().iter().map(ToString::to_string).collect();
    if warnings.suppressed() > 0 {
        sentences.push(format!("{} more kinds of loss in further files", warnings.suppressed()));
    }
    sentences
}

/// Prints the defects of a capture to standard error.
pub fn warnings(warnings: &Warnings) {
    sentences(warnings).iter().for_each(|sentence| note(&format!("note: {sentence}")));
}

/// The losses, a sentence each.
pub fn loss_sentences(losses: &Losses) -> Vec<String> {
    losses.items.iter().map(Loss::note).collect()
}

/// Prints the losses to standard error.
pub fn losses(losses: &Losses) {
    loss_sentences(losses).iter().for_each(|sentence| note(sentence));
}

/// Prints what was not recorded all the time to standard error.
pub fn limits(environment: &Environment) {
    environment.limits.iter().for_each(|limit| note(&format!("note: {limit}")));
}

/// Prints why the command failed, and a hint.
pub fn failure(failure: &Failure) {
    for line in failure.message.lines() {
        note(&format!("iowhy: {line}"));
    }
    if let Some(hint) = &failure.hint {
        note(&format!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_a_terminal_is_escaped_line_by_line() {
        let mut out = Vec::new();
        let mut lines = EscapedLines::new(&mut out);
        for part in ["a\x1b[31", "mred\u{202e}\u{9b}2J\r\nsec", "ond\tx\n\x07"] {
            lines.write_all(part.as_bytes()).unwrap();
        }
        drop(lines);
        let text = String::from_utf8(out).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
        assert!(text.starts_with("a\\x1b[31mred"), "{text:?}");
        assert!(text.ends_with("\nsecond\\tx\n\\x07"), "{text:?}");
    }
}
