//! Who may wait for a process: its sockets, its terminal, its parents, from /proc.
//!
//! Nothing here opens what another process has open, or reads its memory.
//!
//! What does not belong here: what follows from it (`iowhy_analysis::waits::work`).

use super::process::ProcStat;
use super::read_text;
use rustc_hash::FxHashMap;
use std::fs;

/// Descriptors of a process that are read, and sockets among them.
const MOST_DESCRIPTORS: usize = 1024;
const MOST_SOCKETS: usize = 64;
/// Bytes of a table of sockets that are read: 1,700 connections.
const MOST_BYTES: u64 = 256 << 10;
/// Threads of a parent, and parents, that are asked.
const MOST_THREADS: usize = 32;
const MOST_PARENTS: usize = 16;

/// Programs that start jobs at set times, by their process names: cron's (Vixie's, cronie, fcron,
/// busybox's), at's and anacron.
const SCHEDULERS: &[&str] = &["cron", "crond", "CRON", "fcron", "anacron", "atd"];

/// Who may wait for a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WorkSeen {
    /// Sockets that listen and connections that it accepted.
    pub clients: u64,
    /// Those of them that listen.
    pub listeners: u64,
    /// Other connections, and pipes.
    pub peers: u64,
    /// Whether it is in the foreground of its terminal.
    pub terminal: bool,
    /// The process that sleeps until it ends; 0 for none. `None` if that is not known.
    pub waiter: Option<u32>,
    /// Its ancestor that starts jobs at set times; 0 for none.
    pub scheduler: u32,
    /// CPU time of its threads, nanoseconds. `None` if that is not known.
    pub cpu_ns: Option<u64>,
    /// Of that, the time within the kernel, nanoseconds. `None` if that is not known.
    pub system_ns: Option<u64>,
}

/// The sockets of network namespaces, each read once.
#[derive(Debug, Default)]
pub struct SocketTables {
    /// By the namespace, as the kernel names it.
    known: FxHashMap<String, FxHashMap<u64, SocketSide>>,
}

/// A socket's side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SocketSide {
    /// It listens.
    Listener,
    /// It was accepted.
    Server,
    /// It connected to another machine or port, or it is not known which.
    Other,
    /// It connected to a program of this machine, such as the system's log, or is one of a pair.
    Local,
}

impl WorkSeen {
    /// Reads it; `None` if the process is gone or may not be inspected.
    pub fn of(pid: u32, tables: &mut SocketTables) -> Option<WorkSeen> {
        let stat = ProcStat::for_pid(pid)?;
        let terminal = is_in_foreground(&stat);
        let (cpu_ns, system_ns) = (stat.cpu_ns(), stat.system_ns());
        let mut seen = WorkSeen { terminal, cpu_ns, system_ns, ..WorkSeen::default() };
        (seen.waiter, seen.scheduler) = parents_of(&stat.name, stat.field(4)? as u32);
        let mut sockets: Vec<u64> = Vec::new();
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        for entry in entries.flatten().take(MOST_DESCRIPTORS) {
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            let link = link.to_string_lossy();
            match number_in(&link, "socket:") {
                // Where a program gives its child a pair of sockets, it may read the other one.
                Some(_) if entry.file_name() == "0" => seen.peers += 1,
                Some(inode) if sockets.len() < MOST_SOCKETS => sockets.push(inode),
                // A pipe, or a socket beyond those that are looked up: somebody may wait there.
                Some(_) => seen.peers += 1,
                // Who reads what it says of errors does not wait for it.
                None if link.starts_with("pipe:") && entry.file_name() != "2" => seen.peers += 1,
                _ => {}
            }
        }
        if sockets.is_empty() {
            return Some(seen);
        }
        let table = tables.of(pid);
        for inode in sockets {
            match table.get(&inode).copied().unwrap_or(SocketSide::Other) {
                SocketSide::Server => seen.clients += 1,
                SocketSide::Listener => {
                    seen.clients += 1;
                    seen.listeners += 1;
                }
                SocketSide::Other => seen.peers += 1,
                SocketSide::Local => {}
            }
        }
        Some(seen)
    }
}

impl SocketTables {
    /// The sockets of the process's network namespace.
    fn of(&mut self, pid: u32) -> &FxHashMap<u64, SocketSide> {
        let link = fs::read_link(format!("/proc/{pid}/ns/net")).unwrap_or_default();
        self.known.entry(link.to_string_lossy().into_owned()).or_insert_with(|| {
            let read = |name: &str| {
                let path = format!("/proc/{pid}/net/{name}");
                let bytes = iowhy_fs::read::beginning(path.as_ref(), MOST_BYTES);
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let inet = ["tcp", "tcp6"].map(read);
            let mut found = of_inet(&inet.each_ref().map(String::as_str));
            found.extend(of_unix(&read("unix")));
            let netlink = read("netlink");
            found.extend(numbers_at(&netlink, 9).map(|inode| (inode, SocketSide::Local)));
            found
        })
    }
}

/// Whether the process is of the group that its terminal belongs to now.
fn is_in_foreground(stat: &ProcStat) -> bool {
    let (group, terminal, of_terminal) = (stat.field(5), stat.field(7), stat.field(8));
    terminal.is_some_and(|terminal| terminal != 0) && group.is_some() && group == of_terminal
}

/// The parent that waits for a child of this name to end, and the ancestor that starts jobs at set
/// times; 0 for none. A parent may wait in other ways than in wait4, so that none is sure only of
/// the children of init and of the processes that a daemon has made of itself.
fn parents_of(name: &str, parent: u32) -> (Option<u32>, u32) {
    let mut waiter = if parent <= 1 { Some(0) } else { None };
    let mut next = parent;
    for step in 0..MOST_PARENTS {
        let Some(stat) = Some(next).filter(|next| *next > 1).and_then(ProcStat::for_pid) else {
            break;
        };
        let above = stat.field(4).unwrap_or(0) as u32;
        if step == 0 {
            let is_daemon = stat.name == name && above <= 1;
            waiter = match waits_for_child(next) {
                Some(true) => Some(next),
                Some(false) if is_daemon => Some(0),
                _ => None,
            };
        }
        if SCHEDULERS.contains(&stat.name.as_str()) {
            return (waiter, next);
        }
        next = above;
    }
    (waiter, 0)
}

/// Whether a thread of the process sleeps until a child ends; `None` if the kernel does not tell
/// where it sleeps.
fn waits_for_child(pid: u32) -> Option<bool> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut is_told = false;
    for thread in threads.flatten().take(MOST_THREADS) {
        let place = read_text(thread.path().join("wchan")).unwrap_or_default();
        if place.contains("do_wait") {
            return Some(true);
        }
        is_told |= !place.is_empty() && place != "0";
    }
    // A parent that runs is not asleep; without symbols none is told.
    is_told.then_some(false)
}

/// The number in `socket:[123]`.
fn number_in(link: &str, kind: &str) -> Option<u64> {
    link.strip_prefix(kind)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Numbers in one column of a table, without its heading.
fn numbers_at(text: &str, column: usize) -> impl Iterator<Item = u64> {
    text.lines().skip(1).filter_map(move |line| line.split_whitespace().nth(column)?.parse().ok())
}

/// /proc/net/tcp and tcp6: a socket that listens (0A), or whose port is one that is listened on,
/// is a server's.
fn of_inet(tables: &[&str]) -> FxHashMap<u64, SocketSide> {
    let mut rows: Vec<(&str, bool, u64)> = Vec::new();
    for line in tables.iter().flat_map(|table| table.lines().skip(1)) {
        let fields: Vec<&str> = line.split_whitespace().take(10).collect();
        let [_, local, _, state, _, _, _, _, _, inode] = fields.as_slice() else { continue };
        let port = local.rsplit(':').next().unwrap_or_default();
        rows.extend(inode.parse().ok().map(|inode| (port, *state == "0A", inode)));
    }
    let listening: Vec<&str> = rows.iter().filter(|row| row.1).map(|row| row.0).collect();
    let side = |(port, listens, inode): (&str, bool, u64)| match listens {
        true => (inode, SocketSide::Listener),
        false if listening.contains(&port) => (inode, SocketSide::Server),
        false => (inode, SocketSide::Other),
    };
    rows.into_iter().map(side).collect()
}

/// /proc/net/unix: a socket with a path is a server's if it listens (flag 10000) or is connected
/// (state 03); one without was connected to it, or is one of a pair.
fn of_unix(table: &str) -> FxHashMap<u64, SocketSide> {
    let mut found = FxHashMap::default();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().take(8).collect();
        let [_, _, _, flags, _, state, inode, path @ ..] = fields.as_slice() else { continue };
        let Ok(inode) = inode.parse() else { continue };
        let side = match (*flags, *state) {
            ("00010000", _) => SocketSide::Listener,
            (_, "03") if !path.is_empty() => SocketSide::Server,
            _ => SocketSide::Local,
        };
        found.insert(inode, side);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    #[test]
    fn the_accepting_side_of_a_connection_is_the_server_s() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                   uid  timeout inode\n\
                   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 \
                   11 1\n\
                   1: 0100007F:1538 0100007F:C350 01 00000000:00000000 00:00000000 00000000  0  0 \
                   12 1\n\
                   2: 0100007F:C350 0100007F:1538 01 00000000:00000000 00:00000000 00000000  0  0 \
                   13 1\n2: broken\n";
        let found = of_inet(&[tcp, ""]);
        assert_eq!(found.len(), 3);
        assert_eq!((found[&11], found[&12]), (SocketSide::Listener, SocketSide::Server));
        assert_eq!(found[&13], SocketSide::Other);
    }

    #[test]
    fn a_unix_socket_with_a_path_is_the_server_s() {
        let unix = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0: 00000002 00000000 00010000 0001 01 21 /run/db.sock\n\
                    0: 00000003 00000000 00000000 0001 03 22 /run/db.sock\n\
                    0: 00000003 00000000 00000000 0001 03 23\n";
        let found = of_unix(unix);
        assert_eq!((found[&21], found[&22]), (SocketSide::Listener, SocketSide::Server));
        assert_eq!(found[&23], SocketSide::Local);
    }

    #[test]
    fn a_process_that_listens_has_clients() {
        let seen = || WorkSeen::of(std::process::id(), &mut SocketTables::default()).unwrap();
        let before = seen();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let now = seen();
        // Other tests have sockets, too.
        assert!(now.clients >= before.clients.max(2), "{before:?} {now:?}");
        assert!(now.listeners > 0 && now.listeners < now.clients, "{now:?}");
        drop((client, accepted));
    }

    #[test]
    fn a_shell_waits_for_its_command() {
        // The shell would replace itself with its last command.
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60; true"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut shell = shell.spawn().unwrap();
        let id = shell.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let mut seen = None;
        for _ in 0..100 {
            let child = read_text(&children).and_then(|text| text.trim().parse::<u32>().ok());
            seen = child.and_then(|child| WorkSeen::of(child, &mut SocketTables::default()));
            if seen.is_some_and(|seen| seen.waiter == Some(id)) {
                let child = child.unwrap().to_string();
                Command::new("kill").arg(child).status().unwrap();
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        let seen = seen.unwrap();
        // It may have inherited pipes of the test's own parents.
        assert_eq!((seen.waiter, seen.clients, seen.scheduler), (Some(id), 0, 0), "{seen:?}");
    }

    #[test]
    fn a_parent_that_sleeps_in_no_wait_may_wait_all_the_same() {
        // This process asks again and again whether its child has ended.
        let mut child = Command::new("sleep");
        let mut child = child.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let (waiter, _) = parents_of("sleep", std::process::id());
        let of_init = parents_of("sleep", 1);
        child.kill().unwrap();
        child.wait().unwrap();
        // Another test of this process may wait for a child of its own.
        assert_ne!(waiter, Some(0));
        assert_eq!(of_init, (Some(0), 0));
    }
}
