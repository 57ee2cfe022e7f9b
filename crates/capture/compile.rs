//! The BPF objects, and how clang compiles them: shared by build.rs and what tries other compilers.
//!
//! What does not belong here: what is done with the objects (build.rs).

use libbpf_rs::Linker;
use libbpf_rs::libbpf_sys::API_HEADERS;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// The range of clang's versions that `scripts/test-compilers` tries.
pub const OLDEST: u32 = 14;
/// The newest of that range.
pub const NEWEST: u32 = 23;

/// The probe groups: `src/probes/NAME/NAME.bpf.c`.
pub const GROUPS: &[&str] = &[
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
/// Most of the groups as one object: `src/probes/default_watch.bpf.c`.
pub const DEFAULT_WATCH: &str = "default_watch";

/// An object, `NAME.bpf.o`.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The name of the file, without `.bpf.o`.
    pub name: &'static str,
    /// The group that it holds, or [`DEFAULT_WATCH`].
    pub source: &'static str,
    /// Further arguments of the compiler.
    pub arguments: &'static [&'static str],
}

const fn alone(name: &'static str) -> Object {
    Object { name, source: name, arguments: &[] }
}

/// Of groups with instructions that some kernels reject even where they are never reached: without
/// (see emit.bpf.h and in_flight.bpf.h).
const fn plain(name: &'static str, source: &'static str) -> Object {
    Object { name, source, arguments: &["-DIOWHY_NO_ATOMICS"] }
}

/// Every object.
pub const OBJECTS: &[Object] = &[
    alone(DEFAULT_WATCH),
    alone("aggregate"),
    alone("events"),
    alone("symbols"),
    alone("page_cache"),
    plain("block-plain", "block"),
    plain("writeback-plain", "writeback"),
    plain("events-plain", "events"),
    plain("snapshot-plain", "snapshot"),
];

/// Arguments of clang for every source, beside libbpf's headers and the target.
const ARGUMENTS: &[&str] = &[
    "-Ibpf",
    "-Wall",
    "-Werror",
    "-Wno-unused-function",
    "-mcpu=v3",
    // BPF programs have none, although some distributions ask for it everywhere.
    "-fno-stack-protector",
    "-g",
    "-O2",
    "--target=bpf",
];
/// What libbpf's headers call the architectures that they know by other names.
const NAMES_OF_LIBBPF: &[(&str, &str)] = &[("x86_64", "x86"), ("aarch64", "arm64")];

/// The compiler: `$CLANG`, else the newest installed of those that were tested, else any.
pub fn clang() -> PathBuf {
    if let Some(wanted) = env::var_os("CLANG").filter(|name| !name.is_empty()) {
        return PathBuf::from(wanted);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    let installed = |name: String| {
        directories.iter().map(|directory| directory.join(&name)).find(|path| path.exists())
    };
    let tested = (OLDEST..=NEWEST).rev().find_map(|major| installed(format!("clang-{major}")));
    tested.unwrap_or_else(|| PathBuf::from("clang"))
}

/// The source of a group, or of [`DEFAULT_WATCH`], from the crate's folder.
pub fn source_of(name: &str) -> String {
    if name == DEFAULT_WATCH {
        return format!("src/probes/{name}.bpf.c");
    }
    format!("src/probes/{name}/{name}.bpf.c")
}

/// Compiles a source for the architecture of the build; the current folder is the crate's.
///
/// # Errors
/// Fails if the source does not compile, with the compiler's messages, or if the compiler cannot be
/// run.
pub fn run_clang(
    clang: &Path,
    source: &str,
    more: &[&str],
    object: &Path,
) -> Result<(), Box<dyn Error>> {
    let architecture =
        env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_unset| env::consts::ARCH.to_owned());
    run_clang_for(&architecture, clang, source, more, object)
}

/// Compiles a source for an architecture.
///
/// # Errors
/// As [`run_clang`].
pub fn run_clang_for(
    architecture: &str,
    clang: &Path,
    source: &str,
    more: &[&str],
    object: &Path,
) -> Result<(), Box<dyn Error>> {
    let folder = object.with_extension("compiling");
    write_headers(&folder.join("bpf"))?;
    let compiled = folder.join("unlinked.bpf.o");
    let known = NAMES_OF_LIBBPF.iter().find(|(name, _)| *name == architecture);
    let name = known.map_or(architecture, |(_, name)| name);
    let mut clang_run = Command::new(clang);
    clang_run.args(ARGUMENTS).args(more).arg(format!("-D__TARGET_ARCH_{name}"));
    clang_run.arg("-I").arg(&folder).args(["-c", source, "-o"]).arg(&compiled);
    let output = clang_run.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} ({}) of {source}: {said}", clang.display(), output.status).into());
    }
    // By itself: what is linked has no names of folders in it, which are of this machine.
    let mut linker = Linker::new(object)?;
    linker.add_file(&compiled)?;
    linker.link()?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// libbpf's own headers, of the version that is linked.
fn write_headers(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, text) in API_HEADERS {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}
