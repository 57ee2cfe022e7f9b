//! Compiles the BPF programs, and generates the Rust side of `bpf/wire.h`.
//!
//! The published crate has the results in `generated/`, for those who build without clang; nothing
//! of them is in the repository. `scripts/publish-files` makes them with `IOWHY_GENERATE=1`.

mod compile;

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};
use compile::{DEFAULT_WATCH, GROUPS, NEWEST, OBJECTS, OLDEST, clang, run_clang};
use object::{Object, ObjectSection, ObjectSymbol};
use std::error::Error;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// Whose registers and system calls the programs know.
const ARCHITECTURES: &[&str] = &["x86_64", "aarch64"];

/// The strongest level: it is done once, and decompression takes no longer.
const COMPRESSION: i32 = 19;
/// The folder of the files that this script makes of the sources, with their checksum. They are the
/// same for every architecture here, which the test `aarch64` holds.
const GENERATED: &str = "generated";
const CHECKSUM: &str = "sources";
/// The file below OUT_DIR with the compiler's name and version, for `iowhy check`.
const COMPILER: &str = "compiler";

fn main() {
    if let Err(error) = make() {
        // Cargo shows these as they are, and fails.
        for line in error.to_string().lines() {
            println!("cargo::error={line}");
        }
    }
}

fn make() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = sources()?;
    for source in &sources {
        println!("cargo::rerun-if-changed={}", source.display());
    }
    // Not PATH, which differs between steps of one build: what it leads to is watched instead.
    for name in ["CLANG", "IOWHY_GENERATE"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
    if !ARCHITECTURES.contains(&architecture.as_str()) {
        let supported = ARCHITECTURES.join(" and ");
        return Err(format!("iowhy runs on {supported}, not on {architecture}").into());
    }
    let generated = Path::new(GENERATED);
    let checksum = checksum(&sources)?;
    let clang = clang();
    if clang.is_absolute() {
        println!("cargo::rerun-if-changed={}", clang.display());
    }
    let version = match version_of(&clang).and_then(new_enough) {
        Ok(version) => version,
        Err(error) => {
            let taken = take(generated, &checksum, &out);
            return taken.map_err(|cause| without_clang(&clang, &error, &*cause));
        }
    };
    say_compiler(&clang, &version);
    fs::write(out.join(COMPILER), format!("clang {version}"))?;
    // First: it takes least time, and needs libclang.
    generate_wire(&out)?;
    for object in OBJECTS {
        compile(&clang, object, &out.join(format!("{}.bpf.o", object.name)))?;
    }
    generate_symbols(&out)?;
    generate_group_maps(&clang, &out)?;
    if env::var_os("IOWHY_GENERATE").is_some() {
        keep(&out, &checksum, generated)?;
    }
    Ok(())
}

/// All that the results depend on; this script contains the list of groups.
fn sources() -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir("bpf")?
        .map(|header| Ok(header?.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    files.extend(GROUPS.iter().map(|group| PathBuf::from(compile::source_of(group))));
    files.push(PathBuf::from(compile::source_of(DEFAULT_WATCH)));
    files.extend(["build.rs", "compile.rs"].map(PathBuf::from));
    files.sort();
    Ok(files)
}

/// Of names and contents: FNV-1a, which needs no library. It detects changes by mistake only.
fn checksum(files: &[PathBuf]) -> io::Result<String> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in file.as_os_str().as_encoded_bytes().iter().chain(&fs::read(file)?) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(format!("{hash:016x}"))
}

/// The version that a compiler reports: `16.0.6`.
fn version_of(clang: &Path) -> io::Result<String> {
    let output = Command::new(clang).arg("--version").stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version =
        text.lines().next().and_then(|line| line.split_once("version ")?.1.split(' ').next());
    Ok(version.unwrap_or("of an unknown version").to_owned())
}

/// The version's first number.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The version, if it is none that is known to fail.
fn new_enough(version: String) -> io::Result<String> {
    match major(&version) {
        Some(major) if major < OLDEST => Err(io::Error::other(format!("{version} is too old"))),
        _ => Ok(version),
    }
}

/// Says which compiler is taken, as a warning if its programs were not tried.
fn say_compiler(clang: &Path, version: &str) {
    let is_tested = major(version).is_some_and(|major| (OLDEST..=NEWEST).contains(&major));
    let kind = if is_tested { "" } else { "cargo::warning=" };
    println!(
        "{kind}the BPF programs are compiled by {}, clang {version}; clang {OLDEST} to {NEWEST} \
         were tested",
        clang.display()
    );
}

/// Takes the files that were generated from these sources elsewhere.
fn take(generated: &Path, checksum: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    let shown = generated.display();
    println!("cargo::rerun-if-changed={shown}");
    let of = fs::read_to_string(generated.join(CHECKSUM)).map_err(|_absent| {
        format!("this source has no folder {shown}, as a published crate has")
    })?;
    if of != checksum {
        return Err(format!("{shown} was made of other sources").into());
    }
    for entry in fs::read_dir(generated)? {
        let from = entry?.path();
        fs::copy(&from, out.join(from.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn without_clang(clang: &Path, error: &io::Error, cause: &dyn std::fmt::Display) -> Box<dyn Error> {
    format!(
        "failed to compile the BPF programs: {} cannot be used ({error}), and {cause}\n\
         hint: install clang {OLDEST} or newer and libclang (Debian: apt install clang libclang1), \
         or name another in CLANG",
        clang.display()
    )
    .into()
}

/// Keeps all of it for the published crate.
fn keep(out: &Path, checksum: &str, generated: &Path) -> io::Result<()> {
    if generated.exists() {
        fs::remove_dir_all(generated)?;
    }
    fs::create_dir_all(generated)?;
    for entry in fs::read_dir(out)? {
        let from = entry?.path();
        fs::copy(&from, generated.join(from.file_name().unwrap_or_default()))?;
    }
    fs::write(generated.join(CHECKSUM), checksum)
}

fn compile(clang: &Path, wanted: &compile::Object, object: &Path) -> Result<(), Box<dyn Error>> {
    run_clang(clang, &compile::source_of(wanted.source), wanted.arguments, object)?;
    let compressed = zstd::stream::encode_all(fs::File::open(object)?, COMPRESSION)?;
    fs::write(object.with_extension("o.zst"), compressed)?;
    fs::remove_file(object)?;
    Ok(())
}

/// What a build without libclang says.
const LIBCLANG: &str = "failed to read bpf/wire.h: libclang cannot be loaded\n\
    hint: install it (Debian: apt install libclang-dev), or name its folder in LIBCLANG_PATH";

/// Lets wire records be read from bytes without unsafe code.
#[derive(Debug)]
struct Derives;

impl ParseCallbacks for Derives {
    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        if !info.name.starts_with("wire_") {
            return Vec::new();
        }
        ["FromBytes", "IntoBytes", "KnownLayout", "Immutable"]
            .iter()
            .map(|name| format!("::zerocopy::{name}"))
            .collect()
    }
}

fn generate_wire(out: &Path) -> Result<(), Box<dyn Error>> {
    let wire = bindgen::Builder::default()
        .header("bpf/wire.h")
        .allowlist_type("wire_.*")
        .allowlist_var("WIRE_.*|COUNT_.*|WAIT_.*|END_IO_.*|FOUND_.*|REQUEST_.*|EVENT_.*|USE_.*")
        .allowlist_var("SHAPE_.*|TIME_.*|URING_.*|LATENCY_.*")
        .constified_enum("wire_.*")
        .prepend_enum_name(false)
        .derive_default(false)
        .parse_callbacks(Box::new(Derives));
    // It panics where it cannot load libclang.
    panic::catch_unwind(AssertUnwindSafe(|| wire.generate()))
        .map_err(|_said| LIBCLANG)??
        .write_to_file(out.join("wire.rs"))?;
    Ok(())
}

/// The kernel symbols of `END_IO_LIST`, `END_IO_ALIASES` and `END_IO_MODULES` with their ids: the
/// lists that both sides enumerate. A symbol of a module is written `MODULE:SYMBOL`. `PROGRAMS` are
/// the names of `PROGRAM_LIST`.
fn generate_symbols(out: &Path) -> Result<(), Box<dyn Error>> {
    let header = fs::read_to_string("bpf/wire.h")?;
    let rows: String = header
        .lines()
        .filter_map(|line| line.split_once("X(END_IO_")?.1.split_once(", "))
        .filter_map(|(id, rest)| Some((id, rest.split_once(')')?.0)))
        .map(|(id, symbol)| format!("({:?}, END_IO_{id}),", symbol.replace(", ", ":")))
        .collect();
    let programs: String = fs::read_to_string("bpf/wire_budget.h")?
        .lines()
        .filter_map(|line| line.strip_prefix("\tX(")?.split_once(')'))
        .map(|(name, _)| format!("{name:?},"))
        .collect();
    let text = format!(
        "pub const END_IO_SYMBOLS: &[(&str, wire_end_io)] = &[{rows}];\n\
         pub const PROGRAMS: &[&str] = &[{programs}];\n"
    );
    fs::write(out.join("symbols.rs"), text)?;
    Ok(())
}

/// `GROUP_MAPS`: which maps each group of the default watch has, so that a watch without a group
/// does not create its maps.
fn generate_group_maps(clang: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut rows = String::new();
    let together = fs::read_to_string(compile::source_of(DEFAULT_WATCH))?;
    let is_there = |group: &&&str| together.contains(&format!("\"{group}/"));
    for group in GROUPS.iter().filter(is_there) {
        let object = out.join("maps.bpf.o");
        run_clang(clang, &compile::source_of(group), &[], &object)?;
        for map in maps_of(&fs::read(&object)?)? {
            rows.push_str(&format!("({group:?}, {map:?}),"));
        }
        fs::remove_file(&object)?;
    }
    let text = format!("pub const GROUP_MAPS: &[(&str, &str)] = &[{rows}];\n");
    fs::write(out.join("group_maps.rs"), text)?;
    Ok(())
}

/// The names of the maps that an object defines.
fn maps_of(object: &[u8]) -> Result<Vec<String>, Box<dyn Error>> {
    let file = object::File::parse(object)?;
    let maps = file.section_by_name(".maps").map(|section| section.index());
    let here = file.symbols().filter(|symbol| maps.is_some() && symbol.section_index() == maps);
    let names = here.filter(|symbol| symbol.is_global()).map(|symbol| symbol.name());
    Ok(names.map(|name| name.map(str::to_owned)).collect::<Result<_, _>>()?)
}
