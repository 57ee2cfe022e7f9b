//! Names that are like one that does not exist.
//!
//! What does not belong here: which names there are.

use iowhy_model::compact_sort::CompactSort;

/// Names that are shown at most.
const MOST: usize = 3;
/// Likeness (Jaro-Winkler, 0 to 1) from which a name is offered: clap's own limit.
const LEAST: f64 = 0.7;

/// The largest distance of another name's likeness from the best. Chosen: `reprot` is `report`, and
/// neither `reproduce` nor `export`.
const CLOSE: f64 = 0.05;

/// The names that `word` may have meant, the likeliest first: those that contain it, else those
/// that are written like it.
pub fn near<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = word.to_lowercase();
    let likeness = |name: &str| match !lower.is_empty() && name.to_lowercase().contains(&lower) {
        true => 2.0 - name.len() as f64 / 1e3,
        false => strsim::jaro_winkler(&lower, &name.to_lowercase()),
    };
    let mut found: Vec<(f64, &str)> = names.map(|name| (likeness(name), name)).collect();
    found.retain(|(likeness, _)| *likeness > LEAST);
    found.compact_sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let best = found.first().map_or(0.0, |(likeness, _)| *likeness);
    found.retain(|(likeness, _)| *likeness > best - CLOSE);
    found.dedup_by(|a, b| a.1 == b.1);
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// `did you mean a or b?`; nothing where no name is near.
pub fn question<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let found = near(word, names);
    let (last, others) = found.split_last()?;
    Some(match others {
        [] => format!("did you mean {last}?"),
        others => format!("did you mean {} or {last}?", others.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_a_part_or_by_its_letters() {
        let names = ["fsync-heavy", "slow-reads", "journal-commit", "report"];
        let found = |word| near(word, names.into_iter());
        assert_eq!(found("fsync"), ["fsync-heavy"]);
        assert_eq!(found("reprot"), ["report"]);
        assert_eq!(found("SLOW"), ["slow-reads"]);
        assert!(found("zzz").is_empty());
        assert!(found("").is_empty());
        assert_eq!(question("reprot", names.into_iter()).unwrap(), "did you mean report?");
        assert_eq!(question("zzz", names.into_iter()), None);
    }
}
