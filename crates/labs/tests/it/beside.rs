//! blktrace and two iowhys on the same I/O, in guests: every request of the one is in the others,
//! every timestamp of blktrace is between those of the two iowhys, and btt prints the same for all.

use crate::support::trial;
use iowhy_labs::Result;
use iowhy_labs::bench::peers::beside::{ComparedStage, measure};
use iowhy_labs::devices::GivenDevice;
use iowhy_labs::scratch::Scratch;
use libtest_mimic::Trial;

const READS: u64 = 199;

pub fn tests() -> Vec<Trial> {
    if std::env::var_os("IOWHY_GUEST").is_none() {
        return Vec::new();
    }
    vec![trial("beside::blktrace_between_two_iowhys", blktrace_between)]
}

fn blktrace_between() -> Result<()> {
    let scratch = Scratch::new()?;
    let compared = measure(&scratch, &GivenDevice::named("beside")?, READS)?;
    print_stages(&compared.stages);
    assert_eq!(compared.missing, Vec::<String>::new());
    assert_eq!(compared.requests, READS);
    assert_eq!(compared.outside, 0, "of {} stamps, not between two iowhys'", compared.stamps);
    assert!(compared.events > 100, "{} events of buffered writes", compared.events);
    assert_eq!(compared.btt, Vec::<String>::new());
    for stage in &compared.stages {
        assert!(
            stage.first.median <= stage.floor.p99 && stage.second.median <= stage.floor.p99,
            "blktrace is further from an iowhy than two iowhys from each other: {stage:?}"
        );
    }
    Ok(())
}

#[allow(clippy::print_stderr, reason = "the floor is part of the answer")]
fn print_stages(stages: &[ComparedStage]) {
    stages.iter().for_each(|stage| eprintln!("{stage:?}"));
}
