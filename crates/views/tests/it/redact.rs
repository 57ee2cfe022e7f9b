//! `--redact`: no name is left in any answer, and the diagnosis stays.

use crate::recordings::recordings;
use iowhy_analysis::{Summarizer, Summary};
use iowhy_diagnosis::redact::{KEY_BYTES, RedactedRows, Redactor};
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_model::recording::{RecordingReader, RecordingWriter};
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::table::Table;
use iowhy_model::{Environment, Name, Names, Scope};
use iowhy_views::explain::{self, SeenCause};
use iowhy_views::style::Style;
use iowhy_views::{brief, json, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A watch in memory.
#[derive(Clone)]
struct WholeWatch {
    batch: Batch,
    names: Names,
    environment: Environment,
}

impl WholeWatch {
    fn read(path: &Path) -> WholeWatch {
        let mut reader = RecordingReader::open(path).unwrap();
        let (mut batch, mut names) = (Batch::default(), Names::new());
        while reader.fill(&mut batch, &mut names).unwrap() == Progress::More {}
        WholeWatch { batch, names, environment: reader.environment().clone() }
    }

    fn redacted(&self) -> WholeWatch {
        let mut rows = RedactedRows::new(Redactor::new([3; KEY_BYTES]));
        let (mut batch, mut names) = (self.batch.clone(), Names::new());
        rows.batch(&mut batch, &self.names, &mut names);
        WholeWatch { batch, names, environment: rows.environment(&self.environment) }
    }

    fn summary(&self) -> Summary {
        let mut summarizer = Summarizer::new(&self.environment);
        summarizer.add(&self.batch, &self.names);
        summarizer.finish(&self.environment, &self.names)
    }

    /// Returns the watch written to a directory and read again.
    fn copied(&self) -> WholeWatch {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        let mut writer = RecordingWriter::create(&path, &self.environment).unwrap();
        writer.add(&self.batch, &self.names).unwrap();
        writer.finish(&mut self.environment.clone(), &self.names).unwrap();
        WholeWatch::read(&path)
    }

    /// Every text that its rows or its environment hold.
    fn texts(&self) -> Vec<String> {
        let names = (0..self.names.len()).map(|index| self.names.get(Name::from_index(index)));
        let environment = serde_json::to_string_pretty(&self.environment).unwrap();
        names.map(str::to_owned).chain([environment]).collect()
    }

    /// Every name by the column that holds it.
    fn named(&self) -> BTreeMap<&'static str, Vec<&str>> {
        let mut named: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
        let mut batch = self.batch.clone();
        each_name(&mut batch, &mut |column, name| {
            named.entry(column).or_default().push(self.names.get(name));
            name
        });
        named
    }
}

fn of<T: Table>(rows: &mut [T], by: &mut impl FnMut(&'static str, Name) -> Name) {
    let column = |index: usize| T::COLUMNS[index].name;
    rows.iter_mut().for_each(|row| row.rename(&mut |index, name| by(column(index), name)));
}

fn each_name(batch: &mut Batch, by: &mut impl FnMut(&'static str, Name) -> Name) {
    of(&mut batch.requests, by);
    of(&mut batch.parts, by);
    of(&mut batch.waits, by);
    of(&mut batch.wait_chains, by);
    of(&mut batch.files, by);
    of(&mut batch.processes, by);
    of(&mut batch.events, by);
    for sample in &mut batch.samples {
        sample.metric = by("metric", sample.metric);
        let column = match sample.scope {
            Scope::System | Scope::Device => "device",
            Scope::Process => "sample of a process",
            Scope::Cgroup => "sample of a cgroup",
        };
        sample.subject = by(column, sample.subject);
    }
    for stack in batch.stacks.iter_mut().filter(|stack| !stack.user) {
        stack.frames.iter_mut().for_each(|frame| *frame = by("frame of the kernel", *frame));
    }
}

/// Columns whose names are the kernel's or iowhy's own.
const OWN: &[&str] = &[
    "device",
    "rwbs",
    "metric",
    "parent_reason",
    "file_reason",
    "owner_reason",
    "reason",
    "frame of the kernel",
];

/// Every answer about a watch.
fn answers(summary: &Summary, diagnosis: &Diagnosis) -> Vec<(String, String)> {
    let wide = Style::plain(400);
    let seen = SeenCause { summary, diagnosis, source: "SOURCE" };
    let mut all = vec![
        ("json".to_owned(), json::render(summary, diagnosis)),
        ("brief".to_owned(), brief::render(summary, diagnosis)),
        ("chains".to_owned(), json::chains(summary)),
        ("blame".to_owned(), json::blame(summary)),
        ("full".to_owned(), text::render(summary, diagnosis, Some("SOURCE"), &wide)),
        ("page".to_owned(), text::page(summary, diagnosis, Some("SOURCE"), &wide)),
        ("narrow".to_owned(), text::page(summary, diagnosis, None, &Style::plain(80))),
    ];
    for finding in &diagnosis.findings {
        let rule = iowhy_diagnosis::rule_of(finding.cause).unwrap();
        let page = explain::cause(rule, Some(seen), &wide);
        all.push((format!("explain {}", finding.cause), page));
        all.push((format!("explain {} --json", finding.cause), explain::json(&[rule], Some(seen))));
    }
    all
}

/// Returns the claims of a diagnosis, without names.
fn claims(diagnosis: &Diagnosis) -> Vec<String> {
    let of = |finding: &iowhy_diagnosis::Finding| {
        let subject = &finding.subject;
        let evidence: Vec<(f64, &str)> =
            finding.evidence.iter().map(|evidence| (evidence.figure, evidence.unit)).collect();
        // A forged recording may call a device like a file, whose name does not stay.
        let device = subject.device.as_deref().filter(|name| !name.starts_with('/'));
        format!(
            "{} {:?} {:?} {} {:?} {:?} {} {} {} {:?} {:?} {:?}",
            finding.cause,
            finding.severity,
            finding.confidence,
            finding.impact,
            device,
            subject.pid,
            subject.process.is_some(),
            subject.file.is_some(),
            subject.container.is_some(),
            finding.symptoms,
            finding.bottlenecks,
            evidence,
        )
    };
    let unjudged = diagnosis.not_judged.iter().map(|missing| missing.cause.to_owned());
    diagnosis.findings.iter().map(of).chain(unjudged).collect()
}

#[test]
fn findings_stay() {
    for path in recordings() {
        let watch = WholeWatch::read(&path);
        let original = diagnose(&watch.summary());
        let redacted = watch.redacted();
        let found = diagnose(&redacted.summary());
        assert_eq!(claims(&found), claims(&original), "{}", path.display());
        let copy = diagnose(&redacted.copied().summary());
        assert_eq!(claims(&copy), claims(&original), "the copy of {}", path.display());
    }
}

/// Whether a text has a name that does not go on at either end.
fn has(text: &str, name: &str) -> bool {
    let goes_on = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !goes_on(before.chars().next_back()) && !goes_on(after.chars().next())
    })
}

/// No original name that was replaced is in any answer, or in the copy.
#[test]
fn names_that_were_replaced_are_nowhere() {
    let mut replaced = 0;
    for path in recordings() {
        let watch = WholeWatch::read(&path);
        let redacted = watch.redacted();
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        let after = redacted.named();
        for (column, before) in watch.named() {
            let pairs = before.into_iter().zip(&after[column]);
            gone.extend(pairs.filter(|(before, after)| before != *after).map(|(before, _)| before));
        }
        // The number that replaces one may be another one of the recording.
        after.values().flatten().for_each(|name| _ = gone.remove(name));
        // A forged recording may call a device like a file.
        let own = watch.named();
        own.iter().filter(|(column, _)| OWN.contains(column)).for_each(|(_, names)| {
            names.iter().for_each(|name| _ = gone.remove(name));
        });
        replaced += gone.len();
        let summary = redacted.summary();
        let host = watch.environment.host.as_str();
        gone.extend((!host.is_empty()).then_some(host).filter(|host| host.len() > 3));
        for (what, answer) in answers(&summary, &diagnose(&summary)) {
            let left: Vec<_> = gone.iter().filter(|name| has(&answer, name)).collect();
            assert!(left.is_empty(), "{}: {what}: {left:#?}", path.display());
        }
        let copy = redacted.copied().texts().join("\n");
        let left: Vec<_> = gone.iter().filter(|name| has(&copy, name)).collect();
        assert!(left.is_empty(), "the copy of {}: {left:#?}", path.display());
    }
    assert!(replaced > 10, "{replaced}");
}

/// A watch each of whose names holds a name of a person.
fn marked(mut watch: WholeWatch) -> WholeWatch {
    const MARK: &str = "Zorro-alice/zorro_47110815.zorro";
    let names = &mut watch.names;
    let mut marks: BTreeMap<usize, Name> = BTreeMap::new();
    each_name(&mut watch.batch, &mut |column, name| {
        if OWN.contains(&column) {
            return name;
        }
        let text = format!("{}{MARK}", names.get(name));
        *marks.entry(name.index()).or_insert_with(|| names.intern(&text))
    });
    for stack in watch.batch.stacks.iter_mut().filter(|stack| stack.user) {
        stack.frames.push(names.intern("com.zorro.Alice.run"));
    }
    let environment = &mut watch.environment;
    environment.host = format!("{}.zorro", environment.host);
    environment.filter = format!("--process {MARK} --file /{MARK}");
    environment.limits.push(format!("/{MARK}.blktrace.0 is cut"));
    for mount in &mut environment.mounts {
        for text in [&mut mount.path, &mut mount.root, &mut mount.source] {
            *text = format!("{text}{MARK}");
        }
        mount.options = format!("{},lowerdir=/{MARK},user=zorro", mount.options);
        mount.server = Some(format!("{MARK} (4)"));
    }
    environment
        .devices
        .iter_mut()
        .for_each(|device| device.backing_file = Some(format!("/{MARK}")));
    environment
        .cgroups
        .iter_mut()
        .for_each(|cgroup| cgroup.path = format!("{}{MARK}", cgroup.path));
    watch
}

#[test]
fn a_mark_in_every_name_is_nowhere() {
    for path in recordings() {
        let watch = marked(WholeWatch::read(&path));
        let has_mark = |text: &str| {
            let text = text.to_lowercase();
            text.contains("zorro") || text.contains("alice") || text.contains("47110815")
        };
        assert!(watch.texts().iter().any(|text| has_mark(text)));
        let redacted = watch.redacted();
        let summary = redacted.summary();
        for (what, answer) in answers(&summary, &diagnose(&summary)) {
            let line = answer.lines().find(|line| has_mark(line));
            assert!(line.is_none(), "{}: {what}: {line:?}", path.display());
        }
        let text = redacted.copied().texts().into_iter().find(|text| has_mark(text));
        assert!(text.is_none(), "the copy of {}: {text:.300?}", path.display());
    }
}
