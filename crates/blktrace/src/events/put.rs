//! Numbers and padding straight into a buffer: a capture has tens of millions of lines.

/// Columns that one number may fill: its digits and padding.
const COLUMNS: usize = 32;

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Returns the two digits of `value`, which is below 100.
#[inline]
pub fn pair(value: u64) -> [u8; 2] {
    PAIRS.get(value as usize).copied().unwrap_or([b'?'; 2])
}

/// Appends `value`.
#[inline]
pub fn number(out: &mut Vec<u8>, value: u64) {
    padded(out, value, 0);
}

/// Appends `value`, right-aligned in `width` columns.
#[inline]
pub fn padded(out: &mut Vec<u8>, value: u64, width: usize) {
    fill(out, value, width, b' ');
}

/// Appends `value` with leading zeroes up to `width` digits.
#[inline]
pub fn zeroed(out: &mut Vec<u8>, value: u64, width: usize) {
    fill(out, value, width, b'0');
}

#[inline]
fn fill(out: &mut Vec<u8>, mut value: u64, width: usize, with: u8) {
    // Digits end in the middle, so that a piece of fixed length can be copied from any of them.
    let mut columns = [with; 2 * COLUMNS];
    let mut at = COLUMNS;
    while value >= 10 {
        at -= 2;
        let [tens, ones] = PAIRS[(value % 100) as usize];
        columns[at] = tens;
        columns[at + 1] = ones;
        value /= 100;
    }
    if value > 0 || at == COLUMNS {
        at -= 1;
        columns[at] = b'0' + value as u8;
    }
    for _ in COLUMNS..width {
        out.push(with);
    }
    let from = at.min(COLUMNS.saturating_sub(width));
    if let Some(piece) = columns.get(from..).and_then(<[u8]>::first_chunk::<COLUMNS>) {
        short(out, piece, COLUMNS - from);
    }
}

/// Appends the first `len` bytes of `piece`: copying all of it and cutting the rest off is cheaper
/// than copying a length that the compiler does not know.
#[inline]
pub fn short<const N: usize>(out: &mut Vec<u8>, piece: &[u8; N], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(piece);
    out.truncate(end);
}

/// Writes `value` right-aligned over blanks or zeroes; false where it does not fit.
#[inline]
pub fn right_aligned<const N: usize>(columns: &mut [u8; N], mut value: u64) -> bool {
    let mut at = N;
    while value >= 10 {
        if at < 2 {
            return false;
        }
        at -= 2;
        let [tens, ones] = PAIRS[(value % 100) as usize];
        columns[at] = tens;
        columns[at + 1] = ones;
        value /= 100;
    }
    // A whole number of pairs is done, unless it was 0 from the beginning.
    if value > 0 || at == N {
        if at == 0 {
            return false;
        }
        columns[at - 1] = b'0' + value as u8;
    }
    true
}

/// Appends a signed value, right-aligned in `width` columns.
pub fn signed(out: &mut Vec<u8>, value: i64, width: usize) {
    if value >= 0 {
        padded(out, value.unsigned_abs(), width);
    } else {
        text(out, value.to_string().as_bytes(), width, false);
    }
}

/// Appends `bytes`, padded to `width` columns.
#[inline]
pub fn text(out: &mut Vec<u8>, bytes: &[u8], width: usize, left: bool) {
    let pad = width.saturating_sub(bytes.len());
    if !left {
        out.resize(out.len() + pad, b' ');
    }
    out.extend_from_slice(bytes);
    if left {
        out.resize(out.len() + pad, b' ');
    }
}

/// Appends ns since midnight as `17:32:05.019185`, with `digits` of the second, at most 9.
pub fn time_of_day(out: &mut Vec<u8>, ns: u64, digits: u32) {
    let seconds = ns / 1_000_000_000;
    for (value, behind) in
        [(seconds / 3600 % 24, b':'), (seconds / 60 % 60, b':'), (seconds % 60, b'.')]
    {
        zeroed(out, value, 2);
        out.push(behind);
    }
    let digits = digits.min(9);
    zeroed(out, ns % 1_000_000_000 / 10_u64.pow(9 - digits), digits as usize);
}

/// Appends `major,minor` as blkparse aligns it.
#[inline]
pub fn device(out: &mut Vec<u8>, device: u32) {
    padded(out, u64::from(device >> 20), 3);
    out.push(b',');
    let before = out.len();
    number(out, u64::from(device & 0xf_ffff));
    while out.len() < before + 3 {
        out.push(b' ');
    }
}
