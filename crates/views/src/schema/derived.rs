//! The schemas as the serialised types give them. A test compares them with the texts in
//! `schema/`, so these cannot drift from the output.

use crate::brief::BriefAnswer;
use crate::json::{JsonDocument, JsonReport, SCHEMA_VERSION};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

/// The schema of `--json=brief`.
pub fn brief() -> Schema {
    of::<BriefAnswer>("brief")
}

/// The schema of `--json`.
pub fn full() -> Schema {
    of::<JsonDocument<JsonReport<'static>>>("full")
}

/// `schema` as indented JSON, with a newline at its end.
pub fn render(schema: &Schema) -> String {
    format!("{:#}\n", schema.as_value())
}

/// Returns the schema of documents that are written, not of those that could be read: every field
/// is there, or is null.
fn of<T: JsonSchema>(name: &str) -> Schema {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("urn:iowhy:{name}:{SCHEMA_VERSION}").into());
    schema.insert("title".to_owned(), format!("iowhy --json={name}").into());
    schema
}
