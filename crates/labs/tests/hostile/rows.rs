//! Recordings whose layout is sound and whose rows cannot be, written as iowhy writes them.
//!
//! What does not belong here: files whose bytes are spoiled (see [`crate::damage`]).

use crate::chance::Chance;
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use iowhy_model::recording::{RecordingReader, RecordingWriter};
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::table::{ColumnKind, ColumnType, ColumnValues, Columns, Table};
use iowhy_model::{Environment, Event, Name, Names, Request, RequestPart, Stack, WaitRequest};
use std::collections::BTreeSet;
use std::path::Path;

/// Rows of each table that are kept.
const KEPT: usize = 40;
/// Frames of a stack that takes a few bytes in a file, and would take gigabytes as one.
const FRAMES: usize = 3_000_000;

/// Rows of a sound recording.
pub struct SoundRows {
    environment: Environment,
    names: Names,
    batch: Batch,
}

impl SoundRows {
    /// Some rows of each table of the recording `folder`, from its beginning to its end.
    pub fn read(folder: &Path) -> Result<SoundRows> {
        let action = || format!("read {}", folder.display());
        let mut reader = RecordingReader::open(folder).context(action)?;
        let (mut all, mut names, mut batch) = (Batch::default(), Names::new(), Batch::default());
        while reader.fill(&mut batch, &mut names).context(action)? == Progress::More {
            all.append(&mut batch);
        }
        all.append(&mut batch);
        let environment = reader.environment().clone();
        Ok(SoundRows { environment, batch: some_of(all, &mut names), names })
    }

    /// Writes them as a recording.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write(folder, &self.environment, &self.batch, &self.names)
    }

    /// Writes them as a recording, with cells that cannot be.
    pub fn write_spoiled(&self, folder: &Path, chance: &mut Chance) -> Result<()> {
        let (mut batch, mut names) = (self.batch.clone(), self.names.clone());
        let mut environment = self.environment.clone();
        let hostile: Vec<Name> = (0..4).map(|_| names.intern(&chance.name())).collect();
        // Spoiling all tables at once would hide the effect of a few.
        let mut cells = ColumnValues::default();
        ColumnType::put(hostile.iter(), &mut cells);
        let cells: Vec<i64> = (0..hostile.len()).filter_map(|row| cells.get(row)).collect();
        let mut spoil = Spoiler { chance, names: &cells };
        spoil.rows(&mut batch.requests);
        spoil.rows(&mut batch.parts);
        spoil.rows(&mut batch.waits);
        spoil.rows(&mut batch.wait_requests);
        spoil.rows(&mut batch.wait_chains);
        spoil.rows(&mut batch.files);
        spoil.rows(&mut batch.processes);
        spoil.rows(&mut batch.stacks);
        spoil.rows(&mut batch.samples);
        spoil.rows(&mut batch.events);
        if chance.once_in(4) {
            environment.start_ns = chance.extreme().cast_unsigned();
        }
        if chance.once_in(4) {
            environment.end_ns = chance.extreme().cast_unsigned();
        }
        if chance.once_in(8) {
            environment.realtime_offset_ns = chance.extreme();
        }
        if chance.once_in(250) {
            let frames = vec![hostile[0]; FRAMES];
            batch.stacks.push(Stack { frames, ..Table::blank() });
        }
        write(folder, &environment, &batch, &names)
    }
}

fn write(folder: &Path, environment: &Environment, batch: &Batch, names: &Names) -> Result<()> {
    let action = || format!("write {}", folder.display());
    let mut writer = RecordingWriter::create(folder, environment).context(action)?;
    writer.add(batch, names).context(action)?;
    writer.finish(&mut environment.clone(), names).context(action)
}

/// Keeps some rows of each table, and those that belong to a request with it; adds block events,
/// which a recording has only on request.
fn some_of(mut all: Batch, names: &mut Names) -> Batch {
    spread(&mut all.requests);
    spread(&mut all.waits);
    spread(&mut all.files);
    spread(&mut all.samples);
    // Rows of one path are consecutive.
    all.wait_chains.truncate(KEPT);
    let requests: BTreeSet<u64> =
        all.requests.iter().map(|request: &Request| request.request_id).collect();
    let waits: BTreeSet<u64> = all.waits.iter().map(|wait| wait.wait_id).collect();
    all.parts.retain(|request_part: &RequestPart| requests.contains(&request_part.request_id));
    all.wait_requests.retain(|wait_request: &WaitRequest| waits.contains(&wait_request.wait_id));
    all.wait_requests.truncate(KEPT);
    let text = names.intern("x");
    let event = |request: &Request| Event { time_ns: request.start_ns, ..blank::<Event>(text) };
    all.events = all.requests.iter().map(event).collect();
    all
}

/// A row without data whose texts are `text`.
fn blank<T: Table>(text: Name) -> T {
    let mut row = T::blank();
    row.rename(&mut |_, _| text);
    row
}

fn spread<T>(rows: &mut Vec<T>) {
    let step = rows.len() / KEPT;
    let mut at = 0;
    rows.retain(|_| {
        at += 1;
        at % step.max(1) == 0
    });
}

/// Spoils rows of tables.
struct Spoiler<'a> {
    chance: &'a mut Chance,
    /// The names, as columns hold them.
    names: &'a [i64],
}

impl Spoiler<'_> {
    /// Spoils single cells, whole columns, or nothing of one table.
    fn rows<T: Table>(&mut self, rows: &mut Vec<T>) {
        if rows.is_empty() || self.chance.once_in(3) {
            return;
        }
        let mut columns = Columns::for_table::<T>();
        columns.extend(rows);
        let one_in = *self.chance.one_of(&[3, 20, 100]);
        let is_whole = self.chance.once_in(2);
        let whole = self.chance.below(T::COLUMNS.len());
        let values = T::COLUMNS.iter().zip(columns.columns()).enumerate();
        let spoiled = values.map(|(index, (info, column))| {
            if info.kind == ColumnKind::Texts || (is_whole && index != whole) {
                return column.clone();
            }
            let same = is_whole.then(|| self.cell(info.kind));
            let cells = (0..rows.len()).map(|row| match same {
                Some(same) => Some(same),
                None if self.chance.once_in(one_in) => {
                    let is_null = info.nullable && self.chance.once_in(4);
                    (!is_null).then(|| self.cell(info.kind))
                }
                None => column.get(row),
            });
            let mut spoiled = ColumnValues::default();
            cells.for_each(|cell| spoiled.push(cell));
            spoiled
        });
        let spoiled = Columns::from_parts(spoiled.collect(), rows.len());
        // Rows that no type of iowhy holds are left out: files with those are another damage.
        let mut kept = Vec::new();
        spoiled.take(0..rows.len(), &mut kept);
        *rows = kept;
    }

    fn cell(&mut self, kind: ColumnKind) -> i64 {
        match kind {
            ColumnKind::Text | ColumnKind::Texts => *self.chance.one_of(self.names),
            ColumnKind::Flag => i64::from(self.chance.once_in(2)),
            ColumnKind::Float => {
                let floats = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE];
                self.chance.one_of(&floats).to_bits().cast_signed()
            }
            // Codes are small numbers, so every other number is.
            ColumnKind::Integer if self.chance.once_in(2) => self.chance.below(12) as i64,
            ColumnKind::Integer => self.chance.extreme(),
        }
    }
}
