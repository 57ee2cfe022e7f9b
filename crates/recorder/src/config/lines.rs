//! The line of a setting in the configuration, so that an error can name it.
//!
//! What does not belong here: what is wrong with a setting.

use toml::de::{DeTable, DeValue};

/// Settings that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The setting as a path, for example `watch.budget` or `trigger.when.0.above`.
    pub key: &'static str,
    /// For a setting in a list: its place in the list `key`, and its name there.
    pub item: Option<(usize, &'static str)>,
    /// The contradiction.
    pub reason: String,
}

impl Contradiction {
    /// Makes a contradiction about the setting `key`.
    pub fn new(key: &'static str, reason: impl Into<String>) -> Contradiction {
        Contradiction { key, item: None, reason: reason.into() }
    }

    /// Returns the line in `text`, from 1, of the setting or of the innermost table that it belongs
    /// to; `None` if the text has neither.
    pub fn line(&self, text: &str) -> Option<usize> {
        let mut path: Vec<String> = self.key.split('.').map(str::to_owned).collect();
        if let Some((index, name)) = self.item {
            path.extend([index.to_string(), name.to_owned()]);
        }
        let start = start_of(text, &path)?;
        Some(line_at(text, start))
    }
}

/// Returns the line of the byte offset `start` in `text`, from 1.
pub fn line_at(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or_default().matches('\n').count() + 1
}

/// Returns the offset of the setting, or of the innermost table of its path that exists.
fn start_of(text: &str, path: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_first()?;
    let find = |table: &DeTable<'_>, name: &str| {
        let (key, _) = table.iter().find(|(key, _)| key.get_ref() == name)?;
        Some(key.span().start)
    };
    let mut found = find(document.get_ref(), first)?;
    let mut value = document.get_ref().get(first.as_str()).map(|value| value.get_ref());
    for name in rest {
        let next = match value {
            Some(DeValue::Table(table)) => {
                find(table, name).map(|start| (start, table.get(name.as_str())))
            }
            Some(DeValue::Array(array)) => {
                let item = name.parse().ok().and_then(|index: usize| array.get(index));
                item.map(|item| (item.span().start, Some(item)))
            }
            _ => None,
        };
        let Some((start, inner)) = next else { break };
        found = start;
        value = inner.map(|value| value.get_ref());
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_lines() {
        let text = "keep = \"1m\"\n\n[watch]\n\nbudget = 1\n[[trigger.when]]\nmetric = \"p99\"\n\
                    [[trigger.when]]\nmetric = \"iops\"\nabove = 1\n";
        let line = |key, item| Contradiction { key, item, reason: String::new() }.line(text);
        assert_eq!(line("keep", None), Some(1));
        assert_eq!(line("watch.budget", None), Some(5));
        // A setting that is not set stands where its table begins.
        assert_eq!(line("watch.stacks", None), Some(3));
        assert_eq!(line("before", None), None);
        assert_eq!(line("trigger.when", Some((0, "metric"))), Some(7));
        assert_eq!(line("trigger.when", Some((1, "above"))), Some(10));
        assert_eq!(line("trigger.when", Some((1, "for"))), Some(8));
    }
}
