//! Attacks of code that took over a limited thread: the thread tries each. Without the limits it
//! can do all of it, which is tried first. What the threads of a real watch can do is tried in
//! crates/labs/tests/it/privilege.rs.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

use iowhy_fs::Folder;
use iowhy_fs::confined::{InEffect, ProgramLoading, Role, available, enter, limit_this_thread};
use rustix::thread::CapabilitySet;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command};

/// Whether the kernel does a call for this thread. The caller owns the memory that the arguments
/// point to.
fn is_done(call: libc::c_long, arguments: [usize; 5]) -> bool {
    let [a, b, c, d, e] = arguments;
    // SAFETY: none of the calls that are tried writes to the memory of this process.
    unsafe { libc::syscall(call, a, b, c, d, e) != -1 }
}

/// Whether the kernel would signal `process` for a descriptor of this one.
fn is_owner_set(process: usize) -> bool {
    let (pipe, _) = rustix::pipe::pipe().unwrap();
    is_done(libc::SYS_fcntl, [pipe.as_raw_fd() as usize, libc::F_SETOWN as usize, process, 0, 0])
}

/// Whether a file that is only open to be read gets the attribute "no dump".
fn is_attribute_set(path: &Path) -> bool {
    const SET_FLAGS: usize = 0x4008_6602;
    let flags: libc::c_long = 0x40;
    let file = File::open(path).unwrap();
    let pointer = std::ptr::from_ref(&flags) as usize;
    is_done(libc::SYS_ioctl, [file.as_raw_fd() as usize, SET_FLAGS, pointer, 0, 0])
}

/// A directory with files for the attack to change, and a process for it to trace.
struct Target {
    folder: tempfile::TempDir,
    other: Child,
}

impl Target {
    fn new() -> Target {
        let folder = tempfile::tempdir().unwrap();
        for name in ["victim", "old", "gone"] {
            std::fs::write(folder.path().join(name), "precious").unwrap();
        }
        std::fs::create_dir(folder.path().join("mount")).unwrap();
        let other = Command::new("sleep").arg("600").spawn().unwrap();
        Target { folder, other }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns whether each attack succeeded, by name. Another user is tried last: a user has no
    /// more rights.
    fn attack(&self) -> BTreeMap<String, bool> {
        let at = |name: &str| self.path().join(name);
        let none = c"none";
        let (mount, kind) = (CString::new(at("mount").as_os_str().as_bytes()).unwrap(), c"tmpfs");
        let address = |text: &CStr| text.as_ptr() as usize;
        let array: [u32; 4] = [2, 4, 4, 1];
        let (seize, other) = (0x4206, self.other.id() as usize);
        let tcp = [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0, 0, 0];
        let mounted = [address(none), address(&mount), address(kind), 0, 0];
        let all = PermissionsExt::from_mode(0o666);
        let done = [
            ("write", File::options().append(true).open(at("victim")).is_ok()),
            ("make", File::create(at("made")).is_ok()),
            ("rename", std::fs::rename(at("old"), at("new")).is_ok()),
            ("remove", std::fs::remove_file(at("gone")).is_ok()),
            ("mode", std::fs::set_permissions(at("victim"), all).is_ok()),
            ("signal", is_done(libc::SYS_kill, [1, 0, 0, 0, 0])),
            ("signal by a descriptor", is_owner_set(other)),
            ("attributes", is_attribute_set(&at("victim"))),
            ("socket", UnixDatagram::bind(at("socket")).is_ok()),
            ("trace", is_done(libc::SYS_ptrace, [seize, other, 0, 0, 0])),
            ("load", is_done(libc::SYS_bpf, [0, array.as_ptr() as usize, 16, 0, 0])),
            ("mount", is_done(libc::SYS_mount, mounted)),
            ("namespace", is_done(libc::SYS_unshare, [libc::CLONE_NEWNS as usize, 0, 0, 0, 0])),
            ("connect", is_done(libc::SYS_socket, tcp)),
            ("start", Command::new("/bin/true").status().is_ok()),
            ("user", is_done(libc::SYS_setuid, [65_534, 0, 0, 0, 0])),
        ];
        done.map(|(name, done)| (name.to_owned(), done)).into()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
        // Only where the attack mounted something.
        let _ =
            rustix::mount::unmount(self.path().join("mount"), rustix::mount::UnmountFlags::DETACH);
    }
}

/// Whether this machine can show it; if not, prints the reason.
fn can_be_shown(needed: fn(InEffect) -> bool) -> bool {
    let missing = [
        (!rustix::process::geteuid().is_root(), "only root has rights to lose"),
        (!needed(available()), "this kernel has no landlock or no seccomp"),
    ];
    let missing: Vec<&str> = missing.iter().filter(|it| it.0).map(|it| it.1).collect();
    if !missing.is_empty() {
        eprintln!("skipped: {}", missing.join(", "));
    }
    missing.is_empty()
}

/// Runs `action` in a thread of its own, since limits are for good.
fn apart<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(action).join().unwrap())
}

fn done(attack: &BTreeMap<String, bool>) -> Vec<&str> {
    attack.iter().filter(|(_, done)| **done).map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_thread_that_reads_changes_nothing() {
    if !can_be_shown(|it| it.seccomp) {
        return;
    }
    let target = Target::new();
    let before = apart(|| target.attack());
    assert_eq!(done(&before).len(), before.len(), "root can do all of it: {before:?}");
    let target = Target::new();
    let after = apart(|| {
        limit_this_thread(&Role::Reads(ProgramLoading::Over), CapabilitySet::SYS_PTRACE);
        target.attack()
    });
    assert_eq!(done(&after), ["start"]);
    assert_eq!(std::fs::read(target.path().join("victim")).unwrap(), b"precious");
}

#[test]
fn a_thread_that_writes_does_so_below_its_directories_only() {
    if !can_be_shown(|it| it.seccomp && it.landlock) {
        return;
    }
    let (target, own) = (Target::new(), Target::new());
    let (elsewhere, there) = apart(|| {
        let places = vec![own.path().to_owned(), "/no/such/place".into()];
        let limited = limit_this_thread(&Role::Writes(places), CapabilitySet::DAC_OVERRIDE);
        assert_eq!(limited, InEffect { landlock: true, seccomp: true });
        (target.attack(), own.attack())
    });
    assert_eq!(done(&elsewhere), [""; 0]);
    assert_eq!(done(&there), ["make", "remove", "rename", "socket", "write"]);
}

#[test]
fn a_watch_writes_by_another_thread_below_its_directories_only() {
    if !can_be_shown(|it| it.seccomp && it.landlock) {
        return;
    }
    let (target, own) = (Target::new(), Target::new());
    let attack = apart(|| {
        let places = vec![own.path().to_owned()];
        enter(places, CapabilitySet::SYS_PTRACE, ProgramLoading::Over).unwrap();
        let (folder, elsewhere) = (Folder::open(own.path()), Folder::open(target.path()));
        let (folder, elsewhere) = (folder.unwrap(), elsewhere.unwrap());
        folder.replace("made", b"whole", 0o600, true).unwrap();
        let inner = folder.make_folder("inner", 0o700).unwrap();
        folder.rename("made", &inner, "moved").unwrap();
        inner.link("moved", &folder, "linked").unwrap();
        folder.remove_all("inner").unwrap();
        assert_eq!(std::fs::read(own.path().join("linked")).unwrap(), b"whole");
        for refused in [
            elsewhere.create("made", 0o600).map(drop),
            elsewhere.append("victim", 0o600).map(drop),
            elsewhere.remove_file("gone"),
            elsewhere.rename("old", &elsewhere, "new"),
            elsewhere.make_folder("inner", 0o700).map(drop),
            folder.rename("linked", &elsewhere, "linked"),
            std::fs::write(own.path().join("victim"), "by itself"),
        ] {
            refused.unwrap_err();
        }
        // It looks into other processes, as the counters of /proc/PID/io need.
        std::fs::read_to_string(format!("/proc/{}/io", target.other.id())).unwrap();
        target.attack()
    });
    assert_eq!(done(&attack), ["start"]);
}
