//! The control socket: `iowhy capture` asks the daemon for an incident. A person who may use the
//! socket may do no more than that.
//!
//! What does not belong here: what an incident is.

use crate::serving::{self, Door, Reply, RequestService};
use crate::sockets;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// The time that either side waits for the other, for a complete request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a line.
const MOST_BYTES: usize = 512;
/// Characters of a reason.
const MOST_CHARACTERS: usize = 100;
/// Requests that wait for the daemon.
const MOST_WAITING: usize = 64;
/// The only command.
const CAPTURE: &str = "capture ";

/// A request for an incident.
#[derive(Debug)]
pub struct CaptureRequest {
    /// The reason, in the words of the person.
    pub reason: String,
    /// The channel for the answer, one line.
    pub answer: SyncSender<Vec<u8>>,
}

/// Returns the path of the socket below the runtime directory.
pub fn socket_path(runtime: &Path) -> PathBuf {
    runtime.join("control.sock")
}

/// Whether a recorder runs or ever ran on this host, which explains why it may have no data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecorderState {
    /// The recorder never ran: its directory does not exist.
    Never,
    /// The recorder ran once.
    Stopped,
    /// The recorder is running.
    Running,
}

impl RecorderState {
    /// Reads the state of the recorder with these directories.
    pub fn read(state: &Path, runtime: &Path) -> RecorderState {
        match UnixStream::connect(socket_path(runtime)) {
            Ok(_) => RecorderState::Running,
            // The socket exists, but only for others.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => RecorderState::Running,
            Err(_) if state.exists() => RecorderState::Stopped,
            Err(_) => RecorderState::Never,
        }
    }

    /// Returns the sentence that explains why there are no incidents.
    pub const fn why_no_incidents(self) -> &'static str {
        match self {
            RecorderState::Never => {
                "no incidents: the recorder has never run on this host; start it: `systemctl \
                 enable --now iowhy`, or `iowhy daemon`"
            }
            RecorderState::Stopped => {
                "no incidents, and the recorder does not run: `systemctl start iowhy`"
            }
            RecorderState::Running => {
                "no incidents: the recorder runs, and nothing has met one of its conditions; \
                 `iowhy capture REASON` keeps the last minutes"
            }
        }
    }

    /// Returns the sentence that explains why there is no history of a time.
    pub const fn why_no_history(self) -> &'static str {
        match self {
            RecorderState::Never => {
                "no history: the recorder has never run on this host; start it: `systemctl enable \
                 --now iowhy`, or `iowhy daemon`"
            }
            RecorderState::Stopped => {
                "no history of that time, and the recorder does not run: `systemctl start iowhy`"
            }
            RecorderState::Running => {
                "no history of that time: the recorder runs, and writes a minute when it is over; \
                 --last 31d shows all that is kept"
            }
        }
    }
}

/// Serves the socket in a thread of its own.
///
/// # Errors
/// Fails if the socket cannot be made, or the system has no thread.
pub fn serve(runtime: &Path) -> io::Result<Receiver<CaptureRequest>> {
    // The lock excludes another daemon: a socket at this path is of one that was killed.
    let listener = sockets::listen(&socket_path(runtime))?;
    let (requests, received) = sync_channel(MOST_WAITING);
    let service = RequestService {
        patience: PATIENCE,
        most_bytes: MOST_BYTES,
        is_complete: |asked| asked.contains(&b'\n'),
        answer: Box::new(move |asked| answer(asked, &requests)),
    };
    serving::serve(Door::Unix(listener), "control", service)?;
    Ok(received)
}

/// Hands a request on to the daemon, which answers it.
fn answer(asked: &[u8], requests: &SyncSender<CaptureRequest>) -> Reply {
    let refused = |why: &str| Reply::Ready(format!("error: {why}\n").into_bytes());
    let line = String::from_utf8_lossy(asked);
    let Some(reason) = line.trim_end().strip_prefix(CAPTURE) else {
        return refused("only `capture REASON` is understood");
    };
    let (answer, answered) = sync_channel(1);
    match requests.try_send(CaptureRequest { reason: clean(reason), answer }) {
        Ok(()) => Reply::Later(answered),
        Err(_) => refused("too many requests at once"),
    }
}

/// A reason as it is kept and shown: one short line.
fn clean(reason: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    reason.chars().map(plain).take(MOST_CHARACTERS).collect()
}

/// Asks the daemon for an incident, and returns its answer.
///
/// # Errors
/// Fails if there is no daemon, the caller may not ask it, or it refuses.
pub fn capture(runtime: &Path, reason: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket_path(runtime))?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    writeln!(stream, "{CAPTURE}{}", clean(reason))?;
    let mut line = String::new();
    BufReader::new(stream.take(MOST_BYTES as u64)).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::other("the daemon did not answer in time"));
    }
    match line.trim_end().strip_prefix("error: ") {
        Some(cause) => Err(io::Error::other(cause.to_owned())),
        None => Ok(line.trim_end().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::MOST_CLIENTS;
    use std::time::Instant;

    #[test]
    fn an_incident_can_be_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        assert!(capture(folder.path(), "x").is_err());
        let requests = serve(folder.path()).unwrap();
        let daemon = std::thread::spawn(move || {
            let request = requests.recv().unwrap();
            request.answer.send(b"incident 7\n".to_vec()).unwrap();
            request.reason
        });
        assert_eq!(capture(folder.path(), "slow\nlogin").unwrap(), "incident 7");
        assert_eq!(daemon.join().unwrap(), "slow login");
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(socket_path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
    }

    #[test]
    fn silent_clients_hold_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let requests = serve(folder.path()).unwrap();
        let socket = socket_path(folder.path());
        let silent: Vec<UnixStream> =
            (0..2 * MOST_CLIENTS).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let daemon = std::thread::spawn(move || {
            requests.recv().unwrap().answer.send(b"incident 7\n".to_vec()).unwrap();
            requests
        });
        let begun = Instant::now();
        assert_eq!(capture(folder.path(), "x").unwrap(), "incident 7");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        let _requests = daemon.join().unwrap();
        drop(silent);
    }

    #[test]
    fn reasons_of_any_client_are_cleaned() {
        let folder = tempfile::tempdir().unwrap();
        let requests = serve(folder.path()).unwrap();
        let mut stream = UnixStream::connect(socket_path(folder.path())).unwrap();
        let reason = format!("\u{1b}[2J{}", "x".repeat(400));
        stream.write_all(format!("{CAPTURE}{reason}\n").as_bytes()).unwrap();
        let request = requests.recv().unwrap();
        assert_eq!(request.reason, format!(" [2J{}", "x".repeat(MOST_CHARACTERS - 4)));
    }

    #[test]
    fn it_is_known_whether_a_recorder_runs_or_ever_ran() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let now = || RecorderState::read(&state, folder.path());
        assert_eq!(now(), RecorderState::Never);
        std::fs::create_dir(&state).unwrap();
        assert_eq!(now(), RecorderState::Stopped);
        let _requests = serve(folder.path()).unwrap();
        assert_eq!(now(), RecorderState::Running);
    }

    #[test]
    fn nothing_else_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let _requests = serve(folder.path()).unwrap();
        let mut stream = UnixStream::connect(socket_path(folder.path())).unwrap();
        stream.write_all(b"rm -rf /\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("error: "), "{said}");
    }
}
