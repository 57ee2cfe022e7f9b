//! `iowhy top`: a screen that changes every second, live or of a source.
//!
//! | where | what |
//! |---|---|
//! | here | what is shown, and which keys were pressed |
//! | [`terminal`] | the terminal: taken, drawn on, and given back on every exit |
//! | [`input`] | keys, clicks and sizes, read on a thread of their own |
//! | [`mod@live`] | the watch, on a thread of its own |
//!
//! What does not belong here: what the screen looks like (see [`iowhy_views::top`]).

mod input;
mod live;
mod terminal;

use crate::args::Only;
use crate::args::top::TopArgs;
use crate::commands::record::free_name;
use crate::failure::Failure;
use crate::unprivileged;
use crate::{output, own, sources};
use input::TerminalEvent;
use iowhy_diagnosis::moments::RecordedMoments;
use iowhy_model::source::Source;
use iowhy_views::top::{TopAction, TopModel, TopState, draw};
use live::{FromWatch, LiveTop};
use std::time::Duration;
use terminal::TakenTerminal;

/// The longest wait for a key before the watch is asked for news.
const TICK: Duration = Duration::from_millis(100);
/// Time that the kernel's counters are shown if the privilege for a watch is missing.
const COUNTERS: Duration = Duration::from_secs(2);

/// Shows the screen until the user ends it.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    terminal::require()?;
    match args.paths.is_empty() {
        true => live(args),
        false => recorded(args),
    }
}

fn only(args: &TopArgs) -> Only {
    Only { devices: args.devices.clone(), ..Only::default() }
}

fn live(args: &TopArgs) -> Result<(), Failure> {
    let (watch, environment) = LiveTop::begin(&only(args))
        .map_err(|failure| unprivileged::instead(failure, COUNTERS, false))?;
    let mut model = TopModel::live(&environment, output::style());
    let shown = TakenTerminal::take().and_then(|terminal| {
        show(terminal, &mut model, |model, state, wants_save| {
            if wants_save {
                state.message = Some("saving".to_owned());
                watch.save(free_name());
            }
            watch.want(state.span());
            watch.news().for_each(|news| match news {
                FromWatch::Moment(moment) => model.history.push(*moment),
                FromWatch::Sum(span, moment) => model.sums(span, *moment),
                FromWatch::Saved(said) => state.message = Some(said),
            });
            !watch.has_ended()
        })
    });
    // The terminal is as it was: what the watch has to say can be read.
    let ended = watch.end();
    shown.and(ended)
}

fn recorded(args: &TopArgs) -> Result<(), Failure> {
    let mut source = sources::open(&args.paths, false)?;
    let mut moments = RecordedMoments::new(source.environment());
    let filter = only(args).filter();
    let (names, silent) = sources::read_while(&mut source, &filter, |batch, names, source| {
        moments.add(&own::shown(batch, names), source.is_settled(), source.environment(), names);
        Ok(true)
    })?;
    let mut environment = source.environment().clone();
    environment.keep(&filter);
    let all = moments.finish(&environment, &names);
    let source = sources::words(&args.paths);
    let mut model = TopModel::recorded(&environment, source, all, output::style());
    TakenTerminal::take().and_then(|terminal| {
        show(terminal, &mut model, |model, state, wants_save| {
            if wants_save {
                let source = model.source().unwrap_or_default();
                state.message = Some(format!("{source} is on disk already"));
            }
            true
        })
    })?;
    silent.sentences().for_each(|said| output::note(&said));
    Ok(())
}

/// Draws and reads keys until the user ends it, the terminal goes, or `news` says that it is over.
/// `news` adds what is new, and gets a request when the user wants the last minutes saved.
fn show(
    mut terminal: TakenTerminal,
    model: &mut TopModel,
    mut news: impl FnMut(&mut TopModel, &mut TopState, bool) -> bool,
) -> Result<(), Failure> {
    let mut state = TopState::default();
    let mut seen = u64::MAX;
    let (mut is_stale, mut wants_save) = (true, false);
    loop {
        let message = state.message.clone();
        let goes_on = news(model, &mut state, std::mem::take(&mut wants_save));
        let moments = model.history.pushed();
        is_stale |= moments != seen || state.message != message || model.has_new_sum();
        seen = moments;
        if !goes_on {
            return Ok(());
        }
        if is_stale {
            if !terminal.draw(|frame| draw(model, &state, frame))? {
                return Ok(());
            }
            is_stale = false;
        }
        for event in terminal.events(TICK)? {
            is_stale = true;
            match event {
                TerminalEvent::Gone => return Ok(()),
                TerminalEvent::Resized => (),
                TerminalEvent::Click(at) => state.click(at, terminal.area(), model),
                TerminalEvent::Wheel { down } => state.wheel(down, model),
                TerminalEvent::Key(key) => match state.press(key, model) {
                    Some(TopAction::Quit) => return Ok(()),
                    Some(TopAction::Save) => wants_save = true,
                    None => (),
                },
            }
        }
    }
}
