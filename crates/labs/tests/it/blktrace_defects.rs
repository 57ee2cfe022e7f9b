//! The defects of the old tools in `docs/blktrace.md`, each tested on a capture of a few records:
//! the tool's output, and iowhy's. A failing test means that a tool was fixed, or that the page is
//! wrong.

use crate::blktrace::{GeneratedTrace, answer, blkparse, btt, dump};
use crate::records::{RecordBytes, STEPS};
use crate::support::{trial, words};
use iowhy_labs::Result;
use iowhy_labs::captures::{GeneratorSettings, Mix};
use iowhy_labs::error::Context;
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};

pub fn tests() -> Vec<Trial> {
    vec![
        trial("blktrace_defects::a_missing_file_ends_blkparse", a_missing_file_ends_blkparse),
        trial("blktrace_defects::another_cpus_records_are_dropped", another_cpus_records),
        trial("blktrace_defects::split_sectors_are_cut", split_sectors_are_cut),
        trial("blktrace_defects::names_come_late_and_stay", names_come_late_and_stay),
        trial("blktrace_defects::lost_events_are_no_skips", lost_events_are_no_skips),
        trial("blktrace_defects::protocol_8_is_refused", protocol_8_is_refused),
        trial("blktrace_defects::cgroup_ids_are_taken_for_payloads", cgroup_ids),
        trial("blktrace_defects::btt_needs_a_queue", btt_needs_a_queue),
        trial("blktrace_defects::btt_skips_flushes", btt_skips_flushes),
        trial("blktrace_defects::btt_takes_virtio_for_a_mapper", virtio_is_no_mapper),
        trial("blktrace_defects::btt_loses_one_of_two", btt_loses_one_of_two),
        trial("blktrace_defects::btt_has_no_zero", btt_has_no_zero),
        trial("blktrace_defects::btt_ignores_splits", btt_ignores_splits),
        trial("blktrace_defects::btt_has_no_g2d", btt_has_no_g2d),
        trial("blktrace_defects::btts_median_is_wrong", btts_median_is_wrong),
    ]
}

/// A split of a read.
const SPLIT: u32 = 0x101_000d;

/// A capture of one device and one CPU.
struct DefectCapture {
    folder: tempfile::TempDir,
    name: [String; 1],
}

impl DefectCapture {
    fn from_records(records: &[RecordBytes<'_>]) -> Result<DefectCapture> {
        let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
        let capture = DefectCapture { folder, name: ["sda".to_owned()] };
        let bytes: Vec<u8> = records.iter().flat_map(RecordBytes::bytes).collect();
        fs::write(capture.path().join("sda.blktrace.0"), bytes)
            .context(|| "write a capture".to_owned())?;
        Ok(capture)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn source(&self) -> [PathBuf; 1] {
        [self.path().join("sda")]
    }

    fn events(&self) -> Result<String> {
        answer(&["events", "-q"], &self.source())
    }

    fn stages(&self) -> Result<String> {
        answer(&["stages"], &self.source())
    }

    fn blkparse(&self, more: &[&str]) -> Result<String> {
        blkparse(self.path(), &self.name, more)
    }

    fn btt(&self) -> Result<String> {
        let merged = self.path().join("merged");
        dump(self.path(), &self.name, &merged)?;
        btt(&merged, &[])
    }
}

/// One read, at `sector` from `time` on, in steps of 1 us.
fn read(sector: u64, time: u64) -> impl Iterator<Item = RecordBytes<'static>> {
    let first = (time / 1000) as u32;
    STEPS.iter().zip(0..).map(move |(action, step)| RecordBytes {
        action: *action,
        sector,
        time: time + 1000 * u64::from(step),
        sequence: first + step + 1,
        ..RecordBytes::for_number(0)
    })
}

/// The number of samples that a report gives a stage: btt's last column, iowhy's first.
fn samples(report: &str, stage: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.split_whitespace().next() == Some(stage))?;
    let mut words = line.split_whitespace().skip(1);
    let first = words.next()?;
    first.parse().ok().or_else(|| words.last()?.parse().ok())
}

fn is_on_cpu(text: &str, cpu: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().nth(1) == Some(cpu))
}

fn a_missing_file_ends_blkparse() -> Result<()> {
    let generated = GeneratedTrace::from_mix(Mix::Plain)?;
    let name = &generated.names[..1];
    let prefix = generated.path().join(&name[0]);
    fs::remove_file(prefix.with_extension("blktrace.1")).context(|| "remove a file".to_owned())?;
    assert!(!is_on_cpu(&blkparse(generated.path(), name, &["-q"])?, "3"));
    assert!(is_on_cpu(&answer(&["events", "-q"], &[prefix])?, "3"));
    Ok(())
}

fn another_cpus_records() -> Result<()> {
    let records: Vec<_> = read(8, 1000).map(|record| RecordBytes { cpu: 1, ..record }).collect();
    let capture = DefectCapture::from_records(&records)?;
    assert_eq!(capture.blkparse(&["-q"])?, "");
    assert_eq!(capture.events()?.lines().count(), 5);
    Ok(())
}

fn split_sectors_are_cut() -> Result<()> {
    let sector: u64 = (1 << 32) + 2048;
    let split =
        RecordBytes { action: SPLIT, payload: &sector.to_be_bytes(), ..RecordBytes::for_number(0) };
    let capture = DefectCapture::from_records(&[split])?;
    assert!(capture.blkparse(&["-q"])?.contains(" / 2048 "));
    assert!(capture.events()?.contains(" / 4294969344 "));
    Ok(())
}

/// A name whose record comes after 600 events, and another one for the same number later.
fn names_come_late_and_stay() -> Result<()> {
    let note = |time, name: &'static [u8]| RecordBytes {
        action: 0x400_0000,
        time,
        payload: name,
        ..RecordBytes::for_number(0)
    };
    let mut records: Vec<_> = (0..1800).map(RecordBytes::for_number).collect();
    records.insert(600, note(records[600].time, b"first\0\0\0\0\0\0\0\0\0\0\0"));
    records.insert(1200, note(records[1200].time, b"second\0\0\0\0\0\0\0\0\0\0"));
    let capture = DefectCapture::from_records(&records)?;
    let theirs = capture.blkparse(&["-q"])?;
    assert!(theirs.contains("[(null)]") && !theirs.contains("[second]"));
    let ours = capture.events()?;
    assert!(!ours.contains("[(null)]") && ours.contains("[first]") && ours.contains("[second]"));
    Ok(())
}

fn lost_events_are_no_skips() -> Result<()> {
    let capture =
        DefectCapture::from_records(&[RecordBytes::for_number(0), RecordBytes::for_number(90)])?;
    assert!(capture.blkparse(&[])?.contains("Skips: 0 forward"));
    let stages = words(&capture.stages()?);
    assert!(stages.contains("89 sequence numbers are missing"), "{stages}");
    Ok(())
}

fn protocol_8_is_refused() -> Result<()> {
    let records: Vec<_> =
        read(8, 1000).map(|record| RecordBytes { version: 8, ..record }).collect();
    let capture = DefectCapture::from_records(&records)?;
    let theirs = capture.blkparse(&["-q"]).unwrap_or_default();
    assert_eq!(theirs, "");
    assert_eq!(capture.events()?.lines().count(), 5);
    Ok(())
}

/// With the trace option blk_cgroup, a payload begins with the cgroup's id.
fn cgroup_ids() -> Result<()> {
    const FLAG: u32 = 0x100;
    let payload = [9u64.to_le_bytes(), 3u64.to_be_bytes()].concat();
    let mut records: Vec<_> = read(8, 1000)
        .map(|record| RecordBytes {
            action: record.action | FLAG,
            payload: &payload[..8],
            ..record
        })
        .collect();
    let unplug =
        RecordBytes { action: 0x101_000a | FLAG, payload: &payload, ..RecordBytes::for_number(0) };
    records.push(RecordBytes { time: 9000, sequence: 7, ..unplug });
    let capture = DefectCapture::from_records(&records)?;
    let count = |text: &str| {
        let unplug = text.lines().find(|line| line.contains(" U "));
        unplug.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok())
    };
    assert_eq!(count(&capture.events()?), Some(3));
    assert_ne!(count(&capture.blkparse(&["-q"])?), Some(3));
    assert_eq!(samples(&capture.btt()?, "Q2C"), None);
    assert_eq!(samples(&capture.stages()?, "Q2C"), Some(1));
    Ok(())
}

fn btt_needs_a_queue() -> Result<()> {
    let capture = DefectCapture::from_records(&read(8, 1000).skip(3).collect::<Vec<_>>())?;
    assert_eq!(samples(&capture.btt()?, "D2C"), None);
    assert_eq!(samples(&capture.stages()?, "D2C"), Some(1));
    Ok(())
}

fn btt_skips_flushes() -> Result<()> {
    let settings =
        GeneratorSettings { mix: Mix::Unsplit, devices: 1, ..GeneratorSettings::default() };
    let generated = GeneratedTrace::new(settings)?;
    let flushes = |text: &str| text.lines().filter(|line| line.contains(" D  FN")).count();
    let events = answer(&["events", "-q"], &generated.prefixes())?;
    let issued = events.lines().filter(|line| line.split_whitespace().nth(5) == Some("D")).count();
    assert!(flushes(&events) > 0, "the capture has flushes");
    let merged = generated.path().join("merged");
    dump(generated.path(), &generated.names, &merged)?;
    let report = btt(&merged, &[])?;
    let merges = report.split("Device Merge Information").nth(1).unwrap_or_default();
    let line = merges.lines().find(|line| line.contains("(  8,  0)")).unwrap_or_default();
    let words: Vec<&str> = line.split('|').nth(1).unwrap_or_default().split_whitespace().collect();
    let theirs: usize = words.get(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    let commands = events
        .lines()
        .filter(|line| line.contains("(12 01 80"))
        .filter(|line| line.split_whitespace().nth(5) == Some("D"))
        .count();
    assert_eq!(theirs + flushes(&events) + commands, issued, "{line}");
    Ok(())
}

fn virtio_is_no_mapper() -> Result<()> {
    let records = read(8, 1000).chain(read(64, 9000));
    let virtio: Vec<_> =
        records.map(|record| RecordBytes { device: 254 << 20, ..record }).collect();
    let capture = DefectCapture::from_records(&virtio)?;
    let theirs = capture.btt()?;
    assert_eq!((samples(&theirs, "Q2C"), samples(&theirs, "Q2Cdm")), (None, Some(2)), "{theirs}");
    assert_eq!(samples(&capture.stages()?, "Q2C"), Some(2));
    Ok(())
}

/// Two reads of one sector at once: the later Q takes the place of the earlier.
fn btt_loses_one_of_two() -> Result<()> {
    let mut records: Vec<_> = read(8, 1000).chain(read(8, 1500)).collect();
    records.sort_by_key(|record| record.time);
    let capture = DefectCapture::from_records(&records)?;
    assert_eq!(samples(&capture.btt()?, "Q2C"), Some(1));
    assert_eq!(samples(&capture.stages()?, "Q2C"), Some(2));
    Ok(())
}

fn btt_has_no_zero() -> Result<()> {
    let records: Vec<_> =
        read(8, 1000).map(|record| RecordBytes { time: 1000, ..record }).collect();
    let capture = DefectCapture::from_records(&records)?;
    let theirs = capture.btt()?;
    let q2g = theirs.lines().find(|line| line.starts_with("Q2G")).unwrap_or_default();
    assert!(q2g.contains("0.000000001"), "{q2g}");
    let ours = capture.stages()?;
    let q2g = ours.lines().find(|line| line.starts_with("  Q2G")).unwrap_or_default();
    assert!(q2g.contains(" 0 ns "), "{q2g}");
    Ok(())
}

/// A read of 8 sectors that is split in two: its parts complete one after the other.
fn btt_ignores_splits() -> Result<()> {
    let new: [u8; 8] = 12u64.to_be_bytes();
    let at = |action, sector, step: u32| RecordBytes {
        action,
        sector,
        time: 1000 * u64::from(step),
        sequence: step,
        ..RecordBytes::for_number(0)
    };
    let half = |sector, step| {
        let actions = STEPS.iter().skip(1).zip(step..);
        actions.map(move |(action, step)| RecordBytes { bytes: 2048, ..at(*action, sector, step) })
    };
    let mut records = vec![at(STEPS[0], 8, 1), RecordBytes { payload: &new, ..at(SPLIT, 8, 2) }];
    records.extend(half(8, 3));
    records.extend(half(12, 7));
    let capture = DefectCapture::from_records(&records)?;
    assert_eq!(samples(&capture.btt()?, "Q2C"), None);
    assert_eq!(samples(&capture.stages()?, "Q2C"), Some(2));
    Ok(())
}

fn btt_has_no_g2d() -> Result<()> {
    let capture = DefectCapture::from_records(
        &read(8, 1000).filter(|r| r.action != STEPS[2]).collect::<Vec<_>>(),
    )?;
    let theirs = capture.btt()?;
    let (known, lost) = (["Q2G", "D2C", "Q2C"], ["G2I", "I2D", "M2D"]);
    assert!(known.iter().all(|stage| samples(&theirs, stage) == Some(1)), "{theirs}");
    assert!(lost.iter().all(|stage| samples(&theirs, stage).is_none()), "{theirs}");
    assert_eq!(samples(&capture.stages()?, "G2D"), Some(1));
    Ok(())
}

/// Distances of 1000, 2000 … 9000 sectors: the median is 5000.
fn btts_median_is_wrong() -> Result<()> {
    let starts = (0..10u64).map(|n| (500 * n * (n + 1) + 8 * n, 1000 + 9000 * n));
    let records: Vec<_> = starts.flat_map(|(sector, time)| read(sector, time)).collect();
    let capture = DefectCapture::from_records(&records)?;
    let theirs = capture.btt()?;
    let seeks = theirs.split("Device D2D Seek").nth(1).unwrap_or_default();
    let line = seeks.lines().find(|line| line.contains("(  8,  0)")).unwrap_or_default();
    let median = line.split_whitespace().rev().nth(2).unwrap_or_default();
    let ours = capture.stages()?;
    let own = ours.lines().find(|line| line.contains(" D2D ")).unwrap_or_default();
    let own = own.split_whitespace().nth(4).map(|word| word.replace(',', ""));
    let own: u64 = own.and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!((4900..=5100).contains(&own), "{ours}");
    assert!(!line.contains(" 5000 "), "{median}: {line}");
    Ok(())
}
