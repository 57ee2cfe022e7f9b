//! Writes a recording again with only the processes and stacks that its rows refer to, without the
//! counters of processes, cgroups and other devices, and without where programs outside /usr are,
//! before it is kept in the repository.
//!
//! `cargo run -p iowhy-core --example keep_referred -- RECORDING NEW_DIRECTORY`

use iowhy_core::held_back::HeldBack;
use iowhy_core::model::{Names, Scope};
use iowhy_core::recording::{RecordingReader, RecordingWriter};
use iowhy_core::source::{Batch, Progress, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (from, to) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let mut source = RecordingReader::open(from.as_ref())?;
    let mut writer = RecordingWriter::create(to.as_ref(), source.environment())?;
    let (mut batch, mut names, mut held_back) =
        (Batch::default(), Names::new(), HeldBack::default());
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names)?;
        held_back.exchange(&mut batch, &[]);
        for process in &mut batch.processes {
            process.executable =
                process.executable.filter(|it| names.get(*it).starts_with("/usr/"));
        }
        let devices = &source.environment().devices;
        let is_watched = |name: &str| devices.iter().any(|device| device.name == name);
        batch.samples.retain(|sample| match sample.scope {
            Scope::System => true,
            Scope::Device => is_watched(names.get(sample.subject)),
            Scope::Process | Scope::Cgroup => false,
        });
        writer.add(&batch, &names)?;
        if progress == Progress::Done {
            break;
        }
    }
    let mut environment = source.environment().clone();
    environment.cgroups.clear();
    writer.finish(&mut environment, &names)?;
    Ok(())
}
