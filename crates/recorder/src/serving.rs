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
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Clients that are served at the same time.
pub const MOST_CLIENTS: usize = 64;
/// Clients that are accepted before the others are polled again.
const MOST_ACCEPTED: usize = 256;

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

/// A function that makes the answer to a complete request.
pub type Answer = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

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
    asked: Vec<u8>,
    /// The answer, and how many bytes of it were sent.
    answer: Option<(Vec<u8>, usize)>,
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
                client.until > now && (!is_ready || client.go_on(service).is_ok_and(|goes| goes))
            })
            .collect();
        let mut is_kept = is_kept.into_iter();
        clients.retain(|_| is_kept.next().unwrap_or(false));
        if has_new {
            accept(door, service, &mut clients);
        }
    }
}

/// Waits until something can be done. Returns whether the door, then each client, is ready; `None`
/// if poll fails.
fn wait(door: &Door, clients: &[ServedClient]) -> Option<Vec<bool>> {
    let mut polled = vec![door.poll_fd()];
    polled.extend(clients.iter().map(|client| {
        let wanted = if client.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&client.stream, wanted)
    }));
    let first = clients.iter().map(|client| client.until).min();
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
        if clients.len() >= MOST_CLIENTS {
            // They are in order of arrival.
            clients.remove(0);
        }
        let until = Instant::now() + service.patience;
        clients.push(ServedClient { stream, until, asked: Vec::new(), answer: None });
    }
}

impl ServedClient {
    /// Reads or writes as much as is possible now; returns whether the client is to be kept.
    fn go_on(&mut self, service: &RequestService) -> io::Result<bool> {
        if self.answer.is_none() && self.read(service)? {
            self.answer = Some(((service.answer)(&self.asked), 0));
        }
        let Some((answer, sent)) = &mut self.answer else { return Ok(true) };
        while let Some(rest) = answer.get(*sent..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&self.stream, rest) {
                Ok(count) => *sent += count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Reads the available bytes; returns whether the request is complete.
    fn read(&mut self, service: &RequestService) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let room = service.most_bytes.saturating_sub(self.asked.len()).min(buffer.len());
        match rustix::io::read(&self.stream, &mut buffer[..room]) {
            Ok(0) => Ok(true),
            Ok(count) => {
                self.asked.extend_from_slice(&buffer[..count]);
                let is_full = self.asked.len() >= service.most_bytes;
                Ok(is_full || (service.is_complete)(&self.asked))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
