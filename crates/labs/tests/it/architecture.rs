//! Holds the walls of docs/architecture.md: the crates that each one may depend on, the places of
//! unsafe code, Arrow and kernel interfaces, the length of files, and type names that say their
//! module.

use crate::support::trial;
use iowhy_labs::error::Context;
use iowhy_labs::{Result, command};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Libraries that need a kernel or a terminal, or have data of their own.
const OF_A_MACHINE: &[&str] = &[
    "libbpf-rs",
    "libbpf-sys",
    "clap",
    "ratatui",
    "indicatif",
    "rustix",
    "blazesym",
    "datafusion",
];

/// Those, and libraries that read or write a recording.
const OF_A_MACHINE_OR_RECORDING: &[&str] = &[
    "libbpf-rs",
    "libbpf-sys",
    "clap",
    "ratatui",
    "indicatif",
    "rustix",
    "blazesym",
    "datafusion",
    "parquet",
    "arrow-array",
    "zstd",
    "jiff",
];

/// The crates that each crate may depend on, and the libraries that it must not.
const WALLS: &[(&str, &[&str], &[&str])] = &[
    ("iowhy-model", &["iowhy-fs"], OF_A_MACHINE),
    // Sums, and no names of causes; files are read and written by the model alone.
    ("iowhy-analysis", &["iowhy-model"], OF_A_MACHINE_OR_RECORDING),
    ("iowhy-diagnosis", &["iowhy-analysis", "iowhy-model"], OF_A_MACHINE_OR_RECORDING),
    (
        "iowhy-blktrace",
        &["iowhy-analysis", "iowhy-fs", "iowhy-model"],
        &["libbpf-rs", "libbpf-sys", "clap", "rustix", "blazesym", "parquet", "arrow-array"],
    ),
    (
        "iowhy-foreign",
        &["iowhy-model"],
        &["libbpf-rs", "libbpf-sys", "clap", "rustix", "blazesym", "parquet", "arrow-array"],
    ),
    (
        "iowhy-capture",
        &["iowhy-fs", "iowhy-model"],
        &["clap", "ratatui", "indicatif", "parquet", "arrow-array", "datafusion"],
    ),
    (
        "iowhy-views",
        &["iowhy-analysis", "iowhy-diagnosis", "iowhy-model"],
        &["libbpf-rs", "libbpf-sys", "blazesym", "parquet", "arrow-array", "datafusion"],
    ),
    (
        "iowhy-recorder",
        &[
            "iowhy-analysis",
            "iowhy-capture",
            "iowhy-diagnosis",
            "iowhy-fs",
            "iowhy-model",
            "iowhy-views",
        ],
        &["libbpf-rs", "libbpf-sys", "clap", "indicatif", "parquet", "arrow-array", "datafusion"],
    ),
    (
        "iowhy-reproduce",
        &["iowhy-analysis", "iowhy-diagnosis", "iowhy-fs", "iowhy-model"],
        &["libbpf-rs", "libbpf-sys", "clap", "ratatui", "indicatif", "parquet", "arrow-array"],
    ),
    // Files and directories; it knows nothing of iowhy.
    ("iowhy-fs", &[], &["libbpf-rs", "libbpf-sys", "clap", "blazesym", "parquet", "datafusion"]),
    ("iowhy-manual", &["iowhy-fs"], &["libbpf-rs", "libbpf-sys", "parquet", "datafusion"]),
    (
        "iowhy",
        &[
            "iowhy-analysis",
            "iowhy-blktrace",
            "iowhy-capture",
            "iowhy-diagnosis",
            "iowhy-fs",
            "iowhy-foreign",
            "iowhy-manual",
            "iowhy-model",
            "iowhy-recorder",
            "iowhy-reproduce",
            "iowhy-views",
        ],
        &["libbpf-rs", "libbpf-sys", "parquet", "arrow-array", "datafusion"],
    ),
    // A workspace of its own, fleet/, which reads the recorder's files.
    ("iowhy-fleet", &["iowhy-fs", "iowhy-manual"], &["libbpf-rs", "libbpf-sys", "blazesym"]),
    // It drives the binary, too, and links nothing of it.
    (
        "iowhy-mcp",
        &["iowhy-fs"],
        &["libbpf-rs", "libbpf-sys", "blazesym", "parquet", "arrow-array", "ratatui", "datafusion"],
    ),
    // Labs drive the binary; their tests read recordings with the model's column names.
    ("iowhy-labs", &[], &["libbpf-rs", "libbpf-sys", "datafusion"]),
];

const LINES: usize = 600;
const LINES_OF_BPF: usize = 300;
const COLUMNS: usize = 100;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("architecture::crates_depend_as_drawn", crates_depend_as_drawn),
        trial("architecture::arrow_only_under_recording", arrow_only_under_recording),
        trial("architecture::unsafe_only_in_the_wire_module", unsafe_only_in_the_wire_module),
        trial("architecture::libraries_do_not_print", libraries_do_not_print),
        trial("architecture::one_crate_writes_files", one_crate_writes_files),
        trial("architecture::what_others_own_is_read_bounded", what_others_own_is_read_bounded),
        trial("architecture::files_are_short", files_are_short),
        trial("architecture::lines_are_short", lines_are_short),
        trial("architecture::modules_say_what_they_are", modules_say_what_they_are),
        trial("architecture::rows_are_added_up_in_one_place", rows_are_added_up_in_one_place),
        trial("architecture::type_names_say_their_module", type_names_say_their_module),
    ]
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below `crates` whose name ends with `suffix`, with its path from there.
pub fn sources(suffix: &str) -> Result<Vec<(String, String)>> {
    let base = root().join("crates");
    let mut folders = vec![base.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).context(|| format!("list {}", folder.display()))?.flatten()
        {
            let path = entry.path();
            let name = path.strip_prefix(&base).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                // Made for publishing, and not in the repository.
                if name != "capture/generated" {
                    folders.push(path);
                }
            } else if name.ends_with(suffix) {
                let text =
                    fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
                found.push((name, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The words of a line of code, without its comment.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Lines of code in which one of `wanted` stands as a word: `file:line`.
fn uses(text: &str, name: &str, wanted: &[&str]) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| words(line).any(|word| wanted.contains(&word)))
        .map(|(index, line)| format!("{name}:{}: {}", index + 1, line.trim()))
        .collect()
}

pub fn expect_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

fn crates_depend_as_drawn() -> Result<()> {
    let mut metadata = std::process::Command::new(env!("CARGO"));
    metadata.current_dir(root()).args(["metadata", "--no-deps", "--format-version=1", "--offline"]);
    let text = command::output_of(metadata)?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).context(|| "read what cargo says".to_owned())?;
    let walls: BTreeMap<&str, _> =
        WALLS.iter().map(|(name, allowed, refused)| (*name, (*allowed, *refused))).collect();
    let mut broken = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((allowed, refused)) = walls.get(name) else {
            broken.push(format!("{name} has no line in WALLS"));
            continue;
        };
        let shipped = package["dependencies"].as_array().into_iter().flatten();
        let shipped = shipped.filter(|dependency| dependency["kind"].is_null());
        for dependency in shipped.filter_map(|dependency| dependency["name"].as_str()) {
            let ours = dependency == "iowhy" || dependency.starts_with("iowhy-");
            if (ours && !allowed.contains(&dependency)) || refused.contains(&dependency) {
                broken.push(format!("{name} -> {dependency}"));
            }
        }
    }
    expect_none("dependencies that the architecture does not have", &broken);
    Ok(())
}

fn arrow_only_under_recording() -> Result<()> {
    let mut found = Vec::new();
    for (name, text) in sources(".rs")? {
        let allowed = ["model/src/recording/", "labs/src/recorded.rs"];
        if name.contains("/src/") && !allowed.iter().any(|place| name.starts_with(place)) {
            found.extend(uses(&text, &name, &["arrow", "arrow_array", "arrow_schema", "parquet"]));
        }
    }
    // A file name that ends in .parquet is no import.
    found.retain(|line| line.contains("::") || line.contains("use "));
    expect_none("Arrow or Parquet outside model/src/recording", &found);
    Ok(())
}

/// The places of unsafe code: generated code, and the two ioctls for NVMe controllers and the
/// device mapper, for which there is no safe crate.
const UNSAFE: &[&str] = &["capture/src/wire", "capture/src/host/health/passthrough.rs"];

fn unsafe_only_in_the_wire_module() -> Result<()> {
    let mut found = Vec::new();
    let mut unguarded = Vec::new();
    for (name, text) in sources(".rs")? {
        let is_allowed = UNSAFE.iter().any(|place| name.starts_with(place));
        if name.contains("/src/") && !is_allowed {
            // A word of a page's content security policy is not a keyword.
            let text = text.replace("'unsafe-inline'", "");
            found.extend(uses(&text, &name, &["unsafe"]));
        }
        let is_root = name.ends_with("/src/lib.rs") || name.ends_with("/src/main.rs");
        if is_root
            && !text.contains("#![forbid(unsafe_code)]")
            && !text.contains("#![deny(unsafe_code)]")
        {
            unguarded.push(name);
        }
    }
    expect_none("unsafe outside capture/src/wire and the two ioctls", &found);
    expect_none("crates without forbid(unsafe_code) (capture: deny)", &unguarded);
    Ok(())
}

/// Checks the writers behind the macros that clippy denies. A unit test may print why it skips.
fn libraries_do_not_print() -> Result<()> {
    let mut found = Vec::new();
    for (name, text) in sources(".rs")? {
        let library = [
            "analysis/src/",
            "blktrace/src/",
            "capture/src/",
            "diagnosis/src/",
            "model/src/",
            "recorder/src/",
            "views/src/",
        ];
        if library.iter().any(|prefix| name.starts_with(prefix)) {
            // Output of another program is a field, not this program's terminal.
            let others = ["output.", "command.", "child."].into_iter();
            let product = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            let text = others.fold(product, |text, of| {
                text.replace(&format!("{of}stdout"), "").replace(&format!("{of}stderr"), "")
            });
            found.extend(uses(&text, &name, &["stdout", "stderr", "println", "eprintln"]));
        }
    }
    expect_none("a library that writes to the terminal", &found);
    Ok(())
}

/// Crates that run on users' machines, with whatever rights they have.
const SHIPPED: &[&str] = &[
    "analysis/src/",
    "app/src/",
    "blktrace/src/",
    "capture/src/",
    "diagnosis/src/",
    "manual/src/",
    "mcp/src/",
    "model/src/",
    "recorder/src/",
    "reproduce/src/",
    "views/src/",
];

/// Calls that make, change, rename or remove files by a path.
const WRITES: &[&str] = &[
    "File::create",
    "File::options",
    "OpenOptions",
    "DirBuilder",
    "fs::write",
    "fs::create_dir",
    "fs::rename",
    "fs::remove_",
    "fs::hard_link",
    "fs::copy",
    "fs::set_permissions",
    "fs::symlink(",
    "NamedTempFile",
    "CreateFlags",
    "OFlags::CREATE",
    "OFlags::TRUNC",
];

/// Other files that may use these calls, and the reason.
const MAY_WRITE: &[(&str, &str)] = &[
    ("reproduce/src/kernel_file.rs", "settings of the kernel, which exist or do not"),
    ("reproduce/src/target.rs", "opens a device to read it, exclusively"),
    ("reproduce/src/replay/player.rs", "does I/O on files that exist: that is its load"),
    ("recorder/src/sockets.rs", "the mode of a socket in a directory that is the daemon's"),
];

/// Calls that open a file by a path, of any kind.
const READS: &[&str] = &["File::open(", "fs::read(", "fs::read_to_string("];

/// Other files that may use these calls: they read files of the kernel or the administrator.
const MAY_READ: &[(&str, &str)] = &[
    ("capture/src/", "/proc, /sys and the programs of processes, by the reader's own rules"),
    ("app/src/commands/probe/limits.rs", "/proc"),
    ("app/src/args/candidates.rs", "/proc"),
    ("app/src/args/evidence.rs", "a test of the commands that rules name"),
    ("recorder/src/hook.rs", "/etc/passwd"),
    ("reproduce/src/run/mod.rs", "/proc/meminfo"),
    ("reproduce/src/target.rs", "/proc and /sys"),
    ("reproduce/src/undo.rs", "/proc and /sys"),
    ("reproduce/src/users.rs", "/proc and /sys"),
];

/// Returns lines of the product's code, without tests and comments, that have one of `wanted` in
/// files that are not `exempt`; also exemptions that nothing needs any more.
fn calls(wanted: &[&str], exempt: &[(&str, &str)]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut needed = BTreeSet::new();
    for (name, text) in sources(".rs")? {
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        if is_test || !SHIPPED.iter().any(|place| name.starts_with(place)) {
            continue;
        }
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<String> = product
            .lines()
            .enumerate()
            .filter(|(_, line)| wanted.iter().any(|call| has_call(line, call)))
            .map(|(index, line)| format!("{name}:{}: {}", index + 1, line.trim()))
            .collect();
        match exempt.iter().find(|(place, _)| name.starts_with(place)) {
            Some((place, _)) if !lines.is_empty() => _ = needed.insert(*place),
            Some(_) => {}
            None => found.extend(lines),
        }
    }
    let unneeded = exempt.iter().filter(|(place, _)| !needed.contains(place));
    found.extend(unneeded.map(|(place, _)| format!("{place} is exempt and needs not be")));
    Ok(found)
}

/// Whether a line of code, without its comment, has `call`, not as the end of a longer name.
fn has_call(line: &str, call: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(call).any(|(at, _)| !code[..at].ends_with(is_of_name))
}

/// iowhy is root, often in directories of others: a file that is opened by its path may be a link
/// to any other by then.
fn one_crate_writes_files() -> Result<()> {
    expect_none("files that are written without iowhy-fs", &calls(WRITES, MAY_WRITE)?);
    Ok(())
}

/// A pipe or a device may stand where a file is expected.
fn what_others_own_is_read_bounded() -> Result<()> {
    expect_none("files that are read without iowhy-fs", &calls(READS, MAY_READ)?);
    Ok(())
}

fn files_are_short() -> Result<()> {
    let mut long = Vec::new();
    for (suffix, limit) in [(".rs", LINES), (".h", LINES), (".bpf.c", LINES_OF_BPF)] {
        for (name, text) in sources(suffix)? {
            let lines = text.lines().count();
            let generated = text.lines().take(3).any(|line| line.contains("generated by"));
            if lines > limit && !generated {
                long.push(format!("{name}: {lines} lines, at most {limit}"));
            }
        }
    }
    expect_none("files that are too long", &long);
    Ok(())
}

/// Strings, comments and macros too, which rustfmt leaves as they are.
fn lines_are_short() -> Result<()> {
    let mut long = Vec::new();
    for (name, text) in sources(".rs")? {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                long.push(format!("{name}:{}: {columns} columns, at most {COLUMNS}", index + 1));
            }
        }
    }
    expect_none("lines that are too long", &long);
    Ok(())
}

/// Files that may use the weight of a row: for the sum of rows, for values that cannot be a sum of
/// rows (the histogram's bins, time lines, widths of columns), and for streams that are replayed.
const WEIGHED: &[&str] = &[
    "analysis/src/charge/charger.rs",
    "analysis/src/charts/tally.rs",
    "analysis/src/device/totals.rs",
    "analysis/src/device/histograms.rs",
    "analysis/src/summary/measure.rs",
    "analysis/src/patterns/calls.rs",
    "analysis/src/patterns/owners.rs",
    "analysis/src/patterns/timeline.rs",
    "analysis/src/device/stages/requests.rs",
    "reproduce/src/",
];

fn rows_are_added_up_in_one_place() -> Result<()> {
    let mut found = Vec::new();
    let mut seen = 0;
    for (name, text) in sources(".rs")? {
        let is_product = name.contains("/src/") && !name.starts_with("labs/");
        if !is_product {
            continue;
        }
        let asks = text.contains(".stands_for()");
        seen += usize::from(asks);
        if asks && !WEIGHED.iter().any(|known| name.starts_with(known)) {
            found.push(format!("{name}: stands_for() instead of Measure"));
        }
    }
    if seen < WEIGHED.len() {
        found.push(format!("only {seen} files ask what a row stands for: the test is broken"));
    }
    expect_none("files that multiply by a weight themselves", &found);
    Ok(())
}

fn modules_say_what_they_are() -> Result<()> {
    let silent: BTreeSet<String> = sources(".rs")?
        .into_iter()
        .filter(|(name, _)| name.contains("/src/"))
        .filter(|(_, text)| !text.lines().take(5).any(|line| line.starts_with("//!")))
        .map(|(name, _)| name)
        .collect();
    expect_none("modules without a sentence about themselves", &Vec::from_iter(silent));
    Ok(())
}

/// Every name of a struct, an enum, a trait or a union, once for each definition.
fn type_names(text: &str) -> Vec<&str> {
    let kinds = ["struct", "enum", "trait", "union"];
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut words =
            line.split([' ', '(', ')', '<', '{', ';', ':']).filter(|part| !part.is_empty());
        let mut word = words.next();
        while matches!(word, Some("pub" | "crate" | "super" | "unsafe" | "in")) {
            word = words.next();
        }
        let name = words.next().filter(|_| word.is_some_and(|word| kinds.contains(&word)));
        names.extend(name.filter(|name| name.starts_with(|first: char| first.is_uppercase())));
    }
    names
}

/// Less than one name in twenty is defined twice.
fn type_names_say_their_module() -> Result<()> {
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources(".rs")? {
        for name in type_names(&text) {
            definitions.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    let repeated: Vec<String> = definitions
        .iter()
        .filter(|(_, paths)| paths.len() > 1)
        .map(|(name, paths)| format!("{name}: {}", paths.join(", ")))
        .collect();
    assert!(definitions.len() > 500, "only {} names were found", definitions.len());
    assert!(
        repeated.len() * 20 < definitions.len(),
        "{} of {} type names are defined more than once:\n{}",
        repeated.len(),
        definitions.len(),
        repeated.join("\n")
    );
    Ok(())
}
