//! Any text as events of other tools.
#![no_main]

use iowhy_core::formats::blktrace::Batch;
use iowhy_core::formats::text_events::TextReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = TextReader::new(bytes, "fuzz".into());
    let mut batch = Batch::default();
    while reader.read(&mut batch, 64).unwrap() {
        batch.clear();
    }
});
