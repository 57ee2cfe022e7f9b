//! One decoded record, and batches that keep payloads in one piece of memory.

use super::action::{Action, CGROUP_FLAG, Rwbs, category, notify};

/// `0x65617400`: the upper three bytes of every record's first word.
pub const MAGIC: u32 = 0x6561_7400;
/// Length of a protocol 7 header.
pub const V7_LEN: usize = 48;
/// Length of a protocol 8 header.
pub const V8_LEN: usize = 64;

/// One record of either protocol, in this machine's byte order. The payload lies in its
/// [`RecordBatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRecord {
    /// CLOCK_MONOTONIC nanoseconds in captures of one CPU, since the first event in dumps.
    pub time: u64,
    /// First sector of 512 bytes. Stale in notify records of kernels before 6.19.
    pub sector: u64,
    /// Bytes concerned. Stale in notify records of kernels before 6.19.
    pub bytes: u32,
    /// Bits of [`category`].
    pub categories: u32,
    /// The thread that ran on the CPU at that moment.
    pub pid: u32,
    /// `major << 20 | minor`.
    pub device: u32,
    /// The CPU.
    pub cpu: u32,
    /// Counts per CPU and device from 1. Stale in notify records of kernels before 6.19.
    pub sequence: u32,
    /// The action's number, with [`CGROUP_FLAG`].
    pub action: u16,
    /// The error number, positive on old kernels, two's complement on others.
    pub error: u16,
    /// Length of the payload.
    pub payload_len: u16,
    /// Whether the capture's byte order is big-endian: it decides how two kinds of payload are
    /// read.
    pub big_endian: bool,
    /// The index of the capture's name that its stream belongs to, in the order given.
    pub group: u16,
    /// The offset of the payload in its batch.
    pub payload_at: u32,
}

impl TraceRecord {
    /// The device's major number.
    #[inline]
    pub const fn major(&self) -> u32 {
        self.device >> 20
    }

    /// The device's minor number.
    #[inline]
    pub const fn minor(&self) -> u32 {
        self.device & 0xf_ffff
    }

    /// Returns the action, or `None` for a number that this iowhy does not know.
    #[inline]
    pub const fn kind(&self) -> Option<Action> {
        Action::from_number(self.action & !CGROUP_FLAG)
    }

    /// Returns whether it is a note about the trace.
    #[inline]
    pub const fn is_notify(&self) -> bool {
        self.categories & category::NOTIFY != 0
    }

    /// Whether it is a text message, which blkparse orders among the events.
    #[inline]
    pub const fn is_message(&self) -> bool {
        self.is_notify() && self.action & !CGROUP_FLAG == notify::MESSAGE
    }

    /// Whether it writes (discards and zone writes too).
    #[inline]
    pub const fn is_write(&self) -> bool {
        self.categories & category::WRITE != 0
    }

    /// Whole sectors.
    #[inline]
    pub const fn sectors(&self) -> u64 {
        (self.bytes >> 9) as u64
    }

    /// The first sector behind it.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.sector.wrapping_add(self.sectors())
    }

    /// The operation and its flags as text.
    pub fn rwbs(&self) -> Rwbs {
        Rwbs::new(self.categories, self.bytes)
    }

    /// Decodes a protocol 7 header; the payload fields are the caller's.
    #[inline]
    pub fn from_v7<const BIG: bool>(header: &[u8; V7_LEN]) -> TraceRecord {
        let action = u32_at::<BIG, V7_LEN>(header, 28);
        TraceRecord {
            sequence: u32_at::<BIG, V7_LEN>(header, 4),
            time: u64_at::<BIG, V7_LEN>(header, 8),
            sector: u64_at::<BIG, V7_LEN>(header, 16),
            bytes: u32_at::<BIG, V7_LEN>(header, 24),
            action: (action & 0xffff) as u16,
            categories: action >> 16,
            pid: u32_at::<BIG, V7_LEN>(header, 32),
            device: u32_at::<BIG, V7_LEN>(header, 36),
            cpu: u32_at::<BIG, V7_LEN>(header, 40),
            error: u16_at::<BIG, V7_LEN>(header, 44),
            payload_len: u16_at::<BIG, V7_LEN>(header, 46),
            big_endian: BIG,
            group: 0,
            payload_at: 0,
        }
    }

    /// Decodes a protocol 8 header; the payload fields are the caller's.
    #[inline]
    pub fn from_v8<const BIG: bool>(header: &[u8; V8_LEN]) -> TraceRecord {
        let action = u64_at::<BIG, V8_LEN>(header, 32);
        TraceRecord {
            sequence: u32_at::<BIG, V8_LEN>(header, 4),
            time: u64_at::<BIG, V8_LEN>(header, 8),
            sector: u64_at::<BIG, V8_LEN>(header, 16),
            bytes: u32_at::<BIG, V8_LEN>(header, 24),
            pid: u32_at::<BIG, V8_LEN>(header, 28),
            action: (action & 0xffff) as u16,
            categories: (action >> 16) as u32,
            device: u32_at::<BIG, V8_LEN>(header, 40),
            cpu: u32_at::<BIG, V8_LEN>(header, 44),
            error: u16_at::<BIG, V8_LEN>(header, 48),
            payload_len: u16_at::<BIG, V8_LEN>(header, 50),
            big_endian: BIG,
            group: 0,
            payload_at: 0,
        }
    }
}

#[inline]
fn u16_at<const BIG: bool, const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    let word = [bytes[at], bytes[at + 1]];
    if BIG { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }
}

#[inline]
fn u32_at<const BIG: bool, const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if BIG { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

#[inline]
fn u64_at<const BIG: bool, const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let (first, second) = (u32_at::<BIG, N>(bytes, at), u32_at::<BIG, N>(bytes, at + 4));
    let (high, low) = if BIG { (first, second) } else { (second, first) };
    (u64::from(high) << 32) | u64::from(low)
}

/// The origin of a remapped event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remap {
    /// The upper device.
    pub from_device: u32,
    /// The lower device: the record's own device, except in dumps that blkparse printed.
    pub to_device: u32,
    /// The sector on the upper device.
    pub from_sector: u64,
}

/// Records that were read together, and their payloads.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    /// The records.
    pub records: Vec<TraceRecord>,
    payload: Vec<u8>,
}

impl RecordBatch {
    /// Forgets every record and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.payload.clear();
    }

    /// Adds a record whose payload is `payload`, of which 65,535 bytes are kept.
    #[inline]
    pub fn push(&mut self, mut record: TraceRecord, payload: &[u8]) {
        if payload.is_empty() {
            record.payload_len = 0;
        } else {
            let payload = payload.get(..usize::from(u16::MAX)).unwrap_or(payload);
            record.payload_at = self.payload.len() as u32;
            record.payload_len = payload.len() as u16;
            self.payload.extend_from_slice(payload);
        }
        self.records.push(record);
    }

    /// Adds a record of `other`.
    #[inline]
    pub fn copy(&mut self, record: &TraceRecord, other: &RecordBatch) {
        if record.payload_len == 0 {
            // As a slice: pushed, it would go over the stack.
            self.records.extend_from_slice(std::slice::from_ref(record));
        } else {
            self.push(*record, other.raw_payload(record));
        }
    }

    /// Bytes of all payloads.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Returns the payload of a record of this batch as it is in the file.
    #[inline]
    pub fn raw_payload(&self, record: &TraceRecord) -> &[u8] {
        let at = record.payload_at as usize;
        self.payload.get(at..at + usize::from(record.payload_len)).unwrap_or(&[])
    }

    /// The payload without the cgroup id that may precede it.
    #[inline]
    pub fn payload(&self, record: &TraceRecord) -> &[u8] {
        let raw = self.raw_payload(record);
        if record.action & CGROUP_FLAG == 0 { raw } else { raw.get(8..).unwrap_or(&[]) }
    }

    /// The cgroup id that precedes the payload, where there is one.
    pub fn cgroup(&self, record: &TraceRecord) -> Option<u64> {
        if record.action & CGROUP_FLAG == 0 {
            return None;
        }
        let id = self.raw_payload(record).first_chunk::<8>()?;
        Some(if record.big_endian { u64_at::<true, 8>(id, 0) } else { u64_at::<false, 8>(id, 0) })
    }

    /// The number that a split or unplug carries: always big-endian.
    #[inline]
    pub fn number(&self, record: &TraceRecord) -> Option<u64> {
        self.payload(record).first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// Returns the origin of a remap: always big-endian.
    #[inline]
    pub fn remap(&self, record: &TraceRecord) -> Option<Remap> {
        let bytes = self.payload(record).first_chunk::<16>()?;
        Some(Remap {
            from_device: u32_at::<true, 16>(bytes, 0),
            to_device: u32_at::<true, 16>(bytes, 4),
            from_sector: u64_at::<true, 16>(bytes, 8),
        })
    }

    /// Returns the process name of a notify record: up to the first NUL; bytes after it are stale.
    pub fn process_name(&self, record: &TraceRecord) -> &[u8] {
        let payload = self.payload(record);
        let payload = payload.get(..16).unwrap_or(payload);
        payload.split(|byte| *byte == 0).next().unwrap_or(&[])
    }

    /// The wall clock of a timestamp record, in nanoseconds since 1970. Dumps of captures of the
    /// other byte order keep the payload as it was, so an impossible value is read the other way.
    pub fn wall_clock(&self, record: &TraceRecord) -> Option<u64> {
        let bytes = self.payload(record).first_chunk::<8>()?;
        let read = |big: bool| {
            let (seconds, nanoseconds) = if big {
                (u32_at::<true, 8>(bytes, 0), u32_at::<true, 8>(bytes, 4))
            } else {
                (u32_at::<false, 8>(bytes, 0), u32_at::<false, 8>(bytes, 4))
            };
            (nanoseconds < 1_000_000_000)
                .then(|| u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds))
        };
        read(record.big_endian).or_else(|| read(!record.big_endian))
    }
}
