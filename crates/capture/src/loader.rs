//! Compiled programs, loaded into the kernel by libbpf.
//!
//! What does not belong here: which programs a watch needs (see [`crate::plan`]), and attaching
//! them (see
//! [`crate::session`]).

use crate::wire;
use libbpf_rs::{Map, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::{fs, io};
use zerocopy::IntoBytes;

/// An object file, in this program as `build.rs` compresses it: most of it describes instructions
/// to the verifier, and compresses to a sixth.
#[derive(Clone, Copy)]
pub(crate) struct ObjectFile {
    /// The name of the file, without `.bpf.o`.
    pub name: &'static str,
    /// The contents, compressed.
    pub built_in: &'static [u8],
}

macro_rules! object {
    ($name:literal) => {
        $crate::loader::ObjectFile {
            name: $name,
            built_in: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o.zst")),
        }
    };
}
pub(crate) use object;

/// The source of object files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ObjectSource {
    /// Compiled into this program.
    #[default]
    BuiltIn,
    /// A folder of objects that another compiler made of the same sources: `NAME.bpf.o`.
    Folder(PathBuf),
}

impl ObjectSource {
    /// Opens an object file. The allocator aligns it as an ELF reader expects it.
    fn open(&self, file: ObjectFile) -> libbpf_rs::Result<OpenObject> {
        ObjectBuilder::default().open_memory(&self.bytes_of(file)?)
    }

    fn bytes_of(&self, file: ObjectFile) -> io::Result<Vec<u8>> {
        match self {
            ObjectSource::BuiltIn => zstd::stream::decode_all(file.built_in),
            ObjectSource::Folder(folder) => fs::read(folder.join(format!("{}.bpf.o", file.name))),
        }
    }
}

/// Loads the program that looks up symbols; the other programs are given its results.
pub(crate) fn load_symbols(source: &ObjectSource) -> libbpf_rs::Result<Object> {
    keep_warnings();
    source.open(object!("symbols"))?.load()
}

/// A reason why an object could not be loaded.
#[derive(Clone, Debug)]
pub(crate) struct LoadFailure {
    /// The program that was refused; `None` if the reason is another, such as a map.
    pub program: Option<String>,
    /// The system's error, and the words of libbpf and the verifier on further lines.
    pub cause: String,
}

impl LoadFailure {
    fn new(cause: &libbpf_rs::Error, warnings: &str) -> LoadFailure {
        LoadFailure { program: refused_program(warnings), cause: format!("{cause}\n{warnings}") }
    }
}

/// The program that libbpf speaks of last: it stops at the first one that is refused.
fn refused_program(warnings: &str) -> Option<String> {
    let (_, last) = warnings.rsplit_once("prog '")?;
    Some(last.split_once('\'')?.0.to_owned())
}

/// Keeps libbpf's messages for errors from now on, instead of printing them.
pub(crate) fn keep_warnings() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_warning)));
}

/// The map that records are sent through.
pub(crate) const RING: &str = "ring";
/// The table of requests in flight.
const PENDING: &str = "pending";

/// libbpf explains a failure in warnings; they are kept for the error message.
static WARNINGS: Mutex<String> = Mutex::new(String::new());

fn keep_warning(_level: PrintLevel, text: String) {
    if let Ok(mut warnings) = WARNINGS.lock() {
        // The verifier's log can be long; what is wrong stands at its end.
        if warnings.len() > 1 << 16 {
            warnings.clear();
        }
        warnings.push_str(&text);
    }
}

fn take_warnings() -> String {
    WARNINGS.lock().map(|mut warnings| std::mem::take(&mut *warnings)).unwrap_or_default()
}

/// Loads the programs of an object that `is_wanted`, with their settings, and without the maps that
/// are `unused` by them. Maps that an earlier object has too are shared with it.
pub(crate) fn load(
    source: &ObjectSource,
    file: ObjectFile,
    is_wanted: impl Fn(&OsStr) -> bool,
    unused: impl Fn(&OsStr) -> bool,
    settings: &wire::wire_settings,
    earlier: &[Object],
) -> Result<Object, LoadFailure> {
    take_warnings();
    let fail = |cause| LoadFailure::new(&cause, &take_warnings());
    let mut open = source.open(file).map_err(fail)?;
    prepare(&mut open, is_wanted, unused, settings, earlier).map_err(fail)?;
    open.load().map_err(fail)
}

fn prepare(
    open: &mut OpenObject,
    is_wanted: impl Fn(&OsStr) -> bool,
    unused: impl Fn(&OsStr) -> bool,
    settings: &wire::wire_settings,
    earlier: &[Object],
) -> libbpf_rs::Result<()> {
    for mut program in open.progs_mut() {
        let wanted = is_wanted(program.name());
        program.set_autoload(wanted);
    }
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().contains("rodata") {
            map.set_initial_value(settings.as_bytes())?;
            continue;
        }
        if unused(map.name()) {
            map.set_autocreate(false)?;
            continue;
        }
        if let Some(shared) = map_of(earlier, map.name()) {
            map.reuse_fd(shared.as_fd())?;
        } else if map.name() == RING {
            map.set_max_entries(settings.ring_bytes)?;
        } else if map.name() == PENDING {
            map.set_max_entries(1 << settings.pairs_bits)?;
        }
    }
    Ok(())
}

/// The map of that name that one of the objects has created.
pub(crate) fn map_of<'a>(objects: &'a [Object], name: &OsStr) -> Option<Map<'a>> {
    objects.iter().flat_map(Object::maps).find(|map| map.name() == name && map.autocreate())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libbpf_says_which_program_was_refused() {
        let warnings = "libbpf: prog 'on_get': -- BEGIN PROG LOAD LOG --\n-- END PROG LOAD LOG --\n\
                        libbpf: prog 'list_pending': BPF program load failed: -EPERM\n\
                        libbpf: prog 'list_pending': failed to load: -EPERM\n\
                        libbpf: failed to load object 'default_watch'\n";
        assert_eq!(refused_program(warnings).as_deref(), Some("list_pending"));
        let of_a_map = "libbpf: map 'pending': failed to create: -ENOMEM\n";
        assert_eq!(refused_program(of_a_map), None);
    }
}
