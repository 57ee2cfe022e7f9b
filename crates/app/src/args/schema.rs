//! `iowhy schema`.

use super::Json;
use clap::Args;

/// `iowhy schema`.
#[derive(Args, Debug)]
pub struct SchemaArgs {
    /// The schema of `--json=brief` or of `--json`
    #[arg(value_name = "HOW", value_enum, default_value = "full")]
    pub of: Json,
}
