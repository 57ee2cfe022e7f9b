//! The diagnosis of an incident: its brief JSON and its page, both of the seconds around its signs.
//! The page is one file that opens without network, so that it can be attached to a ticket.
//!
//! What does not belong here: which seconds those are, and when they are diagnosed.

use super::record::IncidentRecord;
use super::store::{FINDINGS, PAGE, RECORDING};
use crate::disk;
use iowhy_analysis::{Filtered, Summaries};
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_model::command::shell_word;
use iowhy_model::recording::RecordingReader;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Filter, Names};
use iowhy_views::brief;
use iowhy_views::html::{self, PageError, PageInput};
use std::io;
use std::path::Path;

/// Bytes of a page; one that would be larger is not kept: the budget is for recordings.
const MOST_PAGE_BYTES: usize = 4 << 20;

/// The summaries of the seconds around the signs, and the texts of their rows.
#[derive(Debug)]
struct ReadWindow {
    summaries: Summaries,
    names: Names,
}

/// Diagnoses the recording `window`, adds the findings to `record`, and writes the brief JSON and
/// the page into `pending`; `kept` is where the incident will stand.
///
/// # Errors
/// Fails if the recording cannot be read, or a file cannot be written.
pub fn diagnose_window(
    window: &Path,
    pending: &Path,
    kept: &Path,
    record: &mut IncidentRecord,
) -> io::Result<()> {
    let read = read(window).map_err(io::Error::other)?;
    let diagnosis = diagnose(read.summaries.judged());
    record.join_findings(&diagnosis);
    let text = brief::render(&read.summaries.shown, &diagnosis);
    disk::replace(&pending.join(FINDINGS), text.as_bytes())?;
    match page(&read, &diagnosis, kept)? {
        Some(page) => disk::replace(&pending.join(PAGE), page.as_bytes()),
        None => Ok(()),
    }
}

fn read(window: &Path) -> Result<ReadWindow, iowhy_model::recording::RecordingError> {
    let mut reader = RecordingReader::open(window)?;
    let filtered = Filtered::new(reader.environment(), &Filter::default());
    let mut filtered = filtered.with_charts(reader.environment());
    let (mut names, mut batch) = (Names::new(), Batch::default());
    loop {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut names)?;
        filtered.add(&batch, &names, reader.environment().end_ns);
        if progress == Progress::Done {
            break;
        }
    }
    Ok(ReadWindow { summaries: filtered.finish(reader.environment(), &names), names })
}

/// Returns the page; `None` if this program has no script for it, or the page is too large.
fn page(read: &ReadWindow, diagnosis: &Diagnosis, kept: &Path) -> io::Result<Option<String>> {
    let Some(charts) = &read.summaries.charts else { return Ok(None) };
    let recording = kept.join(RECORDING);
    let source = shell_word(&recording.to_string_lossy()).into_owned();
    let input = PageInput {
        summary: &read.summaries.shown,
        diagnosis,
        charts,
        names: &read.names,
        source: Some(&source),
    };
    match html::render(&input) {
        Ok(page) => Ok((page.len() <= MOST_PAGE_BYTES).then_some(page)),
        Err(PageError::NotEmbedded) => Ok(None),
        Err(PageError::Compress(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::recording::RecordingWriter;
    use iowhy_model::script::Script;

    /// Returns a window with a slow read of a hostile file by a hostile process.
    fn window(folder: &Path) -> std::path::PathBuf {
        let window = folder.join("window-1");
        let mut script = Script::new(10);
        let (process, file) = ("<script>\u{1b}[2J", "/srv/\"a\"\u{202e}<b>\nc");
        script.read("sda", 4096).by(7, process).file(file).direct(100, 200, 3_000_000_000).add();
        let mut writer = RecordingWriter::create(&window, &script.environment).unwrap();
        writer.add(&script.batch, &script.names).unwrap();
        writer.finish(&mut script.environment.clone(), &script.names).unwrap();
        window
    }

    #[test]
    fn an_incident_has_a_page_if_this_program_can_make_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = IncidentRecord::default();
        let kept = Path::new("/var/lib/iowhy/incidents/000001");
        diagnose_window(&window(folder.path()), folder.path(), kept, &mut record).unwrap();
        assert!(folder.path().join(FINDINGS).exists());
        let page = folder.path().join(PAGE);
        assert_eq!(page.exists(), html::is_embedded());
        if let Ok(text) = std::fs::read_to_string(page) {
            assert!(text.contains("/var/lib/iowhy/incidents/000001/recording"));
            assert!(!text.contains("<script>\u{1b}") && !text.contains("<b>"), "markup");
            assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "control characters");
        }
    }
}
