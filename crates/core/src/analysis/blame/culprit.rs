//! Culprits: the owners of requests that a device serves while others wait.

use crate::analysis::attribution::{FileKey, ProcessKey, Reason, file, owner};
use crate::model::{Origin, Request, RequestPart};
use rustc_hash::FxHashMap;

/// Number of units into which a request is split over its parts, by bytes.
pub(super) const UNITS: u64 = 16;

/// The file, as far as it is distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum CulpritFile {
    /// This one.
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

    #[inline]
    fn of(request: &Request, part: Result<&RequestPart, Reason>) -> Culprit {
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
    index: FxHashMap<Culprit, u32>,
    all: Vec<Culprit>,
    latest: u32,
}

impl Culprits {
    #[inline]
    pub fn number(&mut self, culprit: Culprit) -> u32 {
        if self.all.get(self.latest as usize) != Some(&culprit) {
            let all = &mut self.all;
            self.latest = *self.index.entry(culprit).or_insert_with(|| {
                all.push(culprit);
                all.len() as u32 - 1
            });
        }
        self.latest
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
        [] => each(Culprit::of(request, Err(Reason::NoParts(request.origin))), UNITS as u16),
        [part] => each(Culprit::of(request, Ok(part)), UNITS as u16),
        _ => {
            let (mut bytes, mut done) = (0_u64, 0);
            for (index, part) in parts.iter().enumerate() {
                bytes = bytes.saturating_add(part.bytes);
                let scaled = u128::from(bytes) * u128::from(UNITS) / u128::from(whole.max(1));
                let until = if index + 1 == parts.len() { UNITS } else { scaled as u64 };
                if until > done {
                    each(Culprit::of(request, Ok(part)), (until - done) as u16);
                    done = until;
                }
            }
        }
    }
}
