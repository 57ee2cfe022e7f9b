//! Steps that a program needs so that its stacks have names: compiled code is in no file.
//!
//! What does not belong here: why a stack is incomplete, which the recording says.

/// Hints that are shown at once.
const MOST: usize = 3;

/// Runtimes that compile code while they run, by the beginning of their process's name, with the
/// option that makes them write a perf map. PID stands for the process.
const RUNTIMES: &[(&str, &str)] = &[
    (
        "java",
        "for the names of Java methods of PID, start it with -XX:+PreserveFramePointer and run \
         `jcmd PID Compiler.perfmap` before a watch",
    ),
    ("node", "for the names of JavaScript functions of PID, start node with --perf-basic-prof"),
    (
        "python3",
        "for the names of Python functions of PID, start Python 3.12 or newer with -X perf \
         (PYTHONPERFSUPPORT=1)",
    ),
    ("ruby", "for the names of Ruby methods of PID, start it with --yjit --yjit-perf (3.3)"),
];

/// The hints for programs with incomplete stacks: their name, and their number if it is known.
pub(super) fn of<'a>(programs: impl Iterator<Item = (&'a str, Option<u32>)>) -> Vec<String> {
    let hint = |(name, pid): (&str, Option<u32>)| {
        let (_, text) = RUNTIMES.iter().find(|(runtime, _)| name.starts_with(runtime))?;
        Some((name.to_owned(), pid, *text))
    };
    let mut found: Vec<_> = programs.filter_map(hint).collect();
    found.sort_unstable();
    found.dedup();
    let word = |pid: Option<u32>| pid.map_or("PID".to_owned(), |pid| pid.to_string());
    found.into_iter().take(MOST).map(|(_, pid, text)| said(text, &word(pid))).collect()
}

fn said(text: &str, pid: &str) -> String {
    format!("hint: {}", text.replace("PID", pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_has_its_hint_and_others_none() {
        let programs =
            [("java", Some(7)), ("java", Some(7)), ("node", None), ("postgres", Some(8))];
        let hints = of(programs.into_iter());
        assert_eq!(hints.len(), 2, "{hints:?}");
        assert!(hints[0].contains("`jcmd 7 Compiler.perfmap`"), "{hints:?}");
        assert!(hints[1].contains("--perf-basic-prof") && hints[1].contains("PID"), "{hints:?}");
        assert!(of([("python3.12", Some(9))].into_iter())[0].contains("-X perf"));
    }

    #[test]
    fn only_a_few_are_shown() {
        assert_eq!(of((1..9).map(|pid| ("java", Some(pid)))).len(), MOST);
    }
}
