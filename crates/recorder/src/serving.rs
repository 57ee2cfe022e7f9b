//! One thread that answers many clients at once, each with one request and one time limit for all
//! of it. A client that is slow, silent or does not read costs the others nothing: where there are
//! too many, the one that came first goes.
//!
//! No HTTP library does this in the size that a host's binary has: small ones serve one client at a
//! time or limit single reads, not requests, and the others bring an async runtime.
//!
//! What does not belong here: requests and their answers.

use iowhy_fs::confined::{Role, limit_this_thread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Clients that are served at the same time: those of both doors leave most of the descriptors that
/// a process has.
pub const MOST_CLIENTS: usize = 128;
/// Clients that are accepted before the others are polled again: a part, so that a client has many
/// turns however fast others connect.
const MOST_ACCEPTED: usize = MOST_CLIENTS / 32;
/// Clients that may read an answer, or wait for one, at the same time.
const MOST_ANSWERED: usize = 64;
/// Descriptors of one door at most.
#[cfg(test)]
pub const MOST_DESCRIPTORS: usize = MOST_CLIENTS + MOST_ACCEPTED + MOST_ANSWERED + 1;
/// The time between two looks for an answer that another thread makes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The listener that clients connect to.
#[derive(Debug)]
pub enum Door {
    /// A loopback address.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

impl Door {
    /// Accepts the next client; `None` if none waits.
    fn accept(&self) -> Option<OwnedFd> {
        match self {
            Door::Tcp(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some(stream.into())
            }
            Door::Unix(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some(stream.into())
            }
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Door::Tcp(listener) => listener.set_nonblocking(true),
            Door::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    fn poll_fd(&self) -> PollFd<'_> {
        match self {
            Door::Tcp(listener) => PollFd::new(listener, PollFlags::IN),
            Door::Unix(listener) => PollFd::new(listener, PollFlags::IN),
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Reply {
    /// The bytes of the answer.
    Ready(Vec<u8>),
    /// Another thread makes it. If that thread drops its end, the client gets no answer.
    Later(Receiver<Vec<u8>>),
}

/// A function that answers a complete request.
pub type Answer = Box<dyn Fn(&[u8]) -> Reply + Send>;

/// The limits and functions by which requests are answered.
pub struct RequestService {
    /// The time from a client's arrival to the last byte of its answer.
    pub patience: Duration,
    /// Bytes of a request.
    pub most_bytes: usize,
    /// Whether a request is complete.
    pub is_complete: fn(&[u8]) -> bool,
    /// Answers a request, complete or not.
    pub answer: Answer,
}

/// A client and its progress.
struct ServedClient {
    stream: OwnedFd,
    until: Instant,
    progress: Progress,
}

/// The part of its request that a client has reached.
enum Progress {
    /// It sends its request.
    Asking(Vec<u8>),
    /// Another thread makes the answer.
    Waiting(Receiver<Vec<u8>>),
    /// It reads the answer, of which so many bytes were sent.
    Reading(Vec<u8>, usize),
}

/// Serves `door` in a thread of its own.
///
/// # Errors
/// Fails if the system has no thread for it.
pub fn serve(door: Door, name: &str, service: RequestService) -> io::Result<()> {
    door.set_nonblocking()?;
    Builder::new().name(name.to_owned()).spawn(move || {
        limit_this_thread(&Role::Writes(Vec::new()), CapabilitySet::empty());
        serve_all(&door, &service);
    })?;
    Ok(())
}

fn serve_all(door: &Door, service: &RequestService) {
    let mut clients: Vec<ServedClient> = Vec::new();
    loop {
        let Some(ready) = wait(door, &clients) else { return };
        let mut ready = ready.into_iter();
        let has_new = ready.next().unwrap_or(false);
        let now = Instant::now();
        let is_kept: Vec<bool> = clients
            .iter_mut()
            .zip(ready)
            .map(|(client, is_ready)| {
                let is_waiting = matches!(client.progress, Progress::Waiting(_));
                // Nothing is polled for a client that waits, but that it is gone.
                let is_over = client.until <= now || is_waiting && is_ready;
                let has_turn = is_waiting || is_ready;
                !is_over && (!has_turn || client.go_on(service).is_ok_and(|goes| goes))
            })
            .collect();
        let mut is_kept = is_kept.into_iter();
        clients.retain(|_| is_kept.next().unwrap_or(false));
        if has_new {
            accept(door, service, &mut clients);
        }
        let is_asking = |client: &ServedClient| matches!(client.progress, Progress::Asking(_));
        drop_first(&mut clients, MOST_CLIENTS, is_asking);
        drop_first(&mut clients, MOST_ANSWERED, |client| !is_asking(client));
    }
}

/// Waits until something can be done. Returns whether the door, then each client, is ready; `None`
/// if poll fails.
fn wait(door: &Door, clients: &[ServedClient]) -> Option<Vec<bool>> {
    let mut polled = vec![door.poll_fd()];
    polled.extend(clients.iter().map(|client| {
        let wanted = match client.progress {
            Progress::Asking(_) => PollFlags::IN,
            Progress::Waiting(_) => PollFlags::empty(),
            Progress::Reading(..) => PollFlags::OUT,
        };
        PollFd::new(&client.stream, wanted)
    }));
    let is_waiting = |client: &ServedClient| matches!(client.progress, Progress::Waiting(_));
    let look = clients.iter().any(is_waiting).then(|| Instant::now() + LOOK_AGAIN);
    let first = clients.iter().map(|client| client.until).chain(look).min();
    let limit = first.map(|until| {
        let left = until.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    });
    match poll(&mut polled, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => return None,
    }
    Some(polled.iter().map(|each| !each.revents().is_empty()).collect())
}

fn accept(door: &Door, service: &RequestService, clients: &mut Vec<ServedClient>) {
    for _ in 0..MOST_ACCEPTED {
        let Some(stream) = door.accept() else { return };
        let until = Instant::now() + service.patience;
        let mut client = ServedClient { stream, until, progress: Progress::Asking(Vec::new()) };
        // Most clients have sent their request by now, and are gone before others come.
        if !client.go_on(service).is_ok_and(|goes| goes) {
            continue;
        }
        clients.push(client);
    }
}

/// Drops those of the clients of one kind that came first, if there are more than `most`.
fn drop_first(
    clients: &mut Vec<ServedClient>,
    most: usize,
    is_of_kind: impl Fn(&ServedClient) -> bool,
) {
    let count = clients.iter().filter(|client| is_of_kind(client)).count();
    let mut left = count.saturating_sub(most);
    clients.retain(|client| {
        let is_dropped = left > 0 && is_of_kind(client);
        left -= usize::from(is_dropped);
        !is_dropped
    });
}

impl ServedClient {
    /// Reads or writes as much as is possible now; returns whether the client is to be kept.
    fn go_on(&mut self, service: &RequestService) -> io::Result<bool> {
        if let Progress::Asking(asked) = &mut self.progress
            && read(&self.stream, asked, service)?
        {
            self.progress = match (service.answer)(asked) {
                Reply::Ready(answer) => Progress::Reading(answer, 0),
                Reply::Later(answer) => Progress::Waiting(answer),
            };
        }
        if let Progress::Waiting(answer) = &self.progress {
            match answer.try_recv() {
                Ok(answer) => self.progress = Progress::Reading(answer, 0),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
        let Progress::Reading(answer, sent) = &mut self.progress else { return Ok(true) };
        while let Some(rest) = answer.get(*sent..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&self.stream, rest) {
                Ok(count) => *sent += count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }
}

/// Reads the available bytes of a request; returns whether it is complete.
fn read(stream: &OwnedFd, asked: &mut Vec<u8>, service: &RequestService) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    let room = service.most_bytes.saturating_sub(asked.len()).min(buffer.len());
    match rustix::io::read(stream, &mut buffer[..room]) {
        Ok(0) => Ok(true),
        Ok(count) => {
            asked.extend_from_slice(&buffer[..count]);
            Ok(asked.len() >= service.most_bytes || (service.is_complete)(asked))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
