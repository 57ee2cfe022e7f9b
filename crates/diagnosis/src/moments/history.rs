//! The last minutes of a watch: at most so many moments in at most so many bytes.

use super::Moment;
use iowhy_analysis::summary::BreakdownSubject;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// The moments of a watch, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    moments: VecDeque<(Arc<Moment>, usize)>,
    /// The subjects that moments share: a process or a stack is mostly the same from second to
    /// second.
    subjects: FxHashSet<Arc<BreakdownSubject>>,
    bytes: usize,
    pushed: u64,
    subject_bytes: usize,
}

impl History {
    /// Moments that are kept: ten minutes of seconds.
    pub const MOMENTS: usize = 600;
    /// Memory that they may take, bytes.
    pub const BYTES: usize = 48 << 20;

    /// Adds the moment that follows the latest; of more than the limits allow the oldest go.
    pub fn push(&mut self, mut moment: Moment) {
        for subject in moment.breakdown.subjects_mut() {
            match self.subjects.get(subject) {
                Some(known) => *subject = Arc::clone(known),
                None => {
                    self.subject_bytes += bytes_of(subject);
                    self.subjects.insert(Arc::clone(subject));
                }
            }
        }
        let bytes = moment.bytes();
        self.bytes += bytes;
        self.pushed += 1;
        self.moments.push_back((Arc::new(moment), bytes));
        while self.moments.len() > 1
            && (self.moments.len() > Self::MOMENTS || self.bytes() > Self::BYTES)
        {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let Some((_, bytes)) = self.moments.pop_front() else { return };
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes() > Self::BYTES / 2 {
            let (subjects, freed) = (&mut self.subjects, &mut self.subject_bytes);
            subjects.retain(|subject| {
                let is_used = Arc::strong_count(subject) > 1;
                *freed = freed.saturating_sub(if is_used { 0 } else { bytes_of(subject) });
                is_used
            });
        }
    }

    /// Roughly the memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes + self.subject_bytes
    }

    /// Returns the number of moments that were ever added.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Returns the number of moments.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// The moment so many before the latest.
    pub fn back(&self, steps: usize) -> Option<&Arc<Moment>> {
        let place = self.moments.len().checked_sub(steps + 1)?;
        self.moments.get(place).map(|(moment, _)| moment)
    }
}

/// Roughly the memory of a subject.
fn bytes_of(subject: &BreakdownSubject) -> usize {
    let names =
        |list: &[String]| list.iter().map(|name| name.len() + size_of::<String>()).sum::<usize>();
    let text = match subject {
        BreakdownSubject::Class(_) => 0,
        BreakdownSubject::Device(text)
        | BreakdownSubject::Unit(text)
        | BreakdownSubject::File { file: text, .. }
        | BreakdownSubject::None(_, text) => text.len(),
        BreakdownSubject::Process(row) => {
            let known = [&row.executable, &row.user, &row.container];
            row.process.len() + known.into_iter().flatten().map(String::len).sum::<usize>()
        }
        BreakdownSubject::CodePath(row) => names(&row.kernel) + names(&row.user),
    };
    size_of::<BreakdownSubject>() + 64 + text
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::{START_NS, Script};

    fn moment(second: u64, files: &[String]) -> Moment {
        let mut script = Script::new(1);
        for file in files {
            script.read("sda", 4096).by(7, "cat").file(file).direct(0, 0, 1_000).add();
        }
        let mut summarizer = iowhy_analysis::Summarizer::new(&script.environment).with_breakdown();
        summarizer.add(&script.batch, &script.names);
        let start_ns = START_NS + second * 1_000_000_000;
        let summary = summarizer.finish(&script.environment, &script.names);
        Moment::new(summary, (start_ns, start_ns + 1_000_000_000))
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut history = History::default();
        for second in 0..History::MOMENTS as u64 + 5 {
            history.push(moment(second, &["/same".to_owned()]));
        }
        assert_eq!(history.len(), History::MOMENTS);
        let oldest = history.back(History::MOMENTS - 1).unwrap();
        assert_eq!(oldest.start_ns, START_NS + 5_000_000_000);
        assert!(history.back(History::MOMENTS).is_none());
        // One of each axis that a request has, however many moments share it.
        assert_eq!(history.subjects.len(), 5);
    }

    #[test]
    fn memory_is_bounded_whatever_the_names() {
        let mut history = History::default();
        for second in 0..40_u64 {
            let file = |index| format!("/{second}/{index}/{}", "x".repeat(60 << 10));
            history.push(moment(second, &(0..50).map(file).collect::<Vec<_>>()));
            assert!(history.bytes() <= History::BYTES + (4 << 20), "{}", history.bytes());
        }
        assert!(history.len() < 40, "{} moments of 3 MiB", history.len());
    }
}
