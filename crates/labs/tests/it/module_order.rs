//! The order of modules: no module needs another that needs it.
//!
//! What does not belong here: the order of crates, and their walls (see [`super::architecture`]).

use crate::architecture::{expect_none, sources};
use crate::support::trial;
use iowhy_labs::Result;
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};

pub fn tests() -> Vec<Trial> {
    vec![
        trial("architecture::modules_stand_in_an_order", modules_stand_in_an_order),
        trial("architecture::rooms_are_entered_by_their_names", rooms_are_entered_by_their_names),
    ]
}

/// Modules of a crate, or of a folder of one, of which none may need another that needs it: the
/// folder, the prefix of its modules' paths, and the number of them that need others at least (a
/// test that finds fewer is broken). So the code that decoders share (`decode`) needs none of them,
/// and a probe group none that needs it.
const ORDERED: &[(&str, &str, usize)] = &[
    ("capture/src/", "crate::", 6),
    ("capture/src/probes/", "crate::probes::", 3),
    ("model/src/", "crate::", 15),
    ("model/src/recording/", "crate::recording::", 10),
    ("diagnosis/src/", "crate::", 6),
    ("analysis/src/", "crate::", 9),
    ("analysis/src/summary/", "crate::summary::", 5),
    ("analysis/src/sums/", "crate::sums::", 2),
    ("analysis/src/charge/", "crate::charge::", 2),
    ("analysis/src/device/", "crate::device::", 3),
    ("analysis/src/tables/", "crate::tables::", 3),
    ("analysis/src/waits/", "crate::waits::", 2),
    ("analysis/src/waits/blame/", "crate::waits::blame::", 3),
    ("analysis/src/pass/", "crate::pass::", 3),
    ("diagnosis/src/diff/", "crate::diff::", 3),
    ("blktrace/src/", "crate::", 5),
];

/// The module below `folder` that a file belongs to; `None` for the folder's own file and for
/// tests.
fn module_of<'a>(name: &'a str, folder: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(folder)?;
    let first = rest.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "mod", "tests"].contains(&first)).then_some(first)
}

/// Lower-case modules that a path behind `prefix` names: one, or several in braces.
fn named(after: &str) -> Vec<&str> {
    let is_module = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    let first =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::len);
    match after.strip_prefix('{') {
        Some(list) => {
            let list = list.split('}').next().unwrap_or_default();
            let words = list.split(',').map(str::trim);
            words.filter_map(|word| word.get(..first(word)?)).filter(is_module).collect()
        }
        None => {
            first(after).and_then(|end| after.get(..end)).into_iter().filter(is_module).collect()
        }
    }
}

/// Returns the modules of a folder that each one needs.
fn needs(folder: &str, prefix: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in sources(".rs")? {
        if name.ends_with("/tests.rs") {
            continue;
        }
        let Some(module) = module_of(&name, folder) else { continue };
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        // From the folder's own modules `super` is the folder.
        let depth = name[folder.len()..].trim_end_matches("/mod.rs").matches('/').count() + 1;
        let prefixes = [prefix.to_owned(), "super::".repeat(depth)];
        let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (line, prefix) in
            code.flat_map(|line| prefixes.iter().map(move |prefix| (line, prefix)))
        {
            for (at, _) in line.match_indices(prefix.as_str()) {
                let is_longer = line[..at].ends_with("super::");
                let found = named(&line[at + prefix.len()..]);
                let others = found.into_iter().filter(|name| *name != module && *name != "super");
                if !is_longer {
                    needs.entry(module.to_owned()).or_default().extend(others.map(str::to_owned));
                }
            }
        }
    }
    Ok(needs)
}

/// No module needs another that needs it, by however many others.
fn modules_stand_in_an_order() -> Result<()> {
    for (folder, prefix, least) in ORDERED {
        let mut left = needs(folder, prefix)?;
        assert!(left.len() >= *least, "{folder}: only {} modules need others", left.len());
        // Modules that need none of the others are removed, until no more can be.
        loop {
            let keys: BTreeSet<String> = left.keys().cloned().collect();
            let before = left.len();
            left.retain(|_, needed| needed.iter().any(|name| keys.contains(name)));
            if left.len() == before {
                break;
            }
        }
        let circle: Vec<String> = left
            .iter()
            .map(|(module, needed)| {
                let needed: Vec<&str> = needed
                    .iter()
                    .filter(|name| left.contains_key(*name))
                    .map(String::as_str)
                    .collect();
                format!("{folder}{module} needs {}", needed.join(", "))
            })
            .collect();
        expect_none("modules that need each other", &circle);
    }
    Ok(())
}

/// A module of the analysis that imports a type from the crate itself, which re-exports
/// types for others, would have a dependency that no order shows.
fn rooms_are_entered_by_their_names() -> Result<()> {
    const FOLDER: &str = "analysis/src/";
    let files = sources(".rs")?;
    let rooms: BTreeSet<&str> =
        files.iter().filter_map(|(name, _)| module_of(name, FOLDER)).collect();
    assert!(rooms.len() >= 10, "only {} rooms were found", rooms.len());
    let mut found = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| module_of(name, FOLDER).is_some()) {
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let paths = line.split("crate::").skip(1);
            let named = paths.filter_map(|path| path.split([':', ';', '{', ',']).next());
            let others = named.filter(|room| !rooms.contains(room));
            found.extend(others.map(|_| format!("{name}: {}", line.trim())));
        }
    }
    expect_none("imports of the analysis by no room's name", &found);
    Ok(())
}
