//! The processors of guests: their names in QEMU and Debian, and the serial ports of their guests.
//!
//! What does not belong here: the kernels (see [`super::kernel`]).

use crate::{LabError, Result, command, iowhy};
use std::path::PathBuf;

/// The suffix of kernel lines for aarch64: `6.1-arm64`.
pub const ARM64_SUFFIX: &str = "-arm64";

/// The processor of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64: this machine's own programs run in such a guest.
    X86_64,
    /// aarch64: programs come from Debian's packages, iowhy from `scripts/cross`.
    Aarch64,
}

impl Architecture {
    /// Returns Debian's name of it.
    pub fn debian(self) -> &'static str {
        match self {
            Architecture::X86_64 => "amd64",
            Architecture::Aarch64 => "arm64",
        }
    }

    /// QEMU's program.
    pub fn qemu(self) -> &'static str {
        match self {
            Architecture::X86_64 => "qemu-system-x86_64",
            Architecture::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// The machine and the processor, as QEMU's arguments. Emulated, five levels of page tables and
    /// 16-byte exchanges crash some kernels of x86-64, and copies by one instruction go byte by
    /// byte; pointer authentication by the real algorithm takes most of a guest's time.
    pub fn machine(self) -> &'static [&'static str] {
        match self {
            Architecture::X86_64 => &["-cpu", "max,la57=off,cx16=off,erms=off,fsrm=off"],
            Architecture::Aarch64 => &["-machine", "virt", "-cpu", "max,pauth-impdef=on"],
        }
    }

    /// The device by which the guest speaks, as QEMU's arguments: the second serial port.
    pub fn speaker(self) -> &'static [&'static str] {
        match self {
            Architecture::X86_64 => &["-serial", "chardev:said"],
            Architecture::Aarch64 => &["-device", "pci-serial,chardev=said"],
        }
    }

    /// The kernel's console, the first serial port.
    pub fn console(self) -> &'static str {
        match self {
            Architecture::X86_64 => "ttyS0",
            Architecture::Aarch64 => "ttyAMA0",
        }
    }

    /// The binary that a guest runs. `IOWHY_BIN_ARM64` names that for aarch64.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn iowhy(self) -> Result<PathBuf> {
        match self {
            Architecture::X86_64 => iowhy::binary(),
            Architecture::Aarch64 => {
                named("IOWHY_BIN_ARM64", "iowhy for aarch64", "what scripts/cross prints")
            }
        }
    }

    /// The compiler of C programs for such a guest. `IOWHY_CC_ARM64` names that for aarch64.
    ///
    /// # Errors
    /// When there is none.
    pub fn compiler(self) -> Result<PathBuf> {
        match self {
            Architecture::X86_64 => command::find("gcc"),
            Architecture::Aarch64 => {
                named("IOWHY_CC_ARM64", "a C compiler for aarch64", "the path of scripts/cross-cc")
            }
        }
    }
}

/// The program that a variable names.
fn named(variable: &str, what: &str, value: &str) -> Result<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .ok_or_else(|| LabError::missing(what, format!("set {variable} to {value}")))
}
