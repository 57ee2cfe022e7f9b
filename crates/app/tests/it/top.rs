//! `iowhy top` in a real terminal (tmux). The screens are in `docs/top.md`: after a change that
//! is meant, run this with `IOWHY_BLESS=1`, look at each as the person at 3 a.m., and commit them.

use super::iowhy;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const RECORDING: &str = "demo/recording";
/// The longest wait for a screen, long enough for a machine that is building something else.
const PATIENCE: Duration = Duration::from_secs(60);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A terminal of our own; dropping this ends it.
struct TmuxTerminal {
    socket: String,
}

impl TmuxTerminal {
    /// One of 80 by 24 that runs `iowhy top RECORDING` in a shell, which then tells how it ended
    /// and whether the terminal's settings are what they were.
    fn with(environment: &[&str]) -> TmuxTerminal {
        let program = env!("CARGO_BIN_EXE_iowhy");
        TmuxTerminal::running(&format!(
            "before=$(stty -g); env NO_COLOR=1 {} '{program}' top {RECORDING}; \
             echo \"ended with $?\"; [ \"$before\" = \"$(stty -g)\" ] && echo \"as before\"; \
             sleep 600",
            environment.join(" "),
        ))
    }

    /// One that runs a script of the shell.
    fn running(script: &str) -> TmuxTerminal {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = format!("iowhy-test-{}-{number}", std::process::id());
        let terminal = TmuxTerminal { socket };
        let folder = root();
        let size = ["-x", "80", "-y", "24", "-c", folder.to_str().unwrap()];
        let start = ["-u", "-f", "/dev/null", "new-session", "-d"];
        terminal.tmux([&start[..], &size, &["sh", "-c", script]].concat());
        terminal
    }

    fn shown() -> TmuxTerminal {
        let terminal = TmuxTerminal::with(&[]);
        terminal.wait_for("[2 processes]");
        terminal
    }

    fn tmux<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments).env("LC_ALL", "C.UTF-8");
        let output = command.output();
        let output =
            output.unwrap_or_else(|error| panic!("tmux (scripts/install-deps test): {error}"));
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(["capture-pane", "-p", "-t", ":0"])
    }

    fn press(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(["send-keys", "-t", ":0", key]);
            // An escape right before a letter would be a letter with Alt.
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    /// Types bytes, given as hexadecimal digits, and lets them be read.
    fn send(&self, bytes: &str) {
        let keys = ["send-keys", "-t", ":0", "-H"];
        self.tmux(keys.into_iter().chain(bytes.split(' ')));
        std::thread::sleep(Duration::from_millis(300));
    }

    /// Closes the terminal, with which what runs in it must end.
    fn ends_with_its_terminal(self) {
        let process = PathBuf::from("/proc").join(self.process());
        assert!(process.join("status").exists());
        self.tmux(["kill-server"]);
        let begun = Instant::now();
        while process.join("status").exists() {
            assert!(begun.elapsed() < PATIENCE, "it goes on without a terminal");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn wait_for(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{text:?} is not on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The screen once it has not changed for a while.
    fn settled(&self) -> String {
        let begun = Instant::now();
        let (mut last, mut since) = (self.screen(), Instant::now());
        while since.elapsed() < Duration::from_millis(600) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.screen();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        last
    }

    /// The process that shows the screen: the shell's only child.
    fn process(&self) -> String {
        let shell = self.tmux(["display", "-p", "-t", ":0", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        children.unwrap().trim().to_owned()
    }

    fn signal(&self, process: &str, name: &str) {
        let killed = Command::new("kill").args(["-s", name, process]).status().unwrap();
        assert!(killed.success(), "kill -s {name} {process}");
    }

    /// Checks that the terminal is as it was, with its cursor, and shows its old content.
    fn is_given_back(&self, how: &str) {
        let screen = self.wait_for("as before");
        let flags = self.tmux(["display", "-p", "-t", ":0", "#{alternate_on}#{cursor_flag}"]);
        assert_eq!(flags.trim(), "01", "after {how}:\n{screen}");
        assert!(screen.contains("ended with 0"), "after {how}:\n{screen}");
    }
}

impl Drop for TmuxTerminal {
    fn drop(&mut self) {
        self.tmux(["kill-server"]);
    }
}

#[test]
fn a_terminal_that_is_closed_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let ended = folder.path().join("ended");
    let program = env!("CARGO_BIN_EXE_iowhy");
    let place = ended.display();
    let terminal = TmuxTerminal::running(&format!(
        "trap '' HUP; '{program}' top {RECORDING}; echo $? > '{place}.new'; \
         mv '{place}.new' '{place}'"
    ));
    terminal.wait_for("[2 processes]");
    drop(terminal);
    let begun = Instant::now();
    while !ended.exists() {
        assert!(begun.elapsed() < PATIENCE, "it still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(std::fs::read_to_string(&ended).unwrap().trim(), "0");
}

/// Beginnings of what a terminal reports that have no end: of the mouse, of text that is pasted, of
/// the mouse in its old form. In hexadecimal digits.
const UNFINISHED: &[&str] = &["1b 5b 3c 33 35 3b 31 30", "1b 5b 32 30 30 7e 41", "1b 5b 4d"];

#[test]
fn a_sequence_that_does_not_end_holds_nothing_up() {
    for bytes in UNFINISHED {
        let terminal = TmuxTerminal::shown();
        terminal.send(bytes);
        terminal.signal(&terminal.process(), "TERM");
        terminal.is_given_back(bytes);
    }
}

#[test]
fn a_terminal_that_is_closed_within_a_sequence_ends_it() {
    for bytes in UNFINISHED {
        let program = env!("CARGO_BIN_EXE_iowhy");
        let terminal =
            TmuxTerminal::running(&format!("trap '' HUP; '{program}' top {RECORDING}; true"));
        terminal.wait_for("[2 processes]");
        terminal.send(bytes);
        terminal.ends_with_its_terminal();
    }
}

/// A terminal may be any size that somebody sets.
#[test]
fn a_size_that_cannot_be_takes_no_more_memory() {
    let program = env!("CARGO_BIN_EXE_iowhy");
    let terminal = TmuxTerminal::running(&format!(
        "ulimit -v 4000000; '{program}' top {RECORDING}; echo \"ended with $?\"; sleep 600"
    ));
    terminal.wait_for("[2 processes]");
    terminal.settled();
    let process = terminal.process();
    let tty = terminal.tmux(["display", "-p", "-t", ":0", "#{pane_tty}"]);
    let sized = |rows: &str, columns: &str| {
        let mut stty = Command::new("stty");
        let stty = stty.args(["-F", tty.trim(), "rows", rows, "columns", columns]);
        assert!(stty.status().unwrap().success());
        // Long enough for a backtrace, where memory is refused.
        std::thread::sleep(Duration::from_secs(5));
    };
    sized("65535", "65535");
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.unwrap_or_else(|_| panic!("it ended:\n{}", terminal.screen()));
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most < 300 << 10, "{most} kB");
    sized("24", "80");
    terminal.press(&["1"]);
    terminal.wait_for("[1 devices]");
}

/// The screens of `docs/top.md`: the keys that lead there, and what is said of it.
const SCREENS: &[(&[&str], &str)] = &[
    (&[], "The recording of this repository, all of it: processes, below the line of devices."),
    (&["1"], "Devices: 1."),
    (&["Enter"], "Who used the device: Enter on the first line."),
    (&["Enter", "Enter"], "For which files: Enter once more. Another Enter shows the code paths."),
    (&["Escape", "Escape", "Escape", "4"], "Where threads waited: 4."),
    (&["5"], "The stages of the requests: 5."),
    (&["1", "]"], "The first second alone: 1, then ] (Right)."),
    (&["Space", "0"], "All of it again, and the findings in full: Space, then 0."),
    (&["0", "?"], "The keys: ?."),
];

fn screens() -> String {
    let terminal = TmuxTerminal::shown();
    let mut text = String::new();
    for (keys, sentence) in SCREENS {
        terminal.press(keys);
        let screen = terminal.settled();
        let lines: Vec<&str> = screen.trim_end().lines().map(str::trim_end).collect();
        assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80));
        writeln!(text, "{sentence}\n\n```\n{}\n```\n", lines.join("\n")).unwrap();
    }
    text
}

#[test]
fn the_screens_of_the_manual_are_those_of_a_terminal() {
    const BEGIN: &str =
        "<!-- screens: written by IOWHY_BLESS=1 cargo test -p iowhy --test it top:: -->\n";
    const END: &str = "<!-- screens: end -->";
    let path = root().join("docs/top.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current = format!("{before}{BEGIN}\n{}{END}{after}", screens());
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    assert_eq!(current, std::fs::read_to_string(&path).unwrap(), "see the top of {}", file!());
}

#[test]
fn the_terminal_is_given_back_whichever_way_it_ends() {
    for name in ["TERM", "HUP", "INT"] {
        let terminal = TmuxTerminal::shown();
        terminal.signal(&terminal.process(), name);
        terminal.is_given_back(&format!("SIG{name}"));
    }
    for key in ["q", "C-c"] {
        let terminal = TmuxTerminal::shown();
        terminal.press(&[key]);
        terminal.is_given_back(key);
    }
}

#[test]
fn a_closed_terminal_ends_it() {
    TmuxTerminal::shown().ends_with_its_terminal();
}

#[test]
fn sizes_may_change_as_often_as_they_like() {
    let terminal = TmuxTerminal::shown();
    let before = terminal.settled();
    let process = terminal.process();
    for turn in 0..60_usize {
        let (columns, rows) = [(40, 12), (200, 60), (20, 5), (80, 24), (1, 1)][turn % 5];
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(["resize-window", "-t", ":0", "-x", &columns, "-y", &rows]);
        (0..5).for_each(|_| terminal.signal(&process, "WINCH"));
    }
    terminal.tmux(["resize-window", "-t", ":0", "-x", "40", "-y", "12"]);
    let narrow = terminal.settled();
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(narrow.contains("PID") && narrow.contains("> "), "{narrow}");
    terminal.tmux(["resize-window", "-t", ":0", "-x", "80", "-y", "24"]);
    assert_eq!(terminal.settled(), before);
}

/// Sizes that change faster than it draws may end where they began; what the terminal cut off
/// meanwhile is lost all the same.
#[test]
fn a_size_that_was_another_for_a_moment_is_drawn_anew() {
    let terminal = TmuxTerminal::shown();
    let before = terminal.settled();
    let process = terminal.process();
    terminal.signal(&process, "STOP");
    for (columns, rows) in [("1", "1"), ("80", "24")] {
        terminal.tmux(["resize-window", "-t", ":0", "-x", columns, "-y", rows]);
    }
    let cut = terminal.settled();
    terminal.signal(&process, "CONT");
    assert_ne!(cut, before);
    assert_eq!(terminal.settled(), before);
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let output = iowhy(["top", "nowhere"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("not both a terminal") && message.contains("`iowhy stat 1`"),
        "{message}"
    );
    let terminal = TmuxTerminal::with(&["TERM=dumb"]);
    let screen = terminal.wait_for("ended with 1");
    assert!(screen.contains("TERM is dumb") && screen.contains("iowhy stat 1"), "{screen}");
}
