//! The Parquet schema that follows from a table's columns, and the sentences that go with it.
//!
//! What does not belong here: which tables there are (see [`super::tables`]).

use super::tables::TableInfo;
use crate::table::{ColumnInfo, ColumnKind};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The schema of a table's segments.
pub(super) fn schema(table: &TableInfo) -> Result<TypePtr, ParquetError> {
    let fields = table.columns.iter().map(field).collect::<Result<_, _>>()?;
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?))
}

fn field(column: &ColumnInfo) -> Result<TypePtr, ParquetError> {
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let primitive = |physical| {
        let field = Type::primitive_type_builder(column.name, physical);
        Ok(Arc::new(field.with_repetition(repetition).build()?))
    };
    match column.kind {
        ColumnKind::Integer => primitive(Physical::INT64),
        ColumnKind::Float => primitive(Physical::DOUBLE),
        ColumnKind::Flag => primitive(Physical::BOOLEAN),
        ColumnKind::Text => text(column.name, repetition),
        ColumnKind::Texts => list(column.name),
    }
}

fn text(name: &str, repetition: Repetition) -> Result<TypePtr, ParquetError> {
    let text = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
        .with_logical_type(Some(LogicalType::String))
        .with_converted_type(ConvertedType::UTF8)
        .with_repetition(repetition);
    Ok(Arc::new(text.build()?))
}

/// A list of texts, in the three levels that Parquet's specification asks for.
fn list(name: &str) -> Result<TypePtr, ParquetError> {
    let items = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![text("element", Repetition::REQUIRED)?]);
    let list = Type::group_type_builder(name)
        .with_logical_type(Some(LogicalType::List))
        .with_converted_type(ConvertedType::LIST)
        .with_repetition(Repetition::REQUIRED)
        .with_fields(vec![Arc::new(items.build()?)]);
    Ok(Arc::new(list.build()?))
}

/// The descriptions stored in each segment: the table's sentence by the table's
/// name, and each column's unit and sentence by the column's name.
pub(super) fn sentences(table: &TableInfo) -> Vec<KeyValue> {
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let columns = table.columns.iter().map(|column| {
        let unit = column.unit.symbol();
        let unit = if unit.is_empty() { String::new() } else { format!("[{unit}] ") };
        entry(column.name, unit + column.sentence)
    });
    std::iter::once(entry(table.name, table.sentence.trim().to_owned())).chain(columns).collect()
}
