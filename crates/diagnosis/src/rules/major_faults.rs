//! Program code is read from disk again and again.

use super::*;
use facts::thresholds::{MOST, READ_AGAIN};

/// Path fragments of mapped programs and libraries. Executables of recorded processes count, too.
/// Files below /lib or ending in .jar may be data.
const CODE: &[&str] = &[".so", "/bin/", "/sbin/", ".dll"];
/// The least faults per second: the start of a large program takes a few hundred once.
const FAULTS_PER_S: f64 = 30.0;

rule!(
    "major-faults",
    "major faults on program code",
    "Under memory pressure the kernel evicts pages of programs and libraries like any other file \
     page, and the next call of a function waits for the disk. Everything gets slow at once, even \
     programs that do no I/O, and the disk shows small random reads that no program submitted.",
    "The faults occur only while programs start.",
    place: Setting,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::PageFault);
    let rate = waited.waits as f64 / facts.seconds();
    let executables: Vec<&str> = facts
        .summary()
        .processes
        .rows
        .iter()
        .filter_map(|row| row.subject.executable.as_deref())
        .filter(|path| path.starts_with('/'))
        .collect();
    // In a container the path of a program starts at the container's root.
    let is_executable =
        |file: &str| executables.iter().any(|executable| file.ends_with(executable));
    let is_code = |file: &str| is_executable(file) || CODE.iter().any(|part| file.contains(part));
    let (mut code_ns, mut all_ns, mut top) = (0, 0, None);
    for patterns in &facts.summary().patterns.devices {
        for file in patterns.access.files.iter().filter(|file| file.faults > 0) {
            all_ns += file.time_ns;
            if is_code(&file.file) {
                code_ns += file.time_ns;
                top = top.or(Some((patterns.device.clone(), file.file.clone())));
            }
        }
    }
    let share = code_ns as f64 / all_ns.max(1) as f64;
    let (Some((device, file)), true) = (top, rate >= FAULTS_PER_S && share >= MOST) else {
        return Ok(RuleVerdict::Clear);
    };
    let subject =
        Subject { device: Some(device.clone()), file: Some(file.clone()), ..waited.subject() };
    let pid = words::pid(&subject);
    let again = facts.pages_again(&device);
    let is_again = again >= READ_AGAIN;
    let sentence = format!(
        "{} waits for its own code: page faults read {file} from {device}{}",
        words::who(&subject),
        if is_again { " again and again" } else { "; it may just have started" },
    );
    Ok(Finding::of_blocked(facts, (waited.time_ns as f64 * share) as u64, sentence)
        .about(subject)
        .sure(if is_again { Confidence::Likely } else { Confidence::Possible })
        .at_most(if is_again { Severity::Critical } else { Severity::Info })
        .shown("major faults", rate, "1/s", "iowhy waits")
        .shown("share of fault time for programs and libraries", share * 100.0, "%", "iowhy files")
        .shown("share of pages read again", again * 100.0, "%", "iowhy cache")
        .fix(
            "give it more memory, or protect it: set memory.min of its cgroup and of those above \
             it (version 2; others get less)",
        )
        .check(format!(
            "`ps -o maj_flt {pid}` twice: if the number does not grow, the faults were only its \
                        start"
        ))
        .into())
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Origin, WaitClass};

    /// 400 faults on `file`, of this many different windows.
    fn found(file: &str, windows: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..400_u64 {
            let read = script.read("sda", 65_536).by(7, "app").at((index * 20 * MS) as i64);
            let read = read.sector(index % windows * 128).origin(Origin::PageFault);
            read.file(file).direct(0, 0, 15 * MS).add();
            script.wait((7, "app"), WaitClass::PageFault, 16 * MS, 15 * MS, 0);
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "major-faults")
    }

    #[test]
    fn code_is_read_again_only_where_that_was_seen() {
        let again = found("/usr/lib/libapp.so.1", 100).unwrap();
        assert!(again.sentence.ends_with("again and again") && again.severity > Severity::Warning);
        let start = found("/usr/lib/libapp.so.1", 400).unwrap();
        assert!(start.sentence.ends_with("it may just have started"), "{start:?}");
        assert_eq!((start.confidence, start.severity), (Confidence::Possible, Severity::Info));
        assert!(!again.fix.contains("mlock"));
    }

    #[test]
    fn a_program_in_a_container_is_code() {
        let mut script = Script::new(10);
        script.process(7, "app", "/docker/5c", "docker:5c");
        let program = script.names.intern("/opt/app");
        script.batch.processes[0].executable = Some(program);
        for index in 0..400_u64 {
            let read = script.read("sda", 65_536).by(7, "app").at((index * 20 * MS) as i64);
            let read = read.sector(index % 100 * 128).origin(Origin::PageFault);
            read.file("/var/lib/docker/overlay2/5c/diff/opt/app").direct(0, 0, 15 * MS).add();
            script.wait((7, "app"), WaitClass::PageFault, 16 * MS, 15 * MS, 0);
        }
        let findings = diagnose(&script.summary()).findings;
        assert!(findings.iter().any(|finding| finding.cause == "major-faults"), "{findings:#?}");
    }

    #[test]
    fn data_is_no_code() {
        assert_eq!(found("/var/lib/app/table", 100), None);
        assert_eq!(found("/srv/app/plugins.jar", 100), None);
    }
}
