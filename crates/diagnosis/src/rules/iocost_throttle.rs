//! The I/O cost model throttles a cgroup.

use super::*;

rule!(
    "iocost-throttle",
    "io.cost throttling",
    "io.cost gives every cgroup a share of the device's capacity according to its model. A cgroup \
     that exceeds its share waits in the kernel even if the device is idle. A model that \
     underestimates the device throttles every cgroup.",
    "The same waits occur without io.cost.qos enabled.",
    place: Limit,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::Iocost);
    clear_if(waited.class_ns == 0)?;
    let subject = waited.subject();
    let sentence = format!(
        "the kernel's I/O cost model (io.cost) throttles {}{}: its cgroup has used up its share",
        words::who(&subject),
        words::on(&subject),
    );
    Ok(Finding::of_class(facts, &waited, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("time throttled by io.cost", waited.class_ns as f64, "ns", "iowhy waits")
        .also("longest wait", waited.longest_ns() as f64, "ns")
        .fix(
            "raise the weight of its cgroup (io.weight); set a model that fits the device \
              (io.cost.model; iocost_coef_gen.py of the kernel's tools/cgroup measures one, under \
              full load for minutes); or turn io.cost off, which leaves no cgroup protected: `echo \
              \"MAJ:MIN enable=0\" > /sys/fs/cgroup/io.cost.qos`",
        )
        .check(
            "`cat /sys/fs/cgroup/io.cost.qos` shows enable=1; with enable=0 the waits end; if they \
                stay, io.cost is not the cause",
        )
        .into())
}
