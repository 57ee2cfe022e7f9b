//! The screen of `iowhy top` as text at several sizes, through its own keys.

use crate::scenes;
use crate::screens::compare;
use iowhy_diagnosis::moments::{MomentCutter, MomentSpan, RecordedMoments};
use iowhy_model::metric::process_subject;
use iowhy_model::script::Script;
use iowhy_model::{Environment, Metric};
use iowhy_views::escape;
use iowhy_views::style::Style;
use iowhy_views::top::{TopAction, TopKey, TopModel, TopState, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::{Position, Rect};
use std::sync::LazyLock;

/// A source in the terms of the screen, in seconds as a recording is cut.
fn model(script: &Script, style: Style) -> TopModel {
    let mut moments = RecordedMoments::new(&script.environment);
    for batch in script.source(7).batches {
        moments.add(&batch, false, &script.environment, &script.names);
    }
    let all = moments.finish(&script.environment, &script.names);
    TopModel::recorded(&script.environment, "/srv/rec".to_owned(), all, style)
}

/// An impossible time in a recording does not fill the decades before it with moments.
#[test]
fn a_recording_with_one_wrong_time_has_few_moments() {
    let century_ns = 100 * 365 * 86_400 * 1_000_000_000_u64;
    let mut script = Script::new(3);
    script.read("sda", 4096).at(0).direct(0, 0, 1000).add();
    script.read("sda", 4096).at(century_ns.cast_signed()).direct(0, 0, 1000).add();
    let environment = Environment { end_ns: 0, ..script.environment.clone() };
    let mut moments = RecordedMoments::new(&environment);
    for batch in script.source(1).batches {
        moments.add(&batch, true, &environment, &script.names);
    }
    let (_, all) = moments.finish(&environment, &script.names);
    assert!(all.len() <= 3, "{}", all.len());
}

/// Presses keys: a letter each, and names in angle brackets.
fn press(state: &mut TopState, model: &TopModel, keys: &[&str]) -> Option<TopAction> {
    let mut action = None;
    for key in keys {
        let key = match *key {
            "Enter" => TopKey::Enter,
            "Esc" => TopKey::Esc,
            "Down" => TopKey::Down,
            "Up" => TopKey::Up,
            "Left" => TopKey::Left,
            "Right" => TopKey::Right,
            "End" => TopKey::End,
            "Tab" => TopKey::Tab,
            letter => TopKey::Char(letter.chars().next().unwrap()),
        };
        action = state.press(key, model);
    }
    action
}

/// The screen as text.
fn screen(model: &TopModel, state: &TopState, (columns, rows): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(model, state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in 0..rows {
        let mut line = String::new();
        let mut skip = 0;
        for column in 0..columns {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(column, row)].symbol();
            skip = escape::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn shown(model: &TopModel, keys: &[&str], size: (u16, u16)) -> String {
    let mut state = TopState::default();
    press(&mut state, model, keys);
    screen(model, &state, size)
}

/// A busy host.
static JENKINS: LazyLock<TopModel> = LazyLock::new(|| model(&scenes::jenkins(), Style::plain(80)));

fn golden(name: &str, found: &str) {
    compare(&format!("tests/it/screens/top/{name}.txt"), found);
}

#[test]
fn every_table_at_every_size() {
    for size in [(80, 24), (120, 40), (40, 12)] {
        golden(&format!("devices-{}x{}", size.0, size.1), &shown(&JENKINS, &["1"], size));
        golden(&format!("keys-{}x{}", size.0, size.1), &shown(&JENKINS, &["?"], size));
    }
    for (key, name) in [("2", "processes"), ("3", "files"), ("4", "waits"), ("5", "stages")] {
        golden(&format!("{name}-80x24"), &shown(&JENKINS, &[key], (80, 24)));
    }
    golden("findings-80x24", &shown(&JENKINS, &["0"], (80, 24)));
}

#[test]
fn a_line_opens_to_its_code_path_and_back() {
    let steps = ["1", "Enter", "Enter", "Enter", "End", "Enter"];
    for depth in 1..steps.len() {
        golden(&format!("opened-{depth}-80x24"), &shown(&JENKINS, &steps[..=depth], (80, 24)));
    }
    let back = [&steps[..], &["Esc", "Esc", "Esc", "Esc"]].concat();
    assert_eq!(shown(&JENKINS, &back, (80, 24)), shown(&JENKINS, &["1"], (80, 24)));
    golden("waited-80x24", &shown(&JENKINS, &["4", "Enter"], (80, 24)));
}

#[test]
fn seconds_of_a_recording_can_be_stepped_through() {
    let model = &*JENKINS;
    let all = screen(model, &TopState::default(), (120, 40));
    let mut state = TopState::default();
    press(&mut state, model, &["Right"]);
    let first = screen(model, &state, (120, 40));
    assert!(state.is_paused() && first != all, "{first}");
    press(&mut state, model, &["Left"]);
    assert_eq!(screen(model, &state, (120, 40)), first, "there is none before the first");
    press(&mut state, model, &[" "]);
    assert_eq!(screen(model, &state, (120, 40)), all);
}

#[test]
fn the_filter_and_the_order_choose_lines() {
    golden("filtered-80x24", &shown(&JENKINS, &["3", "/", "l", "o", "g", "Enter"], (80, 24)));
    let none = shown(&JENKINS, &["/", "n", "o", "n", "e", "Enter"], (80, 24));
    assert!(none.contains("nothing here has \"none\" in its name"), "{none}");
    let unfiltered = shown(&JENKINS, &["/", "n", "o", "Enter", "Esc"], (80, 24));
    assert_eq!(unfiltered, shown(&JENKINS, &[], (80, 24)));
    // A letter of the filter is no key.
    let model = &*JENKINS;
    let mut state = TopState::default();
    assert_eq!(press(&mut state, model, &["/", "q"]), None);
    assert_eq!(press(&mut state, model, &["Esc", "q"]), Some(TopAction::Quit));
    let by_reads = shown(&JENKINS, &["1", ">", ">"], (80, 24));
    assert!(by_reads.contains("order: r/s"), "{by_reads}");
    let wrapped = shown(&JENKINS, &["1", "<"], (80, 24));
    assert!(wrapped.contains("order: w_await"), "{wrapped}");
}

/// Whatever a name holds, no cell of the screen is a control, and no line is wider than the screen.
#[test]
fn names_can_do_nothing_to_the_terminal() {
    let model = model(&scenes::hostile(), Style::plain(80));
    for keys in [&["1"][..], &["2"], &["3"], &["4"], &["5"], &["0"], &["Enter"], &["4", "Enter"]] {
        for size in [(80, 24), (40, 12), (200, 60)] {
            let found = shown(&model, keys, size);
            let bad = |char: &char| char.is_control() && *char != '\n';
            assert_eq!(found.chars().find(bad), None, "{keys:?}: {found}");
            let is_bidi = |char: char| ('\u{202a}'..='\u{202e}').contains(&char);
            assert!(!found.contains(is_bidi), "{keys:?}: {found}");
            let columns = usize::from(size.0);
            assert!(found.lines().all(|line| escape::width(line) <= columns), "{found}");
        }
    }
    golden("hostile-80x24", &shown(&model, &["3"], (80, 24)));
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    for size in [(1, 1), (3, 2), (10, 3), (40, 5), (20, 24), (500, 2), (400, 200)] {
        for keys in [&["1"][..], &["?"], &["0"], &["Enter", "Enter"]] {
            let found = shown(&JENKINS, keys, size);
            assert_eq!(found.lines().count(), usize::from(size.1), "{size:?}");
        }
    }
}

#[test]
fn devices_that_are_named_alike_and_none_at_all() {
    let mut script = Script::new(10);
    for index in 0..10_u32 {
        let name = format!("dm-uuid-CRYPT-LUKS2-0123456789abcdef-volume-{index}");
        for _ in 0..=index {
            script.read(&name, 4096).by(7, "cat").direct(0, 0, 1_000_000).add();
        }
    }
    let alike = model(&script, Style::plain(80));
    golden("alike-80x24", &shown(&alike, &["1"], (80, 24)));
    golden("alike-40x12", &shown(&alike, &["1", "Down", "Down"], (40, 12)));
    golden("nothing-80x24", &shown(&model(&Script::new(10), Style::plain(80)), &["1"], (80, 24)));
}

/// A live watch shows each second once it is over, with the diagnosis of the seconds until then.
#[test]
fn a_live_watch_goes_on_while_it_is_paused() {
    let script = scenes::jenkins();
    let begun = Environment { end_ns: 0, finished: false, ..script.environment.clone() };
    let mut model = TopModel::live(&begun, Style::plain(80));
    let mut state = TopState::default();
    golden("waiting-80x24", &screen(&model, &state, (80, 24)));
    let mut cutter = MomentCutter::new(1_000_000_000, &begun);
    for batch in script.source(usize::MAX).batches {
        cutter.add(&batch, &begun, &script.names);
    }
    let mut second = |model: &mut TopModel, number: u64| {
        let until_ns = begun.start_ns + number * 1_000_000_000;
        for moment in cutter.close_until(until_ns, &begun, &script.names) {
            model.history.push(moment);
        }
    };
    (1..=5).for_each(|number| second(&mut model, number));
    golden("live-80x24", &screen(&model, &state, (80, 24)));
    press(&mut state, &model, &["["]);
    let paused = screen(&model, &state, (80, 24));
    assert!(paused.contains("paused, 1 s back"), "{paused}");
    second(&mut model, 6);
    let later = screen(&model, &state, (80, 24));
    assert_eq!(later.replace("2 s back", "1 s back"), paused, "only its age changes");
    press(&mut state, &model, &["]", "]", " "]);
    assert!(!screen(&model, &state, (80, 24)).contains("paused"));
}

#[test]
fn each_table_has_its_own_order_and_groups_stay_together() {
    let stages = shown(&JENKINS, &["5"], (80, 24));
    assert_eq!(shown(&JENKINS, &["1", "r", "5"], (80, 24)), stages, "the order of another table");
    assert_eq!(shown(&JENKINS, &["5", "r"], (80, 24)), stages, "the rows of a device are split");
    let reversed = shown(&JENKINS, &["2", "r"], (80, 24));
    assert!(reversed.contains("order: bytes reversed"), "{reversed}");
    assert!(shown(&JENKINS, &["2", "r", "r"], (80, 24)) == shown(&JENKINS, &["2"], (80, 24)));
}

#[test]
fn idle_rows_can_be_hidden() {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(7, "cat").direct(0, 0, 1_000_000).add();
    for (pid, name) in [(7, "cat"), (8, "tmux")] {
        for at in [0, 9_000_000_000] {
            script.sample(at, Metric::CausedRead, &process_subject(pid, name), 0.0);
        }
    }
    let model = model(&script, Style::plain(80));
    let all = shown(&model, &["2"], (80, 24));
    let active = shown(&model, &["2", "o"], (80, 24));
    assert!(all.contains("cat") && active.contains("cat"), "{active}");
    assert!(all.contains("tmux") && !active.contains("tmux"), "{all}{active}");
    assert_eq!(shown(&model, &["2", "o", "o"], (80, 24)), all);
}

/// Sums of a live watch: those that were asked for, as of now.
#[test]
fn seconds_can_be_added_up() {
    let script = scenes::jenkins();
    let begun = Environment { end_ns: 0, finished: false, ..script.environment.clone() };
    let mut model = TopModel::live(&begun, Style::plain(80));
    let mut cutter = MomentCutter::new(1_000_000_000, &begun);
    for batch in script.source(usize::MAX).batches {
        cutter.add(&batch, &begun, &script.names);
    }
    let until_ns = begun.start_ns + 6_000_000_000;
    let moments = cutter.close_until(until_ns, &begun, &script.names);
    let single: u64 = moments.iter().map(|moment| moment.requests).sum();
    moments.into_iter().for_each(|moment| model.history.push(moment));
    let mut state = TopState::default();
    assert!(cutter.sum(state.span(), until_ns, &begun, &script.names).is_none());
    for word in ["sum of 6.00 s", "sum of 6.00 s", "all 6.00 s"] {
        press(&mut state, &model, &["a"]);
        let sum = cutter.sum(state.span(), until_ns, &begun, &script.names).unwrap();
        // Requests that had not ended then are in no second that is over.
        assert!(sum.requests >= single && single > 0, "{} {single}", sum.requests);
        model.sums(state.span(), sum);
        let screen = screen(&model, &state, (120, 24));
        assert!(screen.contains(word), "{screen}");
    }
    press(&mut state, &model, &["a"]);
    assert_eq!(state.span(), MomentSpan::One);
}

/// Nothing is coloured where no colour is wanted; what is selected is marked all the same.
#[test]
fn without_colour_nothing_is_lost() {
    let script = scenes::jenkins();
    for (colour, unicode) in [(false, true), (true, true), (false, false)] {
        let style = Style { colour, unicode, ..Style::plain(80) };
        let model = model(&script, style);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let state = TopState::default();
        terminal.draw(|frame| draw(&model, &state, frame)).unwrap();
        let cells = &terminal.backend().buffer().content;
        let coloured = cells.iter().any(|cell| cell.fg != ratatui::style::Color::Reset);
        assert!(colour || !coloured);
        assert!(unicode || cells.iter().all(|cell| cell.symbol().is_ascii()));
        assert!(screen(&model, &state, (80, 24)).contains("\n> "));
    }
}

#[test]
fn a_click_does_what_is_under_it() {
    let area = Rect::new(0, 0, 80, 24);
    let mut state = TopState::default();
    // Clicks on the first place where the screen has a text.
    let click = |state: &mut TopState, text: &str| {
        let shown = screen(&JENKINS, state, (area.width, area.height));
        let found = shown.lines().enumerate().find_map(|(row, line)| {
            let at = line.find(text)?;
            Some(Position::new(escape::width(&line[..at]) as u16, row as u16))
        });
        state.click(found.unwrap_or_else(|| panic!("no {text:?} in\n{shown}")), area, &JENKINS);
        screen(&JENKINS, state, (area.width, area.height))
    };
    let by_keys = |keys: &[&str]| shown(&JENKINS, keys, (area.width, area.height));
    assert_eq!(click(&mut state, "1 devices"), by_keys(&["1"]));
    assert_eq!(click(&mut state, "w/s"), by_keys(&["1", ">", ">", ">"]));
    assert_eq!(click(&mut state, "w/s"), by_keys(&["1", ">", ">", ">", "r"]));
    click(&mut state, "w/s");
    let opened = click(&mut state, "> ");
    assert_eq!(opened, by_keys(&["1", ">", ">", ">", "Enter"]));
    assert_eq!(click(&mut state, "devices >"), by_keys(&["1", ">", ">", ">"]));
    assert_eq!(click(&mut state, "WHY"), by_keys(&["1", "0"]));
    assert_eq!(click(&mut state, "6 units"), by_keys(&["6"]));
    state.wheel(true, &JENKINS);
    let moved = screen(&JENKINS, &state, (area.width, area.height));
    assert_eq!(moved, by_keys(&["6", "Down", "Down", "Down"]));
    // A filter that is being typed is kept, and the click is not a part of it.
    press(&mut state, &JENKINS, &["/", "x"]);
    assert_eq!(click(&mut state, "1 devices"), by_keys(&["1", ">", ">", ">"]));
    assert_eq!(press(&mut state, &JENKINS, &["q"]), Some(TopAction::Quit));
    click(&mut state, "6 units");
    state.wheel(true, &JENKINS);
    // Outside of everything.
    state.click(Position::new(500, 500), area, &JENKINS);
    assert_eq!(screen(&JENKINS, &state, (area.width, area.height)), moved);
}
