//! Plots: what must be on them, and that hostile names do not break them. With `IOWHY_PLOTS=DIR`
//! the pictures are left there to be looked at.

use iowhy_core::analysis::plots::Plots;
use iowhy_core::analysis::{Direction, Interval as Stage};
use iowhy_core::model::Operation;
use iowhy_core::script::Script;
use iowhy_views::plot;

fn plots(script: &Script) -> Plots {
    let mut plots = Plots::new(&script.environment);
    plots.add(&script.batch, &script.names);
    plots.finish(&script.environment)
}

/// A disk that reads at random and fast, writes in sequence, and stalls for a second.
fn disk(device: &str) -> Script {
    let mut script = Script::new(10);
    let mut random = 88_172_645_463_325_252_u64;
    for number in 0..40_000_i64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = number * 250_000;
        let slow = if (6_000_000_000..7_000_000_000).contains(&at) { 40 } else { 1 };
        let latency = (80_000 + random % 60_000 + (random >> 20) % 900 * 400) * slow;
        let sector = (random >> 11) % (200 << 21);
        script.read(device, 4096).sector(sector).at(at).bio(latency).add();
        if number % 8 == 0 {
            let sector = (20_u64 << 21) + number as u64 * 1024;
            let latency = 900_000 + random % 3_000_000;
            script.write(device, 524_288).sector(sector).at(at).bio(latency * slow).add();
        }
    }
    script
}

fn keep(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("IOWHY_PLOTS") {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
    }
}

#[test]
fn a_page_is_drawn_as_svg_and_png() {
    let plots = plots(&disk("nvme0n1"));
    let svg = plot::svg(&plots, "db7, Linux 6.18, 10.0 s").unwrap();
    for text in [
        "nvme0n1",
        "Latency over time",
        "Where reads lie",
        "Where writes lie",
        "Requests per second",
        "Throughput",
        "p99",
        "GiB",
        "MiB",
        "40,000 reads, 5,000 writes",
        "chosen by chance",
        "ms",
    ] {
        assert!(svg.contains(text), "{text} is not on the page");
    }
    let png = plot::png(&plots, "db7, Linux 6.18, 10.0 s").unwrap();
    let reader = png::Decoder::new(std::io::Cursor::new(&png)).read_info().unwrap();
    assert_eq!(reader.info().width, 800);
    keep("disk.svg", svg.as_bytes());
    keep("disk.png", &png);
}

#[test]
fn few_requests_and_one_direction_are_drawn_too() {
    let mut script = Script::new(2);
    script.read("sda", 4096).sector(2048).at(1_000_000_000).bio(150_000).add();
    let plots = plots(&script);
    keep("one.png", &plot::png(&plots, "db7").unwrap());
    assert!(plot::svg(&plots, "db7").unwrap().contains("none"));
}

#[test]
fn percentiles_are_those_of_the_other_views() {
    let mut script = Script::new(2);
    for number in 1..=50 {
        script.read("sda", 4096).at(number as i64 * 1_000_000).bio(number * 1_000).add();
    }
    let summary = script.summary();
    let stage = summary.devices[0].directions[Direction::Read].intervals[Stage::Q2c].unwrap();
    assert_eq!((stage.p50_ns, stage.p99_ns), (25_000, 50_000));
    let svg = plot::svg(&plots(&script), "").unwrap();
    assert!(svg.contains("reads: p50 25 µs, p99 50 µs"), "{svg}");
}

#[test]
fn nothing_to_draw_is_said_and_hostile_names_stay_text() {
    let mut script = Script::new(2);
    script.request("sda", Operation::Flush).bio(5).add();
    assert!(matches!(plot::svg(&plots(&script), ""), Err(plot::PlotError::Empty)));
    let name = "<script>alert(1)</script>\u{1b}[2J\u{202e}";
    script.read(name, 4096).bio(5).add();
    let svg = plot::svg(&plots(&script), name).unwrap();
    assert!(!svg.contains("<script>") && !svg.contains('\u{1b}') && !svg.contains('\u{202e}'));
    plot::png(&plots(&script), name).unwrap();
}
