//! The user's choices, and the keys that change them.

use super::TopModel;
use super::keys::TopKey;
use super::tables::{ShownTable, table};
use iowhy_analysis::summary::{BreakdownAxis, BreakdownSubject};
use iowhy_diagnosis::moments::{Moment, MomentSpan};
use std::sync::Arc;

/// Lines that a page key moves by.
const PAGE: usize = 10;
/// Seconds in which an opened subject is looked for.
const LOOK_BACK: usize = 60;
/// Seconds that `{` and `}` move by.
const LEAP: usize = 10;
/// Characters of a filter.
const MOST_FILTER: usize = 200;

/// The tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TopTable {
    Devices,
    Processes,
    Files,
    Waits,
    Stages,
    Units,
}

impl TopTable {
    pub const ALL: [(TopTable, &'static str); 6] = [
        (TopTable::Devices, "devices"),
        (TopTable::Processes, "processes"),
        (TopTable::Files, "files"),
        (TopTable::Waits, "waits"),
        (TopTable::Stages, "stages"),
        (TopTable::Units, "units"),
    ];
}

/// A page above the tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TopPage {
    /// The findings in full.
    Findings,
    /// The keys.
    Keys,
    /// The functions of a code path.
    CodePath(Box<BreakdownSubject>),
}

/// The action for the binary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopAction {
    /// End.
    Quit,
    /// Save the last minutes.
    Save,
}

/// The user's choices.
#[derive(Debug)]
pub struct TopState {
    pub(super) table: TopTable,
    /// The subjects that were opened, the outermost first: only what belongs to all of them is
    /// shown.
    pub(super) opened: Vec<BreakdownSubject>,
    /// The row selected when each was opened, to be found again on the way back.
    selected_before: Vec<String>,
    selected: usize,
    selected_id: Option<String>,
    /// The order of each table, and of the tables behind a line.
    orders: [usize; TopTable::ALL.len() + 1],
    /// Whether each of them is reversed.
    reversed: [bool; TopTable::ALL.len() + 1],
    /// Whether rows that did nothing are left out.
    pub(super) hides_idle: bool,
    span: MomentSpan,
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    pub(super) page: Option<TopPage>,
    pub(super) scroll: u16,
    /// The end of the moment that is shown, nanoseconds; `None` for now.
    pinned_ns: Option<u64>,
    /// A message of the binary, until the next key.
    pub message: Option<String>,
}

impl Default for TopState {
    fn default() -> TopState {
        TopState {
            table: TopTable::Processes,
            opened: Vec::new(),
            selected_before: Vec::new(),
            selected: 0,
            selected_id: None,
            orders: [0; TopTable::ALL.len() + 1],
            reversed: [false; TopTable::ALL.len() + 1],
            hides_idle: false,
            span: MomentSpan::default(),
            filter: String::new(),
            is_filtering: false,
            page: None,
            scroll: 0,
            pinned_ns: None,
            message: None,
        }
    }
}

impl TopState {
    /// Whether a moment was chosen, so that newer ones change nothing on the screen.
    pub fn is_paused(&self) -> bool {
        self.pinned_ns.is_some()
    }

    /// Returns the span of a live watch that is added up.
    pub fn span(&self) -> MomentSpan {
        self.span
    }

    /// The moment that is shown, and how many are newer. What was opened stays: where the latest
    /// second or sum has nothing of it, the last second that has.
    pub(super) fn moment<'a>(&self, model: &'a TopModel) -> Option<(usize, &'a Arc<Moment>)> {
        if let Some(end_ns) = self.pinned_ns {
            return model.at(end_ns);
        }
        let latest = model.present(self.span).map(|moment| (0, moment));
        let has_it = |moment: &Moment| table(self, moment, &model.style).len() > 0;
        let is_there = latest.is_some_and(|(_, moment)| has_it(moment));
        if !model.is_live() || self.opened.is_empty() || is_there {
            return latest;
        }
        let earlier = (0..LOOK_BACK).map_while(|back| Some((back, model.history.back(back)?)));
        earlier.into_iter().find(|(_, moment)| has_it(moment)).or(latest)
    }

    /// Whether the order of the table that is shown is reversed.
    pub(super) fn is_reversed(&self) -> bool {
        self.reversed.get(self.order_place()).copied().unwrap_or(false)
    }

    /// Whether the first opened subject is a wait class.
    pub(super) fn is_of_waits(&self) -> bool {
        matches!(self.opened.first(), Some(BreakdownSubject::Class(_)))
    }

    /// Returns the axis of the rows behind an opened line; `None` if none is opened.
    pub(super) fn axis(&self) -> Option<BreakdownAxis> {
        if self.opened.is_empty() {
            return None;
        }
        self.next_axis()
    }

    /// The first of process, file and code path that was not opened.
    fn next_axis(&self) -> Option<BreakdownAxis> {
        let axes = [BreakdownAxis::Process, BreakdownAxis::File, BreakdownAxis::CodePath];
        axes.into_iter().find(|axis| self.opened.iter().all(|subject| subject.axis() != *axis))
    }

    pub(super) fn order(&self) -> usize {
        self.orders.get(self.order_place()).copied().unwrap_or(0)
    }

    fn order_place(&self) -> usize {
        let place = TopTable::ALL.iter().position(|(table, _)| *table == self.table);
        if self.opened.is_empty() { place.unwrap_or(0) } else { TopTable::ALL.len() }
    }

    /// Returns the position of the selected row: where it is now, else where it was.
    pub(super) fn selected(&self, shown: &dyn ShownTable) -> usize {
        let found = self.selected_id.as_ref().and_then(|id| {
            let is_same = |index: &usize| shown.id(*index) == *id;
            Some(self.selected).filter(is_same).or_else(|| (0..shown.len()).find(is_same))
        });
        found.unwrap_or(self.selected).min(shown.len().saturating_sub(1))
    }

    /// Takes a key; returns the action for the binary, if any.
    pub fn press(&mut self, key: TopKey, model: &TopModel) -> Option<TopAction> {
        self.message = None;
        if self.is_filtering {
            self.filter_key(key);
            return None;
        }
        if self.page.is_some() && self.page_key(key) {
            return None;
        }
        match key {
            TopKey::Char('q') => return Some(TopAction::Quit),
            TopKey::Char('s') => return Some(TopAction::Save),
            TopKey::Char('?') => self.show(TopPage::Keys),
            TopKey::Char('0') => self.show(TopPage::Findings),
            TopKey::Char(digit @ '1'..='6') => self.choose(digit as usize - '1' as usize),
            TopKey::Tab => self.choose((self.table_place() + 1) % TopTable::ALL.len()),
            TopKey::Char('/') => self.is_filtering = true,
            TopKey::Char('r') => self.reverse(),
            TopKey::Char('o') => self.hides_idle = !self.hides_idle,
            TopKey::Char('a') => self.add_up(model),
            TopKey::Esc | TopKey::Backspace => self.go_back(),
            TopKey::Char(' ') => self.pause(model),
            TopKey::Char('[') | TopKey::Left => self.step(model, 1, true),
            TopKey::Char(']') | TopKey::Right => self.step(model, 1, false),
            TopKey::Char('{') => self.step(model, LEAP, true),
            TopKey::Char('}') => self.step(model, LEAP, false),
            key => self.row_key(key, model),
        }
        None
    }

    fn reverse(&mut self) {
        let place = self.order_place();
        self.reversed
            .iter_mut()
            .skip(place)
            .take(1)
            .for_each(|is_reversed| *is_reversed = !*is_reversed);
    }

    /// Orders the table by the column at a place of its orders, or reverses it.
    pub(super) fn order_by(&mut self, place: usize) {
        if self.order() == place {
            return self.reverse();
        }
        let table = self.order_place();
        self.orders.iter_mut().skip(table).take(1).for_each(|order| *order = place);
    }

    /// Goes on to the next span. A recording is added up already.
    fn add_up(&mut self, model: &TopModel) {
        self.pinned_ns = None;
        if model.is_live() {
            self.span = self.span.next();
        }
    }

    pub(super) fn show(&mut self, page: TopPage) {
        self.page = Some(page);
        self.scroll = 0;
    }

    /// A key on a page; false for one that means the same there as elsewhere.
    fn page_key(&mut self, key: TopKey) -> bool {
        let page = PAGE as u16;
        match key {
            TopKey::Up | TopKey::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            TopKey::Down | TopKey::Char('j') => self.scroll = self.scroll.saturating_add(1),
            TopKey::PageUp => self.scroll = self.scroll.saturating_sub(page),
            TopKey::PageDown => self.scroll = self.scroll.saturating_add(page),
            TopKey::Home => self.scroll = 0,
            TopKey::Esc | TopKey::Backspace | TopKey::Enter => self.page = None,
            TopKey::Char('?') if self.page == Some(TopPage::Keys) => self.page = None,
            TopKey::Char('0') if self.page == Some(TopPage::Findings) => self.page = None,
            _ => return false,
        }
        true
    }

    fn filter_key(&mut self, key: TopKey) {
        match key {
            TopKey::Char(letter) if self.filter.chars().count() < MOST_FILTER => {
                self.filter.push(letter);
            }
            TopKey::Backspace => _ = self.filter.pop(),
            TopKey::Enter => self.is_filtering = false,
            TopKey::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            _ => (),
        }
    }

    fn table_place(&self) -> usize {
        TopTable::ALL.iter().position(|(table, _)| *table == self.table).unwrap_or(0)
    }

    pub(super) fn choose(&mut self, place: usize) {
        if let Some((table, _)) = TopTable::ALL.get(place) {
            self.table = *table;
            self.opened.clear();
            self.selected_before.clear();
            self.select(0, None);
            self.filter.clear();
            self.page = None;
        }
    }

    pub(super) fn select(&mut self, index: usize, id: Option<String>) {
        (self.selected, self.selected_id) = (index, id);
    }

    /// Goes one step out: from the filter, then from the subject opened last.
    pub(super) fn go_back(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else if self.opened.pop().is_some() {
            let before = self.selected_before.pop();
            self.select(0, before);
        }
    }

    fn pause(&mut self, model: &TopModel) {
        self.pinned_ns = match self.pinned_ns {
            Some(_) => None,
            None => model.history.back(0).map(|moment| moment.end_ns),
        };
    }

    /// Goes to an earlier or later moment. From all of a recording its ends are next.
    fn step(&mut self, model: &TopModel, steps: usize, earlier: bool) {
        let oldest = model.history.len().saturating_sub(1);
        let back = match self.pinned_ns.and_then(|end_ns| model.at(end_ns)) {
            Some((back, _)) if earlier => (back + steps).min(oldest),
            Some((back, _)) => back.saturating_sub(steps),
            None if model.is_live() && !earlier => return,
            None if model.is_live() => steps.min(oldest),
            None => {
                if earlier {
                    0
                } else {
                    oldest
                }
            }
        };
        self.pinned_ns = model.history.back(back).map(|moment| moment.end_ns);
    }

    fn row_key(&mut self, key: TopKey, model: &TopModel) {
        let Some((_, moment)) = self.moment(model) else { return };
        let moment = Arc::clone(moment);
        let shown = table(self, &moment, &model.style);
        let at = self.selected(shown.as_ref());
        let last = shown.len().saturating_sub(1);
        let to = match key {
            TopKey::Up | TopKey::Char('k') => at.saturating_sub(1),
            TopKey::Down | TopKey::Char('j') => (at + 1).min(last),
            TopKey::PageUp => at.saturating_sub(PAGE),
            TopKey::PageDown => (at + PAGE).min(last),
            TopKey::Home => 0,
            TopKey::End => last,
            TopKey::Char(turn @ ('<' | '>')) => return self.turn(turn == '>', shown.as_ref()),
            TopKey::Enter => return self.open(at, shown.as_ref()),
            _ => return,
        };
        self.select(to, Some(shown.id(to)));
    }

    fn turn(&mut self, forth: bool, shown: &dyn ShownTable) {
        let count = shown.orders().len();
        let place = self.order_place();
        if let Some(order) = self.orders.get_mut(place).filter(|_| count > 0) {
            let now = (*order).min(count - 1);
            *order = if forth { (now + 1) % count } else { (now + count - 1) % count };
        }
    }

    pub(super) fn open(&mut self, at: usize, shown: &dyn ShownTable) {
        let Some(subject) = shown.subject(at) else { return };
        if let BreakdownSubject::CodePath(_) = subject {
            return self.show(TopPage::CodePath(Box::new(subject)));
        }
        if subject.axis() == BreakdownAxis::CodePath {
            return;
        }
        self.selected_before.push(shown.id(at));
        self.opened.push(subject);
        self.select(0, None);
        self.filter.clear();
    }
}
