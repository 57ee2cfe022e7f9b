//! The machine's time zone. A caller's `TZ` may name a file: iowhy with file capabilities may read
//! any, so only names of the system's own zones and rules in POSIX's form are taken from it, and
//! nothing but a file of bounded size is read.
//!
//! What does not belong here: showing times (see `iowhy_model::clock`).

use iowhy_fs::read;
use jiff::tz::TimeZone;
use std::path::Path;
use std::sync::LazyLock;

/// The zone of a machine whose administrator chose one.
const OF_MACHINE: &str = "/etc/localtime";
/// The directory of the system's zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// The largest file of a zone, bytes: the largest ones have 4 KiB.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the local time zone, as it was when it was first asked for; `None` where the system
/// names none.
pub fn local() -> Option<TimeZone> {
    // Lists show thousands of times.
    static LOCAL: LazyLock<Option<TimeZone>> =
        LazyLock::new(|| from_variable(std::env::var("TZ").ok().as_deref()));
    LOCAL.clone()
}

/// Returns the zone that the variable `TZ` names, or that of the machine without one.
fn from_variable(variable: Option<&str>) -> Option<TimeZone> {
    let name = variable.map(|text| text.strip_prefix(':').unwrap_or(text));
    let is_named = |name: &&str| !name.is_empty() && *name != OF_MACHINE;
    let Some(name) = name.filter(is_named) else {
        return from_file(Path::new(OF_MACHINE));
    };
    let own = name.strip_prefix(ZONES).map_or(name, |rest| rest.trim_start_matches('/'));
    let of_system = is_zone(own).then(|| Path::new(ZONES).join(own));
    of_system.and_then(|path| from_file(&path)).or_else(|| TimeZone::posix(name).ok())
}

/// Whether it can be the name of a zone, such as `Europe/Berlin`: a path below a directory.
fn is_zone(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+".contains(&byte);
        !part.is_empty() && part.bytes().all(is_usual)
    };
    name.split('/').all(is_part)
}

fn from_file(path: &Path) -> Option<TimeZone> {
    let rules = read::bytes(path, MOST_BYTES).ok()?;
    TimeZone::tzif("local", &rules).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    /// Seconds from UTC in winter.
    fn offset(variable: &str) -> Option<i32> {
        let winter = Timestamp::from_second(1_764_000_000).unwrap();
        from_variable(Some(variable)).map(|zone| zone.to_offset(winter).seconds())
    }

    #[test]
    fn rules_and_names_are_taken_and_files_are_not() {
        assert_eq!(offset("CET-1CEST,M3.5.0,M10.5.0/3"), Some(3600));
        assert_eq!(offset("UTC0"), Some(0));
        let folder = tempfile::tempdir().unwrap();
        let of_others = folder.path().join("zone");
        let utc = [b"TZif".as_slice(), &[0; 32], &[0, 0, 0, 1], &[0, 0, 0, 4], &[0; 6], b"UTC\0"];
        std::fs::write(&of_others, utc.concat()).unwrap();
        assert!(from_file(&of_others).is_some(), "it is a zone");
        let path = of_others.to_str().unwrap();
        for named in [path, &format!(":{path}"), "../../../etc/passwd", "/dev/zero", "./UTC"] {
            assert_eq!(offset(named), None, "{named}");
        }
    }

    #[test]
    fn zones_of_the_system_are_found_where_it_has_them() {
        if !Path::new(ZONES).join("Asia/Tokyo").exists() {
            println!("skipped: no {ZONES} here");
            return;
        }
        assert_eq!(offset("Asia/Tokyo"), Some(9 * 3600));
        assert_eq!(offset(":Asia/Tokyo"), Some(9 * 3600));
        assert_eq!(offset(":/usr/share/zoneinfo/Asia/Tokyo"), Some(9 * 3600));
    }
}
