//! Finds the commands of a page: lines of blocks, and spans of code in the text.

/// A command as a page has it.
#[derive(Debug)]
pub struct PageCommand {
    /// The line of the page, from 1.
    pub line: usize,
    /// The command, without its comment.
    pub text: String,
}

/// The programs whose commands are run.
const PROGRAMS: &[&str] = &["iowhy", "make", "man", "duckdb", "apt", "systemctl"];
/// An option with its value, alone, is one of this command.
const WITH_OPTION: &str = "iowhy report /run/sick";

/// All commands of a page, in its order. A query in a block of its own is one, too.
pub fn commands(page: &str) -> Vec<PageCommand> {
    let mut found: Vec<PageCommand> = Vec::new();
    let mut is_code = false;
    let mut is_open = false;
    // A span that goes on in the next line, and its first line.
    let mut broken: Option<(usize, String)> = None;
    for (at, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            is_code = !is_code;
            is_open = false;
        } else if is_open {
            // A query goes on until its block ends.
            if let Some(query) = found.last_mut() {
                query.text = format!("{} {}", query.text, line.trim());
            }
        } else if is_code {
            let text = without_comment(line.trim_start_matches("$ "));
            is_open = text.starts_with("SELECT ") || text.starts_with("duckdb ");
            if is_open {
                found.push(PageCommand { line: at + 1, text });
            } else {
                // One after the other.
                let parts = text.split("; ").filter(|part| is_command(part));
                found.extend(parts.map(|part| PageCommand { line: at + 1, text: part.to_owned() }));
            }
        } else {
            let (at, text) = match broken.take().filter(|_| !line.is_empty()) {
                Some((at, begun)) => (at, format!("{begun} {line}")),
                None => (at, line.to_owned()),
            };
            if text.matches('`').count() % 2 == 1 {
                broken = Some((at, text));
                continue;
            }
            let spans = text.split('`').skip(1).step_by(2).filter_map(command_of_span);
            found.extend(spans.map(|text| PageCommand { line: at + 1, text }));
        }
    }
    found
}

fn without_comment(line: &str) -> String {
    let command = line.split_once("  #").or_else(|| line.split_once(" # "));
    command.map_or(line, |(command, _)| command).trim().to_owned()
}

/// The command that a span of code is, or that it is an option of.
fn command_of_span(span: &str) -> Option<String> {
    let is_option = span.starts_with('-') && span.contains(' ');
    (is_option || is_command(span)).then(|| match is_option {
        true => format!("{WITH_OPTION} {span}"),
        false => span.to_owned(),
    })
}

/// Whether a text is a command: no program alone except `iowhy`, and no line of a screen.
fn is_command(text: &str) -> bool {
    let text = text.strip_prefix("sudo ").unwrap_or(text);
    let program = text.split(' ').next().unwrap_or_default();
    PROGRAMS.contains(&program) && (text != program || text == "iowhy") && !text.contains(" · ")
}
