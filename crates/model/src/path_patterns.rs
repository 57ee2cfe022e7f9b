//! Patterns of paths: `/tmp/*/N.txt`.

/// The placeholder of a number in a pattern.
const NUMBER: char = 'N';

/// Replaces every number in a path by `N`: runs of digits, and hexadecimal words that contain a
/// digit.
pub fn without_numbers(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while !rest.is_empty() {
        // A byte that is not ASCII is no letter here: words end between two characters.
        let word = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric());
        let (own, after) = rest.split_at(word.unwrap_or(rest.len()));
        push_word(own, &mut out);
        let gap = after.bytes().position(|byte| byte.is_ascii_alphanumeric());
        let (between, next) = after.split_at(gap.unwrap_or(after.len()));
        out.push_str(between);
        rest = next;
    }
    out
}

fn push_word(word: &str, out: &mut String) {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if !has_digit {
        out.push_str(word);
    } else if word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        out.push(NUMBER);
    } else {
        let mut in_number = false;
        for char in word.chars() {
            if !char.is_ascii_digit() {
                out.push(char);
            } else if !in_number {
                out.push(NUMBER);
            }
            in_number = char.is_ascii_digit();
        }
    }
}

/// Replaces the last name by `*`, and keeps what looks like a suffix: `/tmp/*.txt`. `None` if there
/// is no directory above.
pub fn any_name(pattern: &str) -> Option<String> {
    let (directory, name) = pattern.rsplit_once('/')?;
    let kind = name.rsplit_once('.').map(|(_, kind)| kind).filter(|kind| is_kind(kind));
    Some(match kind {
        Some(kind) => format!("{directory}/*.{kind}"),
        None => format!("{directory}/*"),
    })
}

fn is_kind(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'N')
}

/// Replaces the last directory by `*`: `/tmp/*/N.txt`. `None` without two directories above.
pub fn any_directory(pattern: &str) -> Option<String> {
    let (directory, name) = pattern.rsplit_once('/')?;
    let (above, last) = directory.rsplit_once('/')?;
    (!last.is_empty()).then(|| format!("{above}/*/{name}"))
}

/// The pattern of everything below the second directory. `None` if it is that already.
pub fn any_depth(pattern: &str) -> Option<String> {
    let mut ends = pattern.match_indices('/').map(|(at, _)| at).skip(2);
    let end = ends.next()?;
    let short = format!("{}/**", &pattern[..end]);
    (short.len() < pattern.len() || short != pattern).then_some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_one_letter() {
        for (path, pattern) in [
            ("/tmp/d17/4711.txt", "/tmp/dN/N.txt"),
            ("/a/3f2a9c-77/beef", "/a/N-N/beef"),
            ("/var/lib/x86_64", "/var/lib/xN_N"),
            ("loop0:/é9/b", "loopN:/éN/b"),
            ("", ""),
            ("/", "/"),
        ] {
            assert_eq!(without_numbers(path), pattern);
        }
    }

    #[test]
    fn names_and_directories_widen() {
        assert_eq!(any_name("/tmp/a.txt").as_deref(), Some("/tmp/*.txt"));
        assert_eq!(any_name("/tmp/tmp.QxYzAb").as_deref(), Some("/tmp/*"));
        assert_eq!(any_directory("/tmp/a/N.txt").as_deref(), Some("/tmp/*/N.txt"));
        assert_eq!(any_directory("/N.txt"), None);
        assert_eq!(any_depth("/a/b/c/d").as_deref(), Some("/a/b/**"));
        assert_eq!(any_depth("/a/b/**"), None);
        assert_eq!(any_depth("/a/b"), None);
    }
}
