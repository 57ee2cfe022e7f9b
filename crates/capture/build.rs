//! Compiles the BPF programs, and generates the Rust side of `bpf/wire.h`.

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};
use libbpf_cargo::SkeletonBuilder;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The probe groups: `src/probes/NAME/NAME.bpf.c` becomes `NAME.bpf.o`.
const GROUPS: &[&str] = &[
    "aggregate",
    "block",
    "writeback",
    "events",
    "snapshot",
    "symbols",
    "wait",
    "file",
    "page_cache",
];
/// Groups with instructions that some kernels reject even where they are never reached:
/// `NAME-plain.bpf.o` does without (see emit.bpf.h and in_flight.bpf.h).
const PLAIN: &[&str] = &["block", "writeback", "events", "snapshot"];
const ARGUMENTS: &[&str] = &["-Ibpf", "-Wall", "-Werror", "-Wno-unused-function", "-mcpu=v3"];

/// The strongest level: it is done once, and decompression takes no longer.
const COMPRESSION: i32 = 19;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for header in fs::read_dir("bpf")? {
        println!("cargo::rerun-if-changed={}", header?.path().display());
    }
    // It contains the list of groups.
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["CLANG", "PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for group in GROUPS {
        let source = format!("src/probes/{group}/{group}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        compile(&source, &[], &out.join(format!("{group}.bpf.o")))?;
        if PLAIN.contains(group) {
            compile(&source, &["-DIOWHY_NO_ATOMICS"], &out.join(format!("{group}-plain.bpf.o")))?;
        }
    }
    generate_wire(&out)?;
    generate_symbols(&out)
}

fn compile(source: &str, more: &[&str], object: &Path) -> Result<(), Box<dyn Error>> {
    SkeletonBuilder::new()
        .source(source)
        .clang(clang())
        .clang_args(ARGUMENTS.iter().chain(more))
        .obj(object)
        .build()?;
    let compressed = zstd::stream::encode_all(fs::File::open(object)?, COMPRESSION)?;
    fs::write(object.with_extension("o.zst"), compressed)?;
    Ok(())
}

/// The compiler: `$CLANG`, else the newest installed.
fn clang() -> PathBuf {
    let wanted = env::var_os("CLANG").map(PathBuf::from);
    let directories: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let installed = ["clang-19", "clang-16", "clang"]
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|path| path.exists());
    wanted.or(installed).unwrap_or_else(|| PathBuf::from("clang"))
}

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
    bindgen::Builder::default()
        .header("bpf/wire.h")
        .allowlist_type("wire_.*")
        .allowlist_var("WIRE_.*|COUNT_.*|WAIT_.*|END_IO_.*|FOUND_.*|REQUEST_.*|EVENT_.*|USE_.*")
        .allowlist_var("SHAPE_.*|TIME_.*|URING_.*|LATENCY_.*")
        .constified_enum("wire_.*")
        .prepend_enum_name(false)
        .derive_default(false)
        .parse_callbacks(Box::new(Derives))
        .generate()?
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
