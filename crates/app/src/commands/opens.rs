//! `iowhy opens`: each open of a live watch, opens by process and file of a source, or open files
//! (`--held`).

use crate::args::opens::Opens;
use crate::failure::Failure;
use crate::output::{self, PipedOutput};
use crate::own;
use crate::redaction;
use crate::sources;
use crate::watching::{Until, WatchSink, watch};
use iowhy_capture::budget::DEFAULT_PERCENT;
use iowhy_capture::held_files;
use iowhy_capture::host::devices::{self, DeviceNames};
use iowhy_capture::host::held::{AccessMode, HeldFile, HeldKind, Hold};
use iowhy_capture::live::WatchOptions;
use iowhy_capture::reader::FileAsker;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::source::{Batch, Source};
use iowhy_model::{FileActivity, Filter, Name, Names};
use iowhy_views::held::{HeldRow, Holding, json, render};
use iowhy_views::opens::{self, OpenedRow};
use iowhy_views::style::Style;
use std::collections::HashMap;

/// Shows opens or open files.
pub fn run(args: &Opens) -> Result<(), Failure> {
    match (args.held, args.paths.is_empty()) {
        (true, _) => held(args),
        (false, true) => live(args),
        (false, false) => recorded(args),
    }
}

fn style(args: &Opens) -> Style {
    let style = output::style();
    let width = if args.wide { usize::MAX / 2 } else { style.width };
    Style { width, ..style }
}

fn filter(args: &Opens) -> Filter {
    let (processes, files) = (args.processes.clone(), args.files.clone());
    redaction::filter(Filter { devices: wanted(args), processes, files, ..Filter::default() })
}

/// The kernel's names of the devices.
fn wanted(args: &Opens) -> Vec<String> {
    let name = |device: &String| device.strip_prefix("/dev/").unwrap_or(device).to_owned();
    args.devices.iter().map(name).collect()
}

/// Writes lines to standard output.
struct OpenPrinter {
    style: Style,
    json: bool,
    answer: PipedOutput,
}

impl WatchSink for OpenPrinter {
    const PRINTS: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        for open in batch.opens.iter().filter(|open| !own::is_hidden(open.process, names)) {
            let line = match self.json {
                true => opens::json_line(open, names),
                false => opens::line(open, names, &self.style),
            };
            self.answer.write(line.as_bytes());
        }
        let unread = || Failure::new("failed to print opens", None);
        self.answer.flush().then_some(()).ok_or_else(unread)
    }
}

fn live(args: &Opens) -> Result<(), Failure> {
    let budget = Some(DEFAULT_PERCENT);
    let devices = wanted(args);
    let options =
        WatchOptions { devices, files: true, opens: true, budget, ..WatchOptions::default() };
    let until = Until { time: args.time, command: None };
    let watched = watch(&options, &filter(args), until, |_| {
        let mut printer =
            OpenPrinter { style: style(args), json: args.json, answer: PipedOutput::begin() };
        if !args.json {
            printer.answer.write(opens::heading(&printer.style).as_bytes());
            printer.answer.flush();
        }
        Ok(printer)
    })?;
    watched.sink.answer.finish()?;
    output::limits(&watched.environment);
    output::losses(&watched.environment.losses);
    Ok(())
}

/// A recording has no single opens, but their number by process and file.
fn recorded(args: &Opens) -> Result<(), Failure> {
    let mut source = sources::open(&args.paths, false)?;
    output::note("note: a recording counts opens by process and file");
    let mut sums = Sums::default();
    let (names, _) = sources::read_all(&mut source, &filter(args), |batch, names, _| {
        let is_opened = |row: &&FileActivity| row.opens + row.failures > 0;
        let is_shown = |row: &&FileActivity| !own::is_hidden(row.process, names);
        for row in batch.files.iter().filter(is_opened).filter(is_shown) {
            let sum = sums.entry((row.pid, row.process, row.file)).or_default();
            (sum.0, sum.1, sum.2) = (sum.0 + row.opens, sum.1 + row.creates, sum.2 + row.failures);
        }
        Ok(())
    })?;
    let mut rows: Vec<OpenedRow> = sums.into_iter().map(|sum| opened(sum, &names)).collect();
    rows.compact_sort_by(|a, b| {
        (b.opens, b.failures, a.pid, &a.file).cmp(&(a.opens, a.failures, b.pid, &b.file))
    });
    let answer = match args.json {
        true => opens::json(&rows),
        false => opens::render(&rows, &style(args)),
    };
    output::print(&answer)?;
    output::losses(&source.environment().losses);
    Ok(())
}

type SumKey = (u32, Option<Name>, Option<Name>);
type Sums = HashMap<SumKey, (u64, u64, u64)>;

fn opened((key, sum): (SumKey, (u64, u64, u64)), names: &Names) -> OpenedRow {
    let text = |name: Option<Name>| name.map(|name| names.get(name).to_owned());
    let (pid, process, file) = key;
    let (opens, creates, failures) = sum;
    OpenedRow { pid, process: text(process), opens, creates, failures, file: text(file) }
}

fn held(args: &Opens) -> Result<(), Failure> {
    let is_wanted = |pid: u32, name: &str| {
        let is = |wanted: &String| match wanted.parse::<u32>() {
            Ok(number) => number == pid,
            Err(_) => wanted == name,
        };
        args.processes.is_empty() || args.processes.iter().any(is)
    };
    let mut found = held_files::read(&FileAsker::default(), is_wanted, &args.files);
    on_devices(&wanted(args), &mut found.held)?;
    found.held.compact_sort_by_key(|held| {
        let (deleted, size) = (held.deleted, held.taken.filter(|_| held.deleted));
        (deleted, deleted && !held.in_memory, size, held.pid, held.hold)
    });
    let (deleted_files, deleted_bytes) = found.nameless();
    let holding = Holding {
        held: found.held.into_iter().map(row).collect(),
        deleted_files,
        deleted_bytes,
        processes: found.processes,
        refused_processes: found.refused,
        unanswered_processes: found.unanswered,
        left_out: found.left_out,
    };
    if args.json {
        return output::print(&json(&holding));
    }
    output::print(&render(&holding, &style(args)))
}

/// Keeps the files that are on one of these devices; all if none is given.
fn on_devices(wanted: &[String], held: &mut Vec<HeldFile>) -> Result<(), Failure> {
    if wanted.is_empty() {
        return Ok(());
    }
    let known = devices::list();
    if let Some(missing) =
        wanted.iter().find(|name| known.iter().all(|device| device.name != **name))
    {
        let names: Vec<&str> = known.iter().map(|device| device.name.as_str()).collect();
        let hint = format!("this machine has {}", names.join(", "));
        return Err(Failure::new(format!("failed to find device {missing}"), Some(hint)));
    }
    let filter = Filter { devices: wanted.to_vec(), ..Filter::default() }.on_disks(&known);
    let names = DeviceNames::from_devices(&known);
    held.retain(|held| {
        let disk = names.disk(devices::number(held.device.0, held.device.1));
        disk.is_some_and(|disk| filter.devices.iter().any(|wanted| wanted == disk))
    });
    Ok(())
}

fn row(held: HeldFile) -> HeldRow {
    HeldRow {
        process: held.process,
        pid: held.pid,
        user: held.user,
        fd: match held.hold {
            Hold::Directory => "cwd".to_owned(),
            Hold::Program => "txt".to_owned(),
            Hold::Mapped => "mem".to_owned(),
            Hold::Descriptor(number) => number.to_string(),
        },
        mode: held.mode.map(|mode| match mode {
            AccessMode::Read => "r",
            AccessMode::Write => "w",
            AccessMode::Both => "u",
        }),
        kind: match held.kind {
            HeldKind::Regular => "REG",
            HeldKind::Directory => "DIR",
            HeldKind::BlockDevice => "BLK",
        },
        size: held.size,
        offset: held.offset,
        taken_bytes: held.taken,
        device: format!("{}:{}", held.device.0, held.device.1),
        inode: held.inode,
        file: held.path,
        deleted: held.deleted,
        in_memory: held.in_memory,
        further: 0,
    }
}
