//! The tables of scored recordings: the number of right answers, the wrong ones, and the changes.
//!
//! What does not belong here: judging (see [`super::mark`]).

use super::Scored;
use super::mark::ScoreMark;
use std::collections::BTreeMap;

/// The word for a missing finding or answer.
const NOTHING: &str = "nothing";

/// Returns one scene's line.
pub fn line(scored: &Scored) -> String {
    let Scored { name, mark, sentence, .. } = scored;
    let said = scored.said.as_deref().unwrap_or(NOTHING);
    format!("{:<10} {name}: {said}: {sentence}", mark.word())
}

/// Returns the counts of each folder, and which cause was said for which, as Markdown.
pub fn tables(scored: &[Scored]) -> String {
    format!("\n{}\n{}", counts(scored), confusion(scored))
}

/// `| folder | scenes | right | in part | wrong | silent | cried wolf |`; troubles and healthy
/// scenes apart.
fn counts(scored: &[Scored]) -> String {
    let mut folders: BTreeMap<String, Vec<ScoreMark>> = BTreeMap::new();
    for it in scored {
        let folder = it.name.split('/').next().unwrap_or_default();
        let sort = if it.expected.is_some() { "troubles" } else { "healthy" };
        folders.entry(format!("{folder}, {sort}")).or_default().push(it.mark);
    }
    let words: Vec<&str> = ScoreMark::ALL.iter().map(|mark| mark.word()).collect();
    let mut text =
        format!("| scenes | all | {} |\n|---{}|\n", words.join(" | "), "|---:".repeat(6));
    for (folder, marks) in &folders {
        let count =
            |mark: &ScoreMark| marks.iter().filter(|other| *other == mark).count().to_string();
        let counts: Vec<String> = ScoreMark::ALL.iter().map(count).collect();
        text.push_str(&format!("| {folder} | {} | {} |\n", marks.len(), counts.join(" | ")));
    }
    text
}

/// `| right answer | what came first |`.
fn confusion(scored: &[Scored]) -> String {
    let mut said: BTreeMap<&str, BTreeMap<String, u32>> = BTreeMap::new();
    for it in scored {
        let expected = it.expected.as_deref().unwrap_or(NOTHING);
        let first = it.said.as_deref().unwrap_or(NOTHING);
        let mark = if it.mark == ScoreMark::Right { "" } else { "**" };
        *said.entry(expected).or_default().entry(format!("{mark}{first}{mark}")).or_default() += 1;
    }
    let mut text = "| right answer | what came first |\n|---|---|\n".to_owned();
    for (expected, firsts) in said {
        let firsts: Vec<String> = firsts
            .into_iter()
            .map(|(first, count)| if count > 1 { format!("{first} ×{count}") } else { first })
            .collect();
        text.push_str(&format!("| {expected} | {} |\n", firsts.join(", ")));
    }
    text
}

/// Returns the changes since the last run, one line for each scene.
pub fn changes(last: &[Scored], now: &[Scored]) -> Vec<String> {
    let line = |now: &Scored| {
        let before = last.iter().find(|before| before.name == now.name)?;
        let sign = match now.mark.cmp(&before.mark) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Less => "better",
            std::cmp::Ordering::Greater => "worse",
        };
        let (was, is) = (before.mark.word(), now.mark.word());
        Some(format!("{sign}: {}: {was} → {is}", now.name))
    };
    let lines: Vec<String> = now.iter().filter_map(line).collect();
    if lines.is_empty() {
        vec!["No mark has changed since the last run.".to_owned()]
    } else {
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(name: &str, mark: ScoreMark, expected: Option<&str>, said: Option<&str>) -> Scored {
        Scored {
            name: name.to_owned(),
            mark,
            expected: expected.map(str::to_owned),
            said: said.map(str::to_owned),
            sentence: String::new(),
        }
    }

    #[test]
    fn tables_count_marks_and_answers() {
        let all = [
            scored("a/1", ScoreMark::Right, Some("swap-io"), Some("swap-io")),
            scored("a/2", ScoreMark::Right, Some("swap-io"), Some("swap-io")),
            scored("a/3", ScoreMark::Wrong, Some("swap-io"), Some("hung-io")),
            scored("a/4", ScoreMark::Right, None, None),
        ];
        let text = tables(&all);
        assert!(text.contains("| a, troubles | 3 | 2 | 0 | 1 | 0 | 0 |"), "{text}");
        assert!(text.contains("| a, healthy | 1 | 1 | 0 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| swap-io | **hung-io**, swap-io ×2 |"), "{text}");
        assert!(text.contains("| nothing | nothing |"), "{text}");
    }

    #[test]
    fn changes_have_a_direction() {
        let before = [scored("a/1", ScoreMark::Wrong, Some("x"), None)];
        let after = [scored("a/1", ScoreMark::Right, Some("x"), Some("x"))];
        assert_eq!(changes(&before, &after), ["better: a/1: wrong → right"]);
        assert_eq!(changes(&after, &before), ["worse: a/1: right → wrong"]);
        assert_eq!(changes(&after, &after), ["No mark has changed since the last run."]);
        assert_eq!(changes(&[], &after).len(), 1);
    }
}
