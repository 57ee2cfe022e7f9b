//! Converts usage by key to tables of a summary: folded, ranked, cut, with others, unknown and
//! shares.

use crate::summary::Measure;
use crate::summary::{FlowSummary, OtherUsage, TABLE_ROWS, Unknown, Usage, UsageTable, UsedRow};
use crate::sums::device_layer::DeviceLayer;
use crate::sums::keys::Reason;
use crate::sums::usage_by_key::{Aggregated, Bounded, Used};
use iowhy_model::compact_sort::CompactSort;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::Hash;

/// The totals of shares.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct ShareTotals {
    /// Time of ended and open requests, nanoseconds.
    pub time_ns: u64,
    /// Bytes of ended requests.
    pub bytes: u64,
}

impl ShareTotals {
    pub fn from_used(used: &Used) -> ShareTotals {
        ShareTotals { time_ns: used.time_ns(), bytes: used.all().bytes }
    }
}

/// The usage of one key, with its shares.
pub(crate) fn usage(used: &Used, whole: ShareTotals) -> Usage {
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    let flow = |ended: &Measure| FlowSummary {
        requests: ended.count,
        bytes: ended.bytes,
        time_ns: ended.time_ns,
    };
    let all = used.all();
    Usage {
        requests: all.count,
        bytes: all.bytes,
        time_ns: all.time_ns,
        open_requests: used.open.count,
        open_bytes: used.open.bytes,
        open_time_ns: used.open.time_ns,
        time_share: share(used.time_ns(), whole.time_ns),
        bytes_share: share(all.bytes, whole.bytes),
        directions: used.ended.map(flow),
    }
}

/// Folded keys, and usage that was aggregated before.
pub(crate) struct FoldedKeys<G> {
    pub rows: Vec<(G, Used)>,
    pub aggregated: Aggregated,
}

/// Folds the keys of the slots that `counts` by the result of `group`.
pub(crate) fn fold<K, G>(
    table: &Bounded<K>,
    counts: impl Fn(DeviceLayer) -> bool,
    group: impl Fn(K) -> G,
) -> FoldedKeys<G>
where
    K: Copy + Eq + Hash,
    G: Clone + Eq + Hash,
{
    let mut index: FxHashMap<G, usize> = FxHashMap::default();
    let mut folded = FoldedKeys { rows: Vec::new(), aggregated: Aggregated::default() };
    for row in table.rows().iter().filter(|row| counts(row.device_layer)) {
        let group = group(row.key);
        let slot = *index.entry(group.clone()).or_insert(folded.rows.len());
        match folded.rows.get_mut(slot) {
            Some((_, sum)) => sum.add(&row.used),
            None => folded.rows.push((group, row.used)),
        }
    }
    for (_, aggregated) in table.aggregated().filter(|(layer, _)| counts(*layer)) {
        folded.aggregated.keys += aggregated.keys;
        folded.aggregated.used.add(&aggregated.used);
    }
    folded
}

/// The totals.
pub(crate) fn sum<G>(folded: &FoldedKeys<G>) -> Used {
    let mut sum = folded.aggregated.used;
    folded.rows.iter().for_each(|(_, used)| sum.add(used));
    sum
}

/// Most time first, then most bytes; `tie` puts the rest in an order that depends on neither hashes
/// nor the order of sight.
pub(crate) fn rank<G>(rows: &mut [(G, Used)], tie: impl Fn(&G, &G) -> Ordering) {
    let size = |used: &Used| (used.time_ns(), used.all().bytes, used.all().count);
    rows.compact_sort_by(|a, b| size(&b.1).cmp(&size(&a.1)).then_with(|| tie(&a.0, &b.0)));
}

/// The table of `folded`, with the largest by time and by bytes as rows.
pub(crate) fn table<G, R>(
    mut folded: FoldedKeys<G>,
    unknown: Vec<Unknown>,
    whole: ShareTotals,
    tie: impl Fn(&G, &G) -> Ordering,
    make: impl Fn(&G, &Used) -> R,
) -> UsageTable<R> {
    rank(&mut folded.rows, tie);
    let keep = largest(&folded.rows);
    let mut rows = Vec::new();
    let mut others = folded.aggregated;
    for (keep, (group, used)) in keep.into_iter().zip(&folded.rows) {
        if keep {
            rows.push(UsedRow { subject: make(group, used), usage: usage(used, whole) });
        } else {
            others.keys += 1;
            others.used.add(used);
        }
    }
    let others = OtherUsage { count: others.keys, usage: usage(&others.used, whole) };
    UsageTable { rows, others, unknown }
}

/// The ranked rows that are among the largest by time or by bytes.
fn largest<G>(ranked: &[(G, Used)]) -> Vec<bool> {
    let mut by_bytes: Vec<usize> = (0..ranked.len()).collect();
    by_bytes.compact_sort_by_key(|index| std::cmp::Reverse(ranked[*index].1.all().bytes));
    let mut keep = vec![false; ranked.len()];
    let most_bytes = by_bytes.into_iter().take(TABLE_ROWS);
    most_bytes.chain(0..ranked.len().min(TABLE_ROWS)).for_each(|index| keep[index] = true);
    keep
}

/// The remainder without a key, by reason.
pub(crate) fn unknown<'a>(
    table: &Bounded<Reason>,
    counts: impl Fn(DeviceLayer) -> bool,
    words: impl Fn(Reason) -> &'a str,
    whole: ShareTotals,
) -> Vec<Unknown> {
    let folded = fold(table, counts, words);
    let mut reasons: BTreeMap<&str, Used> = folded.rows.into_iter().collect();
    if folded.aggregated.keys > 0 {
        reasons.entry("other reasons").or_default().add(&folded.aggregated.used);
    }
    let mut rows: Vec<(&str, Used)> = reasons.into_iter().collect();
    rank(&mut rows, Ord::cmp);
    rows.iter()
        .map(|(reason, used)| Unknown { reason: (*reason).to_owned(), usage: usage(used, whole) })
        .collect()
}
