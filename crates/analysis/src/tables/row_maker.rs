//! The tables of a summary: one for each kind of key that requests are charged to.

use super::fold::{self, FoldedKeys, ShareTotals, fold, sum, table, unknown, usage};
use crate::charge::attribution::Attribution;
use crate::charge::strata::NO_STACK;
use crate::summary::Direction;
use crate::summary::{
    CodePathRow, CodePaths, ContainerRow, FileRow, Ledger, OriginRow, ProcessRow, ProgramRow,
    Samples, Unknown, UsageTable, UsedRow,
};
use crate::sums::device_layer::DeviceLayer;
use crate::sums::keys::{CodePath, FileKey, ProcessKey, Reason};
use crate::sums::stacks::StackRef;
use crate::sums::usage_by_key::{Bounded, Used};
use iowhy_model::metric::process_of;
use iowhy_model::{Name, Names, Origin, Scope};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Converts charges to rows, with the texts of `names`.
pub(crate) struct RowMaker<'a> {
    pub charged: &'a Attribution,
    pub names: &'a Names,
    /// The slots that count: see [`DeviceLayer`].
    pub counted: &'a [bool],
    pub whole: ShareTotals,
}

impl RowMaker<'_> {
    fn counts(&self) -> impl Fn(DeviceLayer) -> bool {
        |device_layer: DeviceLayer| self.counted.get(device_layer.index()).copied().unwrap_or(false)
    }

    pub fn text(&self, name: Name) -> String {
        self.names.get(name).to_owned()
    }

    fn unknown(&self, reasons: &Bounded<Reason>) -> Vec<Unknown> {
        unknown(reasons, self.counts(), |reason| self.reason(reason), self.whole)
    }

    /// A reason in words.
    pub fn reason(&self, reason: Reason) -> &str {
        let submitters = !self.charged.processes.known.rows().is_empty();
        reason.words(submitters, |name| self.names.get(name))
    }

    pub fn process(&self, key: ProcessKey) -> ProcessRow {
        let identity = self.charged.identities.get(&key).copied();
        let text = |name: Option<Name>| name.map(|name| self.text(name));
        ProcessRow {
            pid: key.pid,
            process: self.text(key.name),
            executable: text(identity.and_then(|identity| identity.executable)),
            user: text(identity.and_then(|identity| identity.user)),
            io_class: text(identity.and_then(|identity| identity.io_class)),
            container: text(identity.and_then(|identity| identity.container)),
        }
    }

    /// The processes with counters or waits.
    pub fn identities(
        &self,
        samples: &Samples,
        ledger: Option<&Ledger>,
    ) -> BTreeMap<(u32, String), ProcessRow> {
        let counted = samples.rows.iter().filter(|row| row.metric.info().scope == Scope::Process);
        let counted = counted.filter_map(|row| Some(process_of(&row.subject)?.0));
        let waited =
            ledger.into_iter().flat_map(|ledger| &ledger.processes).map(|process| process.pid);
        let wanted: FxHashSet<u32> = counted.chain(waited).collect();
        let known = self.charged.identities.keys().filter_map(|key| {
            let pid = key.pid.filter(|pid| wanted.contains(pid))?;
            Some(((pid, self.text(key.name)), self.process(*key)))
        });
        known.collect()
    }

    fn process_order(&self) -> impl Fn(&ProcessKey, &ProcessKey) -> std::cmp::Ordering {
        |a, b| (self.names.get(a.name), a.pid).cmp(&(self.names.get(b.name), b.pid))
    }

    fn name_order(&self) -> impl Fn(&Name, &Name) -> std::cmp::Ordering {
        |a, b| self.names.get(*a).cmp(self.names.get(*b))
    }

    pub fn processes(&self) -> UsageTable<ProcessRow> {
        let processes = &self.charged.processes;
        let folded = fold(&processes.known, self.counts(), |key| key);
        let unknown = self.unknown(&processes.unknown);
        table(folded, unknown, self.whole, self.process_order(), |key, _| self.process(*key))
    }

    /// The processes of one device, most time first.
    pub fn processes_of(&self, device: usize, count: usize) -> Vec<UsedRow<ProcessRow>> {
        let here = |device_layer: DeviceLayer| device_layer.device() == device;
        let mut folded = fold(&self.charged.processes.known, here, |key| key);
        fold::rank(&mut folded.rows, self.process_order());
        let whole = self.whole_of(device);
        let row = |(key, used): &(ProcessKey, Used)| UsedRow {
            subject: self.process(*key),
            usage: usage(used, whole),
        };
        folded.rows.iter().take(count).map(row).collect()
    }

    pub fn programs(&self) -> UsageTable<ProgramRow> {
        let mut members: FxHashMap<ProcessKey, Vec<ProcessKey>> = FxHashMap::default();
        for (key, _) in fold(&self.charged.processes.known, self.counts(), |key| key).rows {
            members.entry(key.program()).or_default().push(key);
        }
        let folded = fold(&self.charged.programs, self.counts(), |key| key);
        let reasons = self.unknown(&self.charged.processes.unknown);
        table(folded, reasons, self.whole, self.process_order(), |program, _| {
            self.program(program.name, members.get(program).map_or(&[], Vec::as_slice))
        })
    }

    fn program(&self, name: Name, members: &[ProcessKey]) -> ProgramRow {
        let container = |key: &ProcessKey| self.charged.identities.get(key)?.container;
        let first = members.first().and_then(container);
        let only = first.filter(|_| members.iter().all(|key| container(key) == first));
        ProgramRow {
            process: self.text(name),
            processes: members.len().max(1) as u64,
            pid: if let [only] = members { only.pid } else { None },
            container: only.map(|name| self.text(name)),
        }
    }

    /// Cgroups by container.
    pub fn containers(&self) -> UsageTable<ContainerRow> {
        let cgroups = &self.charged.cgroups;
        let container = |cgroup: Name| self.charged.containers.get(&cgroup).copied();
        let mut by_cgroup = fold(&cgroups.known, self.counts(), |cgroup| cgroup);
        fold::rank(&mut by_cgroup.rows, self.name_order());
        let mut first: FxHashMap<Name, Name> = FxHashMap::default();
        for (cgroup, _) in &by_cgroup.rows {
            first.entry(container(*cgroup).unwrap_or(*cgroup)).or_insert(*cgroup);
        }
        let folded =
            fold(&cgroups.known, self.counts(), |cgroup| container(cgroup).unwrap_or(cgroup));
        let unknown = self.unknown(&cgroups.unknown);
        table(folded, unknown, self.whole, self.name_order(), |name, _| ContainerRow {
            container: self.text(*name),
            cgroup: self.text(first.get(name).copied().unwrap_or(*name)),
        })
    }

    pub fn files(&self) -> UsageTable<FileRow> {
        let files = &self.charged.files;
        let folded = fold(&files.known, self.counts(), |key| key);
        let unknown = self.unknown(&files.unknown);
        let order = |a: &FileKey, b: &FileKey| {
            (self.names.get(a.path), a.deleted).cmp(&(self.names.get(b.path), b.deleted))
        };
        table(folded, unknown, self.whole, order, |key, used| self.file(*key, used))
    }

    fn file(&self, key: FileKey, used: &Used) -> FileRow {
        let moved = [Direction::Read, Direction::Write].map(|at| used.ended[at].count);
        let moved = moved.iter().copied().fold(0_u64, u64::saturating_add);
        let sequential = used.marked.min(moved);
        FileRow {
            file: self.text(key.path),
            deleted: key.deleted,
            sequential_requests: sequential,
            sequential_share: (moved > 0).then(|| sequential as f64 / moved as f64),
        }
    }

    pub fn origins(&self) -> UsageTable<OriginRow> {
        let folded = fold(&self.charged.origins, self.counts(), |origin| origin);
        table(folded, Vec::new(), self.whole, Ord::cmp, |origin, _| OriginRow { origin: *origin })
    }

    pub fn origins_of(&self, device: usize) -> Vec<UsedRow<OriginRow>> {
        let here = |device_layer: DeviceLayer| device_layer.device() == device;
        let folded = fold(&self.charged.origins, here, |origin| origin);
        let make = |origin: &Origin, _: &Used| OriginRow { origin: *origin };
        table(folded, Vec::new(), self.whole_of(device), Ord::cmp, make).rows
    }

    fn whole_of(&self, device: usize) -> ShareTotals {
        let here = |device_layer: DeviceLayer| device_layer.device() == device;
        ShareTotals::from_used(&sum(&fold(&self.charged.origins, here, |origin| origin)))
    }

    pub fn code_paths(&self) -> CodePaths {
        let folded: FoldedKeys<CodePath> =
            fold(&self.charged.code_paths, self.counts(), |path| path);
        let all = sum(&folded);
        let counted = sum(&fold(&self.charged.origins, self.counts(), |origin| origin));
        let requests = |used: &Used| used.all().count.saturating_add(used.open.count);
        CodePaths {
            sampled_requests: all.marked,
            represented_requests: requests(&all).min(requests(&counted)),
            counted_requests: requests(&counted),
            table: self.paths(folded, self.counts()),
        }
    }

    /// The code paths of one device's requests, most time first.
    pub fn code_paths_of(&self, device: usize) -> Vec<UsedRow<CodePathRow>> {
        let here = |device_layer: DeviceLayer| device_layer.device() == device;
        self.paths(fold(&self.charged.code_paths, here, |path| path), here).rows
    }

    fn paths(
        &self,
        folded: FoldedKeys<CodePath>,
        counts: impl Fn(DeviceLayer) -> bool,
    ) -> UsageTable<CodePathRow> {
        let order = |a: &CodePath, b: &CodePath| {
            let text = |path: &CodePath| {
                let row = self.code_path(path);
                (row.origin, row.process, row.kernel, row.user)
            };
            text(a).cmp(&text(b))
        };
        let mut all = sum(&folded);
        if all.marked == 0 {
            return UsageTable::default();
        }
        let mut without = Used::default();
        let own = self.charged.without_stack.iter().filter(|(layer, _)| counts(*layer));
        own.for_each(|(_, used)| without.add(used));
        all.add(&without);
        let whole = ShareTotals::from_used(&all);
        let unknown = Unknown { reason: NO_STACK.to_owned(), usage: usage(&without, whole) };
        let is_any = without != Used::default();
        let unknown = is_any.then_some(unknown).into_iter().collect();
        table(folded, unknown, whole, order, |path, used| CodePathRow {
            samples: used.marked,
            ..self.code_path(path)
        })
    }

    pub fn code_path(&self, path: &CodePath) -> CodePathRow {
        let (kernel, kernel_complete) = self.frames(path.kernel);
        let (user, user_complete) = self.frames(path.user);
        let unwound_by = path.user.and_then(|list| self.charged.stacks.unwound_by(list));
        CodePathRow {
            origin: path.origin,
            process: path.process.map(|name| self.text(name)),
            kernel,
            kernel_complete,
            user,
            user_complete,
            user_unwound_by: unwound_by.map(|way| self.text(way)),
            samples: 0,
        }
    }

    fn frames(&self, list: Option<StackRef>) -> (Vec<String>, bool) {
        match list.and_then(|list| self.charged.stacks.get(list)) {
            Some(list) => {
                (list.frames.iter().map(|name| self.text(*name)).collect(), list.complete)
            }
            None => (Vec::new(), false),
        }
    }
}
