//! Lists a directory as a store. Links are not followed, and names that can be no object are
//! counted and skipped: a user who may write one name must not stop those who read all of them.
//!
//! What does not belong here: reading the objects.

use super::Listing;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The depth of folders at most: table, date, hour.
const MOST_DEPTH: usize = 12;

/// Lists all objects below a folder; nothing if it does not exist.
pub(super) fn list(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(listing),
        Err(error) => Err(error),
        Ok(entries) => {
            add(&mut listing, entries, 1);
            Ok(listing)
        }
    }
}

fn add(listing: &mut Listing, entries: std::fs::ReadDir, depth: usize) {
    for entry in entries.flatten() {
        let path = entry.path();
        let strange = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into();
        // It is gone since it was listed.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            match std::fs::read_dir(&path) {
                Ok(entries) if depth < MOST_DEPTH => add(listing, entries, depth + 1),
                Err(error) if error.kind() == ErrorKind::NotFound => (),
                _ => listing.strange.push(strange(&path)),
            }
            continue;
        }
        let name = entry.file_name();
        // An object that is being written.
        if metadata.is_file() && name.to_string_lossy().contains('#') {
            continue;
        }
        let location = name.to_str().and_then(|_| ObjectPath::from_absolute_path(&path).ok());
        let modified = metadata.modified().ok();
        match (location, modified) {
            (Some(location), Some(modified)) if metadata.is_file() => {
                let (last_modified, size) = (modified.into(), metadata.len());
                let meta = ObjectMeta { location, last_modified, size, e_tag: None, version: None };
                listing.objects.push(meta);
            }
            _ => listing.strange.push(strange(&path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_name_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("table=x/hour=00");
        std::fs::create_dir_all(&below).unwrap();
        for name in ["a.json", "\x1b[31mb.json", "c.json#1", "d.json"] {
            std::fs::write(below.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), below.join("loop")).unwrap();
        let listing = list(folder.path()).unwrap();
        let names: Vec<&str> =
            listing.objects.iter().filter_map(|object| object.location.filename()).collect();
        assert_eq!((names.len(), listing.strange.len()), (2, 2), "{listing:?}");
        assert!(names.contains(&"a.json") && names.contains(&"d.json"));
        assert!(list(&folder.path().join("nothing")).unwrap().objects.is_empty());
    }
}
