//! The error that a request or a bio ended with.
//!
//! What does not belong here: which of the kernel's tracepoints reports it.

use crate::kernel::KernelFeatures;

/// The encoding in which this kernel's tracepoints report a status.
#[derive(Clone, Copy, Debug)]
pub struct StatusCodes {
    are_blk_status: bool,
}

impl StatusCodes {
    /// As the kernel's BTF describes them.
    pub fn new(facts: &KernelFeatures) -> StatusCodes {
        StatusCodes { are_blk_status: facts.status_is_blk_status }
    }

    /// The negative errno of a status, as the kernel's tracepoint reports it.
    pub fn errno(self, status: i32) -> Option<i32> {
        match status {
            0 => None,
            status if self.are_blk_status => Some(errno_of_blk_status(status)),
            error => Some(-error.abs()),
        }
    }
}

/// The kernel's table of block status codes (`blk_errors` in block/blk-core.c). Codes that are not
/// in it mean an I/O error, and so do those from 14 on: they are for zones, removed devices and
/// limits, and were renumbered when one of them was removed.
pub fn errno_of_blk_status(status: i32) -> i32 {
    const EREMCHG: i32 = 78;
    const EAGAIN: i32 = 11;
    const EBUSY: i32 = 16;
    const EOPNOTSUPP: i32 = 95;
    const ETIMEDOUT: i32 = 110;
    const ENOSPC: i32 = 28;
    const ENOLINK: i32 = 67;
    const EREMOTEIO: i32 = 121;
    const EBADE: i32 = 52;
    const ENODATA: i32 = 61;
    const EILSEQ: i32 = 84;
    const ENOMEM: i32 = 12;
    const EIO: i32 = 5;
    const BY_STATUS: &[i32] = &[
        0, EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO, EBADE, ENODATA, EILSEQ, ENOMEM, EIO,
        EREMCHG, EAGAIN, EBUSY,
    ];
    let place = usize::try_from(status & 0xff).unwrap_or(usize::MAX);
    -BY_STATUS.get(place).copied().unwrap_or(EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_the_kernel_s_errors() {
        let by_status = [
            (1, 95),
            (2, 110),
            (3, 28),
            (4, 67),
            (5, 121),
            (6, 52),
            (7, 61),
            (8, 84),
            (9, 12),
            (10, 5),
            (11, 78),
            (12, 11),
            (13, 16),
            (14, 5),
            (17, 5),
            (255, 5),
            (-1, 5),
        ];
        for (status, errno) in by_status {
            assert_eq!(errno_of_blk_status(status), -errno, "{status}");
        }
    }
}
