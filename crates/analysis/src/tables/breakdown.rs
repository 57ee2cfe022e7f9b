//! The words of a breakdown: each subject once, and what did not fit as others.
//!
//! What does not belong here: which combinations there are (`charge::breakdown`), and grouping them
//! ([`Breakdown`]).

use super::row_maker::RowMaker;
use crate::charge::breakdown::{BreakdownTally, UsedKey, WaitedKey};
use crate::summary::{
    Breakdown, BreakdownAxis, BreakdownKey, BreakdownSubject, Measure, NOTHING, ProcessRow,
    UsedShare,
};
use crate::sums::keys::{CodePath, FileKey};
use crate::sums::usage_by_key::{UsageSlot, Used};
use iowhy_model::compact_sort::CompactSort;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Rows that are handed out; what the others used is one row for each device.
const ROWS: usize = 400;
const OTHERS: &str = "others, with less time";

/// All of it in words; `device` names a device by its position.
pub fn breakdown(
    tally: &BreakdownTally,
    rows: &RowMaker,
    device: impl Fn(usize) -> String,
) -> Breakdown {
    let mut maker = Maker { rows, index: FxHashMap::default(), made: Breakdown::default() };
    let mut slots: Vec<&UsageSlot<UsedKey>> = tally.used.rows().iter().collect();
    slots.compact_sort_by_key(|slot| std::cmp::Reverse(slot.used.time_ns()));
    let (listed, rest) = slots.split_at(slots.len().min(ROWS));
    for slot in listed {
        let key = maker.used_key(&device(slot.device_layer.device()), &slot.key);
        maker.made.used.push((key, share(&slot.used)));
    }
    let mut others: FxHashMap<usize, UsedShare> = FxHashMap::default();
    let unlisted = rest.iter().map(|slot| (slot.device_layer, &slot.used));
    let moved = tally.used.aggregated().map(|(place, all)| (place, &all.used));
    for (place, used) in unlisted.chain(moved) {
        others.entry(place.device()).or_default().add(&share(used));
    }
    others.retain(|_, used| *used != UsedShare::default());
    for (slot, used) in others {
        let key = maker.others_key(Some(&device(slot)));
        maker.made.used.push((key, used));
    }
    add_waits(tally, &mut maker);
    maker.made
}

fn add_waits(tally: &BreakdownTally, maker: &mut Maker) {
    let mut waited: Vec<(&WaitedKey, &Measure)> = tally.waited.iter().collect();
    waited.compact_sort_by_key(|(key, sum)| (std::cmp::Reverse(sum.time_ns), key.process.pid));
    let (listed, rest) = waited.split_at(waited.len().min(ROWS));
    for (key, sum) in listed {
        let key = maker.waited_key(key);
        maker.made.waited.push((key, **sum));
    }
    let mut others = tally.unkept;
    rest.iter().for_each(|(_, sum)| others.add(sum));
    if others != Measure::default() {
        let key = maker.others_key(None);
        maker.made.waited.push((key, others));
    }
}

fn share(used: &Used) -> UsedShare {
    let mut share = UsedShare::default();
    share.open = used.open;
    for (direction, ended) in used.ended.iter() {
        share.ended_mut(direction).add(ended);
    }
    share
}

/// Keeps each subject once.
struct Maker<'a> {
    rows: &'a RowMaker<'a>,
    index: FxHashMap<Arc<BreakdownSubject>, u32>,
    made: Breakdown,
}

impl Maker<'_> {
    fn subject(&mut self, subject: BreakdownSubject) -> u32 {
        if let Some(known) = self.index.get(&subject) {
            return *known;
        }
        let subject = Arc::new(subject);
        let slot = self.made.subjects.len() as u32;
        self.made.subjects.push(Arc::clone(&subject));
        self.index.insert(subject, slot);
        slot
    }

    fn none(&mut self, axis: BreakdownAxis, reason: &str) -> u32 {
        self.subject(BreakdownSubject::None(axis, reason.to_owned()))
    }

    fn used_key(&mut self, device: &str, key: &UsedKey) -> BreakdownKey {
        let file = match key.file {
            Ok(FileKey { path, deleted }) => {
                self.subject(BreakdownSubject::File { file: self.rows.text(path), deleted })
            }
            Err(reason) => self.none(BreakdownAxis::File, self.rows.reason(reason)),
        };
        let (process, unit) = match key.owner {
            Ok(owner) => self.process(self.rows.process(owner)),
            Err(reason) => {
                let axes = [BreakdownAxis::Process, BreakdownAxis::Unit];
                axes.map(|axis| self.none(axis, self.rows.reason(reason))).into()
            }
        };
        let device = self.subject(BreakdownSubject::Device(device.to_owned()));
        [NOTHING, device, process, file, self.path(key.path), unit]
    }

    fn waited_key(&mut self, key: &WaitedKey) -> BreakdownKey {
        let class = self.subject(BreakdownSubject::Class(key.class.word()));
        let device = match key.device {
            Some(device) => self.subject(BreakdownSubject::Device(self.rows.text(device))),
            None => self.none(BreakdownAxis::Device, "no device known"),
        };
        let (process, unit) = self.process(self.rows.process(key.process));
        let file = match key.file {
            Some(file) => {
                let file = self.rows.text(file);
                self.subject(BreakdownSubject::File { file, deleted: false })
            }
            None => self.none(BreakdownAxis::File, "no file in the system call"),
        };
        [class, device, process, file, self.path(key.stack), unit]
    }

    /// A process, and the unit that it is in.
    fn process(&mut self, row: ProcessRow) -> (u32, u32) {
        let unit = match &row.container {
            Some(unit) => self.subject(BreakdownSubject::Unit(unit.clone())),
            None => self.none(BreakdownAxis::Unit, "no unit known"),
        };
        (self.subject(BreakdownSubject::Process(row)), unit)
    }

    fn path(&mut self, path: CodePath) -> u32 {
        match (path.kernel, path.user) {
            (None, None) => self.none(BreakdownAxis::CodePath, "no stack taken"),
            _ => self.subject(BreakdownSubject::CodePath(self.rows.code_path(&path))),
        }
    }

    fn others_key(&mut self, device: Option<&str>) -> BreakdownKey {
        let class = match device {
            Some(_) => NOTHING,
            None => self.none(BreakdownAxis::Class, OTHERS),
        };
        let device = match device {
            Some(device) => self.subject(BreakdownSubject::Device(device.to_owned())),
            None => self.none(BreakdownAxis::Device, OTHERS),
        };
        let axes = [
            BreakdownAxis::Process,
            BreakdownAxis::File,
            BreakdownAxis::CodePath,
            BreakdownAxis::Unit,
        ];
        let [process, file, path, unit] = axes.map(|axis| self.none(axis, OTHERS));
        [class, device, process, file, path, unit]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::breakdown::KEYS;
    use crate::pass::Summarizer;
    use crate::script::ScriptSummary;
    use crate::summary::{Summary, UsedRow};
    use iowhy_model::WaitClass;
    use iowhy_model::script::Script;

    fn summary(script: &Script) -> (Summary, Breakdown) {
        let mut summarizer = Summarizer::new(&script.environment).with_breakdown();
        summarizer.add(&script.batch, &script.names);
        let mut summary = summarizer.finish(&script.environment, &script.names);
        let breakdown = summary.breakdown.take().unwrap();
        assert_eq!(summary, script.summary(), "nothing else depends on it");
        (summary, breakdown)
    }

    fn times(rows: &[UsedRow<BreakdownSubject>]) -> u64 {
        rows.iter().map(|row| row.usage.all_time_ns()).sum()
    }

    #[test]
    fn what_is_behind_a_line_adds_up_to_it() {
        let mut script = Script::new(10);
        for (device, pid, file) in
            [("sda", 1, "/a"), ("sda", 1, "/b"), ("sda", 2, "/a"), ("sdb", 2, "/c")]
        {
            let draft = script.read(device, 4096).by(pid, "cat").file(file);
            draft.stacks(&["vfs_read"], &[file], 1).direct(0, 0, 1_000 * u64::from(pid)).add();
        }
        script.write("sda", 512).by(1, "cat").file("/a").direct(0, 0, 7).add();
        let (summary, breakdown) = summary(&script);
        let devices = breakdown.used(&[], BreakdownAxis::Device);
        assert_eq!(times(&devices), summary.watch.time_ns);
        let mut opened = Vec::new();
        let mut rows = devices;
        for axis in [BreakdownAxis::Process, BreakdownAxis::File, BreakdownAxis::CodePath] {
            let first = rows.remove(0);
            opened.push(first.subject);
            rows = breakdown.used(&opened, axis);
            assert_eq!(times(&rows), first.usage.all_time_ns(), "{axis:?}");
            let shares: f64 = rows.iter().map(|row| row.usage.time_share).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{axis:?}: {shares}");
        }
        assert_eq!(breakdown.used(&opened[..1], BreakdownAxis::Process).len(), 2);
        assert!(
            matches!(&rows[0].subject, BreakdownSubject::CodePath(it) if it.kernel == ["vfs_read"])
        );
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let mut script = Script::new(10);
        for index in 0..3 * KEYS as u32 {
            let draft = script.read("sda", 4096).by(index + 1, "cat");
            draft.file(&format!("/{index}")).direct(0, 0, 1_000).add();
        }
        let (summary, breakdown) = summary(&script);
        let files = breakdown.used(&[], BreakdownAxis::File);
        assert!(files.len() <= ROWS + 1, "{} rows", files.len());
        assert_eq!(times(&files), summary.watch.time_ns);
        let others = BreakdownSubject::None(BreakdownAxis::File, OTHERS.to_owned());
        assert!(files.iter().any(|row| row.subject == others));
    }

    #[test]
    fn waits_add_up_to_the_ledger() {
        let mut script = Script::new(10);
        script.wait((7, "cat"), WaitClass::PageRead, 100, 60, 15);
        script.wait((8, "dd"), WaitClass::PageRead, 40, 0, 0);
        let (summary, breakdown) = summary(&script);
        let ledger = summary.ledger.unwrap();
        let classes = breakdown.waited(&[], BreakdownAxis::Class);
        for (row, class) in classes.iter().zip(&ledger.classes) {
            assert_eq!((row.time_ns, row.waits), (class.time_ns, class.waits), "{row:?}");
        }
        let opened = [BreakdownSubject::Class("page_read")];
        let processes = breakdown.waited(&opened, BreakdownAxis::Process);
        assert_eq!(processes.iter().map(|row| row.time_ns).collect::<Vec<_>>(), [40, 25]);
    }
}
