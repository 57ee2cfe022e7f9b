//! The terminal: switched to the screen of `iowhy top`, read for keys, and restored when iowhy
//! ends, except after SIGKILL (then `reset` restores it).
//!
//! What does not belong here: what is drawn, and what keys do.

use crate::failure::Failure;
use crate::output;
use iowhy_views::top::TopKey;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};
use ratatui::{Frame, Terminal};
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
/// Events that are taken before the screen is drawn again.
const MOST_EVENTS: usize = 256;

/// An event of the terminal.
pub enum TerminalEvent {
    /// A key.
    Key(TopKey),
    /// A click of the left button.
    Click(Position),
    /// A notch of the wheel, downwards or upwards.
    Wheel {
        /// Whether downwards.
        down: bool,
    },
    /// The terminal's size changed.
    Resized,
    /// The terminal is gone, or a signal asks to end.
    Gone,
}

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
    signal: Arc<AtomicBool>,
    drawn: Instant,
    area: Rect,
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
            Terminal::new(CrosstermBackend::new(io::stdout()))
        });
        match taken {
            Ok(terminal) => {
                let drawn = Instant::now() - FRAME;
                let terminal = ManuallyDrop::new(terminal);
                Ok(TakenTerminal { terminal, signal, drawn, area: Rect::default() })
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
        match self.terminal.draw(render) {
            Ok(frame) => self.area = frame.area,
            Err(cause) if has_hung_up(&cause) => return Ok(false),
            Err(cause) => return Err(failed(cause)),
        }
        self.drawn = Instant::now();
        Ok(true)
    }

    /// The size of the frame that is seen.
    pub fn area(&self) -> Rect {
        self.area
    }

    /// Returns the events that have come, and if none has, those that come within `time`.
    pub fn events(&mut self, time: Duration) -> Result<Vec<TerminalEvent>, Failure> {
        if self.signal.load(Ordering::Relaxed) || is_gone(time)? {
            return Ok(vec![TerminalEvent::Gone]);
        }
        match self.waiting() {
            Ok(events) => Ok(events),
            Err(cause) if has_hung_up(&cause) => Ok(vec![TerminalEvent::Gone]),
            Err(cause) => Err(failed(cause)),
        }
    }

    /// Returns the events that have come.
    fn waiting(&self) -> io::Result<Vec<TerminalEvent>> {
        let mut events = Vec::new();
        while events.len() < MOST_EVENTS && event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    events.extend(key_of(key));
                }
                Event::Mouse(mouse) => events.extend(mouse_event(mouse)),
                Event::Resize(..) => events.push(TerminalEvent::Resized),
                _ => (),
            }
        }
        Ok(events)
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Waits for input. A terminal that hung up is not read any more: that would never end.
fn is_gone(time: Duration) -> Result<bool, Failure> {
    let input = io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut polled, Some(&time)) {
        // A signal: the size may have changed.
        Ok(_) | Err(Errno::INTR) => (),
        Err(cause) => return Err(failed(cause.into())),
    }
    let bad = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(polled.iter().any(|descriptor| descriptor.revents().intersects(bad)))
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

fn mouse_event(mouse: MouseEvent) -> Option<TerminalEvent> {
    match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) => {
            Some(TerminalEvent::Click(Position::new(mouse.column, mouse.row)))
        }
        MouseEventKind::ScrollDown => Some(TerminalEvent::Wheel { down: true }),
        MouseEventKind::ScrollUp => Some(TerminalEvent::Wheel { down: false }),
        _ => None,
    }
}

fn key_of(key: KeyEvent) -> Option<TerminalEvent> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        // In raw mode the terminal makes no signals of these.
        let ends = matches!(key.code, KeyCode::Char('c' | 'd' | '\\'));
        return ends.then_some(TerminalEvent::Gone);
    }
    let key = match key.code {
        KeyCode::Char(letter) => TopKey::Char(letter),
        KeyCode::Enter => TopKey::Enter,
        KeyCode::Esc => TopKey::Esc,
        KeyCode::Backspace => TopKey::Backspace,
        KeyCode::Tab => TopKey::Tab,
        KeyCode::Up => TopKey::Up,
        KeyCode::Down => TopKey::Down,
        KeyCode::Left => TopKey::Left,
        KeyCode::Right => TopKey::Right,
        KeyCode::PageUp => TopKey::PageUp,
        KeyCode::PageDown => TopKey::PageDown,
        KeyCode::Home => TopKey::Home,
        KeyCode::End => TopKey::End,
        _ => return None,
    };
    Some(TerminalEvent::Key(key))
}
