//! `iowhy schema`: the JSON Schema of what `--json` prints.

use crate::args::Json;
use crate::args::schema::SchemaArgs;
use crate::failure::Failure;
use crate::output;
use iowhy_views::schema;

/// Prints the schema.
pub fn run(args: &SchemaArgs) -> Result<(), Failure> {
    let schema = match args.of {
        Json::Full => schema::full(),
        Json::Brief => schema::brief(),
    };
    let schema = schema
        .map_err(|cause| Failure::new(format!("failed to read the schema: {cause}"), None))?;
    output::print(&schema)
}
