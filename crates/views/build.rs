//! Embeds the script and the style of the HTML report, which `scripts/web build` makes of
//! `web/src`, and the JSON Schemas, compressed. Without the former this build warns, and `--html`
//! says how to get them.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Files that `scripts/web build` leaves in `web/dist`.
const BUILT: &[&str] =
    &["page.js", "page.css", "page.js.sha256", "page.css.sha256", "licences.txt"];

/// Files of `schema`.
const SCHEMAS: &[&str] = &["brief.json", "full.json"];
/// The strongest level: it is done once, and decompression takes no longer.
const COMPRESSION: i32 = 19;

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let built = variable("CARGO_MANIFEST_DIR").join("web/dist");
    let out = variable("OUT_DIR");
    let is_built = BUILT.iter().all(|name| built.join(name).is_file());
    if !is_built {
        println!(
            "cargo::warning={} is not complete: this iowhy will have no HTML report (--html); \
             `scripts/web build` makes it, with Node.js and npm",
            built.display()
        );
    }
    for name in BUILT {
        println!("cargo::rerun-if-changed={}", built.join(name).display());
        copy(is_built.then(|| built.join(name)).as_deref(), &out.join(name))?;
    }
    for name in SCHEMAS {
        let schema = variable("CARGO_MANIFEST_DIR").join("schema").join(name);
        println!("cargo::rerun-if-changed={}", schema.display());
        let compressed = zstd::encode_all(fs::File::open(schema)?, COMPRESSION)?;
        fs::write(out.join(format!("{name}.zst")), compressed)?;
    }
    Ok(())
}

/// Copies a file; without one, writes an empty file.
fn copy(from: Option<&Path>, to: &Path) -> io::Result<()> {
    let text = from.map(fs::read).transpose()?.unwrap_or_default();
    fs::write(to, text)
}
