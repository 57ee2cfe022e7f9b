//! `iowhy cache`: the page cache, as cachestat, free and vmstat tell it, and readahead's yield.

use super::View;
use crate::human;
use crate::style::Paint;
use crate::table::{Cell, Definition, explained, number};
use crate::text::Screen;
use iowhy_core::analysis::Summary;
use iowhy_core::analysis::cache::{PageCache, page_cache};

/// `iowhy cache`.
pub const CACHE: View<Summary> = View {
    name: "cache",
    draw,
    json: |summary| serde_json::to_value(page_cache(summary)).unwrap_or_default(),
};

/// What is in memory.
pub const MEMORY: Definition<PageCache> = Definition {
    title: "iowhy cache: memory",
    sentence: "What is in memory at the end of the interval; dirty and writeback are the most that \
               there were at any look.",
    columns: &[
        number("free", "bytes", 2, "memory that nobody uses", |it, _| bytes(it.free_bytes)),
        number(
            "available",
            "bytes",
            1,
            "memory that programs could get without swapping",
            |it, _| bytes(it.available_bytes),
        ),
        number("cache", "bytes", 0, "the page cache of files, without shared memory", |it, _| {
            bytes(it.cached_bytes)
        }),
        number("buffers", "bytes", 3, "the page cache of block devices: metadata", |it, _| {
            bytes(it.buffers_bytes)
        }),
        number("dirty", "bytes", 0, "pages changed and not yet written", |it, _| {
            bytes(it.dirty_bytes)
        }),
        number("writeback", "bytes", 0, "pages that are being written", |it, _| {
            bytes(it.writeback_bytes)
        }),
        explained(
            "dirty pages from which on writeback runs, and writers are held back",
            number(
                "bg limit",
                "bytes",
                0,
                "dirty pages from which on writeback runs in the background, as the kernel computes \
                 it now from vm.dirty_background_* and the memory that could be dirtied",
                |it, _| bytes(it.background_limit_bytes),
            ),
        ),
        explained(
            "dirty pages from which on writeback runs, and writers are held back",
            number(
                "limit",
                "bytes",
                0,
                "dirty pages from which on writers are held back, computed likewise; half way \
                 between the two the kernel begins to slow them down",
                |it, _| bytes(it.limit_bytes),
            ),
        ),
    ],
};

/// What moved.
pub const FLOWS: Definition<PageCache> = Definition {
    title: "iowhy cache: flows",
    sentence: "What moved in the interval, per second.",
    columns: &[
        number("dirtied/s", "bytes/s", 0, "pages made dirty", |it, _| {
            bytes(it.dirtied_bytes_per_s)
        }),
        number("written/s", "bytes/s", 0, "dirty pages written", |it, _| {
            bytes(it.written_bytes_per_s)
        }),
        explained(
            "pages that came into the cache and left it; >=: at least so much (--page-cache counts them)",
            number(
                "added/s",
                "bytes/s",
                0,
                "pages that came into the page cache; with >= the least that it can have been, from the \
                 kernel's counters of growth, reclaim and refaults (`--page-cache` counts them)",
                |it, _| at_least(it.added_bytes_per_s, it),
            ),
        ),
        explained(
            "pages that came into the cache and left it; >=: at least so much (--page-cache counts them)",
            number(
                "removed/s",
                "bytes/s",
                0,
                "pages that left it; with >= only those that reclaim took: what was truncated, deleted or \
                 dropped on request is not in it (`--page-cache` counts them)",
                |it, _| at_least(it.removed_bytes_per_s, it),
            ),
        ),
        number("growth/s", "bytes/s", 3, "by how much the page cache grew or shrank", |it, _| {
            signed(it.growth_bytes_per_s)
        }),
        number("reclaim/s", "bytes/s", 2, "pages of files dropped for want of memory", |it, _| {
            bytes(it.reclaimed_bytes_per_s)
        }),
        explained(
            "dropped and read again: the cache is too small for what is in use",
            number(
                "refault/s",
                "bytes/s",
                0,
                "pages of files that were read again soon after they were dropped: the page cache is \
                 too small for what is in use",
                |it, _| bytes(it.refaulted_bytes_per_s),
            ),
        ),
    ],
};

/// What was read for what was asked for.
pub const READS: Definition<PageCache> = Definition {
    title: "iowhy cache: reads",
    sentence: "What devices read in the interval for what programs asked for, per second.",
    columns: &[
        number(
            "filled/s",
            "bytes/s",
            0,
            "read from devices into the page cache or for it",
            |it, _| bytes(Some(it.filled_bytes_per_s)),
        ),
        explained(
            "the part of filled/s that the kernel read ahead of what was asked for",
            number(
                "ahead/s",
                "bytes/s",
                0,
                "the part of it that the kernel read ahead",
                |it, _| bytes(Some(it.read_ahead_bytes_per_s)),
            ),
        ),
        explained(
            "what read calls got: of the processes that had devices read",
            number(
                "asked/s",
                "bytes/s",
                1,
                "what read calls gave to the processes that had devices read something",
                |it, _| of_readers(it, it.asked_bytes_per_s, human::bytes),
            ),
        ),
        explained(
            "asked/s for each byte read from devices; far below 1 readahead is wasted",
            number(
                "yield",
                "",
                0,
                "bytes that read calls gave to the processes that had devices read, for each byte \
                 that devices read for them: above 1 the page cache had the rest; far below 1 \
                 readahead reads what nobody asks for, or the data is used through mmap",
                |it, _| of_readers(it, it.asked_per_read, human::rate),
            ),
        ),
        number("majflt/s", "1/s", 0, "page faults that had to read from a device", |it, _| {
            it.major_faults_per_s.map_or_else(|| "?".to_owned(), human::rate).into()
        }),
    ],
};

fn at_least(rate: Option<f64>, cache: &PageCache) -> Cell {
    let mark = if cache.are_pages_counted { "" } else { ">=" };
    rate.map_or_else(|| "?".to_owned(), |rate| format!("{mark}{}", human::bytes(rate))).into()
}

/// What processes that had devices read were given: none where no process is known to have.
fn of_readers(cache: &PageCache, figure: Option<f64>, shown: fn(f64) -> String) -> Cell {
    let none = if cache.are_rates_known { "-" } else { "?" };
    figure.map_or_else(|| none.to_owned(), shown).into()
}

fn bytes(bytes: Option<f64>) -> Cell {
    bytes.map_or_else(|| "?".to_owned(), human::bytes).into()
}

fn signed(bytes: Option<f64>) -> Cell {
    let shown = |bytes: f64| match bytes < 0.0 {
        true => format!("-{}", human::bytes(-bytes)),
        false => human::bytes(bytes),
    };
    bytes.map_or_else(|| "?".to_owned(), shown).into()
}

fn draw(summary: &Summary, screen: &mut Screen<'_>) {
    match page_cache(summary) {
        None => screen.prose("memory was not looked at", 0, Paint::Faint),
        Some(cache) => {
            screen.rows(&MEMORY, &[cache]);
            screen.rows(&FLOWS, &[cache]);
            screen.rows(&READS, &[cache]);
        }
    }
}
