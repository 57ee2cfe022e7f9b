//! One thread writes one small block at a time past the page cache.

use super::serial_reads::serial;
use super::*;

rule!(
    "serial-writes",
    "serial writes",
    "The program writes one small block past the page cache (O_DIRECT), waits, and writes the \
     next. Nothing is queued and nothing is put together, so each write takes the device's full \
     latency and most of its capacity is unused.",
    "Each write is followed by a sync (fsync-heavy), or larger writes are no faster per byte.",
    place: Pattern,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let serial = serial(facts, Direction::Write).ok_or(Clear)?;
    let fix = "write larger blocks (1 MiB and more), or several at once (threads, io_uring, \
               libaio); or write through the page cache and sync once at the end";
    Ok(serial.finding(facts).fix(fix).into())
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    /// A program writes blocks of a size one after the other, 4 ms each, in this call.
    fn found(bytes: u64, call: u32) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..2_400_u64 {
            let write = script.write("sda", bytes).by(7, "restore").at((index * 4 * MS) as i64);
            write.sector(index * bytes / 512).direct(500, 500, 4 * MS - 2000).add();
            script.wait((7, "restore"), WaitClass::Device, 4 * MS, 4 * MS, 0);
            script.waited_on("sda", "/srv/image", call);
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "serial-writes")
    }

    #[test]
    fn small_direct_writes_are_named_with_their_rate() {
        let found = found(4096, 1).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        let said =
            "restore (7) writes /srv/image one block at a time to sda: each takes 4.00 ms, so 250";
        assert!(found.sentence.contains(said), "{}", found.sentence);
    }

    #[test]
    fn a_copy_in_large_blocks_is_no_fault_and_a_sync_is_no_write() {
        assert!(found(1 << 20, 1).is_none_or(|it| it.severity == Severity::Info));
        assert_eq!(found(4096, 74), None);
    }
}
