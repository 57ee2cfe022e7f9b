//! `--html`: the answer as a page in one file.
//!
//! What does not belong here: the page itself (crate `iowhy-views`).

use crate::args::Show;
use crate::failure::Failure;
use crate::output;
use crate::partial::PartialOutput;
use crate::summaries::ReadSource;
use iowhy_analysis::Summaries;
use iowhy_diagnosis::diff::{Comparison, DiffSide};
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_model::Names;
use iowhy_views::html::{self, PageError, PageInput, PageSide};
use iowhy_views::human;
use std::fs;
use std::path::{Path, PathBuf};

/// A file that is not there yet, for a page.
pub struct NewPage<'a> {
    path: &'a Path,
    /// Whether it is one without script, such as the small one for a ticket.
    is_small: bool,
}

impl<'a> NewPage<'a> {
    /// Refuses a file that exists, and a program without the page's script, before anything is
    /// read.
    pub fn check(path: &'a Path) -> Result<NewPage<'a>, Failure> {
        NewPage::checked(path, false)
    }

    /// Refuses a file that exists: the page needs no script.
    pub fn check_plain(path: &'a Path) -> Result<NewPage<'a>, Failure> {
        NewPage::checked(path, true)
    }

    /// The page that the user wants of a watch, if any.
    pub fn wanted(show: &'a Show) -> Result<Option<NewPage<'a>>, Failure> {
        match (&show.html, &show.share) {
            (Some(path), _) => NewPage::checked(path, false).map(Some),
            (None, Some(path)) => NewPage::checked(path, true).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn checked(path: &'a Path, is_small: bool) -> Result<NewPage<'a>, Failure> {
        if !is_small && !html::is_embedded() {
            return Err(failed(path, PageError::NotEmbedded));
        }
        if path.symlink_metadata().is_ok() {
            let message = format!("failed to write {}: the file exists", path.display());
            let hint = "name another file, or remove this one first".to_owned();
            return Err(Failure::new(message, Some(hint)));
        }
        fs::metadata(iowhy_fs::folder_of(path))
            .map_err(|cause| Failure::not_written(path, &cause))?;
        Ok(NewPage { path, is_small })
    }

    /// The directory that it will be written to.
    pub fn folder(&self) -> PathBuf {
        iowhy_fs::folder_of(self.path).to_owned()
    }

    /// Writes the page of one watch; `source` is its source as a command line names it.
    pub fn write(
        &self,
        summaries: &Summaries,
        names: &Names,
        source: Option<&str>,
    ) -> Result<(), Failure> {
        let diagnosis = diagnose(summaries.judged());
        let Some(input) = input(summaries, &diagnosis, names, source) else { return Ok(()) };
        if self.is_small {
            return self.save(&html::share(&input));
        }
        let page = html::render(&input).map_err(|error| failed(self.path, error))?;
        self.save(&page)
    }

    /// Writes the page of two watches.
    pub fn write_diff(
        &self,
        comparison: &Comparison,
        sides: &[DiffSide<'_>; 2],
        read: [&ReadSource; 2],
    ) -> Result<(), Failure> {
        let side = |at: usize| {
            let ReadSource { summaries, names } = read[at];
            let source = Some(sides[at].name);
            let page = input(summaries, sides[at].diagnosis, names, source)?;
            Some(PageSide { name: sides[at].name, page })
        };
        let (Some(a), Some(b)) = (side(0), side(1)) else { return Ok(()) };
        let page = html::compare(comparison, &[a, b]).map_err(|error| failed(self.path, error))?;
        self.save(&page)
    }

    /// A file that somebody made meanwhile stays as it is.
    pub fn save(&self, page: &str) -> Result<(), Failure> {
        let partial = PartialOutput::for_target(self.path)?;
        partial.write(page.as_bytes())?;
        partial.finish_new()?;
        let size = human::bytes(page.len() as f64);
        output::note(&format!("wrote {} ({size})", self.path.display()));
        Ok(())
    }
}

fn input<'a>(
    summaries: &'a Summaries,
    diagnosis: &'a Diagnosis,
    names: &'a Names,
    source: Option<&'a str>,
) -> Option<PageInput<'a>> {
    let charts = summaries.charts.as_ref()?;
    Some(PageInput { summary: &summaries.shown, diagnosis, charts, names, source })
}

fn failed(path: &Path, error: PageError) -> Failure {
    let hint = matches!(error, PageError::NotEmbedded).then(|| {
        "build it again after `scripts/web build`, which needs Node.js and npm; \
         `iowhy report` shows the same on a terminal"
            .to_owned()
    });
    Failure::new(format!("failed to write {}: {error}", path.display()), hint)
}
