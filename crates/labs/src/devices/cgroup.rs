//! Scratch cgroups with limits, of the version that has the controller.

use super::BlockDevice;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, machine};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A limit of a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Reads per second of a device.
    ReadIops(u64),
    /// Writes per second of a device.
    WriteIops(u64),
    /// Bytes read per second from a device.
    ReadBytes(u64),
    /// Bytes written per second to a device.
    WriteBytes(u64),
}

impl Limit {
    /// cgroup v1's file, v2's key, and the value.
    fn setting(self) -> (&'static str, &'static str, u64) {
        match self {
            Limit::ReadIops(value) => ("blkio.throttle.read_iops_device", "riops", value),
            Limit::WriteIops(value) => ("blkio.throttle.write_iops_device", "wiops", value),
            Limit::ReadBytes(value) => ("blkio.throttle.read_bps_device", "rbps", value),
            Limit::WriteBytes(value) => ("blkio.throttle.write_bps_device", "wbps", value),
        }
    }
}

/// A cgroup of one controller, removed on drop.
#[derive(Debug)]
pub struct LabCgroup {
    path: PathBuf,
    unified: bool,
    _scratch: Arc<Scratch>,
}

impl LabCgroup {
    /// Makes a cgroup that can limit block I/O.
    pub fn block(scratch: &Arc<Scratch>) -> Result<LabCgroup> {
        LabCgroup::new(scratch, "blkio", "io")
    }

    /// Makes a cgroup that limits memory to `bytes`.
    pub fn memory(scratch: &Arc<Scratch>, bytes: u64) -> Result<LabCgroup> {
        let cgroup = LabCgroup::new(scratch, "memory", "memory")?;
        let file = if cgroup.unified { "memory.max" } else { "memory.limit_in_bytes" };
        cgroup.write(file, &bytes.to_string())?;
        Ok(cgroup)
    }

    /// Makes a cgroup that may use `percent` hundredths of a CPU, in slices of 100 ms.
    pub fn cpu(scratch: &Arc<Scratch>, percent: u64) -> Result<LabCgroup> {
        let cgroup = LabCgroup::new(scratch, "cpu", "cpu")?;
        let microseconds = percent * 1000;
        match cgroup.unified {
            true => cgroup.write("cpu.max", &format!("{microseconds} 100000"))?,
            false => cgroup.write("cpu.cfs_quota_us", &microseconds.to_string())?,
        }
        Ok(cgroup)
    }

    fn new(scratch: &Arc<Scratch>, v1: &str, v2: &str) -> Result<LabCgroup> {
        let unified = machine::cgroup_v2_root().filter(|root| {
            fs::read_to_string(root.join("cgroup.controllers"))
                .is_ok_and(|list| list.split_whitespace().any(|name| name == v2))
        });
        let (root, unified) = match (machine::cgroup_v1_root(v1), unified) {
            (Some(root), _) => (root, false),
            (None, Some(root)) => {
                let control = root.join("cgroup.subtree_control");
                fs::write(&control, format!("+{v2}"))
                    .context(|| format!("write {}", control.display()))?;
                (root, true)
            }
            (None, None) => {
                return Err(LabError::unsupported(
                    format!("a cgroup controller for {v2}"),
                    "mount cgroup v2, or v1's blkio and memory",
                ));
            }
        };
        let path = root.join(scratch.cgroup());
        fs::create_dir(&path).context(|| format!("make the cgroup {}", path.display()))?;
        Ok(LabCgroup { path, unified, _scratch: Arc::clone(scratch) })
    }

    /// The path of the cgroup below its hierarchy's root, as `/proc/PID/cgroup` shows it.
    pub fn name(&self) -> String {
        format!("/{}", self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Limits the I/O of its processes to `device`.
    pub fn limit(&self, device: &dyn BlockDevice, limit: Limit) -> Result<()> {
        let number = device.number()?;
        let (file, key, value) = limit.setting();
        if self.unified {
            self.write("io.max", &format!("{number} {key}={value}"))
        } else {
            self.write(file, &format!("{number} {value}"))
        }
    }

    /// Returns a function that removes a limit of `device`.
    pub fn lifting(
        &self,
        device: &dyn BlockDevice,
        limit: Limit,
    ) -> Result<impl FnOnce() -> Result<()> + use<>> {
        let number = device.number()?;
        let (file, key, _) = limit.setting();
        let (file, value) = match self.unified {
            true => ("io.max", format!("{number} {key}=max")),
            false => (file, format!("{number} 0")),
        };
        Ok(writing(self.path.join(file), value))
    }

    /// Returns a function that removes the limit of its memory.
    pub fn lifting_memory(&self) -> impl FnOnce() -> Result<()> + use<> {
        let (file, value) = match self.unified {
            true => ("memory.max", "max"),
            false => ("memory.limit_in_bytes", "-1"),
        };
        writing(self.path.join(file), value.to_owned())
    }

    /// Returns a function that removes the limit of its CPU time.
    pub fn lifting_cpu(&self) -> impl FnOnce() -> Result<()> + use<> {
        let (file, value) = match self.unified {
            true => ("cpu.max", "max"),
            false => ("cpu.cfs_quota_us", "-1"),
        };
        writing(self.path.join(file), value.to_owned())
    }

    /// `command`, run inside: a shell enters the cgroup first and then becomes the command.
    pub fn inside(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("/bin/sh");
        wrapped
            .args(["-c", r#"echo $$ > "$0" && exec "$@""#])
            .arg(self.path.join("cgroup.procs"))
            .arg(command.get_program())
            .args(command.get_args());
        wrapped
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).context(|| format!("write {value} to {}", path.display()))
    }

    /// Returns its path in the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns a function that writes `value` to a file.
fn writing(path: PathBuf, value: String) -> impl FnOnce() -> Result<()> {
    move || fs::write(&path, &value).context(|| format!("write {value} to {}", path.display()))
}

impl Drop for LabCgroup {
    fn drop(&mut self) {
        // Busy for a moment after its last process ended.
        for _ in 0..20 {
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
