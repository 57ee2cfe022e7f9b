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
const PROGRAMS: &[&str] = &["iowhy", "make", "man", "duckdb", "apt"];

/// All commands of a page, in its order. A query in a block of its own is one, too.
pub fn commands(page: &str) -> Vec<PageCommand> {
    let mut found: Vec<PageCommand> = Vec::new();
    let mut is_code = false;
    let mut is_open = false;
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
            let spans = line.split('`').skip(1).step_by(2);
            let spans = spans.filter(|span| is_command(span));
            found.extend(spans.map(|span| PageCommand { line: at + 1, text: span.to_owned() }));
        }
    }
    found
}

fn without_comment(line: &str) -> String {
    let command = line.split_once("  #").or_else(|| line.split_once(" # "));
    command.map_or(line, |(command, _)| command).trim().to_owned()
}

/// Whether a text is a command: no program alone except `iowhy`, and no line of a screen.
fn is_command(text: &str) -> bool {
    let text = text.strip_prefix("sudo ").unwrap_or(text);
    let program = text.split(' ').next().unwrap_or_default();
    PROGRAMS.contains(&program) && (text != program || text == "iowhy") && !text.contains(" · ")
}
