//! What code that took over a limited thread could do: a program that such a thread starts has its
//! rights, and tries. Without the limits it can do all of it, which is tried first.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

use iowhy_fs::Folder;
use iowhy_fs::confined::{InEffect, ProgramLoading, Role, available, enter, limit_this_thread};
use rustix::thread::CapabilitySet;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};

/// Prints a line for each thing that it tries.
const ATTACK: &str = r#"
my ($place, $pid, %call) = @ARGV;
my ($none, $mount, $kind, $array) = ("none", "$place/mount", "tmpfs", pack("LLLL", 2, 4, 4, 1));
sub said { print "$_[0] ", ($_[1] ? "done" : "refused"), "\n" }
said("write", open(my $written, ">>", "$place/victim"));
said("make", open(my $made, ">", "$place/made"));
said("rename", rename("$place/old", "$place/new"));
said("remove", unlink("$place/gone"));
said("mode", chmod(0666, "$place/victim"));
said("signal", kill(0, 1));
said("trace", syscall($call{ptrace}, 0x4206, $pid + 0, 0, 0) != -1);
said("load", syscall($call{bpf}, 0, $array, 16) != -1);
said("mount", syscall($call{mount}, $none, $mount, $kind, 0, 0) != -1);
said("namespace", syscall($call{unshare}, 0x04000000) != -1);
said("connect", socket(my $socket, 2, 1, 0));
said("user", syscall($call{setuid}, 65534) != -1);
"#;

/// What every thread is refused, whatever its role.
const NOBODYS: &[&str] = &["signal", "trace", "load", "mount", "namespace", "connect", "user"];
/// What changes files.
const CHANGES: &[&str] = &["write", "make", "rename", "remove", "mode"];

/// A directory with what the attack wants to change, and a process that it wants to trace.
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

    /// What was done, by name.
    fn attack(&self) -> BTreeMap<String, bool> {
        let calls = [
            ("ptrace", libc::SYS_ptrace),
            ("bpf", libc::SYS_bpf),
            ("mount", libc::SYS_mount),
            ("unshare", libc::SYS_unshare),
            ("setuid", libc::SYS_setuid),
        ];
        let calls =
            calls.iter().flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]);
        let mut command = Command::new("perl");
        command.args(["-e", ATTACK]).arg(self.path()).arg(self.other.id().to_string()).args(calls);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = said.lines().filter_map(|line| line.split_once(' '));
        let done: BTreeMap<String, bool> =
            lines.map(|(name, end)| (name.to_owned(), end == "done")).collect();
        assert_eq!(done.len(), NOBODYS.len() + CHANGES.len(), "{output:?}");
        done
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

/// Whether this machine can show it; the reason is printed if not.
fn can_be_shown(needed: fn(InEffect) -> bool) -> bool {
    let missing = [
        (!rustix::process::geteuid().is_root(), "only root has rights to lose"),
        (Command::new("perl").arg("-v").output().is_err(), "there is no perl"),
        (!needed(available()), "this kernel has no landlock or no seccomp"),
    ];
    let missing: Vec<&str> = missing.iter().filter(|it| it.0).map(|it| it.1).collect();
    if !missing.is_empty() {
        eprintln!("skipped: {}", missing.join(", "));
    }
    missing.is_empty()
}

/// In a thread of its own, since limits are for good.
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
    assert_eq!(done(&after), [""; 0]);
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
    assert_eq!(done(&there), ["make", "remove", "rename", "write"]);
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
    assert_eq!(done(&attack), [""; 0]);
}
