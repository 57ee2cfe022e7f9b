//! The numbers of the system calls that rules ask for, on the architectures that iowhy runs on.

use super::Facts;

/// A system call: its number on x86_64, and where the generic table is used (aarch64, riscv64).
#[derive(Clone, Copy, Debug)]
pub struct Call(u32, u32);

/// Calls that make one file durable: fsync, fdatasync, msync, sync_file_range.
pub const SYNC_FILE: &[Call] = &[Call(74, 82), Call(75, 83), Call(26, 227), Call(277, 84)];
/// futex: how programs' locks wait.
pub const FUTEX: &[Call] = &[Call(202, 98), Call(449, 449), Call(455, 455)];
/// Calls that write back a whole file system or all of them: sync, syncfs.
pub const SYNC_ALL: &[Call] = &[Call(162, 81), Call(306, 267)];

impl Facts<'_> {
    /// Whether `number` is one of `calls` on the machine that was watched.
    pub fn is_call(&self, number: Option<u32>, calls: &[Call]) -> bool {
        let generic =
            matches!(self.summary().environment.architecture.as_str(), "aarch64" | "riscv64");
        let own = |call: &Call| if generic { call.1 } else { call.0 };
        number.is_some_and(|number| calls.iter().any(|call| own(call) == number))
    }
}
