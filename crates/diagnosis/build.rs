//! Lists the causes: each file of `src/rules` is a module with a rule.
//!
//! What does not belong here: what a file must hold (see `src/rule.rs`).

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const FOLDER: &str = "src/rules";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(FOLDER);
    // The whole path: what is written names it, and another copy of the sources has another.
    println!("cargo::rerun-if-changed={}", folder.display());
    let names = names(&folder)?;
    let mut text = String::new();
    for name in &names {
        let path = folder.join(format!("{name}.rs"));
        writeln!(text, "#[path = {path:?}]\npub mod {name};")?;
    }
    let rules: Vec<String> = names.iter().map(|name| format!("{name}::RULE")).collect();
    let rules = rules.join(", ");
    writeln!(text, "/// Every rule, by the cause's id.\npub const ALL: &[Rule] = &[{rules}];")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("rules.rs"), text)?;
    Ok(())
}

/// The names of the modules, in the order of the causes' ids.
fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".rs"));
        names.extend(stem.filter(|stem| *stem != "mod").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}
