//! The words that redaction keeps: directories, extensions, products and kernel threads that every
//! machine has, and those that the rules of the diagnosis know.
//!
//! What does not belong here: anything that names a person, an organisation or a place.

use crate::programs;
use rustc_hash::FxHashSet;
use std::sync::LazyLock;

/// The list that is not derived from rules: words, and lines of comments.
const LIST: &str = include_str!("words.txt");
/// Users that distributions and products create.
const SYSTEM_USERS: &str = include_str!("users.txt");

fn words(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

/// Words of paths and processes.
static KNOWN: LazyLock<FxHashSet<&'static str>> = LazyLock::new(|| {
    let of_rules = programs::names().flat_map(|name| {
        let not_a_word = |c: char| !c.is_ascii_alphanumeric();
        let letters = name.split(|c: char| !c.is_ascii_alphabetic());
        letters.chain(name.split(not_a_word))
    });
    words(LIST).chain(of_rules).filter(|word| !word.is_empty()).collect()
});

static USERS: LazyLock<FxHashSet<&'static str>> = LazyLock::new(|| words(SYSTEM_USERS).collect());

/// Whether a word stays, in any case of its letters or as the kernel's name of a disk.
pub(super) fn is_known(word: &str) -> bool {
    KNOWN.contains(word) || KNOWN.contains(word.to_ascii_lowercase().as_str()) || is_disk(word)
}

/// Whether distributions or products create that user.
pub(super) fn is_system_user(name: &str) -> bool {
    USERS.contains(name)
}

/// Letters in the kernel's names of devices other than disks by letter: `nvme0c1n2p3`,
/// `mmcblk0boot1`, `md_d0`, `cciss!c0d0p1`.
const DEVICE_LETTERS: &[&str] = &[
    "nvme", "c", "n", "p", "d", "t", "s", "q", "loop", "zram", "dm", "md", "mmcblk", "boot",
    "rpmb", "gp", "nbd", "rbd", "drbd", "bcache", "pmem", "ram", "sr", "fd", "ublkb", "nullb",
    "zd", "dasd", "scm", "cciss", "rssd", "mtdblock", "ubiblock", "etherd", "e", "ida", "mmc",
    "scd", "vblk",
];

/// Whether a name has the form of the kernel's names of block devices, or is a device's numbers.
pub(super) fn is_kernels_device(name: &str) -> bool {
    let is_mark = |c: char| c.is_ascii_digit() || ":-_!/".contains(c);
    let is_letters = |run: &str| {
        let dasd = run.strip_prefix("dasd").filter(|letters| letters.len() <= 3);
        let is_dasd = dasd.is_some_and(|letters| letters.bytes().all(|b| b.is_ascii_lowercase()));
        run.is_empty() || DEVICE_LETTERS.contains(&run) || is_disk(run) || is_dasd
    };
    name.split(is_mark).all(is_letters)
}

/// `sda`, `vdb12`, `xvdf`, `mmcblk`: the others are known words and numbers.
fn is_disk(word: &str) -> bool {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let letters = ["sd", "vd", "hd", "xvd"].iter().find_map(|bus| name.strip_prefix(bus));
    let is_letter = |text: &str| {
        (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    letters.is_some_and(is_letter)
        || matches!(name, "mmcblk" | "nvme" | "loop" | "zram" | "dm" | "md")
}
