//! `iowhy cache`: the page cache, as shown by cachestat, free and vmstat, and readahead's yield.

use super::IntervalView;
use crate::human;
use crate::style::Paint;
use crate::table::{Definition, TableCell, explained, number};
use crate::text::Screen;
use iowhy_analysis::Summary;
use iowhy_analysis::page_cache::{PageCache, page_cache};

/// `iowhy cache`.
pub const CACHE: IntervalView<Summary> = IntervalView {
    name: "cache",
    draw,
    json: |summary| serde_json::to_value(page_cache(summary)).unwrap_or_default(),
};

/// Memory.
pub const MEMORY: Definition<PageCache> = Definition {
    title: "iowhy cache: memory",
    sentence: "Memory at the end of the interval; dirty and writeback are the maximum of all \
               samples in it.",
    columns: &[
        number("free", "bytes", 2, "unused memory", |cache, _| bytes(cache.free_bytes)),
        number(
            "available",
            "bytes",
            1,
            "memory available to programs without swapping",
            |cache, _| bytes(cache.available_bytes),
        ),
        number(
            "cache",
            "bytes",
            0,
            "the page cache of files, without shared memory",
            |cache, _| bytes(cache.cached_bytes),
        ),
        number("buffers", "bytes", 3, "the page cache of block devices: metadata", |cache, _| {
            bytes(cache.buffers_bytes)
        }),
        number("dirty", "bytes", 0, "modified pages that have not been written", |cache, _| {
            bytes(cache.dirty_bytes)
        }),
        number("writeback", "bytes", 0, "pages that are being written", |cache, _| {
            bytes(cache.writeback_bytes)
        }),
        explained(
            "dirty pages from which writeback runs, and from which writers are throttled",
            number(
                "bg limit",
                "bytes",
                0,
                "dirty pages from which writeback runs in the background, as the kernel computes \
                 it from vm.dirty_background_* and the memory that could be dirtied",
                |cache, _| bytes(cache.background_limit_bytes),
            ),
        ),
        explained(
            "dirty pages from which writeback runs, and from which writers are throttled",
            number(
                "limit",
                "bytes",
                0,
                "dirty pages from which writers are throttled, computed in the same way; the \
                 kernel begins to slow writers down half way between the two",
                |cache, _| bytes(cache.limit_bytes),
            ),
        ),
    ],
};

/// Flows.
pub const FLOWS: Definition<PageCache> = Definition {
    title: "iowhy cache: flows",
    sentence: "Flows in the interval, per second.",
    columns: &[
        number("dirtied/s", "bytes/s", 0, "pages made dirty", |cache, _| {
            bytes(cache.dirtied_bytes_per_s)
        }),
        number("written/s", "bytes/s", 0, "dirty pages written", |cache, _| {
            bytes(cache.written_bytes_per_s)
        }),
        explained(
            "pages added to and removed from the cache; >=: a lower bound (--page-cache counts \
             them)",
            number(
                "added/s",
                "bytes/s",
                0,
                "pages added to the page cache; with >= a lower bound from the kernel's counters \
                 of growth, reclaim and refaults (`--page-cache` counts them)",
                |cache, _| at_least(cache.added_bytes_per_s, cache),
            ),
        ),
        explained(
            "pages added to and removed from the cache; >=: a lower bound (--page-cache counts \
             them)",
            number(
                "removed/s",
                "bytes/s",
                0,
                "pages removed from it; with >= only reclaimed pages: those that were truncated, \
                 deleted or dropped on request is not in it (`--page-cache` counts them)",
                |cache, _| at_least(cache.removed_bytes_per_s, cache),
            ),
        ),
        number(
            "growth/s",
            "bytes/s",
            3,
            "growth of the page cache; negative if it shrank",
            |cache, _| signed(cache.growth_bytes_per_s),
        ),
        number("reclaim/s", "bytes/s", 2, "file pages reclaimed", |cache, _| {
            bytes(cache.reclaimed_bytes_per_s)
        }),
        explained(
            "reclaimed and read again: the cache is too small for the working set",
            number(
                "refault/s",
                "bytes/s",
                0,
                "file pages that were read again soon after they were reclaimed: the page cache is \
                 too small for the working set",
                |cache, _| bytes(cache.refaulted_bytes_per_s),
            ),
        ),
    ],
};

/// Reads from devices for programs.
pub const READS: Definition<PageCache> = Definition {
    title: "iowhy cache: reads",
    sentence: "What devices read in the interval on behalf of programs, per second.",
    columns: &[
        number(
            "filled/s",
            "bytes/s",
            0,
            "read from devices into the page cache or for it",
            |cache, _| bytes(Some(cache.filled_bytes_per_s)),
        ),
        explained(
            "the part of filled/s that is readahead",
            number("ahead/s", "bytes/s", 0, "the part of it that is readahead", |cache, _| {
                bytes(Some(cache.read_ahead_bytes_per_s))
            }),
        ),
        explained(
            "what read calls returned to processes that caused device reads",
            number(
                "asked/s",
                "bytes/s",
                1,
                "what read calls returned to the processes that caused device reads",
                |cache, _| of_readers(cache, cache.asked_bytes_per_s, human::bytes),
            ),
        ),
        explained(
            "asked/s per byte read from devices; far below 1, readahead is wasted",
            number(
                "yield",
                "",
                0,
                "bytes that read calls returned to the processes that caused device reads, per \
                 byte that devices read for them: above 1, the page cache had the rest; far below \
                 1, readahead reads data that is never used, or the data is read through mmap",
                |cache, _| of_readers(cache, cache.asked_per_read, human::rate),
            ),
        ),
        number("majflt/s", "1/s", 0, "page faults that needed a read from a device", |cache, _| {
            cache.major_faults_per_s.map_or_else(|| "?".to_owned(), human::rate).into()
        }),
    ],
};

fn at_least(rate: Option<f64>, cache: &PageCache) -> TableCell {
    let mark = if cache.are_pages_counted { "" } else { ">=" };
    rate.map_or_else(|| "?".to_owned(), |rate| format!("{mark}{}", human::bytes(rate))).into()
}

/// Writes a figure of the processes that caused device reads; `-` if there is no such process, `?`
/// if that is not known.
fn of_readers(cache: &PageCache, figure: Option<f64>, shown: fn(f64) -> String) -> TableCell {
    let none = if cache.are_rates_known { "-" } else { "?" };
    figure.map_or_else(|| none.to_owned(), shown).into()
}

fn bytes(bytes: Option<f64>) -> TableCell {
    bytes.map_or_else(|| "?".to_owned(), human::bytes).into()
}

fn signed(bytes: Option<f64>) -> TableCell {
    let shown = |bytes: f64| match bytes < 0.0 {
        true => format!("-{}", human::bytes(-bytes)),
        false => human::bytes(bytes),
    };
    bytes.map_or_else(|| "?".to_owned(), shown).into()
}

fn draw(summary: &Summary, screen: &mut Screen<'_>) {
    match page_cache(summary) {
        None => screen.prose("memory was not sampled", 0, Paint::Faint),
        Some(cache) => {
            screen.rows(&MEMORY, &[cache]);
            screen.rows(&FLOWS, &[cache]);
            screen.rows(&READS, &[cache]);
        }
    }
}
