//! Threads wait for a program that decides whether files may be opened.

use super::*;

rule!(
    "fanotify-wait",
    "fanotify permission waits",
    "A virus scanner, an audit or a backup agent can subscribe to permission events (fanotify): a \
     process that opens, reads or executes a file then sleeps until that program answers. It may \
     read the whole file first; if it is slow, stopped or short of CPU, so is every other process.",
    "Opens are answered at once, or the listener only takes notifications.",
    place: KernelWork,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::Fanotify);
    clear_if(waited.time_ns == 0)?;
    let subject = Subject { device: None, ..waited.subject() };
    let listener = waited.waker();
    let for_whom = listener
        .map_or("another program".to_owned(), |it| words::process(&it.process, Some(it.pid), None));
    let sentence = format!(
        "{} waits for {for_whom} to allow each open of a file (fanotify), {} on average",
        words::who(&subject),
        words::time(waited.mean_ns()),
    );
    let finding = Finding::of_class(facts, &waited, sentence);
    let own = facts.waits(|group| listener.is_some_and(|it| it.pid == group.pid));
    let finding = match listener {
        Some(_) => {
            finding.shown("time the listener itself waits", own.time_ns as f64, "ns", "iowhy waits")
        }
        None => finding,
    };
    Ok(finding
        .about(subject)
        .sure(Confidence::Certain)
        .shown("blocked time for permission", waited.class_ns as f64, "ns", "iowhy waits")
        .also("permission waits", waited.waits as f64 / facts.seconds(), "1/s")
        .also("longest wait", waited.longest_ns() as f64, "ns")
        .fix(
            "find the listener (`grep -l fanotify /proc/[0-9]*/fdinfo/*`): exclude directories \
             that hold only data of trusted programs (databases, caches, build directories), give \
             it CPU, or let it scan after the fact; turning off a scanner is a security decision",
        )
        .check(
            "exclude the directory in the listener's settings: the waits end; if they stay, they \
             are for something else",
        )
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};

    fn found(each: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((8, "scand"), WaitClass::PageRead, 500 * MS, 500 * MS, 0);
        for _ in 0..100 {
            script.wait((7, "make"), WaitClass::Fanotify, each, 0, 0);
            script.batch.waits.last_mut().unwrap().waker_tid = Some(8);
        }
        script.wait((7, "make"), WaitClass::PageRead, 1000 * MS, 1000 * MS, 0);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "fanotify-wait")
    }

    #[test]
    fn who_waits_for_permission_is_named() {
        let found = found(80 * MS).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Critical, Confidence::Certain));
        assert!(found.sentence.contains("make (7)"), "{}", found.sentence);
        assert!(found.sentence.contains("scand (8) to allow"), "{}", found.sentence);
    }

    #[test]
    fn a_listener_that_answers_at_once_is_no_cause() {
        assert_eq!(found(MS / 20), None);
        assert_eq!(found(MS / 2).unwrap().severity, Severity::Info);
    }
}
