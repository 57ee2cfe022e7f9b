//! Columns of numbers as bytes: each number as LEB128, the difference to the row before as zigzag
//! where a column rises. Deflate takes out what is left.
//!
//! What does not belong here: which columns there are (see `data`).

use serde::Serialize;

/// The largest number that a column holds: a script's numbers are exact up to here.
const MOST: u64 = (1 << 53) - 1;

/// The encoding of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoding {
    /// The numbers themselves.
    Plain,
    /// The difference to the number before, from 0.
    Delta,
}

/// The shape of a written table, for the reader.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct WrittenTable {
    /// Rows of each column.
    pub rows: usize,
    /// The columns in the order of their bytes.
    pub columns: Vec<(&'static str, Encoding)>,
}

/// Writes columns one behind the other.
#[derive(Debug, Default)]
pub(super) struct ColumnWriter {
    /// The bytes so far.
    pub bytes: Vec<u8>,
}

impl ColumnWriter {
    /// The columns of `rows`, each with its name, its encoding and how its number is read from a
    /// row.
    pub fn table<R>(&mut self, rows: &[R], columns: &[Definition<R>]) -> WrittenTable {
        for (_, encoding, value) in columns {
            let mut before = 0;
            for row in rows {
                let number = value(row).min(MOST);
                match encoding {
                    Encoding::Plain => self.number(number),
                    Encoding::Delta => self.number(zigzag(number.wrapping_sub(before) as i64)),
                }
                before = number;
            }
        }
        let columns = columns.iter().map(|(name, encoding, _)| (*name, *encoding)).collect();
        WrittenTable { rows: rows.len(), columns }
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// A column: its name, its encoding, its value in a row.
pub(super) type Definition<R> = (&'static str, Encoding, fn(&R) -> u64);

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_bytes() {
        let mut writer = ColumnWriter::default();
        let table = writer.table(
            &[300_u64, 299, 1 << 40, u64::MAX],
            &[("rising", Encoding::Delta, |row| *row), ("small", Encoding::Plain, |row| row % 100)],
        );
        assert_eq!(table.rows, 4);
        let far = zigzag((1_i64 << 40) - 299);
        let most = zigzag((1_i64 << 53) - 1 - (1 << 40));
        let mut expected = ColumnWriter::default();
        [600, 1, far, most, 0, 99, 76, 15].into_iter().for_each(|number| expected.number(number));
        assert_eq!(writer.bytes, expected.bytes);
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
    }
}
