//! Each wait class, made to happen: the time is in that class, nearly nothing is unknown, and where
//! the program waits for one thing at a time its own clock says the same. The loads are the ones of
//! `make bench-waits`.

use crate::support::trial_alone;
use iowhy_labs::Result;
use iowhy_labs::classes::{ClassLoad, RunsOn, all, measure};
use libtest_mimic::Trial;

pub fn tests() -> Vec<Trial> {
    let inside = std::env::var_os("IOWHY_GUEST").is_some();
    let place = if inside { RunsOn::Guest } else { RunsOn::Host };
    let loads = all().filter(move |load| load.place == place);
    loads.map(|load| trial_alone(format!("classes::{}", load.name), || made(load))).collect()
}

fn made(load: &ClassLoad) -> Result<()> {
    let measured = measure(load)?;
    let problems = measured.problems(load);
    assert!(problems.is_empty(), "{problems:?}: {measured:?}");
    Ok(())
}
