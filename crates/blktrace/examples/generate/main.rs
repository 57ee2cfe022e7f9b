//! Writes a generated capture: `generate FOLDER EVENTS DEVICES CPUS KIND`, where KIND is plain,
//! rich, unsplit, issue, bio, v8 or big (rich ones of protocol 8, or big-endian).

#[path = "../../../labs/src/captures.rs"]
mod generate;

use generate::{GeneratorSettings, Mix, generate};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("no folder given")?);
    let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
    let (events, devices, cpus) = (number(), number(), number());
    let kind = arguments.next();
    let mix = match kind.as_deref() {
        Some("plain") => Mix::Plain,
        Some("unsplit") => Mix::Unsplit,
        Some("issue") => Mix::IssueOnly,
        Some("bio") => Mix::BioOnly,
        _ => Mix::Rich,
    };
    let settings = GeneratorSettings {
        events: events.unwrap_or(20_000),
        devices: devices.unwrap_or(3) as u32,
        cpus: cpus.unwrap_or(4) as u32,
        mix,
        version: if kind.as_deref() == Some("v8") { 8 } else { 7 },
        big_endian: kind.as_deref() == Some("big"),
        ..GeneratorSettings::default()
    };
    std::fs::create_dir_all(&folder)?;
    generate(&folder, settings)?;
    Ok(())
}
