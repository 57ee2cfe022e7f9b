//! The three Parquet encodings that a recording uses, written for its shapes of data:
//! variable-length integers, DELTA_BINARY_PACKED, and the hybrid of runs and packed bits that
//! levels, dictionary keys and flags share.
//!
//! The `parquet` crate has them too, behind writers that take 5 ns for each integer and 12 ns for
//! each text, because they serve every type, level and statistic. At 230,000 requests a second of
//! 47 columns that is a tenth of a CPU; these take 1.5 ns and none for a column of one value.
//! Tests read everything back with that crate, and with DuckDB and pandas.
//!
//! What does not belong here: what is encoded how (see [`super::chunk`]), and reading, for which
//! the crate is fast enough, except texts (see [`super::texts`]).

/// Writes `value` in groups of seven bits, lowest first (ULEB128).
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` so that small negative numbers are short too.
fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Returns the number of bits of `value` without leading zeros.
pub(super) fn bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Writes the low `width` bits of each value one after the other, and whole bytes.
fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut bits, mut used) = (0u64, 0);
    for value in values {
        bits |= value << used;
        used += width;
        if used >= u64::BITS {
            out.extend_from_slice(&bits.to_le_bytes());
            used -= u64::BITS;
            bits = value.checked_shr(width - used).unwrap_or(0);
        }
    }
    out.extend(bits.to_le_bytes().iter().take(used.div_ceil(8) as usize));
}

const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Writes `values` as DELTA_BINARY_PACKED: the first, then blocks of differences above the block's
/// smallest, each quarter of a block in as few bits as its largest needs.
pub(super) fn delta(values: &[i64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(values.len() as u64, out);
    zigzag(values.first().copied().unwrap_or(0), out);
    let mut deltas = [0i64; BLOCK];
    let mut before = values;
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        let deltas = &mut deltas[..block.len()];
        for ((delta, value), before) in deltas.iter_mut().zip(block).zip(before) {
            *delta = value.wrapping_sub(*before);
        }
        before = before.get(BLOCK..).unwrap_or_default();
        delta_block(deltas, out);
    }
}

fn delta_block(deltas: &[i64], out: &mut Vec<u8>) {
    let least = deltas.iter().copied().fold(i64::MAX, i64::min);
    zigzag(least, out);
    let mut widths = [0u32; BLOCK / MINIBLOCK];
    for (width, deltas) in widths.iter_mut().zip(deltas.chunks(MINIBLOCK)) {
        *width = bits(deltas.iter().fold(0, |all, delta| all | delta.wrapping_sub(least) as u64));
    }
    out.extend(widths.iter().map(|width| *width as u8));
    for (width, deltas) in widths.iter().zip(deltas.chunks(MINIBLOCK)) {
        if *width > 0 {
            // The last quarter may be short, but is written at full length.
            let end = out.len() + *width as usize * MINIBLOCK / 8;
            pack(deltas.iter().map(|delta| delta.wrapping_sub(least) as u64), *width, out);
            out.resize(end, 0);
        }
    }
}

/// Values in a run before it is written as one: packed bits come in groups of eight, and a group
/// that an early run tears open is filled from the run.
const RUN: usize = 24;

/// Writes `values`, each of at most `width` bits, as runs of equal values and groups of packed
/// bits.
pub(super) fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut written, mut at) = (0, 0);
    while let Some(value) = values.get(at) {
        let end = at + values.iter().skip(at).take_while(|next| *next == value).count();
        let begin = written + (at - written).next_multiple_of(8);
        if end - at >= RUN {
            packed_groups(values.get(written..begin).unwrap_or_default(), width, out);
            run(*value, end - begin, width, out);
            written = end;
        }
        at = end;
    }
    packed_groups(values.get(written..).unwrap_or_default(), width, out);
}

/// Writes `count` times `value` as one run.
pub(super) fn run(value: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    varint((count as u64) << 1, out);
    out.extend(value.to_le_bytes().iter().take(width.div_ceil(8) as usize));
}

fn packed_groups(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    pack(values.iter().map(|value| u64::from(*value)), width, out);
    out.resize(end, 0);
}
