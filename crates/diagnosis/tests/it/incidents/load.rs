//! The building blocks of scripts of incidents: threads that wait for one request after another,
//! syncs, kernel stacks. Everything varies, but always alike.
//!
//! What does not belong here: the figures of an incident.

use iowhy_model::script::Script;
use iowhy_model::{Operation, Origin};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const KIB: u64 = 1024;

/// Numbers of system calls on x86_64.
pub mod call {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const CLOSE: u32 = 3;
    pub const LSTAT: u32 = 6;
    pub const PREAD: u32 = 17;
    pub const PWRITE: u32 = 18;
    pub const FSYNC: u32 = 74;
    pub const FDATASYNC: u32 = 75;
    pub const RENAME: u32 = 82;
    pub const CHOWN: u32 = 92;
    pub const STATFS: u32 = 137;
    pub const IOCTL: u32 = 16;
    pub const GETEVENTS: u32 = 208;
    pub const SUBMIT: u32 = 209;
    pub const OPENAT: u32 = 257;
    pub const FSTATAT: u32 = 262;
}

/// Kernel stacks of waits, innermost function first, as 6.x kernels have them.
pub mod stack {
    pub const READ: &[&str] = &[
        "io_schedule",
        "folio_wait_bit_common",
        "filemap_update_page",
        "filemap_get_pages",
        "filemap_read",
        "vfs_read",
    ];
    pub const FAULT: &[&str] =
        &["io_schedule", "folio_wait_bit_common", "filemap_fault", "__do_fault", "do_read_fault"];
    pub const DIRECT: &[&str] =
        &["io_schedule", "blk_io_schedule", "__iomap_dio_rw", "iomap_dio_rw", "vfs_write"];
    pub const SYNC_EXT4: &[&str] = &[
        "schedule",
        "jbd2_log_wait_commit",
        "jbd2_complete_transaction",
        "ext4_fc_commit",
        "ext4_sync_file",
        "do_fsync",
    ];
    pub const SYNC_DATA: &[&str] = &[
        "io_schedule",
        "folio_wait_bit_common",
        "folio_wait_writeback",
        "__filemap_fdatawait_range",
        "file_write_and_wait_range",
        "ext4_sync_file",
        "do_fsync",
    ];
    pub const THROTTLED: &[&str] = &[
        "schedule",
        "io_schedule_timeout",
        "balance_dirty_pages",
        "balance_dirty_pages_ratelimited_flags",
        "generic_perform_write",
        "ext4_buffered_write_iter",
        "vfs_write",
    ];
    pub const EVENTS: &[&str] = &["schedule", "read_events", "do_io_getevents"];
    pub const STAT_EXT4: &[&str] = &[
        "io_schedule",
        "bit_wait_io",
        "__wait_on_buffer",
        "__ext4_get_inode_loc",
        "__ext4_iget",
        "ext4_lookup",
        "lookup_slow",
        "walk_component",
        "path_lookupat",
        "filename_lookup",
        "vfs_statx",
    ];
}

/// A number from 0 to 1 that looks like chance.
pub fn chance(seed: u64) -> f64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (value >> 11) as f64 / (1_u64 << 53) as f64
}

/// `mean`, more or less by up to `spread` of it.
pub fn about(mean: u64, spread: f64, seed: u64) -> u64 {
    (mean as f64 * (1.0 + spread * (2.0 * chance(seed) - 1.0))) as u64
}

/// A sector somewhere on a disk of 100 GB, at a multiple of 4096 bytes.
pub fn somewhere(seed: u64) -> u64 {
    (chance(seed) * 25e6) as u64 * 8
}

/// A thread that does one request after another and waits for each.
#[derive(Clone, Copy)]
pub struct Serial<'a> {
    pub who: (u32, &'a str),
    pub tid: u32,
    pub container: &'a str,
    pub device: &'a str,
    pub operation: Operation,
    pub origin: Origin,
    pub bytes: u64,
    /// A request's time at the device, ns, and by how much that varies.
    pub ns: u64,
    pub spread: f64,
    /// The thread's pause between two of them, ns.
    pub pause: u64,
    pub call: u32,
    pub stack: &'a [&'a str],
    /// Kernel and user functions that submit the request.
    pub path: (&'a [&'a str], &'a [&'a str]),
    pub file: &'a str,
    /// Begin and end, nanoseconds after the watch began.
    pub from: u64,
    pub to: u64,
}

impl Default for Serial<'_> {
    fn default() -> Self {
        Serial {
            who: (1, "?"),
            tid: 0,
            container: "",
            device: "sda",
            operation: Operation::Read,
            origin: Origin::Read,
            bytes: 4 * KIB,
            ns: MS,
            spread: 0.3,
            pause: 50 * US,
            call: call::PREAD,
            stack: stack::READ,
            path: (&[], &[]),
            file: "",
            from: 0,
            to: 10 * S,
        }
    }
}

impl Serial<'_> {
    /// Adds all of it; returns the number of requests.
    pub fn run(self, script: &mut Script) -> u64 {
        let tid = if self.tid == 0 { self.who.0 } else { self.tid };
        let mut at = self.from + about(self.pause, 0.9, u64::from(tid));
        let mut count = 0;
        loop {
            let seed = u64::from(tid) * 1_000_003 + count;
            let ns = about(self.ns, self.spread, seed);
            if at + ns > self.to {
                return count;
            }
            let mut draft = script
                .request(self.device, self.operation)
                .bytes(self.bytes)
                .sector(somewhere(seed))
                .at(at as i64)
                .origin(self.origin)
                .by(self.who.0, self.who.1)
                .call(self.call)
                .direct(0, 5 * US, ns - 5 * US)
                .stacks(self.path.0, self.path.1, u32::from(!self.path.0.is_empty()));
            draft.request.tid = Some(tid);
            let draft = if self.file.is_empty() { draft } else { draft.file(self.file) };
            let id = draft.add();
            let mut sleep = script.sleep(self.who, at, ns).call(self.call).thread(tid);
            if !self.file.is_empty() {
                sleep = sleep.file(self.file);
            }
            if !self.container.is_empty() {
                sleep = sleep.container(self.container);
            }
            sleep.stack(self.stack).requests(&[id]).add();
            at += ns + about(self.pause, 0.9, seed);
            count += 1;
        }
    }
}

/// A thread that makes a file durable again and again: a write of its data, the journal's, a flush.
#[derive(Clone, Copy)]
pub struct SyncThread<'a> {
    pub who: (u32, &'a str),
    pub tid: u32,
    pub device: &'a str,
    pub file: &'a str,
    pub bytes: u64,
    /// The duration of the write and of the flush, ns.
    pub write_ns: u64,
    pub flush_ns: u64,
    pub pause: u64,
    pub call: u32,
    pub stack: &'a [&'a str],
    pub to: u64,
}

impl Default for SyncThread<'_> {
    fn default() -> Self {
        SyncThread {
            who: (1, "?"),
            tid: 0,
            device: "sda",
            file: "",
            bytes: 4 * KIB,
            write_ns: MS,
            flush_ns: 0,
            pause: MS,
            call: call::FDATASYNC,
            stack: stack::SYNC_DATA,
            to: 10 * S,
        }
    }
}

impl SyncThread<'_> {
    /// Adds all of it; returns the number of syncs.
    pub fn run(self, script: &mut Script) -> u64 {
        let tid = if self.tid == 0 { self.who.0 } else { self.tid };
        let mut at = about(self.pause, 0.9, u64::from(tid));
        let mut count = 0;
        loop {
            let seed = u64::from(tid) * 1_000_003 + count;
            let (write, flush) =
                (about(self.write_ns, 0.3, seed), about(self.flush_ns, 0.3, seed + 7));
            if at + write + flush > self.to {
                return count;
            }
            let written = script
                .write(self.device, self.bytes)
                .sector(somewhere(u64::from(tid)) + count * self.bytes / 512)
                .at(at as i64)
                .origin(Origin::Writeback)
                .by(self.who.0, self.who.1)
                .call(self.call)
                .direct(0, 0, write)
                .file(self.file)
                .add();
            let mut ids = vec![written];
            if flush > 0 {
                let flushed = script
                    .request(self.device, Operation::Flush)
                    .at((at + write) as i64)
                    .by(self.who.0, self.who.1)
                    .call(self.call)
                    .direct(0, 0, flush)
                    .add();
                ids.push(flushed);
            }
            let sleep = script.sleep(self.who, at, write + flush).call(self.call).thread(tid);
            sleep.file(self.file).stack(self.stack).requests(&ids).add();
            at += write + flush + about(self.pause, 0.5, seed + 3);
            count += 1;
        }
    }
}

/// Requests that come at a mean rate whatever waits, at times that vary as those of many sources
/// do.
pub struct RequestFlow<'a> {
    pub who: (u32, &'a str),
    pub device: &'a str,
    pub operation: Operation,
    pub origin: Origin,
    pub bytes: u64,
    pub per_s: u64,
    pub ns: u64,
    pub file: &'a str,
    /// Whether each starts at the end of the one before.
    pub in_order: bool,
    pub from: u64,
    pub to: u64,
}

impl Default for RequestFlow<'_> {
    fn default() -> Self {
        RequestFlow {
            who: (1, "?"),
            device: "sda",
            operation: Operation::Write,
            origin: Origin::Writeback,
            bytes: 128 * KIB,
            per_s: 100,
            ns: MS,
            file: "",
            in_order: false,
            from: 0,
            to: 10 * S,
        }
    }
}

impl RequestFlow<'_> {
    /// Adds all of it.
    pub fn run(self, script: &mut Script) {
        let step = S / self.per_s.max(1);
        let (mut at, mut count) = (self.from, 0_u64);
        while at + self.ns < self.to {
            let seed = u64::from(self.who.0) * 7_000_003 + count;
            let sector = match self.in_order {
                true => 1 << 30 | (count * self.bytes / 512),
                false => somewhere(seed),
            };
            let draft = script
                .request(self.device, self.operation)
                .bytes(self.bytes)
                .sector(sector)
                .at(at as i64)
                .origin(self.origin)
                .by(self.who.0, self.who.1)
                .direct(0, 0, about(self.ns, 0.3, seed));
            match self.file.is_empty() {
                true => draft.add(),
                false => draft.file(self.file).add(),
            };
            // Half seconds differ by a tenth, and within them one may come soon after the other.
            let level = about(step, 0.1, at / (S / 2) + u64::from(self.who.0));
            at += (level as f64 * -chance(seed + 11).max(1e-6).ln()) as u64;
            count += 1;
        }
    }
}

/// A counter that grows evenly over the watch, read once a second.
pub fn grows(script: &mut Script, metric: iowhy_model::Metric, subject: &str, per_s: f64) {
    let seconds = script.environment.duration_ns() / S;
    for second in 0..=seconds {
        script.sample(second * S, metric, subject, 1e12 + per_s * second as f64);
    }
}

/// A gauge that stays, read once a second.
pub fn stays(script: &mut Script, metric: iowhy_model::Metric, subject: &str, value: f64) {
    let seconds = script.environment.duration_ns() / S;
    for second in 0..=seconds {
        script.sample(second * S, metric, subject, value);
    }
}

/// A watch of ten seconds of a virtual machine.
pub fn of_machine(is_virtual: bool) -> Script {
    let mut script = Script::new(10);
    script.environment.is_virtual = Some(is_virtual);
    script
}
