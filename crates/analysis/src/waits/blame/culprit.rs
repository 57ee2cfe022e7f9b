//! Culprits: the owners of requests that a device serves while others wait.

use crate::sums::keys::{FileKey, ProcessKey, Reason, file, owner};
use iowhy_model::{Origin, Request, RequestPart};
use rustc_hash::FxHashMap;

/// Number of units into which a request is split over its parts, by bytes.
pub(super) const UNITS: u64 = 16;

/// The file, as far as it is distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum CulpritFile {
    /// The file.
    File(FileKey),
    /// No file, or it is not known.
    None,
    /// One of many.
    Further,
}

/// Owner, origin and file of a request, or of a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Culprit {
    /// The process, or the reason why there is none.
    pub owner: Result<ProcessKey, Reason>,
    pub origin: Origin,
    pub file: CulpritFile,
}

impl Culprit {
    /// All culprits that are not distinguished.
    pub const FURTHER: Culprit =
        Culprit { owner: Err(Reason::Silent), origin: Origin::Unknown, file: CulpritFile::Further };

    /// The same without its file, or [`Culprit::FURTHER`] if it has none.
    pub fn coarser(self) -> Culprit {
        match self.file {
            CulpritFile::Further => Culprit::FURTHER,
            _ => Culprit { file: CulpritFile::Further, ..self },
        }
    }

    /// All of it in two words: compared and hashed faster, and half as long.
    #[inline]
    pub fn packed(self) -> (u64, u64) {
        let (kind, pid, owner) = match self.owner {
            Ok(ProcessKey { pid: None, name }) => (0, 0, name.index() as u64),
            Ok(ProcessKey { pid: Some(pid), name }) => (1, u64::from(pid), name.index() as u64),
            Err(Reason::Given(name)) => (2, 0, name.index() as u64),
            Err(Reason::NoParts(origin)) => (3, 0, origin as u64),
            Err(Reason::Uncovered) => (4, 0, 0),
            Err(Reason::Kernel) => (5, 0, 0),
            Err(Reason::Silent) => (6, 0, 0),
        };
        let (which, file) = match self.file {
            CulpritFile::None => (0, 0),
            CulpritFile::Further => (1, 0),
            CulpritFile::File(FileKey { path, deleted }) => {
                (2 + u64::from(deleted), path.index() as u64)
            }
        };
        (pid << 32 | owner, file << 32 | (self.origin as u64) << 8 | which << 4 | kind)
    }

    #[inline]
    fn new(request: &Request, part: Result<&RequestPart, Reason>) -> Culprit {
        Culprit {
            owner: owner(request, part),
            origin: request.origin,
            file: file(part).map_or(CulpritFile::None, CulpritFile::File),
        }
    }
}

/// Culprits by number, in order of first occurrence: a request at a device stores the number, and
/// sums by culprit need no hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Culprits {
    /// By [`Culprit::packed`].
    index: FxHashMap<(u64, u64), u32>,
    all: Vec<Culprit>,
    /// The one that was asked for last, packed, and its number.
    latest: Option<((u64, u64), u32)>,
}

impl Culprits {
    #[inline]
    pub fn number(&mut self, culprit: Culprit) -> u32 {
        let packed = culprit.packed();
        match self.latest {
            Some((latest, number)) if latest == packed => number,
            _ => {
                let all = &mut self.all;
                let number = *self.index.entry(packed).or_insert_with(|| {
                    all.push(culprit);
                    all.len() as u32 - 1
                });
                self.latest = Some((packed, number));
                number
            }
        }
    }

    /// The culprit of a number that [`Culprits::number`] gave.
    #[inline]
    pub fn of(&self, number: u32) -> Culprit {
        self.all.get(number as usize).copied().unwrap_or(Culprit::FURTHER)
    }

    /// The number of culprits.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}

/// Sums times by culprit, in order of first occurrence.
#[derive(Debug)]
pub(super) struct CulpritSums {
    /// The index of each culprit's sum, by its number.
    indices: Vec<u32>,
    pub sums: Vec<(Culprit, u64)>,
}

impl CulpritSums {
    const NONE: u32 = u32::MAX;

    pub fn new(culprits: &Culprits) -> CulpritSums {
        CulpritSums { indices: vec![CulpritSums::NONE; culprits.len()], sums: Vec::new() }
    }

    /// Adds a time; returns the index of the culprit's sum.
    #[inline]
    pub fn add(&mut self, culprits: &Culprits, number: u32, time: u64) -> u32 {
        let Some(index) = self.indices.get_mut(number as usize) else { return CulpritSums::NONE };
        if *index == CulpritSums::NONE {
            *index = self.sums.len() as u32;
            self.sums.push((culprits.of(number), 0));
        }
        if let Some((_, sum)) = self.sums.get_mut(*index as usize) {
            *sum = sum.saturating_add(time);
        }
        *index
    }
}

/// Passes each culprit of a request to `each`, with its units, which add up to [`UNITS`].
#[inline]
pub(super) fn split(request: &Request, parts: &[RequestPart], mut each: impl FnMut(Culprit, u16)) {
    let whole: u64 = parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add);
    match parts {
        [] => each(Culprit::new(request, Err(Reason::NoParts(request.origin))), UNITS as u16),
        [part] => each(Culprit::new(request, Ok(part)), UNITS as u16),
        _ => {
            let (mut bytes, mut done) = (0_u64, 0);
            for (index, part) in parts.iter().enumerate() {
                bytes = bytes.saturating_add(part.bytes);
                let scaled = u128::from(bytes) * u128::from(UNITS) / u128::from(whole.max(1));
                let until = if index + 1 == parts.len() { UNITS } else { scaled as u64 };
                if until > done {
                    each(Culprit::new(request, Ok(part)), (until - done) as u16);
                    done = until;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::Name;

    #[test]
    fn what_differs_is_packed_differently() {
        let [one, two] = [1, 2].map(Name::from_index);
        let owners = [None, Some(1), Some(2)]
            .into_iter()
            .flat_map(|pid| [Name::EMPTY, one, two].map(|name| Ok(ProcessKey { pid, name })));
        let mut owners: Vec<Result<ProcessKey, Reason>> = owners.collect();
        let reasons = [Reason::Given(one), Reason::Given(two), Reason::NoParts(Origin::Write)];
        owners.extend(reasons.map(Err));
        let reasons = [Reason::NoParts(Origin::Swap), Reason::Uncovered, Reason::Kernel];
        owners.extend(reasons.map(Err));
        owners.push(Err(Reason::Silent));
        let mut files = vec![CulpritFile::None, CulpritFile::Further];
        for path in [Name::EMPTY, one, two] {
            files.extend([true, false].map(|deleted| CulpritFile::File(FileKey { path, deleted })));
        }
        let (mut culprits, mut count) = (Culprits::default(), 0);
        for origin in [Origin::Read, Origin::Write, Origin::Unknown] {
            for owner in &owners {
                for file in &files {
                    let culprit = Culprit { owner: *owner, origin, file: *file };
                    assert_eq!(culprits.number(culprit), count, "{culprit:?}");
                    assert_eq!(culprits.of(count), culprit);
                    count += 1;
                }
            }
        }
    }
}
