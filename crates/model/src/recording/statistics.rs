//! The statistics of a chunk. Queries use them to skip chunks. A column whose rows are all equal,
//! as most columns of a busy disk are, is read from its statistics alone.
//!
//! What does not belong here: the rows themselves (see [`super::chunk`] and [`super::cursor`]).

use crate::table::{ColumnKind, Scalar};
use crate::{Name, Names};
use parquet::data_type::ByteArray;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

/// Longer texts are left out of the statistics: they would be stored three times.
const LONGEST_TEXT: usize = 256;

/// The statistics of `rows` rows that hold `values`, or null.
pub(super) fn of(kind: ColumnKind, values: &[i64], rows: usize) -> Option<Statistics> {
    let nulls = Some((rows - values.len()) as u64);
    match kind {
        ColumnKind::Integer => {
            let (least, most) = extremes(values).unzip();
            Some(Statistics::int64(least, most, None, nulls, false))
        }
        ColumnKind::Text => Some(Statistics::byte_array(None, None, None, nulls, false)),
        ColumnKind::Float | ColumnKind::Flag | ColumnKind::Texts => None,
    }
}

/// The statistics of `rows` rows that all hold `value`.
pub(super) fn of_same(
    kind: ColumnKind,
    value: Option<i64>,
    rows: usize,
    names: &Names,
) -> Option<Statistics> {
    let text = |value| names.get(Name::from_index(value as usize));
    match (kind, value) {
        (ColumnKind::Text, Some(value)) if text(value).len() <= LONGEST_TEXT => {
            let text = Some(ByteArray::from(text(value)));
            Some(Statistics::byte_array(text.clone(), text, None, Some(0), false))
        }
        (_, Some(value)) => of(kind, &[value], 1),
        (_, None) => of(kind, &[], rows),
    }
}

/// The smallest and the largest of `values`.
fn extremes(values: &[i64]) -> Option<(i64, i64)> {
    // Eight at a time: one by one, each comparison would wait for the one before.
    let (mut least, mut most) = ([*values.first()?; 8], [*values.first()?; 8]);
    let mut eights = values.chunks_exact(8);
    for eight in &mut eights {
        for ((least, most), value) in least.iter_mut().zip(&mut most).zip(eight) {
            *least = i64::min(*least, *value);
            *most = i64::max(*most, *value);
        }
    }
    let rest = eights.remainder();
    let least = least.iter().chain(rest).copied().min()?;
    Some((least, most.iter().chain(rest).copied().max()?))
}

/// Returns the value of every row of `chunk`, if its statistics say that it is the same.
pub(super) fn same(
    chunk: &ColumnChunkMetaData,
    kind: ColumnKind,
    names: &mut Names,
) -> Option<Option<i64>> {
    let statistics = chunk.statistics()?;
    let nulls = i64::try_from(statistics.null_count_opt()?).ok()?;
    if kind == ColumnKind::Texts {
        None
    } else if nulls == chunk.num_values() {
        Some(None)
    } else if nulls == 0 && statistics.min_is_exact() && statistics.max_is_exact() {
        one_value(statistics, kind, names).map(Some)
    } else {
        None
    }
}

fn one_value(statistics: &Statistics, kind: ColumnKind, names: &mut Names) -> Option<i64> {
    match (kind, statistics) {
        (ColumnKind::Integer, Statistics::Int64(values))
            if values.min_opt() == values.max_opt() =>
        {
            values.min_opt().copied()
        }
        (ColumnKind::Text, Statistics::ByteArray(texts)) if texts.min_opt() == texts.max_opt() => {
            Some(names.intern(texts.min_opt()?.as_utf8().ok()?).to_raw())
        }
        _ => None,
    }
}
