//! Lines of `sadf -d`, which a database would take: `host;interval;timestamp;sda;1.00;…`, and of
//! `sadf -p`, which has a line for each figure, as lines of sar.
//!
//! What does not belong here: the meaning of the columns (see `columns`).

/// A line of `sadf -d`.
#[derive(Debug, PartialEq)]
pub(super) struct SadfLine {
    /// The host that it is of.
    pub host: String,
    /// The length of its interval, seconds; `None` in a header.
    pub interval_s: Option<f64>,
    /// Its text as sar prints it; a header without the time of day.
    pub text: String,
}

/// The line as sar prints it; `None` if it is none of `sadf -d`.
pub(super) fn database(line: &str) -> Option<SadfLine> {
    let mut fields = line.split(';');
    let host = fields.next()?;
    let (second, third) = (fields.next()?, fields.next()?);
    if let Some(host) = host.strip_prefix("# ") {
        let is_header = (host, second, third) == ("hostname", "interval", "timestamp");
        let columns: Vec<&str> = fields.map(|field| field.trim_end_matches("[...]")).collect();
        let text = columns.join(" ");
        return is_header.then(|| SadfLine { host: String::new(), interval_s: None, text });
    }
    let interval_s: f64 = second.parse().ok().filter(|seconds| *seconds >= 0.0)?;
    let time = time_of(third)?;
    let words: Vec<&str> = fields.collect();
    let is_figure = |word: &&str| word.parse::<f64>().is_ok();
    if words.len() < 2 || !words.iter().skip(1).any(is_figure) {
        return None;
    }
    // All CPUs together are -1.
    let words: Vec<&str> =
        words.into_iter().map(|word| if word == "-1" { "all" } else { word }).collect();
    let text = format!("{time} {}", words.join(" "));
    Some(SadfLine { host: host.to_owned(), interval_s: Some(interval_s), text })
}

/// The first columns of the tables that are read: `sadf -p` does not tell where a table begins.
const FIRST: [&str; 9] = [
    "tps",
    "%user",
    "%usr",
    "pswpin/s",
    "pgpgin/s",
    "kbmemfree",
    "kbswpfree",
    "runq-sz",
    "rxpck/s",
];
/// Figures of one row; more are of no table of sar.
const MOST_FIGURES: usize = 60;

/// A line of `sadf -p`: host, interval, time, subject, column and figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SadfFigure<'a> {
    host: &'a str,
    interval_s: f64,
    time: String,
    subject: &'a str,
    column: &'a str,
    figure: &'a str,
}

impl<'a> SadfFigure<'a> {
    /// The figure in a line; `None` if it is none of `sadf -p`.
    pub fn new(line: &'a str) -> Option<SadfFigure<'a>> {
        let mut fields = line.split('\t');
        let mut next = || fields.next().filter(|field| !field.is_empty());
        let (host, interval, time) = (next()?, next()?, next()?);
        let (subject, column, figure) = (next()?, next()?, next()?);
        let interval_s: f64 = interval.parse().ok().filter(|seconds| *seconds >= 0.0)?;
        let is_word = !subject.contains(' ') && !column.contains(' ');
        figure.parse::<f64>().ok().filter(|_| is_word)?;
        Some(SadfFigure { host, interval_s, time: time_of(time)?, subject, column, figure })
    }
}

/// The row of `sadf -p` whose figures are being read.
#[derive(Debug, Default)]
pub(super) struct SadfRow {
    /// Host, time of day, and the row's subject.
    key: (String, String, String),
    interval_s: f64,
    columns: Vec<String>,
    figures: Vec<String>,
    /// The columns of the row before.
    header: String,
}

impl SadfRow {
    /// Takes a figure. If it begins the next row, returns the last one, with its header before it
    /// if that is another than the last.
    pub fn take(&mut self, figure: &SadfFigure<'_>) -> Vec<SadfLine> {
        let SadfFigure { host, time, subject, column, .. } = figure;
        let is_same = self.key.0 == *host && self.key.1 == *time && self.key.2 == *subject;
        let is_first = FIRST.contains(column) || self.columns.iter().any(|known| known == column);
        let is_next = !is_same || is_first || self.columns.len() >= MOST_FIGURES;
        let ended = if is_next { self.end() } else { Vec::new() };
        if self.columns.is_empty() {
            self.key = ((*host).to_owned(), time.clone(), (*subject).to_owned());
            self.interval_s = figure.interval_s;
        }
        self.columns.push((*column).to_owned());
        self.figures.push(figure.figure.to_owned());
        ended
    }

    /// Ends the last row.
    pub fn end(&mut self) -> Vec<SadfLine> {
        let (columns, figures) =
            (std::mem::take(&mut self.columns), std::mem::take(&mut self.figures));
        let Some(first) = columns.first() else { return Vec::new() };
        let (host, time, subject) = &self.key;
        let (kind, subject) = match (first.as_str(), subject.as_str()) {
            (_, "-") => ("", ""),
            ("tps", subject) => ("DEV ", subject),
            ("%user" | "%usr", subject) => ("CPU ", subject),
            (_, subject) => ("OTHER ", subject),
        };
        let header = format!("{kind}{}", columns.join(" "));
        let line = |interval_s, text| SadfLine { host: host.clone(), interval_s, text };
        let row = line(Some(self.interval_s), format!("{time} {subject} {}", figures.join(" ")));
        if header == self.header {
            return vec![row];
        }
        self.header.clone_from(&header);
        vec![line(None, header), row]
    }
}

/// The time of day in `2019-04-18 13:20:19 UTC`, or in seconds since 1970 (`sadf -U`).
fn time_of(timestamp: &str) -> Option<String> {
    if let Ok(seconds) = timestamp.parse::<u64>() {
        let of_day = seconds % 86_400;
        return Some(format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60));
    }
    let time = timestamp.split_whitespace().nth(1)?;
    super::figures::clock(time).map(|_| time.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_sar() {
        let header = "# hostname;interval;timestamp;DEV;tps;rkB/s;%util";
        assert_eq!(database(header).unwrap().text, "DEV tps rkB/s %util");
        let row = database("db1;600;2026-11-25 22:10:00 UTC;sda;150.00;1200.00;97.00").unwrap();
        assert_eq!(row.text, "22:10:00 sda 150.00 1200.00 97.00");
        assert_eq!((row.host.as_str(), row.interval_s), ("db1", Some(600.0)));
        let row = database("db1;600;1795644600;-1;5.00;95.00").unwrap();
        assert_eq!(row.text, "22:10:00 all 5.00 95.00");
        let figure = |time: &str, of: &str, column: &str| {
            format!("db1\t600\t2026-11-25 {time} UTC\t{of}\t{column}\t1.50")
        };
        let mut rows = SadfRow::default();
        let mut lines = Vec::new();
        for (time, of, column) in [
            ("22:10:00", "-", "pswpin/s"),
            ("22:10:00", "-", "pswpout/s"),
            ("22:10:00", "-", "runq-sz"),
            ("22:10:00", "sda", "tps"),
            ("22:10:00", "sda", "%util"),
            ("22:20:00", "sda", "tps"),
            ("22:20:00", "sda", "%util"),
        ] {
            lines.extend(rows.take(&SadfFigure::new(&figure(time, of, column)).unwrap()));
        }
        lines.extend(rows.end());
        let texts: Vec<&str> = lines.iter().map(|line| line.text.trim()).collect();
        let expected = [
            "pswpin/s pswpout/s",
            "22:10:00  1.50 1.50",
            "runq-sz",
            "22:10:00  1.50",
            "DEV tps %util",
            "22:10:00 sda 1.50 1.50",
            "22:20:00 sda 1.50 1.50",
        ];
        assert_eq!(texts, expected);
        for other in ["a;b;c;d", "x", "1;2;3", "db1;-1;2026-11-25 22:10:00 UTC;LINUX-RESTART"] {
            assert_eq!(database(other), None, "{other}");
        }
    }
}
