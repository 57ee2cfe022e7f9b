//! Identity of a process from /proc, for processes that no BPF program has reported.
//!
//! What does not belong here: its memory and its arguments, which can be behind a sick disk (see
//! [`crate::reader`]).

use super::read_text;
use std::fs;

/// /proc/PID/stat.
pub struct ProcStat {
    /// The name of its first thread.
    pub name: String,
    fields: Vec<u64>,
}

impl ProcStat {
    /// Reads it; `None` if the process no longer exists.
    pub fn for_pid(pid: u32) -> Option<ProcStat> {
        ProcStat::parse(&read_text(format!("/proc/{pid}/stat"))?)
    }

    fn parse(text: &str) -> Option<ProcStat> {
        // The name can contain anything, even parentheses.
        let (begin, end) = (text.find('(')? + 1, text.rfind(')')?);
        let name = text.get(begin..end)?.to_owned();
        // Negative fields are not used.
        let fields = text.get(end + 1..)?.split_whitespace();
        Some(ProcStat { name, fields: fields.map(|field| field.parse().unwrap_or(0)).collect() })
    }

    /// The field with that number, as proc(5) counts.
    pub fn field(&self, number: usize) -> Option<u64> {
        // The fields after the name begin with the third.
        self.fields.get(number.checked_sub(3)?).copied()
    }

    /// A field in clock ticks, as nanoseconds.
    pub fn ticks_ns(&self, number: usize) -> Option<u64> {
        self.field(number)?.checked_mul(tick_ns())
    }

    /// Returns the CPU time of all its threads, nanoseconds, in steps of [`tick_ns`].
    pub fn cpu_ns(&self) -> Option<u64> {
        Some(self.ticks_ns(14)?.saturating_add(self.ticks_ns(15)?))
    }

    /// Returns the part of it within the kernel, nanoseconds, in steps of [`tick_ns`].
    pub fn system_ns(&self) -> Option<u64> {
        self.ticks_ns(15)
    }

    /// Returns the time at which the process started, CLOCK_BOOTTIME nanoseconds, in steps of
    /// [`tick_ns`].
    pub fn start_ns(&self) -> Option<u64> {
        self.ticks_ns(22)
    }
}

/// A clock tick in nanoseconds: the unit of times in /proc.
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// A process.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process's name.
    pub name: String,
    /// Time at which the process started, CLOCK_BOOTTIME nanoseconds.
    pub start_ns: u64,
    /// The number of the parent process.
    pub parent: u32,
    /// The number of its real user.
    pub user: u32,
    /// The process's cgroup as the BPF programs report it: v1's blkio path, or v2's if blkio is not
    /// used; `None` if iowhy itself sees other paths.
    pub cgroup: Option<String>,
    /// The path of its program as iowhy would open it; `None` for kernel threads.
    pub executable: Option<String>,
}

impl ProcessIdentity {
    /// Reads it; `None` if the process no longer exists.
    pub fn for_pid(pid: u32) -> Option<ProcessIdentity> {
        let stat = ProcStat::for_pid(pid)?;
        let status = read_text(format!("/proc/{pid}/status"))?;
        let cgroups = read_text(format!("/proc/{pid}/cgroup")).filter(|_| sees_all_cgroups());
        // The kernel knows the path: nothing is looked up.
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let program = program.map(|path| path.to_string_lossy().into_owned());
        Some(ProcessIdentity {
            start_ns: stat.start_ns()?,
            parent: stat.field(4)? as u32,
            name: stat.name,
            user: user_of(&status)?,
            cgroup: cgroups.and_then(|text| cgroup_of(&text)),
            executable: program
                .map(|path| path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned()),
        })
    }
}

/// `Uid:`, whose first number is the real one.
fn user_of(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether cgroup paths begin at the real root here: in the initial namespace, whose number is
/// fixed (`PROC_CGROUP_INIT_INO`).
fn sees_all_cgroups() -> bool {
    let namespace = fs::read_link("/proc/self/ns/cgroup");
    namespace.is_ok_and(|link| link.to_string_lossy() == "cgroup:[4026531835]")
}

/// Prefers `4:blkio:/a` to `0::/a`.
fn cgroup_of(text: &str) -> Option<String> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let legacy =
        lines().find(|(controllers, _)| controllers.split(',').any(|part| part == "blkio"));
    let unified = || lines().find(|(controllers, _)| controllers.is_empty());
    legacy.or_else(unified).map(|(_, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let own = ProcessIdentity::for_pid(std::process::id()).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(own.executable.as_deref(), program.to_str());
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(!own.name.is_empty() && own.start_ns > 0, "{own:?}");
        assert_eq!(own.user, rustix::process::getuid().as_raw());
    }

    #[test]
    fn a_name_can_contain_any_character() {
        let stat = ProcStat::parse("7 (a) b (c)) S 4 7 7 0 -1 0 0 0 9").unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.field(4), stat.field(8)),
            ("a) b (c)", Some(4), Some(0))
        );
        assert_eq!((stat.field(12), stat.field(22), stat.field(2)), (Some(9), None, None));
    }

    #[test]
    fn the_cgroup_is_that_of_requests() {
        let hybrid = "12:cpu,cpuacct:/c\n4:blkio:/a:b\n1:name=systemd:/s\n0::/u\n";
        assert_eq!(cgroup_of(hybrid).as_deref(), Some("/a:b"));
        assert_eq!(cgroup_of("0::/x.service\n").as_deref(), Some("/x.service"));
        assert_eq!(cgroup_of("1:name=systemd:/s\n"), None);
    }

    #[test]
    fn the_user_is_the_real_one() {
        assert_eq!(user_of("Name:\tx\nUid:\t65534\t0\t0\t0\n"), Some(65534));
        assert_eq!(user_of("Name:\tx\n"), None);
    }
}
