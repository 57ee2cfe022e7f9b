//! A setting changed while the watch ran.

use super::*;

rule!(
    "config-regression",
    "a setting that differs",
    "The same load behaves differently under another scheduler, queue length, read-ahead, mount option or \
     kernel. Within one watch iowhy sees settings that changed; between two hosts, or before and after \
     an update, iowhy diff A B shows what differs and in which stage the time differs.",
    "Settings that are the same in both.",
    needs: [Settings],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let changed = &facts.summary().changed_settings;
    let Some(first) = changed.iter().find(|it| it.device.is_some()).or(changed.first()) else {
        return Ok(Verdict::Clear);
    };
    let of = first.device.clone().unwrap_or_else(|| "the machine".to_owned());
    let sentence = format!(
        "{} of {of} changed during the watch, from {} to {}",
        first.setting, first.before, first.after,
    );
    let impact = super::super::finding::LEAST_IMPACT;
    Ok(Finding::of_share(ImpactOf::DeviceTime, impact, 0.0, sentence)
        .about(Subject { device: first.device.clone(), ..Subject::default() })
        .sure(Confidence::Certain)
        .at_most(super::super::finding::Severity::Info)
        .shown("settings that changed", changed.len() as f64, "settings", "iowhy diff A B")
        .fix("find what changed it (a tuning daemon, udev, a script), and set it back if the times got worse")
        .check("`iowhy diff BEFORE AFTER` of a recording before and one after: no stage differs if it does not matter")
        .into())
}
