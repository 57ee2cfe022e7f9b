//! Names of objects: those that a host uploads, those that compaction makes of them, and those that
//! define which files count:
//!
//! | name | what |
//! |---|---|
//! | `table=incoming/date=D/hour=H/HOST.WINDOW.m10.json.zst` | ten minutes of one host |
//! | `table=incoming/date=D/hour=H/HOST.WINDOW.i000007.json.zst` | an incident of one host |
//! | `table=flows/date=D/hour=H/00000003-….parquet` | an hour of all hosts, and so for each table |
//! | `commits/date=D/hour=H/00000003.json` | which files of that hour count |
//! | `incidents/HOST/000007/…` | recordings of chosen incidents |
//!
//! What does not belong here: their content.

use crate::clock::{FleetHour, WINDOW_S};

/// The layout's version; a commit names it.
pub const LAYOUT_VERSION: u32 = 1;
/// Characters of a host's identity.
pub const HOST_ID_LENGTH: usize = 16;
/// The prefix of uploads.
pub const INCOMING: &str = "table=incoming";
/// The prefix of commits.
pub const COMMITS: &str = "commits";
/// The prefix of recordings of incidents.
pub const INCIDENTS: &str = "incidents";

/// The content of an upload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UploadKind {
    /// Minutes of a window, by their number; more of them supersede fewer.
    Minutes(u8),
    /// The incident of this number.
    Incident(u32),
}

/// The parts of an upload's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UploadName {
    /// The host's identity: 16 hexadecimal digits.
    pub host_id: String,
    /// The beginning of the window, seconds since 1970.
    pub window_s: i64,
    /// The content.
    pub kind: UploadKind,
}

impl UploadName {
    /// The hour whose partition it is in.
    pub const fn hour(&self) -> FleetHour {
        FleetHour::from_seconds(self.window_s)
    }

    /// The name of the object.
    pub fn path(&self) -> String {
        let kind = match self.kind {
            UploadKind::Minutes(count) => format!("m{count:02}"),
            UploadKind::Incident(number) => format!("i{number:06}"),
        };
        let (host_id, window_s) = (&self.host_id, self.window_s);
        format!("{INCOMING}/{}/{host_id}.{window_s}.{kind}.json.zst", self.hour())
    }

    /// Parses the name of an upload; `None` for any other name, which is then no upload.
    pub fn parse(path: &str) -> Option<UploadName> {
        let mut parts = path.split('/').rev();
        let mut words = parts.next()?.strip_suffix(".json.zst")?.split('.');
        let (host_id, window, kind) = (words.next()?, words.next()?, words.next()?);
        let hour = parts.next()?;
        let hour = FleetHour::parse(parts.next()?, hour)?;
        let window_s: i64 = window.parse().ok()?;
        let kind = match kind.split_at_checked(1)? {
            ("m", count) => UploadKind::Minutes(count.parse().ok().filter(|count| *count <= 10)?),
            ("i", number) => UploadKind::Incident(number.parse().ok()?),
            _ => return None,
        };
        let name = UploadName { host_id: host_id.to_owned(), window_s, kind };
        let fits = is_host_id(host_id)
            && window_s.rem_euclid(WINDOW_S) == 0
            && name.hour() == hour
            && path.ends_with(&name.path());
        fits.then_some(name)
    }
}

/// Returns whether the text can be a host's identity.
pub fn is_host_id(text: &str) -> bool {
    text.len() == HOST_ID_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The name of a table's file.
pub fn table_path(table: &str, hour: FleetHour, generation: u32, digest: &str) -> String {
    format!("table={table}/{hour}/{generation:08}-{digest}.parquet")
}

/// The generation of a table's file, from its name.
pub fn table_generation(path: &str) -> Option<u32> {
    let name = path.rsplit('/').next()?.strip_suffix(".parquet")?;
    name.split_once('-')?.0.parse().ok()
}

/// The name of a commit.
pub fn commit_path(hour: FleetHour, generation: u32) -> String {
    format!("{COMMITS}/{hour}/{generation:08}.json")
}

/// Hour and generation of a commit, from its name.
pub fn parse_commit(path: &str) -> Option<(FleetHour, u32)> {
    let mut parts = path.split('/').rev();
    let generation = parts.next()?.strip_suffix(".json")?.parse().ok()?;
    let hour = parts.next()?;
    Some((FleetHour::parse(parts.next()?, hour)?, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for kind in [UploadKind::Minutes(0), UploadKind::Minutes(10), UploadKind::Incident(7)] {
            let host_id = "0123456789abcdef".to_owned();
            let name = UploadName { host_id, window_s: 1_763_942_400 + 1200, kind };
            assert_eq!(UploadName::parse(&name.path()), Some(name.clone()));
            assert_eq!(UploadName::parse(&format!("a/b/{}", name.path())), Some(name));
        }
    }

    #[test]
    fn other_names_are_no_uploads() {
        let good =
            "table=incoming/date=2025-11-24/hour=00/0123456789abcdef.1763943600.m10.json.zst";
        assert!(UploadName::parse(good).is_some());
        let wrong = [
            ("0123456789abcdef", "../../../passwords"),
            ("0123456789abcdef", "0123456789ABCDEF"),
            ("1763943600", "1763943601"),
            ("hour=00", "hour=01"),
            ("m10", "m11"),
            ("m10", "m1"),
            ("m10", "x10"),
            (".json.zst", ".json"),
            ("incoming", "flows"),
            ("1763943600", "99999999999999999999"),
        ];
        for (from, to) in wrong {
            assert_eq!(UploadName::parse(&good.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn names_of_files_carry_their_generation() {
        let hour = FleetHour::from_seconds(1_763_942_400);
        assert_eq!(table_generation(&table_path("flows", hour, 12, "ab")), Some(12));
        assert_eq!(parse_commit(&commit_path(hour, 12)), Some((hour, 12)));
        assert_eq!(table_generation("table=flows/evil.parquet"), None);
        assert_eq!(parse_commit("commits/date=2025-11-24/hour=77/00000001.json"), None);
    }
}
