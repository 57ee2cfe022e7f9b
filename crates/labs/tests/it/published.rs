//! Files that registries and agents read, by their rules.
//!
//! What does not belong here: whether their commands run (see `documents`).

use crate::architecture::root;
use crate::support::trial;
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("published::server_is_as_the_mcp_registry_wants", server_is_right),
        trial("published::plugin_is_as_its_reference_says", plugin_is_right),
        trial("published::skill_is_as_its_specification_says", skill_is_right),
        trial("published::llms_txt_is_as_its_proposal_says", llms_txt_is_right),
        trial("published::a_wrong_file_is_found", wrong_files_are_found),
    ]
}

fn text(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).context(|| format!("read {name}"))
}

fn json(name: &str) -> Result<Value> {
    serde_json::from_str(&text(name)?).context(|| format!("parse {name}"))
}

/// The rule of a text field: its name, its lengths, whether it is required, its form.
struct TextField {
    name: &'static str,
    length: std::ops::RangeInclusive<usize>,
    required: bool,
    form: fn(&str) -> bool,
}

/// Returns the faults of an object's fields, and the fields that no rule knows.
fn faults(object: &Value, rules: &[TextField], others: &[&str]) -> Vec<String> {
    let Some(fields) = object.as_object() else { return vec!["it is no object".to_owned()] };
    let fault = |rule: &TextField| match fields.get(rule.name) {
        None => rule.required.then(|| format!("{} is missing", rule.name)),
        Some(Value::String(text)) => {
            let is_right = rule.length.contains(&text.chars().count()) && (rule.form)(text);
            (!is_right).then(|| format!("{}: {text:?}", rule.name))
        }
        Some(other) => Some(format!("{} is no text: {other}", rule.name)),
    };
    let is_known = |name: &String| {
        rules.iter().any(|rule| rule.name == name) || others.contains(&name.as_str())
    };
    let unknown = fields.keys().filter(|name| !is_known(name));
    rules.iter().filter_map(fault).chain(unknown.map(|name| format!("{name} is unknown"))).collect()
}

fn field(
    name: &'static str,
    length: std::ops::RangeInclusive<usize>,
    required: bool,
    form: fn(&str) -> bool,
) -> TextField {
    TextField { name, length, required, form }
}

fn any(_: &str) -> bool {
    true
}

fn https(text: &str) -> bool {
    text.starts_with("https://")
}

/// Whether it is `NAMESPACE/NAME`: letters, digits, `.` and `-`, of a name also `_`.
fn is_server_name(text: &str) -> bool {
    let is = |part: &str, marks: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
    };
    text.split_once('/').is_some_and(|(space, name)| is(space, ".-") && is(name, "._-"))
}

/// Whether it is one version, not a range of them.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').next().unwrap_or("").split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

/// Lower case words with hyphens between them.
fn is_kebab(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    text.split('-').all(is_word)
}

/// The rules of the registry's schema of 2025-12-11: `ServerDetail` in
/// <https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json>, of the fields
/// that ours has. If packages or remotes are added, their rules are, too.
fn server_faults(server: &Value) -> Vec<String> {
    let schema = |text: &str| {
        text == "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    };
    let rules = [
        field("$schema", 1..=255, true, schema),
        field("name", 3..=200, true, is_server_name),
        field("title", 1..=100, false, any),
        field("description", 1..=100, true, any),
        field("version", 1..=255, true, is_version),
        field("websiteUrl", 1..=255, false, https),
    ];
    let repository = [
        field("url", 1..=255, true, https),
        field("source", 1..=100, true, is_kebab),
        field("id", 1..=255, false, any),
        field("subfolder", 1..=255, false, |text| !text.starts_with('/') && !text.contains("..")),
    ];
    let mut found = faults(server, &rules, &["repository"]);
    if let Some(inner) = server.get("repository") {
        found.extend(faults(inner, &repository, &[]));
    }
    found
}

/// The rules of Claude Code's reference of plugin manifests
/// (<https://code.claude.com/docs/en/plugins-reference>), of the fields that ours has.
fn plugin_faults(plugin: &Value) -> Vec<String> {
    let rules = [
        field("name", 1..=64, true, is_kebab),
        field("description", 1..=1024, true, any),
        field("version", 5..=64, true, is_version),
        field("homepage", 1..=255, false, https),
        field("repository", 1..=255, false, https),
        field("license", 1..=64, false, any),
    ];
    let author = [field("name", 1..=255, true, any), field("url", 1..=255, false, https)];
    let mut found = faults(plugin, &rules, &["author", "keywords"]);
    found.extend(faults(&plugin["author"], &author, &["email"]));
    let keywords = plugin["keywords"].as_array();
    if keywords.is_none_or(|words| words.iter().any(|word| !word.is_string())) {
        found.push("keywords are no texts".to_owned());
    }
    found
}

/// The links of a list: `- [NAME](TARGET): NOTE`, of which the note may be left out.
fn link(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("- [")?.split_once("](")?;
    let (target, note) = rest.split_once(')')?;
    let is_note = note.is_empty() || note.strip_prefix(": ").is_some_and(|note| !note.is_empty());
    (!name.is_empty() && !target.is_empty() && is_note).then_some(target)
}

/// The form of <https://llmstxt.org>: one heading with the project's name, a quotation with its
/// summary, text without headings, then sections that are lists of links, `Optional` last.
fn llms_faults(text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut fault = |what: String| found.push(what);
    let mut lines = text.lines().filter(|line| !line.is_empty());
    if !lines.next().is_some_and(|line| line.starts_with("# ")) {
        fault("it does not begin with a heading".to_owned());
    }
    if !lines.next().is_some_and(|line| line.starts_with("> ")) {
        fault("its name is not followed by a quotation".to_owned());
    }
    let mut section = None;
    for line in lines {
        match (line.strip_prefix("## "), section) {
            (Some(_), Some("Optional")) => fault(format!("{line} stands behind Optional")),
            (Some(name), _) => section = Some(name),
            (None, _) if line.starts_with('#') => {
                fault(format!("a heading of another level: {line}"))
            }
            (None, None) => {}
            (None, Some(_)) => match link(line) {
                None => fault(format!("no link: {line}")),
                Some(target) if !target.contains("://") && !is_there(target) => {
                    fault(format!("it leads nowhere: {target}"));
                }
                Some(_) => {}
            },
        }
    }
    if section.is_none() {
        fault("it has no section".to_owned());
    }
    found
}

/// The rules of <https://agentskills.io/specification>: a head with name and description.
fn skill_faults(text: &str, folder: &str) -> Vec<String> {
    let head = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    let Some((head, body)) = head else { return vec!["it has no head".to_owned()] };
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let fields: serde_json::Map<String, Value> =
        fields.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let name = fields.get("name").cloned().unwrap_or_default();
    let rules = [field("name", 1..=64, true, is_kebab), field("description", 1..=1024, true, any)];
    let mut found = faults(&fields.into(), &rules, &["license", "compatibility"]);
    if name != folder {
        found.push(format!("its name is not that of its folder: {name}"));
    }
    if body.lines().count() > 500 {
        found.push("it is longer than 500 lines".to_owned());
    }
    found
}

/// Fails with the faults of a file.
fn expect_right(name: &str, found: &[String]) {
    assert!(found.is_empty(), "{name}: {}", found.join("; "));
}

/// The version of all crates.
fn version() -> Result<String> {
    let manifest = text("Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    Ok(line.unwrap_or_default().trim_matches('"').to_owned())
}

fn server_is_right() -> Result<()> {
    let server = json("server.json")?;
    expect_right("server.json", &server_faults(&server));
    assert_eq!(server["version"], version()?.as_str());
    Ok(())
}

fn plugin_is_right() -> Result<()> {
    let plugin = json(".claude-plugin/plugin.json")?;
    expect_right("plugin.json", &plugin_faults(&plugin));
    assert_eq!(plugin["version"], version()?.as_str());
    assert_eq!(plugin["repository"], json("server.json")?["repository"]["url"]);
    Ok(())
}

fn skill_is_right() -> Result<()> {
    expect_right("SKILL.md", &skill_faults(&text("skills/iowhy/SKILL.md")?, "iowhy"));
    Ok(())
}

fn llms_txt_is_right() -> Result<()> {
    let is_there = |target: &str| root().join(target).is_file();
    expect_right("llms.txt", &llms_faults(&text("llms.txt")?, is_there));
    // AGENTS.md has no form of its own but Markdown: a heading, and links that lead somewhere.
    let agents = text("AGENTS.md")?;
    assert!(agents.starts_with("# "), "AGENTS.md");
    let links = agents.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let broken: Vec<&str> = links.filter(|link| !link.contains("://") && !is_there(link)).collect();
    assert!(broken.is_empty(), "AGENTS.md: {broken:?}");
    Ok(())
}

fn wrong_files_are_found() -> Result<()> {
    let changed = |name: &str, field: &str, value: Value| -> Result<Value> {
        let mut file = json(name)?;
        file[field] = value;
        Ok(file)
    };
    for (field, value) in [
        ("name", "iowhy".into()),
        ("description", "x".repeat(101).into()),
        ("version", "^0.1.0".into()),
        ("repository", serde_json::json!({"url": "https://example.org"})),
        ("homepage", "https://example.org".into()),
    ] {
        let faults = server_faults(&changed("server.json", field, value)?);
        assert_eq!(faults.len(), 1, "{field}: {faults:?}");
    }
    for (field, value) in
        [("name", "io why".into()), ("keywords", "disk".into()), ("author", Value::Null)]
    {
        let faults = plugin_faults(&changed(".claude-plugin/plugin.json", field, value)?);
        assert_eq!(faults.len(), 1, "{field}: {faults:?}");
    }
    let right = "# a\n\n> b\n\ntext\n\n## Use\n\n- [c](d): e\n";
    assert!(llms_faults(right, |_| true).is_empty());
    for (wrong, is_there) in [
        ("text\n\n> b\n\n## Use\n\n- [c](d): e\n", true),
        ("# a\n\ntext\n\n## Use\n\n- [c](d)\n", true),
        ("# a\n\n> b\n", true),
        ("# a\n\n> b\n\n## Use\n\n- c\n", true),
        ("# a\n\n> b\n\n## Optional\n\n- [c](d)\n\n## Use\n\n- [c](d)\n", true),
        (right, false),
    ] {
        assert_eq!(llms_faults(wrong, |_| is_there).len(), 1, "{wrong}");
    }
    assert_eq!(skill_faults("---\nname: a\ndescription: b\n---\ntext\n", "b").len(), 1);
    Ok(())
}
