//! The two ioctls by which devices are asked, an NVMe controller and the device mapper: only what
//! reads is ever sent.
//!
//! The only unsafe code of iowhy that is not generated: rustix has no ioctl without it, and no
//! well-kept crate offers these without a C library. It is small, and this file alone is enough to
//! check it. NVMe: the struct is the kernel's `nvme_passthru_cmd` (linux/nvme_ioctl.h), whose size
//! is part of the ioctl's number, and the buffer outlives the call. Device mapper: the argument is
//! one buffer of bytes, which says its own length at its beginning (`struct dm_ioctl`,
//! linux/dm-ioctl.h); the kernel reads and writes no more than that.
//!
//! What does not belong here: what the answers mean.
#![allow(unsafe_code, reason = "an ioctl takes a pointer; see above")]

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;
use std::fs::File;
use std::path::Path;

/// A command that only reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdminRead {
    /// The controller's description: its model and abilities.
    Controller,
    /// A page of its log.
    LogPage {
        /// The number of the page.
        page: u8,
        /// The namespace; [`ALL_NAMESPACES`] for the controller's own.
        namespace: u32,
        /// Bytes to read of the page, a multiple of four up to 4096.
        bytes: u32,
        /// Whether events that other programs wait for stay as they are; controllers before NVMe
        /// 1.3 do not know it.
        keeps_events: bool,
    },
}

/// The namespace of a log page that is the controller's.
pub const ALL_NAMESPACES: u32 = u32::MAX;
/// The length of a controller's description, bytes.
pub const CONTROLLER_BYTES: u32 = 4096;
/// The longest page.
const MOST_BYTES: u32 = 4096;

const GET_LOG_PAGE: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
/// Identify: the controller.
const OF_CONTROLLER: u32 = 1;
/// Get Log Page: retain asynchronous events.
const RETAIN: u32 = 1 << 15;

/// The recipient of a command: a controller, or a test's double.
pub trait AnswersAdmin {
    /// Returns the answer to a command.
    ///
    /// # Errors
    ///
    /// Fails if there is none, with the reason in half a sentence.
    fn read(&self, command: AdminRead) -> Result<Vec<u8>, String>;
}

/// The kernel's `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default, Debug)]
struct PassthroughCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<PassthroughCommand>() == 72);

/// A command and the buffer for its answer.
struct Exchange {
    command: PassthroughCommand,
    answer: Vec<u8>,
}

impl Exchange {
    fn new(read: AdminRead) -> Exchange {
        let mut command = PassthroughCommand::default();
        // The time limit stays the driver's: when a command takes longer than the limit, the driver
        // resets the controller. Who waits for the answer has a limit of its own.
        match read {
            AdminRead::Controller => {
                command.opcode = IDENTIFY;
                command.bytes = CONTROLLER_BYTES;
                command.words_10_15[0] = OF_CONTROLLER;
            }
            AdminRead::LogPage { page, namespace, bytes, keeps_events } => {
                command.opcode = GET_LOG_PAGE;
                command.namespace = namespace;
                command.bytes = bytes.clamp(4, MOST_BYTES) & !3;
                let words = command.bytes / 4 - 1;
                let retain = if keeps_events { RETAIN } else { 0 };
                command.words_10_15[0] = u32::from(page) | retain | words << 16;
            }
        }
        Exchange { answer: vec![0; command.bytes as usize], command }
    }
}

// SAFETY: the opcode is that of `NVME_IOCTL_ADMIN_CMD`, whose argument is `nvme_passthru_cmd`,
// which `PassthroughCommand` is. The kernel reads and writes that struct and writes at most `bytes`
// bytes to `address`, which is all of `answer`; both live in `self` until the call has returned.
unsafe impl Ioctl for &mut Exchange {
    /// 0, or the status with which the controller refused.
    type Output = i32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<PassthroughCommand>(b'N', 0x41)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.command.address = self.answer.as_mut_ptr() as u64;
        (&raw mut self.command).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// A controller that can be asked.
#[derive(Debug)]
pub struct NvmeController(File);

impl NvmeController {
    /// Opens the controller at `path`, which has that device number (`major:minor`), to read.
    ///
    /// # Errors
    ///
    /// Fails if the controller cannot be opened, with the reason in half a sentence.
    pub fn open(path: &Path, number: &str) -> Result<NvmeController, String> {
        open_device(path, number, "the controller").map(NvmeController)
    }
}

impl AnswersAdmin for NvmeController {
    fn read(&self, command: AdminRead) -> Result<Vec<u8>, String> {
        let mut exchange = Exchange::new(command);
        // SAFETY: see the implementation of `Ioctl`.
        match unsafe { ioctl(&self.0, &mut exchange) } {
            Ok(0) => Ok(exchange.answer),
            Ok(status) => Err(format!("the controller refused it (status {status:#x})")),
            Err(Errno::ACCESS | Errno::PERM) => Err("it needs CAP_SYS_ADMIN".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The report of one target of a device-mapper device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetStatus {
    /// The target's type: `thin-pool`.
    pub target: String,
    /// The status line; empty for targets that have none.
    pub status: String,
}

/// The source of reports: the device mapper, or a test's double.
pub trait ReportsTargets {
    /// Returns the report of each target of the device with this number (`dev_t`).
    ///
    /// # Errors
    ///
    /// Fails if the reports cannot be read, with the reason in half a sentence.
    fn targets(&self, device: u64) -> Result<Vec<TargetStatus>, String>;
}

/// Bytes of `struct dm_ioctl`, whose size is part of the ioctl's number, and where its fields are.
const HEADER: usize = 312;
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const FLAGS: usize = 28;
const DEVICE: usize = 40;
/// The interface's major version; any minor one will do.
const MAPPER_VERSION: u32 = 4;
/// A status without this flag makes a thin pool write its metadata first.
const NO_FLUSH: u32 = 1 << 11;
/// The flag with which the kernel reports that the buffer is too short.
const BUFFER_FULL: u32 = 1 << 8;
/// Bytes of a buffer: as many as a volume of 1,000 segments needs.
const BUFFER: usize = 64 << 10;
/// Bytes of `struct dm_target_spec`, which precedes each status, and where its fields are.
const SPEC: usize = 40;
const NEXT: usize = 20;
const TYPE: std::ops::Range<usize> = 24..40;

/// One request for the status of a device, and the buffer for its answer.
struct StatusExchange(Vec<u8>);

impl StatusExchange {
    fn for_device(device: u64) -> StatusExchange {
        let mut buffer = vec![0; BUFFER];
        for (at, value) in [
            (0, MAPPER_VERSION),
            (DATA_SIZE, BUFFER as u32),
            (DATA_START, HEADER as u32),
            (FLAGS, NO_FLUSH),
        ] {
            buffer[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        buffer[DEVICE..DEVICE + 8].copy_from_slice(&device.to_ne_bytes());
        StatusExchange(buffer)
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// The targets in the kernel's answer.
    fn targets(&self) -> Result<Vec<TargetStatus>, String> {
        if self.word(FLAGS).is_none_or(|flags| flags & BUFFER_FULL != 0) {
            return Err(format!("it is longer than {BUFFER} bytes"));
        }
        self.walk().ok_or_else(|| "the device mapper's answer has another layout".to_owned())
    }

    fn walk(&self) -> Option<Vec<TargetStatus>> {
        let start = self.word(DATA_START)? as usize;
        let mut targets = Vec::new();
        let mut at = start;
        for _ in 0..self.word(TARGET_COUNT)? {
            let spec = self.0.get(at..at.checked_add(SPEC)?)?;
            let target = text(&spec[TYPE]);
            targets.push(TargetStatus { target, status: text(self.0.get(at + SPEC..)?) });
            // Counted from the first one; always onwards.
            let next = start.checked_add(self.word(at + NEXT)? as usize)?;
            at = (next > at).then_some(next)?;
        }
        Some(targets)
    }
}

/// The text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

// SAFETY: the opcode is that of `DM_TABLE_STATUS`, whose argument is a buffer that begins with
// `dm_ioctl`. The kernel reads its length there (`DATA_SIZE`, the buffer's own) and writes at most
// as many bytes; the buffer lives in `self` until the call has returned. The command only reads:
// loading, suspending and removing have other numbers.
unsafe impl Ioctl for &mut StatusExchange {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<[u8; HEADER]>(0xfd, 12)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The device mapper's control device.
#[derive(Debug)]
pub struct MapperControl(File);

impl MapperControl {
    /// Opens the device at `path`, which has that number (`major:minor`), to read.
    ///
    /// # Errors
    ///
    /// Fails if the device cannot be opened, with the reason in half a sentence.
    pub fn open(path: &Path, number: &str) -> Result<MapperControl, String> {
        open_device(path, number, "the device mapper's control device").map(MapperControl)
    }
}

impl ReportsTargets for MapperControl {
    fn targets(&self, device: u64) -> Result<Vec<TargetStatus>, String> {
        let mut exchange = StatusExchange::for_device(device);
        // SAFETY: see the implementation of `Ioctl`.
        match unsafe { ioctl(&self.0, &mut exchange) } {
            Ok(()) => exchange.targets(),
            Err(Errno::ACCESS | Errno::PERM) => Err("it needs CAP_SYS_ADMIN".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Opens a character device to read, if it is the one with that number.
fn open_device(path: &Path, number: &str, what: &str) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = opened.map_err(|error| format!("{}: {error}", path.display()))?;
    let stat = rustix::fs::fstat(&file).map_err(|error| error.to_string())?;
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && format!("{major}:{minor}") == number;
    match is_it {
        true => Ok(file.into()),
        false => Err(format!("{} is not {what}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_kernel_wants_them() {
        let exchange = &mut Exchange::new(AdminRead::Controller);
        // The number in linux/nvme_ioctl.h.
        assert_eq!(<&mut Exchange as Ioctl>::opcode(&exchange), 0xc048_4e41);
        assert_eq!((exchange.command.opcode, exchange.answer.len()), (6, 4096));
        let page = |bytes, keeps_events| {
            let namespace = ALL_NAMESPACES;
            Exchange::new(AdminRead::LogPage { page: 2, namespace, bytes, keeps_events })
        };
        let smart = page(512, true);
        assert_eq!((smart.command.opcode, smart.command.namespace), (2, u32::MAX));
        // 128 words, retained events, page 2.
        assert_eq!(smart.command.words_10_15[0], 127 << 16 | 1 << 15 | 2);
        assert_eq!(page(512, false).command.words_10_15[0], 127 << 16 | 2);
        // Never more than the buffer.
        for bytes in [0, 5, 4096, u32::MAX] {
            let it = page(bytes, true);
            assert_eq!(it.command.bytes as usize, it.answer.len());
            assert_eq!((it.command.words_10_15[0] >> 16) * 4 + 4, it.command.bytes);
        }
        assert_eq!(smart.command.timeout_ms, 0, "the driver's own");
    }

    #[test]
    fn what_is_not_the_controller_is_not_asked() {
        let open = |path: &str, number: &str| NvmeController::open(Path::new(path), number);
        let error = open("/dev/null", "240:0").expect_err("another device");
        assert_eq!(error, "/dev/null is not the controller");
        assert!(open("/dev/nosuch", "240:0").expect_err("nothing").contains("No such file"));
        let null = open("/dev/null", "1:3").expect("a device, although no controller");
        assert!(null.read(AdminRead::Controller).is_err());
    }

    /// An answer as the kernel writes it: of each target its spec, its status and a zero.
    fn answer(targets: &[(&str, &str)]) -> StatusExchange {
        let mut exchange = StatusExchange::for_device(0);
        let mut put = |at: usize, bytes: &[u8]| {
            exchange.0[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(TARGET_COUNT, &(targets.len() as u32).to_ne_bytes());
        let mut at = 0;
        for (target, status) in targets {
            let next = (at + SPEC + status.len() + 1).next_multiple_of(8);
            put(HEADER + at + NEXT, &(next as u32).to_ne_bytes());
            put(HEADER + at + TYPE.start, target.as_bytes());
            put(HEADER + at + SPEC, status.as_bytes());
            at = next;
        }
        exchange
    }

    #[test]
    fn a_status_is_asked_for_as_the_kernel_wants_it() {
        let exchange = &mut StatusExchange::for_device(0xfd_02);
        // The number in linux/dm-ioctl.h.
        assert_eq!(<&mut StatusExchange as Ioctl>::opcode(&exchange), 0xc138_fd0c);
        // The kernel may write as much as the buffer says of itself.
        assert_eq!(exchange.word(DATA_SIZE), Some(exchange.0.len() as u32));
        assert_eq!((exchange.word(0), exchange.word(DATA_START)), (Some(4), Some(312)));
        assert_eq!(exchange.word(FLAGS), Some(1 << 11), "no flush, and nothing else");
        assert_eq!(exchange.0[DEVICE..DEVICE + 8], 0xfd_02_u64.to_ne_bytes());
        // No name and no UUID: the number decides.
        assert!(exchange.0[DEVICE + 8..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn targets_are_found_one_behind_the_other() {
        let targets = [("linear", ""), ("thin-pool", "1 2/3 4/5 - rw"), ("sixteen-letters-", "x")];
        let found = answer(&targets).targets().expect("three targets");
        let found: Vec<(&str, &str)> =
            found.iter().map(|found| (found.target.as_str(), found.status.as_str())).collect();
        assert_eq!(found, targets);
        assert_eq!(answer(&[]).targets(), Ok(Vec::new()));
    }

    #[test]
    fn an_answer_that_is_cut_off_or_wrong_is_none() {
        let wrong = |at: usize, value: u32| {
            let mut exchange = answer(&[("thin", "1 2"), ("thin", "3 4")]);
            exchange.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            exchange.targets().expect_err("wrong")
        };
        assert!(wrong(FLAGS, BUFFER_FULL).contains("longer than"));
        for (at, value) in [
            (DATA_START, u32::MAX),
            (DATA_START, BUFFER as u32 - 8),
            (TARGET_COUNT, u32::MAX),
            // The second one would begin before the first, at it, and behind the buffer.
            (HEADER + NEXT, 0),
            (HEADER + NEXT, BUFFER as u32),
            (HEADER + NEXT, u32::MAX),
        ] {
            assert!(wrong(at, value).contains("another layout"), "{at}: {value}");
        }
        assert!(StatusExchange(Vec::new()).targets().is_err());
    }

    #[test]
    fn what_is_not_the_mapper_is_not_asked() {
        let error = MapperControl::open(Path::new("/dev/null"), "10:236").expect_err("another");
        assert_eq!(error, "/dev/null is not the device mapper's control device");
        let null = MapperControl::open(Path::new("/dev/null"), "1:3").expect("a device");
        assert!(null.targets(0xfd_02).is_err());
    }
}
