//! Names of the kernel's functions by address, from /proc/kallsyms, in a third of the memory that
//! blazesym takes for them: a watch that runs for ever keeps them for ever.
//!
//! What does not belong here: stacks (see [`super::stacks`]), and symbols that BPF programs compare
//! with ([`crate::symbols`]).

use crate::reader::FrameName;
use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Prefix of the symbols of padding before functions, which is no code (CONFIG_CALL_PADDING, 6.2).
const PADDING: &str = "__pfx_";
/// Letters that /proc/kallsyms gives functions: text and weak symbols, of one file or of all.
const FUNCTIONS: [&str; 4] = ["t", "T", "w", "W"];
/// Beginnings of names that compilers made of longer ones: Rust's, new and old.
const MANGLED: [&str; 2] = ["_R", "_ZN"];
/// Longer lines are not the kernel's; KSYM_NAME_LEN is 512.
const MOST_LINE: u64 = 1024;

/// The names, read when the first one is needed.
#[derive(Default)]
pub struct KernelNames {
    functions: OnceCell<KernelFunctions>,
    /// For names that must be taken apart.
    symbolizer: OnceCell<Symbolizer>,
}

/// Functions, sorted by address.
#[derive(Debug, Default)]
struct KernelFunctions {
    /// The start address of each function, and its name's offset in `texts`.
    begins: Vec<(u64, u32)>,
    texts: String,
}

impl KernelNames {
    /// The functions at `addresses`.
    pub fn of(&self, addresses: &[u64]) -> Vec<FrameName> {
        let functions = self.functions.get_or_init(|| {
            File::open("/proc/kallsyms").map(KernelFunctions::read).unwrap_or_default()
        });
        let names: Vec<_> = addresses.iter().map(|address| functions.at(*address)).collect();
        let is_mangled = |name: &&str| MANGLED.iter().any(|begin| name.starts_with(begin));
        if names.iter().flatten().any(is_mangled) {
            return self.demangled(addresses);
        }
        let frame = |name: Option<&str>| {
            let name = name.map(|name| (name.to_owned(), Vec::new()));
            name.map_or(FrameName::Nameless, |(name, inlined)| FrameName::Named { name, inlined })
        };
        names.into_iter().map(frame).collect()
    }

    fn demangled(&self, addresses: &[u64]) -> Vec<FrameName> {
        // A kernel image can be on the sick disk, and adds nothing to what the kernel itself
        // provides.
        let kernel = Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() };
        let symbolizer = self.symbolizer.get_or_init(Symbolizer::new);
        let found = symbolizer.symbolize(&Source::Kernel(kernel), Input::AbsAddr(addresses));
        match found {
            Ok(symbols) => symbols.iter().map(FrameName::from_symbol).collect(),
            Err(_unreadable) => vec![FrameName::Nameless; addresses.len()],
        }
    }
}

impl KernelFunctions {
    /// Reads lines such as `ffffffff81766030 t iomap_read_end_io`, which may go on with a module.
    /// Where the kernel hides addresses, they are 0.
    fn read(list: impl Read) -> KernelFunctions {
        let mut reader = BufReader::with_capacity(1 << 16, list);
        let (mut functions, mut line) = (KernelFunctions::default(), Vec::new());
        while (&mut reader)
            .take(MOST_LINE)
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            functions.note(&line);
            line.clear();
        }
        // The first of several names of one address counts, as everywhere.
        functions.begins.sort_by_key(|(address, _)| *address);
        functions.begins.dedup_by_key(|(address, _)| *address);
        functions.begins.shrink_to_fit();
        functions.texts.shrink_to_fit();
        functions
    }

    fn note(&mut self, line: &[u8]) -> Option<()> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        let name = words.next()?;
        if address != 0 && FUNCTIONS.contains(&kind) && !name.starts_with(PADDING) {
            self.begins.push((address, u32::try_from(self.texts.len()).ok()?));
            self.texts.push_str(name);
            self.texts.push('\n');
        }
        Some(())
    }

    /// The function that holds the address.
    fn at(&self, address: u64) -> Option<&str> {
        let next = self.begins.partition_point(|(begin, _)| *begin <= address);
        let (_, text) = self.begins.get(next.checked_sub(1)?)?;
        self.texts.get(*text as usize..)?.split('\n').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ffffffff81000200 T _text\n\
                        ffffffff81000400 t second\n\
                        ffffffff81000400 t alias\n\
                        ffffffff810003f0 t __pfx_second\n\
                        ffffffff81000300 D data\n\
                        not a line\n\
                        ffffffffc0000010 t of_module\t[loop]\n\
                        ffffffffc0000000 W weak\t[loop]";

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let functions = KernelFunctions::read(LIST.as_bytes());
        let at = |address| functions.at(address);
        assert_eq!(at(0xffff_ffff_8100_01ff), None);
        assert_eq!(at(0xffff_ffff_8100_0200), Some("_text"));
        assert_eq!(at(0xffff_ffff_8100_03ff), Some("_text"));
        assert_eq!(at(0xffff_ffff_8100_0401), Some("second"));
        assert_eq!(at(0xffff_ffff_c000_000f), Some("weak"));
        assert_eq!(at(u64::MAX), Some("of_module"));
    }

    #[test]
    fn hidden_addresses_and_hostile_lists_are_no_names() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t x\n";
        assert_eq!(KernelFunctions::read(hidden.as_bytes()).at(0xffff_ffff_8100_0200), None);
        let long = [b'f'; 1 << 20];
        assert_eq!(KernelFunctions::read(&long[..]).at(u64::MAX), None);
        assert_eq!(KernelFunctions::read(&b"\xff\xfe\n\0\n"[..]).at(u64::MAX), None);
    }

    /// Every function has the name that blazesym has for it.
    #[test]
    fn names_are_those_of_blazesym() {
        let functions = KernelFunctions::read(File::open("/proc/kallsyms").unwrap());
        let step = (functions.begins.len() / 500).max(1);
        let sampled = functions.begins.iter().step_by(step);
        // None for a user from whom the kernel hides addresses.
        let begins: Vec<u64> = sampled.map(|(begin, _)| *begin).collect();
        let names = KernelNames::default();
        let (own, others) = (names.of(&begins), names.demangled(&begins));
        // Programs of BPF come and go between the two.
        let is_kernels = |text: &String| !text.contains("\"bpf_");
        let texts = |of: &[_]| of.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>();
        let pairs = texts(&own).into_iter().zip(texts(&others));
        let differ: Vec<_> = pairs.filter(|(one, other)| one != other && is_kernels(one)).collect();
        assert!(differ.is_empty(), "{differ:?}");
    }
}
