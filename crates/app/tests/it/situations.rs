//! Outputs in `docs/screens.md` and the pages of `docs/situations` are those of this program:
//! `<!-- run: COMMAND -->` stands before each. After a change that is meant, run this with
//! `IOWHY_BLESS=1`, read each page as the person who has the trouble, and commit them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const RUN: &str = "<!-- run: iowhy ";
const FENCE: &str = "```\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the output of a command on a terminal of 80 columns without colour.
fn printed(command: &str) -> String {
    let mut iowhy = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    iowhy.args(command.split(' ')).current_dir(root()).stdin(Stdio::null());
    iowhy.env("NO_COLOR", "1").env("COLUMNS", "80").env("LC_ALL", "C.UTF-8");
    let output = iowhy.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A page with the outputs of now, and how many there are.
fn current(page: &str) -> (String, usize) {
    let mut parts = page.split(RUN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for part in parts {
        let (command, rest) = part.split_once(" -->\n").unwrap();
        let (_, rest) = rest.split_once(FENCE).unwrap();
        let after = rest.strip_prefix(FENCE).or_else(|| Some(rest.split_once("\n```\n")?.1));
        let shown = printed(command);
        let shown = shown.trim_end();
        assert!(!shown.is_empty(), "{command} prints nothing");
        text.push_str(&format!("{RUN}{command} -->\n{FENCE}{shown}\n{FENCE}{}", after.unwrap()));
        count += 1;
    }
    (text, count)
}

#[test]
fn pages_show_what_this_program_prints() {
    let folder = std::fs::read_dir(root().join("docs/situations")).unwrap();
    let mut outputs = 0;
    let screens = root().join("docs/screens.md");
    for path in folder.map(|entry| entry.unwrap().path()).chain([screens]) {
        let page = std::fs::read_to_string(&path).unwrap();
        let (now, count) = current(&page);
        outputs += count;
        if std::env::var_os("IOWHY_BLESS").is_some() {
            std::fs::write(&path, &now).unwrap();
        } else {
            assert_eq!(page, now, "{}: see the top of {}", path.display(), file!());
        }
    }
    assert!(outputs >= 12, "{outputs} outputs");
}

#[test]
fn recordings_of_this_repository_hold_no_strange_names() {
    let labs = std::fs::read_dir(root().join("crates/diagnosis/tests/labs")).unwrap();
    let labs = labs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let labs = labs.map(|name| format!("crates/diagnosis/tests/labs/{name}"));
    let mut count = 0;
    for recording in labs.chain(["demo/recording".to_owned()]) {
        let text = printed(&format!("report --json {recording}"));
        assert!(!text.contains('\u{fffd}'), "{recording} holds bytes that are no text");
        count += 1;
    }
    assert!(count >= 7, "{count} recordings");
}
