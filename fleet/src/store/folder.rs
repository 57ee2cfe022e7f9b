//! Lists a directory as a store. Links are not followed, and names that can be no object are
//! counted and skipped: a user who may write one name must not stop those who read all of them.
//!
//! What does not belong here: reading the objects.

use super::Listing;
use iowhy_fs::Folder;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The depth of folders at most: table, date, hour.
const MOST_DEPTH: usize = 12;

/// Lists all objects below the folder `below` of a place, given by the names that lead there;
/// nothing if it does not exist.
pub(super) fn list(place: &Path, below: &[String]) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let open = || {
        let place = Folder::open(place)?;
        below.iter().try_fold(place, |folder, name| folder.folder(name))
    };
    match open().and_then(|folder| Ok((folder.names()?, folder))) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(listing),
        Err(error) => Err(error),
        Ok((names, folder)) => {
            for name in names {
                add(&mut listing, &folder, &name, 1);
            }
            Ok(listing)
        }
    }
}

/// Adds the object `name` of a folder, or the objects below it.
fn add(listing: &mut Listing, folder: &Folder, name: &OsStr, depth: usize) {
    let strange = || name.to_string_lossy().into_owned();
    // It is gone since it was listed.
    let Ok(metadata) = folder.metadata(name) else { return };
    if metadata.is_dir() {
        let inner = folder.folder(name).and_then(|inner| Ok((inner.names()?, inner)));
        match inner {
            Ok((names, inner)) if depth < MOST_DEPTH => {
                for name in names {
                    add(listing, &inner, &name, depth + 1);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            _ => listing.strange.push(strange()),
        }
        return;
    }
    // An object that is being written.
    if metadata.is_file() && name.to_string_lossy().contains('#') {
        return;
    }
    let path = folder.path().join(name);
    let location = name.to_str().and_then(|_| ObjectPath::from_absolute_path(&path).ok());
    let modified = metadata.modified().ok();
    match (location, modified) {
        (Some(location), Some(modified)) if metadata.is_file() => {
            let (last_modified, size) = (modified.into(), metadata.len());
            let meta = ObjectMeta { location, last_modified, size, e_tag: None, version: None };
            listing.objects.push(meta);
        }
        _ => listing.strange.push(strange()),
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
        let listing = list(folder.path(), &[]).unwrap();
        let names: Vec<&str> =
            listing.objects.iter().filter_map(|object| object.location.filename()).collect();
        assert_eq!((names.len(), listing.strange.len()), (2, 2), "{listing:?}");
        assert!(names.contains(&"a.json") && names.contains(&"d.json"));
        assert!(list(folder.path(), &["nothing".to_owned()]).unwrap().objects.is_empty());
    }
}
