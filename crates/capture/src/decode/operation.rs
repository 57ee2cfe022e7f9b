//! The kernel's operation and flags of a request, and its rwbs text.

use crate::kernel;
use iowhy_model::{Name, Names, Operation};
use rustc_hash::FxHashMap;

/// The meaning of a request's `cmd_flags`.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// The operation.
    pub operation: Operation,
    /// The rwbs text of the flags.
    pub rwbs: Name,
    /// Whether it is readahead.
    pub readahead: bool,
    /// Whether it is for a swap device or file.
    pub swap: bool,
}

/// Masks of the flags that iowhy reads; 0 where this kernel has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masks {
    pub preflush: u32,
    pub fua: u32,
    pub readahead: u32,
    pub sync: u32,
    pub meta: u32,
    pub atomic: u32,
    pub swap: u32,
}

/// The running kernel's numbers, with the meanings decoded so far.
#[derive(Clone, Debug)]
pub struct OperationNames {
    names: FxHashMap<u32, String>,
    masks: Masks,
    met: FxHashMap<u32, Meaning>,
}

impl OperationNames {
    /// From the kernel's BTF.
    pub fn new(facts: &kernel::KernelOperations) -> OperationNames {
        OperationNames {
            names: facts.names.iter().cloned().collect(),
            masks: Masks {
                preflush: facts.mask("preflush"),
                fua: facts.mask("fua"),
                readahead: facts.mask("rahead"),
                sync: facts.mask("sync"),
                meta: facts.mask("meta"),
                atomic: facts.mask("atomic"),
                swap: facts.mask("swap"),
            },
            met: FxHashMap::default(),
        }
    }

    /// Decodes `flags`.
    pub fn meaning(&mut self, flags: u32, names: &mut Names) -> Meaning {
        if let Some(meaning) = self.met.get(&flags) {
            return *meaning;
        }
        let name = self.name(flags);
        let meaning = Meaning {
            operation: operation(name),
            rwbs: names.intern(&self.rwbs(name, flags)),
            readahead: flags & self.masks.readahead != 0,
            swap: flags & self.masks.swap != 0,
        };
        self.met.insert(flags, meaning);
        meaning
    }

    pub(crate) fn masks(&self) -> &Masks {
        &self.masks
    }

    /// The operation's name without `REQ_OP_`, in lower case; empty where this kernel has none.
    pub(crate) fn name(&self, flags: u32) -> &str {
        self.names.get(&(flags & 0xff)).map_or("", String::as_str)
    }

    /// The text that the kernel's `blk_fill_rwbs` writes.
    fn rwbs(&self, name: &str, flags: u32) -> String {
        let mut text = String::new();
        let mut add = |mask: u32, letter: &str| {
            if flags & mask != 0 {
                text.push_str(letter);
            }
        };
        add(self.masks.preflush, "F");
        add(u32::MAX, letters(name));
        add(self.masks.fua, "F");
        add(self.masks.readahead, "A");
        add(self.masks.sync, "S");
        add(self.masks.meta, "M");
        add(self.masks.atomic, "U");
        if text.is_empty() { letters(name).to_owned() } else { text }
    }
}

fn letters(name: &str) -> &'static str {
    match name {
        "read" => "R",
        "write" | "write_same" => "W",
        "flush" => "F",
        "discard" => "D",
        "secure_erase" => "DE",
        "write_zeroes" => "WZ",
        "zone_append" => "ZA",
        "zone_reset" => "ZR",
        "zone_reset_all" => "ZRA",
        "zone_finish" => "ZF",
        "zone_open" => "ZO",
        "zone_close" => "ZC",
        _ => "N",
    }
}

/// The operation of this name without `REQ_OP_`, in lower case.
pub(crate) fn operation(name: &str) -> Operation {
    match name {
        "read" => Operation::Read,
        "write" | "write_same" | "zone_append" => Operation::Write,
        "flush" => Operation::Flush,
        "discard" => Operation::Discard,
        "secure_erase" => Operation::SecureErase,
        "write_zeroes" => Operation::WriteZeroes,
        "drv_in" | "drv_out" | "scsi_in" | "scsi_out" => Operation::Driver,
        name if name.starts_with("zone_") => Operation::Zone,
        _ => Operation::Other,
    }
}
