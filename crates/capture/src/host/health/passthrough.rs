//! The one ioctl by which an NVMe controller is asked: only commands that read are ever sent.
//!
//! The only unsafe code of iowhy that is not generated: rustix has no ioctl without it, and no
//! well-kept crate offers this one without a C library. It is small, and this file alone is enough
//! to check it: the struct is the kernel's `nvme_passthru_cmd` (linux/nvme_ioctl.h), whose size is
//! part of the ioctl's number, and the buffer outlives the call.
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
    /// What the controller is and can do.
    Controller,
    /// A page of its log.
    LogPage {
        /// The number of the page.
        page: u8,
        /// The namespace; [`ALL_NAMESPACES`] for the controller's own.
        namespace: u32,
        /// How much of it is read, bytes, a multiple of four up to 4096.
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

/// Who answers: a controller, or a test's double.
pub trait AnswersAdmin {
    /// The answer to a command.
    ///
    /// # Errors
    ///
    /// Why there is none, in half a sentence.
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
    fn of(read: AdminRead) -> Exchange {
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
    /// Why it cannot be opened, in half a sentence.
    pub fn open(path: &Path, number: &str) -> Result<NvmeController, String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let file = opened.map_err(|error| format!("{}: {error}", path.display()))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| error.to_string())?;
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && format!("{major}:{minor}") == number;
        match is_it {
            true => Ok(NvmeController(file.into())),
            false => Err(format!("{} is not the controller", path.display())),
        }
    }
}

impl AnswersAdmin for NvmeController {
    fn read(&self, command: AdminRead) -> Result<Vec<u8>, String> {
        let mut exchange = Exchange::of(command);
        // SAFETY: see the implementation of `Ioctl`.
        match unsafe { ioctl(&self.0, &mut exchange) } {
            Ok(0) => Ok(exchange.answer),
            Ok(status) => Err(format!("the controller refused it (status {status:#x})")),
            Err(Errno::ACCESS | Errno::PERM) => Err("it needs CAP_SYS_ADMIN".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_kernel_wants_them() {
        let exchange = &mut Exchange::of(AdminRead::Controller);
        // The number in linux/nvme_ioctl.h.
        assert_eq!(<&mut Exchange as Ioctl>::opcode(&exchange), 0xc048_4e41);
        assert_eq!((exchange.command.opcode, exchange.answer.len()), (6, 4096));
        let page = |bytes, keeps_events| {
            let namespace = ALL_NAMESPACES;
            Exchange::of(AdminRead::LogPage { page: 2, namespace, bytes, keeps_events })
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
}
