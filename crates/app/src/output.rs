//! Standard output and standard error. Everything that iowhy prints goes through here.

use crate::failure::Failure;
use iowhy_core::formats::blktrace::Warnings;
use iowhy_core::model::Losses;
use iowhy_views::escape::escape;
use iowhy_views::fold;
use iowhy_views::style::Style;
use std::io::{self, ErrorKind, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;

/// The style that fits standard output: its width, whether it shows colour and which characters.
pub fn style() -> Style {
    let variable = |name: &str| std::env::var(name).ok();
    let terminal = io::stdout().is_terminal();
    let width = terminal_width(io::stdout()).or_else(asked_width);
    let colour =
        Style::wants_colour(terminal, variable("NO_COLOR").as_deref(), variable("TERM").as_deref());
    let unicode = Style::wants_unicode(
        variable("LC_ALL").as_deref(),
        variable("LC_CTYPE").as_deref(),
        variable("LANG").as_deref(),
    );
    Style { colour, unicode, ..Style::plain(width.unwrap_or(Style::DEFAULT_WIDTH)) }
}

/// The columns of a terminal that tells them.
fn terminal_width(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The columns that the user asks for.
fn asked_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

/// Prints a whole screen or document. A reader that closes the pipe early (`| head`) is content,
/// not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = Answer::begin();
    out.write(text.as_bytes());
    out.finish()
}

/// An answer that is printed piece by piece, until nobody reads it any more.
pub struct Answer {
    out: StdoutLock<'static>,
    written: io::Result<()>,
}

impl Answer {
    /// Nothing is printed yet.
    pub fn begin() -> Answer {
        Answer { out: io::stdout().lock(), written: Ok(()) }
    }

    /// Prints `bytes` as they are; false once printing makes no sense any more.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        if self.written.is_ok() {
            self.written = self.out.write_all(bytes);
        }
        self.written.is_ok()
    }

    /// Prints what is held back; false as for [`Answer::write`].
    pub fn flush(&mut self) -> bool {
        if self.written.is_ok() {
            self.written = self.out.flush();
        }
        self.written.is_ok()
    }

    /// Says whether all of it was printed, or as much as was read.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match self.written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::new(format!("failed to write the answer: {error}"), None))
            }
            _ => Ok(()),
        }
    }
}

/// Standard output, for answers that are written piece by piece.
pub fn answer() -> impl Write {
    io::stdout().lock()
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Says something beside the answer. What a message quotes may hold anything, so it is escaped. For a
/// terminal it is folded; who reads a pipe wants one line.
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
        // Nobody is left to be told when standard error is closed.
        let _ = writeln!(out, "{line}");
    }
}

/// What the user named and a message may quote: words of the command line that have spaces.
fn named() -> Vec<String> {
    let words = std::env::args_os().map(|word| escaped(&word.to_string_lossy()));
    words.filter(|word| word.contains(' ')).collect()
}

/// `text` as it may be printed beside other text: what it quotes may hold anything.
pub fn escaped(text: &str) -> String {
    escape(text, &style()).into_owned()
}

/// What is wrong with a capture, a sentence each.
pub fn sentences(warnings: &Warnings) -> Vec<String> {
    let mut sentences: Vec<String> = warnings.items().iter().map(ToString::to_string).collect();
    if warnings.suppressed() > 0 {
        sentences.push(format!("{} more kinds of loss in further files", warnings.suppressed()));
    }
    sentences
}

/// Says beside the answer what is wrong with a capture.
pub fn warnings(warnings: &Warnings) {
    sentences(warnings).iter().for_each(|sentence| note(&format!("note: {sentence}")));
}

/// What was lost, a sentence each.
pub fn loss_sentences(losses: &Losses) -> Vec<String> {
    losses.items.iter().map(|loss| format!("lost: {}", loss.sentence())).collect()
}

/// Says beside the answer what was lost.
pub fn losses(losses: &Losses) {
    loss_sentences(losses).iter().for_each(|sentence| note(sentence));
}

/// Says why the command failed, and what to do.
pub fn failure(failure: &Failure) {
    for line in failure.message.lines() {
        note(&format!("iowhy: {line}"));
    }
    if let Some(hint) = &failure.hint {
        note(&format!("hint: {hint}"));
    }
}
