//! Records as bytes, for writers and tests.

use super::record::{MAGIC, TraceRecord};

/// Appends `record` and `payload` to `out` as protocol `version` (7 or 8) in the byte order that
/// the record states. Protocol 7 has no bits for the categories of zones: they are left out.
pub fn encode(record: &TraceRecord, payload: &[u8], version: u8, out: &mut Vec<u8>) {
    let big = record.big_endian;
    let payload = payload.get(..usize::from(u16::MAX)).unwrap_or(payload);
    let mut put = |bytes: &[u8]| {
        // All words are given little-endian.
        if big { out.extend(bytes.iter().rev()) } else { out.extend_from_slice(bytes) }
    };
    put(&(MAGIC | u32::from(version)).to_le_bytes());
    put(&record.sequence.to_le_bytes());
    put(&record.time.to_le_bytes());
    put(&record.sector.to_le_bytes());
    put(&record.bytes.to_le_bytes());
    let action = (u64::from(record.categories) << 16) | u64::from(record.action);
    if version == 7 {
        put(&(action as u32).to_le_bytes());
        put(&record.pid.to_le_bytes());
    } else {
        put(&record.pid.to_le_bytes());
        put(&action.to_le_bytes());
    }
    put(&record.device.to_le_bytes());
    put(&record.cpu.to_le_bytes());
    put(&record.error.to_le_bytes());
    put(&(payload.len() as u16).to_le_bytes());
    if version != 7 {
        put(&[0; 12]);
    }
    out.extend_from_slice(payload);
}
