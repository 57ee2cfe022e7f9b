//! Rows with impossible values, put through every view, interval, comparison, redaction and plan.
//! The reader of a recording checks the layout of a file and cuts its numbers to their bounds, as
//! is done here; within these, the values are untrusted.
#![no_main]

use iowhy_analysis::intervals::{Cutter, WantedIntervals};
use iowhy_analysis::{Filtered, Summaries, Summarizer};
use iowhy_diagnosis::diagnose;
use iowhy_diagnosis::diff::{DiffSide, compare};
use iowhy_diagnosis::moments::RecordedMoments;
use iowhy_diagnosis::redact::{RedactedRows, Redactor};
use iowhy_model::loss::Losses;
use iowhy_model::recording::{TableInfo, bounds};
use iowhy_model::script::{START_NS, Script};
use iowhy_model::source::Batch;
use iowhy_model::table::{ColumnKind, ColumnValues, Columns, Scalar, Table};
use iowhy_model::{Environment, Filter, Name, Names};
use iowhy_reproduce::plan_check;
use iowhy_reproduce::planning::{self, PlanSource};
use iowhy_reproduce::replay::sequence::ReplayTally;
use iowhy_reproduce::streams::LoadStreams;
use iowhy_views::interval::{CACHE, PROC, STAT, line, render};
use iowhy_views::style::Style;
use iowhy_views::{json, text};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use std::convert::Infallible;

/// Rows of a table.
const MOST_ROWS: usize = 6;
/// Intervals that a cutter may pass on: a run of a hundred empty ones between any two rows.
const MOST_INTERVALS: usize = 101 * 64;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut choices = Unstructured::new(bytes);
    if let Ok(script) = watch(&mut choices) {
        reports(&script);
        intervals(&script, choices.arbitrary().unwrap_or(1_000_000_000));
        reproduces(&script);
        moments(&script);
    }
});

/// A watch whose rows and ends are chosen.
fn watch(choices: &mut Unstructured<'_>) -> Result<Script> {
    let mut script = Script::new(choices.int_in_range(0..=20)?);
    let words = ["sda", "cat", "/srv/data/0123456789abcdef", "\x1b[31m\u{202e}", "read", ""];
    let names: Vec<Name> = words.iter().map(|word| script.names.intern(word)).collect();
    let batch = &mut script.batch;
    fill(choices, &names, &mut batch.requests)?;
    fill(choices, &names, &mut batch.parts)?;
    fill(choices, &names, &mut batch.waits)?;
    fill(choices, &names, &mut batch.wait_requests)?;
    fill(choices, &names, &mut batch.wait_chains)?;
    fill(choices, &names, &mut batch.files)?;
    fill(choices, &names, &mut batch.samples)?;
    fill(choices, &names, &mut batch.events)?;
    fill(choices, &names, &mut batch.stacks)?;
    fill(choices, &names, &mut batch.processes)?;
    let about = &mut script.environment;
    about.start_ns = time(choices)?;
    about.end_ns = time(choices)?;
    about.realtime_offset_ns = value(choices)?;
    about.cost.cpu_ns = time(choices)?;
    script.environment = bounds::with_times(std::mem::take(about));
    Ok(script)
}

fn time(choices: &mut Unstructured<'_>) -> Result<u64> {
    Ok(value(choices)?.cast_unsigned())
}

/// A number: near zero, near the watch, near an end of what there is, or any.
fn value(choices: &mut Unstructured<'_>) -> Result<i64> {
    let near: i64 = choices.int_in_range(-1000..=1000)?;
    Ok(match choices.int_in_range(0..=7)? {
        0 | 1 => near,
        2 | 3 => START_NS.cast_signed() + near * 10_000_000,
        4 => i64::MAX - near.abs(),
        5 => i64::MIN + near.abs(),
        6 => near.wrapping_mul(1 << 52),
        _ => choices.arbitrary()?,
    })
}

/// Adds rows whose cells are chosen; those that the table refuses are left out, as in a recording.
fn fill<T: Table>(choices: &mut Unstructured<'_>, names: &[Name], rows: &mut Vec<T>) -> Result<()> {
    let count = choices.int_in_range(0..=MOST_ROWS)?;
    let mut columns = Vec::new();
    for info in T::COLUMNS {
        let mut list = ColumnValues::default();
        let mut cells = Vec::new();
        for _ in 0..count {
            let name = choices.choose(names)?.to_raw();
            match info.kind {
                ColumnKind::Texts => list.push_list(std::iter::repeat_n(name, 3)),
                ColumnKind::Text => cells.push(name),
                ColumnKind::Flag => cells.push(i64::from(choices.arbitrary::<bool>()?)),
                // Codes are small numbers, so every other number is.
                ColumnKind::Integer if choices.arbitrary()? => {
                    cells.push(choices.int_in_range(0..=12)?);
                }
                ColumnKind::Integer | ColumnKind::Float => cells.push(value(choices)?),
            }
        }
        let are_valid = (0..count).map(|_| Ok(!info.nullable || choices.arbitrary()?));
        columns.push(match info.kind {
            ColumnKind::Texts => list,
            _ => ColumnValues::each(cells, are_valid.collect::<Result<_>>()?),
        });
    }
    let mut columns = Columns::from_parts(columns, count);
    bounds::cut(&TableInfo::for_table::<T>(), &mut columns, &mut Losses::default());
    columns.take(0..count, rows);
    Ok(())
}

fn summaries(batch: &Batch, names: &Names, environment: &Environment) -> Summaries {
    let mut filtered = Filtered::new(environment, &Filter::default()).with_charts(environment);
    filtered.add(batch, names, environment.end_ns);
    filtered.finish(environment, names)
}

/// The report, its JSON, the comparison with itself, and the same without names.
fn reports(script: &Script) {
    let Script { names, environment, batch } = script;
    let whole = summaries(batch, names, environment);
    let diagnosis = diagnose(whole.judged());
    let style = Style::plain(100);
    let screen = text::render(&whole.shown, &diagnosis, Some("rows"), &style);
    assert!(screen.chars().all(|c| c == '\n' || !c.is_control()), "{screen:?}");
    json::render(&whole.shown, &diagnosis);
    let side = |name| DiffSide { name, summary: &whole.shown, diagnosis: &diagnosis };
    let _ = compare([side("a"), side("b")], &[]);
    let mut rows = RedactedRows::new(Redactor::new([7; 32]));
    let (mut redacted, mut from, mut to) = (batch.clone(), names.clone(), Names::new());
    rows.batch(&mut redacted, &mut from, &mut to);
    summaries(&redacted, &to, &rows.environment(environment));
}

/// Runs views of intervals of `every_ns`: they end, for any rows.
fn intervals(script: &Script, every_ns: u64) {
    let Script { names, environment, .. } = script;
    let wanted = WantedIntervals { every_ns: Some(every_ns.max(1)), count: None };
    let cutter = Cutter::new(Summarizer::new(environment), wanted, environment);
    let mut cutter = cutter.leaving_out_empty();
    let mut count = 0;
    let mut each = |interval| {
        count += 1;
        let style = Style::plain(100);
        for view in [&STAT, &PROC, &CACHE] {
            render(view, &interval, &style);
            line(view, &interval);
        }
        assert!(count <= MOST_INTERVALS, "intervals without end");
        Ok::<(), Infallible>(())
    };
    for batch in script.source(2).batches {
        cutter.add(&batch, environment, names);
        let Ok(()) = cutter.close_until(cutter.latest_ns(), environment, names, &mut each);
    }
    let Ok(_) = cutter.finish(environment, names, &mut each);
}

/// Makes the plan of a reproduction, which iowhy itself must accept.
fn reproduces(script: &Script) {
    let Script { names, environment, batch } = script;
    let (mut streams, mut sequence) = (LoadStreams::default(), ReplayTally::default());
    streams.add(batch, names, environment);
    sequence.add(batch, names, environment);
    streams.settle();
    let summary = summaries(batch, names, environment).shown;
    let diagnosis = diagnose(&summary);
    for keep_names in [false, true] {
        let (streams, summary, diagnosis) = (&streams, &summary, &diagnosis);
        let source = PlanSource { streams, names, summary, diagnosis, keep_names };
        let plan = planning::plan(&source);
        assert_eq!(plan_check::defect(&plan), None, "iowhy's own plan is refused");
        planning::replayed(&source, &sequence);
    }
}

/// Runs the moments of `top`.
fn moments(script: &Script) {
    let Script { names, environment, batch } = script;
    let mut moments = RecordedMoments::new(environment);
    moments.add(batch, true, environment, names);
    moments.finish(environment, names);
}
