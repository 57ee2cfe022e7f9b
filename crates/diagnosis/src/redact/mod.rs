//! Names replaced by placeholders, so that a screen or a recording can be given to others.
//!
//! Words are replaced, not whole names: `/srv/acme/orders-2024.db` becomes
//! `/srv/kqwzrtlp/nvxjhgmz-7310.db`. The shape of a name, its well-known words (`words`), its
//! file extension and which names are alike stay, so that patterns of paths and the rules of the
//! diagnosis see what they saw before, and a redacted recording leads to the same findings.
//!
//! | where | what |
//! |---|---|
//! | `words` | the words that stay |
//! | `rows` | which columns hold names, and of what |
//! | `environment` | the same for `recording.json` |
//! | [`source`] | a source whose rows and environment are redacted |
//!
//! A placeholder is a keyed hash of the word (BLAKE3), so the same word has the same placeholder
//! wherever the key is the same, and nobody without the key can try words. Digits of longer numbers
//! are encrypted one by one, so that different numbers stay different.
//!
//! What does not belong here: where the key comes from (the binary), and addresses, sizes, times,
//! process numbers, the kernel's names of devices and functions, which stay.

mod environment;
mod filter;
mod rows;
pub mod source;
mod words;

#[cfg(test)]
mod tests;

pub use source::{RedactedRows, RedactedSource};

use crate::programs;

/// Letters of placeholders: none that a hexadecimal number has, and no vowels, so that no
/// placeholder is a number or a word.
const LETTERS: &[u8; 16] = b"ghjklmnpqrstvwxz";
/// Letters of a placeholder: 32 bits.
const LENGTH: usize = 8;
/// Numbers of so many digits stay: they are versions, partitions, CPUs.
const SHORT_NUMBER: usize = 2;

/// Bytes of a number that are hashed together: fewer than BLAKE3 takes for a tree.
const MOST_HASHED: u64 = 1000;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// The kind of object that a name belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NameKind {
    /// A file, a cgroup, a container, a pod, a volume, a unit, an image: words and punctuation.
    Words,
    /// A process or a thread.
    Process,
    /// A user.
    User,
    /// A command line.
    Arguments,
    /// A function of a program.
    Function,
    /// A device: the kernel's names stay, and those of captures' files are words.
    Device,
    /// A process's number and name, as the subject of its counters.
    Numbered,
    /// A sentence of iowhy that may end with the processes that have a file open.
    Reason,
}

/// Replaces names by placeholders under one key.
#[derive(Clone, Debug)]
pub struct Redactor {
    key: [u8; KEY_BYTES],
}

impl Redactor {
    /// A redactor whose placeholders depend on `key`, which must be secret and is not kept anywhere
    /// else.
    pub const fn new(key: [u8; KEY_BYTES]) -> Redactor {
        Redactor { key }
    }

    /// A key for one recording from a secret of the machine: equal for the same recording on the
    /// same machine, and unrelated for any other.
    pub fn derive_key(secret: &[u8], recording: &[u8]) -> [u8; KEY_BYTES] {
        let mut hasher = blake3::Hasher::new_derive_key("iowhy redaction of names v1");
        hasher.update(&(secret.len() as u64).to_le_bytes()).update(secret).update(recording);
        *hasher.finalize().as_bytes()
    }

    pub(crate) fn name(&self, kind: NameKind, name: &str) -> String {
        match kind {
            NameKind::Words => self.words(name),
            NameKind::Process => self.process(name),
            NameKind::User => self.user(name),
            NameKind::Arguments => self.whole("arguments", name),
            NameKind::Function => self.function(name),
            NameKind::Device => self.device_name(name),
            NameKind::Numbered => self.process_subject(name),
            NameKind::Reason => self.reason(name),
        }
    }

    /// A text whose unknown words are replaced; punctuation stays.
    pub(crate) fn words(&self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
        let mut out = String::with_capacity(text.len() + LENGTH);
        for run in text.split_inclusive(|c| !is_word(c)) {
            let word = run.trim_end_matches(|c| !is_word(c));
            self.word(word, &mut out);
            out.push_str(&run[word.len()..]);
        }
        out
    }

    /// A word of letters and digits. Words of hexadecimal digits are numbers; others keep their
    /// digits apart from their letters, as patterns of paths do.
    fn word(&self, word: &str, out: &mut String) {
        let is_known = words::is_known(word);
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        if is_known {
            out.push_str(word);
        } else if has_digit && word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            self.number(word, out);
        } else {
            let mut rest = word;
            while let Some(first) = rest.chars().next() {
                let is_number = first.is_ascii_digit();
                let end = rest.find(|c: char| c.is_ascii_digit() != is_number);
                let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
                match is_number {
                    true => self.number(run, out),
                    false => self.letters(run, out),
                }
                rest = after;
            }
        }
    }

    fn letters(&self, letters: &str, out: &mut String) {
        // One letter tells nothing.
        let is_kept = letters.len() == 1 || words::is_known(letters) || is_placeholder(letters);
        match is_kept {
            true => out.push_str(letters),
            false => out.push_str(&self.placeholder(letters)),
        }
    }

    fn placeholder(&self, word: &str) -> String {
        let hash = self.hash("word", word);
        let halves = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(LENGTH);
        halves.map(|half| char::from(LETTERS[usize::from(half)])).collect()
    }

    fn hash(&self, of: &str, text: &str) -> [u8; 32] {
        *self.hasher(of).update(text.as_bytes()).finalize().as_bytes()
    }

    fn hasher(&self, of: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(of.as_bytes()).update(&[0]);
        hasher
    }

    /// Replaces each digit by another that depends on the key and on the digits before it, so that
    /// different numbers stay different. Zeroes at the front stay: names are padded with them, and
    /// rules know some by that.
    fn number(&self, number: &str, out: &mut String) {
        if number.len() <= SHORT_NUMBER {
            return out.push_str(number);
        }
        let zeroes = number.len() - number.trim_start_matches('0').len();
        out.push_str(&number[..zeroes]);
        // The hash of the digits so far, grown by each: names may be long.
        let mut hasher = self.hasher("digits");
        hasher.update(&number.as_bytes()[..zeroes]);
        for (at, digit) in number.char_indices().skip(zeroes) {
            if hasher.count() > MOST_HASHED {
                // One block for each digit, however many there were.
                let so_far = hasher.finalize();
                hasher = self.hasher("digits");
                hasher.update(so_far.as_bytes());
            }
            let by = hasher.finalize().as_bytes()[0];
            hasher.update(&number.as_bytes()[at..at + digit.len_utf8()]);
            let replaced = match digit {
                '0'..='9' if at == zeroes => shifted(digit, '1', 9, by),
                '0'..='9' => shifted(digit, '0', 10, by),
                'a'..='f' => shifted(digit, 'a', 6, by),
                other => shifted(other, 'A', 6, by),
            };
            out.push(replaced);
        }
    }

    /// A process's or a thread's name. Names of well-known programs stay, whatever follows them.
    pub(crate) fn process(&self, name: &str) -> String {
        let known = programs::known_beginning(name).unwrap_or("");
        format!("{known}{}", self.words(&name[known.len()..]))
    }

    fn user(&self, name: &str) -> String {
        match words::is_system_user(name) || name.len() <= 3 && name.parse::<u32>().is_ok() {
            true => name.to_owned(),
            false => self.whole("user", name),
        }
    }

    /// A device's name. That of a capture is its file's, which says more than the kernel's names.
    pub(crate) fn device_name(&self, name: &str) -> String {
        if words::is_kernels_device(name) { name.to_owned() } else { self.words(name) }
    }

    /// Returns one placeholder for a whole text, behind the kind of text.
    pub(crate) fn whole(&self, what: &str, text: &str) -> String {
        match text.strip_prefix(what).and_then(|rest| rest.strip_prefix('-')) {
            _ if text.is_empty() => String::new(),
            Some(rest) if is_placeholder(rest) => text.to_owned(),
            _ => format!("{what}-{}", self.placeholder(text)),
        }
    }

    /// A function of a program. Names as C has them say what is done, not for whom; packages, types
    /// and paths (`com.acme.Billing`, `acme::billing`) do.
    fn function(&self, name: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_+@*~[]".contains(c);
        match name.chars().all(is_plain) {
            true => name.to_owned(),
            false => self.words(name),
        }
    }

    /// `…; open for writing by postgres (7), acme (8)`.
    fn reason(&self, reason: &str) -> String {
        const WRITERS: &str = "open for writing by ";
        match reason.split_once(WRITERS) {
            None => reason.to_owned(),
            Some((before, writers)) => {
                let writers: Vec<String> =
                    writers.split(", ").map(|writer| self.numbered(writer)).collect();
                format!("{before}{WRITERS}{}", writers.join(", "))
            }
        }
    }

    /// `NAME (NUMBER)`: the number of a process stays.
    pub(crate) fn numbered(&self, text: &str) -> String {
        match text.rsplit_once(" (") {
            Some((name, number)) if number.trim_end_matches(')').parse::<u32>().is_ok() => {
                format!("{} ({number}", self.process(name))
            }
            _ => self.process(text),
        }
    }
}

/// The digit `by` places after `digit` in the circle of `count` that begins with `first`.
fn shifted(digit: char, first: char, count: u32, by: u8) -> char {
    let place = (u32::from(digit) - u32::from(first) + u32::from(by)) % count;
    char::from_u32(u32::from(first) + place).unwrap_or(digit)
}

/// Whether a word is a placeholder already: names that were given to a redacted view are taken as
/// they are shown.
fn is_placeholder(word: &str) -> bool {
    word.len() == LENGTH && word.bytes().all(|byte| LETTERS.contains(&byte))
}
