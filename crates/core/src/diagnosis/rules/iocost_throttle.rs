//! The I/O cost model throttles a cgroup.

use super::*;
use crate::model::WaitClass;

rule!(
    "iocost-throttle",
    "the I/O cost model",
    "io.cost gives every cgroup a share of what its model says the device can do. Who asks for \
     more waits in the kernel although the device is idle. A model that underestimates the \
     device throttles everybody.",
    "Waits of the same kind without io.cost.qos enabled.",
    needs: [Waits],
    // It sets the pace of what the device is asked for.
    symptoms: ["serial-reads", "journal-commit", "fsync-heavy", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::Iocost);
    if waited.class_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let subject = waited.subject();
    let sentence = format!(
        "the kernel's I/O cost model (io.cost) throttles {}{}: its cgroup has used up its share",
        words::who(&subject),
        words::on(&subject),
    );
    Ok(Finding::of_blocked(facts, waited.class_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("waits for the cost model", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix(
            "more weight for its cgroup (io.weight); a model that fits the device \
              (io.cost.model; iocost_coef_gen.py of the kernel's tools/cgroup measures one, \
              under full load for minutes); or switch it off, so that no cgroup is protected: \
              `echo \"MAJ:MIN enable=0\" > /sys/fs/cgroup/io.cost.qos`",
        )
        .check(
            "`cat /sys/fs/cgroup/io.cost.qos` shows enable=1; with enable=0 the waits end; if \
                they stay, it is not the cost model",
        )
        .into())
}
