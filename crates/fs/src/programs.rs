//! The directories of programs that iowhy starts: one rule for all of them.
//!
//! As root they are looked for in the places of the system. The search path belongs to the
//! user who started iowhy, and may begin with a directory of somebody else.
//!
//! What does not belong here: programs that a user names, and what they are told to do.

use std::path::PathBuf;

/// Directories of the system's programs.
const PLACES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The program `name`; `None` if there is none.
pub fn find(name: &str) -> Option<PathBuf> {
    let system = PLACES.iter().map(PathBuf::from);
    let path = match rustix::process::geteuid().is_root() {
        true => None,
        false => std::env::var_os("PATH"),
    };
    let path = path.unwrap_or_default();
    let searched = std::env::split_paths(&path).filter(|place| place.is_absolute());
    searched.chain(system).map(|place| place.join(name)).find(|place| place.is_file())
}

/// The program `name`, or the place where it would be: starting it says that there is none.
pub fn find_or_name(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| PathBuf::from("/usr/bin").join(name))
}
