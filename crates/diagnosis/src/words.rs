//! Figures within sentences: three significant digits and a unit.

use super::subject::Subject;
use iowhy_analysis::summary::Summary;
use iowhy_model::cgroup::IoLimit;
use iowhy_model::clock::WallClock;
use iowhy_model::figures::three;

/// `13,920`.
pub(crate) use iowhy_model::figures::grouped as count;

pub(crate) use iowhy_model::quantities::{bytes, time};

/// Returns the folder of a file.
pub(crate) fn folder(file: &str) -> Option<&str> {
    file.rsplit_once('/').map(|(folder, _)| folder)
}

/// `0.2 %`, `88 %`.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "nothing".to_owned(),
        p if p < 0.05 => "less than 0.1 %".to_owned(),
        p if p < 9.95 => format!("{p:.1} %"),
        // Only a whole is 100 %.
        p if (99.5..100.0 - 1e-6).contains(&p) => {
            format!("{} %", iowhy_model::quantities::percent(share))
        }
        p => format!("{p:.0} %"),
    }
}

/// `12.3`, `1,391`: a rate or a depth.
pub(crate) fn number(value: f64) -> String {
    if value >= 999.5 { count(value.round() as u64) } else { three(value) }
}

/// Returns a limit of a cgroup: `read 1.00 MiB/s, 400 writes/s`.
pub(crate) fn io_limit(limit: &IoLimit) -> String {
    let of_bytes = |word: &str, value: Option<u64>| {
        value.map(|value| format!("{word} {}/s", bytes(value as f64)))
    };
    let of_calls =
        |word: &str, value: Option<u64>| value.map(|value| format!("{} {word}/s", count(value)));
    let all = [
        of_bytes("read", limit.read_bytes),
        of_bytes("write", limit.write_bytes),
        of_calls("reads", limit.reads),
        of_calls("writes", limit.writes),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A process as sentences name it: `java (30603, jenkins.service)`.
pub(crate) fn process(name: &str, pid: Option<u32>, container: Option<&str>) -> String {
    let name = if name.is_empty() { "a process" } else { name };
    let inside: Vec<String> =
        pid.map(|pid| pid.to_string()).into_iter().chain(container.map(str::to_owned)).collect();
    if inside.is_empty() { name.to_owned() } else { format!("{name} ({})", inside.join(", ")) }
}

/// The subject's process as sentences name it.
pub(crate) fn who(subject: &Subject) -> String {
    let name = subject.process.as_deref().unwrap_or("");
    process(name, subject.pid, subject.container.as_deref())
}

/// The subject's number as a command names it: `30603`, or `PID` where it is not known.
pub(crate) fn pid(subject: &Subject) -> String {
    match subject.pid {
        Some(pid) if pid > 0 => pid.to_string(),
        _ => "PID".to_owned(),
    }
}

/// Returns how a change can be tried on a reproduction instead: `iowhy verify --with SETTING`.
pub(crate) fn tried(setting: &str) -> String {
    format!("; `iowhy verify CASE --with {setting}` tries it on a reproduction")
}

/// ` on sda`, or nothing where the device is not known.
pub(crate) fn on(subject: &Subject) -> String {
    subject.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default()
}

/// The flags of a command that shows only the subject's process, or else its device.
pub(crate) fn flags(subject: &Subject) -> String {
    match (subject.pid, &subject.device) {
        (Some(pid), _) if pid > 0 => format!(" -p {pid}"),
        (_, Some(device)) => format!(" -d {device}"),
        _ => String::new(),
    }
}

/// The common pattern of names, with a star for what differs: `/tmp/*/N.txt`. Differing runs of
/// digits become `N`.
pub(crate) fn pattern(names: &[&str]) -> Option<String> {
    let (first, rest) = names.split_first()?;
    if rest.is_empty() {
        return Some((*first).to_owned());
    }
    let parts: Vec<Vec<&str>> = names.iter().map(|name| name.split('/').collect()).collect();
    let depth = parts.iter().map(Vec::len).min()?;
    if parts.iter().any(|part| part.len() != depth) {
        let common = (0..depth).take_while(|at| same(&parts, *at)).count();
        return Some(format!("{}/...", parts[0][..common].join("/")));
    }
    let words: Vec<String> = (0..depth).map(|at| merged(&parts, at)).collect();
    Some(words.join("/"))
}

fn same(parts: &[Vec<&str>], at: usize) -> bool {
    parts.iter().all(|part| part[at] == parts[0][at])
}

fn merged(parts: &[Vec<&str>], at: usize) -> String {
    if same(parts, at) {
        return parts[0][at].to_owned();
    }
    let ending = |part: &Vec<&str>| {
        part[at].rsplit_once('.').map(|(stem, ending)| (stem.to_owned(), ending.to_owned()))
    };
    let endings: Vec<Option<(String, String)>> = parts.iter().map(ending).collect();
    let Some((_, first)) = &endings[0] else { return "*".to_owned() };
    let is_number = |stem: &str| !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit());
    let known: Vec<&(String, String)> = endings.iter().flatten().collect();
    if known.len() < parts.len() || known.iter().any(|(_, ending)| ending != first) {
        return "*".to_owned();
    }
    let numbers = known.iter().all(|(stem, _)| is_number(stem));
    format!("{}.{first}", if numbers { "N" } else { "*" })
}

/// `09:35:14 (3.20 s after the watch began)`, without the time of day where it is not known. `ns`
/// counts from the begin of the watch.
pub(crate) fn moment(summary: &Summary, ns: u64) -> String {
    let after = format!("{} after the watch began", time(ns as f64));
    match WallClock::from_environment(&summary.environment) {
        Some(clock) => {
            let at_ns = summary.environment.start_ns.saturating_add(ns);
            format!("{} ({after})", clock.time(at_ns))
        }
        None => after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::Script;

    #[test]
    fn a_moment_has_the_time_of_day_where_it_is_known() {
        let mut summary = Script::new(10).summary();
        let after = "3.20 s after the watch began";
        assert_eq!(moment(&summary, 3_200_000_000), after);
        let start_ns = summary.environment.start_ns;
        // 2026-11-20 16:32:05 UTC when the watch began.
        summary.environment.realtime_offset_ns = 1_795_192_325_000_000_000 - start_ns as i64;
        assert_eq!(moment(&summary, 3_200_000_000), format!("16:32:08 ({after})"));
    }

    #[test]
    fn names_have_a_pattern() {
        assert_eq!(pattern(&[]), None);
        assert_eq!(pattern(&["/a/b"]).unwrap(), "/a/b");
        assert_eq!(pattern(&["/tmp/x1/0.txt", "/tmp/y2/999.txt"]).unwrap(), "/tmp/*/N.txt");
        assert_eq!(pattern(&["/db/t/a.d", "/db/t/b.d"]).unwrap(), "/db/t/*.d");
        assert_eq!(pattern(&["/db/a", "/db/c/d"]).unwrap(), "/db/...");
    }

    #[test]
    fn a_number_that_is_not_known_has_a_name() {
        let of = |pid| super::pid(&Subject { pid, ..Default::default() });
        assert_eq!([of(Some(7)), of(Some(0)), of(None)], ["7", "PID", "PID"]);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(time(1_234_567.0), "1.23 ms");
        assert_eq!(bytes(8192.0), "8.00 KiB");
        assert_eq!(percent(0.002), "0.2 %");
        assert_eq!(number(12_345.6), "12,346");
    }
}
