//! iowhy's own I/O during a watch: it reads programs' files to symbolize functions. It is not part
//! of the load, so its waits are left out, and its requests are counted separately.
//!
//! What does not belong here: its CPU time and memory ([`iowhy_model::environment::Cost`]).

use iowhy_model::metric::process_of;
use iowhy_model::source::Batch;
use iowhy_model::{Name, Names, Scope};
use rustc_hash::FxHashSet;
use std::borrow::Cow;

/// The name of iowhy's processes.
pub const PROCESS: &str = "iowhy";

/// Whether the process of that name is iowhy's.
#[inline]
pub fn is_own_name(process: Option<Name>, names: &Names) -> bool {
    process.is_some_and(|name| names.get(name) == PROCESS)
}

/// `batch` without iowhy's own waits, file calls, opens and counters, for views that show a row for
/// each. Requests stay: those of a device are all that it had.
pub fn without_own<'a>(batch: &'a Batch, names: &Names) -> Cow<'a, Batch> {
    let is_own = |process| is_own_name(process, names);
    let is_counter = |scope: Scope, subject: Name| {
        let process = (scope == Scope::Process).then(|| process_of(names.get(subject))).flatten();
        process.is_some_and(|(_, name)| name == PROCESS)
    };
    let has_own = batch.waits.iter().any(|row| is_own(row.process))
        || batch.files.iter().any(|row| is_own(row.process))
        || batch.opens.iter().any(|row| is_own(row.process))
        || batch.samples.iter().any(|row| is_counter(row.scope, row.subject));
    if !has_own {
        return Cow::Borrowed(batch);
    }
    let mut kept = batch.clone();
    let own: FxHashSet<u64> =
        kept.waits.iter().filter(|row| is_own(row.process)).map(|row| row.wait_id).collect();
    kept.waits.retain(|row| !own.contains(&row.wait_id));
    kept.wait_requests.retain(|row| !own.contains(&row.wait_id));
    kept.files.retain(|row| !is_own(row.process));
    kept.opens.retain(|row| !is_own(row.process));
    kept.samples.retain(|row| !is_counter(row.scope, row.subject));
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    #[test]
    fn only_own_rows_go() {
        let mut script = Script::new(1);
        script.read("sda", 4096).by(7, "cat").direct(1, 1, 1_000).add();
        script.read("sda", 4096).by(9, "iowhy").direct(1, 1, 1_000).add();
        let (read, own) =
            (script.batch.requests[0].request_id, script.batch.requests[1].request_id);
        script.wait_for((7, "cat"), 0, 1_000, &[read]);
        script.wait_for((9, "iowhy"), 0, 1_000, &[own]);
        let kept = without_own(&script.batch, &script.names);
        assert_eq!((kept.waits.len(), kept.wait_requests.len()), (1, 1));
        assert_eq!(kept.waits[0].pid, 7);
        assert_eq!(kept.requests.len(), 2, "a device's totals are of all its requests");
        script.batch.waits.retain(|row| row.pid == 7);
        script.batch.wait_requests.truncate(1);
        assert!(matches!(without_own(&script.batch, &script.names), Cow::Borrowed(_)));
    }
}
