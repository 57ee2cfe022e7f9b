//! `iowhy plot`: plots a recording or a capture.

use crate::args::plot::Plot;
use crate::failure::Failure;
use crate::output;
use crate::partial::PartialOutput;
use crate::sources;
use iowhy_core::analysis::plots::{MAX_DEVICES, Plots};
use iowhy_core::figures::counted;
use iowhy_core::model::Environment;
use iowhy_core::source::Source;
use iowhy_views::plot;

/// Draws the source, and reports what is not shown.
pub fn run(args: &Plot) -> Result<(), Failure> {
    let is_png = match args.output.extension().and_then(|extension| extension.to_str()) {
        Some("png") => true,
        Some("svg") => false,
        _ => {
            let path = args.output.display();
            let hint = "name a file that ends in .svg or .png".to_owned();
            return Err(Failure::new(format!("failed to draw {path}: unknown format"), Some(hint)));
        }
    };
    let (plots, environment) = read(args)?;
    let title = title(&environment);
    let picture = match is_png {
        true => plot::png(&plots, &title),
        false => plot::svg(&plots, &title).map(String::into_bytes),
    };
    let picture = picture.map_err(|error| {
        let hint = "does a filter leave everything out? `iowhy report` shows what there is";
        let hint = matches!(error, plot::PlotError::Empty).then(|| hint.to_owned());
        Failure::new(error, hint)
    })?;
    let partial = PartialOutput::of(&args.output)?;
    std::fs::write(partial.path(), picture)
        .map_err(|cause| Failure::not_written(&args.output, &cause))?;
    partial.finish()?;
    report(&plots, args);
    Ok(())
}

fn read(args: &Plot) -> Result<(Plots, Environment), Failure> {
    let mut source = sources::open(&args.source.paths, false)?;
    let mut plots = Plots::new(source.environment());
    sources::read_all(&mut source, &args.only.filter(), |batch, names, _| {
        plots.add(batch, names);
        Ok(())
    })?;
    let environment = source.environment().clone();
    Ok((plots.finish(&environment), environment))
}

fn title(environment: &Environment) -> String {
    let seconds = environment.duration_ns() as f64 / 1e9;
    let lost = environment.losses.requests();
    let Environment { host, kernel, source, .. } = environment;
    let mut facts = Vec::new();
    match environment.is_imported() {
        true => facts.push(format!("from {source}")),
        false => facts.extend([host.clone(), format!("Linux {kernel}")]),
    }
    facts.push(format!("{seconds:.1} s"));
    if lost > 0 {
        facts.push(format!("{} lost", counted(lost, "requests")));
    }
    facts.join(", ")
}

fn report(plots: &Plots, args: &Plot) {
    output::note(&format!("drew {}", args.output.display()));
    let rest: Vec<&str> =
        plots.devices.iter().skip(plot::MOST_DEVICES).map(|one| one.device.as_str()).collect();
    if !rest.is_empty() {
        let rest = rest.join(" ");
        output::note(&format!(
            "not drawn, because they have less I/O: {rest} (select with \
            --device)"
        ));
    }
    if plots.censored > 0 {
        let what = "requests are shown in the offsets only: part of their time was not observed";
        output::note(&counted(plots.censored, what));
    }
    if plots.left_out > 0 {
        let what = format!("requests are of devices beyond the first {MAX_DEVICES}");
        output::note(&counted(plots.left_out, &what));
    }
}
