//! Compiled programs, loaded into the kernel by libbpf.
//!
//! What does not belong here: which programs a watch needs (see [`crate::plan`]), and attaching
//! them (see
//! [`crate::session`]).

use crate::wire;
use libbpf_rs::{Map, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Mutex;
use zerocopy::IntoBytes;

/// An object file as `build.rs` compresses it: most of it describes instructions to the verifier,
/// and compresses to a sixth.
#[derive(Clone, Copy)]
pub(crate) struct CompressedObject(pub(crate) &'static [u8]);

macro_rules! object {
    ($name:literal) => {
        $crate::loader::CompressedObject(include_bytes!(concat!(
            env!("OUT_DIR"),
            "/",
            $name,
            ".bpf.o.zst"
        )))
    };
}
pub(crate) use object;

impl CompressedObject {
    /// The object file. The allocator aligns it as an ELF reader expects it.
    fn open(self) -> libbpf_rs::Result<OpenObject> {
        let bytes = zstd::stream::decode_all(self.0)?;
        ObjectBuilder::default().open_memory(&bytes)
    }
}

/// The program that looks up symbols: it is run before others are loaded, with what it finds.
pub(crate) fn load_symbols() -> libbpf_rs::Result<Object> {
    keep_warnings();
    object!("symbols").open()?.load()
}

/// From now on what libbpf says is kept for error messages, and not printed.
pub(crate) fn keep_warnings() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_warning)));
}

/// libbpf explains a failure in warnings; they are kept for the error message.
/// The map that records are sent through.
pub(crate) const RING: &str = "ring";
/// The table of requests in flight.
const PENDING: &str = "pending";

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
/// are `unused` by them. Maps that an earlier object has too are shared with it. An error holds
/// libbpf's and the verifier's words.
pub(crate) fn load(
    object: CompressedObject,
    is_wanted: impl Fn(&OsStr) -> bool,
    unused: impl Fn(&OsStr) -> bool,
    settings: &wire::wire_settings,
    earlier: &[Object],
) -> Result<Object, String> {
    take_warnings();
    let mut open = object.open().map_err(|cause| cause.to_string())?;
    prepare(&mut open, is_wanted, unused, settings, earlier).map_err(|cause| cause.to_string())?;
    open.load().map_err(|cause| format!("{cause}\n{}", take_warnings()))
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
