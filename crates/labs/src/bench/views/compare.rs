//! Pairs of one figure from the outputs of two tools.

use super::scene::{Answer, Answers};
use crate::error::Context;
use crate::{LabError, Result};
use serde_json::Value;

/// One figure of two tools.
#[derive(Clone, Debug)]
pub struct ComparedLine {
    /// The tool and the name of the figure.
    pub figure: String,
    /// The other tool's value.
    pub theirs: f64,
    /// iowhy's value.
    pub ours: f64,
}

/// A row of a histogram: its bounds and its count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramBin {
    /// The shortest time, µs.
    pub from: f64,
    /// All times are below this, µs.
    pub to: f64,
    /// Requests.
    pub count: f64,
}

/// All compared figures, and the tools that could not be compared.
#[derive(Debug, Default)]
pub struct ComparedFigures {
    /// The figures.
    pub lines: Vec<ComparedLine>,
    /// Tools that did not answer, with the reason.
    pub absent: Vec<String>,
    /// Requests that iowhy reports as lost: other tools may have that many more.
    pub lost: f64,
}

impl ComparedFigures {
    pub(super) fn line(&mut self, figure: impl Into<String>, theirs: f64, ours: f64) {
        self.lines.push(ComparedLine { figure: figure.into(), theirs, ours });
    }

    /// Adds the lines of another load, or the reason why there are none.
    ///
    /// # Errors
    /// Fails if the load or iowhy does; a tool that is missing is noted.
    pub fn add(&mut self, lines: impl FnOnce(&mut ComparedFigures) -> Result<()>) -> Result<()> {
        match lines(self) {
            Err(error @ (LabError::Missing { .. } | LabError::Unsupported { .. })) => {
                self.absent.push(error.to_string());
                Ok(())
            }
            other => other,
        }
    }

    /// Adds the lines of one tool, or the reason why there are none.
    fn tool(
        &mut self,
        answer: &Answer,
        mut lines: impl FnMut(&mut ComparedFigures, &str) -> Result<()>,
    ) -> Result<()> {
        match answer {
            Ok(text) => lines(self, text),
            Err(reason) => {
                self.absent.push(reason.clone());
                Ok(())
            }
        }
    }

    /// The line of a figure.
    pub fn find(&self, figure: &str) -> Option<&ComparedLine> {
        self.lines.iter().find(|line| line.figure == figure)
    }
}

/// Compares the outputs of all tools.
pub fn compare(answers: &Answers) -> Result<ComparedFigures> {
    let mut compared = ComparedFigures::default();
    let stat = ViewOutput::from_text(&answers.stat)?;
    let latency = ViewOutput::from_text(&answers.latency)?;
    compared.lost = of(&stat.json["lost_requests"]).max(of(&latency.json["lost_requests"]));
    kernel(&stat, &mut compared);
    let seconds = answers.seconds;
    compared.tool(&answers.iostat, |compared, text| iostat(compared, text, seconds, &stat))?;
    compared.tool(&answers.pidstat, |compared, text| {
        pidstat(compared, text, answers, &ViewOutput::from_text(&answers.proc)?);
        Ok(())
    })?;
    compared.tool(&answers.biolatency, |compared, text| {
        biolatency(compared, text, &latency.json["figures"]["groups"][0]);
        Ok(())
    })?;
    compared.tool(&answers.opensnoop, |compared, text| {
        opensnoop(compared, text, &answers.opens);
        Ok(())
    })?;
    Ok(compared)
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).context(|| "read a tool's JSON".to_owned())
}

fn of(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The letter of a direction in iostat, its name in iowhy, and whether requests of it have bytes.
const DIRECTIONS: [(&str, &str, bool); 4] =
    [("r", "read", true), ("w", "write", true), ("d", "discard", true), ("f", "flush", false)];

/// The output of a view of iowhy, and the length of its interval: a busy machine makes it longer.
struct ViewOutput {
    json: Value,
    seconds: f64,
}

impl ViewOutput {
    fn from_text(text: &str) -> Result<ViewOutput> {
        let json = json(text)?;
        let seconds = (of(&json["end_ns"]) - of(&json["start_ns"])) / 1e9;
        Ok(ViewOutput { json, seconds })
    }

    /// The figures of the first device.
    fn device(&self) -> &Value {
        &self.json["figures"][0]
    }
}

/// Compares the kernel's own counters of exactly the interval that `iowhy stat` shows.
fn kernel(stat: &ViewOutput, compared: &mut ComparedFigures) {
    for (_, direction, _) in DIRECTIONS {
        let own = &stat.device()["directions"][direction];
        let counted = &stat.device()["kernel"]["directions"][direction];
        let theirs = of(&counted["requests"]);
        if theirs > 0.0 {
            let figure = format!("/proc/diskstats, {direction}: requests");
            compared.line(figure, theirs, of(&own["requests"]));
        }
    }
}

/// Compares rates as sums: the intervals are not equally long.
fn iostat(
    compared: &mut ComparedFigures,
    text: &str,
    seconds: f64,
    stat: &ViewOutput,
) -> Result<()> {
    let theirs = json(text)?;
    let theirs = &theirs["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
    let device = stat.device();
    for (letter, direction, has_bytes) in DIRECTIONS {
        let own = &device["directions"][direction];
        if of(&own["requests"]) == 0.0 && of(&theirs[format!("{letter}/s")]) == 0.0 {
            continue;
        }
        let named = |name: &str| name.replacen('*', letter, 1);
        let mut sum = |name: &str, ours: f64| {
            let theirs = of(&theirs[named(name)]) * seconds;
            compared.line(format!("iostat {} × s", named(name)), theirs, ours * stat.seconds);
        };
        sum("*/s", of(&own["requests_per_s"]));
        if has_bytes {
            sum("*kB/s", of(&own["bytes_per_s"]) / 1024.0);
            sum("*rqm/s", of(&own["merges_per_s"]));
        }
        let mut mean = |name: &str, ours: &Value, unit: f64| {
            let theirs = of(&theirs[named(name)]);
            compared.line(format!("iostat {}", named(name)), theirs, of(ours) / unit);
        };
        if has_bytes {
            mean("*areq-sz", &own["average_bytes"], 1024.0);
        }
        mean("*_await", &own["await_ns"], 1e6);
    }
    let sums = [("aqu-sz", "aqu-sz", "aqu_sz", 1.0), ("%util", "util", "util_share", 100.0)];
    for (figure, theirs_key, ours_key, unit) in sums {
        let theirs = of(&theirs[theirs_key]) * seconds;
        let ours = of(&device[ours_key]) * unit * stat.seconds;
        compared.line(format!("iostat {figure} × s"), theirs, ours);
    }
    Ok(())
}

/// The load's row of pidstat and of `iowhy proc`.
fn pidstat(compared: &mut ComparedFigures, text: &str, answers: &Answers, proc: &ViewOutput) {
    let number = answers.pid.to_string();
    let row = text.lines().filter(|row| !row.starts_with("Average")).find_map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        // Time, UID, PID, kB_rd/s, kB_wr/s, kB_ccwr/s, iodelay, Command.
        let at = words.iter().position(|word| *word == number)?;
        let figures = words.get(at + 1..at + 4)?.iter().map(|word| word.parse::<f64>());
        figures.collect::<std::result::Result<Vec<f64>, _>>().ok()
    });
    let rows = proc.json["figures"].as_array().cloned().unwrap_or_default();
    let own = rows.iter().find(|row| row["pid"] == answers.pid).cloned().unwrap_or_default();
    let columns = [
        ("kB_rd/s", "read_bytes_per_s"),
        ("kB_wr/s", "write_bytes_per_s"),
        ("kB_ccwr/s", "cancelled_bytes_per_s"),
    ];
    for (index, (name, field)) in columns.into_iter().enumerate() {
        let theirs = row.as_ref().and_then(|row| row.get(index)).copied().unwrap_or(f64::NAN);
        let ours = of(&own[field]) / 1024.0 * proc.seconds;
        compared.line(format!("pidstat {name} × s"), theirs * answers.seconds, ours);
    }
}

fn biolatency(compared: &mut ComparedFigures, text: &str, group: &Value) {
    let rows = histogram(text);
    let all: f64 = rows.iter().map(|row| row.count).sum();
    let stage = &group["stage"];
    compared.line("biolatency requests", all, of(&stage["requests"]));
    for (name, share, field) in
        [("median", 0.5, "p50_ns"), ("99th percentile", 0.99, "p99_ns"), ("longest", 1.0, "max_ns")]
    {
        let ours = of(&stage[field]) / 1e3;
        let Some(row) = row_of(&rows, share) else { continue };
        // Inside the row there is no difference.
        let theirs = if row.from <= ours && ours < row.to { ours } else { row.to };
        let figure = format!("biolatency {name}, µs (its row: {} to {})", row.from, row.to - 1.0);
        compared.line(figure, theirs, ours);
    }
}

/// biolatency's histogram: `   64 -> 127   : 512   |****|`.
pub fn histogram(text: &str) -> Vec<HistogramBin> {
    let row = |line: &str| {
        let (range, rest) = line.split_once(':')?;
        let (from, to) = range.split_once("->")?;
        let count = rest.split('|').next()?.trim().parse().ok()?;
        let (from, to): (f64, f64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        Some(HistogramBin { from, to: to + 1.0, count })
    };
    text.lines().filter_map(row).collect()
}

/// The row of the percentile `share`.
pub fn row_of(rows: &[HistogramBin], share: f64) -> Option<HistogramBin> {
    let all: f64 = rows.iter().map(|row| row.count).sum();
    let wanted = (all * share).ceil().clamp(1.0, all.max(1.0));
    let mut seen = 0.0;
    rows.iter().copied().find(|row| {
        seen += row.count;
        seen >= wanted
    })
}

/// `PID COMM FD ERR PATH`, a line for each open.
fn opensnoop(compared: &mut ComparedFigures, text: &str, ours: &str) {
    let theirs = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |back: usize| words.get(words.len().checked_sub(back)?).copied();
        let error = at(2)?.parse::<i64>().ok()?;
        Some((at(1)?.to_owned(), error))
    });
    let theirs: Vec<(String, i64)> = theirs.collect();
    let ours = ours.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours: Vec<(String, i64)> = ours
        .map(|open| {
            let file = open["file"].as_str().unwrap_or_default().to_owned();
            (file, open["error"].as_i64().unwrap_or(0))
        })
        .collect();
    let count = |opens: &[(String, i64)], failed: bool| {
        opens.iter().filter(|open| (open.1 != 0) == failed).count() as f64
    };
    compared.line("opensnoop opens", count(&theirs, false), count(&ours, false));
    compared.line("opensnoop failed opens", count(&theirs, true), count(&ours, true));
    let sorted = |mut opens: Vec<(String, i64)>| {
        opens.sort_unstable();
        opens
    };
    let (theirs, ours) = (sorted(theirs), sorted(ours));
    let same = theirs.iter().zip(&ours).filter(|(a, b)| a == b).count() as f64;
    compared.line("opensnoop lines with the same path and error", theirs.len() as f64, same);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found() {
        let text = "     usecs               : count    distribution\n\
                    \x20        0 -> 1          : 0        |    |\n\
                    \x20       64 -> 127        : 30       |****|\n\
                    \x20      128 -> 255        : 10       |*   |\n";
        let rows = histogram(text);
        assert_eq!(rows.len(), 3);
        assert_eq!(row_of(&rows, 0.5), Some(HistogramBin { from: 64.0, to: 128.0, count: 30.0 }));
        assert_eq!(row_of(&rows, 0.75).map(|row| row.from), Some(64.0));
        assert_eq!(row_of(&rows, 1.0).map(|row| row.from), Some(128.0));
        assert_eq!(row_of(&[], 0.5), None);
    }
}
