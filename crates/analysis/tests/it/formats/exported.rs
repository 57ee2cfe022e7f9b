//! Exports of scripted sources.

use iowhy_analysis::formats::export::{Exported, Exporter, export};
use iowhy_model::script::Script;
use iowhy_model::{Filter, Operation};

/// The export of `script` in batches of 3, and what is said about it.
pub fn exported(script: &Script, format: &mut dyn Exporter) -> (Vec<u8>, Exported) {
    let mut source = Named(script.source(3), script);
    let mut out = Vec::new();
    let exported = export(&mut source, &Filter::default(), format, &mut out).unwrap();
    (out, exported)
}

/// Gives the script's names with its rows.
struct Named<'a>(iowhy_model::source::Scripted, &'a Script);

impl iowhy_model::source::Source for Named<'_> {
    type Error = std::convert::Infallible;

    fn fill(
        &mut self,
        batch: &mut iowhy_model::source::Batch,
        names: &mut iowhy_model::Names,
    ) -> Result<iowhy_model::source::Progress, Self::Error> {
        names.clone_from(&self.1.names);
        self.0.fill(batch, names)
    }

    fn environment(&self) -> &iowhy_model::Environment {
        self.0.environment()
    }
}

/// Requests that overlap, in the order of their completion, as a watch gives them.
pub fn overlapping(device: &str) -> Script {
    let mut script = Script::new(1);
    script.process(7, "dd", "/", "");
    let mut requests: Vec<(i64, u64, u64)> =
        (0..200_u64).map(|n| ((n * 50_000) as i64, 10_000 + n % 7 * 100_000, n * 8)).collect();
    requests.sort_by_key(|(start, length, _)| *start as u64 + length);
    for (index, (start, length, sector)) in requests.into_iter().enumerate() {
        let operation = if index % 3 == 0 { Operation::Write } else { Operation::Read };
        let request = script.request(device, operation).bytes(4096).sector(sector).at(start);
        request.direct(1_000, 2_000, length - 3_000).by(7, "dd").file("/srv/a;b \"c\"").add();
    }
    script.request(device, Operation::Flush).at(20_000_000).bio(5_000).add();
    script
}
