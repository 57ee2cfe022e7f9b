//! Seek distances. btt's mode needs every distance, so they are kept, and beyond a bound they go to
//! an unnamed temporary file.

use super::tree::{NIL, TreeStart, Trees};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

/// Distances of one device, Q to Q or D to D.
#[derive(Debug, Default)]
pub struct SeekDistances {
    last_start: i64,
    last_end: i64,
    /// The number of distances.
    pub count: u64,
    /// Sum of the absolute distances, in sectors, as btt adds it up.
    pub total: f64,
    distances: Vec<u64>,
    spill: Option<Spill>,
    failed: bool,
}

/// Sorted runs of (distance, number) in a file.
#[derive(Debug)]
struct Spill {
    file: File,
    /// The end of each run, in pairs.
    ends: Vec<u64>,
}

/// The most frequent distances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrequentSeeks {
    /// The number of times that each occurs.
    pub count: u64,
    /// The distances, in the order of btt's tree; in ascending order if there are very many.
    pub distances: Vec<u64>,
    /// btt's median: the distance that makes half of all seeks, else 0.
    pub median: u64,
}

impl SeekDistances {
    /// Adds a range; returns the distance to the one before. Ranges that touch have none.
    #[inline]
    pub fn add(&mut self, start: u64, end: u64) -> i64 {
        let (start, end) = (start as i64, end as i64);
        let within = |sector: i64| self.last_start <= sector && sector <= self.last_end;
        let distance = if within(start) || within(end) {
            0
        } else if start > self.last_end {
            start.wrapping_sub(self.last_end)
        } else {
            start.wrapping_sub(self.last_start)
        };
        (self.last_start, self.last_end) = (start, end);
        let far = distance.unsigned_abs();
        self.count += 1;
        self.total += far as f64;
        self.distances.push(far);
        distance
    }

    /// Moves the distances to the file. Without one, the mode is unknown.
    pub fn spill(&mut self) {
        if self.try_spill().is_err() {
            self.failed = true;
        }
        self.distances = Vec::new();
    }

    fn try_spill(&mut self) -> io::Result<()> {
        self.distances.sort_unstable();
        let spill = match &mut self.spill {
            Some(spill) => spill,
            None => self.spill.insert(Spill { file: tempfile::tempfile()?, ends: Vec::new() }),
        };
        let mut output = BufWriter::new(&mut spill.file);
        let mut pairs = spill.ends.last().copied().unwrap_or(0);
        for run in self.distances.chunk_by(|a, b| a == b) {
            if let Some(distance) = run.first() {
                output.write_all(&distance.to_le_bytes())?;
                output.write_all(&(run.len() as u64).to_le_bytes())?;
                pairs += 1;
            }
        }
        output.flush()?;
        drop(output);
        spill.ends.push(pairs);
        Ok(())
    }

    /// The mode and btt's median; nothing where distances were lost.
    pub fn mode(&mut self) -> Option<FrequentSeeks> {
        if self.spill.is_none() {
            // Only where distances are equally frequent does the tree's order matter.
            let sorted = self.mode_of_sorted();
            let tied = sorted.distances.len() > 1 || sorted.count * 2 >= self.count;
            return Some(tied.then(|| self.mode_of_tree()).flatten().unwrap_or(sorted));
        }
        self.spill();
        let mut finder = Finder::new(self.count);
        if let Some(spill) = &mut self.spill {
            self.failed |= spill.merge(&mut |distance, count| finder.see(distance, count)).is_err();
        }
        (!self.failed).then_some(finder.found)
    }

    fn mode_of_sorted(&self) -> FrequentSeeks {
        let mut sorted = self.distances.clone();
        sorted.sort_unstable();
        let mut finder = Finder::new(self.count);
        for run in sorted.chunk_by(|a, b| a == b) {
            finder.see(run.first().copied().unwrap_or(0), run.len() as u64);
        }
        finder.found
    }

    /// btt keeps distances in a tree, takes the modes in post-order and the median in pre-order.
    fn mode_of_tree(&self) -> Option<FrequentSeeks> {
        const MAX_DISTINCT: usize = 256 << 10;
        let (mut trees, mut root) = (Trees::<CountedSeek>::default(), NIL);
        for distance in &self.distances {
            match trees.find(root, *distance) {
                Some(link) => trees.item(link).count += 1,
                None if trees.len() >= MAX_DISTINCT => return None,
                None => trees.insert(&mut root, CountedSeek { distance: *distance, count: 1 }),
            }
        }
        let (mut modes, mut medians) = (Finder::new(self.count), Finder::new(self.count));
        trees.walk(root, &mut |item, before| {
            let finder = if before { &mut medians } else { &mut modes };
            finder.see(item.distance, item.count);
        });
        Some(FrequentSeeks { median: medians.found.median, ..modes.found })
    }

    /// The mean distance in sectors.
    pub fn mean(&self) -> f64 {
        self.total / self.count as f64
    }
}

/// A distance and how often it occurs.
#[derive(Clone, Copy, Debug, Default)]
struct CountedSeek {
    distance: u64,
    count: u64,
}

impl TreeStart for CountedSeek {
    fn start(&self) -> u64 {
        self.distance
    }
}

/// Looks for the most frequent distances, and the first that makes half of all.
struct Finder {
    found: FrequentSeeks,
    target: u64,
    has_median: bool,
}

impl Finder {
    fn new(seeks: u64) -> Finder {
        Finder { found: FrequentSeeks::default(), target: seeks / 2, has_median: false }
    }

    fn see(&mut self, distance: u64, count: u64) {
        if count > self.found.count {
            self.found.count = count;
            self.found.distances.clear();
        }
        if count == self.found.count {
            self.found.distances.push(distance);
        }
        if count >= self.target && !self.has_median {
            (self.found.median, self.has_median) = (distance, true);
        }
    }
}

impl Spill {
    /// Gives every distance with its number, in ascending order.
    fn merge(&mut self, see: &mut impl FnMut(u64, u64)) -> io::Result<()> {
        let mut from = 0;
        let mut runs = Vec::new();
        for end in &self.ends {
            runs.push(Run { next: from, end: *end, buffer: Vec::new(), at: 0 });
            from = *end;
        }
        let mut heads = std::collections::BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            if let Some((distance, count)) = run.pop(&mut self.file)? {
                heads.push((std::cmp::Reverse(distance), count, index));
            }
        }
        let mut current: Option<(u64, u64)> = None;
        while let Some((std::cmp::Reverse(distance), count, index)) = heads.pop() {
            current = match current {
                Some((same, sum)) if same == distance => Some((same, sum + count)),
                Some((other, sum)) => {
                    see(other, sum);
                    Some((distance, count))
                }
                None => Some((distance, count)),
            };
            if let Some((distance, count)) =
                runs.get_mut(index).map_or(Ok(None), |run| run.pop(&mut self.file))?
            {
                heads.push((std::cmp::Reverse(distance), count, index));
            }
        }
        if let Some((distance, count)) = current {
            see(distance, count);
        }
        Ok(())
    }
}

/// A sorted run that is being read, in pieces.
struct Run {
    next: u64,
    end: u64,
    buffer: Vec<(u64, u64)>,
    at: usize,
}

impl Run {
    fn pop(&mut self, file: &mut File) -> io::Result<Option<(u64, u64)>> {
        if self.at >= self.buffer.len() {
            self.read(file)?;
        }
        let pair = self.buffer.get(self.at).copied();
        self.at += 1;
        Ok(pair)
    }

    fn read(&mut self, file: &mut File) -> io::Result<()> {
        const PIECE: u64 = 4096;
        let pairs = PIECE.min(self.end - self.next);
        file.seek(SeekFrom::Start(self.next * 16))?;
        let mut input = BufReader::new(file.take(pairs * 16));
        self.buffer.clear();
        self.at = 0;
        for _ in 0..pairs {
            let (mut distance, mut count) = ([0; 8], [0; 8]);
            input.read_exact(&mut distance)?;
            input.read_exact(&mut count)?;
            self.buffer.push((u64::from_le_bytes(distance), u64::from_le_bytes(count)));
        }
        self.next += pairs;
        Ok(())
    }
}
