//! The kernel's symbols, as far as BPF programs compare addresses with them.
//!
//! What does not belong here: names for stacks (see [`crate::decode::stacks`]).

use crate::error::Error;
use crate::session;
use crate::wire;
use libbpf_rs::ProgramInput;
use std::fs::File;
use std::io::{BufRead, BufReader};
use zerocopy::{FromZeros, IntoBytes};

/// Where the functions are that end bios. Those that are not there, or whose addresses are hidden,
/// are 0.
#[derive(Clone, Debug)]
pub struct KernelSymbols {
    end_io: Vec<u64>,
}

impl KernelSymbols {
    /// Asks the kernel for each; reads `/proc/kallsyms` where it cannot be asked (before 5.16).
    pub fn find() -> Result<KernelSymbols, Error> {
        match KernelSymbols::asked() {
            Ok(symbols) => Ok(symbols),
            Err(_cannot_be_asked) => KernelSymbols::listed(),
        }
    }

    fn asked() -> libbpf_rs::Result<KernelSymbols> {
        let object = session::load_symbols()?;
        let mut found = wire::wire_symbols::new_zeroed();
        for program in object.progs_mut() {
            let input =
                ProgramInput { context_in: Some(found.as_mut_bytes()), ..Default::default() };
            program.test_run(input)?;
        }
        Ok(KernelSymbols { end_io: found.end_io.to_vec() })
    }

    fn listed() -> Result<KernelSymbols, Error> {
        let path = std::path::Path::new("/proc/kallsyms");
        let fail = |cause| Error::Read { path: path.to_owned(), cause };
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(fail)?);
        let mut end_io = vec![0; wire::END_IO_COUNT as usize];
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(fail)? > 0 {
            note(&line, &mut end_io);
            line.clear();
        }
        Ok(KernelSymbols { end_io })
    }

    /// Addresses by their place in the wire's list.
    pub fn end_io(&self) -> &[u64] {
        &self.end_io
    }
}

/// A line is `ffffffff81766030 t iomap_read_end_io` with, for a module, a tab and its name.
fn note(line: &[u8], end_io: &mut [u64]) {
    let Some(name) = line.get(19..) else { return };
    let length = name.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(name.len());
    let known =
        wire::END_IO_SYMBOLS.iter().find(|(symbol, _)| symbol.as_bytes() == &name[..length]);
    let Some((_, id)) = known else { return };
    let address =
        std::str::from_utf8(&line[..16]).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    if let (Some(slot), Some(address)) = (end_io.get_mut(*id as usize), address) {
        *slot = address;
    }
}
