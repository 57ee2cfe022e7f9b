//! The service's unit gives the daemon the capabilities that it uses, and no others. Whether
//! systemd accepts the unit is tested in a guest that has systemd (`recorder_guest`).

use crate::support::trial;
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, iowhy, machine, process};
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const UNIT: &str = include_str!("../../../../packaging/systemd/iowhy.service");
/// The time that a daemon may take until it watches, on a machine that is busy or emulated.
const PATIENCE: Duration = Duration::from_secs(90);

pub fn tests() -> Vec<Trial> {
    vec![
        trial("unit::its_capabilities_are_enough", enough),
        trial("unit::each_capability_is_used", each),
    ]
}

/// The value of a setting that stands in the unit once.
fn setting(name: &str) -> &'static str {
    let mut values = UNIT.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("the unit has no {name}"));
    assert_eq!(values.next(), None, "{name} stands twice");
    value
}

fn capabilities() -> Vec<String> {
    let names = setting("CapabilityBoundingSet").split_whitespace();
    names.map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect()
}

/// A daemon of root as the unit starts it, with these capabilities: the limits of its watch, or, as
/// the error, its refusal.
fn daemon_with(names: &[String]) -> Result<std::result::Result<String, String>> {
    let scratch = Scratch::new()?;
    let (state, runtime) = (scratch.fresh("state"), scratch.memory()?);
    let (config, said) = (scratch.path().join("iowhy.toml"), scratch.path().join("said"));
    fs::write(&config, "[trigger]\nfinding = \"off\"\npressure-io = \"off\"\n")
        .context(|| "write the configuration".to_owned())?;
    let sets: String = names.iter().map(|name| format!(",+{name}")).collect();
    let lock = setting("LimitMEMLOCK").replace("infinity", "unlimited");
    let mut daemon = Command::new(command::find("bash")?);
    // If a container's root may not set it, the kernel is newer than 5.10 and needs no such limit.
    daemon.args(["-c", "ulimit -l \"$0\" 2>/dev/null; exec \"$@\"", &lock]);
    daemon.arg(command::find("setpriv")?);
    daemon.args(["--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all"]);
    daemon.arg(format!("--bounding-set=-all{sets}")).arg(iowhy::binary()?);
    daemon.args(["daemon", "--config"]).arg(&config).arg("--state").arg(&state);
    daemon.arg("--runtime").arg(&runtime).stdin(Stdio::null()).stdout(Stdio::null());
    let file = fs::File::create(&said).context(|| format!("make {}", said.display()))?;
    let mut daemon = daemon.stderr(file).spawn().context(|| "start the daemon".to_owned())?;
    let recorded = runtime.join("ring/000001/recording.json");
    let begun = Instant::now();
    while !recorded.exists() && daemon.try_wait().is_ok_and(|status| status.is_none()) {
        assert!(begun.elapsed() < PATIENCE, "no ring after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let limits = limits_in(&recorded);
    process::end(&mut daemon);
    Ok(limits.ok_or_else(|| fs::read_to_string(&said).unwrap_or_default()))
}

/// Returns the limits of a recording, as one text; `None` without one.
fn limits_in(recording: &Path) -> Option<String> {
    let text = fs::read(recording).ok()?;
    let json: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(json["limits"].to_string())
}

fn enough() -> Result<()> {
    machine::need_bpf()?;
    let limits = daemon_with(&capabilities())?;
    let limits = limits.unwrap_or_else(|refusal| panic!("it does not start: {refusal}"));
    assert!(!limits.contains("CAP_") && !limits.contains("kptr_restrict"), "{limits}");
    Ok(())
}

/// Without any one of them, something is refused or not visible, and the message names it.
fn each() -> Result<()> {
    machine::need_bpf()?;
    let names = capabilities();
    assert!(names.len() > 3, "{names:?}");
    let hidden = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
    for left_out in &names {
        // If the kernel hides no addresses, nobody needs it.
        if left_out == "syslog" && hidden.trim() == "0" {
            continue;
        }
        let others: Vec<String> = names.iter().filter(|name| *name != left_out).cloned().collect();
        let (Ok(told) | Err(told)) = daemon_with(&others)?;
        let name = format!("CAP_{}", left_out.to_uppercase());
        let is_told = told.contains(&format!("missing {name}"));
        let is_hidden = left_out == "syslog" && told.contains("kernel.kptr_restrict");
        assert!(is_told || is_hidden, "without {name}: {told}");
    }
    Ok(())
}
