//! A guest's disks. The causes of their slowness or errors lie outside the guest, invisible to its
//! kernel: QEMU's throttling, and nbdkit's filters.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The limits of a disk. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLimits {
    /// I/Os per second.
    pub iops: u64,
    /// Bytes per second.
    pub bytes: u64,
    /// I/Os per second in a burst, until `iops_burst_seconds` of them are used up.
    pub iops_burst: u64,
    /// The length of a burst, seconds.
    pub iops_burst_seconds: u64,
}

impl DiskLimits {
    /// Limits it to so many I/Os per second.
    pub fn iops(iops: u64) -> DiskLimits {
        DiskLimits { iops, ..DiskLimits::default() }
    }

    /// Limits it to so many bytes per second.
    pub fn bytes(bytes: u64) -> DiskLimits {
        DiskLimits { bytes, ..DiskLimits::default() }
    }

    /// Adds bursts: `iops` for that many seconds, as clouds sell them.
    pub fn burst(self, iops: u64, seconds: u64) -> DiskLimits {
        DiskLimits { iops_burst: iops, iops_burst_seconds: seconds, ..self }
    }

    /// Formats the limits as options of a QEMU drive.
    pub(super) fn options(self) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("iops-total", self.iops),
            ("bps-total", self.bytes),
            ("iops-total-max", self.iops_burst),
            ("iops-total-max-length", self.iops_burst_seconds),
        ] {
            if value > 0 {
                text.push_str(&format!(",throttling.{name}={value}"));
            }
        }
        text
    }

    /// Formats the limits as arguments of QMP's `block_set_io_throttle`.
    pub(super) fn arguments(self, disk: &str) -> Value {
        let mut arguments = json!({
            "device": disk, "bps": self.bytes, "bps_rd": 0, "bps_wr": 0,
            "iops": self.iops, "iops_rd": 0, "iops_wr": 0,
        });
        if self.iops_burst > 0 {
            arguments["iops_max"] = json!(self.iops_burst);
            arguments["iops_max_length"] = json!(self.iops_burst_seconds.max(1));
        }
        arguments
    }
}

/// The bus of a disk in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bus {
    /// `vda`, `vdb` …
    #[default]
    Virtio,
    /// `nvme0n1` …
    Nvme,
    /// `sda` …, a rotating SATA disk behind a SCSI host bus adapter.
    Scsi,
    /// `sda` …, an ATA disk at a port of the machine itself, with SMART. Cloud kernels have no
    /// AHCI.
    Ata,
}

impl Bus {
    /// Returns the modules that such a disk needs in the guest.
    pub(super) fn modules(self) -> &'static [&'static str] {
        match self {
            Bus::Virtio => &[],
            Bus::Nvme => &["nvme"],
            Bus::Scsi => &["sd_mod", "virtio_scsi"],
            Bus::Ata => &["sd_mod", "ata_piix"],
        }
    }
}

/// The storage of a disk's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// An empty file of that size, removed with the guest.
    Fresh(u64),
    /// A file that the guest reads and writes.
    Image(PathBuf),
    /// nbdkit, with these arguments.
    Nbdkit(Vec<String>),
}

/// A disk of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestDisk {
    pub(super) name: String,
    pub(super) bytes: Bytes,
    pub(super) bus: Bus,
    pub(super) limits: DiskLimits,
    /// Whether a flush reaches the bytes; else it is answered at once.
    pub(super) flushes: bool,
}

impl GuestDisk {
    /// Makes an empty disk of `bytes`, removed with the guest, `/dev/disk/NAME` there. Names have
    /// 20 characters at most.
    pub fn memory(name: &str, bytes: u64) -> GuestDisk {
        GuestDisk::new(name, Bytes::Fresh(bytes))
    }

    /// A disk whose bytes are those of a file, which the guest changes.
    pub fn image(name: &str, path: impl Into<PathBuf>) -> GuestDisk {
        GuestDisk::new(name, Bytes::Image(path.into()))
    }

    /// An empty disk behind nbdkit, with its `filters` and their `parameters`: `delay` with
    /// `rdelay=10ms`, `error` with `error-pread-rate=1%`.
    pub fn nbdkit(name: &str, bytes: u64, filters: &[&str], parameters: &[&str]) -> GuestDisk {
        let mut arguments: Vec<String> =
            filters.iter().map(|filter| format!("--filter={filter}")).collect();
        arguments.extend(["memory".to_owned(), bytes.to_string()]);
        arguments.extend(parameters.iter().map(|parameter| (*parameter).to_owned()));
        GuestDisk::new(name, Bytes::Nbdkit(arguments))
    }

    /// Makes an empty disk whose write cache takes `flush` to empty. Each read and write costs the
    /// host a process, some milliseconds: it is meant for a few of them.
    pub fn slow_to_flush(name: &str, bytes: u64, flush: Duration) -> GuestDisk {
        let served = [
            "eval".to_owned(),
            format!("get_ready=truncate --size={bytes} $tmpdir/disk"),
            format!("get_size=echo {bytes}"),
            "can_write=exit 0".to_owned(),
            "can_flush=exit 0".to_owned(),
            "pread=dd if=$tmpdir/disk bs=$3 skip=$4 count=1 iflag=skip_bytes \
             status=none"
                .to_owned(),
            "pwrite=dd of=$tmpdir/disk bs=$3 seek=$4 iflag=fullblock oflag=seek_bytes conv=notrunc \
             status=none"
                .to_owned(),
            format!("flush=sleep {}", flush.as_secs_f64()),
        ];
        GuestDisk { flushes: true, ..GuestDisk::new(name, Bytes::Nbdkit(served.into())) }
    }

    fn new(name: &str, bytes: Bytes) -> GuestDisk {
        GuestDisk {
            name: name.to_owned(),
            bytes,
            bus: Bus::default(),
            limits: DiskLimits::default(),
            flushes: false,
        }
    }

    /// Makes it an NVMe disk.
    pub fn nvme(self) -> GuestDisk {
        GuestDisk { bus: Bus::Nvme, ..self }
    }

    /// Makes it a rotating SATA disk behind a SCSI adapter. Guests find it only by the kernel's
    /// name.
    pub fn scsi(self) -> GuestDisk {
        GuestDisk { bus: Bus::Scsi, ..self }
    }

    /// Makes it the first ATA disk of the machine, of which there can be one. Guests find it only
    /// by the kernel's name.
    pub fn ata(self) -> GuestDisk {
        GuestDisk { bus: Bus::Ata, ..self }
    }

    /// Limits it by QEMU; [`super::RunningGuest::limit`] changes the limits.
    pub fn limited(self, limits: DiskLimits) -> GuestDisk {
        GuestDisk { limits, ..self }
    }
}
