//! Columns that hold names, by the kind of name. A text column that is not listed here is redacted
//! as words, so that a new one cannot be forgotten.
//!
//! What does not belong here: how a name is replaced ([`super`]).

use super::{NameKind, Redactor};
use iowhy_model::metric::{process_of, process_subject};
use iowhy_model::names::{Name, Names};
use iowhy_model::source::Batch;
use iowhy_model::table::Table;
use iowhy_model::{Event, Open, Sample, Scope, Stack};

/// Returns the kind of names in a column; `None` for names that stay.
fn kind_of(column: &str) -> Option<NameKind> {
    Some(match column {
        "process" | "thread" | "owner" => NameKind::Process,
        "user" => NameKind::User,
        "arguments" => NameKind::Arguments,
        "owner_reason" => NameKind::Reason,
        "device" => NameKind::Device,
        // The kernel's names, and sentences of iowhy.
        "rwbs" | "metric" | "parent_reason" | "file_reason" | "reason" | "io_class" => return None,
        _ => NameKind::Words,
    })
}

/// Number of kinds of names, with those that stay.
const KINDS: usize = 9;

/// Moves rows from one table of names to another and replaces names on the way. Each name is looked
/// at once.
#[derive(Debug)]
pub(super) struct MovedNames {
    redactor: Redactor,
    /// By kind, then by the name's position in the table of the original names.
    known: [Vec<Option<Name>>; KINDS],
}

impl MovedNames {
    pub fn new(redactor: Redactor) -> MovedNames {
        MovedNames { redactor, known: Default::default() }
    }

    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    fn name(&mut self, kind: Option<NameKind>, name: Name, from: &Names, to: &mut Names) -> Name {
        let known = &mut self.known[kind.map_or(0, |kind| 1 + kind as usize)];
        if known.len() <= name.index() {
            known.resize(from.len().max(name.index() + 1), None);
        }
        if let Some(moved) = known[name.index()] {
            return moved;
        }
        let text = from.get(name);
        let moved = match kind {
            None => to.intern(text),
            Some(kind) => to.intern(&self.redactor.name(kind, text)),
        };
        known[name.index()] = Some(moved);
        moved
    }

    fn rows<T: Table>(&mut self, rows: &mut [T], from: &Names, to: &mut Names) {
        let kinds: Vec<Option<NameKind>> =
            T::COLUMNS.iter().map(|column| kind_of(column.name)).collect();
        for row in rows {
            row.rename(&mut |column, name| self.name(kinds[column], name, from, to));
        }
    }

    /// Functions of the kernel stay.
    fn stacks(&mut self, stacks: &mut [Stack], from: &Names, to: &mut Names) {
        for stack in stacks {
            let kind = stack.user.then_some(NameKind::Function);
            stack.frames.iter_mut().for_each(|frame| *frame = self.name(kind, *frame, from, to));
            stack.reason = stack.reason.map(|reason| self.name(None, reason, from, to));
            stack.unwound_by = stack.unwound_by.map(|way| self.name(None, way, from, to));
        }
    }

    fn samples(&mut self, samples: &mut [Sample], from: &Names, to: &mut Names) {
        for sample in samples {
            sample.metric = self.name(None, sample.metric, from, to);
            sample.subject = match sample.scope {
                Scope::System => self.name(None, sample.subject, from, to),
                Scope::Device => self.name(Some(NameKind::Device), sample.subject, from, to),
                Scope::Cgroup => self.name(Some(NameKind::Words), sample.subject, from, to),
                Scope::Process => self.name(Some(NameKind::Numbered), sample.subject, from, to),
            };
        }
    }

    fn opens(&mut self, opens: &mut [Open], from: &Names, to: &mut Names) {
        for open in opens {
            let process = Some(NameKind::Process);
            open.process = open.process.map(|name| self.name(process, name, from, to));
            let device = Some(NameKind::Device);
            open.device = open.device.map(|name| self.name(device, name, from, to));
            open.file = self.name(Some(NameKind::Words), open.file, from, to);
        }
    }

    /// Redacts every row of `batch`, whose names are in `from`; afterwards they are in `to`.
    pub fn batch(&mut self, batch: &mut Batch, from: &Names, to: &mut Names) {
        let Batch {
            requests,
            parts,
            waits,
            wait_requests: _,
            wait_chains,
            files,
            opens,
            processes,
            stacks,
            samples,
            events,
        } = batch;
        self.rows(requests, from, to);
        self.rows(parts, from, to);
        self.rows(waits, from, to);
        self.rows(wait_chains, from, to);
        self.rows(files, from, to);
        self.rows(processes, from, to);
        self.rows::<Event>(events, from, to);
        self.opens(opens, from, to);
        self.stacks(stacks, from, to);
        self.samples(samples, from, to);
    }
}

impl Redactor {
    /// The subject of a process's counters: its number and its name.
    pub(super) fn process_subject(&self, subject: &str) -> String {
        match process_of(subject) {
            Some((pid, name)) => process_subject(pid, &self.process(name)),
            None => self.words(subject),
        }
    }
}
