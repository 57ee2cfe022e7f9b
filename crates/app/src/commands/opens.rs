//! `iowhy opens`: who holds which files open.

use crate::args::opens::Opens;
use crate::failure::Failure;
use crate::output;
use iowhy_capture::host::held::{self, Held, Hold, Mode};
use iowhy_views::held::{HeldRow, Holding, json, render};
use iowhy_views::style::Style;

/// Shows what was asked for.
pub fn run(args: &Opens) -> Result<(), Failure> {
    let is_wanted = |pid: u32, name: &str| {
        let is = |wanted: &String| match wanted.parse::<u32>() {
            Ok(number) => number == pid,
            Err(_) => wanted == name,
        };
        args.processes.is_empty() || args.processes.iter().any(is)
    };
    let mut found = held::read(is_wanted, &args.files);
    found.held.sort_by_key(|held| {
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
        left_out: found.left_out,
    };
    if args.json {
        return output::print(&json(&holding));
    }
    let style = output::style();
    let width = if args.wide { usize::MAX / 2 } else { style.width };
    output::print(&render(&holding, &Style { width, ..style }))
}

fn row(held: Held) -> HeldRow {
    HeldRow {
        process: held.process,
        pid: held.pid,
        fd: match held.hold {
            Hold::Directory => "cwd".to_owned(),
            Hold::Program => "txt".to_owned(),
            Hold::Mapped => "mem".to_owned(),
            Hold::Descriptor(number) => number.to_string(),
        },
        mode: held.mode.map(|mode| match mode {
            Mode::Read => "r",
            Mode::Write => "w",
            Mode::Both => "u",
        }),
        size: held.size,
        offset: held.offset,
        taken_bytes: held.taken,
        device: format!("{}:{}", held.device.0, held.device.1),
        inode: held.inode,
        file: held.path,
        deleted: held.deleted,
        in_memory: held.in_memory,
    }
}
