#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| iowhy_fuzz::capture(bytes));
