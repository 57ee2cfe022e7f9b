//! The recordings of the repository.

use std::path::{Path, PathBuf};

/// Every lab's recording, the frozen one and the demonstration's.
pub fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let labs = std::fs::read_dir(root.join("crates/diagnosis/tests/labs")).unwrap().flatten();
    let others = ["demo/recording", "crates/model/tests/frozen/format-1/recording"];
    let others = others.map(|path| root.join(path));
    labs.map(|entry| entry.path()).chain(others).collect()
}
