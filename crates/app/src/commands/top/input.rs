//! Input of the terminal: keys, clicks and sizes, read on a thread of their own. crossterm reads on
//! until an event is whole, and does not return for a signal or a terminal that is gone.
//!
//! What does not belong here: what keys do, and whether the terminal is gone (see
//! [`super::terminal`]).

use iowhy_views::top::TopKey;
use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent,
    MouseEventKind,
};
use ratatui::layout::Position;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Events that are taken before the screen is drawn again, and that wait for it at most.
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
    /// The terminal is gone, or a signal or a key asks to end.
    Gone,
}

/// The events that the thread has read. The thread ends with the process: nothing wakes it up
/// within a sequence that does not end.
pub struct TerminalInput {
    events: Receiver<io::Result<Event>>,
}

impl TerminalInput {
    /// Starts to read.
    pub fn start() -> io::Result<TerminalInput> {
        let (sender, events) = sync_channel(MOST_EVENTS);
        Builder::new().name("keys".to_owned()).spawn(move || read_all(&sender))?;
        Ok(TerminalInput { events })
    }

    /// Returns the events that have come, and if none has, those that come within `time`.
    pub fn events(&self, time: Duration) -> io::Result<Vec<TerminalEvent>> {
        let first = match self.events.recv_timeout(time) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => return Ok(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that reads its keys has ended"));
            }
        };
        let others = self.events.try_iter().take(MOST_EVENTS - 1);
        let events = std::iter::once(first).chain(others).map(|event| event.map(event_of));
        Ok(events.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// Reads until there is nothing more to read, or nobody takes it.
fn read_all(sender: &SyncSender<io::Result<Event>>) {
    loop {
        let event = event::read();
        let is_last = event.is_err();
        if sender.send(event).is_err() || is_last {
            return;
        }
    }
}

fn event_of(event: Event) -> Option<TerminalEvent> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key),
        Event::Mouse(mouse) => mouse_event(mouse),
        Event::Resize(..) => Some(TerminalEvent::Resized),
        _ => None,
    }
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
