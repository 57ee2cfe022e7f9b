//! The pause between two readings of the kernel's ring buffer: each reading costs, however little
//! there is to read.
//!
//! What does not belong here: what else is due by the clock (see [`super::Daemon`]).

use std::time::Duration;

/// The pause while there is much to read.
const SHORTEST: Duration = Duration::from_millis(40);
/// The pause while there is little to read. If a load begins in it that fills half of the buffer,
/// which takes 20k requests a second, the programs record a part of its first tenths of a second.
const LONGEST: Duration = Duration::from_millis(200);
/// Rows of a pause at which the next one is shorter: a tenth of the buffer's capacity.
const MANY: usize = 1_000;

/// The pauses between two readings.
#[derive(Debug)]
pub(super) struct ReadPause {
    now: Duration,
    rows: usize,
}

impl Default for ReadPause {
    fn default() -> ReadPause {
        ReadPause { now: SHORTEST, rows: 0 }
    }
}

impl ReadPause {
    /// Adds rows that were read since the last pause.
    pub(super) fn add(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Returns the next pause: longer if a pause twice as long would not have had many rows.
    pub(super) fn next(&mut self) -> Duration {
        let rows = std::mem::take(&mut self.rows);
        self.now = match rows {
            MANY.. => SHORTEST,
            few if few * 2 < MANY => (self.now * 2).min(LONGEST),
            _ => self.now,
        };
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_to_read_makes_pauses_longer_and_much_shorter_at_once() {
        let mut pause = ReadPause::default();
        let mut after = |rows: usize| {
            pause.add(rows);
            pause.next().as_millis()
        };
        assert_eq!([0, 0, 0, 0].map(&mut after), [80, 160, 200, 200]);
        assert_eq!(after(700), 200);
        assert_eq!([MANY, MANY * 50].map(&mut after), [40, 40]);
        // After a pause twice as long, there would be many.
        assert_eq!([600, 400, 10].map(&mut after), [40, 80, 160]);
    }

    #[test]
    fn rows_of_several_readings_count_together() {
        let mut pause = ReadPause::default();
        (0..10).for_each(|_| pause.add(256));
        assert_eq!(pause.next(), SHORTEST);
    }
}
