//! QEMU: its command line, and QMP, by which a running guest's disks are changed.

use super::disk::{Bus, Bytes, GuestDisk};
use super::kernel::Kernel;
use crate::error::Context;
use crate::{LabError, Result, command};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The disk that receives a guest's results.
pub const OUT: &str = "iowhy-out";
const OUT_BYTES: u64 = 4 << 30;
/// The arguments of every kernel: no console but the log's, an end instead of a hang, nothing that
/// takes time without KVM, and no later change of the clock, which patches code that runs.
const KERNEL_ARGUMENTS: &str = "loglevel=5 panic=-1 mitigations=off audit=0 \
    apparmor=0 selinux=0 cgroup_no_v1=all psi=1 rcupdate.rcu_expedited=1 cryptomgr.notests=1 \
    random.trust_cpu=on raid=noautodetect tsc=reliable";

/// The settings of one QEMU.
pub struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub folder: &'a Path,
    pub initrd: &'a Path,
    pub memory_mib: u64,
    pub cpus: u32,
    pub arguments: &'a [String],
    pub disks: &'a [GuestDisk],
}

impl Machine<'_> {
    /// Starts it. The guest's output is its standard output.
    pub fn start(&self) -> Result<Child> {
        let out = self.folder.join("out.tar");
        fresh(&out, OUT_BYTES)?;
        let architecture = self.kernel.architecture;
        // When this program is killed, so is the guest.
        let mut command = Command::new(command::find("setpriv")?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(command::find(architecture.qemu())?);
        command
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            // With a thread for each CPU, a kernel that changes its own code may run the old code.
            .args(["-accel", "tcg,thread=single"])
            .args(architecture.machine())
            .args(["-smp", &self.cpus.to_string(), "-m", &self.memory_mib.to_string()])
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.initrd)
            .args(["-append", &self.kernel_arguments()])
            .args(["-device", "virtio-rng-pci"])
            .arg("-serial")
            .arg(format!("file:{}", self.folder.join("console").display()))
            .args(["-chardev", "stdio,id=said,signal=off"])
            .args(architecture.speaker())
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", self.folder.join("qmp").display()));
        for disk in self.disks {
            command.args(self.disk(disk)?);
        }
        command.args(self.disk(&GuestDisk::image(OUT, &out))?);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let log = self.folder.join("qemu.log");
        let log = File::create(&log).context(|| format!("make {}", log.display()))?;
        command.stderr(log).spawn().context(|| format!("start {}", architecture.qemu()))
    }

    fn kernel_arguments(&self) -> String {
        let console = self.kernel.architecture.console();
        let mut text = format!("console={console} {KERNEL_ARGUMENTS}");
        for argument in self.arguments {
            text.push(' ');
            text.push_str(argument);
        }
        text
    }

    /// The arguments of a disk.
    fn disk(&self, disk: &GuestDisk) -> Result<Vec<String>> {
        let name = &disk.name;
        let file = match &disk.bytes {
            Bytes::Fresh(bytes) => {
                let path = self.folder.join(format!("{name}.image"));
                fresh(&path, *bytes)?;
                path.display().to_string()
            }
            Bytes::Image(path) => path.display().to_string(),
            Bytes::Nbdkit(_) => format!("nbd+unix:///?socket={}", self.socket(disk).display()),
        };
        let drive = format!(
            "if=none,id={name},format=raw,cache.direct=off,cache.no-flush={},file={}{}",
            if disk.flushes { "off" } else { "on" },
            file.replace(',', ",,"),
            disk.limits.options()
        );
        // The kernel gives this name to a SATA disk that an adapter translates.
        let rotating = "vendor=ATA,product=ST4000NM0033,rotation_rate=7200";
        let devices = match disk.bus {
            Bus::Virtio => vec![format!("virtio-blk-pci,drive={name},serial={name}")],
            Bus::Nvme => vec![format!("nvme,drive={name},serial={name},id={}", controller(name))],
            Bus::Scsi => vec![
                format!("virtio-scsi-pci,id={name}-bus"),
                format!("scsi-hd,drive={name},bus={name}-bus.0,serial={name},{rotating}"),
            ],
            Bus::Ata => vec![format!("ide-hd,drive={name},bus=ide.0,unit=0,serial={name}")],
        };
        let devices = devices.into_iter().flat_map(|device| ["-device".to_owned(), device]);
        Ok(["-drive".to_owned(), drive].into_iter().chain(devices).collect())
    }

    /// Starts the server of the disk's bytes, if it is a separate program.
    pub fn serve(&self, disk: &GuestDisk) -> Result<Option<Child>> {
        let Bytes::Nbdkit(arguments) = &disk.bytes else { return Ok(None) };
        let socket = self.socket(disk);
        let mut command = Command::new(command::find("nbdkit")?);
        command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context(|| "start nbdkit".to_owned())?;
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(LabError::failed(
                    format!("start {}", command::shown(&command)),
                    "its socket did not appear",
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(child))
    }

    fn socket(&self, disk: &GuestDisk) -> std::path::PathBuf {
        self.folder.join(format!("{}.socket", disk.name))
    }
}

/// Returns QEMU's name for the controller of an NVMe disk.
fn controller(disk: &str) -> String {
    format!("{disk}-controller")
}

/// Makes a sparse file of that size.
fn fresh(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).context(|| format!("make {}", path.display()))?;
    file.set_len(bytes).context(|| format!("size {}", path.display()))
}

/// QEMU's control channel.
pub struct Qmp {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects to the QEMU whose files lie in `folder`.
    pub fn connect(folder: &Path) -> Result<Qmp> {
        let path = folder.join("qmp");
        let action = || format!("connect to {}", path.display());
        let to = UnixStream::connect(&path).context(action)?;
        let from = BufReader::new(to.try_clone().context(action)?);
        let mut qmp = Qmp { to, from };
        qmp.answer("greet", "QMP")?;
        qmp.tell("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Sets the critical warning that an NVMe disk reports in its health log, as bits.
    pub fn warn(&mut self, disk: &str, bits: u8) -> Result<()> {
        let path = format!("/machine/peripheral/{}", controller(disk));
        let property = "smart_critical_warning";
        self.tell("qom-set", json!({ "path": path, "property": property, "value": bits }))
    }

    /// Gives one command.
    pub fn tell(&mut self, name: &str, arguments: Value) -> Result<()> {
        let line = json!({ "execute": name, "arguments": arguments });
        writeln!(self.to, "{line}").context(|| format!("tell QEMU to {name}"))?;
        self.answer(name, "return").map(drop)
    }

    /// The next line that has `key`; events come in between.
    fn answer(&mut self, name: &str, key: &str) -> Result<Value> {
        let action = || format!("have QEMU {name}");
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line).context(action)? == 0 {
                return Err(LabError::failed(action(), "QEMU has ended"));
            }
            let answer: Value = serde_json::from_str(&line).context(action)?;
            if let Some(error) = answer.get("error") {
                return Err(LabError::failed(action(), error));
            }
            if answer.get(key).is_some() {
                return Ok(answer);
            }
        }
    }
}
