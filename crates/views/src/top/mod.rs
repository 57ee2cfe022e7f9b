//! The screen of `iowhy top`: findings, then one table at a time, of the second that is shown.
//!
//! | where | what |
//! |---|---|
//! | [`TopModel`] | what there is to show: the watch, its last minutes |
//! | [`TopState`] | what the user chose: table, order, filter, what is opened, which second |
//! | [`draw`] | both as widgets |
//! | `tables` | a table's rows in their order, and what is behind each |
//! | `columns` | the columns of tables that no other view has |
//! | `keys` | the keys, and their page |
//! | `mouse` | clicks and the wheel |
//!
//! What does not belong here: figures (`iowhy_diagnosis::moments`), the terminal, and reading
//! keys.

mod columns;
mod frame;
mod keys;
mod mouse;
mod state;
mod tables;

pub use columns::{OPENED_BY, TopUsedRow, TopWaitedRow, WAITED_BY};
pub use frame::draw;
pub use keys::{KEYS, KeyHelp, TopKey};
pub use state::{TopAction, TopState};

use crate::style::Style;
use iowhy_diagnosis::moments::{History, Moment, MomentSpan};
use iowhy_model::Environment;
use iowhy_model::clock::WallClock;
use std::sync::Arc;

/// The data that can be shown.
#[derive(Debug)]
pub struct TopModel {
    /// The facts of the watch: its host, its filter.
    environment: Environment,
    clock: Option<WallClock>,
    /// The source as a command line names it; `None` of a live watch.
    source: Option<String>,
    /// The moment of all of a source that has an end.
    whole: Option<Arc<Moment>>,
    /// The last minutes of the watch.
    pub history: History,
    /// The latest sum of a longer span of a live watch.
    sum: Option<(MomentSpan, Arc<Moment>)>,
    is_new_sum: bool,
    /// The reason why no more moments come; `None` while they do.
    pub ended: Option<String>,
    /// The style in which the screen is drawn.
    pub style: Style,
}

impl TopModel {
    /// A live watch that has just begun.
    pub fn live(environment: &Environment, style: Style) -> TopModel {
        TopModel {
            clock: WallClock::from_environment(environment),
            environment: environment.clone(),
            source: None,
            whole: None,
            history: History::default(),
            sum: None,
            is_new_sum: false,
            ended: None,
            style,
        }
    }

    /// A source that has an end; `source` is how a command line names it.
    pub fn recorded(
        environment: &Environment,
        source: String,
        (whole, moments): (Moment, Vec<Moment>),
        style: Style,
    ) -> TopModel {
        let mut model = TopModel::live(environment, style);
        (model.source, model.whole) = (Some(source), Some(Arc::new(whole)));
        moments.into_iter().for_each(|moment| model.history.push(moment));
        model
    }

    /// Whether the watch is live.
    pub fn is_live(&self) -> bool {
        self.source.is_none()
    }

    /// The source as a command line names it; `None` of a live watch.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Takes the sum of a span of a live watch.
    pub fn sums(&mut self, span: MomentSpan, moment: Moment) {
        self.sum = Some((span, Arc::new(moment)));
        self.is_new_sum = true;
    }

    /// Whether a sum came since this was last asked.
    pub fn has_new_sum(&mut self) -> bool {
        std::mem::take(&mut self.is_new_sum)
    }

    /// Returns the moment that is shown if no second was chosen: the latest, the latest sum of the
    /// span, or all of a recording.
    fn present(&self, span: MomentSpan) -> Option<&Arc<Moment>> {
        let sum = self.sum.as_ref().filter(|(of, _)| *of == span).map(|(_, moment)| moment);
        self.whole.as_ref().or(sum).or_else(|| self.history.back(0))
    }

    /// The moment that ended at `end_ns`, else the oldest one, with how many are newer.
    fn at(&self, end_ns: u64) -> Option<(usize, &Arc<Moment>)> {
        let steps = (0..self.history.len())
            .find(|steps| self.history.back(*steps).is_some_and(|moment| moment.end_ns <= end_ns));
        let steps = steps.unwrap_or(self.history.len().saturating_sub(1));
        Some((steps, self.history.back(steps)?))
    }
}
