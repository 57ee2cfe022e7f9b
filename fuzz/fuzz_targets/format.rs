//! Any text as a format string, applied to an event.
#![no_main]

use iowhy_core::formats::blktrace::{Batch, Record};
use iowhy_core::formats::events::{EventText, Options, format::Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(format) = Format::parse(text) else { return };
    let mut batch = Batch::default();
    batch.push(Record { action: 13, bytes: 512, ..Record::default() }, &[0; 8]);
    let options = Options { format: Some(format), ..Options::default() };
    EventText::new(options).write(&batch, 0, &mut Vec::new());
});
