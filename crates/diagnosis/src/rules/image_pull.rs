//! A container runtime unpacks an image on a disk that others use.

use super::*;
use crate::programs::{self, Topic};

/// The least share of a device's time for others to wait behind the runtime. Chosen.
const SHARE: f64 = 0.2;
/// The name of the runtimes in the programs table.
const RUNTIME: &str = "container runtime";

rule!(
    "image-pull",
    "container image pulls",
    "Pulling an image downloads its layers, unpacks thousands of files and syncs them. On a node \
     whose images and volumes share a disk, every other program waits behind that, mostly just \
     after a deployment or on a new node.",
    "The runtime only starts containers whose images are present.",
    place: Program,
    needs: [Processes, Waits],
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_processes()?;
    let runtimes: Vec<&str> = facts
        .devices()
        .iter()
        .flat_map(|device| &device.processes)
        .map(|row| row.subject.process.as_str())
        .filter(|name| is_runtime(name))
        .collect();
    let work = facts.work(&[], &runtimes).filter(|it| it.share >= SHARE).ok_or(Clear)?;
    let name = &work.device.device;
    let row = facts.top_process(work.device, |row| is_runtime(&row.subject.process));
    let row = row
        .filter(|row| row.usage.directions[iowhy_analysis::summary::Direction::Write].bytes > 0)
        .ok_or(Clear)?;
    let victims = facts.victims(name, is_runtime);
    let subject = facts::subject_of(name, Some(row));
    let sentence = format!(
        "{} unpacks container images, which takes {} of the time of {name}{}",
        words::who(&subject),
        words::percent(work.share),
        facts.beside(&victims),
    );
    let program = programs::of(Some(&row.subject.process), None);
    let advice = program.and_then(|program| program.advice(Topic::Checkpoint)).unwrap_or_default();
    let written = row.usage.directions[iowhy_analysis::summary::Direction::Write].bytes as f64;
    Ok(Finding::of_work(facts, &work, &victims, sentence)
        .about(subject)
        .shown("share of the device's time", work.share * 100.0, "%", format!("iowhy -d {name}"))
        .shown(
            "its write throughput",
            written / facts.seconds(),
            "bytes/s",
            format!("iowhy proc -d {name}"),
        )
        .shown("time others waited for the device", victims.time_ns as f64, "ns", "iowhy waits")
        .fix(advice)
        .check(
            "`crictl images` or `docker images` shows a new image at that time; after the pull the \
             waits end",
        )
        .into())
}

fn is_runtime(process: &str) -> bool {
    programs::of(Some(process), None).is_some_and(|program| program.name == RUNTIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    /// `writer` writes all the time while a database waits.
    fn found(writer: &str, writes: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..500_u64 {
            let at = (index * 20 * MS) as i64;
            let read = script.read("sda", 4096).at(at).sector(index * 79_190);
            read.by(9, "postgres").direct(0, 0, 10 * MS).add();
            if index < writes {
                let write = script.write("sda", 1 << 20).at(at).sector((1 << 24) + index * 2048);
                write.by(8, writer).direct(0, 0, 15 * MS).add();
            }
        }
        script.wait((9, "postgres"), WaitClass::Device, 5000 * MS, 5000 * MS, 0);
        let device = script.names.intern("sda");
        script.batch.waits[0].device = Some(device);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "image-pull")
    }

    #[test]
    fn the_runtime_and_its_victims_are_named() {
        let found = found("containerd", 500).unwrap();
        assert!(found.severity >= Severity::Warning && found.impact_at_most, "{found:?}");
        assert!(found.sentence.contains("containerd (8)"), "{}", found.sentence);
    }

    #[test]
    fn any_other_writer_or_a_quiet_runtime_is_no_pull() {
        assert_eq!(found("rsync", 500), None);
        assert_eq!(found("containerd", 40), None);
    }
}
