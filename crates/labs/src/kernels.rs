//! Features by kernel: `iowhy check` in a guest, compared with the declarations here, and written
//! into docs/kernels.md.
//!
//! What does not belong here: running a guest (see [`crate::vm`]), and its kernel's results for a
//! workload (the tests).

use crate::error::Context;
use crate::vm::architecture::ARM64_SUFFIX;
use crate::vm::kernel::LINES;
use crate::vm::{Guest, GuestOutcome, Kernel};
use crate::{LabError, Result, command, iowhy, page};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// A program that a kernel does not have, and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The kernel's line: `5.10`.
    pub kernel: &'static str,
    /// The program.
    pub program: &'static str,
    /// The output of `iowhy check`.
    pub reason: &'static str,
}

/// Features that older kernels lack. Everything else must work, so that a loss on a newer kernel is
/// noticed.
pub const LOST: &[Lost] = &[
    lost(
        "5.10",
        "on_uring_complete",
        "this kernel has no io_uring_complete with a request argument",
    ),
    lost("5.10", "on_file_fault", "this kernel has no mm_filemap_fault"),
    lost("5.10", "on_file_mapped", "this kernel has no mm_filemap_map_pages"),
    lost("6.1", "on_file_fault", "this kernel has no mm_filemap_fault"),
    lost("6.1", "on_file_mapped", "this kernel has no mm_filemap_map_pages"),
];

const fn lost(kernel: &'static str, program: &'static str, reason: &'static str) -> Lost {
    Lost { kernel, program, reason }
}

/// Features for which a guest's setup makes `iowhy check` print more than "yes": its statistics are
/// off, and securityfs is not mounted. The loss by a missing tracepoint is listed with its program.
const AS_SET_UP: &[(&str, &str)] =
    &[("BPF statistics", "partly"), ("lockdown", "unknown"), ("tracepoint", "no")];

/// Rows that are not "yes" on a kernel's line: landlock came with 5.13.
const LACKING: &[(&str, &str, &str)] = &[("5.10", "rights given up", "partly")];

/// A program, as `iowhy check --json` has it.
#[derive(Clone, Debug, Deserialize)]
pub struct KernelProgram {
    /// Its name.
    pub program: String,
    /// The tracepoint that it is for; `None` for one that iowhy runs itself.
    pub tracepoint: Option<String>,
    /// The data that is lost without it.
    pub gives: String,
    /// Whether the kernel loaded it.
    pub usable: bool,
    /// The reason why it did not.
    pub reason: Option<String>,
    /// Instructions that the verifier processed; `None` if the kernel does not report it.
    pub verified_instructions: Option<u32>,
}

/// A row of `iowhy check`.
#[derive(Clone, Debug, Deserialize)]
pub struct CheckedRow {
    /// The feature.
    pub what: String,
    /// Whether it is available: yes, partly, no, unknown.
    pub there: String,
    /// The details.
    pub found: String,
}

/// The output of `iowhy check` on one kernel.
#[derive(Clone, Debug, Deserialize)]
pub struct Claims {
    /// A row for each thing that a watch needs or can use.
    pub rows: Vec<CheckedRow>,
    /// Every program.
    pub programs: Vec<KernelProgram>,
}

/// For [`Guest::run`]: leaves in /out what [`Claims::from_outcome`] reads.
pub const CHECK: &str = "iowhy check --json >/out/check.json";

/// The modules without which some programs have nothing to do.
pub const MODULES: &[&str] = &["loop", "btrfs", "xfs"];

impl Claims {
    /// Reads the output that [`CHECK`] left.
    pub fn from_outcome(outcome: &GuestOutcome) -> Result<Claims> {
        if outcome.status != 0 {
            return Err(LabError::failed("ask a guest", &outcome.said));
        }
        let path = outcome.out().join("check.json");
        let text = std::fs::read_to_string(&path);
        Claims::parse(&text.context(|| format!("read {}", path.display()))?)
    }

    /// Reads the output of `iowhy check --json`.
    ///
    /// # Errors
    /// Fails if it is not JSON, or lacks a field.
    pub fn parse(text: &str) -> Result<Claims> {
        serde_json::from_str(text).context(|| "read the output of iowhy check".to_owned())
    }

    /// Differences from the declarations for that kernel: a program that is lost without being
    /// listed, one that is listed and works, a row that is not "yes".
    pub fn surprises(&self, line: &str) -> Vec<String> {
        // A kernel's features do not depend on the processor.
        let line = line.trim_end_matches(ARM64_SUFFIX);
        let mut found = Vec::new();
        for program in self.programs.iter().filter(|program| !program.usable) {
            let reason = program.reason.as_deref().unwrap_or_default();
            let is_known = |lost: &&Lost| {
                (lost.kernel, lost.program, lost.reason) == (line, &program.program, reason)
            };
            if !LOST.iter().any(|lost| is_known(&lost)) {
                found.push(format!("{} is lost: {reason}", program.program));
            }
        }
        for lost in LOST.iter().filter(|lost| lost.kernel == line) {
            let is_lost =
                |program: &KernelProgram| program.program == lost.program && !program.usable;
            if !self.programs.iter().any(is_lost) {
                found.push(format!("{} works, and is listed as lost", lost.program));
            }
        }
        for row in self.rows.iter().filter(|row| row.there != "yes") {
            let (what, there) = (row.what.as_str(), row.there.as_str());
            if !AS_SET_UP.contains(&(what, there)) && !LACKING.contains(&(line, what, there)) {
                found.push(format!("{}: {}, {}", row.what, row.there, row.found));
            }
        }
        found
    }
}

/// What `cargo lab kernels-page` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct KernelPageSettings {
    /// The page that is changed.
    #[arg(long, default_value = "docs/kernels.md")]
    page: PathBuf,
}

/// The result of one kernel.
struct KernelAnswer {
    release: String,
    booted: Option<Duration>,
    claims: Claims,
}

/// Checks every kernel, also this machine's own, and writes the page.
pub fn run(settings: &KernelPageSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let mut answers = Vec::new();
    for line in LINES {
        let kernel = Kernel::fetch(line.name, say)?;
        let release = kernel.release.clone();
        say(&format!("asking Linux {release}"));
        let guest = MODULES.iter().fold(Guest::new(kernel), |guest, name| guest.module(name));
        let outcome = guest.run(CHECK)?;
        let claims = Claims::from_outcome(&outcome)?;
        for surprise in claims.surprises(line.name) {
            say(&format!("not as declared: {surprise}"));
        }
        let booted = Some(outcome.booted);
        answers.push(KernelAnswer { release, booted, claims });
    }
    answers.push(this_machine()?);
    answers.sort_by_key(|answer| numbers(&answer.release));
    page::replace(&settings.page, "kernels-page", &text(&answers))
}

fn this_machine() -> Result<KernelAnswer> {
    let text = command::run(&iowhy::binary()?.display().to_string(), ["check", "--json"])?;
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    // The vendor's suffix is meaningless.
    let release = release.split('-').next().unwrap_or_default().to_owned();
    Ok(KernelAnswer { release, booted: None, claims: Claims::parse(&text)? })
}

/// The first two numbers of a release, by which kernels are in order.
fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).take(2).collect()
}

fn text(answers: &[KernelAnswer]) -> String {
    let mut text = kernels(answers);
    text.push_str(&programs(answers));
    text.push_str(&lost_features(answers));
    text
}

/// A row for each kernel.
fn kernels(answers: &[KernelAnswer]) -> String {
    let mut text = String::from(
        "| kernel | runs in | boots in | programs used | all loaded and attached in |\n\
         |---|---|--:|--:|--:|\n",
    );
    for answer in answers {
        let used = answer.claims.programs.iter().filter(|program| program.usable).count();
        let (place, booted) = match answer.booted {
            Some(booted) => ("a guest", format!("{:.1} s", booted.as_secs_f64())),
            None => ("the machine itself", "–".to_owned()),
        };
        let took = answer.claims.rows.iter().find(|row| row.what == "programs");
        let took = took.and_then(|row| row.found.rsplit_once(" in ")).map_or("?", |(_, took)| took);
        let all = answer.claims.programs.len();
        line(&mut text, &[&answer.release, place, &booted, &format!("{used} of {all}"), took]);
    }
    text.push_str(
        "\nGuests are emulated, without KVM: their times are many times those of real hardware.\n",
    );
    text
}

/// Writes a row for each program: the instructions that the verifier processed on each kernel.
fn programs(answers: &[KernelAnswer]) -> String {
    let mut text = String::from("\n| program | tracepoint | gives |");
    let mut rule = String::from("|---|---|---|");
    for answer in answers {
        let numbers: Vec<String> = numbers(&answer.release).iter().map(u64::to_string).collect();
        let processor = if answer.release.ends_with(ARM64_SUFFIX) { " aarch64" } else { "" };
        text.push_str(&format!(" {}{processor} |", numbers.join(".")));
        rule.push_str("--:|");
    }
    text.push_str(&format!("\n{rule}\n"));
    let of = |answer: &KernelAnswer| -> BTreeMap<String, KernelProgram> {
        let programs = answer.claims.programs.iter();
        programs.map(|program| (program.program.clone(), program.clone())).collect()
    };
    let by_name: Vec<BTreeMap<String, KernelProgram>> = answers.iter().map(of).collect();
    // Every kernel has those that the newest has; older ones have some in their place.
    let mut known: BTreeMap<&String, &KernelProgram> = BTreeMap::new();
    for programs in &by_name {
        known.extend(programs);
    }
    for (name, program) in known {
        let tracepoint = program.tracepoint.as_deref().unwrap_or("run by iowhy");
        let mut cells = vec![format!("`{name}`"), tracepoint.to_owned(), program.gives.clone()];
        cells.extend(by_name.iter().map(|programs| cell(programs.get(name))));
        line(&mut text, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text.push_str(
        "\nFigures: instructions that the verifier processed; yes: it works, and the kernel does \
         not report (before 5.16); no: see below; –: another program gives the same there.\n",
    );
    text
}

fn cell(program: Option<&KernelProgram>) -> String {
    match program {
        None => "–".to_owned(),
        Some(program) if !program.usable => "no".to_owned(),
        Some(program) => program
            .verified_instructions
            .map_or_else(|| "yes".to_owned(), |instructions| instructions.to_string()),
    }
}

/// Writes the features that are lost, with the kernels.
fn lost_features(answers: &[KernelAnswer]) -> String {
    let mut lost: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for answer in answers {
        for program in answer.claims.programs.iter().filter(|program| !program.usable) {
            let reason = program.reason.as_deref().unwrap_or_default();
            lost.entry((&program.gives, reason)).or_default().push(&answer.release);
        }
    }
    let mut text = String::from("\n| lost | because | on |\n|---|---|---|\n");
    for ((gives, reason), releases) in lost {
        line(&mut text, &[gives, reason, &releases.join(", ")]);
    }
    text
}

fn line(text: &mut String, cells: &[&str]) {
    // A pipe in a reason must not separate cells.
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    // Writing to a string does not fail.
    let _written = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(usable: bool, reason: &str) -> Claims {
        let program = KernelProgram {
            program: "on_file_fault".to_owned(),
            tracepoint: Some("mm_filemap_fault".to_owned()),
            gives: "page faults".to_owned(),
            usable,
            reason: (!usable).then(|| reason.to_owned()),
            verified_instructions: usable.then_some(5),
        };
        let other = KernelProgram { program: "on_file_mapped".to_owned(), ..program.clone() };
        Claims { rows: Vec::new(), programs: vec![program, other] }
    }

    #[test]
    fn what_is_lost_on_a_newer_kernel_is_a_surprise() {
        let found = claims(false, "this kernel has no mm_filemap_fault").surprises("6.12");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn what_is_declared_as_lost_must_be_lost_for_that_reason() {
        assert_eq!(claims(true, "").surprises("6.1").len(), 2);
        assert_eq!(claims(true, "").surprises("6.12"), Vec::<String>::new());
        let found = claims(false, "the verifier refused it").surprises("6.1");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_row_that_is_not_there_is_a_surprise() {
        let row = |what: &str, there: &str| CheckedRow {
            what: what.to_owned(),
            there: there.to_owned(),
            found: String::new(),
        };
        let claims = Claims {
            rows: vec![row("PSI", "no"), row("BPF statistics", "partly"), row("BTF", "yes")],
            programs: Vec::new(),
        };
        assert_eq!(claims.surprises("sid"), ["PSI: no, "]);
    }

    #[test]
    fn kernels_are_in_order_of_their_numbers() {
        assert!(numbers("6.12.95+deb12") > numbers("6.1.0-56"));
        assert_eq!(numbers("5.10.0-32-cloud-amd64"), [5, 10]);
    }
}
