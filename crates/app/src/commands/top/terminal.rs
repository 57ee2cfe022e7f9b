//! The terminal: switched to the screen of `iowhy top`, read for keys, and restored when iowhy
//! ends, except after SIGKILL (then `reset` restores it).
//!
//! What does not belong here: what is drawn, and which keys there are (see [`super::input`]).

use super::input::{TerminalEvent, TerminalInput};
use crate::failure::Failure;
use crate::output;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Rect, Size};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, ErrorKind, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Frames are at least so far apart, however many signals come: a window that is dragged sends
/// hundreds.
const FRAME: Duration = Duration::from_millis(25);
/// The columns and rows that are drawn: anyone who has the terminal can set one that takes all
/// memory.
const MOST_COLUMNS: u16 = 1000;
const MOST_ROWS: u16 = 500;

/// Fails where there is no terminal, or one that cannot move its cursor.
pub fn require() -> Result<(), Failure> {
    let instead = "`iowhy` watches for ten seconds and prints what it found; `iowhy stat 1` prints \
                   the devices every second";
    let failed = |cause: &str, hint: String| {
        Failure::new(format!("failed to show a screen: {cause}"), Some(hint))
    };
    if !io::stdin().is_terminal() || !output::is_terminal() {
        return Err(failed(
            "standard input and output are not both a terminal",
            instead.to_owned(),
        ));
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if matches!(term.as_str(), "" | "dumb") {
        let cause = match term.as_str() {
            "" => "TERM is not set, so what the terminal can do is not known",
            _ => "TERM is dumb: such a terminal cannot move its cursor",
        };
        return Err(failed(cause, format!("{instead}; or set TERM, for example to xterm")));
    }
    Ok(())
}

/// The terminal while it shows a screen.
pub struct TakenTerminal {
    /// Never dropped: that would print to a terminal that may be gone, and panic.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<io::Stdout>>>,
    input: TerminalInput,
    signal: Arc<AtomicBool>,
    drawn: Instant,
    area: Rect,
    /// Whether the terminal may have lost what was drawn: its size changed, perhaps back to what it
    /// was.
    is_spoiled: bool,
}

impl TakenTerminal {
    /// Takes the terminal. It is given back when this is dropped, and before the message of a
    /// panic.
    pub fn take() -> Result<TakenTerminal, Failure> {
        let signal = Arc::new(AtomicBool::new(false));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(number, Arc::clone(&signal)).map_err(failed)?;
        }
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            hook(panic);
        }));
        let taken = enable_raw_mode().and_then(|()| {
            execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
            // Its area is set before each frame, within bounds.
            let viewport = Viewport::Fixed(Rect::default());
            let backend = CrosstermBackend::new(io::stdout());
            let terminal = Terminal::with_options(backend, TerminalOptions { viewport })?;
            Ok((terminal, TerminalInput::start()?))
        });
        match taken {
            Ok((terminal, input)) => {
                let drawn = Instant::now() - FRAME;
                let terminal = ManuallyDrop::new(terminal);
                let area = Rect::default();
                Ok(TakenTerminal { terminal, input, signal, drawn, area, is_spoiled: false })
            }
            Err(cause) => {
                give_back();
                Err(failed(cause))
            }
        }
    }

    /// Draws a frame; false if the terminal is gone.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame)) -> Result<bool, Failure> {
        std::thread::sleep(FRAME.saturating_sub(self.drawn.elapsed()));
        match self.draw_within(render) {
            Ok(()) => (),
            Err(cause) if has_hung_up(&cause) => return Ok(false),
            Err(cause) => return Err(failed(cause)),
        }
        self.drawn = Instant::now();
        Ok(true)
    }

    fn draw_within(&mut self, render: impl FnOnce(&mut Frame)) -> io::Result<()> {
        let Size { width, height } = self.terminal.size()?;
        let area = Rect::new(0, 0, width.min(MOST_COLUMNS), height.min(MOST_ROWS));
        let is_spoiled = std::mem::take(&mut self.is_spoiled);
        if is_spoiled || area != self.area {
            self.terminal.resize(area)?;
            self.area = area;
        }
        self.terminal.draw(render).map(drop)
    }

    /// The size of the frame that is seen.
    pub fn area(&self) -> Rect {
        self.area
    }

    /// Returns the events that have come, and if none has, those that come within `time`.
    pub fn events(&mut self, time: Duration) -> Result<Vec<TerminalEvent>, Failure> {
        let events = self.input.events(time);
        if self.signal.load(Ordering::Relaxed) || is_gone()? {
            return Ok(vec![TerminalEvent::Gone]);
        }
        match events {
            Ok(events) => {
                self.is_spoiled |=
                    events.iter().any(|event| matches!(event, TerminalEvent::Resized));
                Ok(events)
            }
            Err(cause) if has_hung_up(&cause) => Ok(vec![TerminalEvent::Gone]),
            Err(cause) => Err(failed(cause)),
        }
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        give_back();
        read_no_more();
    }
}

/// Whether the terminal has hung up.
fn is_gone() -> Result<bool, Failure> {
    let input = io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::empty())];
    match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(_) | Err(Errno::INTR) => (),
        Err(cause) => return Err(failed(cause.into())),
    }
    let bad = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(polled.iter().any(|descriptor| descriptor.revents().intersects(bad)))
}

/// Lets the thread that reads wait for ever instead: of a terminal that is gone, crossterm reads
/// nothing again and again, until the process has ended.
fn read_no_more() {
    if let Ok((reading, writing)) = rustix::pipe::pipe() {
        // Where it fails, the end of the process ends it all the same.
        let _ = rustix::stdio::dup2_stdin(reading);
        // An end that is closed would be read without end.
        std::mem::forget(writing);
    }
}

/// Whether the terminal was closed: nobody sees what is drawn, and that is no failure.
fn has_hung_up(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(Errno::IO.raw_os_error()) || cause.kind() == ErrorKind::BrokenPipe
}

/// Restores the terminal. Errors are ignored: the terminal may be gone.
fn give_back() {
    let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn failed(cause: io::Error) -> Failure {
    Failure::new(format!("failed to draw on the terminal: {cause}"), None)
}
