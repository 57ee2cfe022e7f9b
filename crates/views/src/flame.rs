//! Folded stacks as a flame graph.
//!
//! What does not belong here: folding stacks (see `iowhy_analysis::formats::collapsed`).

use inferno::flamegraph::{self, Options};

/// Draws folded stacks, one per line, as a flame graph in SVG. The error is a sentence.
///
/// # Errors
/// Fails if there is no stack, or it cannot be drawn.
pub fn svg(folded: &str, title: &str, unit: &str) -> Result<Vec<u8>, String> {
    if folded.is_empty() {
        return Err("no request has a stack".to_owned());
    }
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    unit.clone_into(&mut options.count_name);
    // Makes the same picture of the same stacks.
    options.deterministic = true;
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut picture)
        .map_err(|error| error.to_string())?;
    Ok(picture)
}
