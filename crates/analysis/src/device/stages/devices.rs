//! Devices numbered in the order of their first events, and what had no partner.

use rustc_hash::FxHashMap;

/// Devices that are distinguished; the figures of more are aggregated, and their events counted.
pub const MAX_DEVICES: usize = 1024;
/// The number that stands for all devices beyond [`MAX_DEVICES`].
pub const OTHER_DEVICES: u32 = u32::MAX;

/// The devices met so far.
#[derive(Debug, Default)]
pub struct DeviceNumbers {
    indices: FxHashMap<u32, u32>,
    numbers: Vec<u32>,
    last: Option<(u32, u32)>,
    /// Events of devices beyond [`MAX_DEVICES`].
    pub beyond: u64,
}

impl DeviceNumbers {
    /// `major << 20 | minor` of each, in the order of their first events.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The index of the device `number`; that of [`OTHER_DEVICES`] beyond the bound.
    #[inline]
    pub fn index(&mut self, number: u32) -> u32 {
        match self.last {
            Some((known, index)) if known == number => index,
            _ => self.look_up(number),
        }
    }

    fn look_up(&mut self, number: u32) -> u32 {
        let next = self.numbers.len();
        let index = match self.indices.get(&number) {
            Some(index) => *index,
            None if next >= MAX_DEVICES => {
                self.beyond += 1;
                if next == MAX_DEVICES {
                    self.numbers.push(OTHER_DEVICES);
                }
                return MAX_DEVICES as u32;
            }
            None => {
                self.indices.insert(number, next as u32);
                self.numbers.push(number);
                next as u32
            }
        };
        self.last = Some((number, index));
        index
    }
}
