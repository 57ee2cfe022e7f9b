//! The mouse: a click does what a key does for the thing that is under it.
//!
//! What does not belong here: reading the terminal, and where the parts of the screen are (see
//! [`super::frame`]).

use super::TopModel;
use super::frame::{Parts, VisibleRows, step_at};
use super::keys::TopKey;
use super::state::{TopPage, TopState};
use super::tables::table;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;

/// Lines that a notch of the wheel moves by.
const NOTCH: usize = 3;

impl TopState {
    /// Takes a click on a screen of the size `area`: a tab or a step of the way there is opened, a
    /// column orders the table (again: reversed), a row is selected (again: opened), and the
    /// findings are shown in full.
    pub fn click(&mut self, at: Position, area: Rect, model: &TopModel) {
        self.message = None;
        // As Enter does: what is clicked is no part of the filter.
        self.is_filtering = false;
        let parts = Parts::new(model, self, area);
        if parts.tabs.contains(at) {
            self.click_step(at.x, &parts, model);
        } else if self.page.is_some() {
            // A page has nothing to choose.
        } else if parts.reasons.contains(at) {
            self.show(TopPage::Findings);
        } else if parts.body.contains(at) {
            self.click_row(at, parts.body, model);
        }
    }

    /// Takes a turn of the wheel.
    pub fn wheel(&mut self, down: bool, model: &TopModel) {
        for _ in 0..NOTCH {
            self.press(if down { TopKey::Down } else { TopKey::Up }, model);
        }
    }

    fn click_step(&mut self, column: u16, parts: &Parts, model: &TopModel) {
        let place = step_at(self, column - parts.tabs.x, &model.style, parts.tabs.width);
        let Some(place) = place else { return };
        if self.opened.is_empty() {
            return self.choose(place);
        }
        self.page = None;
        while self.opened.len() > place {
            self.go_back();
        }
    }

    fn click_row(&mut self, at: Position, body: Rect, model: &TopModel) {
        let Some((_, moment)) = self.moment(model) else { return };
        let moment = Arc::clone(moment);
        let shown = table(self, &moment, &model.style);
        let visible = VisibleRows::new(shown.as_ref(), self, body, &model.style);
        let line = usize::from(at.y - body.y);
        if line == 0 {
            let order = visible.order_at(shown.as_ref(), at.x - body.x);
            order.into_iter().for_each(|order| self.order_by(order));
            return;
        }
        let row = visible.first + line - 1;
        if row >= shown.len() {
            return;
        }
        match row == visible.selected {
            true => self.open(row, shown.as_ref()),
            false => self.select(row, Some(shown.id(row))),
        }
    }
}
