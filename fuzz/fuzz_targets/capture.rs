//! Any bytes as a capture: read in both orders, joined both ways, printed, imported.
#![no_main]

use iowhy_core::analysis::stages::btt::{Btt, report};
use iowhy_core::analysis::stages::{Stages, text};
use iowhy_core::formats::blktrace::{Batch, Capture, Options, Order};
use iowhy_core::formats::events::{self, EventText, ProcessNames};
use iowhy_core::formats::import::{self, Import};
use iowhy_core::model::Names;
use iowhy_core::source::{self, Progress, Source};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fn open(bytes: &[u8], order: Order) -> Capture {
    Capture::from_reader(Box::new(Cursor::new(bytes.to_vec())), "fuzz", Options { order })
}

fuzz_target!(|bytes: &[u8]| {
    for order in [Order::Time, Order::Blkparse] {
        let mut capture = open(bytes, order);
        let mut stages = Stages::default();
        let mut btt = Btt::default();
        let compatible = order == Order::Blkparse;
        let options = events::Options { compatible, ..events::Options::default() };
        let mut printed = EventText::new(options);
        let (mut batch, mut out) = (Batch::default(), Vec::new());
        while capture.fill(&mut batch) {
            let genesis = capture.genesis();
            stages.take(&batch, genesis);
            btt.take(&batch, genesis);
            printed.write(&batch, genesis, &mut out);
            out.clear();
        }
        stages.finish();
        text::write(&stages, &mut out).unwrap();
        report::write(&mut btt, true, &mut out).unwrap();
        report::write_ranges(&btt, &mut out).unwrap();
        printed.summary.write(&mut out).unwrap();
    }
    let options = import::Options { events: true };
    let mut import = Import::new(open(bytes, Order::Time), ProcessNames::default(), options);
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    while import.fill(&mut batch, &mut names) == Ok(Progress::More) {
        batch.clear();
    }
});
