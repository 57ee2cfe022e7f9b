//! From charges to the result of blame.

use super::accounts::{Accounts, BlamePair, Times};
use super::culprit::{Culprit, CulpritFile};
use crate::summary::{BehindRow, BlameShares, BlameSummary, BlamedCulprit, BlamedWaiter};
use crate::sums::keys::{ProcessKey, Reason};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Name, Names, Origin};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Maximum number of listed processes.
const MOST_LISTED: usize = 50;
/// Maximum number of listed culprits of each.
const MOST_BEHIND: usize = 20;
/// Maximum number of listed files of one origin of a culprit; the others are one row.
const MOST_FILES: usize = 3;

pub(super) fn summary(accounts: &Accounts, names: &Names) -> BlameSummary {
    let mut pairs: Vec<&BlamePair> = accounts.pairs().iter().collect();
    pairs.compact_sort_by_key(|pair| (pair.waiter, Reverse(pair.times.whole())));
    let mut waiters: Vec<BlamedWaiter> = pairs
        .chunk_by(|a, b| a.waiter == b.waiter)
        .filter_map(|own| waiter(accounts, own.first()?.waiter, own, names))
        .collect();
    let has_pairs = |number: u32| pairs.binary_search_by_key(&number, |pair| pair.waiter).is_ok();
    let all = 0..accounts.waiters().len() as u32;
    let silent = all.filter(|number| !has_pairs(*number));
    waiters.extend(silent.filter_map(|number| waiter(accounts, number, &[], names)));
    waiters.retain(|waiter| waiter.waits > 0);
    let mut whole = BlameShares::default();
    waiters.iter().for_each(|waiter| whole.add(&waiter.shares));
    waiters.compact_sort_by(|a, b| {
        let size = |blamed_waiter: &BlamedWaiter| {
            (blamed_waiter.shares.others_ns, blamed_waiter.shares.waited_ns)
        };
        size(b).cmp(&size(a)).then(a.pid.cmp(&b.pid))
    });
    waiters.truncate(MOST_LISTED);
    let culprits = culprits(accounts, names);
    let most = culprits.iter().max_by_key(|culprit| culprit.queue_ns);
    let most = most.filter(|most| most.queue_ns > whole.queue_ns / 2);
    let queue_behind = most.and_then(|most| most.process.clone());
    BlameSummary { whole, waiters, culprits, queue_behind }
}

fn waiter(
    accounts: &Accounts,
    number: u32,
    own: &[&BlamePair],
    names: &Names,
) -> Option<BlamedWaiter> {
    let waiter = accounts.waiters().get(number as usize)?;
    let is_own = |pair: &BlamePair| waiter.key.is_some_and(|key| pair.culprit.owner == Ok(key));
    let mut times = waiter.idle;
    times.add(waiter.unknown);
    let mut shares = BlameShares {
        idle_ns: waiter.idle.whole(),
        unknown_ns: waiter.unknown.whole(),
        ..BlameShares::default()
    };
    for pair in own {
        times.add(pair.times);
        let share = if is_own(pair) { &mut shares.own_ns } else { &mut shares.others_ns };
        *share = share.saturating_add(pair.times.whole());
    }
    (shares.queue_ns, shares.device_ns) = (times.queue_ns, times.device_ns);
    shares.waited_ns = times.whole();
    let rows = by_few_files(own);
    let (pid, process) = match waiter.key {
        Some(key) => (key.pid, names.get(key.name).to_owned()),
        None => (None, "(further processes)".to_owned()),
    };
    Some(BlamedWaiter {
        pid,
        process,
        waits: waiter.waits,
        shares,
        foremost: foremost(own, is_own, names),
        behind: rows.iter().take(MOST_BEHIND).map(|row| behind(row, is_own(row), names)).collect(),
        further_ns: sum(rows.iter().skip(MOST_BEHIND)),
    })
}

/// The files of one origin of a culprit.
#[derive(Default)]
struct FewFiles {
    /// The number of those that are rows.
    listed: usize,
    /// The row of the others: of one file, or of several.
    further: Option<BlamePair>,
}

/// Returns the pairs of a waiter, largest first, with the files of an origin beyond the largest few
/// as one: a program that reads thousands of files is one culprit. `own` has the largest first.
fn by_few_files(own: &[&BlamePair]) -> Vec<BlamePair> {
    let mut rows: Vec<BlamePair> = Vec::new();
    let mut of: FxHashMap<(Result<ProcessKey, Reason>, Origin), FewFiles> = FxHashMap::default();
    for pair in own {
        let culprit = pair.culprit;
        if culprit == Culprit::FURTHER {
            rows.push(**pair);
            continue;
        }
        let few = of.entry((culprit.owner, culprit.origin)).or_default();
        match &mut few.further {
            _ if few.listed < MOST_FILES && culprit.file != CulpritFile::Further => {
                few.listed += 1;
                rows.push(**pair);
            }
            None => few.further = Some(**pair),
            Some(row) => {
                row.culprit.file = CulpritFile::Further;
                row.times.add(pair.times);
            }
        }
    }
    rows.extend(of.into_values().filter_map(|few| few.further));
    rows.compact_sort_by(|a, b| {
        let tie = || a.culprit.packed().cmp(&b.culprit.packed());
        b.times.whole().cmp(&a.times.whole()).then_with(tie)
    });
    rows
}

/// The other process that is charged most, in total; `own` has the largest first.
fn foremost(
    own: &[&BlamePair],
    is_own: impl Fn(&BlamePair) -> bool,
    names: &Names,
) -> Option<BehindRow> {
    let mut sums: FxHashMap<Result<ProcessKey, Reason>, Times> = FxHashMap::default();
    let others = || own.iter().filter(|pair| !is_own(pair));
    for pair in others() {
        sums.entry(pair.culprit.owner).or_default().add(pair.times);
    }
    let whole = |pair: &BlamePair| sums.get(&pair.culprit.owner).copied().unwrap_or_default();
    // Among equal ones, that with the largest single share.
    let first = others().rev().max_by_key(|pair| whole(pair).whole())?;
    let times = whole(first);
    let same = || others().filter(|pair| pair.culprit.owner == first.culprit.owner);
    let is_most = |time: u64| time / 4 >= times.whole() / 5;
    let of_origin = |origin| {
        let own = same().filter(|pair| pair.culprit.origin == origin);
        sum(own.copied())
    };
    let mut most = behind(first, false, names);
    let largest = same().next()?;
    if is_most(largest.times.whole()) {
        most = behind(largest, false, names);
    } else {
        (most.file, most.several_files) = (None, true);
        if !is_most(of_origin(largest.culprit.origin)) {
            most.origin = None;
        }
    }
    (most.time_ns, most.queue_ns, most.device_ns) =
        (times.whole(), times.queue_ns, times.device_ns);
    Some(most)
}

fn behind(pair: &BlamePair, own: bool, names: &Names) -> BehindRow {
    let Culprit { owner, origin, file } = pair.culprit;
    let Who { pid, process, reason } = who(pair.culprit, names);
    let aggregated = pair.culprit == Culprit::FURTHER;
    BehindRow {
        pid,
        process,
        reason: reason.filter(|_| owner.is_err()),
        origin: (!aggregated).then(|| origin.word()),
        file: match file {
            CulpritFile::File(file) => Some(names.get(file.path).to_owned()),
            _ => None,
        },
        several_files: file == CulpritFile::Further,
        own,
        time_ns: pair.times.whole(),
        queue_ns: pair.times.queue_ns,
        device_ns: pair.times.device_ns,
    }
}

fn sum<'a>(pairs: impl Iterator<Item = &'a BlamePair>) -> u64 {
    pairs.map(|pair| pair.times.whole()).fold(0, u64::saturating_add)
}

/// A process, or the reason why it is not known.
#[derive(Clone, PartialEq, Eq)]
struct Who {
    pid: Option<u32>,
    process: Option<String>,
    reason: Option<String>,
}

fn who(culprit: Culprit, names: &Names) -> Who {
    match culprit.owner {
        Ok(ProcessKey { pid, name }) => {
            let process = (name != Name::EMPTY).then(|| names.get(name).to_owned());
            Who { pid, process, reason: None }
        }
        Err(_) if culprit == Culprit::FURTHER => {
            let reason = Some("not distinguished".to_owned());
            Who { pid: None, process: None, reason }
        }
        Err(reason) => {
            let words = reason.words(true, |name| names.get(name)).to_owned();
            Who { pid: None, process: None, reason: Some(words) }
        }
    }
}

/// Others' time by culprit.
fn culprits(accounts: &Accounts, names: &Names) -> Vec<BlamedCulprit> {
    let mut sums: Vec<(Culprit, Times)> = Vec::new();
    let mut index: FxHashMap<(Result<ProcessKey, Reason>, bool), usize> = FxHashMap::default();
    for pair in accounts.pairs() {
        let waiter = accounts.waiters().get(pair.waiter as usize).and_then(|waiter| waiter.key);
        if waiter.is_some_and(|key| pair.culprit.owner == Ok(key)) {
            continue;
        }
        let key = (pair.culprit.owner, pair.culprit == Culprit::FURTHER);
        let slot = *index.entry(key).or_insert(sums.len());
        match sums.get_mut(slot) {
            Some((_, times)) => times.add(pair.times),
            None => sums.push((pair.culprit, pair.times)),
        }
    }
    let row = |(culprit, times): (Culprit, Times)| {
        let Who { pid, process, reason } = who(culprit, names);
        let Times { queue_ns, device_ns } = times;
        BlamedCulprit { pid, process, reason, time_ns: times.whole(), queue_ns, device_ns }
    };
    let mut rows: Vec<BlamedCulprit> = sums.into_iter().map(row).collect();
    rows.compact_sort_by(|a, b| {
        let tie = (a.pid, &a.reason).cmp(&(b.pid, &b.reason));
        b.time_ns.cmp(&a.time_ns).then(tie)
    });
    rows.truncate(MOST_LISTED);
    rows
}
