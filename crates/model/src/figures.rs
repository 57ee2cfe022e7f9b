//! Numbers in sentences: readable digits, and nouns that agree with them.
//!
//! What does not belong here: units (views and the diagnosis choose them), and sentences.

/// `13,920`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, never fewer than the integer part: `1.20`, `16.7`, `631`.
pub fn three(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// `1 request`, `13,920 requests`, `2 processes`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{} {}", grouped(count), noun_for(count, noun))
}

/// The noun behind `count`: `request`, `requests`, `processes`, `directories`.
pub fn noun_for(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with('s') => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// `3 requests that have no record`, `1 request that has no record`.
pub fn counted(count: u64, several: &str) -> String {
    match count {
        1 => format!("1 {}", of_one(several)),
        _ => format!("{} {several}", grouped(count)),
    }
}

/// Turns half a sentence about several into one about a single thing: `request that has no record`
/// of `requests that have no record`.
pub fn of_one(several: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = several;
    while let Some((word, behind)) = first_word(rest) {
        let is_relative = matches!(word, "that" | "which");
        if let Some(verb) = verb_of_one(word) {
            words.push(verb.to_owned());
            return joined(words, behind);
        }
        if is_relative || PREPOSITIONS.contains(&word) {
            words.push(word.to_owned());
            return match first_word(behind)
                .and_then(|(next, last)| Some((verb_of_one(next)?, last)))
            {
                Some((verb, last)) if is_relative => {
                    words.push(verb.to_owned());
                    joined(words, last)
                }
                _ => joined(words, behind),
            };
        }
        words.push(if word == "and" { "or".to_owned() } else { noun_of_one(word) });
        rest = behind;
        if word.ends_with(':') {
            break;
        }
    }
    joined(words, rest)
}

/// Words that end the counted noun phrase.
const PREPOSITIONS: &[&str] = &[
    "of", "whose", "with", "without", "beyond", "during", "among", "from", "given", "issued",
    "dropped",
];

fn first_word(text: &str) -> Option<(&str, &str)> {
    match text.split_once(' ') {
        Some(both) => Some(both),
        None => (!text.is_empty()).then_some((text, "")),
    }
}

fn joined(mut words: Vec<String>, rest: &str) -> String {
    words.extend((!rest.is_empty()).then(|| rest.to_owned()));
    words.join(" ")
}

fn verb_of_one(word: &str) -> Option<&'static str> {
    Some(match word {
        "are" => "is",
        "were" => "was",
        "have" => "has",
        "do" => "does",
        _ => return None,
    })
}

/// `request` from `requests`; punctuation behind the word is kept.
fn noun_of_one(word: &str) -> String {
    let noun = word.trim_end_matches([',', ':', '\'']);
    let behind = &word[noun.len()..];
    let behind = if behind == "'" { "'s" } else { behind };
    let one = match noun {
        _ if noun.ends_with("sses") => noun.strip_suffix("es").map(str::to_owned),
        _ if noun.ends_with("ies") => noun.strip_suffix("ies").map(|stem| format!("{stem}y")),
        _ if noun.ends_with("ss") || noun.starts_with('(') => None,
        _ => noun.strip_suffix('s').map(str::to_owned),
    };
    one.map_or_else(|| word.to_owned(), |one| format!("{one}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        let read = [0, 999, 1_000, 13_920, 9_999_999].map(grouped);
        assert_eq!(read, ["0", "999", "1,000", "13,920", "9,999,999"]);
    }

    #[test]
    fn nouns_agree_with_their_number() {
        let nouns = ["request", "process", "directory", "key"];
        assert_eq!(
            nouns.map(|noun| plural(1, noun)),
            ["1 request", "1 process", "1 directory", "1 key"]
        );
        let many = nouns.map(|noun| noun_for(2, noun));
        assert_eq!(many, ["requests", "processes", "directories", "keys"]);
    }

    #[test]
    fn half_sentences_are_said_of_one() {
        for (several, one) in [
            ("requests that have no record", "request that has no record"),
            ("requests whose end was not seen", "request whose end was not seen"),
            ("records' worth of bytes", "record's worth of bytes"),
            ("events are of devices beyond", "event is of devices beyond"),
            ("processes that are gone", "process that is gone"),
            ("single events dropped: ring buffer full", "single event dropped: ring buffer full"),
            ("names, owners or stacks that found", "name, owner or stack that found"),
            ("removals and renames of files", "removal or rename of files"),
            (
                "removals, renames (counted alone) or opens: too many",
                "removal, rename (counted alone) or open: too many",
            ),
            (
                "io_submit calls with more than 64 requests",
                "io_submit call with more than 64 requests",
            ),
            (
                "completions without a beginning, left out",
                "completion without a beginning, left out",
            ),
            ("segment without its rows", "segment without its rows"),
            ("files", "file"),
            ("", ""),
        ] {
            assert_eq!(of_one(several), one);
        }
    }
}
