//! The BPF objects of any compiler, tried on the running kernel, for `scripts/test-compilers`.
//!
//! usage: objects compile CLANG FOLDER
//!        objects load FOLDER...

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output")]

#[path = "../../compile.rs"]
#[allow(dead_code, reason = "build.rs needs all of it")]
mod compile;
mod loops;
#[allow(dead_code, reason = "a test asks for one frame")]
mod stack;

use compile::{OBJECTS, run_clang, source_of};
use iowhy_capture::survey;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["compile", clang, folder] => compile_all(Path::new(clang), Path::new(folder)),
        ["load", ref folders @ ..] if !folders.is_empty() => load_all(folders),
        _ => Err(format!(
            "usage: objects compile CLANG FOLDER (clang {} to {} are tested), or load FOLDER...",
            compile::OLDEST,
            compile::NEWEST
        )
        .into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("objects: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles every object into `folder`; the current folder is the crate's. A loop or a stack that
/// older kernels refuse is an error: the running kernel may be newer.
fn compile_all(clang: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    for object in OBJECTS {
        let path = folder.join(format!("{}.bpf.o", object.name));
        run_clang(clang, &source_of(object.source), object.arguments, &path)
            .map_err(|error| format!("{} by {}: {error}", object.name, clang.display()))?;
        let compiled = fs::read(&path)?;
        let (name, clang) = (object.name, clang.display());
        if let Some((program, bytes)) = stack::too_deep(&compiled)?.first() {
            return Err(format!(
                "{name} by {clang}: {program} and what it calls need {bytes} bytes of stack, more \
                 than older kernels give (hint: keep structures in a room of emit.bpf.h)"
            )
            .into());
        }
        let falling = loops::falling_back(&compiled)?;
        if !falling.is_empty() {
            let functions = falling.join(", ");
            return Err(format!(
                "{name} by {clang}: kernels before 6.7 refuse {functions}: a loop's last \
                 instruction falls into its head (hint: unroll it)"
            )
            .into());
        }
    }
    Ok(())
}

/// Loads the objects of each folder, and says which programs were refused. What this kernel permits
/// nobody is said, and no failure.
fn load_all(folders: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut failed = 0;
    for folder in folders {
        let (forbidden, refused): (Vec<_>, Vec<_>) = survey::refused_of(Path::new(folder))?
            .into_iter()
            .partition(survey::RefusedProgram::is_forbidden);
        for one in &forbidden {
            eprintln!("{folder}: {} of {} is forbidden here", one.program, one.object);
        }
        for one in &refused {
            eprintln!("{folder}: {} of {} is refused: {}", one.program, one.object, one.cause);
        }
        failed += refused.len();
        let said = if refused.is_empty() { "all load" } else { "refused" };
        let names: Vec<&str> = refused.iter().map(|one| one.program.as_str()).collect();
        println!("{folder}: {said} {}", names.join(" "));
    }
    if failed > 0 { Err(format!("{failed} programs were refused").into()) } else { Ok(()) }
}
