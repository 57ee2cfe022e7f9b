//! Tests that drive the built `iowhy` as a user does, on devices made for them.
#![forbid(unsafe_code)]

fn main() {
    let arguments = libtest_mimic::Arguments::from_args();
    libtest_mimic::run(&arguments, Vec::new()).exit();
}
