//! Serves the figures over HTTP: `GET /metrics` on a loopback address or a unix socket. A request
//! is understood as far as its first line.
//!
//! What does not belong here: the figures, and many clients at once (see [`crate::serving`]).

use crate::error::RecorderError;
use crate::serving::{Door, Reply, RequestService, serve};
use crate::sockets;
use iowhy_fs::rights::keep_only;
use rustix::thread::CapabilitySet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The time from a client's arrival to the last byte of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two attempts to listen on an address that somebody else has.
const AGAIN: Duration = Duration::from_secs(3);
/// Bytes of a request that are read at most.
const MOST_BYTES: usize = 8 << 10;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text that is served: the latest one.
#[derive(Clone, Debug, Default)]
pub struct SharedText(Arc<Mutex<Arc<str>>>);

impl SharedText {
    /// Replaces the text.
    pub fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves `text` on a loopback address. Where that is not possible it is said once, and tried until
/// it is: any user may listen there first, and figures are not what a recorder is for.
///
/// # Errors
/// Fails if the system has no thread for it.
pub fn serve_address(
    address: SocketAddr,
    text: &SharedText,
    log: &dyn Fn(&str),
) -> Result<(), RecorderError> {
    let Err(cause) = listen(address, text) else { return Ok(()) };
    let again = AGAIN.as_secs();
    log(&format!(
        "metrics are not served: failed to listen on {address} (metrics.listen): {cause}; trying \
         again every {again} s"
    ));
    let text = text.clone();
    let trying = Builder::new().name("metrics".to_owned()).spawn(move || {
        keep_only(CapabilitySet::NET_BIND_SERVICE);
        while listen(address, &text).is_err() {
            std::thread::sleep(AGAIN);
        }
    });
    let no_thread = |source| RecorderError::System { what: "start a thread", source };
    trying.map(drop).map_err(no_thread)
}

fn listen(address: SocketAddr, text: &SharedText) -> io::Result<()> {
    answer_all(Door::Tcp(TcpListener::bind(address)?), text)
}

/// Serves `text` on a unix socket, for root and the group.
///
/// # Errors
/// Fails if the socket cannot be made.
pub fn serve_socket(path: &Path, text: &SharedText) -> Result<(), RecorderError> {
    let served = sockets::listen(path).and_then(|listener| answer_all(Door::Unix(listener), text));
    served.map_err(|error| RecorderError::file("listen on", path, error))
}

fn answer_all(door: Door, text: &SharedText) -> io::Result<()> {
    let text = text.clone();
    let answer = Box::new(move |asked: &[u8]| Reply::Ready(answer(asked, &text)));
    serve(
        door,
        "metrics",
        RequestService { patience: PATIENCE, most_bytes: MOST_BYTES, is_complete, answer },
    )
}

/// Returns whether the head of a request is complete, so that the client does not see a reset
/// before its answer.
fn is_complete(asked: &[u8]) -> bool {
    let ends = |end: &[u8]| asked.windows(end.len()).any(|part| part == end);
    ends(b"\r\n\r\n") || ends(b"\n\n")
}

fn answer(asked: &[u8], text: &SharedText) -> Vec<u8> {
    let first = asked.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let mut words = first.split_whitespace();
    let path = |target: &str| target.split(['?', '#']).next() == Some("/metrics");
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if path(target) => ("200 OK", CONTENT_TYPE, text.get()),
        (Some("GET"), _) => ("404 Not Found", "text/plain", "the figures are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is understood\n".into()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    fn asked(request: &str) -> String {
        let text = SharedText::default();
        text.set("iowhy_ring_bytes 7\n# EOF\n".to_owned());
        String::from_utf8(answer(request.as_bytes(), &text)).unwrap()
    }

    #[test]
    fn metrics_and_nothing_else_are_served() {
        let said = asked("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("# EOF\n"), "{said}");
        assert!(asked("GET /metrics?x=1 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(asked("GET /metricsx HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(asked("GET /../etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(asked("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(asked("").starts_with("HTTP/1.1 405"));
        assert!(asked(&"x".repeat(100_000)).starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn a_socket_serves_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let text = SharedText::default();
        text.set("old".to_owned());
        serve_socket(&path, &text).unwrap();
        text.set("new".to_owned());
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.ends_with("\r\n\r\nnew"), "{said}");
        // A file at the socket's path that is not a socket is not removed.
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(serve_socket(&file, &text).is_err() && file.exists());
    }

    /// Returns an address that serves a text of so many bytes.
    fn served(bytes: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = SharedText::default();
        text.set("x".repeat(bytes));
        answer_all(Door::Tcp(listener), &text).unwrap();
        address
    }

    fn scrape(address: SocketAddr) -> usize {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        said.len()
    }

    #[test]
    fn an_address_that_somebody_has_is_served_once_it_is_free() {
        let squatter = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = squatter.local_addr().unwrap();
        let text = SharedText::default();
        text.set("figures".to_owned());
        let said = std::cell::RefCell::new(Vec::new());
        serve_address(address, &text, &|line| said.borrow_mut().push(line.to_owned())).unwrap();
        std::thread::sleep(AGAIN + Duration::from_millis(500));
        let [said] = &said.borrow()[..] else { panic!("it is said once") };
        assert!(said.contains(&address.to_string()) && said.contains("in use"), "{said}");
        drop(squatter);
        let until = Instant::now() + 3 * AGAIN;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "nobody listens");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(scrape(address) > "figures".len());
    }

    #[test]
    fn clients_that_stall_hold_up_nobody() {
        let address = served(4 << 20);
        // Clients that send nothing, one that sends a byte, and some that ask and do not read.
        let silent: Vec<TcpStream> =
            (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"G").unwrap();
        let deaf: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let begun = Instant::now();
        for _ in 0..3 {
            assert!(scrape(address) > 4 << 20);
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        drop((silent, deaf));
    }

    #[test]
    fn clients_that_connect_all_the_time_push_nobody_out() {
        let address = served(10);
        let is_over = Arc::new(AtomicBool::new(false));
        let crowds: Vec<_> = (0..2)
            .map(|_| {
                let is_over = Arc::clone(&is_over);
                std::thread::spawn(move || {
                    let mut held = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        held.extend(TcpStream::connect(address).ok());
                        if held.len() > 100 {
                            held.clear();
                        }
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            assert!(scrape(address) > 10);
        }
        is_over.store(true, Ordering::Relaxed);
        crowds.into_iter().for_each(|crowd| crowd.join().unwrap());
    }

    #[test]
    fn a_byte_a_second_does_not_buy_time() {
        let address = served(10);
        let mut slow = TcpStream::connect(address).unwrap();
        let begun = Instant::now();
        slow.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut byte = [0; 1];
        loop {
            let gone = slow.write_all(b"x").is_err();
            if gone || matches!(slow.read(&mut byte), Ok(0)) {
                break;
            }
            assert!(begun.elapsed() < 4 * PATIENCE, "it is still connected");
        }
    }
}
