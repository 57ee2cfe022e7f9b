//! The I/O cost model or a latency target of a cgroup holds requests back.

use super::*;
use crate::model::WaitClass;

rule!(
    "iocost-throttle",
    "the I/O cost model",
    "io.cost gives every cgroup a share of what its model says the device can do, and io.latency \
     slows down groups whose neighbours miss their target. A bio then waits in the block layer \
     although the device is idle. A model that underestimates the device throttles everybody.",
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
        "the cost model of its cgroup (io.cost or io.latency) holds {} back{}",
        words::who(&subject),
        words::on(&subject),
    );
    Ok(Finding::of_blocked(facts, waited.class_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("waits for the cost model", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix("a model that fits the device (tools/cgroup/iocost_coef_gen.py), more weight for the cgroup (io.weight), or io.cost.qos enable=0")
        .check("with io.cost.qos disabled the waits end; io.stat of the cgroup shows them as cost.wait")
        .into())
}
