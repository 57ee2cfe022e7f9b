//! Bounds of what a cell may say, by its unit. A file may be damaged or made to hurt: one duration
//! of three hundred years makes sums wrap and loops run for days. What is beyond a bound is cut to
//! it and counted, here at the door, so that nothing behind it has to ask.
//!
//! What does not belong here: which values a type has (see [`mod@crate::table`]).

use super::tables::TableInfo;
use crate::Environment;
use crate::loss::Losses;
use crate::table::{ColumnBound, ColumnInfo, ColumnKind, Columns, Unit};

/// Times since the machine started, nanoseconds: 36 years.
const MOST_TIME_NS: i64 = 1 << 60;
/// A duration, nanoseconds: 104 days.
const MOST_DURATION_NS: i64 = 1 << 53;
/// Bytes of a row, and offsets: 8 PiB.
const MOST_BYTES: i64 = 1 << 53;
/// Sectors: as many bytes.
const MOST_SECTORS: i64 = MOST_BYTES / 512;
/// The kernel's sector of a request that has none, such as a flush.
const NO_SECTOR: i64 = -1;
/// Occurrences of something in one row.
const MOST_COUNT: i64 = 1 << 40;

/// Columns of times; all other nanoseconds are durations.
const TIMES: [&str; 2] = ["start_ns", "time_ns"];

/// Returns the limits of the column's cells; `None` if any number may be right.
fn bound(info: &ColumnInfo) -> Option<ColumnBound> {
    let most = match (info.kind, info.unit) {
        (ColumnKind::Integer, Unit::Nanoseconds) if TIMES.contains(&info.name) => MOST_TIME_NS,
        (ColumnKind::Integer, Unit::Nanoseconds) => MOST_DURATION_NS,
        (ColumnKind::Integer, Unit::Bytes) => MOST_BYTES,
        (ColumnKind::Integer, Unit::Sectors) => MOST_SECTORS,
        (ColumnKind::Integer, Unit::Count) => MOST_COUNT,
        _ => return None,
    };
    Some(ColumnBound { most, none: (info.unit == Unit::Sectors).then_some(NO_SECTOR) })
}

/// Returns a recording's environment with times that are possible: an end before the beginning is
/// dropped, as if the watch had been killed, and the end is then that of its rows.
pub fn with_times(mut environment: Environment) -> Environment {
    let most_ns = MOST_TIME_NS.cast_unsigned();
    let Environment { start_ns, end_ns, finished, losses, .. } = &mut environment;
    let is_ended = *end_ns > 0;
    if *start_ns > most_ns || *end_ns > most_ns || (is_ended && *end_ns < *start_ns) {
        *start_ns = (*start_ns).min(most_ns);
        (*end_ns, *finished) = (0, false);
        losses.add("numbers", 1, "times of recording.json that cannot be", false);
    }
    environment
}

/// Cuts cells of `table` that are beyond their bounds, and counts them.
pub fn cut(table: &TableInfo, columns: &mut Columns, losses: &mut Losses) {
    let bounds: Vec<Option<ColumnBound>> = table.columns.iter().map(bound).collect();
    let cut = columns.cut(&bounds);
    if cut > 0 {
        let meaning = format!("numbers of {} that cannot be, which were cut", table.name);
        losses.add(&format!("numbers/{}", table.name), cut, &meaning, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Names, Request, RequestPart};

    #[test]
    fn an_end_before_the_beginning_is_none() {
        let with = |start_ns, end_ns| {
            let about = Environment { start_ns, end_ns, finished: true, ..Environment::default() };
            let about = with_times(about);
            (about.start_ns, about.end_ns, about.finished, about.losses.items.len())
        };
        assert_eq!(with(5, 7), (5, 7, true, 0));
        assert_eq!(with(7, 5), (7, 0, false, 1));
        assert_eq!(with(7, 0), (7, 0, true, 0));
        assert_eq!(with(7, u64::MAX), (7, 0, false, 1));
        assert_eq!(with(u64::MAX, u64::MAX), (1 << 60, 0, false, 1));
    }

    #[test]
    fn what_cannot_be_is_cut_and_counted() {
        let mut names = Names::new();
        let name = names.intern("sda");
        let row = |start_ns, bytes| Request { start_ns, bytes, ..Request::blank(name, name) };
        let flush = Request { sector: u64::MAX, ..row(1 << 59, 0) };
        let rows = [row(1_000, 4096), row(u64::MAX, 1 << 62), flush];
        let mut columns = Columns::for_table::<Request>();
        columns.extend(&rows);
        let (table, mut losses) = (TableInfo::for_table::<Request>(), Losses::default());
        cut(&table, &mut columns, &mut losses);
        let read = |index| columns.get::<Request>(index).unwrap();
        assert_eq!((read(0), read(2)), (rows[0].clone(), rows[2].clone()));
        assert_eq!((read(1).start_ns, read(1).bytes), (1 << 60, 1 << 53));
        assert_eq!(losses.items.iter().map(|loss| loss.count).sum::<u64>(), 2);
        // A column of one value, and one of nulls.
        let mut columns = Columns::for_table::<RequestPart>();
        let part = RequestPart { file_offset: None, ..RequestPart::blank(7, u64::MAX) };
        columns.extend(&[part.clone(), part]);
        cut(&TableInfo::for_table::<RequestPart>(), &mut columns, &mut losses);
        let part = columns.get::<RequestPart>(1).unwrap();
        assert_eq!((part.bytes, part.file_offset), (1 << 53, None));
    }
}
