//! Whose request it is that the device serves while others wait.

use crate::analysis::attribution::{FileKey, ProcessKey, Reason, file, owner};
use crate::model::{Origin, Request, RequestPart};
use rustc_hash::FxHashMap;

/// A request is split over its parts by bytes, in so many units.
pub(super) const UNITS: u64 = 16;

/// The file, as far as it is distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Which {
    /// This one.
    File(FileKey),
    /// None, or none that is known.
    None,
    /// Any of many.
    Further,
}

/// Owner, origin and file of a request, or of a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Culprit {
    /// The process, or why there is none.
    pub owner: Result<ProcessKey, Reason>,
    pub origin: Origin,
    pub file: Which,
}

impl Culprit {
    /// All that are not distinguished.
    pub const FURTHER: Culprit =
        Culprit { owner: Err(Reason::Silent), origin: Origin::Unknown, file: Which::Further };

    /// The same without its file; [`Culprit::FURTHER`] where that is gone already.
    pub fn coarser(self) -> Culprit {
        match self.file {
            Which::Further => Culprit::FURTHER,
            _ => Culprit { file: Which::Further, ..self },
        }
    }

    #[inline]
    fn of(request: &Request, part: Result<&RequestPart, Reason>) -> Culprit {
        Culprit {
            owner: owner(request, part),
            origin: request.origin,
            file: file(part).map_or(Which::None, Which::File),
        }
    }
}

/// Culprits by number, in the order of first sight: a request at a device keeps a word of them, and what
/// is added up by culprit needs no hash.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}

/// Adds up times by culprit; of those that have any, in the order of first sight.
#[derive(Debug)]
pub(super) struct Sums {
    /// The place of each culprit's sum, by its number.
    places: Vec<u32>,
    pub sums: Vec<(Culprit, u64)>,
}

impl Sums {
    const NONE: u32 = u32::MAX;

    pub fn new(culprits: &Culprits) -> Sums {
        Sums { places: vec![Sums::NONE; culprits.len()], sums: Vec::new() }
    }

    /// Adds a time; answers the place of the culprit's sum.
    #[inline]
    pub fn add(&mut self, culprits: &Culprits, number: u32, time: u64) -> u32 {
        let Some(place) = self.places.get_mut(number as usize) else { return Sums::NONE };
        if *place == Sums::NONE {
            *place = self.sums.len() as u32;
            self.sums.push((culprits.of(number), 0));
        }
        if let Some((_, sum)) = self.sums.get_mut(*place as usize) {
            *sum = sum.saturating_add(time);
        }
        *place
    }
}

/// Hands each culprit of a request to `each`, with its units: they add up to [`UNITS`].
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
