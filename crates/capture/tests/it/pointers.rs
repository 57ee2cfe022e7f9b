//! Arithmetic with pointers in the BPF programs: the verifier allows one form, which compilers
//! change if they see it, so that one function has it, as an instruction.
//!
//! Whether what compilers make of it loads is tried by `scripts/test-compilers`.

use std::fs;
use std::path::PathBuf;

/// Every C source and header, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![PathBuf::from("bpf"), PathBuf::from("src/probes")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the tests run in the crate's folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "c" || extension == "h")
            {
                let text = fs::read_to_string(&path).expect("a source");
                found.push((path, text));
            }
        }
    }
    found
}

/// The expression that a cast to a number is of, up to its operator.
fn casts(text: &str) -> impl Iterator<Item = &str> {
    ["(u64)", "(unsigned long)", "(unsigned long long)", "(s64)", "(long)"]
        .into_iter()
        .flat_map(|cast| text.match_indices(cast).map(|(at, cast)| &text[at + cast.len()..]))
}

#[test]
fn pointers_become_numbers_in_one_place() {
    let sources = sources();
    assert!(sources.len() > 30, "{}", sources.len());
    let mut made = 0;
    for (path, text) in &sources {
        for rest in casts(text) {
            let of_pointer = ["bpf_rdonly_cast(", "owner", "BPF_CORE_READ(", "ctx", "task", "bio"];
            if of_pointer.iter().any(|start| rest.starts_with(start)) {
                assert!(rest.starts_with("bpf_rdonly_cast("), "{}: {rest:.60}", path.display());
                assert!(path.ends_with("compat.bpf.h"), "{}: {rest:.60}", path.display());
                made += 1;
            }
        }
    }
    assert_eq!(made, 2, "number_of() converts the pointer and the address 0");
}

#[test]
fn the_subtraction_is_an_instruction() {
    let sources = sources();
    let compat = sources.iter().find(|(path, _)| path.ends_with("compat.bpf.h"));
    let (_, text) = compat.expect("compat.bpf.h");
    let (_, body) = text.split_once("static __always_inline u64 number_of(").expect("number_of");
    let body = body.split("\n}").next().unwrap_or_default();
    assert!(body.contains(r#"asm volatile("%0 -= %1""#), "{body}");
    let seen_by_the_compiler = body.lines().any(|line| {
        line.contains("bpf_rdonly_cast(") && (line.contains(" - ") || line.contains(" + "))
    });
    assert!(!seen_by_the_compiler, "{body}");
}
