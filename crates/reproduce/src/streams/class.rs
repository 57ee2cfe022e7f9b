//! Classes of files: siblings whose names differ in numbers only.
//!
//! What does not belong here: what is done to them.

/// From how many hexadecimal digits on a word is a number, like the segments of a log.
const HEX: usize = 8;

/// The lengths of the words of a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// A class of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileClass {
    /// The path with `N` for each number.
    pub pattern: String,
    /// Whether it is a block device, not a file of a file system.
    pub is_device: bool,
}

impl FileClass {
    /// The class of the device itself.
    pub fn device() -> FileClass {
        FileClass { pattern: "(device)".to_owned(), is_device: true }
    }

    /// The class of a path.
    pub fn from_path(path: &str) -> FileClass {
        if path.starts_with("/dev/") {
            return FileClass::device();
        }
        FileClass { pattern: masked(path), is_device: false }
    }

    /// The last parts of its path, with which a file can be named.
    pub fn name(&self) -> String {
        self.parts().join("_").trim_start_matches('_').chars().take(60).collect()
    }

    /// Returns those parts as a path.
    pub fn path(&self) -> String {
        let parts = self.parts().into_iter();
        let own = |part: &String| !part.is_empty() && !part.trim_matches('.').is_empty();
        let short = |part: String| part.chars().take(60).collect::<String>();
        parts.filter(own).map(short).collect::<Vec<_>>().join("/")
    }

    fn parts(&self) -> Vec<String> {
        let readable =
            |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let mut parts: Vec<String> = self
            .pattern
            .rsplit('/')
            .take(2)
            .map(|part| part.chars().map(readable).collect())
            .collect();
        parts.reverse();
        parts
    }
}

/// `path` with `N` for each number, and for a long hexadecimal word with a digit.
fn masked(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after_uuid(rest).filter(|_| !out.ends_with(is_of_word)) {
            out.push_str("N-N-N-N-N");
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
        if end == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        let is_hex = word.len() >= HEX && word.chars().all(|c| c.is_ascii_hexdigit());
        match is_hex && word.contains(|c: char| c.is_ascii_digit()) {
            true => out.push('N'),
            false => numbers(word, &mut out),
        }
        rest = after;
    }
    out
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// Returns the rest of `text` behind the UUID with which it begins.
fn after_uuid(text: &str) -> Option<&str> {
    let mut rest = text;
    for (at, length) in UUID.into_iter().enumerate() {
        rest = if at > 0 { rest.strip_prefix('-')? } else { rest };
        let (word, after) = rest.split_at_checked(length)?;
        rest = word.chars().all(|c| c.is_ascii_hexdigit()).then_some(after)?;
    }
    (!rest.starts_with(is_of_word)).then_some(rest)
}

fn numbers(word: &str, out: &mut String) {
    let mut in_number = false;
    for c in word.chars() {
        let is_digit = c.is_ascii_digit();
        match (is_digit, in_number) {
            (true, false) => out.push('N'),
            (true, true) => {}
            (false, _) => out.push(c),
        }
        in_number = is_digit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_one_class() {
        let class = |path: &str| FileClass::from_path(path).pattern;
        assert_eq!(class("/db/000058.sst"), "/db/N.sst");
        assert_eq!(class("/pg_wal/0000000100000000000000A4"), "/pg_wal/N");
        assert_eq!(class("/tmp/9046db9e-fe25-11e8/7.txt"), "/tmp/N-feN-NeN/N.txt");
        assert_eq!(class("/ü1/b"), "/üN/b");
        let uuid = "4c3e1f0a-aabb-4ccc-8ddd-abcdefabcdef";
        assert_eq!(class(&format!("/t/{uuid}/12.txt")), "/t/N-N-N-N-N/N.txt");
        assert_ne!(class(&format!("/t/x{uuid}")), class(&format!("/t/{uuid}")));
        assert!(FileClass::from_path("/dev/sda").is_device);
    }

    #[test]
    fn a_name_is_safe_in_a_job_file() {
        assert_eq!(FileClass::from_path("/a/b c/d$%;.x").name(), "b_c_d___.x");
        assert_eq!(FileClass::from_path("/x").name(), "x");
        assert_eq!(FileClass::from_path("/a/pg wal/0000000100000000000000A4").path(), "pg_wal/N");
        assert_eq!(FileClass::from_path("/x").path(), "x");
    }
}
