//! Serves the figures over HTTP: `GET /metrics` on a loopback address or a unix socket. One client
//! at a time, each within seconds; a request is read as far as its first line.
//!
//! What does not belong here: the figures.

use crate::error::RecorderError;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read at most.
const MOST_BYTES: u64 = 8 << 10;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text that is served: the latest one.
#[derive(Clone, Debug, Default)]
pub struct SharedText(Arc<Mutex<Arc<str>>>);

impl SharedText {
    /// Replaces it.
    pub fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves `text` on a loopback address.
///
/// # Errors
/// When the address cannot be had.
pub fn serve_address(address: SocketAddr, text: &SharedText) -> Result<(), RecorderError> {
    let failed = |source| RecorderError::System { what: "listen on metrics.listen", source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let text = text.clone();
    let serve = move || {
        for stream in listener.incoming().flatten() {
            let limited = limit_tcp(&stream);
            // One that fails is its client's trouble.
            let _ = limited.and_then(|()| answer(&stream, &stream, &text));
        }
    };
    Builder::new().name("metrics".to_owned()).spawn(serve).map(|_| ()).map_err(failed)
}

fn limit_tcp(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// Serves `text` on a unix socket, for root and the group.
///
/// # Errors
/// When the socket cannot be made.
pub fn serve_socket(path: &Path, text: &SharedText) -> Result<(), RecorderError> {
    let failed = |error| RecorderError::file("listen on", path, error);
    // A socket of an earlier run, and nothing else, makes room.
    if fs::symlink_metadata(path).is_ok_and(|it| is_socket(&it)) {
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    let text = text.clone();
    let serve = move || {
        for stream in listener.incoming().flatten() {
            let limited = limit_unix(&stream);
            let _ = limited.and_then(|()| answer(&stream, &stream, &text));
        }
    };
    Builder::new().name("metrics".to_owned()).spawn(serve).map(|_| ()).map_err(failed)
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_socket()
}

fn limit_unix(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn answer(from: impl Read, mut to: impl Write, text: &SharedText) -> io::Result<()> {
    let mut from = BufReader::new(from.take(MOST_BYTES));
    let mut first = String::new();
    from.read_line(&mut first)?;
    // The rest of the head, so that the client does not see a reset before its answer.
    let mut line = String::new();
    while from.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split_whitespace();
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", CONTENT_TYPE, text.get()),
        (Some("GET"), _) => ("404 Not Found", "text/plain", "the figures are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is understood\n".into()),
    };
    let length = body.len();
    write!(
        to,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &str) -> String {
        let text = SharedText::default();
        text.set("iowhy_ring_bytes 7\n# EOF\n".to_owned());
        let mut said = Vec::new();
        answer(request.as_bytes(), &mut said, &text).unwrap();
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn metrics_and_nothing_else_are_served() {
        let said = asked("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("# EOF\n"), "{said}");
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
        // A file that is no socket is not removed.
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(serve_socket(&file, &text).is_err() && file.exists());
    }
}
