//! Thresholds that mean the same in several rules.
//!
//! What does not belong here: thresholds of one cause (see its rule).

/// Most: more than everything else together.
pub const MOST: f64 = 0.5;
/// The least share of a device's time for others to wait behind a kind of work. Chosen, as for all
/// shares of a device's time.
pub const DEVICE_SHARE: f64 = 0.10;
/// The least share of the watch in which a device is busy that takes no more. Chosen.
pub const BUSY: f64 = 0.95;
/// The least share of pages read again, for pages that were evicted in between. Chosen: what fits
/// in memory is read once.
pub const READ_AGAIN: f64 = 0.1;
/// The largest difference of sizes and depth between two parts of a watch that are compared, as a
/// share of the larger one. Chosen.
pub const SAME_LOAD: f64 = 0.35;
/// The largest difference of the share of reads between them. Chosen.
pub const SAME_READS: f64 = 0.1;
/// The length of bins, so that each holds enough requests, nanoseconds.
pub const BIN_NS: u64 = 500_000_000;
/// The largest variation of a rate that a limit behind the device holds, if bins hold few requests.
pub const FLAT: f64 = 0.025;
/// The largest share of the bins that holds most of the writes. Chosen: a saw-tooth, not a stream.
pub const BINS_OF_BURSTS: f64 = 0.5;
/// The least share of the written bytes in those bins.
pub const BYTES_OF_BURSTS: f64 = 0.8;
/// The least factor by which reads or syncs take longer in them. Chosen.
pub const SLOWER_IN_BURSTS: f64 = 2.5;
/// The least share of the requests' time before the driver, or of the threads' waits for a tag: a
/// thread that submits many sleeps for each tag in turn, so each of its requests waits only for a
/// moment. Chosen.
pub const BEFORE_DRIVER: f64 = 0.2;
/// Reads below this size are small although they are in order, bytes: half of the kernel's default
/// window.
pub const SMALL_READ: f64 = 65_536.0;
/// An outlier takes at least this multiple of the median. Chosen.
pub const TIMES_MEDIAN: f64 = 20.0;
/// The least share of a program's own time for a warning: a program that loses less than a tenth is
/// not held up (chosen with the controls of the labs). Also the least share of a device's time.
pub const WARNING_SHARE: f64 = 0.10;
