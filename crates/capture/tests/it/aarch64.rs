//! The BPF programs, compiled for aarch64. They take the kernel's types from one header
//! (`bpf/kernel.bpf.h`) that names the fields of both architectures; which of them exist is
//! resolved when a program is loaded. The compiled instructions must therefore be the same for both
//! architectures. (Object files differ between runs of the compiler: types that are only named
//! appear in any order.)
//!
//! Nothing is loaded here: that needs a kernel of that architecture.

use crate::compile::{clang, run_clang_for};
use libbpf_rs::ObjectBuilder;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The define of the second variant of some objects (see in_flight.bpf.h).
const PLAIN: &str = "-DIOWHY_NO_ATOMICS";

/// The source of every program, by its group's name.
fn sources() -> Vec<PathBuf> {
    let groups = fs::read_dir("src/probes").expect("the tests run in the crate's folder");
    let files = groups.flatten().flat_map(|group| fs::read_dir(group.path()).into_iter().flatten());
    let paths = files.flatten().map(|file| file.path());
    paths.filter(|path| path.to_string_lossy().ends_with(".bpf.c")).collect()
}

/// Each program's instructions, by its name.
type Programs = BTreeMap<String, String>;

fn compile(source: &Path, architecture: &str, more: &[&str], object: &Path) -> Programs {
    let name = source.to_string_lossy();
    run_clang_for(architecture, &clang(), &name, more, object)
        .unwrap_or_else(|error| panic!("{name} for {architecture} {more:?}: {error}"));
    let object = ObjectBuilder::default().open_file(object).expect("the compiler wrote it");
    let told = object.progs().map(|program| {
        let name = program.name().to_string_lossy().into_owned();
        (name, format!("{:?}", program.insns()))
    });
    told.collect()
}

#[test]
fn every_program_compiles_to_the_same_instructions() {
    let folder = tempfile::tempdir().expect("a folder");
    let sources = sources();
    assert!(sources.len() >= 7, "{sources:?}");
    let object = folder.path().join("probe.bpf.o");
    for source in sources {
        for more in [&[][..], &[PLAIN]] {
            let arm = compile(&source, "aarch64", more, &object);
            let here = compile(&source, "x86_64", more, &object);
            assert!(!here.is_empty(), "{} has no programs", source.display());
            for (name, instructions) in &here {
                assert!(arm.get(name) == Some(instructions), "{name} depends on the architecture");
            }
        }
    }
}
