//! Parquet's hybrid of runs and packed bits, read a few values at a time: the reverse of what
//! [`super::encode`] writes. Nothing is taken for granted: the bytes may have been made for harm.
//!
//! What does not belong here: what the values mean (see [`super::texts`]).

use bytes::Bytes;

/// The values of a page, in order.
pub(super) struct HybridRuns {
    bytes: Bytes,
    at: usize,
    width: u32,
    run: HybridRun,
}

/// The run that is being read, and how many of its values are left.
enum HybridRun {
    Same { value: u32, left: usize },
    Packed { left: usize, bit: u32 },
}

impl HybridRuns {
    /// Values of `width` bits each; `None` where these are too many.
    pub fn new(bytes: Bytes, width: u32) -> Option<HybridRuns> {
        let run = HybridRun::Same { value: 0, left: 0 };
        (width <= u32::BITS).then_some(HybridRuns { bytes, at: 0, width, run })
    }

    /// Appends the next `count` values to `values`; `None` if there are fewer.
    pub fn read(&mut self, count: usize, values: &mut Vec<u32>) -> Option<()> {
        let mut missing = count;
        while missing > 0 {
            match &mut self.run {
                HybridRun::Same { left: 0, .. } | HybridRun::Packed { left: 0, .. } => {
                    self.next_run()?
                }
                HybridRun::Same { value, left } => {
                    let taken = missing.min(*left);
                    values.resize(values.len() + taken, *value);
                    *left -= taken;
                    missing -= taken;
                }
                HybridRun::Packed { left, bit } => {
                    let taken = missing.min(*left);
                    *bit = unpack(&self.bytes, &mut self.at, *bit, self.width, taken, values)?;
                    *left -= taken;
                    missing -= taken;
                    if *left == 0 && *bit > 0 {
                        (self.at, *bit) = (self.at + 1, 0);
                    }
                }
            }
        }
        Some(())
    }

    fn next_run(&mut self) -> Option<()> {
        let header = self.varint()?;
        let count = usize::try_from(header >> 1).ok()?;
        if header & 1 == 1 {
            self.run = HybridRun::Packed { left: count.checked_mul(8)?, bit: 0 };
            return Some(());
        }
        let mut value = 0;
        for place in 0..self.width.div_ceil(8) {
            value |= u32::from(*self.bytes.get(self.at)?) << (8 * place);
            self.at += 1;
        }
        // A run of none would never end.
        self.run = HybridRun::Same { value, left: count };
        (count > 0).then_some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Appends `count` values of `width` bits, the first of which begins `bit` bits behind the byte
/// `at`; returns where the next one begins.
fn unpack(
    bytes: &[u8],
    at: &mut usize,
    mut bit: u32,
    width: u32,
    count: usize,
    values: &mut Vec<u32>,
) -> Option<u32> {
    let mask = if width == 0 { 0 } else { u64::MAX >> (u64::BITS - width) };
    for _ in 0..count {
        let word = match bytes.get(*at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => u64::from_le_bytes(*word),
            None => last_word(bytes, *at, bit + width)?,
        };
        values.push((word >> bit & mask) as u32);
        bit += width;
        *at += (bit / 8) as usize;
        bit %= 8;
    }
    Some(bit)
}

/// The bytes from `at` on as a word, where fewer than eight are left; at least `bits` must be.
fn last_word(bytes: &[u8], at: usize, bits: u32) -> Option<u64> {
    let rest = bytes.get(at..)?;
    if rest.len() < bits.div_ceil(8) as usize {
        return None;
    }
    Some(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::encode;

    fn read(bytes: &[u8], width: u32, steps: &[usize]) -> Option<Vec<u32>> {
        let mut runs = HybridRuns::new(Bytes::copy_from_slice(bytes), width)?;
        let mut values = Vec::new();
        for step in steps {
            runs.read(*step, &mut values)?;
        }
        Some(values)
    }

    #[test]
    fn what_was_written_is_read_in_any_steps() {
        for width in [1, 2, 3, 7, 8, 9, 13, 20] {
            let values: Vec<u32> = (0..1000_u32)
                .map(|index| if index % 100 < 40 { 1 } else { index.wrapping_mul(2_654_435_761) })
                .map(|value| value & ((1 << width) - 1))
                .collect();
            let mut bytes = Vec::new();
            encode::hybrid(&values, width, &mut bytes);
            for step in [1000, 500, 10, 8, 1] {
                let steps = vec![step; 1000 / step];
                assert_eq!(read(&bytes, width, &steps).as_ref(), Some(&values), "{width} {step}");
            }
            for short in 0..bytes.len() {
                // The last group may have values that are not read.
                let found = read(&bytes[..short], width, &[1000]);
                assert!(found.is_none_or(|found| found == values), "{width} {short}");
            }
            assert_eq!(read(&bytes[..bytes.len() - width as usize], width, &[1000]), None);
        }
    }

    #[test]
    fn bytes_that_are_made_for_harm_end() {
        // A run of none, a count that overflows, and a number that does not end.
        assert_eq!(read(&[0, 0, 0, 0], 1, &[1]), None);
        assert_eq!(read(&[0xff; 12], 1, &[1]), None);
        assert_eq!(read(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], 9, &[9]), None);
        assert!(HybridRuns::new(Bytes::new(), 33).is_none());
        // No width: every value is 0.
        assert_eq!(read(&[6], 0, &[3]), Some(vec![0; 3]));
    }
}
