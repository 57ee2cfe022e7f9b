//! Addresses of kernel symbols that BPF programs compare with.
//!
//! What does not belong here: names for stacks (see [`crate::decode::stacks`]).

use crate::error::WatchError;
use crate::loader::{self, ObjectSource};
use crate::wire;
use libbpf_rs::ProgramInput;
use std::fs::File;
use std::io::{BufRead, BufReader};
use zerocopy::{FromZeros, IntoBytes};

/// Addresses of the bio completion functions. Those that do not exist, or whose addresses are
/// hidden, are 0.
#[derive(Clone, Debug)]
pub struct KernelSymbols {
    end_io: Vec<u64>,
    tracepoint_srcu: u64,
}

impl KernelSymbols {
    /// Resolves the symbols in the kernel, or reads `/proc/kallsyms` where that is not possible
    /// (before 5.16).
    pub fn find() -> Result<KernelSymbols, WatchError> {
        match KernelSymbols::asked() {
            Ok(symbols) => Ok(symbols),
            Err(_cannot_be_asked) => KernelSymbols::listed(),
        }
    }

    fn asked() -> libbpf_rs::Result<KernelSymbols> {
        let object = loader::load_symbols(&ObjectSource::BuiltIn)?;
        let mut found = wire::wire_symbols::new_zeroed();
        for program in object.progs_mut() {
            let input =
                ProgramInput { context_in: Some(found.as_mut_bytes()), ..Default::default() };
            program.test_run(input)?;
        }
        Ok(KernelSymbols { end_io: found.end_io.to_vec(), tracepoint_srcu: found.tracepoint_srcu })
    }

    fn listed() -> Result<KernelSymbols, WatchError> {
        let path = std::path::Path::new("/proc/kallsyms");
        let fail = |cause| WatchError::Read { path: path.to_owned(), cause };
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(fail)?);
        let mut end_io = vec![0; wire::END_IO_COUNT as usize];
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(fail)? > 0 {
            note(&line, &mut end_io);
            line.clear();
        }
        // Kernels that need this list are older than the SRCU.
        Ok(KernelSymbols { end_io, tracepoint_srcu: 0 })
    }

    /// Whether tracepoints are protected by an SRCU of their own.
    pub fn tracepoints_have_srcu(&self) -> bool {
        self.tracepoint_srcu != 0
    }

    /// Addresses by their position in the wire's list.
    pub fn end_io(&self) -> &[u64] {
        &self.end_io
    }
}

/// Parses a line: `ffffffff81766030 t iomap_read_end_io` and, for a module, a tab and its name in
/// brackets. A symbol that is listed with its module must be in that module; of others the first
/// one counts.
fn note(line: &[u8], end_io: &mut [u64]) {
    let Ok(text) = std::str::from_utf8(line) else { return };
    let mut words = text.split_ascii_whitespace();
    let (Some(address), Some(name)) = (words.next(), words.nth(1)) else { return };
    let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    for (symbol, id) in wire::END_IO_SYMBOLS {
        let Some(slot) = end_io.get_mut(*id as usize) else { continue };
        let found = match symbol.split_once(':') {
            Some((own, symbol)) => symbol == name && module == Some(own),
            None => *symbol == name && *slot == 0,
        };
        if found {
            *slot = u64::from_str_radix(address, 16).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_with_a_function_of_the_same_name_is_not_taken() {
        let mut end_io = vec![0; wire::END_IO_COUNT as usize];
        for line in [
            "ffffffffc06ad4f0 t clone_endio\t[dm_flakey]\n",
            "ffffffffc06730a0 t clone_endio\t[dm_mod]\n",
            "ffffffff81766030 t bio_chain_endio\n",
            "ffffffffc0000000 t bio_chain_endio\t[another]\n",
        ] {
            note(line.as_bytes(), &mut end_io);
        }
        assert_eq!(end_io[wire::END_IO_DM as usize], 0xffff_ffff_c067_30a0);
        assert_eq!(end_io[wire::END_IO_CHAIN as usize], 0xffff_ffff_8176_6030);
    }
}
