//! Tests that drive the built `iowhy` as a user does, on devices made for them; and the test that
//! holds the walls between the crates.
//!
//! A test returns an error to be skipped or to fail, and panics to fail (see [`support::trial`]).
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests, which clippy does not see without #[test]"
)]

mod architecture;
mod bad_captures;
mod bad_input;
mod bare;
mod beside;
mod blame;
mod blktrace;
mod blktrace_defects;
mod blktrace_live;
mod cached;
mod causes;
mod chains;
mod classes;
mod confined;
mod diff;
mod direct;
mod documents;
mod files;
mod filters;
mod gains;
mod guests;
mod hostile;
mod hung;
mod joined;
mod kernels;
mod labs;
mod links;
mod live_labs;
mod locate;
mod metadata;
mod module_order;
mod pages;
mod pods;
mod privilege;
mod probe;
mod published;
mod recorder;
mod recorder_guest;
mod recorder_host;
mod recorder_trouble;
mod recording;
mod records;
mod refused;
mod reproduce;
mod secret;
mod side_by_side;
mod signals;
mod small_check;
mod stacked;
mod support;
mod tables;
mod thinning;
mod top;
mod totals;
mod unit;
mod unwound;
mod vocabulary;
mod volumes;
mod waits;

fn main() {
    let mut arguments = libtest_mimic::Arguments::from_args();
    // Each test has its own device, but the machine's CPUs are shared.
    arguments.test_threads.get_or_insert(2);
    let tests = [
        architecture::tests(),
        causes::tests(),
        module_order::tests(),
        vocabulary::tests(),
        top::tests(),
        labs::tests(),
        links::tests(),
        live_labs::tests(),
        kernels::tests(),
        guests::tests(),
        stacked::tests(),
        volumes::tests(),
        beside::tests(),
        direct::tests(),
        documents::tests(),
        cached::tests(),
        metadata::tests(),
        hung::tests(),
        totals::tests(),
        waits::tests(),
        unwound::tests(),
        secret::tests(),
        classes::tests(),
        files::tests(),
        chains::tests(),
        gains::tests(),
        blame::tests(),
        diff::tests(),
        bad_captures::tests(),
        bad_input::tests(),
        bare::tests(),
        hostile::tests(),
        blktrace::tests(),
        blktrace_defects::tests(),
        blktrace_live::tests(),
        locate::tests(),
        side_by_side::tests(),
        signals::tests(),
        probe::tests(),
        published::tests(),
        reproduce::tests(),
        pages::tests(),
        pods::tests(),
        privilege::tests(),
        confined::tests(),
        filters::tests(),
        tables::tests(),
        thinning::tests(),
        refused::tests(),
        recorder::tests(),
        recorder_trouble::tests(),
        recorder_guest::tests(),
        unit::tests(),
        joined::tests(),
    ];
    libtest_mimic::run(&arguments, tests.into_iter().flatten().collect()).exit();
}
